"""Tables: rows of numbers with a class or a number to predict, one player a column."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tasks.content import Kind
from tasks.preprocess.source import Source


@dataclass(frozen=True)
class Table:
    """A data set of r rows and n features.

    Attributes:
        names: n names of features.
        features: (r, n) float64.
        labels: (r,) classes from 0 as int64, or numbers to predict as float64.
        first: rows that the test part begins with, so that they are explained.
        facts: what the audit tells beside the counts.
    """

    names: tuple[str, ...]
    features: np.ndarray
    labels: np.ndarray
    first: tuple[int, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


class TableSource(Source):
    """A table.

    Attributes:
        classes: names of the classes 0, 1, ...; none where a number is predicted.
        learnt: whether a model is learnt from it; a known function needs no test part, so each part is the whole table.
    """

    kind: ClassVar[Kind] = "table"
    classes: ClassVar[tuple[str, ...]] = ()
    learnt: ClassVar[bool] = True

    @abstractmethod
    def read(self) -> Table:
        """Return the table.

        Raises:
            DataError: files that cannot be used.
        """

    def terms(self) -> tuple[tuple[float, tuple[int, ...]], ...]:
        """Return the known function as (coefficient, one exponent a feature) terms; none where a model is learnt."""
        return ()
