"""Two laws on the same finitely many outcomes, and the curves of hypothesis testing between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

SLACK = 1e-11
"""Relative error of every mass: differences of distribution functions over cells of a hundredth of a deviation."""
LARGEST = 60.0
"""Losses beyond it count as this when outcomes are put together."""


@dataclass(frozen=True)
class Pair:
    """The masses ``p`` with the record and ``q`` without it; ``error`` is how far a linear programme may have gone out
    of its class, in probability."""

    p: np.ndarray
    q: np.ndarray
    error: float = 0.0
    label: str = field(default="", compare=False)

    @property
    def reversed(self) -> Pair:
        return Pair(self.q, self.p, self.error, self.label)

    @cached_property
    def losses(self) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(self.p) - np.log(self.q)
        return np.where((self.p == 0) & (self.q == 0), 0.0, found)

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ascending losses with P's and Q's masses of what is not below them."""
        order = np.argsort(self.losses, kind="stable")
        tails = [np.append(np.cumsum(mass[order][::-1])[::-1], 0.0) for mass in (self.p, self.q)]
        return self.losses[order], tails[0], tails[1]

    def _tails(self, log_x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        losses, p, q = self._sorted
        at = np.searchsorted(losses, log_x, side="right")
        return p[at], q[at]

    def least(self, log_x: np.ndarray) -> np.ndarray:
        """A lower bound of sup over events of P - x Q, whatever the roundings."""
        p, q = self._tails(log_x)
        x = np.exp(np.minimum(log_x, 700.0))
        with np.errstate(over="ignore"):  # an error that knows nothing
            taken = p * (1 - SLACK) - x * q * (1 + SLACK) - self.error * (1 + x)
        return np.maximum(np.maximum(taken, -np.expm1(np.minimum(log_x, 0.0))), 0.0)

    def most(self, log_x: np.ndarray) -> np.ndarray:
        """An upper bound of the same."""
        p, q = self._tails(log_x)
        x = np.exp(np.minimum(log_x, 700.0))
        with np.errstate(over="ignore"):
            return np.clip(p * (1 + SLACK) - x * q * (1 - SLACK) + SLACK * x * q + self.error * (1 + x), 0.0, 1.0)

    def type_two(self, alphas: np.ndarray) -> np.ndarray:
        """The least probability of missing P at each probability ``alphas`` of accusing Q wrongly (Neyman, Pearson)."""
        _, p, q = self._sorted
        return np.interp(alphas, q[::-1], 1 - p[::-1])

    def renyi(self, order: float) -> float:
        """No more than the divergence of P from Q: outcomes that Q has no double for are left out."""
        both = (self.p > 0) & (self.q > 1e-290)
        logs = order * np.log(self.p[both]) + (1 - order) * np.log(self.q[both])
        return float(np.logaddexp.reduce(logs) / (order - 1))


def product(one: Pair, other: Pair) -> Pair:
    """Both outputs, drawn independently."""
    return Pair(
        np.outer(one.p, other.p).ravel(),
        np.outer(one.q, other.q).ravel(),
        one.error + other.error,
        one.label if one.label == other.label else f"{one.label} and {other.label}",
    )


def merged(pair: Pair, most: int = 1500) -> Pair:
    """Outcomes of nearly one loss put together: post-processing, so that all curves can only fall."""
    if len(pair.p) <= most:
        return pair
    losses = pair.losses
    finite = np.clip(losses, -LARGEST, LARGEST)
    held = (pair.p > 1e-30) | (pair.q > 1e-30)
    low, high = finite[held].min(), finite[held].max()
    place = np.clip(((finite - low) / max(high - low, 1e-300) * (most - 3)).astype(int), 0, most - 3) + 1
    place = np.where(losses == np.inf, most - 1, np.where(losses == -np.inf, 0, place))
    masses = [np.bincount(place, weights=mass, minlength=most) for mass in (pair.p, pair.q)]
    return Pair(masses[0], masses[1], pair.error, pair.label)


def spread(pair: Pair, most: int = 1500) -> Pair:
    """Every outcome split into two of neighbouring losses on a lattice, masses kept: all curves can only rise."""
    if len(pair.p) <= most:
        return pair
    losses = pair.losses
    finite = np.isfinite(losses) & (np.abs(losses) <= LARGEST)
    lattice = np.linspace(losses[finite].min(), losses[finite].max(), most - 2)
    step = float(lattice[1] - lattice[0]) or 1.0  # where all losses are one
    y, p = losses[finite], pair.p[finite]
    at = np.clip(((y - lattice[0]) / step).astype(int), 0, most - 4)
    right = p * np.clip(-np.expm1(lattice[at] - y) / -np.expm1(-step), 0.0, 1.0)
    masses = np.bincount(at, p - right, most - 2) + np.bincount(at + 1, right, most - 2)
    hidden = masses * np.exp(-lattice)
    above = ~finite & (losses > 0)
    below = ~finite & (losses < 0)
    return Pair(
        np.concatenate(([0.0], masses, [pair.p[above].sum() + pair.p[below].sum()])),
        np.concatenate(([pair.q[below].sum() + pair.q[above].sum()], hidden, [0.0])),
        pair.error,
        pair.label,
    )
