"""Which arrangements are walked: groups of one arrangement and its mirror image, balanced as far as they go.

Three kinds of balance, each of which takes a part of the error away at no cost:

- Each arrangement comes with its mirror image, so that an effect of who comes before whom leaves no trace in VI.
- *Strata*, for fewer groups than slots: over L groups a player meets L equal parts of the distances from the
  middle, while the company in each part is drawn anew.
- *Units*, from n groups on: over one unit a player meets every slot equally often (a Latin square, its slots
  scrambled by a random permutation that commutes with the mirror; without the scramble all arrangements of a unit
  would share one cyclic order, and the error of PI would not fall within a unit). Where n is a prime power, a *set* of
  units runs through the multipliers of the field of n elements: over a whole set, every pair of players meets every
  pair of slots equally often (a sharply two-transitive set), so that effects of two players' joint slots cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from explainers.draws import Draws, inverse, order_of
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

LARGEST_FIELD = 64


@dataclass(frozen=True)
class Field:
    """Addition and multiplication of the finite field with q elements; q-1-u is -u plus a constant.

    Attributes:
        plus: (q, q) long.
        times: (q, q) long.
        multipliers: one of each pair a, -a of the elements other than 0.
        shifts: one shift of each mirror pair: all elements where -1 is not 1, else half of them.
    """

    plus: torch.Tensor
    times: torch.Tensor
    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]


class Arrangements:
    """The endless sequence of groups for ``n`` players: units of a set after one another, or strata.

    Attributes:
        unit: groups in a unit.
        units: units in a whole set; 1 where pairs of slots cannot be balanced.
    """

    def __init__(self, rng: np.random.Generator, n: int, device: torch.device) -> None:
        self.n = n
        self.device = device
        self.field = field_of(n)
        self.labels, self.pairs, self.flips, self.orders = (
            Draws(child, width, device) for child, width in zip(rng.spawn(4), (n, n, n, n), strict=True)
        )
        self.unit = len(self.field.shifts) if self.field else n
        self.units = len(self.field.multipliers) if self.field else 1
        self.left_of_set: list[int] = []

    def next_unit(self, units: int) -> torch.Tensor:
        """Return the slots (unit, n) of the next unit, where ``units`` of them make a set."""
        if not self.left_of_set:
            self.label = self.labels.permutations(1)[0]
            self.scramble = mirror_scramble(self.pairs, self.flips)
            chosen = self.orders.permutations(1)[0].tolist()
            self.left_of_set = [c for c in chosen if c < self.units][:units]
        multiplier = self.left_of_set.pop()
        if self.field is None:
            places = (self.label + torch.arange(self.n, device=self.device)[:, None]) % self.n
        else:
            scaled = self.field.times.to(self.device)[self.field.multipliers[multiplier]][self.label]
            places = self.field.plus.to(self.device)[torch.tensor(self.field.shifts, device=self.device)][:, scaled]
        return self.scramble[places]

    def strata(self, groups: int) -> torch.Tensor:
        """Return the slots (groups, n) of fewer groups than a unit: each player meets every stratum once."""
        half = (self.n + 1) // 2
        rounds = -(-groups // half)
        return torch.cat([self._strata(min(half, groups - done * half)) for done in range(rounds)])

    def _strata(self, groups: int) -> torch.Tensor:
        """Sort the players by stratum, at random within one, and seat them from the middle outwards, sides by lot."""
        n = self.n
        label = self.labels.permutations(1)[0]
        turn = self.orders.permutations(1)[0]
        turn = turn[turn < groups]
        stratum = turn[(label + torch.arange(groups, device=self.device)[:, None]) % groups]
        outwards = inverse(order_of(stratum + self.pairs.uniforms(groups)))
        left = self.flips.uniforms(groups) < 0.5
        pair = (outwards + n % 2) // 2
        first = (outwards + n % 2) % 2 == 0
        to_left = left.gather(1, pair) == first
        lower_middle, upper_middle = (n - 1) // 2, n // 2
        return torch.where(to_left, lower_middle - pair, upper_middle + pair)


def mirror_scramble(pairs: Draws, flips: Draws) -> torch.Tensor:
    """Return a random permutation t (n,) of the slots with ``t(n-1-u) = n-1-t(u)``."""
    n, half = pairs.n, pairs.n // 2
    near = pairs.permutations(1)[0]
    near = near[near < half]
    near = torch.where(flips.uniforms(1)[0, :half] < 0.5, near, n - 1 - near)
    middle = torch.full((n % 2,), half, device=near.device)
    return torch.cat([near, middle, n - 1 - near.flip(0)])


@cache
def field_of(n: int) -> Field | None:
    """Return the field with ``n`` elements, or None where there is none (or it is too large to matter)."""
    prime = next((p for p in range(2, n + 1) if n % p == 0), 0)
    degree = round(np.log(n) / np.log(prime)) if prime else 0
    if not prime or prime**degree != n or n > LARGEST_FIELD:
        return None
    elements = np.arange(n)
    digits = elements[:, None] // prime ** np.arange(degree) % prime
    powers = prime ** np.arange(degree)
    plus = (digits[:, None] + digits) % prime @ powers
    times = product_table(digits, prime)
    minus = (-digits) % prime @ powers
    multipliers = tuple(int(a) for a in elements[1:] if a <= minus[a])
    mirrored = n - 1 - elements
    shifts = tuple(int(b) for b in elements if prime > 2 or b < mirrored[b])
    return Field(torch.from_numpy(plus), torch.from_numpy(times), multipliers, shifts)


def product_table(digits: np.ndarray, prime: int) -> np.ndarray:
    """Return the products (q, q) of polynomials over the prime field, modulo an irreducible one of their degree."""
    q, degree = digits.shape
    powers = prime ** np.arange(degree)
    for tail in digits:
        table = np.zeros((q, q), dtype=np.int64)
        for a in range(q):
            rows, shifted = np.zeros((q, degree), dtype=np.int64), digits.copy()
            for digit in digits[a]:
                rows = (rows + digit * shifted) % prime
                top = shifted[:, -1:]
                shifted = (
                    np.concatenate([np.zeros((q, 1), dtype=np.int64), shifted[:, :-1]], axis=1) - top * tail
                ) % prime
            table[a] = rows @ powers
        if all(len(set(row)) == q for row in table[1:].tolist()):
            return table
    raise AssertionError(f"there is an irreducible polynomial of degree {degree} over {prime}")
