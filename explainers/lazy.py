"""Heavy modules that load on first use, so that `--help` and a conf error answer at once."""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """Stand in for module ``name``; the first attribute access imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
