"""Converts dp_accounting's events to tightdp's mechanisms, and mechanisms to events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dp_accounting import dp_event

from ... import mechanisms as m
from ..._support import _check
from ..._support.rounded_division import divide_rounding_down
from ...accounting.numerics.outward import Range, log, sqrt, widen_up
from ...composition import Composable, Composition
from ...mechanisms import PrivacyLoss, RepeatAndSelect
from .event_reading import ADD_OR_REMOVE, REPLACE, SPECIAL, EventReading, Unit
from .tree import Refused, RefusedEventError, describe_event, iterate_event_leaves

REVEALS = m.ApproximateDP(0.0, 1.0)
"""Mechanism that stands for a release without noise. It reveals everything with probability 1."""
_MULTIPLIER, _RATE = "Noise multiplier: noise_multiplier", "Sampling rate: sampling_probability"
"""Names of two parameters in errors: dp_accounting's words, followed by the names of the fields of its events."""


class EventPart(NamedTuple):
    """A mechanism and how often it runs.

    ``stated`` is True if the mechanism's parameters hold directly for two neighbouring data sets, and False if the
    parameters are relative to one record's contribution.
    """

    mechanism: m.Mechanism
    times: int
    stated: bool


def from_event(
    event: Any, neighboring_relation: Any = ADD_OR_REMOVE, noise_relative_to: Unit | None = None
) -> Composition:
    """Returns the composition that stands for a ``DpEvent``. Raises UnsupportedEventError if none is known.

    Bound the composition for the same relation: "add_or_remove", "replace" or "replace_special". ``NonPrivateDpEvent``
    becomes ``ApproximateDP(0, 1)``. If a parameter must be rounded, it is rounded to the less private side.
    ``noise_relative_to`` is as for ``TightDPAccountant``.

    ``event`` is any ``DpEvent``, and ``neighboring_relation`` a ``dp_accounting.NeighboringRelation``.

    >>> import dp_accounting
    >>> from tightdp.adapters.dp_accounting import from_event
    >>> from_event(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 10))
    Gaussian(noise_multiplier=2.0) * 10
    """
    if not isinstance(event, dp_event.DpEvent):
        raise TypeError(f"event must be a DpEvent, got {event!r}")
    reading = EventReading.check_and_make_dp_accounting_reading(neighboring_relation, noise_relative_to)
    try:
        return Composition((part.mechanism, part.times) for part in list_parts_of_event(event, reading))
    except Refused as refused:
        raise RefusedEventError(f"{refused.reason} (subevent {describe_event(refused.event)})") from None


def list_parts_of_event(event: Any, reading: EventReading) -> Iterator[EventPart]:
    """Yields the parts of an event, except for parts that reveal nothing.

    Raises ``Refused``, which names the first subevent without a bound.
    """
    for leaf, count in iterate_event_leaves(event):
        mechanism = _read_dp_event(leaf, reading)
        if mechanism is not None:
            yield EventPart(mechanism, count, _is_event_stated_for_neighbors(leaf, reading))


def _is_event_stated_for_neighbors(event: Any, reading: EventReading) -> bool:
    """Returns whether the parameters of an event hold directly for neighbours under the relation.

    The parameters of noise on integers hold directly if noise is relative to twice the bound on one contribution. A
    query of integers with sensitivity D cannot be treated as a sum of contributions of D/2, because D/2 need not be an
    integer.
    """
    return isinstance(event, _STATED_EVENTS) or (reading.is_relative_to_doubled and isinstance(event, _INTEGER_EVENTS))


def _read_dp_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of one event that is not a composition, or None if the event reveals nothing."""
    read = next((_EVENT_READERS[kind] for kind in type(event).__mro__ if kind in _EVENT_READERS), None)
    if read is None:
        raise Refused(event, "Unsupported event.")
    try:
        return read(event, reading)
    except (TypeError, ValueError) as error:  # a parameter out of its range
        raise Refused(event, str(error)) from None
    except RecursionError:
        raise Refused(event, "event is nested too deeply") from None


def _read_noise_of_event(kind: Callable[[float], m.Mechanism], name: str, value: Any) -> m.Mechanism | None:
    """Returns the mechanism of additive noise. Noise of 0 reveals everything, and infinite noise reveals nothing."""
    if value == 0:
        return REVEALS
    if value == math.inf:
        return None
    accepted = "a non-negative number"
    if (noise := _check.check_real_argument(name, value, accepted)) < 0:
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return kind(noise)


def _read_gaussian_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    return _read_noise_of_event(
        lambda s: m.Gaussian(reading.convert_to_dp_accounting_contribution(s)), _MULTIPLIER, event.noise_multiplier
    )


def _read_laplace_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    return _read_noise_of_event(
        lambda b: m.Laplace(reading.convert_to_dp_accounting_contribution(b)), _MULTIPLIER, event.noise_multiplier
    )


def _read_discrete_laplace_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    if event.sensitivity == 0:
        return None
    if event.noise_parameter == 0:  # as in dp_accounting: uniform noise on all integers does not exist
        return REVEALS
    return m.DiscreteLaplace(invert_event_parameter_down("noise_parameter", event.noise_parameter), event.sensitivity)


def invert_event_parameter_down(name: str, value: Any) -> float:
    """Returns ``1 / value``, rounded down, so that the account never assumes too much noise."""
    return divide_rounding_down(1.0, _check.positive(name, value))


def _read_discrete_gaussian_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    sensitivity = _check.nonnegative("sensitivity", event.sensitivity)
    if sensitivity < 1:  # integers that differ by less than 1 are equal
        return None
    # An unknown dimension is replaced by the largest accepted one, for which the bound is largest.
    dimensions = _check.MAX_COUNT if event.dimension is None else event.dimension
    return _read_noise_of_event(
        lambda sigma: m.DiscreteGaussianVector(sigma, sensitivity, dimensions), "sigma", event.sigma
    )


def _read_tree_aggregation_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of noise on the nodes of trees. Each record is in one tree."""
    # The mechanism covers no other relation. Leaving out a record would shift all later records to other steps, and a
    # record that replaces another may be in any step.
    reading.check_dp_accounting_relation("`SingleEpochTreeAggregationDpEvent`", SPECIAL)
    given = event.step_counts
    counts = [
        _check.check_count_argument("step_counts (non-negative)", steps, least=0)
        for steps in (given if isinstance(given, list) else [given])
    ]
    steps = max(counts, default=0)  # a record is in one of the trees
    if steps == 0:
        return None
    return _read_noise_of_event(lambda sigma: m.TreeAggregation(sigma, steps), _MULTIPLIER, event.noise_multiplier)


def read_randomized_response_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of randomised response: with probability ``noise_parameter``, a uniform answer replaces the
    true answer."""
    reading.check_dp_accounting_relation("`RandomizedResponseDpEvent`", REPLACE, SPECIAL)
    p = _check.closed_unit("noise_parameter", event.noise_parameter)
    buckets = _check.check_count_argument("num_buckets", event.num_buckets)
    if buckets == 1 or p == 1:
        return None
    if p == 0:
        return REVEALS
    if reading.relation == REPLACE:
        return m.RandomizedResponse(p, buckets)
    return _read_response_for_replace_special(p, buckets)


def _read_response_for_replace_special(p: float, buckets: int) -> PrivacyLoss:
    """Returns the privacy loss between the output for an answer and the uniform output for the special record.

    Proof: docs/theory/conversions.md section 11.
    """
    right, wrong = 1 - Range(p) + Range(p) / buckets, Range(p) * (buckets - 1) / buckets
    more, less = log(buckets * (1 - Range(p)) + p), log(p)
    error = max(loss.hi - loss.lo for loss in (more, less))
    masses = wrong.hi, min(right.hi, 1.0)  # rounded up, which raises the profile in both orders of the pair
    return PrivacyLoss((less.hi, more.hi), masses, loss_error=widen_up(error))


def _read_permute_and_flip_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    if event.epsilon == math.inf:
        return REVEALS
    if not event.epsilon:
        return None
    return m.Laplace(
        reading.convert_to_dp_accounting_contribution(invert_event_parameter_down("epsilon", event.epsilon))
    )


def _read_poisson_sample_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of a Poisson sample. Nested samples are one sample with the product of their rates."""
    probability, inner = 1.0, event
    while isinstance(inner, dp_event.PoissonSampledDpEvent):
        q = _check.closed_unit(_RATE, inner.sampling_probability)
        probability = min((Range(probability) * q).hi, q) if probability < 1 else q
        inner = inner.event
    if probability == 0:
        return None
    if probability < 1:
        reading.check_dp_accounting_contributions(event)
    found = _combine_sampled_events(inner, reading, varies=probability < 1)
    if found is None or found == REVEALS or probability == 1:
        return found
    return m.PoissonSampled(found, probability)


def _build_fixed_size_event_reader(
    kind: Callable[[Any, int, int], m.Mechanism],
) -> Callable[[Any, EventReading], m.Mechanism | None]:
    """Returns the reader of events on samples of a fixed size. ``kind`` is the class of mechanisms for such samples."""

    def read_fixed_size_event(event: Any, reading: EventReading) -> m.Mechanism | None:
        """Returns the mechanism of an event on a sample of fixed size, or None if nothing is drawn or released."""
        reading.check_dp_accounting_relation(f"`{type(event).__name__}`", REPLACE, SPECIAL)
        if kind is m.SampledWithReplacement:
            reading.check_dp_accounting_contributions(event)
        size = _check.check_count_argument("sample_size", event.sample_size, least=0)
        total = _check.check_count_argument("source_dataset_size", event.source_dataset_size, least=0)
        inside = reading.read_event_at_fixed_size() if kind is m.FixedSizeSampled else reading
        found = _combine_sampled_events(event.event, inside) if size else None
        if isinstance(found, PrivacyLoss):  # a sample without the record has another record in its place
            found = m.PureDP(widen_up(found.dominating.largest_absolute_loss + found.dominating.slack))
        return found if found is None or found == REVEALS else kind(found, size, total)

    return read_fixed_size_event


def _read_truncated_sample_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    reading.check_dp_accounting_contributions(event)
    q = _check.closed_unit(_RATE, event.sampling_probability)
    batch = _check.check_count_argument("truncated_batch_size", event.truncated_batch_size, least=0)
    total = _check.check_count_argument("dataset_size", event.dataset_size, least=0)
    if not (q and batch and total):
        return None
    found = _read_gaussian_event(event, reading)
    return found if found is None or found == REVEALS else m.TruncatedPoissonSampled(found, q, batch, total)


def read_gaussian_mixture_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of Gaussian noise on a sum whose sensitivity is random. Equal sensitivities are merged, and
    sensitivities of probability 0 are dropped."""
    reading.check_dp_accounting_contributions(event)
    if len(event.sensitivities) != len(event.sampling_probs):
        raise ValueError("sampling_probs must have one entry for each of sensitivities")
    shares: dict[float, float] = {}
    for norm, share in zip(event.sensitivities, event.sampling_probs, strict=True):
        norm, share = _check.nonnegative("sensitivities", norm), _check.closed_unit("sampling_probs", share)
        if share:
            shares[norm] = shares.get(norm, 0.0) + share
    if not any(shares):
        return None
    return _read_noise_of_event(
        lambda sigma: m.MixtureOfGaussians(
            reading.convert_to_dp_accounting_contribution(sigma), tuple(shares), tuple(shares.values())
        ),
        "standard_deviation",
        event.standard_deviation,
    )


def _read_random_allocation_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of records that take part in a fixed number of random steps."""
    reading.check_dp_accounting_relation("`RandomAllocationDpEvent`", ADD_OR_REMOVE, SPECIAL)
    selected = _check.check_count_argument("num_selected", event.num_selected, least=0)
    steps = _check.check_count_argument("num_steps", event.num_steps, least=max(selected, 1))
    found = _combine_sampled_events(event.event, reading) if selected else None
    return found if found is None or found == REVEALS else m.RandomAllocation(found, steps, selected)


def _combine_sampled_events(event: Any, reading: EventReading, varies: bool = False) -> m.Mechanism | None:
    """Returns one mechanism for all events that run on a sample. For several Gaussians, the values 1/sigma^2 add up.

    ``varies`` says that the sample may have one record more or less. A guarantee that is stated for replacing a record
    does not cover such a sample, and ValueError is raised.
    """
    found = list(list_parts_of_event(event, reading))
    if varies and any(part.stated for part in found):
        subject = "a Poisson sample of what is stated for neighbours of the same size"
        reading.check_dp_accounting_relation(subject, ADD_OR_REMOVE, SPECIAL)
    if not found or any(part.mechanism == REVEALS for part in found):
        return REVEALS if found else None
    if len(found) == 1 and found[0].times == 1:
        return found[0].mechanism
    total = Range(0.0)
    for part in found:
        if not isinstance(part.mechanism, m.Gaussian):
            raise ValueError(
                f"event must be one mechanism, or Gaussians alone, on a sample, got {describe_event(event)}"
            )
        total += Range(1.0) / (Range(part.mechanism.noise_multiplier) * part.mechanism.noise_multiplier) * part.times
    return m.Gaussian((1 / sqrt(total)).lo)


def _read_repeat_and_select_event(event: Any, reading: EventReading) -> m.Mechanism | None:
    """Returns the mechanism of the best of a random number of runs."""
    shape, mean = event.shape, _check.at_least_one("mean", event.mean)
    if not isinstance(shape, (int, float)) or not shape >= 0:
        raise ValueError(f"shape must be a number in [0, inf], got {shape!r}")
    found = list(list_parts_of_event(event.event, reading))
    if any(part.mechanism == REVEALS for part in found):
        return REVEALS
    if any(part.stated for part in found):
        subject = "repeated runs of what is stated for neighbours of the same size"
        reading.check_dp_accounting_relation(subject, ADD_OR_REMOVE, SPECIAL)
    run = Composition((part.mechanism, part.times) for part in found)
    return RepeatAndSelect(run, mean, shape) if run else None


_EVENT_READERS: dict[type, Callable[[Any, EventReading], m.Mechanism | None]] = {
    dp_event.NoOpDpEvent: lambda event, reading: None,
    dp_event.NonPrivateDpEvent: lambda event, reading: REVEALS,
    dp_event.GaussianDpEvent: _read_gaussian_event,
    dp_event.LaplaceDpEvent: _read_laplace_event,
    dp_event.DiscreteLaplaceDpEvent: _read_discrete_laplace_event,
    dp_event.RandomizedResponseDpEvent: read_randomized_response_event,
    dp_event.ZCDpEvent: lambda event, _: m.ZCDP(event.rho, event.xi) if event.rho or event.xi else None,
    dp_event.SingleEpochTreeAggregationDpEvent: _read_tree_aggregation_event,
    dp_event.PoissonSampledDpEvent: _read_poisson_sample_event,
    dp_event.SampledWithoutReplacementDpEvent: _build_fixed_size_event_reader(m.FixedSizeSampled),
    dp_event.SampledWithReplacementDpEvent: _build_fixed_size_event_reader(m.SampledWithReplacement),
    dp_event.TruncatedSubsampledGaussianDpEvent: _read_truncated_sample_event,
    dp_event.MixtureOfGaussiansDpEvent: read_gaussian_mixture_event,
    dp_event.RepeatAndSelectDpEvent: _read_repeat_and_select_event,
}
_LATER_EVENT_READERS: dict[str, Callable[[Any, EventReading], m.Mechanism | None]] = {
    "DiscreteGaussianDpEvent": _read_discrete_gaussian_event,
    "EpsilonDeltaDpEvent": lambda event, _: (
        m.ApproximateDP(event.epsilon, event.delta) if event.epsilon != math.inf else REVEALS
    ),
    "ExponentialMechanismDpEvent": lambda event, _: (
        m.BoundedRange(event.epsilon) if event.epsilon != math.inf else REVEALS
    ),
    "PermuteAndFlipDpEvent": _read_permute_and_flip_event,
    "RandomAllocationDpEvent": _read_random_allocation_event,
}
"""Readers of events that only versions of dp_accounting after 0.6.0 have, by the names of the events."""
_EVENT_READERS |= {
    getattr(dp_event, name): read for name, read in _LATER_EVENT_READERS.items() if hasattr(dp_event, name)
}


def _find_installed_dp_events(*names: str) -> tuple[type, ...]:
    """Returns the classes of events with these names that the installed version of dp_accounting has."""
    return tuple(getattr(dp_event, name) for name in names if hasattr(dp_event, name))


_STATED_EVENTS = _find_installed_dp_events("ZCDpEvent", "EpsilonDeltaDpEvent", "ExponentialMechanismDpEvent")
_INTEGER_EVENTS = _find_installed_dp_events("DiscreteLaplaceDpEvent", "DiscreteGaussianDpEvent")


def to_event(run: Composable) -> Any:
    """Returns the ``DpEvent`` of a mechanism or composition. Raises ValueError for a mechanism without an event.

    Noise is relative to one record's contribution. ``from_event(event, relation, "contribution")`` returns the same
    composition again. An exception is the scale of discrete Laplace noise, because the event's parameter is the inverse
    of this scale, rounded to the less private side.

    ``run`` is a mechanism or a composition.

    >>> from tightdp.adapters.dp_accounting import to_event
    >>> to_event(dp.Gaussian(2.0)).noise_multiplier
    2.0
    """
    if not isinstance(run, Composable):
        raise TypeError(f"run must be a Mechanism or a Composition, got {run!r}")
    return _compose_dp_events(run)


def _compose_dp_events(run: Composable) -> Any:
    found = []
    for mechanism, count in run._to_composition().parts:
        event = _make_event_of_mechanism(mechanism)
        found.append(event if count == 1 else dp_event.SelfComposedDpEvent(event, count))
    if not found:
        return dp_event.NoOpDpEvent()
    return found[0] if len(found) == 1 else dp_event.ComposedDpEvent(found)


def _make_event_of_mechanism(mechanism: m.Mechanism) -> Any:
    """Returns the event of one mechanism. Raises ValueError if the installed dp_accounting has no such event."""
    match mechanism:
        case m.Gaussian(sigma):
            return dp_event.GaussianDpEvent(sigma)
        case m.Laplace(scale):
            return dp_event.LaplaceDpEvent(scale)
        case m.DiscreteLaplace(scale, sensitivity):
            return dp_event.DiscreteLaplaceDpEvent((1 / Range(scale)).hi, sensitivity)
        case m.RandomizedResponse(p, buckets):
            return dp_event.RandomizedResponseDpEvent(p, buckets)
        case m.ZCDP(rho, xi):
            return dp_event.ZCDpEvent(rho, xi)
        case m.PoissonSampled(inner, q):
            return dp_event.PoissonSampledDpEvent(q, _make_event_of_mechanism(inner))
        case m.FixedSizeSampled(inner, size, total):
            return dp_event.SampledWithoutReplacementDpEvent(total, size, _make_event_of_mechanism(inner))
        case m.SampledWithReplacement(inner, size, total):
            return dp_event.SampledWithReplacementDpEvent(total, size, _make_event_of_mechanism(inner))
        case m.TruncatedPoissonSampled(m.Gaussian(sigma), q, batch, total):
            return dp_event.TruncatedSubsampledGaussianDpEvent(total, q, batch, sigma)
        case RepeatAndSelect(run, mean, shape) if isinstance(shape, str) or shape >= 0:
            return dp_event.RepeatAndSelectDpEvent(
                _compose_dp_events(run), mean, math.inf if isinstance(shape, str) else shape
            )
        case m.MixtureOfGaussians(sigma, norms, shares):
            return dp_event.MixtureOfGaussiansDpEvent(sigma, norms, shares)
        case m.ApproximateDP() if mechanism == REVEALS:
            return dp_event.NonPrivateDpEvent()
        case m.PureDP() if hasattr(dp_event, "EpsilonDeltaDpEvent"):
            return dp_event.EpsilonDeltaDpEvent(mechanism.nominal_epsilon, 0.0)
        case m.ApproximateDP() if hasattr(dp_event, "EpsilonDeltaDpEvent"):
            return dp_event.EpsilonDeltaDpEvent(mechanism.nominal_epsilon, mechanism.nominal_delta)
        case m.BoundedRange(eta) if hasattr(dp_event, "ExponentialMechanismDpEvent"):
            return dp_event.ExponentialMechanismDpEvent(eta)
        case m.RandomAllocation(inner, steps, selected) if hasattr(dp_event, "RandomAllocationDpEvent"):
            return dp_event.RandomAllocationDpEvent(_make_event_of_mechanism(inner), selected, steps)
        case m.DiscreteGaussian(sigma, sensitivity) if hasattr(dp_event, "DiscreteGaussianDpEvent"):
            return dp_event.DiscreteGaussianDpEvent(sigma, sensitivity, 1)
        case m.DiscreteGaussianVector(sigma, length, dimensions) if hasattr(dp_event, "DiscreteGaussianDpEvent"):
            return dp_event.DiscreteGaussianDpEvent(sigma, length, dimensions)
    raise ValueError(f"run must consist of mechanisms that the installed dp_accounting has events for, not {mechanism}")
