"""The engine of curves with formulas: Gaussians, single steps, repeated randomised response and bounded range.

A curve is delta as a function of epsilon. Parts of a composition are pairs (mechanism, count). An (e, d)-DP mechanism
is treated as an e-DP mechanism that fails with probability d. A failure reveals everything. The formulas are in
docs/theory/closed-forms.md.
"""

from __future__ import annotations

from functools import lru_cache

from .... import mechanisms as m
from ...._core import work_charge
from ...numerics.outward import INF, Range, expm1, log1p
from ...pairs.kinds import has_kind_of_mechanism
from ...pairs.replacement import ReplacedGaussian
from ..engine_interface import DEFAULT, Bound, Direction, Parts, Request, build_bound_with_one_term
from . import binomial, bounded_range, outcomes, single_mechanisms
from .gaussian import GaussianCurve
from .gaussian_selections import GaussianSelections, can_serve_gaussian_selections
from .privacy_curve import PrivacyCurve


class ClosedForm:
    """Answers by a formula, with ranges that account for rounding."""

    name = "closed_form"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        if find_closed_form(parts, direction) is not None:
            return None
        return (
            "it has formulas for Gaussians, for one step of a mechanism, for pure or approximate mechanisms of one and "
            "the same epsilon, and for compositions with few outcomes"
        )

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        curve = _require_closed_form(parts, direction)
        found = curve.epsilon(delta)
        return build_bound_with_one_term(found.lo, found.hi, self.name, curve.term)

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        curve = _require_closed_form(parts, direction)
        found = curve.delta(epsilon)
        return build_bound_with_one_term(found.lo, found.hi, self.name, curve.term)


ENGINE = ClosedForm()


def _require_closed_form(parts: Parts, direction: Direction) -> PrivacyCurve:
    """Returns the curve of parts that ``explain_refusal`` does not refuse."""
    found = find_closed_form(parts, direction)
    assert found is not None, "refused parts were asked"
    work_charge(found.making_units)  # work is counted even if the curve is cached
    return found


@lru_cache(maxsize=256)
def find_closed_form(parts: Parts, direction: Direction) -> PrivacyCurve | None:
    """Returns the curve of a composition in one direction, or None if no formula serves."""
    if found := _find_simple_closed_form(parts, direction):
        return found
    if has_kind_of_mechanism(parts, m.Gaussian):  # a Gaussian has infinitely many outcomes
        return None
    return outcomes.find_outcome_curve(parts, direction)


def _find_simple_closed_form(parts: Parts, direction: Direction) -> PrivacyCurve | None:
    """Returns the curve of a composition by a formula, or None."""
    if all(isinstance(mechanism, m.Gaussian) for mechanism, _ in parts):
        return GaussianCurve(sum_closed_form_mu_squared(parts))
    if (
        all(isinstance(mechanism, m.Gaussian) or _is_closed_form_failure(mechanism) for mechanism, _ in parts)
        and len(parts) > 1
    ):
        return _find_closed_form_with_failures(parts)
    if isinstance(parts[0][0], (m.PureDP, m.ApproximateDP)):
        return _find_closed_form_of_same_epsilon(parts)
    if len(parts) > 1:
        return _find_closed_form_with_selections(parts)
    mechanism, count = parts[0]
    if count == 1:
        return _find_closed_form_of_step(mechanism, direction)
    if isinstance(mechanism, m.BoundedRange) and bounded_range.count_bounded_range_cells(mechanism.eta, count):
        return bounded_range.RepeatedBoundedRangeCurve(mechanism.eta, count)
    return _find_closed_form_of_repeated_response(_find_closed_form_of_any_response(mechanism), count)


def _find_closed_form_with_selections(parts: Parts) -> PrivacyCurve | None:
    """Returns the curve of Gaussians and adaptively chosen ``BoundedRange`` steps with the same ``eta``; or None."""
    (first, count), rest = parts[0], parts[1:]
    if not isinstance(first, m.BoundedRange) or not all(isinstance(mechanism, m.Gaussian) for mechanism, _ in rest):
        return None
    mu_squared = sum_closed_form_mu_squared(rest)
    return (
        GaussianSelections(mu_squared, first.eta, count)
        if can_serve_gaussian_selections(mu_squared, first.eta, count)
        else None
    )


def sum_closed_form_mu_squared(parts: Parts) -> Range:
    """Returns the sum of count / sigma^2 over Gaussian parts."""
    total = Range(0.0)
    for mechanism, count in parts:
        assert isinstance(mechanism, m.Gaussian)
        total += count / (Range(mechanism.noise_multiplier) * mechanism.noise_multiplier)
    return total


def _find_closed_form_of_same_epsilon(parts: Parts) -> PrivacyCurve | None:
    """Returns the curve of mechanisms that are (e, d_j)-DP with the same e; or None.

    The probability that none of these mechanisms fails is prod (1 - d_j).
    """
    e = getattr(parts[0][0], "nominal_epsilon", 0.0)
    count, log_kept = 0, Range(0.0)
    for mechanism, times in parts:
        if not isinstance(mechanism, (m.PureDP, m.ApproximateDP)) or mechanism.nominal_epsilon != e:
            return None
        count += times
        if isinstance(mechanism, m.ApproximateDP):
            log_kept += times * log1p(-Range(mechanism.nominal_delta))
    kept = _find_closed_form_of_repeated_response(Range(e), count) if e > 0 else GaussianCurve(0.0)
    if kept is None or log_kept.hi == 0:
        return kept
    failure = -expm1(log_kept)
    if len(parts) == count == 1:
        assert isinstance(parts[0][0], m.ApproximateDP)
        failure = Range(parts[0][0].nominal_delta)
    return single_mechanisms.CurveWithFailure(kept, failure)


def _is_closed_form_failure(mechanism: m.Mechanism) -> bool:
    """Tells whether a mechanism reveals everything with some probability, and otherwise nothing."""
    return isinstance(mechanism, m.ApproximateDP) and mechanism.nominal_epsilon == 0


def _find_closed_form_with_failures(parts: Parts) -> PrivacyCurve:
    """Returns the curve of Gaussians composed with mechanisms that can only fail.

    Such a mechanism reveals everything with some probability, and otherwise nothing.
    """
    log_kept = Range(0.0)
    for mechanism, count in parts:
        if isinstance(mechanism, m.ApproximateDP):
            log_kept += count * log1p(-Range(mechanism.nominal_delta))
    rest = tuple(part for part in parts if isinstance(part[0], m.Gaussian))
    return single_mechanisms.CurveWithFailure(GaussianCurve(sum_closed_form_mu_squared(rest)), -expm1(log_kept))


def _find_closed_form_of_repeated_response(nominal: Range | None, count: int) -> PrivacyCurve | None:
    """Returns the curve of ``count`` releases of ``nominal``-DP binary randomised response.

    Returns None if ``nominal`` is None or infinite, or if the sums would have too many terms.
    """
    if (
        nominal is None
        or nominal.hi == INF
        or binomial.measure_deviation_of_response(nominal.lo, count) > binomial.MOST_TERMS / 10
    ):
        return None
    return single_mechanisms.PureCurve(nominal) if count == 1 else binomial.RepeatedResponseCurve(nominal, count)


def _find_closed_form_of_any_response(mechanism: m.Mechanism) -> Range | None:
    """Returns e if the mechanism has the dominating pair of e-DP binary randomised response, or None."""
    match mechanism:
        case m.RandomizedResponse(p, 2) if p < 1:
            return log1p(2 * ((1 - Range(p)) / p))
        case m.DiscreteLaplace(scale, 1):
            return 1 / Range(scale)
    return None


def _find_closed_form_of_step(mechanism: m.Mechanism, direction: Direction) -> PrivacyCurve | None:
    """Returns the curve of one step of a mechanism, sampled or not; or None."""
    match mechanism:
        case m.Gaussian() | m.PureDP() | m.ApproximateDP():
            return find_closed_form(((mechanism, 1),), direction)
        case m.Laplace(scale):
            return single_mechanisms.LaplaceCurve(1 / Range(scale))
        case m.BoundedRange(eta):
            return single_mechanisms.BoundedRangeCurve(eta) if eta > 0 else GaussianCurve(0.0)
        case ReplacedGaussian(sigma, q):
            return single_mechanisms.ReplacedGaussianCurve(1 / Range(sigma), q)
        case m.PoissonSampled(inner, q):
            full = _find_closed_form_of_step(inner, direction)
            if full is None:
                return None
            return (
                single_mechanisms.SampledRemoveCurve(full, q)
                if direction == "remove"
                else single_mechanisms.SampledAddCurve(full, q)
            )
    return None
