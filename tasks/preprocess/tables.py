"""Raw tables on disk: finding them, reading their headers, and views over them that DuckDB streams."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from explainers.registry import nearest
from tasks.preprocess.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".parquet")
FULLY_READ_BYTES = 16 << 20
FIRST_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class RawTable:
    """One table on disk.

    Attributes:
        name: its lower-case name, as in the queries.
        path: the file.
        columns: the file's own column names by their lower-case ones, in file order.
    """

    name: str
    path: Path
    columns: Mapping[str, str]


def find_tables(folder: Path, wanted: Mapping[str, tuple[str, ...]]) -> list[RawTable]:
    """Return the wanted tables in ``folder``, each with its required columns.

    Args:
        folder: holds one file a table: NAME.csv, NAME.csv.gz or NAME.parquet, in upper or lower case.
        wanted: lower-case required columns by lower-case table name.

    Raises:
        DataError: no such folder, a table missing or there twice, unreadable, or without a required column.
    """
    if not folder.is_dir():
        raise DataError("no such folder", str(folder), "give the folder of the tables (data.path=FOLDER)")
    files = sorted(path for path in folder.iterdir() if path.is_file() and table_name(path))
    return [open_table(find_file(folder, files, name), name, columns) for name, columns in wanted.items()]


def table_name(path: Path) -> str:
    """Return the lower-case table name of ``path``, empty where its ending is none of :data:`SUFFIXES`."""
    low = path.name.lower()
    return next((low.removesuffix(end) for end in reversed(SUFFIXES) if low.endswith(end)), "")


def find_file(folder: Path, files: list[Path], name: str) -> Path:
    """Return the one file among ``files`` that holds table ``name``."""
    found = [path for path in files if table_name(path) == name]
    if not found:
        endings = " or ".join(name + end for end in SUFFIXES)
        known = nearest(name, [path.name for path in files]) if files else "the folder holds no table"
        raise DataError("missing table", f"{name} in {folder}", f"add {endings}, upper or lower case; {known}")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(f"table {name} is there more than once", names, f"keep one of them in {folder}")
    return found[0]


def open_table(path: Path, name: str, required: tuple[str, ...]) -> RawTable:
    """Return the table at ``path`` after checking that it can be read and has the ``required`` columns."""
    if path.name.lower().endswith(".gz"):
        check_gzip(path)
    header = parquet_header(path) if is_parquet(path) else csv_header(path)
    columns = {column.strip().lower(): column for column in header}
    if len(columns) < len(header):
        raise DataError("two columns of one name", path.name, "rename one of them; upper and lower case are the same")
    for column in required:
        if column not in columns:
            raise DataError(
                f"missing column in {path.name}", column, f"add it or rename one; {nearest(column, list(columns))}"
            )
    return RawTable(name, path, columns)


def is_parquet(path: Path) -> bool:
    """Say whether ``path`` ends in .parquet, in any case."""
    return path.name.lower().endswith(".parquet")


def check_gzip(path: Path) -> None:
    """Raise DataError where the first block of ``path`` (the whole file up to 16 MB) cannot be decompressed."""
    whole = path.stat().st_size <= FULLY_READ_BYTES
    try:
        with gzip.open(path, "rb") as file:
            while file.read(FIRST_BLOCK_BYTES) and whole:
                continue
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, "truncated" if isinstance(error, EOFError) else "not a whole gzip file") from None


def unreadable(path: Path, why: str) -> DataError:
    """Return the error for a file that cannot be read."""
    return DataError("unreadable file", f"{path} ({why})", "download or copy it again and compare its checksum")


def csv_header(path: Path) -> list[str]:
    """Return the first line's fields."""
    try:
        opened = gzip.open if path.name.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        raise unreadable(path, "its beginning is no UTF-8 text") from None
    if not header:
        raise unreadable(path, "empty: it has no header")
    return header


def parquet_header(path: Path) -> list[str]:
    """Return the column names of a parquet file."""
    try:
        return list(pq.read_schema(path).names)
    except (OSError, pa.ArrowInvalid):
        raise unreadable(path, "not a parquet file") from None


def create_view(connection: duckdb.DuckDBPyConnection, table: RawTable) -> None:
    """Make ``table`` a view with lower-case columns; a CSV's are all text, an empty field is NULL."""
    if is_parquet(table.path):
        fields = ", ".join(f"{identifier(raw)} AS {identifier(low)}" for low, raw in table.columns.items())
        source = f"SELECT {fields} FROM read_parquet({literal(table.path)})"
    else:
        columns = ", ".join(f"{literal(low)}: 'VARCHAR'" for low in table.columns)
        packed = "gzip" if table.path.name.lower().endswith(".gz") else "none"
        source = (
            f"SELECT * FROM read_csv({literal(table.path)}, columns={{{columns}}}, header=true, auto_detect=false, "
            f"delim=',', quote='\"', escape='\"', nullstr='', compression='{packed}')"
        )
    connection.execute(f"CREATE TEMP VIEW {identifier(table.name)} AS {source}")


def identifier(name: str) -> str:
    """Quote a table's or column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Quote a text for SQL."""
    return "'" + str(value).replace("'", "''") + "'"


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn DuckDB's errors into DataError: its own messages may quote rows, and with them identifiers."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise DataError(
            "out of memory", f"while reading {name}", "raise data.memory_limit or free disk space"
        ) from None
    except duckdb.BinderException:
        raise DataError(
            "unusable table",
            f"{name}: a column's type does not fit",
            "write its columns as text, numbers or timestamps",
        ) from None
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.ConversionException) as error:
        kind = "truncated gzip" if "GZIP" in str(error) else type(error).__name__
        raise DataError(
            "unreadable table", f"{name} ({kind})", "download or copy its file again, and check that it is UTF-8 CSV"
        ) from None
