"""Movie reviews as the words that are in them (Pang and Lee 2005; joint Shapley paper, section 4.2.3)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from pyarrow import parquet

from tasks.preprocess.errors import DataError
from tasks.preprocess.table_source import Table, TableSource

FILE = "all.parquet"
WORD = re.compile(r"[a-z0-9']+")
NAMED = (
    "won't",
    "disappointed",
    "both",
    "inspiring",
    "a",
    "crisp",
    "excellent",
    "youthful",
    "john",
    "terrific",
)
# The reviews of Table 5, by words that no other review has: negation, enhancement, context, lost potential, adjectival.
SHOWN = (
    "aficionados of the whodunit won't be disappointed",
    "both inspiring and pure joy",
    "you wish jacquot had left well enough alone",
    "fascinating little thriller that would have been perfect",
    "make a terrific effort at disguising",
)


class RottenTomatoes(TableSource):
    """Movie review sentences, positive or negative, as the presence of common words (joint Shapley paper, Table 5).

    Decisions: words are runs of letters, digits and apostrophes in lower case; the commonest are those in the most
    reviews of the whole corpus, as in the paper. The ten named words come first, then the commonest by falling count.
    The test part begins with the five reviews of Table 5.
    """

    name = "rotten_tomatoes"
    classes = ("negative", "positive")

    def path(self) -> Path:
        """Return the parquet file."""
        assert self.data.path is not None, "this data set has a folder"
        return self.data.path / FILE

    def check(self) -> None:
        """Raise DataError where the file is missing or lacks a column."""
        if not self.path().is_file():
            raise DataError(
                f"no {FILE} in {self.data.path}", "it is needed", "give the folder that holds it: data.path"
            )
        there = parquet.read_schema(self.path()).names
        missing = [name for name in ("text", "label") if name not in there]
        if missing:
            raise DataError(f"the column {missing[0]} is missing", f"{FILE} has {', '.join(there)}", "add it")

    def inputs(self) -> list[Path]:
        """Return the parquet file."""
        return [self.path()]

    def read(self) -> Table:
        """Return the presence (0 or 1) of each word in each review."""
        frame = pd.read_parquet(self.path(), columns=["text", "label"])
        reviews = [set(words(text)) for text in frame["text"]]
        names = feature_words(reviews, self.data.table.words)
        places = {word: place for place, word in enumerate(names)}
        features = np.zeros((len(reviews), len(names)))
        for row, review in zip(features, reviews, strict=True):
            row[[places[word] for word in review if word in places]] = 1.0
        texts = frame["text"].str.lower()
        first = [int(row) for part in SHOWN for row in np.flatnonzero(texts.str.contains(part, regex=False))]
        labels = frame["label"].to_numpy(np.int64)
        return Table(names, features, labels, tuple(first), (("words", f"{len(names)}, {len(NAMED)} of them named"),))


def words(text: str) -> list[str]:
    """Return the words of a text.

    >>> words("Won't be , well-made .")
    ["won't", 'be', 'well', 'made']
    """
    return WORD.findall(text.lower())


def feature_words(reviews: list[set[str]], commonest: int) -> tuple[str, ...]:
    """Return the named words, then those of the ``commonest`` that are not among them; ties by spelling."""
    counts = Counter(word for review in reviews for word in review)
    common = sorted(counts, key=lambda word: (-counts[word], word))[:commonest]
    return (*NAMED, *(word for word in common if word not in NAMED))
