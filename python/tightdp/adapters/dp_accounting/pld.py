"""Offers tightdp's bounds under the names of ``dp_accounting.pld.privacy_loss_distribution``. Programs need only change
their imports.

    from tightdp.adapters.dp_accounting import pld

    pld.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(1000).get_epsilon_for_delta(1e-5)

A composition is kept as mechanisms, and each bound is computed by the best engine. The distribution on a grid, which
other libraries read, is built only when it is read, or when it is composed with a distribution of dp_accounting.
dp_accounting's own functions are used for lower estimates (``pessimistic_estimate=False``), for truncated noise, and
for all names that this module does not define.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ParamSpec

import dp_accounting.pld
import numpy as np
from dp_accounting.pld import privacy_loss_distribution as theirs
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution as PrivacyLossDistribution

from ... import mechanisms as m
from ..._support import _check
from ..._support.rounded_division import divide_rounding_down
from ...accounting.pairs.neighbors import translate_parts_to_replacement
from ...composition import Composition
from . import answers
from .accountant import TightDPAccountant as PLDAccountant
from .distribution import INTERVAL
from .distribution import privacy_loss_distribution as exported
from .event_reading import ADD_OR_REMOVE, REPLACE, EventReading
from .events import invert_event_parameter_down, read_gaussian_mixture_event, read_randomized_response_event

__all__ = [
    "CertifiedDistribution",
    "PLDAccountant",
    "PrivacyLossDistribution",
    "from_discrete_gaussian_mechanism",
    "from_discrete_laplace_mechanism",
    "from_gaussian_mechanism",
    "from_laplace_mechanism",
    "from_mixture_gaussian_mechanism",
    "from_privacy_parameters",
    "from_randomized_response",
    "from_truncated_subsampled_gaussian_mechanism",
    "identity",
]

Arguments = ParamSpec("Arguments")


class CertifiedDistribution(PrivacyLossDistribution):
    """A ``PrivacyLossDistribution`` whose epsilon and delta are certified upper bounds, as tight as tightdp's engines.

    ``composition`` is bounded for the relation "add_or_remove". The distributions on a grid, ``_pmf_remove`` and
    ``_pmf_add``, are built when they are first read, by ``privacy_loss_distribution`` of this package.
    """

    def __init__(self, composition: Composition, value_discretization_interval: float = INTERVAL) -> None:
        self.composition = composition
        self._interval = _check.positive("value_discretization_interval", value_discretization_interval)

    def get_epsilon_for_delta(self, delta: float) -> float:
        """Returns an upper bound of epsilon at ``delta`` in [0, 1]."""
        return answers.bound_epsilon_for_dp_accounting(self.composition, "add_or_remove", delta, "delta")

    def get_delta_for_epsilon(self, epsilon: Any) -> Any:
        """Returns upper bounds of delta at one epsilon or at many."""
        given = np.asarray(epsilon, dtype=np.float64)
        if given.ndim == 0:
            return answers.bound_delta_for_dp_accounting(self.composition, "add_or_remove", float(given), "epsilon")
        return answers.bound_deltas_for_dp_accounting(self.composition, "add_or_remove", given)

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> Any:
        """Returns upper bounds on the true positive rates of any test. ``deltas`` has no effect."""
        return answers.bound_rates_for_dp_accounting(self.composition, "add_or_remove", false_positive_rates)

    def get_gdp_parameter_estimate(self, false_positive_rates: Any = None, deltas: Any = None) -> float:
        """Returns an estimate of the least mu of Gaussian differential privacy. ``deltas`` has no effect."""
        return answers.estimate_gdp_for_dp_accounting(self.composition, "add_or_remove", false_positive_rates)

    def validate_composable(self, privacy_loss_distribution: Any) -> None:
        """Raises ValueError if the intervals of the grids differ, or if the other distribution is a lower estimate."""
        if not isinstance(privacy_loss_distribution, CertifiedDistribution):
            super().validate_composable(privacy_loss_distribution)
        elif privacy_loss_distribution._interval != self._interval:
            raise ValueError(
                f"value_discretization_interval must be that of the other distribution, {self._interval!r}, got "
                f"{privacy_loss_distribution._interval!r}"
            )

    def compose(self, privacy_loss_distribution: Any, tail_mass_truncation: float = 1e-15) -> Any:
        """Returns the composition of both distributions, on a grid if the other distribution is dp_accounting's own."""
        if not isinstance(privacy_loss_distribution, CertifiedDistribution):
            return super().compose(privacy_loss_distribution, tail_mass_truncation)
        self.validate_composable(privacy_loss_distribution)
        return CertifiedDistribution(self.composition + privacy_loss_distribution.composition, self._interval)

    def self_compose(self, num_times: int, tail_mass_truncation: float = 1e-15) -> CertifiedDistribution:
        """Returns the composition of ``num_times`` copies of this distribution."""
        return CertifiedDistribution(
            self.composition * _check.check_count_argument("num_times", num_times), self._interval
        )

    def get_delta_for_epsilon_for_composed_pld(self, privacy_loss_distribution: Any, epsilon: float) -> float:
        """Returns an upper bound of delta for the composition of both distributions."""
        if not isinstance(privacy_loss_distribution, CertifiedDistribution):
            return float(super().get_delta_for_epsilon_for_composed_pld(privacy_loss_distribution, epsilon))
        return float(self.compose(privacy_loss_distribution).get_delta_for_epsilon(epsilon))

    @functools.cached_property
    def _exported_pld(self) -> Any:
        if answers.has_event_without_noise(self.composition):
            return theirs.PrivacyLossDistribution.create_from_rounded_probability({0: 0.0}, 1.0, self._interval)
        if not self.composition:
            return theirs.identity(self._interval)
        return exported(self.composition, "add_or_remove", self._interval)

    @property
    def _pmf_remove(self) -> Any:
        return self._exported_pld._pmf_remove

    @property
    def _pmf_add(self) -> Any:
        return self._exported_pld._pmf_add

    @property
    def _symmetric(self) -> bool:
        return bool(self.composition.symmetric)


def _translate_pld_mechanism(mechanism: m.Mechanism, relation: Any) -> Composition:
    """Returns a composition whose dominating pair for adding or removing a record is that of ``mechanism`` under
    ``relation``, which may be REPLACE_ONE."""
    run = mechanism * 1
    return Composition(translate_parts_to_replacement(run.parts)) if relation == REPLACE else run


def _sample_pld_mechanism(mechanism: m.Mechanism, sampling_prob: Any) -> m.Mechanism:
    q = _check.probability("sampling_prob", sampling_prob) if sampling_prob != 1 else 1.0
    return m.PoissonSampled(mechanism, q) if q < 1 else mechanism


class FractionalSensitivityError(TypeError, ValueError):
    """Error for a sensitivity that is not an integer. The class is a TypeError, as elsewhere in tightdp, and a
    ValueError, as in dp_accounting."""


def _check_pld_sensitivity(sensitivity: Any) -> int:
    """Returns ``sensitivity``. Raises an error unless it is a positive integer."""
    try:
        return _check.check_count_argument("sensitivity", sensitivity)
    except TypeError as error:
        raise FractionalSensitivityError(str(error)) from None


def _divide_pld_noise(name: str, noise: Any, sensitivity: Any) -> float:
    """Returns the checked ``noise``, divided by the checked ``sensitivity`` and rounded down."""
    return divide_rounding_down(_check.positive(name, noise), _check.positive("sensitivity", sensitivity))


def _leave_lower_estimates_to_dp_accounting(
    estimate: Callable[Arguments, Any],
) -> Callable[[Callable[[Any], Composition | m.Mechanism | None]], Callable[Arguments, Any]]:
    """Returns a decorator for a function that maps the arguments of ``estimate``, a function of dp_accounting, to a
    composition or a mechanism. None stands for a mechanism that reveals nothing.

    The decorated function has the signature of ``estimate``, and returns the certified distribution of the composition.
    Lower estimates and truncated noise are left to ``estimate``.
    """
    signature = inspect.signature(estimate)

    def wrap_pld_builder(build: Callable[[Any], Composition | m.Mechanism | None]) -> Callable[Arguments, Any]:
        """Returns the function that leaves lower estimates to ``estimate``, and certifies what ``build`` returns."""

        @functools.wraps(build)
        def build_distribution(*args: Arguments.args, **options: Arguments.kwargs) -> Any:
            bound = signature.bind(*args, **options)
            bound.apply_defaults()
            given = SimpleNamespace(**bound.arguments)
            truncated = getattr(given, "truncation_bound", None) is not None
            if truncated or not getattr(given, "pessimistic_estimate", True):
                return estimate(*args, **options)
            run = build(given)
            return CertifiedDistribution(Composition() if run is None else run * 1, given.value_discretization_interval)

        build_distribution.__signature__ = signature  # type: ignore[attr-defined]
        return build_distribution

    return wrap_pld_builder


@_leave_lower_estimates_to_dp_accounting(theirs.identity)
def identity(given: Any) -> None:
    """Returns the distribution of a mechanism that reveals nothing."""


@_leave_lower_estimates_to_dp_accounting(theirs.from_gaussian_mechanism)
def from_gaussian_mechanism(given: Any) -> Composition:
    """Returns the distribution of Gaussian noise on a Poisson sample.

    ``sensitivity`` bounds one record's contribution.
    """
    relation = EventReading.check_and_make_dp_accounting_reading(given.neighboring_relation, None).relation
    noise = m.Gaussian(_divide_pld_noise("standard_deviation", given.standard_deviation, given.sensitivity))
    return _translate_pld_mechanism(_sample_pld_mechanism(noise, given.sampling_prob), relation)


@_leave_lower_estimates_to_dp_accounting(theirs.from_laplace_mechanism)
def from_laplace_mechanism(given: Any) -> m.Mechanism:
    """Returns the distribution of Laplace noise of scale ``parameter`` on a Poisson sample."""
    noise = m.Laplace(_divide_pld_noise("parameter", given.parameter, given.sensitivity))
    return _sample_pld_mechanism(noise, given.sampling_prob)


@_leave_lower_estimates_to_dp_accounting(theirs.from_discrete_laplace_mechanism)
def from_discrete_laplace_mechanism(given: Any) -> m.Mechanism:
    """Returns the distribution of integer noise on a Poisson sample: P[n] is proportional to e^(-``parameter`` |n|)."""
    scale = invert_event_parameter_down("parameter", given.parameter)
    noise = m.DiscreteLaplace(scale, _check_pld_sensitivity(given.sensitivity))
    return _sample_pld_mechanism(noise, given.sampling_prob)


@_leave_lower_estimates_to_dp_accounting(theirs.from_discrete_gaussian_mechanism)
def from_discrete_gaussian_mechanism(given: Any) -> m.Mechanism:
    """Returns the distribution of integer noise on a Poisson sample.

    P[n] is proportional to e^(-n^2 / (2 ``sigma``^2))."""
    noise = m.DiscreteGaussian(given.sigma, _check_pld_sensitivity(given.sensitivity))
    return _sample_pld_mechanism(noise, given.sampling_prob)


@_leave_lower_estimates_to_dp_accounting(theirs.from_mixture_gaussian_mechanism)
def from_mixture_gaussian_mechanism(given: Any) -> m.Mechanism | None:
    """Returns the distribution of Gaussian noise on a sum whose sensitivity is drawn by ``sampling_probs``."""
    event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(
        given.standard_deviation, given.sensitivities, given.sampling_probs
    )
    return read_gaussian_mixture_event(event, EventReading(ADD_OR_REMOVE))


@_leave_lower_estimates_to_dp_accounting(theirs.from_randomized_response)
def from_randomized_response(given: Any) -> m.Mechanism | None:
    """Returns the distribution of randomised response.

    Under REPLACE_ONE the distribution compares the outputs for two answers. Under REPLACE_SPECIAL it compares the
    output for an answer with a uniform output.
    """
    # Unlike an accountant, this function refuses parameters for which the output reveals everything or nothing.
    _check.probability("noise_parameter", given.noise_parameter)
    _check.check_count_argument("num_buckets", given.num_buckets, least=2)
    event = dp_accounting.dp_event.RandomizedResponseDpEvent(given.noise_parameter, given.num_buckets)
    return read_randomized_response_event(
        event, EventReading.check_and_make_dp_accounting_reading(given.neighboring_relation, None)
    )


@_leave_lower_estimates_to_dp_accounting(theirs.from_truncated_subsampled_gaussian_mechanism)
def from_truncated_subsampled_gaussian_mechanism(given: Any) -> Composition:
    """Returns the distribution of Gaussian noise on a Poisson sample that is cut to ``truncated_batch_size``."""
    relation = EventReading.check_and_make_dp_accounting_reading(given.neighboring_relation, None).relation
    cut = m.TruncatedPoissonSampled(
        m.Gaussian(given.noise_multiplier), given.sampling_probability, given.truncated_batch_size, given.dataset_size
    )
    return _translate_pld_mechanism(cut, relation)


@_leave_lower_estimates_to_dp_accounting(theirs.from_privacy_parameters)
def from_privacy_parameters(given: Any) -> m.Mechanism:
    """Returns a distribution that covers every mechanism that is (epsilon, delta)-DP."""
    return m.ApproximateDP(given.privacy_parameters.epsilon, given.privacy_parameters.delta)


def __getattr__(name: str) -> Any:
    """Returns the object of dp_accounting with any other name, such as ``from_two_probability_mass_functions``."""
    if name == "privacy_loss_distribution":
        return sys.modules[__name__]
    for module in (theirs, dp_accounting.pld):
        if hasattr(module, name) and not name.startswith("__"):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
