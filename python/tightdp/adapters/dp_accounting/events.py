"""Their events as our mechanisms, and our mechanisms as their events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, UnsupportedEventError, dp_event

from ... import _check
from ... import mechanisms as m
from ...accounting.numerics.outward import Range, log, sqrt
from ...composition import Composable, Composition
from ...derived import RepeatAndSelect
from ...options import Neighbors
from .tree import Refused, leaves, shown

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL

NEIGHBORS: dict[Any, Neighbors] = {ADD_OR_REMOVE: "add_or_remove", REPLACE: "replace", SPECIAL: "replace_special"}

REVEALS = m.ApproximateDP(0.0, 1.0)
"""What a release without noise is: with probability 1 it reveals everything."""


class Part(NamedTuple):
    """A mechanism and how often. ``stated``: its parameters hold for neighbours under the relation itself, and are not
    about one record's contribution."""

    mechanism: m.Mechanism
    times: int
    stated: bool


def from_event(event: Any, neighboring_relation: Any = ADD_OR_REMOVE) -> Composition:
    """The composition that stands for a ``DpEvent``; UnsupportedEventError if there is none.

    Ask it under the same relation: "add_or_remove", "replace" or "replace_special". ``NonPrivateDpEvent`` becomes
    ``ApproximateDP(0, 1)``. Parameters are rounded to the less private side where a conversion rounds.
    """
    if not isinstance(event, dp_event.DpEvent):
        raise TypeError(f"event must be a DpEvent, got {event!r}")
    check_relation(neighboring_relation)
    try:
        return Composition((part.mechanism, part.times) for part in parts(event, neighboring_relation))
    except Refused as refused:
        raise UnsupportedEventError(f"{refused.reason} (subevent {shown(refused.event)})") from None


def check_relation(relation: Any) -> None:
    if not isinstance(relation, NeighboringRelation) or relation not in NEIGHBORS:
        raise ValueError(f"neighboring_relation must be a NeighboringRelation, got {relation!r}")


def parts(event: Any, relation: Any) -> Iterator[Part]:
    """What an event composes, without what reveals nothing; ``Refused`` names the first subevent without a bound."""
    for leaf, count in leaves(event):
        mechanism = _mechanism(leaf, relation)
        if mechanism is not None:
            yield Part(mechanism, count, isinstance(leaf, _STATED))


def _mechanism(event: Any, relation: Any) -> m.Mechanism | None:
    """The mechanism of one event, None where it reveals nothing."""
    read = next((_EVENTS[kind] for kind in type(event).__mro__ if kind in _EVENTS), None)
    if read is None:
        raise Refused(event, "Unsupported event.")
    try:
        return read(event, relation)
    except (TypeError, ValueError) as error:  # a parameter out of its range
        raise Refused(event, str(error)) from None
    except RecursionError:
        raise Refused(event, "event is nested too deeply") from None


def _noise(kind: Callable[[float], m.Mechanism], name: str, value: Any) -> m.Mechanism | None:
    """Additive noise: none of it reveals everything, infinitely much of it nothing."""
    if value == 0:
        return REVEALS
    return None if value == math.inf else kind(_check.positive(name, value))


def _gaussian(event: Any, relation: Any) -> m.Mechanism | None:
    return _noise(m.Gaussian, "noise_multiplier", event.noise_multiplier)


def _laplace(event: Any, relation: Any) -> m.Mechanism | None:
    return _noise(m.Laplace, "noise_multiplier", event.noise_multiplier)


def _discrete_laplace(event: Any, relation: Any) -> m.Mechanism | None:
    if event.sensitivity == 0:
        return None
    if event.noise_parameter == 0:  # as theirs: the limit would be uniform noise, which is no distribution
        return REVEALS
    return m.DiscreteLaplace(_below_inverse("noise_parameter", event.noise_parameter), event.sensitivity)


def _below_inverse(name: str, value: Any) -> float:
    """1 / value rounded down: less noise."""
    x = _check.positive(name, value)
    inverse = min(1 / x, _check.LARGEST)
    return math.nextafter(inverse, 0.0) if Fraction(inverse) * Fraction(x) > 1 else inverse


def _discrete_gaussian(event: Any, relation: Any) -> m.Mechanism | None:
    sensitivity = _check.nonnegative("sensitivity", event.sensitivity)
    if sensitivity < 1:  # integers differ by integers
        return None
    # An unknown dimension is the largest.
    dimensions = _check.MAX_COUNT if event.dimension is None else event.dimension
    return _noise(lambda sigma: m.DiscreteGaussianVector(sigma, sensitivity, dimensions), "sigma", event.sigma)


def _tree(event: Any, relation: Any) -> m.Mechanism | None:
    given = event.step_counts
    counts = [_check.count("step_counts", steps, least=0) for steps in (given if isinstance(given, list) else [given])]
    steps = max(counts, default=0)  # a record is in one of the trees
    if steps == 0:
        return None
    return _noise(lambda sigma: m.TreeAggregation(sigma, steps), "noise_multiplier", event.noise_multiplier)


def _randomized_response(event: Any, relation: Any) -> m.Mechanism | None:
    if relation == ADD_OR_REMOVE:
        raise ValueError(
            "neighboring_relation must be `REPLACE_ONE` or `REPLACE_SPECIAL` for `RandomizedResponseDpEvent`. Found "
            f"{relation}."
        )
    p = _check.closed_unit("noise_parameter", event.noise_parameter)
    buckets = _check.count("num_buckets", event.num_buckets)
    if buckets == 1 or p == 1:
        return None
    if p == 0:
        return REVEALS
    if relation == REPLACE:
        return m.RandomizedResponse(p, buckets)
    # The special record answers uniformly: losses log(k (1-p) + p) and log p (docs/theory/conversions.md section 11).
    return m.PureDP(max(log(buckets * (1 - Range(p)) + p).hi, (-log(p)).hi))


def _zcdp(event: Any, relation: Any) -> m.Mechanism | None:
    return m.ZCDP(event.rho, event.xi) if event.rho or event.xi else None


def _epsilon_delta(event: Any, relation: Any) -> m.Mechanism | None:
    return m.ApproximateDP(event.epsilon, event.delta) if event.epsilon != math.inf else REVEALS


def _exponential(event: Any, relation: Any) -> m.Mechanism | None:
    return m.BoundedRange(event.epsilon) if event.epsilon != math.inf else REVEALS


def _permute_and_flip(event: Any, relation: Any) -> m.Mechanism | None:
    if event.epsilon == math.inf:
        return REVEALS
    return m.Laplace(_below_inverse("epsilon", event.epsilon)) if event.epsilon else None


def _poisson(event: Any, relation: Any) -> m.Mechanism | None:
    probability, inner = 1.0, event
    while isinstance(inner, dp_event.PoissonSampledDpEvent):  # samples of samples
        q = _check.closed_unit("sampling_probability", inner.sampling_probability)
        probability = min((Range(probability) * q).hi, q) if probability < 1 else q
        inner = inner.event
    if probability == 0:
        return None
    if relation == REPLACE and isinstance(inner, _STATED) and probability < 1:
        raise ValueError(
            f"neighboring_relation must be `ADD_OR_REMOVE_ONE` or `REPLACE_SPECIAL` for a Poisson sample of what is "
            f"stated for neighbours of the same size. Found {relation}."
        )
    found = _on_one_sample(inner, relation)
    if found is None or found == REVEALS or probability == 1:
        return found
    return m.PoissonSampled(found, probability)


def _of_fixed_size(kind: Callable[[Any, int, int], m.Mechanism]) -> Callable[[Any, Any], m.Mechanism | None]:
    def read(event: Any, relation: Any) -> m.Mechanism | None:
        if relation == ADD_OR_REMOVE:
            raise ValueError(
                f"neighboring_relation must be `REPLACE_ONE` or `REPLACE_SPECIAL` for `{type(event).__name__}`. Found "
                f"{relation}."
            )
        size = _check.count("sample_size", event.sample_size, least=0)
        total = _check.count("source_dataset_size", event.source_dataset_size, least=0)
        found = _on_one_sample(event.event, relation) if size else None
        return found if found is None or found == REVEALS else kind(found, size, total)

    return read


def _truncated(event: Any, relation: Any) -> m.Mechanism | None:
    q = _check.closed_unit("sampling_probability", event.sampling_probability)
    batch = _check.count("truncated_batch_size", event.truncated_batch_size, least=0)
    total = _check.count("dataset_size", event.dataset_size, least=0)
    if not (q and batch and total):
        return None
    found = _gaussian(event, relation)
    return found if found is None or found == REVEALS else m.TruncatedPoissonSampled(found, q, batch, total)


def _mixture(event: Any, relation: Any) -> m.Mechanism | None:
    if len(event.sensitivities) != len(event.sampling_probs):
        raise ValueError("sampling_probs must have one entry for each of sensitivities")
    shares: dict[float, float] = {}
    for norm, share in zip(event.sensitivities, event.sampling_probs, strict=True):
        norm, share = _check.nonnegative("sensitivities", norm), _check.closed_unit("sampling_probs", share)
        if share:
            shares[norm] = shares.get(norm, 0.0) + share
    if not any(shares):
        return None
    return _noise(
        lambda sigma: m.MixtureOfGaussians(sigma, tuple(shares), tuple(shares.values())),
        "standard_deviation",
        event.standard_deviation,
    )


def _on_one_sample(event: Any, relation: Any) -> m.Mechanism | None:
    """One mechanism for all that runs on a sample. Gaussians on the same sample are one: squares of 1/sigma add up."""
    found = list(parts(event, relation))
    if not found or any(part.mechanism == REVEALS for part in found):
        return REVEALS if found else None
    if len(found) == 1 and found[0].times == 1:
        return found[0].mechanism
    total = Range(0.0)
    for part in found:
        if not isinstance(part.mechanism, m.Gaussian):
            raise ValueError(f"event must be one mechanism, or Gaussians alone, on a sample, got {shown(event)}")
        total += Range(1.0) / (Range(part.mechanism.noise_multiplier) * part.mechanism.noise_multiplier) * part.times
    return m.Gaussian((1 / sqrt(total)).lo)


def _repeated(event: Any, relation: Any) -> m.Mechanism | None:
    shape, mean = event.shape, _check.at_least_one("mean", event.mean)
    if not isinstance(shape, (int, float)) or not shape >= 0:
        raise ValueError(f"shape must be a number in [0, inf], got {shape!r}")
    found = list(parts(event.event, relation))
    if any(part.mechanism == REVEALS for part in found):
        return REVEALS
    if relation == REPLACE and any(part.stated for part in found):
        raise ValueError(
            f"neighboring_relation must be `ADD_OR_REMOVE_ONE` or `REPLACE_SPECIAL` for repeated runs of what is "
            f"stated for neighbours of the same size. Found {relation}."
        )
    run = Composition((part.mechanism, part.times) for part in found)
    return RepeatAndSelect(run, mean, shape) if run else None


_EVENTS: dict[type, Callable[[Any, Any], m.Mechanism | None]] = {
    dp_event.NoOpDpEvent: lambda event, relation: None,
    dp_event.NonPrivateDpEvent: lambda event, relation: REVEALS,
    dp_event.GaussianDpEvent: _gaussian,
    dp_event.LaplaceDpEvent: _laplace,
    dp_event.DiscreteLaplaceDpEvent: _discrete_laplace,
    dp_event.RandomizedResponseDpEvent: _randomized_response,
    dp_event.ZCDpEvent: _zcdp,
    dp_event.SingleEpochTreeAggregationDpEvent: _tree,
    dp_event.PoissonSampledDpEvent: _poisson,
    dp_event.SampledWithoutReplacementDpEvent: _of_fixed_size(m.FixedSizeSampled),
    dp_event.SampledWithReplacementDpEvent: _of_fixed_size(m.SampledWithReplacement),
    dp_event.TruncatedSubsampledGaussianDpEvent: _truncated,
    dp_event.MixtureOfGaussiansDpEvent: _mixture,
    dp_event.RepeatAndSelectDpEvent: _repeated,
}
_LATER: dict[str, Callable[[Any, Any], m.Mechanism | None]] = {
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "EpsilonDeltaDpEvent": _epsilon_delta,
    "ExponentialMechanismDpEvent": _exponential,
    "PermuteAndFlipDpEvent": _permute_and_flip,
}
"""Events that versions after 0.6.0 have."""
_EVENTS |= {getattr(dp_event, name): read for name, read in _LATER.items() if hasattr(dp_event, name)}
_STATED = tuple(
    getattr(dp_event, name)
    for name in ("ZCDpEvent", "EpsilonDeltaDpEvent", "ExponentialMechanismDpEvent")
    if hasattr(dp_event, name)
)


def to_event(run: Composable) -> Any:
    """The ``DpEvent`` of a mechanism or composition; ValueError names a mechanism without an event.

    With ``from_event`` it makes the same composition again, but for the scale of discrete Laplace noise: their
    parameter is its inverse, which rounds, to the less private side.
    """
    if not isinstance(run, Composable):
        raise TypeError(f"run must be a Mechanism or a Composition, got {run!r}")
    return _composed(run)


def _composed(run: Composable) -> Any:
    found = []
    for mechanism, count in run._composition().parts:
        event = _event(mechanism)
        found.append(event if count == 1 else dp_event.SelfComposedDpEvent(event, count))
    if not found:
        return dp_event.NoOpDpEvent()
    return found[0] if len(found) == 1 else dp_event.ComposedDpEvent(found)


def _event(mechanism: m.Mechanism) -> Any:
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
            return dp_event.PoissonSampledDpEvent(q, _event(inner))
        case m.FixedSizeSampled(inner, size, total):
            return dp_event.SampledWithoutReplacementDpEvent(total, size, _event(inner))
        case m.SampledWithReplacement(inner, size, total):
            return dp_event.SampledWithReplacementDpEvent(total, size, _event(inner))
        case m.TruncatedPoissonSampled(m.Gaussian(sigma), q, batch, total):
            return dp_event.TruncatedSubsampledGaussianDpEvent(total, q, batch, sigma)
        case RepeatAndSelect(run, mean, shape) if isinstance(shape, str) or shape >= 0:
            return dp_event.RepeatAndSelectDpEvent(_composed(run), mean, math.inf if isinstance(shape, str) else shape)
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
        case m.DiscreteGaussian(sigma, sensitivity) if hasattr(dp_event, "DiscreteGaussianDpEvent"):
            return dp_event.DiscreteGaussianDpEvent(sigma, sensitivity, 1)
        case m.DiscreteGaussianVector(sigma, length, dimensions) if hasattr(dp_event, "DiscreteGaussianDpEvent"):
            return dp_event.DiscreteGaussianDpEvent(sigma, length, dimensions)
    raise ValueError(f"run must consist of mechanisms that the installed dp_accounting has events for, not {mechanism}")
