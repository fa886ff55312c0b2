"""Boston housing (Harrison and Rubinfeld 1978), to reproduce a published table and for nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tasks.preprocess.errors import DataError
from tasks.preprocess.table_source import Table, TableSource

FILE = "boston_housing.csv"
FEATURES = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT")
PRICE = "MEDV"


class Boston(TableSource):
    """Boston housing: the median home value of 506 census tracts from 13 features (a number is predicted).

    Its column B is a transform of the share of Black residents, which is why the data set was withdrawn elsewhere.
    """

    name = "boston"

    def path(self) -> Path:
        """Return the CSV file."""
        assert self.data.path is not None, "this data set has a folder"
        return self.data.path / FILE

    def check(self) -> None:
        """Raise DataError where the file is missing or lacks a column."""
        if not self.path().is_file():
            raise DataError(
                f"no {FILE} in {self.data.path}", "it is needed", "give the folder that holds it: data.path"
            )
        there = list(pd.read_csv(self.path(), nrows=0).columns)
        missing = [name for name in (*FEATURES, PRICE) if name not in there]
        if missing:
            raise DataError(f"the column {missing[0]} is missing", f"{FILE} has {', '.join(there)}", "add it")

    def inputs(self) -> list[Path]:
        """Return the CSV file."""
        return [self.path()]

    def read(self) -> Table:
        """Return the table; prices are in thousands of dollars."""
        frame = pd.read_csv(self.path(), usecols=[*FEATURES, PRICE]).apply(pd.to_numeric, errors="coerce")
        bad = frame.isna().any(axis=1)
        if bad.any():
            row, name = int(np.argmax(bad)), str(frame.columns[frame.isna().any(axis=0)][0])
            raise DataError(f"row {row + 2} of {FILE} is not all numbers", name, "mend or drop it")
        return Table(FEATURES, frame[list(FEATURES)].to_numpy(np.float64), frame[PRICE].to_numpy(np.float64))
