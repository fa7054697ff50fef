"""Compositions with few outcomes, summed one by one (docs/theory/closed-forms.md section 8).

P and Q are the distributions of the output on two neighbouring data sets. Each step has a few atoms, which are possible
values of its privacy loss. The order of the steps of one mechanism does not matter. So an outcome states, for each of
the possible losses, how many steps have this loss. The curve of a composition is delta as a function of epsilon.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .... import mechanisms as m
from ...._core import work_charge
from ....mechanisms import PrivacyLoss
from ...numerics.outward import INF, LARGEST, LIBM, TINY, ULP, Range, expm1, log1p, widen_up
from ...pairs.replacement import ReplacedClass
from ...pairs.replacement import bracket_losses_of_replaced_pair as losses_of
from ..engine_interface import Direction, Parts
from .binomial import CONTEXT
from .loss_atoms import MOST_ATOMS, AtomDistribution, count_loss_atoms, list_loss_atoms, may_have_atom_at_infinity
from .privacy_curve import PrivacyCurve, invert_closed_form_from_above, invert_closed_form_from_below
from .single_mechanisms import BracketedCurve

MOST_OUTCOMES = 1 << 17
"""Largest number of outcomes. Finding so many takes a twentieth of a second, and each answer then takes a hundredth of
a second."""
_TABLE_UNITS, _SUM_UNITS = 1000, 20
"""Measured work units for finding one outcome, and for adding one outcome to a sum."""
_MOST_WORK = 3e7
"""Largest number of multiplications for the likelihood ratios of an allocation. They take a fifth of a second."""
_MOST_LOG = 600.0
"""Largest logarithm of the likelihood ratios of an allocation, and of the number of ways to choose its steps. The
exponentials of such logarithms are doubles, far from overflow."""
_DIGITS = max(float(np.finfo(np.longdouble).eps), 2.0**-64)
"""Relative rounding error of long doubles, which have at least the accuracy of doubles on every machine."""
_UNRESOLVED = 1e-50
"""Bound on a mass whose computed value is 0. Such a mass is a difference of numbers of at most 1, computed with sixty
digits."""

_Array = NDArray[np.float64]
_Long = NDArray[Any]


def find_outcome_curve(parts: Parts, direction: Direction) -> PrivacyCurve | None:
    """Returns the curve of a composition with few outcomes, or None. The outcomes are computed when first needed."""
    total = 1
    for mechanism, count in parts:
        total *= _count_outcomes(mechanism, count)
        if not 0 < total <= MOST_OUTCOMES:
            return None
    two = any(_has_two_outcome_tables(mechanism) for mechanism, _ in parts)
    high = FewOutcomesCurve(parts, direction, True)
    found = BracketedCurve(FewOutcomesCurve(parts, direction, False), high) if two else high
    found.making_units = _TABLE_UNITS * total * (1 + two)
    return found


def _count_outcomes(mechanism: m.Mechanism, count: int) -> int:
    """Returns the number of outcomes of ``count`` steps; 0 if this number is too large or unknown."""
    if isinstance(mechanism, m.RandomAllocation):
        found = _count_outcome_multisets(_count_atoms_for_outcomes(mechanism), mechanism.steps)
        if not found or not _has_feasible_closed_form_outcomes(mechanism, found):
            return 0
        return found if count == 1 else _count_outcome_multisets(found, count)
    kinds = count_loss_atoms(mechanism)
    return 0 if kinds is None or kinds > MOST_ATOMS else _count_outcome_multisets(max(kinds, 1), count)


def _count_outcome_multisets(kinds: int, size: int) -> int:
    """Returns the number C(size + kinds - 1, size) of multisets, or 0 if this number is too large."""
    small = min(size, kinds - 1)
    if kinds < 1 or (kinds > 1 and size > MOST_OUTCOMES) or small > 10:
        return 0
    found = math.comb(size + kinds - 1, small)
    return found if found <= MOST_OUTCOMES else 0


def _count_atoms_for_outcomes(mechanism: m.RandomAllocation) -> int:
    """Returns an upper bound on the number of Q's atoms in one step, including the atom where P has no mass."""
    found = count_loss_atoms(mechanism.mechanism) or 0
    return found + may_have_atom_at_infinity(mechanism.mechanism) if found else 0


def _has_feasible_closed_form_outcomes(mechanism: m.RandomAllocation, outcomes: int) -> bool:
    """Tells whether computing the likelihood ratios of an allocation takes little work and cannot overflow."""
    steps, k = mechanism.steps, mechanism.selected
    columns = min(steps, count_loss_atoms(mechanism.mechanism) or 0)
    if outcomes * columns * (k + 1) * (k + 1) > _MOST_WORK:
        return False
    if min(k, steps - k) * math.log(steps + 1) > _MOST_LOG:
        return False
    atoms = list_loss_atoms(mechanism.mechanism, "remove", True).atoms
    losses = [atom.loss for atom in atoms]
    return (
        bool(losses) and all(atom.log_p.is_finite() for atom in atoms) and k * (max(losses) - min(losses)) < _MOST_LOG
    )


def _has_two_outcome_tables(mechanism: m.Mechanism) -> bool:
    """Tells whether the lower and the upper end of a bound come from different distributions of the mechanism."""
    inner = getattr(mechanism, "mechanism", mechanism)
    if isinstance(inner, PrivacyLoss):
        return inner.dominating is not inner.dominated
    return isinstance(inner, ReplacedClass) and losses_of(inner)[0] is not losses_of(inner)[1]


def build_outcome_curve_from_atoms(
    less: AtomDistribution, more: AtomDistribution, steps: int, selected: int, direction: Direction, most: int
) -> PrivacyCurve | None:
    """Returns bounds on the curve of a random allocation of ``selected`` out of ``steps`` steps.

    The atoms ``less`` of one step give the lower bound, and the atoms ``more`` give the upper bound. Returns None if
    one of the two leads to more than ``most`` outcomes, or to likelihood ratios that could overflow.
    """
    for few in (less, more):
        outcomes = _count_outcome_multisets(len(few.atoms) + (few.hidden.lo > 0), steps)
        losses = [atom.loss for atom in few.atoms if atom.log_p.is_finite()]
        if (
            not (losses and len(losses) == len(few.atoms) and 0 < outcomes <= most)
            or selected * (max(losses) - min(losses)) > _MOST_LOG
        ):
            return None
    low, high = (
        _sort_outcomes(_convert_atoms_to_drawn_outcomes(few, steps, selected, direction)) for few in (less, more)
    )
    return BracketedCurve(TabulatedCurve(low), TabulatedCurve(high))


class TabulatedCurve(PrivacyCurve):
    """A curve that is given by a table of outcomes."""

    def __init__(self, table: _OutcomeTable) -> None:
        self.kept = table

    @property
    def outcome_table(self) -> _OutcomeTable:
        return self.kept

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        found = self.outcome_table
        work_charge(_SUM_UNITS * len(found.low))
        return Range(
            found.sum_delta_of_outcomes(epsilon, found.low, -1.0) + found.infinity.lo * (1 - 2 * ULP),
            found.sum_delta_of_outcomes(epsilon, found.high, 1.0) + found.infinity.hi * (1 + 2 * ULP),
        )

    def invert_closed_form_delta(self, delta: float) -> Range:
        found = self.outcome_table
        if delta < found.infinity.lo:
            return Range(INF)
        root = found.estimate_root_of_outcomes(delta)
        above = INF if delta < found.infinity.hi else invert_closed_form_from_above(self, delta, root)
        return Range(invert_closed_form_from_below(self, delta, root), above)


class FewOutcomesCurve(TabulatedCurve):
    """The curve of a composition of mechanisms with atoms. The outcomes are computed when the curve first needs
    them."""

    def __init__(self, parts: Parts, direction: Direction, high: bool) -> None:
        self._key = parts, direction, high

    @property
    def outcome_table(self) -> _OutcomeTable:
        return _build_outcome_table(*self._key)


class _OutcomeTable(NamedTuple):
    """The outcomes in the order of their losses.

    Each outcome has a loss between ``low`` and ``high``, and a mass under P with a relative error. ``infinity`` is the
    mass of P where Q has none.
    """

    low: _Array
    high: _Array
    masses: _Array
    errors: _Array
    infinity: Range

    def sum_delta_of_outcomes(self, epsilon: float, losses: _Array, sign: float) -> float:
        """Returns the sum of P's mass times 1 - e^{epsilon - loss} over the losses above epsilon.

        The sum is rounded up if ``sign`` is 1, and down if ``sign`` is -1.
        """
        first = int(np.searchsorted(losses, epsilon, side="right"))
        terms = self.masses[first:] * -np.expm1(epsilon - losses[first:])
        if not len(terms):
            return 0.0
        error = float(np.dot(terms, self.errors[first:])) * (1 + len(terms) * ULP)
        exactly = len(terms) <= _SUMMED_EXACTLY
        total = math.fsum(terms) if exactly else float(terms.sum())
        total += sign * (error + (2 if exactly else 64) * ULP * total + (4 * len(terms) + 4) * TINY)
        return max(total, 0.0)

    def estimate_root_of_outcomes(self, delta: float) -> float:
        """Returns the approximate epsilon at which the curve has the value ``delta``.

        The epsilon is interpolated, because delta is linear in e^epsilon between two neighbouring losses.
        """
        beyond = delta - 0.5 * (self.infinity.lo + self.infinity.hi)
        left, right = -1, len(self.low) - 1  # the curve is above delta at ``left``, and not at ``right``
        while right - left > 1:
            middle = (left + right) // 2
            terms = self.masses[middle + 1 :] * -np.expm1(self.low[middle] - self.low[middle + 1 :])
            left, right = (middle, right) if terms.sum() > beyond else (left, middle)
        if right < 0:
            return 0.0
        end, masses = float(self.low[right]), self.masses[right:]
        share = float(masses.sum() - beyond) / max(float(np.dot(masses, np.exp(end - self.low[right:]))), TINY)
        return max(end + math.log(share), 0.0) if share > 0 else max(end, 0.0)


_SUMMED_EXACTLY = 1 << 12
"""Largest number of terms that ``math.fsum`` adds, with one rounding. For more terms ``math.fsum`` would take too
long."""


class _Outcomes(NamedTuple):
    """The losses of outcomes and the logarithms of their masses under P, with bounds of their absolute errors.

    ``infinity`` is the mass of P where Q has none.
    """

    losses: _Long
    log_p: _Long
    loss_error: _Long
    log_error: _Long
    infinity: Range

    def repeat_outcomes(self, count: int) -> _Outcomes:
        """Returns the outcomes of ``count`` independent steps."""
        if count == 1:
            return self
        infinity = -expm1(count * log1p(-self.infinity))
        if not len(self.losses):
            return self._replace(infinity=infinity)
        found = _OutcomeMultisets(len(self.losses), count)
        return _Outcomes(
            found.sum_values_of_outcomes(self.losses),
            found.log_number_of_outcomes() + found.sum_values_of_outcomes(self.log_p),
            found.sum_values_of_outcomes(self.loss_error) + _bound_rounding_of_outcomes(count, self.losses),
            found.sum_values_of_outcomes(self.log_error)
            + _bound_rounding_of_outcomes(count, self.log_p)
            + found.rounding,
            infinity.limit_range_to(0.0, 1.0),
        )

    def combine_with_outcomes(self, other: _Outcomes) -> _Outcomes:
        """Returns the joint outcomes of this composition and an independent one."""
        infinity = self.infinity + other.infinity - self.infinity * other.infinity
        return _Outcomes(
            np.add.outer(self.losses, other.losses).ravel(),
            np.add.outer(self.log_p, other.log_p).ravel(),
            np.add.outer(
                self.loss_error + _bound_rounding_of_outcomes(1, self.losses),
                other.loss_error + _bound_rounding_of_outcomes(1, other.losses),
            ).ravel(),
            np.add.outer(
                self.log_error + _bound_rounding_of_outcomes(1, self.log_p),
                other.log_error + _bound_rounding_of_outcomes(1, other.log_p),
            ).ravel(),
            infinity.limit_range_to(0.0, 1.0),
        )


def _bound_rounding_of_outcomes(count: int, values: _Long) -> float:
    """Returns a bound on the rounding error of sum_i n_i v_i, where v_i are the ``values``.

    The n_i are whole numbers >= 0 with a sum of at most ``count``.
    """
    return 16 * _DIGITS * count * float(np.abs(values).max(initial=0.0))


class _OutcomeMultisets:
    """The table of all multisets of ``size`` things of ``kinds`` kinds.

    A thing is a step or a use of a mechanism, and its kind is its outcome.

    A row of the array ``columns`` describes a multiset in one of two ways, whichever needs fewer columns. If
    ``by_kind`` is True, the row has the number of things of each kind. Otherwise, it has the kind of each thing.

    The rows are found by stars and bars. A multiset is a row of size + kinds - 1 places, with bars at kinds - 1 of the
    places and a thing at each other place. The bars separate the kinds.
    """

    def __init__(self, kinds: int, size: int) -> None:
        self.kinds, self.size = kinds, size
        self.by_kind = kinds - 1 <= size
        if kinds == 1:  # a single multiset, so nothing here grows with the size
            self.columns, self.rounding = np.array([[size]], dtype=np.int64), 0.0
            return
        chosen = kinds - 1 if self.by_kind else size
        number = math.comb(size + kinds - 1, chosen)
        flat = itertools.chain.from_iterable(itertools.combinations(range(size + kinds - 1), chosen))
        places = np.fromiter(flat, dtype=np.int64, count=number * chosen).reshape(number, chosen)
        if self.by_kind:
            bars = np.column_stack((np.full(number, -1), places, np.full(number, size + kinds - 1)))
            self.columns = np.diff(bars, axis=1) - 1
        else:
            self.columns = places - np.arange(chosen)
        self._logs = _log_factorials_of_outcomes(size)
        self.rounding = 64 * _DIGITS * (float(self._logs[-1]) + size)

    def sum_values_of_outcomes(self, values: _Long) -> _Long:
        """Returns, for each multiset, the sum of the values of its things."""
        if self.by_kind:
            parts = (self.columns[:, i] * values[i] for i in range(self.kinds))
        else:
            parts = (values[self.columns[:, j]] for j in range(self.size))
        found: _Long = np.zeros(len(self.columns), dtype=np.longdouble)
        for part in parts:
            found += part
        return found

    def log_number_of_outcomes(self) -> _Long:
        """Returns, for each multiset, the logarithm of the number of orders of its things."""
        if self.kinds == 1:
            return np.zeros(1, dtype=np.longdouble)
        found: _Long = np.full(len(self.columns), self._logs[-1])
        if self.by_kind:
            for i in range(self.kinds):
                found -= self._logs[self.columns[:, i]]
            return found
        logs, run = np.log(np.arange(1, self.size + 1, dtype=np.longdouble)), np.ones(len(found), dtype=np.int64)
        for j in range(1, self.size):
            run = np.where(self.columns[:, j] == self.columns[:, j - 1], run + 1, 1)
            found -= logs[run - 1]
        return found

    def evaluate_symmetric_outcomes(self, ratios: _Long, k: int) -> _Long:
        """Returns, for each multiset, the elementary symmetric polynomial of degree k of the ratios of its things.

        The ratios are in [0, 1]. Only sums and products of nonnegative numbers are computed, so no digits are lost by
        cancellation.
        """
        found = np.zeros((k + 1, len(self.columns)), dtype=np.longdouble)
        found[0] = 1
        if not self.by_kind:
            for j in range(self.size):
                one = ratios[self.columns[:, j]]
                for degree in range(min(k, j + 1), 0, -1):
                    found[degree] += found[degree - 1] * one
            return cast(_Long, found[k])
        for i in range(self.kinds):
            powers = _list_symmetric_terms_of_outcomes(ratios[i], self.columns[:, i], k)
            fresh = np.zeros_like(found)
            for degree in range(k + 1):
                for taken in range(degree + 1):
                    fresh[degree] += found[degree - taken] * powers[taken]
            found = fresh
        return cast(_Long, found[k])


def _list_symmetric_terms_of_outcomes(ratio: np.longdouble, counts: NDArray[np.int64], k: int) -> list[_Long]:
    """Returns, for each j = 0, ..., k, the array of C(n, j) ratio^j for all n in ``counts``."""
    n = counts.astype(np.longdouble)
    found = [np.ones_like(n)]
    for j in range(k):
        found.append(found[-1] * np.maximum(n - j, 0) / (j + 1) * ratio)
    return found


def _list_outcomes_of_mechanism(mechanism: m.Mechanism, direction: Direction, high: bool) -> _Outcomes:
    """Returns the outcomes of one use of a mechanism. One use of a ``RandomAllocation`` has many steps."""
    if isinstance(mechanism, m.RandomAllocation):
        return _convert_atoms_to_drawn_outcomes(
            list_loss_atoms(mechanism.mechanism, "remove", high), mechanism.steps, mechanism.selected, direction
        )
    return _convert_atoms_to_outcomes(list_loss_atoms(mechanism, direction, high))


def _convert_atoms_to_outcomes(found: AtomDistribution) -> _Outcomes:
    """Returns the atoms of one step as outcomes, in long doubles.

    An atom whose mass is 0 when it is computed with sixty digits is left out, and counts as an infinite loss.
    """
    atoms = [one for one in found.atoms if one.log_p.is_finite()]
    losses, log_p = (
        _as_long_double_outcomes([one.loss for one in atoms]),
        _as_long_double_outcomes([one.log_p for one in atoms]),
    )
    lost = Range(0.0, _UNRESOLVED * (len(found.atoms) - len(atoms)))
    return _Outcomes(
        losses,
        log_p,
        np.array([one.loss_error for one in atoms], dtype=np.longdouble) + _bound_rounding_of_outcomes(1, losses),
        np.array([one.log_error for one in atoms], dtype=np.longdouble) + _bound_rounding_of_outcomes(1, log_p),
        (found.infinity + lost).limit_range_to(0.0, 1.0) if lost.hi else found.infinity,
    )


def _convert_atoms_to_drawn_outcomes(few: AtomDistribution, steps: int, k: int, direction: Direction) -> _Outcomes:
    """Returns the outcomes of a random allocation of ``k`` out of ``steps`` steps (docs/theory/allocation.md,
    Theorem 1).

    ``few`` has the atoms of one step in the direction "remove". Under Q the steps are independent. The ratio of P's
    mass to Q's mass is e_k / C(steps, k), where e_k is the elementary symmetric polynomial of degree k of the
    likelihood ratios of the steps.
    """
    base = _convert_atoms_to_outcomes(few)
    hidden = few.hidden.lo > 0
    log_q = base.log_p - base.losses
    ratios = base.losses
    if hidden:
        middle = Decimal(0.5 * (few.hidden.lo + few.hidden.hi))
        with localcontext(CONTEXT):
            log_q = np.append(log_q, _as_long_double_outcomes([middle.ln()]))
    top = ratios.max()
    scaled = np.exp(ratios - top)
    scaled = np.append(scaled, np.longdouble(0)) if hidden else scaled
    found = _OutcomeMultisets(len(log_q), steps)
    symmetric = found.evaluate_symmetric_outcomes(scaled, k)
    seen = symmetric > 0
    with np.errstate(divide="ignore"):
        loss = np.log(symmetric) + k * top - _as_long_double_outcomes([Decimal(math.comb(steps, k)).ln(CONTEXT)])[0]
    mass = found.log_number_of_outcomes() + found.sum_values_of_outcomes(log_q)
    spread = float(top - ratios.min())
    loss_error = k * (float(base.loss_error.max()) + _DIGITS * (8 + 4 * spread)) + _DIGITS * (
        16 * (k + 2) * (len(log_q) + 4) + 8 * k * abs(float(top)) + 2000
    )
    uncertain = (few.hidden.hi - few.hidden.lo) / few.hidden.lo if hidden else 0.0
    log_error = (
        steps * (float((base.log_error + base.loss_error).max()) + uncertain)
        + _bound_rounding_of_outcomes(steps, log_q)
        + found.rounding
    )
    lost = (
        0.0 if hidden else widen_up(steps * few.hidden.hi)
    )  # the small mass that was left out counts as an infinite loss
    here = loss[seen]
    spent = np.full(len(here), loss_error), np.full(len(here), log_error)
    if direction == "remove":
        infinity = -expm1(k * log1p(-few.infinity)) + Range(0.0, lost)
        return _Outcomes(here, (mass + loss)[seen], spent[0], spent[0] + spent[1], infinity.limit_range_to(0.0, 1.0))
    alone = mass[~seen]  # outcomes where P has no mass
    certain = math.fsum(float(x) for x in np.exp(alone))
    error = 2 * (log_error + 2 * LIBM) * certain
    infinity = Range(max(certain - error, 0.0), min(certain + error + lost, 1.0))
    return _Outcomes(-here, mass[seen], *spent, infinity)


def _as_long_double_outcomes(values: list[Decimal]) -> _Long:
    return np.array([np.longdouble(str(value)) for value in values], dtype=np.longdouble)


@lru_cache(maxsize=8)
def _build_outcome_table(parts: Parts, direction: Direction, high: bool) -> _OutcomeTable:
    """Returns the sorted outcomes of the composition of all parts."""
    found: _Outcomes | None = None
    for mechanism, count in parts:
        one = _list_outcomes_of_mechanism(mechanism, direction, high).repeat_outcomes(count)
        found = one if found is None else found.combine_with_outcomes(one)
    assert found is not None
    return _sort_outcomes(found)


def _sort_outcomes(found: _Outcomes) -> _OutcomeTable:
    """Returns the outcomes in the order of their losses, rounded to doubles, with bounds of the errors."""
    order = np.argsort(found.losses, kind="stable")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        y, log_p = found.losses[order].astype(np.float64), found.log_p[order].astype(np.float64)
        beyond = y > LARGEST
        y = np.clip(y, -LARGEST, LARGEST)
        slack = found.loss_error[order].astype(np.float64) * (1 + 4 * ULP) + 2 * ULP * np.abs(y)
        low = np.minimum.accumulate((y - slack)[::-1])[::-1]
        high_ends = np.maximum.accumulate(np.where(beyond, INF, y + slack))
        masses = np.exp(log_p)
        errors = found.log_error[order].astype(np.float64) + 2 * LIBM + ULP * np.abs(log_p) + 8 * ULP
    return _OutcomeTable(low, high_ends, masses, np.expm1(np.minimum(errors, 700.0)), found.infinity)


@lru_cache(maxsize=8)
def _log_factorials_of_outcomes(most: int) -> _Long:
    """Returns ln n! for n = 0, ..., most, with an error of at most 16 times the rounding of n ln n + n.

    For n >= 64 Stirling's series is used. The first term that is left out is below 2^-64.
    """
    with localcontext(CONTEXT):
        few = _as_long_double_outcomes([Decimal(math.factorial(n)).ln() for n in range(min(most + 1, 64))])
    if most < 64:
        return few
    n = np.arange(64, most + 1, dtype=np.longdouble)
    x = 1 / n
    series = x / 12 - x**3 / 360 + x**5 / 1260 - x**7 / 1680
    half_log = _as_long_double_outcomes([_HALF_LOG_TWO_PI])[0]
    return np.concatenate((few, (n + np.longdouble(0.5)) * np.log(n) - n + half_log + series))


_HALF_LOG_TWO_PI = Decimal("0.918938533204672741780329736405617639861397473637783412817151540")
