"""What a data set is to this stage, and where data sets are found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from explainers.registry import import_all, named_subclasses, nearest
from tasks.content import Kind
from tasks.preprocess.errors import DataError

if TYPE_CHECKING:
    from conf.schema import Data


class Source(ABC):
    """A data set; subclasses are found by ``name``, and their first docstring line is what ``ordeval list`` prints.

    Each kind of data has a subclass that says what the stage needs of it: :class:`tasks.preprocess.event_source.
    EventSource`, :class:`tasks.preprocess.public.TextSource` and :class:`tasks.preprocess.public.ImageSource`.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    has_abnormal_flag: ClassVar[bool] = False

    def __init__(self, data: Data, seed: int = 0) -> None:
        self.data = data
        self.seed = seed

    @abstractmethod
    def check(self) -> None:
        """Raise DataError where the raw files cannot be used; reads no more than headers and first blocks."""

    @abstractmethod
    def inputs(self) -> list[Path]:
        """Return the raw files that are read, sorted."""

    def truth(self) -> dict[str, Any] | None:
        """Return the planted effects, None for real data."""
        return None


@cache
def sources() -> dict[str, type[Source]]:
    """Return every data set by name: the classes in this folder's files."""
    import_all("tasks.preprocess")
    return named_subclasses(Source)


def get_source(data: Data, seed: int = 0) -> Source:
    """Return the data set that ``data`` names.

    Raises:
        DataError: unknown name, or an option that this data set cannot serve.
    """
    known = sources()
    if data.dataset not in known:
        raise DataError("unknown data set", repr(data.dataset), nearest(data.dataset, list(known)))
    kind = known[data.dataset]
    if data.tokens.abnormal_flag and not kind.has_abnormal_flag:
        raise DataError(
            "data.tokens.abnormal_flag is true", f"{data.dataset} has no such flag", "set it to false for this data set"
        )
    return kind(data, seed)
