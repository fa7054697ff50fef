"""What must hold of every bound, whatever the mechanisms: hypothesis looks for counterexamples."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp

few = settings(max_examples=25, deadline=None)


def logarithmic(low, high):
    return st.floats(math.log(low), math.log(high)).map(lambda x: min(max(math.exp(x), low), high))


sigmas = logarithmic(0.1, 1e3)
probabilities = logarithmic(1e-6, 1.0)
counts = st.integers(1, 2000)
deltas = logarithmic(1e-12, 0.5)
gaussians = st.builds(dp.Gaussian, sigmas)
sampled = st.builds(dp.PoissonSampled, gaussians, probabilities)
others = st.one_of(
    st.builds(dp.PureDP, logarithmic(1e-4, 3.0)),
    st.builds(dp.Laplace, logarithmic(0.3, 1e3)),
    st.builds(dp.BoundedRange, logarithmic(1e-4, 2.0)),
    st.builds(dp.ZCDP, logarithmic(1e-6, 0.5)),
    st.builds(dp.ApproximateDP, logarithmic(1e-4, 3.0), logarithmic(1e-15, 1e-9)),
    st.builds(dp.RandomizedResponse, st.floats(0.05, 1.0), st.integers(2, 5)),
)
mechanisms = st.one_of(gaussians, sampled, others)
parts = st.tuples(mechanisms, counts)
dp_sgd = st.builds(lambda m, k: m * k, sampled, counts)


def composed(pieces):
    return sum((mechanism * count for mechanism, count in pieces), dp.Composition())


@given(st.lists(parts, max_size=6), st.randoms(use_true_random=False), st.integers(1, 10**6))
def test_order_and_grouping_do_not_matter(pieces, random, times):
    shuffled = list(pieces)
    random.shuffle(shuffled)
    whole = composed(pieces)
    assert composed(shuffled) == whole and hash(composed(shuffled)) == hash(whole)
    cut = random.randint(0, len(pieces))
    assert composed(pieces[:cut]) + composed(pieces[cut:]) == whole
    if pieces:
        assert whole * times == composed([(m, k * times) for m, k in pieces])
        assert (whole * times) + whole == whole * (times + 1)
    assert eval(repr(whole), vars(dp)) == whole
    account = dp.Accountant()
    for mechanism, count in pieces:
        account.compose(mechanism, count)
    assert dp.Accountant.from_json(account.to_json()) == account and account.composition == whole


@few
@given(st.lists(st.tuples(mechanisms, st.integers(1, 30)), min_size=1, max_size=3), deltas, st.floats(-3, 10))
def test_every_bound_is_an_interval_of_its_range_and_consistent(pieces, delta, epsilon):
    run = composed(pieces)
    b, d = run.epsilon(delta), run.delta(epsilon)
    assert 0 <= b.lower <= b.upper and max(0.0, -math.expm1(epsilon) * (1 - 1e-14)) <= d.upper
    assert 0 <= d.lower <= d.upper <= 1
    if epsilon >= 0 and epsilon >= b.upper:
        assert d.lower <= delta
    if max(epsilon, 0.0) < b.lower:  # b is of epsilons from 0 on
        assert d.upper >= delta


@few
@given(sigmas, st.floats(1.0, 10.0), probabilities, counts, deltas)
def test_more_noise_never_raises_epsilon(sigma, factor, q, count, delta):
    less = (dp.PoissonSampled(dp.Gaussian(sigma), q) * count).epsilon(delta)
    more = (dp.PoissonSampled(dp.Gaussian(sigma * factor), q) * count).epsilon(delta)
    assert more.lower <= less.upper


@few
@given(dp_sgd, deltas, st.integers(1, 1000))
def test_more_steps_never_lower_epsilon(run, delta, extra):
    longer = run + run.parts[0][0] * extra
    assert run.epsilon(delta).lower <= longer.epsilon(delta).upper


@few
@given(dp_sgd, deltas, st.floats(1e-6, 1.0))
def test_a_smaller_sample_never_raises_epsilon(run, delta, share):
    (mechanism, count), *_ = run.parts
    if isinstance(mechanism, dp.PoissonSampled):
        smaller = dp.PoissonSampled(mechanism.mechanism, mechanism.sampling_probability * share) * count
        assert smaller.epsilon(delta).lower <= run.epsilon(delta).upper


@few
@given(dp_sgd, deltas, deltas)
def test_epsilon_falls_with_delta(run, one, two):
    assert run.epsilon(max(one, two)).lower <= run.epsilon(min(one, two)).upper


@few
@given(dp_sgd, st.floats(0.01, 8.0))
def test_reversal(run, epsilon):
    """delta_add(eps) = 1 - e^eps + e^eps delta_remove(-eps): the two directions are one pair seen from both sides."""
    add, remove = run.delta(epsilon, neighbors="add"), run.delta(-epsilon, neighbors="remove")
    scale = math.exp(epsilon)
    slack = 1e-13 * scale
    assert add.lower <= 1 - scale + scale * remove.upper + slack
    assert add.upper >= 1 - scale + scale * remove.lower - slack


@few
@given(dp_sgd, deltas)
def test_engines_agree(run, delta):
    best = run.epsilon(delta)
    for engine in ("contour", "renyi"):
        if engine == "contour" and not isinstance(run.parts[0][0], dp.PoissonSampled):
            continue
        b = run.epsilon(delta, engine=engine)
        assert max(b.lower, best.lower) <= min(b.upper, best.upper)


@few
@given(st.lists(st.tuples(gaussians, counts), min_size=1, max_size=4), deltas)
def test_gaussians_add_up_as_squares(pieces, delta):
    mu = math.sqrt(math.fsum(count / mechanism.noise_multiplier**2 for mechanism, count in pieces))
    one, many = dp.Gaussian(1 / mu).epsilon(delta), composed(pieces).epsilon(delta)
    assert many.lower == pytest.approx(one.lower, rel=1e-9, abs=1e-9 * mu)
    assert many.upper == pytest.approx(one.upper, rel=1e-9, abs=1e-9 * mu)


@few
@given(sampled, st.integers(2, 400), deltas)
def test_group_privacy_of_the_relation(mechanism, count, delta):
    """The default relation is the worse of "add" and "remove", each composed on its own."""
    run = mechanism * count
    both = run.epsilon(delta)
    each = [run.epsilon(delta, neighbors=n) for n in ("add", "remove")]
    assert both.upper == max(b.upper for b in each) and both.lower == max(b.lower for b in each)
