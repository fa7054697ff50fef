"""Privacy random variables under the names that prv_accountant gives them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import mechanisms as m
from ..._support import _check
from ...accounting.numerics.outward import Range
from ...mechanisms import PrivacyLoss


class PRVAdapterMechanisms(NamedTuple):
    """Two mechanisms that enclose a mechanism whose parameter cannot be represented exactly.

    ``worse`` is less private than the enclosed mechanism, and ``better`` is more private. None stands for a mechanism
    that reveals nothing.
    """

    worse: m.Mechanism | None
    better: m.Mechanism | None

    @classmethod
    def from_unrounded(cls, mechanism: m.Mechanism | None) -> PRVAdapterMechanisms:
        return cls(mechanism, mechanism)


def _round_noise_of_prv_adapter(kind: Callable[[float], m.Mechanism], multiplier: Range) -> PRVAdapterMechanisms:
    """Returns the mechanisms at both ends of a range of noise multipliers.

    A lower end that underflows to 0 stands for a mechanism that reveals everything. An upper end that overflows stands
    for a mechanism that reveals nothing.
    """
    worse = kind(multiplier.lo) if multiplier.lo > 0 else m.ApproximateDP(0.0, 1.0)
    return PRVAdapterMechanisms(worse, kind(multiplier.hi) if multiplier.hi < math.inf else None)


class PrivacyRandomVariable:
    """The privacy loss Y of a mechanism, for an output that is drawn with the record in the data.

    Derive a class from this class for a loss of your own. ``cdf(t)`` takes an array and returns the distribution
    function of Y, given that Y is finite, with an error of at most 2^-50. ``pm_inf`` is the probability that Y is
    infinite. As in prv_accountant, the bounds for your own loss are for removing the record only.

    >>> import numpy as np
    >>> from tightdp.adapters.prv_accountant import PrivacyRandomVariable
    >>> class Coin(PrivacyRandomVariable):
    ...     def cdf(self, t):  # the losses -1 and 1
    ...         return np.where(t < -1, 0.0, np.where(t < 1, 1 / (1 + np.e), 1.0))
    >>> float(Coin().cdf(0.0)) < 0.5, Coin().pm_inf
    (True, 0.0)
    """

    def cdf(self, t: Any) -> Any:
        """Returns P[Y <= t] given that Y is finite.

        Raises NotImplementedError, because a class of your own must define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    @property
    def pm_inf(self) -> float:
        """Probability that Y is infinite."""
        return 0.0

    def _build_prv_accountant_mechanisms(self) -> PRVAdapterMechanisms:
        """Returns the mechanism of this loss as both ``worse`` and ``better``, since no parameter is rounded."""
        infinity = _check.closed_unit("pm_inf", self.pm_inf)

        def evaluate_finite_part(t: NDArray[np.float64]) -> NDArray[np.float64]:
            return (1 - infinity) * np.asarray(self.cdf(t), dtype=np.float64)

        high = self._find_prv_accountant_edge(1.0)
        low = -self._find_prv_accountant_edge(-1.0)
        return PRVAdapterMechanisms.from_unrounded(
            PrivacyLoss.from_cdf(evaluate_finite_part, low=low, high=high, infinity=infinity, points=1 << 18)
        )

    def _find_prv_accountant_edge(self, sign: float) -> float:
        """Returns the smallest t among 2^-10, 2^-9, ..., 2^15 at which cdf(t) = 1, or 2^16 if there is none.

        If ``sign`` is -1, the condition is cdf(-t) = 0.
        """
        edge = 2.0**-10
        while edge < 2.0**16 and float(np.ravel(self.cdf(np.array([sign * edge])))[0]) != (sign > 0):
            edge *= 2
        return edge


class _AdaptedPrivacyRandomVariable(PrivacyRandomVariable):
    """The privacy loss of a mechanism of this library. The method ``cdf`` is for information, and no bound needs it."""

    _found: PRVAdapterMechanisms

    def _build_prv_accountant_mechanisms(self) -> PRVAdapterMechanisms:
        return self._found

    def cdf(self, t: Any) -> Any:
        """Returns P[Y <= t] given that Y is finite, in double precision.

        ``t`` is a number or an array of numbers.
        """
        at = np.asarray(t, dtype=np.float64)
        mechanism = self._found.worse
        q = mechanism.sampling_probability if isinstance(mechanism, m.PoissonSampled) else 1.0
        inner = mechanism.mechanism if isinstance(mechanism, m.PoissonSampled) else mechanism
        match inner:
            case m.Gaussian(sigma):  # the output z has the loss ln(1 - q + q e^y), where y = (z - 1/2)/sigma^2
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    y = np.where(at > 700, at - math.log(q), np.log1p(np.expm1(np.minimum(at, 700.0)) / q))
                y = np.where(np.expm1(np.minimum(at, 0.0)) > -q, y, -np.inf)
                erfc = np.vectorize(math.erfc, otypes=[np.float64])
                found = sum(
                    share * (erfc(-(y * sigma - move / (2 * sigma)) / math.sqrt(2)) / 2)
                    for share, move in ((q, 1), (1 - q, -1))
                )
            case m.Laplace(scale):
                found = np.where(at < 1 / scale, np.exp((np.minimum(at, 1 / scale) - 1 / scale) / 2) / 2, 1.0)
                found = np.where(at < -1 / scale, 0.0, found)
            case m.PureDP() | m.ApproximateDP():
                e = inner.nominal_epsilon
                found = np.where(at < -e, 0.0, np.where(at < e, 1 / (1 + math.exp(min(e, 700.0))), 1.0))
            case _:  # a mechanism that reveals nothing
                found = np.where(at < 0, 0.0, 1.0)
        return found


class PoissonSubsampledGaussianMechanism(_AdaptedPrivacyRandomVariable):
    """The loss of Gaussian noise on a Poisson sample. If ``sampling_probability`` is 0, nothing is revealed.

    ``sampling_probability`` is in [0, 1], and ``noise_multiplier`` is > 0. Raises ValueError for other numbers.

    >>> from tightdp.adapters.prv_accountant import PoissonSubsampledGaussianMechanism
    >>> bool(PoissonSubsampledGaussianMechanism(0.01, 1.0).cdf(0.0) > 0.5)
    True
    """

    def __init__(self, sampling_probability: float, noise_multiplier: float) -> None:
        q = _check.closed_unit("sampling_probability", sampling_probability)
        gaussian = m.Gaussian(noise_multiplier)
        self._found = PRVAdapterMechanisms.from_unrounded(m.PoissonSampled(gaussian, q) if q else None)


class GaussianMechanism(_AdaptedPrivacyRandomVariable):
    """The loss of Gaussian noise of standard deviation ``noise_multiplier`` on a sum of sensitivity ``l2_sensitivity``.

    Raises ValueError for a number that is not positive.

    >>> from tightdp.adapters.prv_accountant import GaussianMechanism
    >>> float(GaussianMechanism(2.0).cdf(0.125))  # the mean of the loss is 1 / (2 * 2^2)
    0.5
    """

    def __init__(self, noise_multiplier: float, l2_sensitivity: float = 1.0) -> None:
        sigma = _check.positive("noise_multiplier", noise_multiplier)
        sensitivity = _check.positive("l2_sensitivity", l2_sensitivity)
        self._found = _round_noise_of_prv_adapter(
            m.Gaussian, Range(sigma) / sensitivity if sensitivity != 1 else Range(sigma)
        )


class LaplaceMechanism(_AdaptedPrivacyRandomVariable):
    """The loss of Laplace noise of scale 1 on a sum of sensitivity ``mu``.

    Raises ValueError for a number that is not positive.

    >>> from tightdp.adapters.prv_accountant import LaplaceMechanism
    >>> float(LaplaceMechanism(0.5).cdf(0.51))  # no loss exceeds the sensitivity
    1.0
    """

    def __init__(self, mu: float) -> None:
        self._found = _round_noise_of_prv_adapter(m.Laplace, 1 / Range(_check.positive("mu", mu)))


class PureDPMechanism(_AdaptedPrivacyRandomVariable):
    """The loss of a mechanism that dominates every ``eps``-DP mechanism.

    Raises ValueError for an ``eps`` below 0.

    >>> from tightdp.adapters.prv_accountant import PureDPMechanism
    >>> float(PureDPMechanism(1.0).cdf(1.0))
    1.0
    """

    def __init__(self, eps: float) -> None:
        self._found = PRVAdapterMechanisms.from_unrounded(m.PureDP(_check.nonnegative("eps", eps)))


class ApproximateDPMechanism(_AdaptedPrivacyRandomVariable):
    """The loss of a mechanism that dominates every (``epsilon``, ``delta``)-DP mechanism.

    Raises ValueError for an ``epsilon`` below 0 or a ``delta`` outside [0, 1].

    >>> from tightdp.adapters.prv_accountant import ApproximateDPMechanism
    >>> ApproximateDPMechanism(1.0, 1e-6).pm_inf
    1e-06
    >>> float(ApproximateDPMechanism(1.0, 1e-6).cdf(2.0))
    1.0
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self._found = PRVAdapterMechanisms.from_unrounded(m.ApproximateDP(epsilon, delta))

    @property
    def pm_inf(self) -> float:
        """Probability that Y is infinite, which is ``delta``."""
        mechanism = self._found.worse
        return mechanism.nominal_delta if isinstance(mechanism, m.ApproximateDP) else 0.0
