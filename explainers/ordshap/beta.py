"""Beta of Eq. 11 as a by-product of walks: its normal matrix is known, only its moments are sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.solve import Solution, solve_symmetric

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class BetaMoment:
    """The moments ``E[z_i (pos_i - lbar) w(S, sigma)]`` over kernel-weighted S and uniform sigma.

    A walk passes one coalition of every size, so weights ``1 / (s (n - s))`` turn it into a draw from the kernel of
    Eq. 11. Over all arrangements the columns of alpha and beta are orthogonal, and those of beta have second moments
    in closed form; the sampled moments are unbiased, and so is beta.
    """

    def __init__(self, n: int, device: torch.device) -> None:
        self.n = n
        self.moment = torch.zeros(n, dtype=torch.float64, device=device)
        self.walks = 0
        sizes = torch.arange(1, n, dtype=torch.float64, device=device)
        weights = 1 / (sizes * (n - sizes))
        self.weights = weights / weights.sum()
        self.sizes = sizes

    def add(self, forward: torch.Tensor, backward: torch.Tensor, rank: torch.Tensor, slots: torch.Tensor) -> None:
        """Add groups of four walks.

        Args:
            forward: (groups, 2, n+1) w minus w(empty) after t players joined, as arranged and mirrored.
            backward: (groups, 2, n+1) the same of the complements: after t players of the order have left.
            rank: (groups, n) each player's place in the order.
            slots: (groups, n) each player's slot as arranged.
        """
        groups, n = slots.shape
        away = slots.double() - (n - 1) / 2
        gap_forward = (forward[:, 0] - forward[:, 1])[:, 1:-1] * self.weights
        gap_backward = (backward[:, 0] - backward[:, 1])[:, 1:-1] * self.weights
        nothing = torch.zeros((groups, 1), dtype=torch.float64, device=slots.device)
        since = torch.cat([gap_forward.flip(1).cumsum(1).flip(1), nothing], dim=1)
        until = torch.cat([nothing, gap_backward.cumsum(1)], dim=1)
        self.moment += (away * (since.gather(1, rank) + until.gather(1, rank))).sum(0)
        self.walks += 4 * groups

    def solve(self) -> Solution:
        """Return beta (n,) with the rank and condition of its normal matrix."""
        n = self.n
        eye = torch.eye(n, dtype=torch.float64, device=self.moment.device)
        if n < 2:
            return solve_symmetric(0 * eye, self.moment)
        spread = (n * n - 1) / 12
        one = float((self.weights * self.sizes).sum()) / n
        two = float((self.weights * self.sizes * (self.sizes - 1)).sum()) / (n * (n - 1))
        gram = spread * (one * eye - two / (n - 1) * (1 - eye))
        return solve_symmetric(gram, self.moment / self.walks)
