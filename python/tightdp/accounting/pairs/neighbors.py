"""What a neighbouring relation makes of a mechanism (docs/theory/conversions.md section 1).

A noise multiplier is relative to one record's contribution. Replacing a record changes two contributions, so that the
pair of a symmetric mechanism under "replace" is its own add-or-remove pair at twice the sensitivity; classes and
samples have pairs of their own (``replaced.py``). Every part of a composition is translated like this, so that no
engine, and no answer that is derived from one, has to know that "replace" was asked.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ... import _check
from ... import mechanisms as m
from ...composition import Composition, Parts
from ...derived import Derived
from ...losses import PrivacyLoss
from ...options import EVERY, NEIGHBORS, Neighbors
from .kinds import any_of, once
from .replaced import Replaced, ReplacedClass, ReplacedGaussian, Zeroed


def refuse(parts: Parts, neighbors: Neighbors) -> str | None:
    """Why these mechanisms have no sound pair under the relation, or None."""
    for mechanism in _narrow(parts):
        if neighbors not in mechanism.relations:
            answered = [repr(one) for one in NEIGHBORS if one in mechanism.relations]
            accepted = " or ".join(answered) or "none at all"
            return f"neighbors must be {accepted} for {mechanism!r}: {mechanism.unproved_reason}"
    return None


@once
def _narrow(parts: Parts) -> tuple[m.Mechanism, ...]:
    """Those that are not answered under every relation."""
    return tuple(mechanism for mechanism, _ in parts if mechanism.relations != EVERY)


def replaced(mechanism: m.Mechanism) -> m.Mechanism:
    """Returns the mechanism whose add-or-remove pair is the replace pair of ``mechanism``; ValueError if none is."""
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
        case m.PoissonSampled(inner) | m.FixedSizeSampled(inner):  # grid.md section 6.2
            replaced(inner)
            return Replaced(mechanism)
        case PrivacyLoss():  # both orders of it are neighbours
            return mechanism if mechanism.mirrored else Replaced(mechanism)
        case Derived():
            return of_run(mechanism, translate(mechanism.parts))
    raise ValueError(f"neighbors must not be 'replace' for {mechanism!r}: no dominating pair is proved here")


def zeroed(parts: Parts) -> Parts:
    """What is asked of adding and of removing under "replace_special": a record that contributes nothing is as good as
    none, but where a sample counts it (docs/theory/mixtures.md section 4)."""
    return tuple((_zeroed(mechanism), count) for mechanism, count in _placed(parts))


def _zeroed(mechanism: m.Mechanism) -> m.Mechanism:
    if isinstance(mechanism, Derived):
        return of_run(mechanism, zeroed(mechanism.parts))
    kinds = m.FixedSizeSampled, m.TruncatedPoissonSampled, m.SampledWithReplacement
    return Zeroed(mechanism) if isinstance(mechanism, kinds) else mechanism


def of_run(mechanism: Derived, parts: Parts) -> Derived:
    """The same function of another run."""
    return replace(mechanism, mechanism=Composition(parts))  # type: ignore[type-var]


def smaller(parts: Parts, gone: int) -> Parts:
    """The same run after ``gone`` links of a chain in which records are removed: data sets have so many records fewer,
    or groups of records."""
    return Composition((_smaller(mechanism, gone), count) for mechanism, count in parts).parts


def _smaller(mechanism: m.Mechanism, gone: int) -> m.Mechanism:
    if mechanism.any_size:
        return mechanism
    if isinstance(mechanism, Derived):
        return of_run(mechanism, smaller(mechanism.parts, gone * getattr(mechanism, "size", 1)))
    return replace(mechanism, dataset_size=mechanism.dataset_size - gone)  # type: ignore[attr-defined, type-var]


def translate(parts: Parts) -> Parts:
    """Returns all parts replaced."""
    return tuple((replaced(mechanism), count) for mechanism, count in _placed(parts))


def _placed(parts: Parts) -> Parts:
    """Trees as the Gaussians that they are where all other records keep their steps (closed-forms.md section 6)."""
    if not any_of(parts, m.TreeAggregation):
        return parts
    return Composition(
        (mechanism.gaussians[0], count * mechanism.gaussians[1])
        if isinstance(mechanism, m.TreeAggregation)
        else (mechanism, count)
        for mechanism, count in parts
    ).parts


def _half(sigma: float) -> float:
    """sigma / 2: exact, and where it underflows every answer is infinite already."""
    return max(sigma / 2, math.ulp(0.0))


def _double(x: float) -> float:
    return _check.real("twice the parameter of a mechanism, as neighbors='replace' needs,", 2 * x)


def _doubled(x: float) -> float:
    """The same parameter, if there is a double for what becomes of it."""
    _double(x)
    return x
