"""Translation of mechanisms to a neighbouring relation (docs/theory/conversions.md section 1).

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
from ...losses import PrivacyLoss
from ...options import EVERY, NEIGHBORS, Neighbors
from ...selections_and_groups import Derived
from .kinds import cache_by_composition, has_any_type
from .replacement import Replaced, ReplacedClass, ReplacedGaussian, Zeroed


def explain_unproved_relation(parts: Parts, neighbors: Neighbors) -> str | None:
    """Returns a sentence that says which mechanism has no proved pair under the relation, and why; None if all have."""
    for mechanism in _list_restricted_mechanisms(parts):
        if neighbors not in mechanism.relations:
            answered = [repr(one) for one in NEIGHBORS if one in mechanism.relations]
            accepted = " or ".join(answered) or "none at all"
            return f"neighbors must be {accepted} for {mechanism!r}: {mechanism.unproved_reason}"
    return None


@cache_by_composition
def _list_restricted_mechanisms(parts: Parts) -> tuple[m.Mechanism, ...]:
    """Returns the mechanisms that have no proved pair under some relation."""
    return tuple(mechanism for mechanism, _ in parts if mechanism.relations != EVERY)


def translate_to_replacement(mechanism: m.Mechanism) -> m.Mechanism:
    """Returns the mechanism whose add-or-remove pair is the replace pair of ``mechanism``.

    Raises ValueError if no such pair is proved.
    """
    match mechanism:
        case m.Gaussian(sigma):
            return m.Gaussian(_divide_by_two(sigma))
        case m.Laplace(scale):
            return m.Laplace(_divide_by_two(scale))
        case m.PureDP():
            return ReplacedClass(_require_finite_double(mechanism.nominal_epsilon), 0.0)
        case m.ApproximateDP():
            return ReplacedClass(_require_finite_double(mechanism.nominal_epsilon), mechanism.nominal_delta)
        case m.PoissonSampled(m.PureDP() | m.ApproximateDP() as inner, q):
            return ReplacedClass(_require_finite_double(inner.nominal_epsilon), getattr(inner, "nominal_delta", 0.0), q)
        case m.PoissonSampled(m.Gaussian(sigma), q):
            return ReplacedGaussian(sigma, q) if q < 1 else m.Gaussian(_divide_by_two(sigma))
        case m.BoundedRange(eta):
            return m.BoundedRange(_multiply_by_two(eta))
        case m.ZCDP(rho, xi):
            _multiply_by_two(_multiply_by_two(max(rho, xi)))
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
            translate_to_replacement(inner)
            return Replaced(mechanism)
        case PrivacyLoss():  # both orders of it are neighbours
            return mechanism if mechanism.mirrored else Replaced(mechanism)
        case Derived():
            return replace_inner_run(mechanism, translate_parts_to_replacement(mechanism.parts))
    raise ValueError(f"neighbors must not be 'replace' for {mechanism!r}: no dominating pair is proved here")


def translate_parts_to_zeroing(parts: Parts) -> Parts:
    """Returns the parts whose add and remove pairs are those of "replace_special".

    A record that contributes nothing is as good as none, unless a sample counts it (docs/theory/mixtures.md section 4).
    """
    return tuple((_translate_to_zeroing(mechanism), count) for mechanism, count in _expand_trees(parts))


def _translate_to_zeroing(mechanism: m.Mechanism) -> m.Mechanism:
    if isinstance(mechanism, Derived):
        return replace_inner_run(mechanism, translate_parts_to_zeroing(mechanism.parts))
    kinds = m.FixedSizeSampled, m.TruncatedPoissonSampled, m.SampledWithReplacement
    return Zeroed(mechanism) if isinstance(mechanism, kinds) else mechanism


def replace_inner_run(mechanism: Derived, parts: Parts) -> Derived:
    """Returns the same group or selection of another run."""
    return replace(mechanism, mechanism=Composition(parts))  # type: ignore[type-var]


def remove_records(parts: Parts, gone: int) -> Parts:
    """Returns the same run on data sets with ``gone`` records fewer, or groups of records.

    It is the run after ``gone`` links of a chain of neighbours, of which each has one record fewer than the last.
    """
    return Composition((_remove_records_of_mechanism(mechanism, gone), count) for mechanism, count in parts).parts


def _remove_records_of_mechanism(mechanism: m.Mechanism, gone: int) -> m.Mechanism:
    if mechanism.any_size:
        return mechanism
    if isinstance(mechanism, Derived):
        return replace_inner_run(mechanism, remove_records(mechanism.parts, gone * getattr(mechanism, "size", 1)))
    return replace(mechanism, dataset_size=mechanism.dataset_size - gone)  # type: ignore[attr-defined, type-var]


def translate_parts_to_replacement(parts: Parts) -> Parts:
    """Returns all parts translated to "replace"."""
    return tuple((translate_to_replacement(mechanism), count) for mechanism, count in _expand_trees(parts))


def _expand_trees(parts: Parts) -> Parts:
    """Returns the parts with each tree as its Gaussians, its pair if other records keep their steps.

    The proof is in docs/theory/closed-forms.md section 6.
    """
    if not has_any_type(parts, m.TreeAggregation):
        return parts
    return Composition(
        (mechanism.gaussians[0], count * mechanism.gaussians[1])
        if isinstance(mechanism, m.TreeAggregation)
        else (mechanism, count)
        for mechanism, count in parts
    ).parts


def _divide_by_two(sigma: float) -> float:
    """Returns sigma / 2, which is exact unless it underflows; every answer is infinite then."""
    return max(sigma / 2, math.ulp(0.0))


def _multiply_by_two(x: float) -> float:
    """Returns twice ``x``. Raises ValueError if it is infinite."""
    return _check.real("twice the parameter of a mechanism, as neighbors='replace' needs,", 2 * x)


def _require_finite_double(x: float) -> float:
    """Returns ``x`` itself. Raises ValueError if twice ``x`` is infinite."""
    _multiply_by_two(x)
    return x
