"""Who plays: each token, or each group of tokens; and the time of each slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.removal import grouped_rows, masked_rows

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


@dataclass(frozen=True)
class Players:
    """The players of b samples of some length.

    Attributes:
        n: number of players, the same for all samples.
        of: (b, length) long, the player of each token; None where each token is a player.
    """

    n: int
    of: torch.Tensor | None

    def rows(
        self,
        sample: int,
        tokens: torch.Tensor,
        kept: torch.Tensor,
        arrangement: torch.Tensor | None,
        ablated: int,
    ) -> torch.Tensor:
        """Return the rows (rows, length) of one sample's ``tokens`` (length,), rearranged, then ablated.

        Raises:
            ValueError: there is an arrangement, and the groups do not follow one another in the sample.
        """
        if self.of is None:
            return masked_rows(tokens, kept, arrangement, ablated)
        players = self.of[sample]
        if arrangement is not None and bool((players[1:] < players[:-1]).any()):
            raise ValueError(
                f"players cannot be rearranged: in sample {sample} the players of the tokens are {told(players)}; to "
                "be rearranged they stand side by side and are numbered 0, 1, 2, ... in the order of the tokens"
            )
        return grouped_rows(tokens, players, kept, arrangement, ablated)

    def alike(self, sample: int) -> bool:
        """Return whether all players of one sample have equally many tokens."""
        return self.of is None or len(torch.unique(torch.bincount(self.of[sample], minlength=self.n))) <= 1

    def members(self, sample: int) -> torch.Tensor | None:
        """Return (length,) the player of each token of one sample; None where each token is a player."""
        return None if self.of is None else self.of[sample]


def players_of(tokens: torch.Tensor, groups: torch.Tensor | None) -> Players:
    """Return the players of ``tokens`` (b, length): one a token, or as ``groups`` (b, length) says.

    Raises:
        ValueError: ``groups`` has another shape, is not integer, skips a number, or two samples have unequally many
            players.
    """
    if groups is None:
        return Players(tokens.shape[1], None)
    if tuple(groups.shape) != tuple(tokens.shape) or groups.is_floating_point() or groups.dtype == torch.bool:
        raise ValueError(
            f"groups has shape {tuple(groups.shape)} and type {groups.dtype}; give {tuple(tokens.shape)} integers, the "
            "player of each token"
        )
    of = groups.long().to(tokens.device)
    counts = [0] * len(of)
    for sample, row in enumerate(of):
        found = torch.unique(row).tolist()
        counts[sample] = len(found)
        if found != list(range(len(found))):
            raise ValueError(
                f"groups of sample {sample} has the players {told(torch.tensor(found))}; number them 0, 1, 2, ... and "
                "leave none out"
            )
        if counts[sample] != counts[0]:
            raise ValueError(
                f"groups has {counts[0]} players in sample 0 and {counts[sample]} in sample {sample}; the samples of a "
                "game have equally many, so give each its own game"
            )
    return Players(counts[0] if counts else 0, of)


def slot_times(times: torch.Tensor | None, samples: int, n: int) -> torch.Tensor | None:
    """Return the time of each slot as (samples, n) float64 on the CPU, or None.

    Raises:
        ValueError: ``times`` has another shape, is not finite, or falls from one slot to the next.
    """
    if times is None:
        return None
    if tuple(times.shape) != (samples, n) or times.is_complex() or times.dtype == torch.bool:
        raise ValueError(
            f"times has shape {tuple(times.shape)} and type {times.dtype}; give ({samples}, {n}) numbers, the time of "
            "each slot"
        )
    times = times.detach().to("cpu", torch.float64)
    if not bool(times.isfinite().all()):
        sample, slot = torch.nonzero(~times.isfinite())[0].tolist()
        raise ValueError(f"times is {float(times[sample, slot])} at slot {slot} of sample {sample}; give finite times")
    falls = torch.nonzero(times[:, 1:] < times[:, :-1])
    if len(falls):
        sample, slot = falls[0].tolist()
        before, after = times[sample, slot : slot + 2].tolist()
        raise ValueError(
            f"times falls from {before:g} to {after:g} after slot {slot} of sample {sample}; slots follow one another "
            "in time, so sort the tokens by time"
        )
    return times


def check_rows(n: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> None:
    """Raise ValueError where a request is not of ``n`` players."""
    if kept.dim() != 2 or kept.shape[1] != n or kept.dtype != torch.bool:
        raise ValueError(f"kept has shape {tuple(kept.shape)} and type {kept.dtype}; give (rows, {n}) booleans")
    if arrangement is not None and (arrangement.shape != kept.shape or arrangement.is_floating_point()):
        raise ValueError(
            f"arrangement has shape {tuple(arrangement.shape)} and type {arrangement.dtype}; give {tuple(kept.shape)} "
            "integers, the player in each slot"
        )


def told(players: torch.Tensor) -> str:
    """Return the first players as text."""
    return ", ".join(map(str, players[:8].tolist())) + (", ..." if len(players) > 8 else "")
