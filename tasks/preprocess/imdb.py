"""IMDB: Large Movie Review Dataset (Maas et al. 2011)."""

from __future__ import annotations

from typing import Any

from tasks.preprocess.public import TextSource


class Imdb(TextSource):
    """IMDB: 25,000 + 25,000 film reviews, negative or positive; HTML line breaks are taken out."""

    name = "imdb"
    home = "stanfordnlp/imdb"
    classes = ("negative", "positive")

    def text(self, row: dict[str, Any]) -> str:
        """Return the review without its HTML line breaks."""
        return str(row["text"]).replace("<br />", " ")
