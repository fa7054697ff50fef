"""Mechanisms of which nothing but a guarantee is known: pure, approximate, zero-concentrated or bounded-range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._support import _check
from ..composition import Mechanism
from ..options import EVERY
from .checked_fields import set_mechanism_fields


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Mechanism):
    """Any mechanism that is ``epsilon``-DP.

    The account uses binary randomised response, which dominates all such mechanisms.

    The parameter is kept as ``nominal_epsilon``, because ``epsilon`` is a method of every mechanism.

    Parameters
    ----------
    epsilon : the guarantee in nats, in [0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {(dp.PureDP(0.1) * 10).epsilon(1e-6):.3f}")
    epsilon <= 1.000
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    nominal_epsilon: float

    def __init__(self, epsilon: float) -> None:
        set_mechanism_fields(self, nominal_epsilon=_check.nonnegative("epsilon", epsilon))

    def _list_parameters(self) -> Mapping[str, Any]:
        return {"epsilon": self.nominal_epsilon}

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.nominal_epsilon!r})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproximateDP(Mechanism):
    """Any mechanism that is (``epsilon``, ``delta``)-DP.

    The account uses the worst such mechanism, which reveals everything with probability ``delta`` and otherwise is
    binary randomised response. The parameters are kept as ``nominal_epsilon`` and ``nominal_delta``.

    Parameters
    ----------
    epsilon : the guarantee in nats, in [0, inf).
    delta : the probability that the guarantee fails, in [0, 1].

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"delta <= {(dp.ApproximateDP(0.1, 1e-7) * 10).delta(1.0):.2e}")
    delta <= 1.00e-06
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    nominal_epsilon: float
    nominal_delta: float

    def __init__(self, epsilon: float, delta: float) -> None:
        e, d = _check.nonnegative("epsilon", epsilon), _check.closed_unit("delta", delta)
        set_mechanism_fields(self, nominal_epsilon=e, nominal_delta=d)

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        return (PureDP(self.nominal_epsilon) if self.nominal_delta == 0 else self), 1

    def _list_parameters(self) -> Mapping[str, Any]:
        return {"epsilon": self.nominal_epsilon, "delta": self.nominal_delta}

    def __repr__(self) -> str:
        return f"ApproximateDP(epsilon={self.nominal_epsilon!r}, delta={self.nominal_delta!r})"


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Mechanism):
    """Answers truthfully, or, with probability ``noise_parameter``, uniformly at random.

    A random answer is drawn from all ``num_buckets`` answers, including the true one. Under every relation, neighbours
    differ in one person's true answer.

    Parameters
    ----------
    noise_parameter : probability of an answer that is drawn uniformly, in (0, 1].
    num_buckets : number of possible answers, an integer >= 2.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.RandomizedResponse(0.5, 2).epsilon(0.0):.3f}")
    epsilon <= 1.099
    """

    relations, symmetric, any_size = EVERY, True, True
    noise_parameter: float
    num_buckets: int

    def __post_init__(self) -> None:
        set_mechanism_fields(self, noise_parameter=_check.probability("noise_parameter", self.noise_parameter))
        set_mechanism_fields(self, num_buckets=_check.check_count_argument("num_buckets", self.num_buckets, least=2))


@dataclass(frozen=True, slots=True)
class BoundedRange(Mechanism):
    """Any mechanism whose privacy losses lie in some interval of length ``eta``.

    Examples are the exponential mechanism and the noisy maximum with Gumbel noise. For scores of sensitivity D, Gumbel
    noise of scale 2D/eta gives ``eta``. If adding a record never lowers any score, or never raises any score, noise of
    scale D/eta is enough.

    Parameters
    ----------
    eta : length of the interval of privacy losses in nats, in [0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {(dp.BoundedRange(0.1) * 100).epsilon(1e-6):.3f}")
    epsilon <= 2.252
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    eta: float

    def __post_init__(self) -> None:
        set_mechanism_fields(self, eta=_check.nonnegative("eta", self.eta))


@dataclass(frozen=True, slots=True)
class ZCDP(Mechanism):
    """Any (``xi``, ``rho``)-zCDP mechanism: its Renyi divergences of every order a > 1 are at most ``xi + a * rho``.

    This class of mechanisms has no dominating pair. Upper ends come from the Renyi engine. Lower ends come from members
    of the class. For a single mechanism, a search looks for the most revealing member with two outputs. For a
    composition, the member is the Gaussian of noise multiplier ``(2 rho)^(-1/2)``, followed by randomised response if
    ``xi > 0`` (docs/theory/conversions.md section 7). Source: Bun and Steinke (2016), Definitions 1.1 and 8.1.

    Parameters
    ----------
    rho : slope of the bound on Renyi divergences in nats, in [0, inf).
    xi : constant term of this bound in nats, in [0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon in {(dp.ZCDP(0.1) * 2).epsilon(1e-6).interval('.3f')}")
    epsilon in [2.921, 3.132]
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        set_mechanism_fields(self, rho=_check.nonnegative("rho", self.rho), xi=_check.nonnegative("xi", self.xi))

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        return (PureDP(self.xi) if self.rho == 0 else self), 1  # all divergences, and so all losses, are at most xi
