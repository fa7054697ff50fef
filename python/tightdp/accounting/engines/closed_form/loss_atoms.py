"""Mechanisms whose privacy loss takes few values, and the masses of these values (docs/theory/closed-forms.md section
8).

P and Q are the distributions of the output on two neighbouring data sets, and (P, Q) is a pair. An atom is a possible
value of the privacy loss. Losses and logarithms of masses are decimal numbers of 60 digits. So even sums of many such
numbers have the accuracy of a double.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from .... import mechanisms as m
from ....mechanisms import PrivacyLoss
from ....mechanisms.loss_tables import CompletePair
from ...numerics.outward import Number, Range, as_range, widen_down, widen_up
from ...pairs.class_members import BinaryRangeMember
from ...pairs.replacement import ReplacedClass, bracket_losses_of_replaced_pair
from ..engine_interface import Direction
from .binomial import CONTEXT

MOST_ATOMS = 256
"""Largest number of atoms of one mechanism. Each atom takes some tens of microseconds. For more atoms the grid engine
is faster."""
_FAR = 40
"""Distance from the centre of a discrete Gaussian, in standard deviations, up to which outputs are kept. The mass
farther out is below e^-800."""
_LARGEST_LOSS = 1e30
"""Largest loss that is served. The sum of such a loss and the logarithm of a mass has thirty correct digits after the
point."""
_LEAST_DIGIT = 1e-57
"""Bound on the error of the logarithm of a number near 1, computed with 60 digits."""
LOST = 1e-307
"""Bound on the mass of a discrete Gaussian's outputs that are not kept. This mass counts as an infinite loss."""


class Atom(NamedTuple):
    """A privacy loss and the logarithm of its mass under P, each with a bound of its absolute error."""

    loss: Decimal
    log_p: Decimal
    loss_error: float = 0.0
    log_error: float = 0.0


class AtomDistribution(NamedTuple):
    """The atoms of a pair (P, Q).

    ``infinity`` is the mass of P where Q has none, and ``hidden`` is the mass of Q where P has none.
    """

    atoms: list[Atom]
    infinity: Range = Range(0.0)
    hidden: Range = Range(0.0)

    def reverse_loss_atoms(self) -> AtomDistribution:
        """Returns the atoms of (Q, P)."""
        turned = [Atom(-y, p - y, e, e + f) for y, p, e, f in self.atoms]
        return AtomDistribution(turned, self.hidden, self.infinity)

    def sample_loss_atoms(self, q: float, add: bool) -> AtomDistribution:
        """Returns the atoms of ((1-q) Q + q P, Q) or, with ``add``, of (P, (1-q) P + q Q) (grid.md section 6.1)."""
        if q == 1:
            return self
        with localcontext(CONTEXT):
            share, rest = Decimal(q), 1 - Decimal(q)
            if add:
                found = [
                    Atom(-_compute_sampled_loss_atom(-y, share), p, e + _LEAST_DIGIT, f) for y, p, e, f in self.atoms
                ]
                infinity, hidden, single, sign = Range(0.0), self.hidden * q, self.infinity, -1
            else:
                mixed = [_compute_sampled_loss_atom(atom.loss, share) for atom in self.atoms]
                found = [
                    Atom(z, p - y + z, e + _LEAST_DIGIT, 2 * e + f)
                    for z, (y, p, e, f) in zip(mixed, self.atoms, strict=True)
                ]
                infinity, hidden, single, sign = self.infinity * q, Range(0.0), self.hidden, 1
            if single.lo > 0:  # where one distribution has no mass, the mixture has 1 - q times the mass of the other
                log_p = _take_middle_of_atom(single).ln() + (0 if add else rest.ln())
                found.append(
                    Atom(sign * rest.ln(), log_p, _LEAST_DIGIT, widen_up(_measure_radius_of_atom(single) / single.lo))
                )
            else:  # the small mass that is not kept counts as an infinite loss
                infinity += single
            return AtomDistribution(found, infinity, hidden)


def _compute_sampled_loss_atom(loss: Decimal, share: Decimal) -> Decimal:
    """Returns ln(1 - q + q e^loss), however large the loss is."""
    if loss > 0:
        return loss + (share + (1 - share) * (-loss).exp()).ln()
    return (1 - share + share * loss.exp()).ln()


def count_loss_atoms(mechanism: m.Mechanism) -> int | None:
    """Returns an upper bound on the number of atoms of ``list_loss_atoms``, without computing them.

    Returns None if ``list_loss_atoms`` does not serve the mechanism.
    """
    match mechanism:  # the commonest case comes first, because this function is called for every question
        case m.Gaussian():
            return None
        case m.PoissonSampled(inner, _):
            found = count_loss_atoms(inner)
            return None if found is None else found + may_have_atom_at_infinity(inner)
        case m.ApproximateDP() if mechanism.nominal_delta == 1:
            return 0
        case m.PureDP() | m.ApproximateDP() if mechanism.nominal_epsilon <= _LARGEST_LOSS:
            return 2
        case BinaryRangeMember(eta) if eta <= _LARGEST_LOSS:
            return 2
        case m.RandomizedResponse(p, buckets):
            return min(buckets, 3) if p > 0 else 0
        case ReplacedClass(epsilon) if 2 * epsilon <= _LARGEST_LOSS:
            return 7
        case m.DiscreteLaplace(scale, sensitivity) if sensitivity <= _LARGEST_LOSS * scale:
            return sensitivity + 1
        case m.DiscreteGaussian(sigma, sensitivity) if sensitivity <= math.sqrt(_LARGEST_LOSS) / _FAR * min(sigma, 1.0):
            return 2 * math.ceil(_FAR * min(sigma, MOST_ATOMS)) + sensitivity + 3
        case PrivacyLoss():
            both = mechanism.dominating, mechanism.dominated
            sizes = [len(pair.losses) for pair in both]
            most = (
                max(max(-pair.losses[0], pair.losses[-1]) for pair in both if len(pair.losses)) if any(sizes) else 0.0
            )
            return max(sizes) if most < _LARGEST_LOSS else None
    return None


def may_have_atom_at_infinity(mechanism: m.Mechanism) -> bool:
    """Tells whether P may have mass where Q has none. In a Poisson sample this mass may become one more atom."""
    return isinstance(mechanism, (m.ApproximateDP, PrivacyLoss))


@lru_cache(maxsize=256)
def list_loss_atoms(mechanism: m.Mechanism, direction: Direction, high: bool) -> AtomDistribution:
    """Returns the atoms of a mechanism that ``count_loss_atoms`` serves.

    If two pairs bound the mechanism, the dominating pair is used if ``high``, and otherwise the dominated pair.
    """
    with localcontext(CONTEXT):
        match mechanism:
            case m.PureDP() | m.ApproximateDP():
                return _build_atoms_of_pure_dp(mechanism.nominal_epsilon, getattr(mechanism, "nominal_delta", 0.0))
            case m.RandomizedResponse(p, buckets):
                return _build_atoms_of_randomized_response(Decimal(p), buckets)
            case m.DiscreteLaplace(scale, sensitivity):
                return _build_atoms_of_discrete_laplace(Decimal(scale), sensitivity)
            case m.DiscreteGaussian(sigma, sensitivity):
                return _build_atoms_of_discrete_gaussian(Decimal(sigma), sensitivity)
            case BinaryRangeMember():
                found = _build_loss_atoms_from_ranges(mechanism.list_atoms_of_pair())
                return found.reverse_loss_atoms() if direction == "add" else found
            case ReplacedClass():
                of_class = bracket_losses_of_replaced_pair(mechanism)[high]
                return _build_loss_atoms_from_ranges(of_class.list_atoms_of_pair(), of_class.infinity)
            case PrivacyLoss():
                found = _build_atoms_of_pair(mechanism.dominating if high else mechanism.dominated)
                return found.reverse_loss_atoms() if direction == "add" and not mechanism.mirrored else found
            case m.PoissonSampled(inner, q):
                return list_loss_atoms(inner, direction, high).sample_loss_atoms(q, direction == "add")
    raise AssertionError(mechanism)


def _build_atoms_of_pure_dp(epsilon: float, delta: float) -> AtomDistribution:
    """Returns the atoms of (epsilon, delta)-DP: the losses epsilon and -epsilon, and an infinite loss of mass delta."""
    e, kept = Decimal(epsilon), 1 - Decimal(delta)
    failure = Range(delta)
    if kept == 0:
        return AtomDistribution([], failure, failure)
    if e == 0:
        return AtomDistribution([Atom(e, kept.ln())], failure, failure)
    right = kept.ln() - (1 + (-e).exp()).ln()
    return AtomDistribution([Atom(-e, right - e), Atom(e, right)], failure, failure)


def _build_atoms_of_randomized_response(p: Decimal, buckets: int) -> AtomDistribution:
    """Returns the atoms of randomised response: P's true answer, Q's true answer, and all other answers together.

    All other answers have the loss 0.
    """
    if p == 0:
        return AtomDistribution([], Range(1.0), Range(1.0))
    wrong = p / buckets
    right = 1 - p + wrong
    loss = right.ln() - wrong.ln()
    found = [Atom(-loss, wrong.ln()), Atom(loss, right.ln())]
    if buckets > 2:
        found.append(Atom(Decimal(0), ((buckets - 2) * wrong).ln()))
    return AtomDistribution(found)


def _build_atoms_of_discrete_laplace(scale: Decimal, s: int) -> AtomDistribution:
    """Returns the atoms of discrete Laplace noise under sensitivity s. Here b is ``scale``.

    The loss of the output n is (2n - s)/b for 0 < n < s, s/b for n >= s, and -s/b for n <= 0.
    """
    t = (-1 / scale).exp()
    end = -(1 + t).ln()
    middle = (1 - t).ln() + end
    found = [Atom(s / scale, end), Atom(-s / scale, end - s / scale)]
    return AtomDistribution(found + [Atom((2 * n - s) / scale, middle - (s - n) / scale) for n in range(1, s)])


def _build_atoms_of_discrete_gaussian(sigma: Decimal, s: int) -> AtomDistribution:
    """Returns the atoms of discrete Gaussians P around 0 and Q around -s.

    The outputs that are kept are the integers at most about ``_FAR`` sigma from 0 or from -s.
    """
    reach = math.ceil(_FAR * sigma) + 1
    half = -1 / (2 * sigma * sigma)
    exponents = [half * (n * n) for n in range(reach + s + 1)]
    total = (1 + 2 * sum((one.exp() for one in exponents[1 : reach + 1]), Decimal(0))).ln()
    found = [Atom(-half * (s * (2 * n + s)), exponents[abs(n)] - total) for n in range(-reach - s, reach + 1)]
    return AtomDistribution(found, Range(0.0, LOST), Range(0.0, LOST))


def _build_loss_atoms_from_ranges(given: list[tuple[Range, Range]], infinity: Number = 0.0) -> AtomDistribution:
    """Returns an atom for each pair of a range of losses and a range of logarithms of masses.

    The atom has the middles of both ranges. Its errors are bounds of the radii of the ranges.
    """
    beyond = as_range(infinity)
    return AtomDistribution(
        [
            Atom(
                _take_middle_of_atom(y), _take_middle_of_atom(p), _measure_radius_of_atom(y), _measure_radius_of_atom(p)
            )
            for y, p in given
        ],
        beyond,
        beyond,
    )


def _take_middle_of_atom(x: Range) -> Decimal:
    """Returns the middle of a range."""
    return Decimal(0.5 * (x.lo + x.hi))


def _measure_radius_of_atom(x: Range) -> float:
    """Returns a bound on the distance of any point of a range from its middle."""
    return 0.0 if x.lo == x.hi else widen_up(x.hi - x.lo)


def _build_atoms_of_pair(pair: CompletePair) -> AtomDistribution:
    """Returns the atoms of a pair that is given by arrays."""
    found = [
        Atom(Decimal(y), Decimal(p).ln(), pair.slack, pair.relative)
        for y, p in zip(pair.losses.tolist(), pair.masses.tolist(), strict=True)
    ]
    return AtomDistribution(
        found,
        _build_range_of_atom_mass(pair.infinity, pair.relative_ends),
        _build_range_of_atom_mass(pair.hidden, pair.relative_ends),
    )


def _build_range_of_atom_mass(mass: float, relative: float) -> Range:
    """Returns the range of a mass with a relative error."""
    return Range(max(widen_down(mass, relative), 0.0), widen_up(mass, relative)) if mass > 0 else Range(0.0)
