"""Public text and image data sets: parquet files in a folder, or their public home."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyarrow import parquet

from tasks.content import Kind
from tasks.preprocess.errors import DataError
from tasks.preprocess.source import Source

if TYPE_CHECKING:
    import datasets

GIVEN = ("train", "test")


class PublicSource(Source):
    """A data set with a published training and test part, in the layout of its public home.

    Attributes:
        home: its public name, for ``datasets.load_dataset``.
        classes: names of the classes that take part, in the order of the labels 0, 1, ...
        columns: the raw columns that are read.
    """

    home: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    columns: ClassVar[tuple[str, ...]]

    def check(self) -> None:
        """Raise DataError where a folder is given and lacks a part's files or a column."""
        if self.data.path is None:
            return
        for part in GIVEN:
            for path in self.files(part):
                try:
                    there = parquet.read_schema(path).names
                except (OSError, ValueError) as error:
                    raise DataError(
                        "a file cannot be read as parquet", path.name, "give the files as published"
                    ) from error
                missing = [column for column in self.columns if column not in there]
                if missing:
                    told = f"{path.name} has {', '.join(there)}"
                    raise DataError(f"the column {missing[0]} is missing", told, f"give the layout of {self.home}")

    def files(self, part: str) -> list[Path]:
        """Return a part's parquet files in the folder, named ``PART*.parquet`` as the public home names them.

        Raises:
            DataError: there is no such folder, or no file of this part.
        """
        folder = self.data.path
        assert folder is not None, "only a data set with a folder has files"
        if not folder.is_dir():
            raise DataError("no such folder", str(folder), f"give the folder of {self.name}'s parquet files: data.path")
        found = sorted(folder.glob(f"**/{part}*.parquet"))
        if not found:
            there = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
            raise DataError(
                f"no {part}*.parquet in {folder}", f"it holds {there}", "give the layout of its public home"
            )
        return found

    def inputs(self) -> list[Path]:
        """Return the parquet files, or what the public home's loader keeps on this machine."""
        encoder = self.encoder_files()
        if self.data.path is not None:
            return [path for part in GIVEN for path in self.files(part)] + encoder
        kept = [self.public(part).cache_files for part in GIVEN]
        return sorted(Path(file["filename"]) for part in kept for file in part) + encoder

    def encoder_files(self) -> list[Path]:
        """Return the files of a pretrained encoder that lies in a folder."""
        folder = Path(self.data.text.pretrained)
        if self.data.text.unit != "pieces" or not folder.is_dir():
            return []
        return sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".txt", ".safetensors"))

    def rows(self, part: str) -> datasets.Dataset:
        """Return the raw rows of ``train`` or ``test``."""
        import datasets

        if self.data.path is None:
            return self.public(part)
        tables = [parquet.read_table(path, columns=list(self.columns)) for path in self.files(part)]
        return datasets.concatenate_datasets([datasets.Dataset(table) for table in tables])

    def public(self, part: str) -> datasets.Dataset:
        """Return a part from the public home.

        Raises:
            DataError: it cannot be reached, and nothing of it is kept on this machine.
        """
        import datasets

        try:
            return datasets.load_dataset(self.home, split=part)
        except (OSError, ValueError) as error:
            offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
            raise DataError(
                f"{self.home} cannot be loaded from its public home{offline}",
                type(error).__name__,
                "go online, or give a folder of its parquet files: data.path=FOLDER",
            ) from error

    @abstractmethod
    def label(self, row: dict[str, Any]) -> int | None:
        """Return a raw row's class, None where the row takes no part."""


class TextSource(PublicSource):
    """Texts with a class each."""

    kind: ClassVar[Kind] = "text"

    def text(self, row: dict[str, Any]) -> str:
        """Return a raw row's text."""
        return str(row["text"])

    def label(self, row: dict[str, Any]) -> int | None:
        """Return the row's label as published."""
        return int(row["label"])

    columns: ClassVar[tuple[str, ...]] = ("text", "label")


class ImageSource(PublicSource):
    """Images with a class each; two of the published classes take part.

    Attributes:
        pixels: the raw column that holds the encoded image.
        published: the published labels that take part.
    """

    kind: ClassVar[Kind] = "image"
    pixels: ClassVar[str]
    published: ClassVar[tuple[int, ...]]

    def label(self, row: dict[str, Any]) -> int | None:
        """Return 0, 1, ... for the published labels that take part."""
        return self.published.index(row["label"]) if row["label"] in self.published else None
