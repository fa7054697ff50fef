"""Translation of mechanisms to a neighbouring relation (docs/theory/conversions.md section 1).

A pair of a mechanism is two distributions P and Q that dominate its outputs on any two neighbouring data sets. A noise
multiplier is relative to the contribution of one record. Replacing a record changes two contributions. So under
"replace" the pair of a symmetric mechanism is its add-or-remove pair at twice the sensitivity. Mechanisms on samples,
and classes of mechanisms such as ``PureDP``, need other pairs (``replacement.py``). Every part of a composition is
translated before an engine is asked, so engines need not know about "replace".
"""

from __future__ import annotations

import math
from dataclasses import replace

from ... import mechanisms as m
from ..._support import _check
from ...composition import Composition, Parts
from ...mechanisms import PrivacyLoss
from ...mechanisms.selections_and_groups import SelectionOrGroup
from ...options import EVERY, NEIGHBORS, Neighbors
from .kinds import cache_fact_of_parts, has_kind_of_mechanism
from .replacement import Replaced, ReplacedClass, ReplacedGaussian, Zeroed


def explain_unproved_neighbors(parts: Parts, neighbors: Neighbors) -> str | None:
    """Returns a sentence that says which mechanism has no proved pair under the relation, and why.

    Returns None if all mechanisms have a proved pair.
    """
    for mechanism in _list_mechanisms_with_unproved_pair(parts):
        if neighbors not in mechanism.relations:
            answered = [repr(one) for one in NEIGHBORS if one in mechanism.relations]
            accepted = " or ".join(answered) or "none at all"
            return f"neighbors must be {accepted} for {mechanism!r}: {mechanism.unproved_mechanism_reason}"
    return None


@cache_fact_of_parts
def _list_mechanisms_with_unproved_pair(parts: Parts) -> tuple[m.Mechanism, ...]:
    """Returns the mechanisms that have no proved pair under some relation."""
    return tuple(mechanism for mechanism, _ in parts if mechanism.relations != EVERY)


def translate_to_replacement(mechanism: m.Mechanism) -> m.Mechanism:
    """Returns the mechanism whose add-or-remove pair is the replace pair of ``mechanism``.

    Raises ValueError if no such pair is proved.
    """
    match mechanism:
        case m.Gaussian(sigma):
            return m.Gaussian(_divide_noise_for_replacement(sigma))
        case m.Laplace(scale):
            return m.Laplace(_divide_noise_for_replacement(scale))
        case m.PureDP():
            return ReplacedClass(_require_finite_neighbors(mechanism.nominal_epsilon), 0.0)
        case m.ApproximateDP():
            return ReplacedClass(_require_finite_neighbors(mechanism.nominal_epsilon), mechanism.nominal_delta)
        case m.PoissonSampled(m.PureDP() | m.ApproximateDP() as inner, q):
            return ReplacedClass(
                _require_finite_neighbors(inner.nominal_epsilon), getattr(inner, "nominal_delta", 0.0), q
            )
        case m.PoissonSampled(m.Gaussian(sigma), q):
            return ReplacedGaussian(sigma, q) if q < 1 else m.Gaussian(_divide_noise_for_replacement(sigma))
        case m.BoundedRange(eta):
            return m.BoundedRange(_multiply_parameter_of_neighbors(eta))
        case m.ZCDP(rho, xi):
            _multiply_parameter_of_neighbors(_multiply_parameter_of_neighbors(max(rho, xi)))
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
        case PrivacyLoss():  # under "replace", both (P, Q) and (Q, P) are pairs of neighbours
            return mechanism if mechanism.mirrored else Replaced(mechanism)
        case SelectionOrGroup():
            return translate_derived_to_parts(mechanism, translate_parts_to_replacement(mechanism.parts))
    raise ValueError(f"neighbors must not be 'replace' for {mechanism!r}: no dominating pair is proved here")


def translate_parts_to_zeroing(parts: Parts) -> Parts:
    """Returns the parts whose "add" and "remove" pairs are the pairs of ``parts`` under "replace_special".

    A record that contributes nothing has the effect of no record, unless the size of a sample depends on the number of
    records (docs/theory/mixtures.md section 4).
    """
    return tuple(
        (_translate_to_zeroed_neighbors(mechanism), count)
        for mechanism, count in _translate_neighbor_trees_to_gaussians(parts)
    )


def _translate_to_zeroed_neighbors(mechanism: m.Mechanism) -> m.Mechanism:
    """Returns the mechanism whose pairs are those of ``mechanism`` under "replace_special"."""
    if isinstance(mechanism, SelectionOrGroup):
        return translate_derived_to_parts(mechanism, translate_parts_to_zeroing(mechanism.parts))
    kinds = m.FixedSizeSampled, m.TruncatedPoissonSampled, m.SampledWithReplacement
    return Zeroed(mechanism) if isinstance(mechanism, kinds) else mechanism


def translate_derived_to_parts(mechanism: SelectionOrGroup, parts: Parts) -> SelectionOrGroup:
    """Returns the same group or selection, with ``parts`` as its inner run."""
    return replace(mechanism, mechanism=Composition(parts))  # type: ignore[type-var]


def translate_parts_to_fewer_records(parts: Parts, gone: int) -> Parts:
    """Returns the same run on data sets with ``gone`` fewer records.

    For the run inside of a ``Group``, ``gone`` groups are missing. In a chain of neighbours, where each data set has
    one record fewer than the one before, this is the run after ``gone`` steps.
    """
    return Composition((_translate_pair_to_fewer_records(mechanism, gone), count) for mechanism, count in parts).parts


def _translate_pair_to_fewer_records(mechanism: m.Mechanism, gone: int) -> m.Mechanism:
    """Returns the same mechanism on data sets with ``gone`` fewer records."""
    if mechanism.any_size:
        return mechanism
    if isinstance(mechanism, SelectionOrGroup):
        return translate_derived_to_parts(
            mechanism, translate_parts_to_fewer_records(mechanism.parts, gone * getattr(mechanism, "size", 1))
        )
    return replace(mechanism, dataset_size=mechanism.dataset_size - gone)  # type: ignore[attr-defined, type-var]


def translate_parts_to_replacement(parts: Parts) -> Parts:
    """Returns all parts translated to "replace"."""
    return tuple(
        (translate_to_replacement(mechanism), count)
        for mechanism, count in _translate_neighbor_trees_to_gaussians(parts)
    )


def _translate_neighbor_trees_to_gaussians(parts: Parts) -> Parts:
    """Returns the parts with each tree aggregation replaced by Gaussians.

    These Gaussians have the tree's pair if each other record contributes to the same step in both data sets
    (docs/theory/closed-forms.md section 6).
    """
    if not has_kind_of_mechanism(parts, m.TreeAggregation):
        return parts
    return Composition(
        (mechanism.gaussians[0], count * mechanism.gaussians[1])
        if isinstance(mechanism, m.TreeAggregation)
        else (mechanism, count)
        for mechanism, count in parts
    ).parts


def _divide_noise_for_replacement(sigma: float) -> float:
    """Returns sigma / 2, or the smallest positive double if the quotient is 0.

    Noise as small as the smallest positive double makes every epsilon infinite.
    """
    return max(sigma / 2, math.ulp(0.0))


def _multiply_parameter_of_neighbors(x: float) -> float:
    """Returns twice ``x``. Raises ValueError if the product is infinite."""
    return _check.check_real_argument("twice the parameter of a mechanism, as neighbors='replace' needs,", 2 * x)


def _require_finite_neighbors(x: float) -> float:
    """Returns ``x`` itself. Raises ValueError if twice ``x`` is infinite."""
    _multiply_parameter_of_neighbors(x)
    return x
