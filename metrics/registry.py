"""Finding metrics by name: drop a file into this folder and it is there."""

from __future__ import annotations

from functools import cache

from explainers.registry import chosen, import_all, named_subclasses
from metrics.base import Metric


@cache
def metrics() -> dict[str, type[Metric]]:
    """Return every metric class by name."""
    import_all("metrics")
    return named_subclasses(Metric)


def get_metric(name: str, **options: object) -> Metric:
    """Return the metric called ``name``.

    Args:
        name: as ``ordeval list metrics`` prints it, for example "inc_auc" or "perm_auc".
        options: ``grid_step``, ``permutations``, ``tie_orders``.

    Raises:
        ValueError: unknown name or option, or a value out of range; the message names the nearest known one.

    >>> get_metric("inc_auc", grid_step=10).higher_is_better
    True
    """
    return chosen("metric", metrics(), name, options)
