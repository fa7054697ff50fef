"""The privacy loss of one random allocation with one step selected, on a lattice (docs/theory/allocation.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .... import _core
from .... import mechanisms as m
from ....losses import PrivacyLoss
from ...numerics.outward import Range
from ..base import Direction
from ..closed_form import outcomes
from ..closed_form.atoms import Atom, FiniteLossDistribution
from ..closed_form.binomial import CONTEXT
from ..closed_form.law import PrivacyCurve
from ..grid import laws as grid_laws

U = 2.0**-53
COARSEST, FINEST = 5, 12
"""Lattices have the spacing 2^-level in the logarithm of the likelihood ratio."""
MOST_CELLS = 1 << 16
_TABLE_ERROR = 2e-9
"""Bound on how far the probabilities of a user's table are from adding up to 1, with room."""
MOST_WORK = 3e8
"""Products of cells for one law: a third of a second or so."""
LEAST_FLOOR = 1e-280
"""Any number is correct. Every upper law has 1e-290 at infinity for products that underflow (mean.cpp): less than this
would hardly be seen beside it."""


@dataclass(frozen=True)
class RoundedAtoms:
    """Atoms of a privacy loss at ascending ``losses``, from above or from below: errors are rounded outward on use."""

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinity: float
    minus_infinity: float
    slack: float
    relative: float
    upper: bool

    def delta(self, epsilon: float, direction: Direction) -> float:
        """The curve, rounded outward."""
        sign = 1 if self.upper else -1
        # The slack, and the roundings of losses in the differences below.
        moved = sign * (self.slack + 4 * U * (1 + abs(epsilon) + float(np.abs(self.losses).max(initial=0.0))))
        if direction == "remove":
            start = int(np.searchsorted(self.losses, epsilon - moved))
            weights, gaps = self.masses[start:], epsilon - moved - self.losses[start:]
            beyond = self.infinity
        else:
            stop = int(np.searchsorted(self.losses, moved - epsilon))
            weights = self._reversed_masses[:stop]
            gaps = self.losses[:stop] + (epsilon - moved)
            beyond = self.minus_infinity
        total = float(np.dot(weights, np.maximum(-np.expm1(gaps), 0.0))) + beyond
        relative = self.relative + (len(weights) + 64) * U
        return min(total * (1 + relative), 1.0) if self.upper else total / (1 + relative)

    def delta_far_out(self, direction: Direction) -> float:
        """The curve far out, rounded outward."""
        end = self.infinity if direction == "remove" else self.minus_infinity
        return end * (1 + self.relative) if self.upper else end / (1 + self.relative)

    @property
    def is_proper(self) -> bool:
        """Whether it is about the law of a pair, most of it finite, and worth composing: at both ends of the range of
        parameters all that is known may be that nothing is."""
        return len(self.masses) > 0 and self.infinity < 0.5 and all(abs(end - 1) < 0.01 for end in self._total_masses)

    def require_all_mass(self, steps: int) -> None:
        """Raises RuntimeError if atoms from above have less of P's or Q's mass than 1, or those from below more, by
        more than their errors and what a table of each step's losses may be off by."""
        error = self.relative + self.slack + (len(self.masses) + 64) * U + _TABLE_ERROR * steps
        low, high = min(self._total_masses) * (1 + error), max(self._total_masses) * (1 - error)
        if not low >= 1 if self.upper else high > 1:
            raise RuntimeError(f"the masses of an allocation's losses are on the wrong side of 1: {self._total_masses}")

    @property
    def _total_masses(self) -> tuple[float, float]:
        """Total masses of P and Q: 1 but for roundings and what was lost at the ends."""
        return self.infinity + float(self.masses.sum()), self.minus_infinity + float(self._reversed_masses.sum())

    @property
    def _reversed_masses(self) -> NDArray[np.float64]:
        """Q's masses."""
        found = self.__dict__.get("_q")
        if found is None:
            with np.errstate(over="ignore"):
                found = np.exp(np.log(self.masses) - self.losses)
            object.__setattr__(self, "_q", found)
        return found

    def as_finite_distribution(self, infinity: Range) -> FiniteLossDistribution:
        """These atoms with their errors, and with this for P's mass where Q has none."""
        error = self.relative + 8 * U
        found = [
            Atom(Decimal(float(y)), Decimal(float(p)).ln(CONTEXT), self.slack + 2 * U * abs(float(y)), error)
            for y, p in zip(self.losses, self.masses, strict=True)
        ]
        hidden = Range(self.minus_infinity / (1 + error), self.minus_infinity * (1 + error))
        return FiniteLossDistribution(found, infinity, hidden)

    def as_grid_distribution(self, direction: Direction) -> _core.GridLaw:
        logs = np.log(self.masses)
        relative = self.relative + (8 + 2 * np.abs(logs)) * U
        keep = np.append(np.diff(self.losses) > 0, True)
        if not keep.all():  # equal losses: the masses of all go to the last
            ends = np.flatnonzero(keep)
            merged = np.add.reduceat(self.masses, np.append(0, ends[:-1] + 1))
            return RoundedAtoms(
                self.losses[keep], merged, self.infinity, self.minus_infinity, self.slack,
                self.relative + len(logs) * U, self.upper,
            ).as_grid_distribution(direction)  # fmt: skip
        total = 1e-8 + 2 * max(abs(end - 1) for end in self._total_masses)
        found = _core.GridLaw.atoms(
            self.losses, logs, relative, self.infinity, self.minus_infinity, self.relative, self.slack, 0.0, 0.0, total
        )
        return found.reversed() if direction == "add" else found


@dataclass(frozen=True)
class Allocation:
    """One mechanism's laws at one level."""

    upper: RoundedAtoms
    lower: RoundedAtoms
    work: float


def explain_missing_ratios(mechanism: m.Mechanism) -> str | None:
    """Why the ratios of this inner mechanism have no law here, or None."""
    if isinstance(mechanism, PrivacyLoss) and mechanism.relation == "replace":
        return "a user-defined pair for replacing a record says nothing about leaving one out"
    return grid_laws.explain_missing_distribution(mechanism, "remove")


@lru_cache(maxsize=32)
def build_allocation(inner: m.Mechanism, steps: int, level: int, floor: float) -> Allocation | None:
    """Laws of the mean of ``steps`` ratios; None where they would take more than ``MOST_CELLS`` cells."""
    found = _bound_allocation(inner, steps, 2.0**-level, floor)
    if found is None:
        return None
    above, below, work = found
    return Allocation(_build_atoms(above, steps, True), _build_atoms(below, steps, False), work)


def _bound_allocation(
    inner: m.Mechanism, steps: int, spacing: float, floor: float
) -> tuple[_core.AllocationAtoms, _core.AllocationAtoms, float] | None:
    """Returns atoms from above of the pair that dominates the inner one, from below of the one that it dominates, and
    the work; None where there would be more than ``MOST_CELLS`` cells."""
    pair = grid_laws.loss_distribution(inner, "remove")
    try:
        above, below, work = _core.allocation(pair.upper, steps, spacing, floor, MOST_CELLS)
        if pair.lowers[0] is not pair.upper:
            _, below, more = _core.allocation(pair.lowers[0], steps, spacing, floor, MOST_CELLS)
            work += more
    except ValueError:
        return None
    return above, below, work


def build_finest_allocation(
    inner: m.Mechanism, steps: int, floor: float, most: int, work: float = MOST_WORK
) -> Allocation | None:
    """The finest laws up to level ``most`` that ``work`` allows."""
    found = build_allocation(inner, steps, COARSEST, floor)
    if found is None:
        return None
    level = min(most, COARSEST + int(math.log(max(work / max(found.work, 1.0), 1.0), 4)))
    while level > COARSEST:
        better = build_allocation(inner, steps, level, floor)
        if better is not None:
            return better
        level -= 1
    return found


@lru_cache(maxsize=32)
def build_coarse_curve(
    inner: m.Mechanism, steps: int, selected: int, direction: Direction, floor: float
) -> PrivacyCurve | None:
    """The law of several steps selected, with the ratios of one step on so coarse a lattice that all outcomes can be
    looked at (allocation.md section 9); None where that takes too many."""
    for level in _COARSE:
        found = _bound_allocation(inner, 1, 2.0**-level, floor / steps)
        if found is None:
            continue
        above, below, _ = found
        high, low = _build_atoms(above, 1, True), _build_atoms(below, 1, False)
        excess = steps * max(abs(end - 1) for one in (high, low) for end in one._total_masses)
        if len(high.masses) > _MOST_ATOMS or len(low.masses) == 0 or selected * high.infinity > 0.01 or excess > 1e-6:
            continue
        less, more = (
            low.as_finite_distribution(Range(0.0)),
            high.as_finite_distribution(Range(0.0, high.infinity * (1 + 1e-4))),
        )
        law = outcomes.build_allocated_curve(less, more, steps, selected, direction, _MOST_OUTCOMES)
        if law is not None:
            return law
    return None


_COARSE = range(4, -4, -1)
"""Levels that are tried: of the finest, sixteen points for a factor of e; of the coarsest, one for e^8."""
_MOST_ATOMS = 128
_MOST_OUTCOMES = 1 << 15
"""Some hundredths of a second."""


def choose_floor(delta: float) -> float:
    """What may be lost at either end where ``delta`` is asked for; of few values, so that laws are found again."""
    exponent = 4 * math.ceil((9 - math.log10(delta)) / 4) if delta > 0 else 300
    return max(10.0**-exponent, LEAST_FLOOR)


def _build_atoms(found: _core.AllocationAtoms, steps: int, upper: bool) -> RoundedAtoms:
    losses, masses, infinity, minus_infinity, slack, relative = found
    order = np.argsort(losses, kind="stable")
    atoms = RoundedAtoms(losses[order], masses[order], infinity, minus_infinity, slack, relative, upper)
    atoms.require_all_mass(steps)
    return atoms
