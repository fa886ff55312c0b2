"""What groups of walks have shown so far, and the estimates and standard errors that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.ordshap.cells import Cells
from explainers.ordshap.scale import Scale
from explainers.ordshap.smooth import smooth_matrix

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

SHORT = 12  # players up to which a polynomial has little to save: it has up to six coefficients
PRIOR = 4.0  # degrees of freedom that a pooled variance counts for beside an entry's own
SEEN = 16.0  # what a further set tells of the gain from balance, which is pooled over all entries, beside a prior of 1


@dataclass(frozen=True)
class Walked:
    """Groups that were walked.

    Attributes:
        marginals: (groups, 2, n) mean marginal contributions, as arranged and mirrored.
        slots: (groups, n) each player's slot as arranged.
    """

    marginals: torch.Tensor
    slots: torch.Tensor


@dataclass(frozen=True)
class Estimate:
    """gamma, VI and PI with standard errors; ``smoothed`` tells whether gamma is a polynomial a player."""

    value: torch.Tensor
    position: torch.Tensor
    matrix: torch.Tensor
    value_stderr: torch.Tensor
    position_stderr: torch.Tensor
    matrix_stderr: torch.Tensor
    smoothed: bool


class Replicates:
    """Running mean and sum of squares of vectors that are independent draws (Welford 1962)."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.count = 0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.squares = torch.zeros(width, dtype=torch.float64, device=device)

    def add(self, draw: torch.Tensor) -> None:
        """Add one draw (width,)."""
        self.count += 1
        gap = draw - self.mean
        self.mean = self.mean + gap / self.count
        self.squares = self.squares + gap * (draw - self.mean)

    def variance(self) -> torch.Tensor:
        """Return the variance (width,) of one draw; NaN where there are fewer than two."""
        return self.squares / (self.count - 1 if self.count > 1 else torch.nan)


class Evidence:
    """Cell sums, units and sets as replicates, and, while there are few groups, the groups themselves."""

    def __init__(self, n: int, unit: int, scale: Scale) -> None:
        self.n, self.unit, self.scale = n, unit, scale
        device = scale.weights.device
        self.cells = Cells(n, device)
        self.groups = 0
        self.few: list[Walked] = []
        self.units = Replicates(2 * n + n * n, device)
        self.sets = Replicates(2 * n + n * n, device)
        self.units_in_set = 1
        self.open_set: list[torch.Tensor] = []

    def add(self, walked: Walked, whole: bool, set_of: int) -> None:
        """Add groups; ``whole``: they are one unit; ``set_of`` units end a set with this one (0: none does)."""
        slots = walked.slots
        players = torch.arange(self.n, device=slots.device).expand_as(slots)
        unit = Cells(self.n, slots.device)
        for seats, marginals in zip((slots, self.n - 1 - slots), walked.marginals.unbind(1), strict=True):
            unit.add(players.reshape(-1), seats.reshape(-1), marginals.reshape(-1))
        self.cells.sums += unit.sums
        self.cells.counts += unit.counts
        self.groups += len(slots)
        if whole:
            gamma = unit.means()
            self.add_unit(
                torch.cat([gamma.mean(1), self.scale.slope(gamma), self.scale.averaged(gamma).reshape(-1)]), set_of
            )
        if self.smoothed():
            self.few.append(walked)
        else:
            self.few.clear()

    def add_unit(self, draw: torch.Tensor, set_of: int) -> None:
        """Add a unit's VI, PI and gamma to the replicates, and the set's that it ends."""
        self.units.add(draw)
        self.open_set.append(draw)
        if set_of:
            self.sets.add(torch.stack(self.open_set).mean(0))
            self.units_in_set = set_of
            self.open_set.clear()

    def smoothed(self) -> bool:
        """Return whether cells have been seen too rarely to stand for themselves: see :func:`groups_for_cells`."""
        return self.groups < groups_for_cells(self.n) or self.units.count < 2

    def estimate(self) -> Estimate:
        """Return the estimates from everything seen."""
        value = self.cells.sums.sum(1) / self.cells.counts.sum(1)
        if self.smoothed():
            marginals = torch.cat([walked.marginals for walked in self.few])
            slots = torch.cat([walked.slots for walked in self.few])
            found = smooth_matrix(value, marginals, slots, self.scale)
            matrix, errors, smoothed = found.matrix, (found.value_stderr, found.position_stderr, found.stderr), True
        else:
            matrix = self.cells.means()
            matrix = matrix + (value - matrix.mean(1))[:, None]
            errors, smoothed = self.stderrs(), False
        return Estimate(value, self.scale.slope(matrix), self.scale.averaged(matrix), *errors, smoothed=smoothed)

    def stderrs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the standard errors of value (n,), position (n,) and matrix (n, n) from units and sets.

        Units are independent where a set is one unit. Where sets are balanced, their variance is less than that of as
        many independent units: by a factor that is pooled over the entries and over all cells and, as sets grow in
        number, gives way to each entry's own. A cell's variance is drawn towards its player's. The result is widened by
        Student's t, so that 1.96 standard errors are a 95 % interval.
        """
        n = self.n
        by_unit, by_set = self.units.variance(), self.sets.variance() * self.units_in_set
        balanced = self.units_in_set > 1 and self.sets.count > 1
        seen = SEEN * (self.sets.count - 1)
        parts = []
        for part in (slice(0, n), slice(n, 2 * n), slice(2 * n, None)):
            freedom = self.units.count - 1
            variance = drawn_together(by_unit[part].view(-1, n), freedom).reshape(-1)
            if balanced:
                ratio = (gain(by_set[part], by_unit[part]) + gain(by_set[2 * n :], by_unit[2 * n :])) / 2
                ratio = (1 + seen * ratio) / (1 + seen)
                freedom = self.sets.count - 1
                variance = (PRIOR * ratio * variance + freedom * by_set[part]) / (PRIOR + freedom)
            error = (variance * self.unit / self.groups).clamp_min(0).sqrt()
            parts.append(error * widened(PRIOR + freedom))
        return parts[0], parts[1], parts[2].view(n, n)


def gain(by_set: torch.Tensor, by_unit: torch.Tensor) -> float:
    """Return the variance of balanced sets over that of independent units, pooled over entries."""
    return float(by_set.sum() / by_unit.sum().clamp_min(1e-300))


def groups_for_cells(n: int) -> int:
    """Return from how many groups on each cell's own mean is gamma: every cell is then seen 4 times, or 8 (n > 12)."""
    return 2 * n if n <= SHORT else 4 * n


def widened(freedom: float) -> float:
    """Return by how much Student's t is wider than the normal at 95 %."""
    from scipy.stats import norm, t

    return float(t.ppf(0.975, freedom) / norm.ppf(0.975))


def drawn_together(variance: torch.Tensor, freedom: int) -> torch.Tensor:
    """Return variances (..., m) with ``freedom`` degrees each, drawn towards the mean of their row.

    That has the weight of ``PRIOR`` degrees: few degrees of freedom make an entry's own variance too small too often
    (Smyth 2004 on moderated variances).
    """
    return (PRIOR * variance.mean(-1, keepdim=True) + freedom * variance) / (PRIOR + freedom)
