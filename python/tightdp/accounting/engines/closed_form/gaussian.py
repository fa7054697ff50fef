"""The curve (delta as a function of epsilon) of any number of Gaussians (docs/theory/closed-forms.md section 2,
docs/theory/gaussian.md).

The mu of a Gaussian is the inverse of its noise multiplier. Under composition the mu^2 add up.
"""

from __future__ import annotations

from ...._core import gaussian_delta, gaussian_epsilon
from ...numerics.outward import Number, Range, as_range, log, sqrt
from .privacy_curve import PrivacyCurve

_LEAST, _MOST = 1e-9, 1e9
"""Smallest and largest mu for which the curve is certified to about an ulp. For other mu the bounds are wider, and
follow from the curve at ``_LEAST`` or ``_MOST``, since delta grows with mu."""
_SMALLEST = 1e-300
"""Smallest delta for which the inverse is certified to about an ulp. For a smaller delta the bounds follow from the
curve's monotonicity and from a tail bound."""
_DENSITY = 0.39894228040143274
"""phi(0), the standard normal density at 0, rounded up. It is used in delta(eps) <= 2 Phi(mu/2) - 1 <= phi(0) mu."""


class GaussianCurve(PrivacyCurve):
    """The curve of the pair N(mu, 1), N(0, 1)."""

    def __init__(self, mu_squared: Number) -> None:
        self.mu = sqrt(as_range(mu_squared))

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        lo, hi = self.mu.lo, self.mu.hi
        lower = gaussian_delta(min(lo, _MOST), epsilon)[0] if lo >= _LEAST else 0.0
        upper = gaussian_delta(max(hi, _LEAST), epsilon)[1] if hi <= _MOST else 1.0
        if hi < _LEAST and epsilon >= 0:
            upper = min(upper, (self.mu * _DENSITY).hi)
        return Range(lower, upper)

    def invert_closed_form_delta(self, delta: float) -> Range:
        """Returns epsilon from the compiled core in its certified range, or else from monotonicity and a tail bound."""
        lo, hi = self.mu.lo, self.mu.hi
        if delta == 0:
            return Range(0.0, float("inf") if hi > 0 else 0.0)
        lower = gaussian_epsilon(min(lo, _MOST), max(delta, _SMALLEST))[0] if lo >= _LEAST else 0.0
        if lo > _MOST:  # delta at a fixed a = eps/mu - mu/2 grows with mu, so a at a fixed delta grows with mu
            lower = max(lower, (Range(lo) * (0.5 * Range(lo) + (Range(lower) / _MOST - 0.5 * _MOST))).lo)
        if hi <= _MOST and delta >= _SMALLEST:
            upper = gaussian_epsilon(max(hi, _LEAST), delta)[1] if hi > 0 else 0.0
        else:  # delta <= Phi(-a) <= e^{-a^2/2}, a = eps/mu - mu/2
            top = Range(hi)
            upper = (top * (0.5 * top + sqrt(-2 * log(delta)))).hi
        return Range(lower, upper)
