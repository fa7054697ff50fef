"""Members of a class of mechanisms, for lower bounds (docs/theory/conversions.md section 7), and mechanisms that reveal
nothing.

A mechanism such as ``BoundedRange`` stands for a class: all mechanisms with a certain property, which are its members.
A curve is delta as a function of epsilon. The pair of ``BoundedRange`` is the envelope of its class: at every epsilon,
its delta is the largest delta of all members. No single member attains this envelope at every epsilon. ``ZCDP`` and
``DiscreteGaussianVector`` have no pair. If a composition has such parts, its upper bounds hold for every member of the
class. The lower bounds of the composition are computed from members of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from ... import mechanisms as m
from ..._support._check import MAX_COUNT
from ...composition import Parts
from ...mechanisms import Group, RepeatAndSelect
from ...mechanisms.selections_and_groups import SelectionOrGroup
from ...options import ADDED, EVERY
from ..numerics.outward import Range, expm1, log, sqrt
from .group_mixtures import find_dominated_pair_of_group
from .kinds import has_kind_of_mechanism
from .neighbors import translate_to_replacement
from .replacement import Replaced, Zeroed


@dataclass(frozen=True, slots=True)
class BinaryRangeMember(m.Mechanism):
    """The member of ``BoundedRange(eta)`` whose losses are ``share * eta`` and ``share * eta - eta``.

    ``share`` is in (0, 1).
    """

    eta: float
    share: float
    relations, sampled_relations, symmetric, any_size = ADDED, EVERY, False, True

    def list_atoms_of_pair(self) -> list[tuple[Range, Range]]:
        """Returns the losses, each with the logarithm of its mass under P. The masses add up to 1 under P and Q."""
        top = self.share * Range(self.eta)
        least, whole = top - self.eta, -expm1(-Range(self.eta))
        return [(least, log(expm1(top) / whole) - self.eta), (top, log(-expm1(least) / whole))]


def list_class_members(parts: Parts) -> tuple[Parts, ...]:
    """Returns members of the class that ``parts`` stand for, as compositions.

    The largest of the members' lower bounds is the lower bound of the class. If every mechanism attains its pair,
    ``parts`` is the only member.
    """
    if not has_kind_of_mechanism(parts, *_LOOSE):
        return (parts,)
    if len(parts) == 1 and parts[0][1] == 1:
        alone = parts[0][0]
        if _is_class_envelope_attained(alone):
            return (parts,)
        if isinstance(alone, m.RandomAllocation) and isinstance(alone.mechanism, m.BoundedRange):
            eta, *rest = alone.mechanism.eta, alone.steps, alone.selected
            return tuple(((m.RandomAllocation(BinaryRangeMember(eta, share), *rest), 1),) for share in _SHARES)
    return _list_class_members_of_run(parts)


def _list_class_members_of_run(parts: Parts) -> tuple[Parts, ...]:
    """Returns members of a composition. Member i is composed of member i of each mechanism.

    If a mechanism has fewer members than another mechanism, its members are repeated in a cycle.
    """
    found = [(_list_class_members_of_mechanism(mechanism), count) for mechanism, count in parts]
    choices = range(max((len(options) for options, _ in found), default=1))
    return tuple(
        tuple((one, times * count) for options, count in found for one, times in options[i % len(options)])
        for i in choices
    )


_SHARES = 0.25, 0.5, 0.75
"""Values of ``BinaryRangeMember.share`` that are tried. The best share depends on epsilon. If the best share lies
between two of these, at most a tenth of the lower bound is lost."""


def _is_class_envelope_attained(mechanism: m.Mechanism) -> bool:
    """Tells whether the pair of a single step of ``mechanism`` is the envelope of its members' curves.

    The answer is True for a sampled step too, because each point of the sampled curve depends on one point of the
    unsampled curve. The answer is False for an allocation, because an allocation composes the step.
    """
    if isinstance(mechanism, m.ZCDP):  # no pair is known, but the engine "renyi" finds the best member with two outputs
        return True
    if is_or_wraps_kind_of_mechanism(mechanism, m.ZCDP, m.DiscreteGaussianVector):
        return False
    if isinstance(mechanism, Replaced):
        return isinstance(mechanism.mechanism, m.FixedSizeSampled)
    return not isinstance(mechanism, (SelectionOrGroup, m.RandomAllocation, m.TruncatedPoissonSampled, Zeroed))


_LOOSE = m.BoundedRange, m.ZCDP, m.DiscreteGaussianVector, SelectionOrGroup
"""Types of mechanisms that stand for a class whose members differ in their curves."""


def is_or_wraps_kind_of_mechanism(mechanism: m.Mechanism, *kind: type[m.Mechanism]) -> bool:
    """Tells whether ``mechanism``, or a mechanism that it samples, allocates or translates, is of one of these
    types."""
    inner = mechanism
    while not isinstance(inner, kind) and hasattr(inner, "mechanism"):
        inner = inner.mechanism
    return isinstance(inner, kind)


def _list_class_members_of_mechanism(mechanism: m.Mechanism) -> tuple[Parts, ...]:
    """Returns at least one member of the class of one release of ``mechanism``. A member is a composition, possibly
    empty."""
    match mechanism:
        case m.ZCDP(rho, xi):
            # The member is a Gaussian with all of rho, composed with randomised response for xi.
            return (
                tuple(
                    (one, 1) for one in list_class_members_of_zcdp(m.ZCDP(rho)) + (() if xi == 0 else (m.PureDP(xi),))
                ),
            )
        case m.DiscreteGaussianVector(sigma, sensitivity, dimensions):
            # The first member moves one coordinate by the whole sensitivity. The second member moves as many
            # coordinates as possible by 1.
            s = math.floor(min(sensitivity, MAX_COUNT))
            ones = min(dimensions, math.floor(Fraction(min(sensitivity, 2.0**26)) ** 2))
            return ((m.DiscreteGaussian(sigma, s), 1),), ((m.DiscreteGaussian(sigma, 1), ones),)
        case m.BoundedRange(eta):  # the member has the losses -eta/2 and eta/2
            half = eta / 2
            return (((m.PureDP(half if 2 * half <= eta else math.nextafter(half, 0.0)), 1),),)
        case RepeatAndSelect(shape="poisson"):  # the number of runs may be 0
            return ((),)
        case Group(_, size):
            found = _list_class_members_of_run(mechanism.parts)
            return tuple(
                tuple((find_dominated_pair_of_group(one, size), count) for one, count in member) for member in found
            )
        case RepeatAndSelect():  # the member makes one run
            return _list_class_members_of_run(mechanism.parts)
        case Replaced(inner):
            return tuple(
                tuple((translate_to_replacement(one), count) for one, count in member)
                for member in _list_class_members_of_mechanism(inner)
            )
        case Zeroed(inner):
            return tuple(
                tuple((Zeroed(one), count) for one, count in member)
                for member in _list_class_members_of_mechanism(inner)
            )
        case (
            m.PoissonSampled(inner)
            | m.TruncatedPoissonSampled(inner)
            | m.FixedSizeSampled(inner)
            | m.RandomAllocation(inner)
        ) if is_or_wraps_kind_of_mechanism(inner, *_LOOSE):
            # Only the first part of a member is sampled. Leaving out the other parts of the member reveals no more.
            firsts = [member[0][0] for member in _list_class_members_of_mechanism(inner) if member]
            return tuple(((replace(mechanism, mechanism=first), 1),) for first in firsts) or ((),)
    return (((mechanism, 1),),)


def list_dominated_samples(mechanism: m.Mechanism) -> tuple[m.Mechanism, ...]:
    """Returns sampled Gaussians that ``mechanism`` dominates if it is a mixture of Gaussians, and () otherwise.

    Each shift (sensitivity) of the mixture gives such a Poisson sample, in which smaller shifts are replaced by 0, and
    larger shifts by this shift (docs/theory/mixtures.md section 1). The samples of the smallest shift and
    of the shifts with the largest mean losses are returned.
    """
    match mechanism:
        case Replaced(inner):
            return tuple(translate_to_replacement(one) for one in list_dominated_samples(inner))
        case m.PoissonSampled(m.MixtureOfGaussians() as mixture, q):
            share = q
        case m.MixtureOfGaussians() as mixture:
            share = 1.0
        case _:
            return ()
    shifts = mixture.sensitivities
    served = [i for i, shift in enumerate(shifts) if shift > 0 and mixture.noise_multiplier / shift < _LARGEST_NOISE]
    if not served:
        return ()
    tails = [*accumulate(mixture.probabilities[::-1])][::-1]  # for each shift, the probability of a shift >= it
    likely = sorted(served[1:], key=lambda i: -tails[i] * (shifts[i] / shifts[-1]) ** 2)[: _MOST_SAMPLES - 1]
    found = (_build_member_below_mixture(mixture, share, i) for i in (*likely, served[0]))
    return tuple(sample for sample in found if sample is not None)


def _build_member_below_mixture(mixture: m.MixtureOfGaussians, share: float, index: int) -> m.Mechanism | None:
    """Returns the sample in which the shift at ``index`` replaces all shifts from ``index`` on, and 0 replaces all
    other shifts. Returns None if its sampling probability, rounded down, is 0.
    """
    multiplier = (Range(mixture.noise_multiplier) / mixture.sensitivities[index]).hi
    reached = Range(math.nextafter(math.fsum(mixture.probabilities[index:]), 0.0))
    at_least = share if index == 0 else (reached * _SCALED * share).lo
    if at_least == 0:
        return None
    return m.Gaussian(multiplier) if at_least == 1 else m.PoissonSampled(m.Gaussian(multiplier), at_least)


_MOST_SAMPLES = 4
"""Largest number of samples whose lower bounds are tried for a mixture."""
_SCALED = 1 - 2.0**-40
"""Factor that covers the scaling of the probabilities of a mixture to a sum of 1, and the rounding of their sum."""
_LARGEST_NOISE = 1e300
"""Largest noise multiplier of a dominated sample. Larger multipliers would be close to the largest double."""


def list_class_members_of_zcdp(mechanism: m.ZCDP) -> tuple[m.Mechanism, ...]:
    """Returns the Gaussian with this ``rho``, if its noise multiplier is finite, and the class of ``xi``-DP mechanisms
    if ``xi`` > 0."""
    sigma = sqrt(1 / (2 * Range(mechanism.rho))).hi if mechanism.rho > 0 else math.inf
    gaussian = (m.Gaussian(sigma),) if sigma < math.inf else ()
    return (*gaussian, m.PureDP(mechanism.xi)) if mechanism.xi > 0 else gaussian


def discard_pairs_without_loss(parts: Parts) -> Parts:
    """Returns the parts that reveal something."""
    if not has_kind_of_mechanism(
        parts, m.PureDP, m.ApproximateDP, m.BoundedRange, m.ZCDP, m.RandomizedResponse, SelectionOrGroup
    ):
        return parts
    return tuple(part for part in parts if not has_pair_without_loss(part[0]))


def has_pair_without_loss(mechanism: m.Mechanism) -> bool:
    """Tells whether the mechanism's parameters show that it reveals nothing."""
    match mechanism:
        case m.PureDP():
            return mechanism.nominal_epsilon == 0
        case m.ApproximateDP():
            return mechanism.nominal_epsilon == 0 == mechanism.nominal_delta
        case m.BoundedRange(eta):
            return eta == 0
        case m.ZCDP(rho, xi):
            return rho == 0 == xi
        case m.RandomizedResponse(p, _):
            return p == 1
        case Replaced(inner) | Zeroed(inner):
            return has_pair_without_loss(inner)
        case SelectionOrGroup():
            return all(has_pair_without_loss(one) for one, _ in mechanism.parts)
        case m.PoissonSampled(inner) | m.FixedSizeSampled(inner) | m.RandomAllocation(inner):
            return has_pair_without_loss(inner)
        case m.TruncatedPoissonSampled(inner):
            return has_pair_without_loss(inner)
    return False
