"""AG News: topics of news items (Zhang et al. 2015)."""

from __future__ import annotations

from tasks.preprocess.public import TextSource


class AgNews(TextSource):
    """AG News: 120,000 + 7,600 news items in four topics."""

    name = "ag_news"
    home = "fancyzhx/ag_news"
    classes = ("World", "Sports", "Business", "Sci/Tech")
