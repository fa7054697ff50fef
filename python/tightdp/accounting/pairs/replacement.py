"""Dominating pairs of replacing a record (docs/theory/replace.md).

The pair of replacing a record is often the pair of adding or removing a record under another mechanism, such as a
Gaussian with half the noise multiplier. The classes of this file are for all other pairs.

``neighbors.py`` builds these pairs, and users never do. An engine treats these pairs like pairs of adding or removing a
record. In a composition with such a pair, all other parts are translated to "replace" too. Neighbouring data sets have
the same number of records. The pairs are symmetric, except for ``Zeroed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ... import mechanisms as m
from ...options import ADDED, EVERY
from ..numerics.outward import Number, Range, as_range, exp, expm1, log, log1p


@dataclass(frozen=True, slots=True)
class ReplacedGaussian(m.Mechanism):
    """The pair (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1) (replace.md section 3).

    N(x) is the normal distribution with mean x and standard deviation ``noise_multiplier``, and q is
    ``sampling_probability``.
    """

    noise_multiplier: float
    sampling_probability: float
    relations, sampled_relations, symmetric, any_size = ADDED, EVERY, True, True


@dataclass(frozen=True, slots=True)
class ReplacedClass(m.Mechanism):
    """A pair for replacing a record, which dominates a whole class of mechanisms (replace.md section 1).

    The class has all mechanisms that are (``nominal_epsilon``, ``nominal_delta``)-DP under add or remove. The
    mechanisms run on a Poisson sample with the probability ``sampling_probability``.
    """

    nominal_epsilon: float
    nominal_delta: float
    sampling_probability: float = 1.0
    relations, sampled_relations, symmetric, any_size = ADDED, EVERY, True, True


@dataclass(frozen=True, slots=True)
class Replaced(m.Mechanism):
    """The pair of replacing a record under ``mechanism``, if no other class stands for that pair.

    For some mechanisms the engines know only bounds on the privacy profile of this pair.
    """

    mechanism: m.Mechanism
    relations, sampled_relations, symmetric, any_size = ADDED, EVERY, True, True


@dataclass(frozen=True, slots=True)
class Zeroed(m.Mechanism):
    """The pair of replacing a record by one that contributes nothing, but still counts towards the size of a sample.

    In the direction "remove" the first distribution has the record, and in the direction "add" the second one has it.
    """

    mechanism: m.Mechanism
    relations, sampled_relations, symmetric, any_size = ADDED, EVERY, False, True


class ReplacedLosses(NamedTuple):
    """The part of a symmetric pair with losses >= 0.

    ``positive`` has the atoms with positive losses, each as (loss, logarithm of its mass under P). ``zero`` is the
    logarithm of the mass of loss 0, or None if that mass is 0. ``infinity`` is the mass of an infinite loss. An atom of
    loss y and mass p has a mirror image of loss -y and mass p e^{-y}, also under P.
    """

    positive: list[tuple[Range, Range]]
    zero: Range | None
    infinity: Range

    def list_atoms_of_pair(self) -> list[tuple[Range, Range]]:
        """Returns all atoms of the pair as (loss, logarithm of the mass under P), with ascending losses."""
        right = sorted(self.positive, key=lambda atom: atom[0].lo)
        middle = [] if self.zero is None else [(Range(0.0), self.zero)]
        return [*((-y, log_mass - y) for y, log_mass in reversed(right)), *middle, *right]


def bracket_losses_of_replaced_pair(pair: ReplacedClass) -> tuple[ReplacedLosses, ReplacedLosses]:
    """Returns the losses of a pair that the exact pair dominates, and of a pair that dominates the exact pair.

    The two pairs are the same, unless rounding leaves open which of two formulas holds. In that case the first pair is
    that of a slightly smaller delta, and the second pair that of a slightly larger one. This is valid because the class
    grows with delta.
    """
    e, d, q = Range(pair.nominal_epsilon), pair.nominal_delta, Range(pair.sampling_probability)
    t = exp(-e)
    gap = t - Range(d) * (1 + 2 * t)  # >= 0 if and only if delta (2 + E) <= 1, where E = e^epsilon
    if d == 0 or gap.lo > _NEAR * d or gap.hi < -_NEAR * d:
        found = _compute_losses_of_replacement_pair(e, Range(d), q, narrow=d == 0 or gap.lo > 0)
        return found, found
    less, more = (Range(d) * (1 - _FAR), Range(d) * (1 + _FAR)) if t.lo > _TINY else (Range(0.0), d + 4 * t)
    return _compute_losses_of_replacement_pair(e, less, q, narrow=True), _compute_losses_of_replacement_pair(
        e, more, q, narrow=False
    )


_NEAR, _FAR = 2.0**-40, 2.0**-37
"""If ``gap`` in ``bracket_losses_of_replaced_pair`` is closer to 0 than ``_NEAR`` times delta, it is in doubt which
formula holds. Changing delta by the relative amount ``_FAR`` removes the doubt, because the slope of ``gap`` in delta
is at most -1."""
_TINY = 1e-300
"""Smallest e^{-epsilon} for which delta is changed by ``_FAR``. A ``gap`` close to 0 means that delta is close to
e^{-epsilon}. If both are smaller than this number, so small a change of delta may be lost to rounding."""


def _compute_losses_of_replacement_pair(e: Range, d: Range, q: Range, narrow: bool) -> ReplacedLosses:
    """Returns the losses of the class, for epsilon ``e``, delta ``d`` and sampling probability ``q``.

    Let R be the distribution of the output without either record. A layer is a set of outputs on which the densities of
    P and Q over R are constant (replace.md section 1). The R-mass of a layer is its probability under R. "P has E" on a
    layer means that the density of P is E times the density of R there. Here E = e^epsilon, and s = (1 - delta)/(1 +
    E). ``narrow`` tells whether delta (2 + E) <= 1.
    """
    t = exp(-e)
    sampled, out = q.lo < 1, 1 - q
    odds = q / out if sampled else Range(0.0)
    if e.hi == 0:
        return _compute_failure_of_replacement_pair(d, q, odds)
    low = (1 - d) / (1 + t)  # E s
    positive: list[tuple[Range, Range]] = []
    infinity = q * d
    if narrow:
        width = (t - d * (1 + 2 * t)) / (1 + t)  # s - d, where P has E and Q has 1/E
        share = width * (out + q / t) if d.hi > 0 else out * width + q * low
        if d.hi > 0:  # a layer of R-mass d, where P has E and Q has no mass
            mass = d * (out + q / t)
            if sampled:
                positive.append((log1p(odds / t), log(mass)))
            else:
                infinity += mass
        loss = log_sampled_dominating_pair_ratio(e, q) - log_sampled_dominating_pair_ratio(-e, q) if sampled else 2 * e
        positive.append((loss, log(share)))
        zero = log((2 * d * t - expm1(-e)) / (1 + t))  # R-mass 1 - 2s, where P and Q have 1/E
        return ReplacedLosses(positive, zero + _log_smallest_ratio_of_replacement(e, q), infinity)
    # The outputs are laid out in layers, one after another. On the first layer, of R-mass s, P has E. On the second
    # layer, P has 1/E. The two layers together have the R-mass delta, or 1 - delta if this is smaller. Q has no mass on
    # either layer.
    half = d.hi < 0.5
    width = (d * (1 + 2 * t) - t if half else 1 - d) / (1 + t)
    first, second = low * (out * t + q), width * (out + q * t)
    if sampled:
        positive += [(log1p(odds * t), log(second)), (_log_largest_ratio_of_replacement(e, odds), log(first))]
    else:
        infinity += first + second
    middle = 2 * (0.5 - d) if half else 2 * (d - 0.5)
    if not middle.hi > 0 or not (half or sampled):
        return ReplacedLosses(positive, None, infinity.limit_range_to(0.0, 1.0))
    return ReplacedLosses(
        positive,
        log(middle) + (_log_smallest_ratio_of_replacement(e, q) if half else log(out)),
        infinity.limit_range_to(0.0, 1.0),
    )


def _compute_failure_of_replacement_pair(d: Range, q: Range, odds: Range) -> ReplacedLosses:
    """Returns the losses for E = 1, that is epsilon = 0.

    R is the distribution of the output without either of the two records. P has no mass on a set of R-mass delta, and Q
    has no mass on another set of R-mass delta. The two sets overlap only if delta > 1/2.
    """
    twice, rest = d.hi < 0.5, 2 * (0.5 - d)
    other = d if twice else 1 - d
    zero = log(rest) if twice else log(-rest * (1 - q)) if rest.lo < 0 and q.lo < 1 else None
    if q.lo == 1:
        return ReplacedLosses([], zero, 2 * d if twice else Range(1.0))
    return ReplacedLosses([(log1p(odds), log(other))] if other.hi > 0 else [], zero, q * d)


def log_sampled_dominating_pair_ratio(y: Range, q: Number) -> Range:
    """Returns ln(1 - q + q e^y)."""
    q = as_range(q)
    if y.lo > _LARGE:
        return y + log(q + (1 - q) * exp(-y))
    return log1p(q * expm1(y))


def _log_smallest_ratio_of_replacement(e: Range, q: Range) -> Range:
    """Returns ln(1 - q + q e^{-e})."""
    return log_sampled_dominating_pair_ratio(-e, q) if q.lo < 1 else -e


def _log_largest_ratio_of_replacement(e: Range, odds: Range) -> Range:
    """Returns ln(1 + odds e^e)."""
    return e + log(odds + exp(-e)) if e.lo > _LARGE else log1p(odds * exp(e))


_LARGE = 200.0
"""Exponent y above which e^y is factored out. It is well below the exponents at which e^y overflows."""
