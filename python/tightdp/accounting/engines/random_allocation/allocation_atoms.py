"""The loss distribution of one random allocation with one step selected, on a grid (docs/theory/allocation.md).

A random allocation draws the step in which a record takes part. Its likelihood ratio is the mean of the ratios of all
steps. P is the distribution of the outputs of all steps with the record, and Q their distribution without the record.
Atoms are values of the privacy loss with their masses. Atoms from above bound the loss from above, and atoms from below
bound the loss from below. The curve of atoms is delta as a function of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .... import mechanisms as m
from ...._core import GridLaw, allocation
from ....mechanisms import PrivacyLoss
from ...numerics.outward import Range
from ..closed_form import outcomes
from ..closed_form.binomial import CONTEXT
from ..closed_form.loss_atoms import Atom, AtomDistribution
from ..closed_form.privacy_curve import PrivacyCurve
from ..engine_interface import Direction
from ..grid import loss_distributions

if TYPE_CHECKING:
    from ...._core import AllocationAtoms

U = 2.0**-53
COARSEST, FINEST = 5, 12
"""Coarsest and finest level. The grid of a level has the spacing 2^-level in the logarithm of the likelihood ratio."""
MOST_CELLS = 1 << 16
"""Largest number of cells of the grid of one distribution."""
_TABLE_ERROR = 2e-9
"""Generous bound on the distance between 1 and the sum of the probabilities in a ``PrivacyLoss``."""
MOST_WORK = 3e8
"""Largest number of products of cells for one distribution. They take about a third of a second."""
LEAST_FLOOR = 1e-280
"""Smallest probability that is allowed to be cut off. Every distribution from above already has the mass 1e-290 at
infinity, for products that underflow (``ratio_mean.cpp`` of the core). So cutting off less would hardly narrow the
bounds."""


@dataclass(frozen=True)
class RoundedAllocationAtoms:
    """Atoms of a privacy loss at ascending ``losses``, which bound the loss of an allocation.

    The atoms bound this loss from above if ``upper``, and otherwise from below. ``infinity`` is P's mass where Q has
    none, and ``minus_infinity`` is Q's mass where P has none. Losses have an absolute error of at most ``slack``, and
    masses a relative error of at most ``relative``. Each method rounds its result outward by these errors.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinity: float
    minus_infinity: float
    slack: float
    relative: float
    upper: bool

    def delta(self, epsilon: float, direction: Direction) -> float:
        """Returns delta at ``epsilon``, rounded up for atoms from above, and down for atoms from below."""
        sign = 1 if self.upper else -1
        # Losses are moved outward by the slack, and by the roundings of the differences below.
        moved = sign * (self.slack + 4 * U * (1 + abs(epsilon) + float(np.abs(self.losses).max(initial=0.0))))
        if direction == "remove":
            start = int(np.searchsorted(self.losses, epsilon - moved))
            weights, gaps = self.masses[start:], epsilon - moved - self.losses[start:]
            beyond = self.infinity
        else:
            stop = int(np.searchsorted(self.losses, moved - epsilon))
            weights = self._reversed_allocation_masses[:stop]
            gaps = self.losses[:stop] + (epsilon - moved)
            beyond = self.minus_infinity
        total = float(np.dot(weights, np.maximum(-np.expm1(gaps), 0.0))) + beyond
        relative = self.relative + (len(weights) + 64) * U
        return min(total * (1 + relative), 1.0) if self.upper else total / (1 + relative)

    def delta_limit_of_allocation(self, direction: Direction) -> float:
        """Returns the limit of the curve for large epsilons, rounded outward."""
        end = self.infinity if direction == "remove" else self.minus_infinity
        return end * (1 + self.relative) if self.upper else end / (1 + self.relative)

    @property
    def is_proper_allocation(self) -> bool:
        """Whether the atoms are worth composing: P and Q have masses of about 1, and most losses are finite.

        For very small or very large parameters the atoms may give only the trivial bound.
        """
        return (
            len(self.masses) > 0
            and self.infinity < 0.5
            and all(abs(end - 1) < 0.01 for end in self._total_allocation_masses)
        )

    def require_all_mass(self, steps: int) -> None:
        """Raises RuntimeError if P or Q has a mass below 1 in atoms from above, or a mass above 1 in atoms from below.

        The check allows for the errors of the atoms, and for ``_TABLE_ERROR`` in each step.
        """
        error = self.relative + self.slack + (len(self.masses) + 64) * U + _TABLE_ERROR * steps
        low, high = min(self._total_allocation_masses) * (1 + error), max(self._total_allocation_masses) * (1 - error)
        if not low >= 1 if self.upper else high > 1:
            raise RuntimeError(
                f"the masses of an allocation's losses are on the wrong side of 1: {self._total_allocation_masses}"
            )

    @property
    def _total_allocation_masses(self) -> tuple[float, float]:
        """Total masses of P and Q: 1 except for roundings and the mass that was cut off at the ends."""
        return self.infinity + float(self.masses.sum()), self.minus_infinity + float(
            self._reversed_allocation_masses.sum()
        )

    @property
    def _reversed_allocation_masses(self) -> NDArray[np.float64]:
        """Q's masses at the losses."""
        found = self.__dict__.get("_q")
        if found is None:
            with np.errstate(over="ignore"):
                found = np.exp(np.log(self.masses) - self.losses)
            object.__setattr__(self, "_q", found)
        return found

    def as_atoms_of_allocation(self, infinity: Range) -> AtomDistribution:
        """Returns these atoms with their errors. The argument ``infinity`` replaces the field of this name."""
        error = self.relative + 8 * U
        found = [
            Atom(Decimal(float(y)), Decimal(float(p)).ln(CONTEXT), self.slack + 2 * U * abs(float(y)), error)
            for y, p in zip(self.losses, self.masses, strict=True)
        ]
        hidden = Range(self.minus_infinity / (1 + error), self.minus_infinity * (1 + error))
        return AtomDistribution(found, infinity, hidden)

    def as_grid_of_allocation(self, direction: Direction) -> GridLaw:
        """Returns these atoms as a distribution of the grid engine, with equal losses merged."""
        logs = np.log(self.masses)
        relative = self.relative + (8 + 2 * np.abs(logs)) * U
        keep = np.append(np.diff(self.losses) > 0, True)
        if not keep.all():  # the last of equal losses gets the masses of all
            ends = np.flatnonzero(keep)
            merged = np.add.reduceat(self.masses, np.append(0, ends[:-1] + 1))
            return RoundedAllocationAtoms(
                self.losses[keep], merged, self.infinity, self.minus_infinity, self.slack,
                self.relative + len(logs) * U, self.upper,
            ).as_grid_of_allocation(direction)  # fmt: skip
        total = 1e-8 + 2 * max(abs(end - 1) for end in self._total_allocation_masses)
        found = GridLaw.atoms(
            self.losses, logs, relative, self.infinity, self.minus_infinity, self.relative, self.slack, 0.0, 0.0, total
        )
        return found.reversed() if direction == "add" else found


@dataclass(frozen=True)
class Allocation:
    """The atoms of one mechanism at one level, from above and from below."""

    upper: RoundedAllocationAtoms
    lower: RoundedAllocationAtoms
    work: float


def explain_missing_allocation_ratios(mechanism: m.Mechanism) -> str | None:
    """Returns the reason why the likelihood ratios of this inner mechanism have no distribution here; None if they have
    one."""
    if isinstance(mechanism, PrivacyLoss) and mechanism.relation == "replace":
        return "a user-defined pair for replacing a record says nothing about leaving one out"
    return loss_distributions.explain_missing_grid_distribution(mechanism, "remove")


@lru_cache(maxsize=32)
def bound_allocation_by_atoms(inner: m.Mechanism, steps: int, level: int, floor: float) -> Allocation | None:
    """Returns atoms for the mean of ``steps`` likelihood ratios. Returns None where ``_bound_allocation`` does.

    ``floor`` is the probability that may be cut off at either end.
    """
    found = _bound_allocation(inner, steps, 2.0**-level, floor)
    if found is None:
        return None
    above, below, work = found
    return Allocation(_build_allocation_atoms(above, steps, True), _build_allocation_atoms(below, steps, False), work)


def _bound_allocation(
    inner: m.Mechanism, steps: int, spacing: float, floor: float
) -> tuple[AllocationAtoms, AllocationAtoms, float] | None:
    """Returns atoms from above, atoms from below and the work.

    Returns None if there would be more than ``MOST_CELLS`` cells, or if likelihood ratios or their errors overflow.
    The atoms from above belong to the pair that dominates the inner mechanism, and the atoms from below to the pair
    that the inner mechanism dominates.
    """
    pair = loss_distributions.grid_loss_distribution(inner, "remove")
    try:
        above, below, work = allocation(pair.upper, steps, spacing, floor, MOST_CELLS)
        if pair.lowers[0] is not pair.upper:
            _, below, more = allocation(pair.lowers[0], steps, spacing, floor, MOST_CELLS)
            work += more
    except ValueError:
        return None
    if not all(math.isfinite(number) for atoms in (above, below) for number in atoms[2:]):
        return None
    return above, below, work


def build_finest_allocation(
    inner: m.Mechanism, steps: int, floor: float, most: int, work: float = MOST_WORK
) -> Allocation | None:
    """Returns the finest atoms up to level ``most`` that ``work`` allows."""
    found = bound_allocation_by_atoms(inner, steps, COARSEST, floor)
    if found is None:
        return None
    level = min(most, COARSEST + int(math.log(max(work / max(found.work, 1.0), 1.0), 4)))
    while level > COARSEST:
        better = bound_allocation_by_atoms(inner, steps, level, floor)
        if better is not None:
            return better
        level -= 1
    return found


@lru_cache(maxsize=32)
def build_coarse_allocation_curve(
    inner: m.Mechanism, steps: int, selected: int, direction: Direction, floor: float
) -> PrivacyCurve | None:
    """Returns the curve of an allocation that selects several steps; None if the allocation has too many outcomes.

    The ratios of one step are on so coarse a grid that all outcomes can be summed (allocation.md section 9). An outcome
    says how many steps have each ratio.
    """
    for level in _COARSE:
        found = _bound_allocation(inner, 1, 2.0**-level, floor / steps)
        if found is None:
            continue
        above, below, _ = found
        high, low = _build_allocation_atoms(above, 1, True), _build_allocation_atoms(below, 1, False)
        excess = steps * max(abs(end - 1) for one in (high, low) for end in one._total_allocation_masses)
        if len(high.masses) > _MOST_ATOMS or len(low.masses) == 0 or selected * high.infinity > 0.01 or excess > 1e-6:
            continue
        less, more = (
            low.as_atoms_of_allocation(Range(0.0)),
            high.as_atoms_of_allocation(Range(0.0, high.infinity * (1 + 1e-4))),
        )
        curve = outcomes.build_outcome_curve_from_atoms(less, more, steps, selected, direction, _MOST_OUTCOMES)
        if curve is not None:
            return curve
    return None


_COARSE = range(4, -4, -1)
"""Levels of the coarse grid that are tried: spacings from 1/16 to 8 in the logarithm of the ratio."""
_MOST_ATOMS = 128
"""Largest number of atoms of the ratios of one step."""
_MOST_OUTCOMES = 1 << 15
"""Largest number of outcomes. Summing so many takes some hundredths of a second."""


def choose_allocation_floor(delta: float) -> float:
    """Returns the probability that may be cut off at either end if ``delta`` is asked for.

    It is rounded to one of few values, so that cached results are found again.
    """
    exponent = 4 * math.ceil((9 - math.log10(delta)) / 4) if delta > 0 else 300
    return max(10.0**-exponent, LEAST_FLOOR)


def _build_allocation_atoms(found: AllocationAtoms, steps: int, upper: bool) -> RoundedAllocationAtoms:
    """Sorts the atoms of the core and checks their total masses."""
    losses, masses, infinity, minus_infinity, slack, relative = found
    order = np.argsort(losses, kind="stable")
    atoms = RoundedAllocationAtoms(losses[order], masses[order], infinity, minus_infinity, slack, relative, upper)
    atoms.require_all_mass(steps)
    return atoms
