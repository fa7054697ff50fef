"""Privacy random variables by the names of prv_accountant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _check
from ... import mechanisms as m
from ...accounting.numerics.outward import Range
from ...losses import PrivacyLoss


class Either(NamedTuple):
    """The mechanism with its parameter rounded to the less and to the more private side; None reveals nothing."""

    worse: m.Mechanism | None
    better: m.Mechanism | None

    @classmethod
    def exact(cls, mechanism: m.Mechanism | None) -> Either:
        return cls(mechanism, mechanism)


def _with_noise(kind: Callable[[float], m.Mechanism], multiplier: Range) -> Either:
    """Noise whose multiplier may underflow, which hides nothing, or overflow, which reveals next to nothing."""
    worse = kind(multiplier.lo) if multiplier.lo > 0 else m.ApproximateDP(0.0, 1.0)
    return Either(worse, kind(multiplier.hi) if multiplier.hi < math.inf else None)


class PrivacyRandomVariable:
    """The privacy loss of a mechanism under the output's distribution with the record.

    Derive from it for a loss of your own. ``cdf(t)`` takes an array and returns the distribution function of the loss,
    given that it is finite, to within 2^-50; ``pm_inf`` is the probability that it is infinite. As in
    prv_accountant, the bounds are about this one direction of the neighbours.
    """

    def cdf(self, t: Any) -> Any:
        """P[Y <= t] given that Y is finite."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    @property
    def pm_inf(self) -> float:
        """P[Y is infinite]"""
        return 0.0

    def _mechanism(self) -> Either:
        infinity = _check.closed_unit("pm_inf", self.pm_inf)

        def cdf(t: NDArray[np.float64]) -> NDArray[np.float64]:
            return (1 - infinity) * np.asarray(self.cdf(t), dtype=np.float64)

        high = self._edge(1.0)
        low = -self._edge(-1.0)
        return Either.exact(PrivacyLoss.from_cdf(cdf, low=low, high=high, infinity=infinity, points=1 << 18))

    def _edge(self, sign: float) -> float:
        """A power of two beyond which, on one side, no double shows a mass."""
        edge = 2.0**-10
        while edge < 2.0**16 and float(np.ravel(self.cdf(np.array([sign * edge])))[0]) != (sign > 0):
            edge *= 2
        return edge


class _Known(PrivacyRandomVariable):
    """The loss of a mechanism of ours. ``cdf`` is for reading: no bound is made of it."""

    _found: Either

    def _mechanism(self) -> Either:
        return self._found

    def cdf(self, t: Any) -> Any:
        """P[Y <= t] given that Y is finite, in double precision."""
        at = np.asarray(t, dtype=np.float64)
        mechanism = self._found.worse
        q = mechanism.sampling_probability if isinstance(mechanism, m.PoissonSampled) else 1.0
        inner = mechanism.mechanism if isinstance(mechanism, m.PoissonSampled) else mechanism
        match inner:
            case m.Gaussian(sigma):  # loss ln(1 - q + q e^y) of a Gaussian's y = z/sigma^2 - 1/(2 sigma^2)
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    y = np.where(at > 700, at - math.log(q), np.log1p(np.expm1(np.minimum(at, 700.0)) / q))
                y = np.where(np.expm1(np.minimum(at, 0.0)) > -q, y, -np.inf)
                found = sum(share * _normal(y * sigma - move / (2 * sigma)) for share, move in ((q, 1), (1 - q, -1)))
            case m.Laplace(scale):
                found = np.where(at < 1 / scale, np.exp((np.minimum(at, 1 / scale) - 1 / scale) / 2) / 2, 1.0)
                found = np.where(at < -1 / scale, 0.0, found)
            case m.PureDP() | m.ApproximateDP():
                e = inner.nominal_epsilon
                found = np.where(at < -e, 0.0, np.where(at < e, 1 / (1 + math.exp(min(e, 700.0))), 1.0))
            case _:  # which reveals nothing
                found = np.where(at < 0, 0.0, 1.0)
        return found


def _normal(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)) / 2)


class PoissonSubsampledGaussianMechanism(_Known):
    """Gaussian noise on a Poisson sample; a probability of 0 reveals nothing."""

    def __init__(self, sampling_probability: float, noise_multiplier: float) -> None:
        q = _check.closed_unit("sampling_probability", sampling_probability)
        gaussian = m.Gaussian(noise_multiplier)
        self._found = Either.exact(m.PoissonSampled(gaussian, q) if q else None)


class GaussianMechanism(_Known):
    """Gaussian noise of ``noise_multiplier`` on a sum of sensitivity ``l2_sensitivity``."""

    def __init__(self, noise_multiplier: float, l2_sensitivity: float = 1.0) -> None:
        sigma = _check.positive("noise_multiplier", noise_multiplier)
        sensitivity = _check.positive("l2_sensitivity", l2_sensitivity)
        self._found = _with_noise(m.Gaussian, Range(sigma) / sensitivity if sensitivity != 1 else Range(sigma))


class LaplaceMechanism(_Known):
    """Laplace noise of scale 1 on a sum of sensitivity ``mu``."""

    def __init__(self, mu: float) -> None:
        self._found = _with_noise(m.Laplace, 1 / Range(_check.positive("mu", mu)))


class PureDPMechanism(_Known):
    """Anything that is ``eps``-DP."""

    def __init__(self, eps: float) -> None:
        self._found = Either.exact(m.PureDP(_check.nonnegative("eps", eps)))


class ApproximateDPMechanism(_Known):
    """Anything that is (``epsilon``, ``delta``)-DP."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self._found = Either.exact(m.ApproximateDP(epsilon, delta))

    @property
    def pm_inf(self) -> float:
        """P[Y is infinite]: delta."""
        mechanism = self._found.worse
        return mechanism.nominal_delta if isinstance(mechanism, m.ApproximateDP) else 0.0
