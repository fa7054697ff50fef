"""Curves of one step, for mechanisms whose curve has a formula (docs/theory/closed-forms.md section 3).

A curve is delta as a function of epsilon, eps.
"""

from __future__ import annotations

from ...numerics.outward import INF, Number, Range, as_range, exp, expm1, log, log1p, sqrt, widen_up
from ...pairs.replacement import log_sampled_dominating_pair_ratio
from .gaussian import GaussianCurve
from .privacy_curve import PrivacyCurve, mirror_privacy_curve


class PureCurve(PrivacyCurve):
    """The curve of binary randomised response with epsilon ``e``, (1 - exp(eps - e)) / (1 + exp(-e)) for |eps| <= e."""

    def __init__(self, nominal: Number) -> None:
        self.e = as_range(nominal)
        self.weight = 1 + exp(-self.e)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        return -expm1(epsilon - self.e) / self.weight

    def invert_closed_form_delta(self, delta: float) -> Range:
        return (self.e + log1p(-delta * self.weight)).limit_range_to(0.0, self.e.hi)


class LaplaceCurve(PrivacyCurve):
    """The curve of Laplace noise of scale 1/mu, 1 - e^{(eps - mu) / 2} for |eps| <= mu."""

    def __init__(self, mu: Number) -> None:
        self.mu = as_range(mu)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        return -expm1((epsilon - self.mu) * 0.5)

    def invert_closed_form_delta(self, delta: float) -> Range:
        return (self.mu + 2 * log1p(-delta)).limit_range_to(0.0, self.mu.hi)


class BoundedRangeCurve(PrivacyCurve):
    """The curve of one bounded-range selection, (1 - e^{(eps - eta) / 2})^2 / (1 - e^{-eta}) for |eps| <= eta.

    See Dong, Durfee and Rogers (2020), Lemma 3.4.
    """

    def __init__(self, eta: float) -> None:
        self.eta = eta
        self.weight = -expm1(-eta)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        if abs(epsilon) >= self.eta:
            return Range(0.0)  # the caller takes the maximum with 1 - e^epsilon
        root = -expm1((epsilon - Range(self.eta)) * 0.5)
        return root * root / self.weight

    def invert_closed_form_delta(self, delta: float) -> Range:
        return (self.eta + 2 * log1p(-sqrt(delta * self.weight))).limit_range_to(0.0, self.eta)


class BracketedCurve(PrivacyCurve):
    """A curve that is bounded by two other curves.

    The pair of this curve dominates the pair of ``less``, and is dominated by the pair of ``more``.
    """

    def __init__(self, less: PrivacyCurve, more: PrivacyCurve) -> None:
        self.less, self.more = less, more

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        return Range(self.less.delta(epsilon).lo, self.more.delta(epsilon).hi)

    def invert_closed_form_delta(self, delta: float) -> Range:
        return Range(self.less.epsilon(delta).lo, self.more.epsilon(delta).hi)


class ReplacedGaussianCurve(PrivacyCurve):
    """The curve of the pair ((1-q) N(0) + q N(1), (1-q) N(0) + q N(-1)), computed from two Gaussian curves.

    N(x) is the normal distribution with mean x and standard deviation 1/mu (replace.md section 4).
    """

    def __init__(self, mu: Range, q: float) -> None:
        self.gaussian, self.q = GaussianCurve(mu * mu), q
        self.half = 0.5 * (mu * mu)
        self.log_odds = self.half + log1p(-Range(q)) - log(q)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        if epsilon < 0:  # the pair is symmetric
            return mirror_privacy_curve(epsilon, self.evaluate_closed_form_delta(-epsilon))
        at = 0.5 * Range(epsilon) + self._compute_shift_of_closed_form(epsilon)
        back = exp(epsilon - at - self.half)
        return self.q * (self.gaussian.delta(at - self.half) + back * self.gaussian.delta(at + self.half))

    def _compute_shift_of_closed_form(self, epsilon: float) -> Range:
        """Returns asinh(e^{log_odds} sinh(eps/2)) for eps >= 0."""
        if epsilon == 0:
            return Range(0.0)
        top = self.log_odds + 0.5 * Range(epsilon)
        if top.lo > _LARGE:  # asinh(x) - log(2x) is in [0, 1/(4 x^2)]
            found = top + log(-expm1(-Range(epsilon)))
            return Range(found.lo, widen_up(found.hi, 4e-16))
        x = exp(self.log_odds) * ((expm1(0.5 * epsilon) - expm1(-0.5 * epsilon)) * 0.5)
        return log1p(x + x * x / (1 + sqrt(1 + x * x)))

    def bracket_closed_form_epsilon(self, delta: float) -> tuple[float, float]:
        return 0.0, self.gaussian.epsilon(delta).hi


class CurveWithFailure(PrivacyCurve):
    """The curve of a mechanism that reveals everything with probability ``failure``, and otherwise has ``curve``."""

    def __init__(self, curve: PrivacyCurve, failure: Number) -> None:
        self.curve = curve
        self.failure = as_range(failure)
        self.rest = (1 - self.failure).limit_range_to(0.0, 1.0)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        return self.failure + self.rest * self.curve.delta(epsilon)

    def invert_closed_form_delta(self, delta: float) -> Range:
        spare = delta - self.failure
        if spare.hi < 0:
            return Range(INF)
        inner = spare / self.rest if self.rest.lo > 0 else Range(0.0 if spare.lo >= 0 else -1.0, 1.0)
        return self.curve.epsilon(inner)


class SampledRemoveCurve(PrivacyCurve):
    """The curve of the pair ((1-q) Q + q P, Q), where ``curve`` is the curve of (P, Q).

    The delta of this pair at eps is q delta_{P,Q}(eps') with e^{eps'} = 1 + (e^eps - 1)/q (Balle, Barthe and Gaboardi
    2018, Theorem 2).
    """

    def __init__(self, curve: PrivacyCurve, q: float) -> None:
        self.curve = curve
        self.q = q

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        return self.q * self.curve.delta(_epsilon_of_unsampled_curve(epsilon, self.q))

    def invert_closed_form_delta(self, delta: float) -> Range:
        inner = self.curve.epsilon(Range(delta) / self.q)
        return Range(
            _epsilon_of_sampled_curve(inner.lo, self.q).lo, _epsilon_of_sampled_curve(inner.hi, self.q).hi
        ).limit_range_to(0.0, INF)


class SampledAddCurve(PrivacyCurve):
    """The curve of the pair (Q, (1-q) Q + q P), where ``curve`` is the curve of (P, Q), a symmetric pair.

    The delta of this pair at eps is max(1 - (1-q) e^eps, 0) delta_{P,Q}(-eps') with e^{eps'} = 1 + (e^{-eps} - 1)/q.
    """

    def __init__(self, curve: PrivacyCurve, q: float) -> None:
        self.curve = curve
        self.q = q
        self.end = -log1p(-Range(q))

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        left = (-expm1(epsilon - self.end)).limit_range_to(0.0, 1.0)
        return left * self.curve.delta(-_epsilon_of_unsampled_curve(-epsilon, self.q))

    def bracket_closed_form_epsilon(self, delta: float) -> tuple[float, float]:
        return 0.0, self.end.hi


def _epsilon_of_unsampled_curve(epsilon: float, q: float) -> Range:
    """Returns log(1 + (e^eps - 1)/q), which is minus infinity for eps <= log(1 - q)."""
    if epsilon > _LARGE:
        return epsilon - log(q) + log1p(-(1 - Range(q)) * exp(-epsilon))
    return log1p(expm1(epsilon) / q)


def _epsilon_of_sampled_curve(epsilon: float, q: float) -> Range:
    """Returns log(1 + q (e^eps - 1)), for eps >= 0."""
    return Range(INF) if epsilon == INF else log_sampled_dominating_pair_ratio(Range(epsilon), q)


_LARGE = 200.0
"""Epsilon above which e^eps is factored out. e^eps is far from overflow there, and e^-eps is negligible."""
