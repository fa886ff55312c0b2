"""What the pairs of a design stand for in an estimate without bias: their folds, and their shares of all orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from explainers.lazy import Lazy
from explainers.pairs import REMEMBERED, Layout

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

FOLDS = 5


@dataclass(frozen=True)
class Shares:
    """What the rows of the first block, ``order`` of them fold by fold, and the rows after it stand for.

    Attributes:
        order: (m,) long, the places of the first block's rows in order of their folds; first those that are always
            seen, as all of their size are in the block.
        starts: where each fold begins in ``order``, and m at the end.
        known: (m,) the weight of what is left of a row that was seen: its share of all orders.
        unseen: (m,) the weight of what is left of a row in the estimate of its fold; the mean over folds counts.
        missing: (m,) what sampling without replacement makes of a row's variance: the folds share what none has seen.
        rest: (count - m,) the weight of each row after the block, a share of the orders.
        rest_missing: (count - m,) the share of the pairs of its size that the design leaves out.
    """

    order: torch.Tensor
    starts: tuple[int, ...]
    known: torch.Tensor
    unseen: torch.Tensor
    missing: torch.Tensor
    rest: torch.Tensor
    rest_missing: torch.Tensor


def shares_of(layout: Layout, rows: int) -> Shares:
    """Return :func:`dealt`, remembered where the layout is not large."""
    return (remembered if len(layout.sizes) <= REMEMBERED else dealt)(layout, rows)


def dealt(layout: Layout, rows: int) -> Shares:
    """Deal the first ``rows`` pairs into folds, equally many of each size, and weigh them; the rest is weighed apart.

    ``known``, ``unseen`` and ``missing`` go by ``order``.
    """
    sizes = layout.sizes.cpu().numpy() - 1
    size, later = sizes[:rows], sizes[rows:]
    total = np.bincount(size, minlength=len(layout.pools))
    whole = total == layout.pools
    number = int(min(FOLDS, total[~whole].min(initial=FOLDS)))
    folds = np.empty(rows, dtype=int)
    folds[np.argsort(size, kind="stable")] = np.arange(rows) % number
    own = np.bincount(size * number + folds, minlength=len(total) * number)[size * number + folds]
    mass, pool, others = mass_of(layout.n)[size], layout.pools[size], total[size] - own
    weight = np.where(whole[size], 0.0, mass * (1 - others / pool) / own)
    missing = (1 - total[size] / pool) / (1 - others / pool) ** 2
    folds[whole[size]] = -1
    order = np.argsort(folds, kind="stable")
    starts = np.searchsorted(folds[order], np.arange(number + 1))
    after = np.bincount(later, minlength=len(total)).clip(1)
    rest = (1 - rows / len(sizes)) * mass_of(layout.n) * (1 - total / layout.pools) / after
    rest_missing = 1 - after / (layout.pools - total).clip(after)
    parts = (order, *(part[order] for part in (mass / pool, weight, missing)), rest[later], rest_missing[later])
    ordered, *weights = (torch.from_numpy(part).to(layout.sizes.device) for part in parts)
    return Shares(ordered, tuple(starts.tolist()), *weights)


remembered = lru_cache(maxsize=64)(dealt)


def mass_of(n: int) -> np.ndarray:
    """Return the share of the orders' coalitions that pairs of each smaller size 1..n//2 are, times n - 1 over 2."""
    sizes = np.arange(1, n // 2 + 1)
    return np.where(2 * sizes == n, 0.5, 1.0)
