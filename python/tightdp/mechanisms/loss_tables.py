"""Complete pairs, which are pairs of discrete distributions P and Q whose masses are all known, up to roundings.

A table of privacy losses stands for many pairs (docs/theory/conversions.md section 10). ``bound_loss_table`` returns
one complete pair that dominates all of these pairs, and one that all of these pairs dominate. The two dominations still
hold after the pairs are reversed, sampled, allocated or composed, because P and Q each add up to 1 (the lemma of
section 10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TOLERANCE = 1e-9
"""Largest distance from 1 at which a sum of probabilities is accepted as 1."""
SMALL_ERROR = 1e-6
"""Largest error of a table's losses that is kept as the ``slack`` of a complete pair. If the error is larger, it is
added to or subtracted from the losses instead."""
_ULP = 2.0**-52
_GIVEN_ERROR = 4 * _ULP
"""Assumed relative error of a probability that a user gives."""
_KNOWN_WIDTH = 2.0**-30
"""``hidden``, Q's mass where P has none, is known to lie in a range. If the relative width of the range is at most this
number, both complete pairs are the same, and their ``hidden`` is the upper end of the range."""


@dataclass(frozen=True, slots=True, eq=False)
class CompletePair:
    """Two distributions P and Q, given by the privacy losses of their outcomes.

    ``losses`` ascend strictly, and each has an error of at most ``slack``. ``masses`` are P's masses at the losses,
    with a relative error of at most ``relative``. Q's masses there are ``masses * exp(-losses)``. ``infinity`` is P's
    mass where Q has none, and ``hidden`` is Q's mass where P has none. ``infinity`` and ``hidden`` have a relative
    error of at most ``relative_ends``.
    """

    losses: Array
    masses: Array
    infinity: float
    hidden: float
    slack: float
    relative: float
    relative_ends: float = 8 * _ULP

    @property
    def q_masses(self) -> Array:
        """Q's masses at the losses, correct up to a factor of e^slack and the roundings of an exponential."""
        with np.errstate(over="ignore", under="ignore"):
            found: Array = np.exp(np.log(self.masses) - self.losses)
        return found

    @property
    def largest_absolute_loss(self) -> float:
        """The largest privacy loss of P against Q or of Q against P, without the slack."""
        if self.infinity > 0 or self.hidden > 0:
            return math.inf
        return float(np.abs(self.losses).max(initial=0.0))


class LossTable(NamedTuple):
    """Ascending privacy losses with P's masses, and P's mass where Q has none."""

    losses: Array
    masses: Array
    infinity: float


def bound_hidden_mass_of_loss_table(losses: Array, masses: Array, error: float) -> tuple[float, float]:
    """Returns a lower and an upper bound of 1 minus the sum of Q's masses. Both bounds may be negative.

    Each given loss differs from the true loss by at most ``error``.
    """
    found, rounding = _sum_q_masses_of_loss_table(losses, masses)
    with np.errstate(over="ignore"):
        least = 1 - (found + rounding) * float(np.exp(error)) * (1 + 4 * _ULP)
    most = 1 - (found - rounding) * math.exp(-error) * (1 - 4 * _ULP)
    return math.nextafter(least, -math.inf), math.nextafter(most, 1.0)


def bound_loss_table(table: LossTable, hidden: float | None, error: float) -> tuple[CompletePair, CompletePair]:
    """Returns a complete pair that dominates every pair of a table, and one that all pairs of the table dominate.

    A pair of the table is one that agrees with the table, up to ``error``.

    ``hidden`` is the mass that Q is stated to have where P has none. ``error`` bounds the distance of each loss from
    the true loss. Both results are the same object if the table is exact except for roundings.
    """
    losses, masses, infinity = table
    lost, scale = _measure_deficit_of_loss_table(masses, infinity)
    found, rounding = _sum_q_masses_of_loss_table(losses, masses)
    error = max(error, math.log(max(found - rounding, 1.0)))  # since Q's true sum is at most 1
    least, most = bound_hidden_mass_of_loss_table(losses, masses, error)
    if error > SMALL_ERROR:
        above = _raise_loss_table(LossTable(losses, masses, min(infinity + lost, 1.0)), max(most, hidden or 0.0), error)
        scaled = LossTable(losses, masses / scale, infinity / scale)
        return above, _reduce_loss_table(
            scaled, max(bound_hidden_mass_of_loss_table(losses, scaled.masses, error)[0], 0.0), error
        )
    low, high = _bound_given_mass_of_loss_table(hidden, least, most)
    relative = _GIVEN_ERROR + scale - 1
    if lost == 0 and high - low <= _KNOWN_WIDTH * high:
        ends = 8 * _ULP + scale - 1 + ((high - low) / high if high > 0 else 0.0)
        one = CompletePair(losses, masses, infinity, high, error, relative, ends)
        return one, one
    ends = 8 * _ULP + scale - 1
    above = CompletePair(losses, masses, min(infinity + lost, 1.0), high, error, relative, ends)
    return above, CompletePair(losses, masses, infinity, low, error, relative, ends)


def _bound_given_mass_of_loss_table(stated: float | None, least: float, most: float) -> tuple[float, float]:
    """Returns bounds of Q's mass where P has none. The losses imply that this mass is between ``least`` and ``most``.

    A ``stated`` mass between ``least`` and ``most`` is taken as exact if it is within ``TOLERANCE`` of ``most``. A
    ``stated`` mass of at least ``most`` is taken as an upper bound.
    """
    low, high = max(least, 0.0), max(most, 0.0)
    if stated is None:
        return low, high
    if stated >= most:
        return min(low, stated), stated
    if least <= stated and most - stated <= TOLERANCE:
        return stated, stated
    return low, high


def _measure_deficit_of_loss_table(masses: Array, infinity: float) -> tuple[float, float]:
    """Returns 1 minus P's total mass, or 0 if that is negative, and a number by which P's masses are to be divided.

    The first number is rounded up. The divisor is 1 unless the sum of the masses exceeds 1. A sum that differs from 1
    by no more than its own rounding error is taken as 1.
    """
    total = math.fsum((*masses.tolist(), infinity))
    rounding = 4 * _ULP * (8 + math.log2(1 + len(masses)))
    if abs(total - 1) <= rounding:
        return 0.0, 1.0
    return (math.nextafter(1 - total, 1.0), 1.0) if total < 1 else (0.0, total)


def _raise_loss_table(table: LossTable, hidden: float, error: float) -> CompletePair:
    """Returns the pair whose losses are the table's losses plus ``error``. This pair dominates every pair of the
    table."""
    losses, masses = _merge_equal_losses_of_loss_table(table.losses + error, table.masses)
    digits = float(np.max(np.abs(np.log(masses)) + np.abs(losses), initial=0.0)) + math.log2(1 + len(losses)) + 8
    return CompletePair(losses, masses, table.infinity, hidden, 8 * _ULP * (digits + error), _GIVEN_ERROR)


def _reduce_loss_table(table: LossTable, hidden: float, error: float) -> CompletePair:
    """Returns a pair that is dominated by every pair that the table may stand for.

    In each of these pairs, the losses differ from the table's losses by at most ``error``, and Q has a mass of at least
    ``hidden`` where P has none.
    """
    low, high = (
        LossTable(table.losses - error, table.masses, table.infinity),
        LossTable(table.losses + error, table.masses, 0.0),
    )
    found = bound_loss_tables_from_below(low, high, hidden, error / 4)
    slack = found.slack + 2 * _ULP * (_bound_digits_of_loss_table(table.losses) + error)
    return CompletePair(
        found.losses, found.masses, found.infinity, found.hidden, slack, found.relative, found.relative_ends
    )


def bound_loss_tables_from_below(low: LossTable, high: LossTable, hidden: float, slack: float) -> CompletePair:
    """Returns a complete pair that is dominated by every pair (P, Q) with two known bounds.

    The curve of a pair is delta as a function of epsilon. The first bound is that the curve of (P, Q) is at least the
    curve of ``low``. The second bound is that the curve of (Q, P) is at least the curve of the reverse of ``high``. In
    ``high``, Q has the mass ``hidden`` where P has none (docs/theory/conversions.md section 10, Theorem 2).

    The curves of ``low`` and ``high`` cross at some point. The returned pair has the losses of ``high`` to the left of
    this point, and the losses of ``low`` to the right. One atom between them has the rest of the mass of P and of Q.
    The loss of this atom has an error of at most ``slack``.
    """
    (a, p_a, infinity), (b, p_b, _) = low, high
    with np.errstate(over="ignore", under="ignore"):
        q_a, q_b = np.exp(np.log(p_a) - a), np.exp(np.log(p_b) - b)
    # Here a are the losses of ``low``, and b are the losses of ``high``. The losses b[:left] and a[right:] are kept.
    left, right = _find_crossing_of_loss_tables(low, high, q_a, q_b, hidden)
    terms = math.log2(2 + len(a) + len(b)) + 8
    step = 1
    while True:
        kept_a, kept_b = slice(right, None), slice(0, left)
        p = 1 - infinity - float(p_a[kept_a].sum()) - float(p_b[kept_b].sum())
        q = 1 - hidden - float(q_a[kept_a].sum()) - float(q_b[kept_b].sum())
        off_p = 4 * _ULP * terms
        off_q = off_p + _ULP * (
            float(q_a[kept_a] @ (np.abs(a[kept_a]) + np.abs(np.log(p_a[kept_a])) + terms))
            + float(q_b[kept_b] @ (np.abs(b[kept_b]) + np.abs(np.log(p_b[kept_b])) + terms))
        )
        if p <= 2 * off_p and left == 0:  # no mass of P is left, and the rest of Q is hidden
            return _join_loss_tables(low, high, kept_a, kept_b, None, hidden + max(q - 2 * off_q, 0.0), 0.0)
        if q <= 2 * off_q and right == len(a):  # no mass of Q is left, and the rest of P is left out
            return _join_loss_tables(low, high, kept_a, kept_b, None, hidden, 0.0)
        if p > 2 * off_p and q > 2 * off_q:
            at, unsure = math.log(p / q), 2 * (off_p / p + off_q / q)
            fits = (left == 0 or b[left - 1] <= at) and (right == len(a) or at <= a[right])
            if fits and (unsure <= slack or (left == 0 and right == len(a))):
                return _join_loss_tables(low, high, kept_a, kept_b, (at, p - off_p), hidden, unsure)
        else:
            at = math.inf if q <= 2 * off_q else -math.inf
        # The kept loss that is nearest to the atom is merged into the atom. Later steps merge more losses at a time.
        far_a = a[right] - at if right < len(a) else math.inf
        far_b = at - b[left - 1] if left > 0 else math.inf
        if far_a <= far_b and right < len(a):
            right = min(right + step, len(a))
        else:
            left = max(left - step, 0)
        step = min(step + (step >> 3) + 1, 1 << 12) if len(a) > 64 else 1


def _find_crossing_of_loss_tables(
    low: LossTable, high: LossTable, q_a: Array, q_b: Array, hidden: float
) -> tuple[int, int]:
    """Finds the last point where the curve of ``high`` is not below the curve of ``low``.

    Returns the number of losses of ``high`` to the left of this point, and the index of the first loss of ``low`` to
    its right. Roundings may move the point, so the caller must check it.
    """
    nodes = np.sort(np.concatenate((low.losses, high.losses)), kind="stable")
    right = np.searchsorted(low.losses, nodes, side="right")
    left = np.searchsorted(high.losses, nodes, side="right")
    rest_p = (
        1
        - low.infinity
        - _sum_upper_masses_of_loss_table(low.masses)[right]
        - _sum_lower_masses_of_loss_table(high.masses)[left]
    )
    rest_q = 1 - hidden - _sum_upper_masses_of_loss_table(q_a)[right] - _sum_lower_masses_of_loss_table(q_b)[left]
    with np.errstate(over="ignore"):
        ahead = np.flatnonzero(rest_p - np.exp(np.minimum(nodes, 700.0)) * rest_q >= 0)
    return (int(left[ahead[-1]]), int(right[ahead[-1]])) if len(ahead) else (0, 0)


def _sum_upper_masses_of_loss_table(values: Array) -> Array:
    """Returns, for each index, the sum of the values from this index on."""
    found: Array = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    return found


def _sum_lower_masses_of_loss_table(values: Array) -> Array:
    """Returns, for each index, the sum of the values before it."""
    found: Array = np.append(0.0, np.cumsum(values))
    return found


def _join_loss_tables(
    low: LossTable,
    high: LossTable,
    kept_low: slice,
    kept_high: slice,
    middle: tuple[float, float] | None,
    hidden: float,
    unsure: float,
) -> CompletePair:
    """Returns the pair that consists of the kept parts of both tables and the atom ``middle`` between these parts.

    ``middle`` is the loss of the atom and its mass, or None for no atom. The loss has an error of at most ``unsure``.
    """
    at, mass = ([middle[0]], [middle[1]]) if middle else ([], [])
    losses = np.concatenate((high.losses[kept_high], at, low.losses[kept_low]))
    masses = np.concatenate((high.masses[kept_high], mass, low.masses[kept_low]))
    slack = unsure + 8 * _ULP * _bound_digits_of_loss_table(losses)
    return CompletePair(*_merge_equal_losses_of_loss_table(losses, masses), low.infinity, hidden, slack, _GIVEN_ERROR)


def _merge_equal_losses_of_loss_table(losses: Array, masses: Array) -> tuple[Array, Array]:
    """Returns ascending losses without repetitions. The masses of equal losses are added up."""
    first = np.append(True, np.diff(losses) > 0)[: len(losses)]
    if first.all():
        return losses, masses
    return losses[first], np.add.reduceat(masses, np.flatnonzero(first))


def _sum_q_masses_of_loss_table(losses: Array, masses: Array) -> tuple[float, float]:
    """Returns the sum of Q's masses at the losses, and a bound on its error.

    The error comes from the roundings of the logarithms, the exponentials and the sum.
    """
    with np.errstate(over="ignore", under="ignore"):
        logs = np.log(masses)
        terms = np.exp(logs - losses)
        digits = np.abs(logs) + np.abs(losses) + (math.log2(1 + len(losses)) + 8)
        return float(terms.sum()), 2 * _ULP * float(terms @ digits)


def _bound_digits_of_loss_table(losses: Array) -> float:
    """Returns 1 plus the largest absolute loss, to which the rounding error of a loss is proportional."""
    return 1 + float(np.abs(losses).max(initial=0.0))
