"""Events of dp_accounting as our mechanisms, and back."""

import dataclasses
import importlib.util
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as dp

dpa = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
from dp_accounting import UnsupportedEventError, dp_event  # noqa: E402

from tightdp.adapters.dp_accounting import TightDPAccountant, events, from_event, to_event  # noqa: E402

ADD, ONE, SPECIAL = (dpa.NeighboringRelation(i) for i in (1, 2, 3))

noise = st.floats(0.1, 100.0)
simple = st.builds(dp.Gaussian, noise) | st.builds(dp.Laplace, noise)
sampled = st.builds(dp.PoissonSampled, simple, st.floats(1e-6, 1.0))
fixed = st.builds(dp.FixedSizeSampled, simple, st.integers(1, 10), st.integers(10, 10**6))
responses = st.builds(dp.RandomizedResponse, st.floats(0.01, 1.0, exclude_max=True), st.integers(2, 9))
with_replacement = st.builds(
    dp.SampledWithReplacement, st.builds(dp.Gaussian, noise), st.integers(1, 9), st.integers(1, 10**6)
)
truncated = st.builds(
    dp.TruncatedPoissonSampled,
    st.builds(dp.Gaussian, noise),
    st.floats(1e-6, 1.0),
    st.integers(1, 100),
    st.integers(200, 10**6),
)
classes = st.builds(dp.ZCDP, st.floats(1e-6, 10.0), st.floats(0.0, 1.0))
repeated = st.builds(dp.RepeatAndSelect, simple, st.floats(1.5, 1e6), st.floats(0.0, 9.0) | st.just("poisson"))
replaceable = repeated | simple | sampled | fixed | with_replacement | truncated | responses | classes


@given(st.lists(st.tuples(replaceable, st.integers(1, 10**6)), max_size=6))
def test_a_composition_survives_the_round_trip(found):
    run = dp.Composition(found)
    assert from_event(to_event(run), ONE, "contribution") == run


@given(st.floats(1e-100, 1e100), st.integers(1, 9))
def test_discrete_laplace_is_rounded_to_the_less_private_side(scale, sensitivity):
    ((back, count),) = from_event(to_event(dp.DiscreteLaplace(scale, sensitivity))).parts
    assert count == 1 and back.sensitivity == sensitivity
    assert scale * (1 - 1e-15) <= back.scale <= scale
    event = dp_event.DiscreteLaplaceDpEvent(scale, sensitivity)
    assert from_event(event).parts[0][0].scale * scale <= 1 + 1e-15


def test_shapes_of_events():
    g = dp_event.GaussianDpEvent(2.0)
    assert to_event(dp.Composition()) == dp_event.NoOpDpEvent()
    assert to_event(dp.Gaussian(2.0)) == g
    assert to_event(dp.Gaussian(2.0) * 3) == dp_event.SelfComposedDpEvent(g, 3)
    assert to_event(dp.Gaussian(2.0) * 3 + dp.Laplace(1.0)) == dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(g, 3), dp_event.LaplaceDpEvent(1.0)]
    )
    assert to_event(dp.FixedSizeSampled(dp.Gaussian(2.0), 3, 10)) == dp_event.SampledWithoutReplacementDpEvent(10, 3, g)
    assert from_event(dp_event.NonPrivateDpEvent()) == dp.ApproximateDP(0.0, 1.0) * 1
    assert to_event(dp.ApproximateDP(0.0, 1.0)) == dp_event.NonPrivateDpEvent()
    assert from_event(dp_event.SampledWithoutReplacementDpEvent(7, 7, g), ONE, "contribution") == dp.Gaussian(2.0) * 1


def test_what_they_have_no_event_for_is_named():
    for mechanism in (dp.RandomAllocation(dp.Gaussian(1.0), 5), dp.PrivacyLoss.from_distributions([1.0], [1.0])):
        with pytest.raises(ValueError, match=type(mechanism).__name__):
            to_event(mechanism * 2 + dp.Gaussian(1.0))
    with pytest.raises(TypeError, match="run must be"):
        to_event("Gaussian(1.0)")


def test_what_we_have_no_bound_for_is_named():
    with pytest.raises(dpa.UnsupportedEventError, match="Unsupported"):
        from_event(dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1.0), dp_event.UnsupportedDpEvent()]))
    with pytest.raises(dpa.UnsupportedEventError, match="REPLACE_ONE"):
        from_event(dp_event.RandomizedResponseDpEvent(0.5, 2), ADD)
    with pytest.raises(TypeError, match="event must be a DpEvent"):
        from_event(dp.Gaussian(1.0))


def test_the_special_record_of_randomised_response_answers_uniformly():
    """delta = sum (p_i - e^epsilon q_i)_+ over the two distinct outcomes, in both orders."""
    for p, k in ((0.5, 2), (0.3, 7), (0.9, 3)):
        run = from_event(dp_event.RandomizedResponseDpEvent(p, k), SPECIAL)
        answer, uniform = [1 - p + p / k, p - p / k], [1 / k, 1 - 1 / k]
        for epsilon in (0.0, 0.1, 0.5, 2.0):
            for one, other in ((answer, uniform), (uniform, answer)):
                truth = sum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(one, other, strict=True))
                relation = "remove" if one is answer else "add"
                found = run.delta(epsilon, neighbors=relation)
                assert found.upper >= truth - 1e-15 and found.lower <= truth + 1e-15
                assert found.width <= 1e-13
    many = from_event(dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(0.5, 2), 3), SPECIAL)
    assert many.renyi([2.0]).upper == pytest.approx(3 * math.log(max(1.25, 0.25 / 0.75 + 0.25 / 0.25)), rel=1e-12)


def test_trees_of_one_epoch_are_gaussians():
    """In d = ceil(log2(steps + 1)) nodes of the deepest tree: multiplier sigma / sqrt(d)."""
    tree = dp_event.SingleEpochTreeAggregationDpEvent
    for steps, depth in ((1, 1), (2, 2), (3, 2), (4, 3), (1000, 10), ([7, 1000, 8], 10)):
        assert depth == math.ceil(math.log2((max(steps) if isinstance(steps, list) else steps) + 1))
        run = from_event(dp_event.SelfComposedDpEvent(tree(3.0, steps), 2), SPECIAL)
        gaussians = dp.Gaussian(3.0) * depth * 2
        assert run.epsilon(1e-5, neighbors="replace_special") == gaussians.epsilon(1e-5)
    assert not from_event(tree(3.0, []), SPECIAL)
    assert from_event(tree(0.0, 4), SPECIAL) == from_event(dp_event.NonPrivateDpEvent())


def test_mixtures():
    """Equal sensitivities are one, those of probability 0 none, and one of 0 alone reveals nothing."""
    mixture = dp_event.MixtureOfGaussiansDpEvent
    found = from_event(mixture(1.5, [0.0, 1.0, 2.0, 1.0], [0.25, 0.25, 0.0, 0.5]))
    assert found == dp.MixtureOfGaussians(1.5, (0.0, 1.0), (0.25, 0.75)) * 1
    assert from_event(to_event(found)) == found
    assert not from_event(mixture(1.0, [0.0], [1.0])) and not from_event(mixture(0.0, [0.0], [1.0]))
    assert from_event(mixture(0.0, [1.0, 2.0], [0.5, 0.5])) == from_event(dp_event.NonPrivateDpEvent())
    for bad in (mixture(1.0, [1.0], [0.5]), mixture(1.0, [-1.0, 1.0], [0.5, 0.5]), mixture(1.0, [1.0, 2.0], [1.0])):
        with pytest.raises(dpa.UnsupportedEventError, match=r"sensitivities|probabilities"):
            from_event(bad)


def test_repeated_runs():
    g = dp_event.GaussianDpEvent(2.0)
    search = dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(g, 3), 10.0, math.inf)
    assert from_event(search) == dp.RepeatAndSelect(dp.Gaussian(2.0) * 3, 10.0, "poisson") * 1
    assert to_event(from_event(search)) == search
    assert from_event(dp_event.RepeatAndSelectDpEvent(g, 1, 1)) == dp.Gaussian(2.0) * 1
    assert from_event(dp_event.RepeatAndSelectDpEvent(dp_event.NoOpDpEvent(), 5, 1)) == dp.Composition()
    reveals = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(0.0), 5, 1)
    assert from_event(reveals) == dp.ApproximateDP(0.0, 1.0) * 1
    for mean, shape, name in ((0.5, 1, "mean"), (math.nan, 1, "mean"), (2, -0.5, "shape"), (2, math.nan, "shape")):
        with pytest.raises(dpa.UnsupportedEventError, match=name):
            from_event(dp_event.RepeatAndSelectDpEvent(g, mean, shape))


def test_truncated_samples():
    truncated = dp_event.TruncatedSubsampledGaussianDpEvent
    assert from_event(truncated(100, 0.1, 12, 2.0)) == dp.TruncatedPoissonSampled(dp.Gaussian(2.0), 0.1, 12, 100) * 1
    assert from_event(truncated(100, 0.1, 100, 2.0)) == dp.PoissonSampled(dp.Gaussian(2.0), 0.1) * 1
    assert not from_event(truncated(100, 0.0, 12, 2.0)) and not from_event(truncated(100, 0.1, 0, 0.0))
    assert from_event(truncated(100, 0.1, 12, 0.0)) == from_event(dp_event.NonPrivateDpEvent())


def test_later_events_where_the_installed_version_has_them():
    later = {
        "EpsilonDeltaDpEvent": ((1.0, 1e-6), dp.ApproximateDP(1.0, 1e-6)),
        "ExponentialMechanismDpEvent": ((0.5,), dp.BoundedRange(0.5)),
        "PermuteAndFlipDpEvent": ((0.5,), dp.Laplace(2.0)),
        "DiscreteGaussianDpEvent": ((2.0, 3.0, 5), dp.DiscreteGaussianVector(2.0, 3.0, 5)),
    }
    for name, (arguments, mechanism) in later.items():
        if hasattr(dp_event, name):
            assert from_event(getattr(dp_event, name)(*arguments)) == mechanism * 1
    for name, mechanism in (
        ("EpsilonDeltaDpEvent", dp.PureDP(1.0)),
        ("ExponentialMechanismDpEvent", dp.BoundedRange(0.5)),
        ("DiscreteGaussianDpEvent", dp.DiscreteGaussian(2.0, 3)),
        ("DiscreteGaussianDpEvent", dp.DiscreteGaussianVector(2.0, 3.0, 5)),
    ):
        if hasattr(dp_event, name):
            assert from_event(to_event(mechanism)) == mechanism * 1
        else:
            with pytest.raises(ValueError, match=type(mechanism).__name__):
                to_event(mechanism)


@dataclasses.dataclass(frozen=True)
class RandomAllocationDpEvent(dp_event.DpEvent):
    """As in versions after 0.6, whose field names and order these are."""

    event: dp_event.DpEvent
    num_selected: int
    num_steps: int


@pytest.fixture
def later_events(monkeypatch):
    """The module as it is imported where dp_accounting has the event."""
    monkeypatch.setattr(dp_event, "RandomAllocationDpEvent", RandomAllocationDpEvent, raising=False)
    spec = importlib.util.spec_from_file_location(events.__name__ + "_later", events.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_random_allocations(later_events):
    """An allocation of one step is the mechanism; all steps, as often; no noise reveals everything."""
    g, event = dp_event.GaussianDpEvent(2.0), dp_event.RandomAllocationDpEvent
    for relation in (ADD, SPECIAL):
        assert later_events.from_event(event(g, 2, 5), relation) == dp.RandomAllocation(dp.Gaussian(2.0), 5, 2) * 1
        assert later_events.from_event(event(g, 1, 1), relation).epsilon(1e-5) == dp.Gaussian(2.0).epsilon(1e-5)
        three = later_events.from_event(event(dp_event.LaplaceDpEvent(2.0), 3, 3), relation)
        assert three.epsilon(1e-5).upper == pytest.approx((dp.Laplace(2.0) * 3).epsilon(1e-5).upper, rel=1e-6)
        assert not later_events.from_event(event(g, 0, 5), relation)
        assert not later_events.from_event(event(dp_event.NoOpDpEvent(), 2, 5), relation)
        reveals = later_events.from_event(event(dp_event.GaussianDpEvent(0.0), 2, 5), relation)
        assert reveals == dp.ApproximateDP(0.0, 1.0) * 1
        for arguments in ((g, 6, 5), (g, -1, 5), (g, 1, 0), (g, 1.5, 5)):
            with pytest.raises(dpa.UnsupportedEventError, match="num_"):
                later_events.from_event(event(*arguments), relation)
    with pytest.raises(dpa.UnsupportedEventError, match="RandomAllocationDpEvent"):
        later_events.from_event(event(g, 2, 5), ONE)
    again = later_events.to_event(dp.RandomAllocation(dp.Gaussian(2.0), 5, 2) * 7)
    assert later_events.from_event(again) == dp.RandomAllocation(dp.Gaussian(2.0), 5, 2) * 7


GAUSSIAN = dp_event.GaussianDpEvent(1.0)


def doubled(event, times):
    for _ in range(times):
        event = dp_event.ComposedDpEvent([event, event])
    return event


def test_shared_events_are_read_once():
    """2^52 runs of one object: their number is that of the paths to it."""
    shared = doubled(GAUSSIAN, 52)
    assert from_event(shared) == dp.Gaussian(1.0) * 2**52
    mixed = dp_event.ComposedDpEvent([doubled(dp_event.SelfComposedDpEvent(GAUSSIAN, 3), 4), GAUSSIAN])
    assert from_event(mixed) == dp.Gaussian(1.0) * 49
    [(sampled, _)] = from_event(dp_event.PoissonSampledDpEvent(0.5, doubled(GAUSSIAN, 20))).parts
    assert 1 - 1e-12 < sampled.mechanism.noise_multiplier * 2**10 <= 1
    account = TightDPAccountant().compose(doubled(GAUSSIAN, 10))
    assert account.get_epsilon(1e-5) == (dp.Gaussian(1.0) * 1024).epsilon(1e-5).upper


def test_too_many_runs_are_refused_in_few_words():
    for ask in (from_event, TightDPAccountant().compose):
        with pytest.raises(UnsupportedEventError, match="count must be at most") as raised:
            ask(doubled(GAUSSIAN, 60))
        assert len(str(raised.value)) < 20_000


@pytest.mark.parametrize("relation", ["replace", 5, None, []])
def test_relations_are_theirs(relation):
    with pytest.raises(ValueError, match=r"^neighboring_relation must be a NeighboringRelation"):
        from_event(GAUSSIAN, relation)


def test_deep_repetitions():
    deep = GAUSSIAN
    for _ in range(5000):
        deep = dp_event.SelfComposedDpEvent(deep, 1)
    account = TightDPAccountant().compose(deep, 3)
    assert account.composition == from_event(deep) * 3 == dp.Gaussian(1.0) * 3
    assert account.ledger == dp_event.SelfComposedDpEvent(GAUSSIAN, 3)


def test_an_event_that_is_part_of_itself():
    events = [GAUSSIAN]
    events.append(dp_event.ComposedDpEvent(events))
    with pytest.raises(UnsupportedEventError, match="part of itself"):
        from_event(dp_event.ComposedDpEvent(events))
