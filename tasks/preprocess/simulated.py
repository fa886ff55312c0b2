"""Simulated tables whose model is a known function, so that joint Shapley values are known too (Tables 2 and 3)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np

from explainers.streams import stream
from tasks.preprocess.errors import DataError
from tasks.preprocess.table_source import Table, TableSource

FEATURES = ("x1", "x2", "x3")
Terms = tuple[tuple[float, tuple[int, ...]], ...]
FUNCTIONS: dict[str, Terms] = {
    "first": ((1.0, (1, 0, 0)),),
    "sum": ((1.0, (1, 0, 0)), (1.0, (0, 1, 0))),
    "difference": ((1.0, (1, 0, 0)), (-1.0, (0, 1, 0))),
    "product": ((1.0, (1, 1, 0)),),
}


class Simulated(TableSource):
    """Features without a file, and a known function of them; ``data.task`` names the function."""

    learnt: ClassVar[bool] = False

    def check(self) -> None:
        """Do nothing: there are no files."""
        return None

    def inputs(self) -> list[Path]:
        """Return nothing: there are no files."""
        return []

    def terms(self) -> Terms:
        """Return the function."""
        return FUNCTIONS[self.data.task]

    def labelled(self, features: np.ndarray) -> Table:
        """Return the table of ``features`` (rows, 3) with the function's values."""
        labels = sum(weight * (features ** np.array(powers)).prod(1) for weight, powers in self.terms())
        return Table(FEATURES, features, np.asarray(labels))


class Uniform(Simulated):
    """Simulated: three uniform features and a known function of two of them (joint Shapley paper, Table 2)."""

    name = "uniform"

    def read(self) -> Table:
        """Draw the table; with ``data.table.correlated``, x2 = 1 - x1."""
        table = self.data.table
        features = stream(self.seed, self.name).uniform(size=(table.rows, len(FEATURES)))
        if table.correlated:
            features[:, 1] = 1 - features[:, 0]
        return self.labelled(features)


class Bernoulli(Simulated):
    """Simulated: three fair coins and a known function of two of them (joint Shapley paper, Table 3).

    Decision: the table holds each of the eight outcomes once, which is the paper's limit of infinitely many draws.
    """

    name = "bernoulli"

    def read(self) -> Table:
        """Return the eight outcomes."""
        if self.data.table.correlated:
            raise DataError("data.table.correlated is true", "bernoulli", "set it to false: it is for uniform features")
        return self.labelled(np.array(list(product([0.0, 1.0], repeat=len(FEATURES)))))
