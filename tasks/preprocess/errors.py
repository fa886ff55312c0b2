"""The one error that this stage raises for people."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used as it is: what is wrong, the value, and the remedy. Never holds an identifier."""

    def __init__(self, what: str, value: str, remedy: str) -> None:
        super().__init__(what, value, remedy)
        self.what = what
        self.value = value
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}: {self.value}; {self.remedy}"
