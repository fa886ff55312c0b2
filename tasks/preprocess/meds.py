"""Data in the Medical Event Data Standard (MEDS), checked with the ``meds`` package's schemas."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from flexible_schema import SchemaValidationError, TableValidationError
from meds import DataSchema, LabelSchema, SubjectSplitSchema, data_subdirectory, subject_splits_filepath

from tasks.preprocess.errors import DataError
from tasks.preprocess.event_source import Events, EventSource, Reason, microseconds
from tasks.preprocess.tables import literal, unreadable


class Meds(EventSource):
    """MEDS: coded events of subjects, with a label file (parquet in data/ of one folder).

    Decisions: a stay is a (subject, prediction time) of the label file, and the label file is the cohort: age, first
    stay and gap are not asked. Its window is the last ``window_hours`` up to and including the prediction time,
    ``prediction - window < t <= prediction``, and hours count from the window's start. Codes are kept as they are
    written. Rows without a time are static facts and left out. ``metadata/subject_splits.parquet`` is used where it
    is there (option ``split.given``); without tuning subjects the validation part is cut from train.
    """

    name = "meds"

    def files(self) -> dict[str, list[Path]]:
        """Return the parquet files by what they hold: data, labels and splits (an empty list where there is none)."""
        folder, labels = self.data.path, self.data.labels_path
        assert folder is not None and labels is not None, "conf asks for both paths"
        splits = folder / subject_splits_filepath
        return {
            "data": parquet_files(folder / data_subdirectory, "data.path must hold data/**/*.parquet"),
            "labels": parquet_files(labels, "data.labels_path must be a parquet file or a folder of them"),
            "splits": [splits] if self.data.split.given and splits.is_file() else [],
        }

    def check(self) -> None:
        """Raise DataError where a file is missing or does not fit."""
        files = self.files()
        for path in files["data"]:
            check_schema(path, DataSchema, {"time": pa.types.is_timestamp})
        for path in files["labels"]:
            check_schema(path, LabelSchema, {"prediction_time": pa.types.is_timestamp})
            found = pq.read_schema(path)
            if "boolean_value" not in found.names:
                raise DataError("missing column in the label file", "boolean_value", "give binary labels")
            if not pa.types.is_boolean(kind := found.field("boolean_value").type):
                raise DataError("not a MEDS LabelSchema", f"{path.name}: boolean_value is {kind}", "write it as bool")
        for path in files["splits"]:
            check_schema(path, SubjectSplitSchema, {})

    def inputs(self) -> list[Path]:
        """Return the files, sorted."""
        return sorted(path for paths in self.files().values() for path in paths)

    def open(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the files views."""
        for name, paths in self.files().items():
            source = ", ".join(literal(path) for path in paths)
            empty = "SELECT NULL::VARCHAR AS subject_id, NULL::VARCHAR AS split WHERE false"
            scan = f"SELECT * FROM read_parquet([{source}], union_by_name=true)" if paths else empty
            connection.execute(f"CREATE TEMP VIEW meds_{name} AS {scan}")

    def candidates(self) -> str:
        """Return the query for the stays with windows and labels."""
        window = microseconds(self.data.cohort.window_hours)
        return f"""
            WITH l AS (
                SELECT ident(subject_id) AS patient, epoch_us(prediction_time) AS moment,
                    CAST(min(boolean_value) AS TINYINT) AS label, min(boolean_value) <> max(boolean_value) AS disputed
                FROM meds_labels GROUP BY 1, 2),
            s AS (
                SELECT ident(subject_id) AS subject,
                    CASE WHEN min(split) <> max(split) THEN NULL WHEN min(split) = 'train' THEN 'train'
                        WHEN min(split) = 'tuning' THEN 'validation' WHEN min(split) = 'held_out' THEN 'test'
                    END AS given
                FROM meds_splits GROUP BY 1)
            SELECT patient || '|' || moment AS stay, patient, patient AS key, label, disputed, given,
                moment - {window} AS origin, moment - {window} + 1 AS start, moment + 1 AS stop, moment AS day
            FROM l LEFT JOIN s ON s.subject = l.patient"""

    def reasons(self) -> list[Reason]:
        """Return the reasons in the order in which they apply."""
        reasons = [
            Reason("no subject or prediction time", "stay IS NULL"),
            Reason("contradicting labels at one time", "disputed"),
            Reason("no label", "label IS NULL"),
        ]
        if self.files()["splits"]:
            reasons.append(Reason("not in exactly one of the splits train, tuning, held_out", "given IS NULL"))
        return reasons

    def events(self) -> list[Events]:
        """Return one query a table."""
        return [
            Events(
                "data",
                """SELECT ident(subject_id) AS key, NULL::VARCHAR AS stay, epoch_us("time") AS time, code,
                    CASE WHEN "time" IS NULL THEN 'static fact (no time)'
                        WHEN code IS NULL THEN 'no code' END AS unusable
                FROM meds_data""",
            )
        ]


def parquet_files(place: Path, remedy: str) -> list[Path]:
    """Return the parquet file ``place``, or those under the folder ``place``, sorted."""
    found = [place] if place.is_file() else sorted(place.glob("**/*.parquet"))
    if not found:
        raise DataError("no parquet file", str(place), remedy)
    return found


def check_schema(path: Path, schema: type, kinds: dict) -> None:
    """Raise DataError where the file at ``path`` does not fit a schema of the ``meds`` package."""
    try:
        found = pq.read_schema(path)
        schema.align(found.empty_table())  # type: ignore[attr-defined]
    except (OSError, pa.ArrowInvalid):
        raise unreadable(path, "not a parquet file") from None
    except (SchemaValidationError, TableValidationError) as error:
        raise DataError(
            f"not a MEDS {schema.__name__}",
            f"{path.name}: {error}; it has {', '.join(found.names)}",
            "mend the columns",
        ) from None
    for column, fits in ({"subject_id": pa.types.is_integer} | kinds).items():
        if not fits(found.field(column).type):
            raise DataError(
                f"not a MEDS {schema.__name__}",
                f"{path.name}: {column} is {found.field(column).type}",
                f"write it as {schema.schema().field(column).type}",  # type: ignore[attr-defined]
            )
