"""What a neighbouring relation makes of a mechanism (docs/theory/conversions.md section 1).

A noise multiplier is relative to one record's contribution. Replacing a record changes two contributions, so that the
pair of a symmetric mechanism under "replace" is its own add-or-remove pair at twice the sensitivity; classes and
Poisson samples have pairs of their own (``replaced.py``). Translated like this a composition needs no engine that
knows of "replace".
"""

from __future__ import annotations

import math
from dataclasses import replace

from ... import _check
from ... import mechanisms as m
from ...composition import Composition, Parts
from ...derived import Derived
from ...losses import PrivacyLoss
from ...options import Neighbors
from .kinds import any_of
from .replaced import Replaced, ReplacedClass, ReplacedGaussian, Zeroed


def refuse(parts: Parts, neighbors: Neighbors) -> str | None:
    """Why these mechanisms have no sound pair under the relation, or None."""
    samples = m.FixedSizeSampled, m.SampledWithReplacement, m.RandomAllocation, m.TruncatedPoissonSampled
    if not any_of(parts, *samples, Derived, PrivacyLoss):
        return None
    for mechanism, _ in parts:
        if isinstance(mechanism, Derived):
            reason = refuse(mechanism.parts, neighbors)
            if reason:
                return reason
            continue
        fixed = isinstance(mechanism, (m.FixedSizeSampled, m.SampledWithReplacement))
        if fixed and neighbors not in ("replace", "replace_special"):
            return (
                f"neighbors must be 'replace' or 'replace_special' for {mechanism!r}: adding or removing a record "
                f"changes the size of the data set that the sample is drawn from"
            )
        if isinstance(mechanism, m.RandomAllocation) and neighbors == "replace":
            return (
                f"neighbors must be 'add_or_remove', 'add' or 'remove' for {mechanism!r}: no dominating pair is proved "
                f"here for replacing a record that is allocated"
            )
        given = isinstance(getattr(mechanism, "mechanism", None), PrivacyLoss)
        if given and (
            isinstance(mechanism, m.TruncatedPoissonSampled)
            or (neighbors == "replace" and isinstance(mechanism, m.PoissonSampled))
        ):
            return (
                f"neighbors must be 'add_or_remove', 'add' or 'remove' for {mechanism!r}: no dominating pair is proved "
                f"here for replacing a record of a user-defined loss that is sampled"
            )
        relation = getattr(getattr(mechanism, "mechanism", mechanism), "relation", "any")
        if relation not in ("any", "replace" if neighbors == "replace" else "add_or_remove"):
            return f"neighbors must be those of the given pair, {relation!r}, for {mechanism!r}"
    return None


def replaced(mechanism: m.Mechanism) -> m.Mechanism | None:
    """The mechanism whose add-or-remove pair is the replace pair of ``mechanism``; None where there is no such."""
    match mechanism:
        case m.Gaussian(sigma):
            return m.Gaussian(_half(sigma))
        case m.Laplace(scale):
            return m.Laplace(_half(scale))
        case m.PureDP():
            return ReplacedClass(_doubled(mechanism.nominal_epsilon), 0.0)
        case m.ApproximateDP():
            return ReplacedClass(_doubled(mechanism.nominal_epsilon), mechanism.nominal_delta)
        case m.PoissonSampled(m.PureDP() | m.ApproximateDP() as inner, q):
            return ReplacedClass(_doubled(inner.nominal_epsilon), getattr(inner, "nominal_delta", 0.0), q)
        case m.PoissonSampled(m.Gaussian(sigma), q):
            return ReplacedGaussian(sigma, q) if q < 1 else m.Gaussian(_half(sigma))
        case m.BoundedRange(eta):
            return m.BoundedRange(_double(eta))
        case m.ZCDP(rho, xi):
            _double(_double(max(rho, xi)))
            return Replaced(mechanism)
        case m.DiscreteGaussianVector() | m.MixtureOfGaussians() | m.TruncatedPoissonSampled():
            return Replaced(mechanism)
        case m.SampledWithReplacement() | m.PoissonSampled(m.DiscreteGaussianVector() | m.MixtureOfGaussians()):
            return Replaced(mechanism)
        case m.DiscreteGaussian(sigma, sensitivity):
            return m.DiscreteGaussian(sigma, 2 * sensitivity)
        case m.DiscreteLaplace(scale, sensitivity):
            return m.DiscreteLaplace(scale, 2 * sensitivity)
        case m.RandomizedResponse():
            return mechanism
        case Derived():
            inside = translate(mechanism.parts)
            return None if inside is None else of_run(mechanism, inside)
    return mechanism if hasattr(mechanism, "relation") else None


def zeroed(parts: Parts) -> Parts:
    """What is asked of adding and of removing under "replace_special": a record that contributes nothing is as good as
    none, but where a sample counts it (docs/theory/mixtures.md section 4)."""
    return tuple((_zeroed(mechanism), count) for mechanism, count in parts)


def _zeroed(mechanism: m.Mechanism) -> m.Mechanism:
    if isinstance(mechanism, Derived):
        return of_run(mechanism, zeroed(mechanism.parts))
    kinds = m.FixedSizeSampled, m.TruncatedPoissonSampled, m.SampledWithReplacement
    return Zeroed(mechanism) if isinstance(mechanism, kinds) else mechanism


def of_run(mechanism: Derived, parts: Parts) -> Derived:
    """The same function of another run."""
    return replace(mechanism, mechanism=Composition(parts))  # type: ignore[type-var]


def translate(parts: Parts) -> Parts | None:
    """All parts replaced; None where one has no such form and the engine must know of "replace" itself."""
    found = []
    for mechanism, count in parts:
        other = replaced(mechanism)
        if other is None:
            return None
        found.append((other, count))
    return tuple(found)


def _half(sigma: float) -> float:
    """sigma / 2: exact, and where it underflows every answer is infinite already."""
    return max(sigma / 2, math.ulp(0.0))


def _double(x: float) -> float:
    return _check.real("twice the parameter of a mechanism, as neighbors='replace' needs,", 2 * x)


def _doubled(x: float) -> float:
    """The same parameter, if there is a double for what becomes of it."""
    _double(x)
    return x
