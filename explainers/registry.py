"""Finding plug-ins by name: drop a file into the folder and it is there."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

from explainers.base import Explainer

Plugin = TypeVar("Plugin", bound=BaseModel)


def import_all(package: str) -> None:
    """Import every module of ``package``, so that the classes in it are known."""
    path = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(path, package + "."):
        importlib.import_module(module.name)


def named_subclasses(base: type) -> dict[str, type]:
    """Return the concrete subclasses of ``base`` by their ``name``, sorted."""
    found: dict[str, type] = {}
    waiting: list[type] = list(base.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if "name" in kind.__dict__:
            found[kind.__dict__["name"]] = kind
    return dict(sorted(found.items()))


def nearest(word: str, known: list[str]) -> str:
    """Return the advice that an unknown ``word`` deserves: the nearest known one, and all that there are."""
    if not known:
        return "there is none to choose from"
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}there are: {', '.join(known)}"


def chosen(what: str, known: Mapping[str, type[Plugin]], name: str, options: Mapping[str, object]) -> Plugin:
    """Return the ``known`` plug-in called ``name`` with its options, or raise ValueError that names the nearest."""
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}: {nearest(name, list(known))}")
    kind = known[name]
    for option in options:
        if option not in kind.model_fields:
            raise ValueError(f"{name} has no option {option!r}: {nearest(option, list(kind.model_fields))}")
    return kind.model_validate(dict(options))


@cache
def explainers() -> dict[str, type[Explainer]]:
    """Return every explainer class by name."""
    import_all("explainers")
    return named_subclasses(Explainer)


def get_explainer(name: str, **options: object) -> Explainer:
    """Return the explainer called ``name``.

    Args:
        name: as ``ordeval list explainers`` prints it, for example "ordshap" or "kernelshap".
        options: the method's own, the same names as in a study's YAML.

    Raises:
        ValueError: unknown name or option, or a value out of range; the message names the nearest known one.

    >>> get_explainer("random").name
    'random'
    """
    return chosen("explainer", explainers(), name, options)
