"""Yahoo Answers: topics of questions (Zhang et al. 2015); from its public home only, its terms restrict sharing."""

from __future__ import annotations

from typing import Any

from tasks.preprocess.public import TextSource


class YahooAnswers(TextSource):
    """Yahoo Answers: 1,400,000 + 60,000 questions with their best answer in ten topics."""

    name = "yahoo_answers"
    home = "community-datasets/yahoo_answers_topics"
    columns = ("topic", "question_title", "question_content", "best_answer")
    classes = (
        "Society & Culture", "Science & Mathematics", "Health", "Education & Reference", "Computers & Internet",
        "Sports", "Business & Finance", "Entertainment & Music", "Family & Relationships", "Politics & Government",
    )  # fmt: skip

    def text(self, row: dict[str, Any]) -> str:
        """Return title, question and best answer."""
        return " ".join(str(row[name]) for name in self.columns[1:] if row[name])

    def label(self, row: dict[str, Any]) -> int | None:
        """Return the topic."""
        return int(row["topic"])
