"""engine="auto" answers everywhere: no exception, no hang, no NaN, no memory."""

import itertools
import math
import random

import pytest
from effort import bounded

import tightdp as dp
from tightdp.options import NEIGHBORS

DELTAS = [1e-300, 1e-5, 0.9]


def check(run, delta, epsilon):
    b, d = bounded(lambda: run.epsilon(delta)), bounded(lambda: run.delta(epsilon))
    assert 0 <= b.lower <= b.upper and 0 <= d.lower <= d.upper <= 1
    assert b.engine and not any(math.isnan(term) for term in (*b.error_budget.values(), *d.error_budget.values()))
    if epsilon >= max(b.upper, 0):
        assert d.lower <= delta * (1 + 1e-12)
    if 0 <= epsilon < b.lower:
        assert d.upper >= delta * (1 - 1e-12)


@pytest.mark.parametrize(
    "sigma", [1e-3, 1e6, *(pytest.param(sigma, marks=pytest.mark.slow) for sigma in (0.1, 1.0, 50.0))]
)
@pytest.mark.parametrize("q", [1e-9, 0.3, *(pytest.param(q, marks=pytest.mark.slow) for q in (1e-4, 1.0))])
@pytest.mark.parametrize("counts", [(1, 10**9), pytest.param((10, 10**5), marks=pytest.mark.slow)])
def test_the_corners_of_the_box(sigma, q, counts):
    for count in counts:
        for delta in DELTAS:
            check(dp.PoissonSampled(dp.Gaussian(sigma), q) * count, delta, 1.0)


@pytest.mark.parametrize("steps", [2, 3])
def test_an_answer_that_is_infinite_at_both_ends_has_no_width(steps):
    run = dp.RandomAllocation(dp.ApproximateDP(1e6, 0.5), steps) * 1
    check(run, 1e-5, 1.0)
    assert run.epsilon(1e-5).lower == math.inf and not any(run.epsilon(1e-5).error_budget.values())


@pytest.mark.parametrize(("sigma", "q"), [(1e-6, 1e-9), (1e-3, 0.5), (0.01, 0.999)])
def test_the_most_steps_of_the_least_noise(sigma, q):
    check(dp.PoissonSampled(dp.Gaussian(sigma), q) * 2**53, 1e-300, 1.0)


def test_a_law_almost_in_one_point():
    """The exponents that a window tries overflow; halving infinity never ended."""
    run = dp.PoissonSampled(dp.Gaussian(0.00865886193721201), 4.0015282062781696e-07) * 6575
    check(run, 1.441506550623614e-35, 1.0)
    bound = run.epsilon(1.441506550623614e-35, neighbors="add")
    assert bound.lower <= -6575 * math.log1p(-4.0015282062781696e-07) <= bound.upper * (1 + 1e-12)


def test_a_law_whose_steps_are_far_finer_than_a_lattice():
    """Its losses count in units of 1e-15 of the others': stepping through them by ones stood still."""
    run = dp.PureDP(6.2) * 3 + dp.RandomizedResponse(0.5, 1000)
    plain = run.delta(7.4, engine="grid", neighbors="remove")
    more = run + dp.PoissonSampled(dp.PureDP(2.6e-6), 1.4e-9) * 23
    bound = more.delta(7.4, engine="grid", neighbors="remove")
    assert bound.lower <= plain.upper * (1 + 1e-9) and plain.lower * (1 - 1e-9) <= bound.upper


@pytest.mark.parametrize("settings", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_random_sample_of_the_box(settings):
    draw = random.Random(5)
    for _ in range(settings):
        run = dp.Composition()
        for _ in range(draw.choice([1, 1, 2, 3])):
            inner = dp.Gaussian(10 ** draw.uniform(-3, 6))
            run = run + dp.PoissonSampled(inner, 10 ** draw.uniform(-9, 0)) * int(10 ** draw.uniform(0, 9))
        check(run, 10 ** draw.uniform(-300, -1e-3), 10 ** draw.uniform(-6, 3))


OTHERS = [
    dp.Laplace(1e-3),
    dp.Laplace(1e6),
    dp.PureDP(1e-9),
    dp.PureDP(1e6),
    dp.ApproximateDP(1.0, 1e-12),
    dp.RandomizedResponse(0.3, 7),
    dp.BoundedRange(0.5),
    dp.ZCDP(1e-9),
    dp.DiscreteGaussian(10.0),
    dp.DiscreteLaplace(10.0, 3),
    dp.PoissonSampled(dp.Laplace(1.0), 1e-4),
    dp.PoissonSampled(dp.ApproximateDP(1.0, 1e-12), 0.1),
    dp.PoissonSampled(dp.BoundedRange(1.0), 0.1),
    dp.RandomAllocation(dp.Gaussian(1.0), 100, 2),
    dp.RepeatAndSelect(dp.Gaussian(1.0), 10.0),
    dp.RepeatAndSelect(dp.Laplace(1.0) * 3, 10.0, "poisson"),
    dp.Group(dp.PureDP(0.5) * 3, 4),
    dp.Group(dp.PoissonSampled(dp.Gaussian(2.0), 0.01), 3),
]


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param(one, marks=[pytest.mark.slow] * (place % 3 > 0)) for place, one in enumerate(OTHERS)],
    ids=repr,
)
@pytest.mark.parametrize("counts", [(10**9,), pytest.param((1, 3, 10**4), marks=pytest.mark.slow)])
def test_every_mechanism_in_any_number(mechanism, counts):
    for count in counts:
        check(mechanism * count, 1e-6, 0.5)
        check(mechanism * count + dp.PoissonSampled(dp.Gaussian(3.0), 0.01) * 100, 1e-6, 0.5)


@pytest.mark.parametrize("mechanism", [dp.Gaussian(1.0), *OTHERS], ids=repr)
@pytest.mark.parametrize("engine", [pytest.param("auto", marks=pytest.mark.slow), "renyi"])
def test_deltas_down_to_the_least_double(mechanism, engine):
    """Smaller than 1e-300 no accuracy is promised, but an answer, which is monotone in delta."""
    for run in (mechanism * 2, dp.PoissonSampled(dp.Gaussian(3.0), 0.01) * 100 + mechanism):
        at = [run.epsilon(delta, engine=engine) for delta in (1e-300, 1e-301, 5e-324)]
        for more, less in itertools.pairwise(at):
            assert more.lower <= less.upper and 0 <= less.lower <= less.upper


def test_a_gaussian_at_the_least_delta():
    """delta(eps) = 1e-320 at the eps that mpmath finds."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):

        def gap(eps):
            return mpmath.log(mpmath.ncdf(0.5 - eps) - mpmath.exp(eps) * mpmath.ncdf(-0.5 - eps)) - mpmath.log(
                mpmath.mpf(1e-320)
            )

        truth = float(mpmath.findroot(gap, (38, 39)))
    b = dp.Gaussian(1.0).epsilon(1e-320)
    assert b.lower <= truth <= b.upper < truth + 1


def test_replace_one():
    for count in (1, 50, 10**6):
        run = dp.FixedSizeSampled(dp.Gaussian(2.0), 10, 1000) * count
        b = run.epsilon(1e-6, neighbors="replace")
        assert 0 <= b.lower <= b.upper < math.inf


LEAST, LARGEST, CERTAIN = 5e-324, math.nextafter(math.inf, 0), 1 - 2**-53
ENDS = [
    *(kind(end) for end in (LEAST, 1e308, LARGEST) for kind in (dp.Gaussian, dp.Laplace, dp.PureDP, dp.BoundedRange)),
    *(kind(end) for end in (LEAST, 1e308, LARGEST) for kind in (dp.DiscreteGaussian, dp.DiscreteLaplace)),
    dp.DiscreteLaplace(1e-300),
    dp.DiscreteLaplace(LARGEST, 2**53),
    *(dp.ZCDP(rho, xi) for rho, xi in ((0.0, LEAST), (LEAST, LARGEST), (1e308, 1e308))),
    *(dp.ApproximateDP(e, d) for e in (0.0, LEAST, LARGEST) for d in (LEAST, CERTAIN, 1.0)),
    *(dp.RandomizedResponse(p, buckets) for p in (LEAST, CERTAIN) for buckets in (2, 2**53)),
    *(dp.PoissonSampled(dp.ApproximateDP(0.0, 1.0), q) for q in (LEAST, 0.5, CERTAIN)),
    *(dp.PoissonSampled(dp.PureDP(LARGEST), q) for q in (LEAST, CERTAIN)),
    *(dp.FixedSizeSampled(dp.ApproximateDP(1e-320, 1e-320), 1, n) for n in (1, 2)),
]
QUESTIONS = {
    "delta": lambda run, neighbors: run.delta(1.0, neighbors=neighbors),
    "epsilon": lambda run, neighbors: run.epsilon(0.5, neighbors=neighbors),
    "epsilon at next to nothing": lambda run, neighbors: run.epsilon(1e-300, neighbors=neighbors),
    "largest loss": lambda run, neighbors: run.epsilon(0.0, neighbors=neighbors),
    "group": lambda run, neighbors: run.group(2).delta(1.0, neighbors=neighbors),
}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 2**53])
@pytest.mark.parametrize("mechanism", ENDS, ids=repr)
def test_the_ends_of_the_ranges_of_parameters(mechanism, count):
    """Every question has an answer, or a refusal that names what must be otherwise."""
    for name, ask in QUESTIONS.items():
        for neighbors in ("add_or_remove", "replace", "replace_special"):

            def answer(ask=ask, neighbors=neighbors):
                try:
                    return ask(mechanism * count, neighbors)
                except ValueError as refusal:
                    assert " must be " in str(refusal)
                    return None

            found = bounded(answer)
            assert found is None or (0 <= found.lower <= found.upper and (name != "delta" or found.upper <= 1))


STEPS_OF_LEAST_NOISE = [
    dp.PoissonSampled(dp.Gaussian(LEAST), 0.1),
    dp.TruncatedPoissonSampled(dp.Gaussian(LEAST), 0.1, 2, 10),
    dp.SampledWithReplacement(dp.Gaussian(LEAST), 2, 10),
    dp.RandomAllocation(dp.Gaussian(LEAST), 3, 1),
    dp.RandomAllocation(dp.Laplace(1e-150), 3, 1),
    dp.RandomAllocation(dp.DiscreteLaplace(1e-100), 3, 1),
    dp.MixtureOfGaussians(LEAST, (0.0, LEAST, 1.0), (0.5, 0.25, 0.25)),
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("step", STEPS_OF_LEAST_NOISE, ids=repr)
def test_samples_of_the_least_noise(step, count):
    """Numbers that underflow or overflow on the way are no arguments that somebody gave, and no warnings."""
    for neighbors in ("add_or_remove", "replace", "replace_special"):
        if neighbors in step.relations:
            assert (step * count).epsilon(1e-5, neighbors=neighbors).upper > 1e99
            assert (step * count).delta(1.0, neighbors=neighbors).upper > 0.09  # the record is in a batch so often


def test_an_allocation_of_a_wide_range():
    """Likelihood ratios of e^1000 overflow. Each step is 1000-DP, and so is an allocation to one of three."""
    bound = dp.RandomAllocation(dp.BoundedRange(1000.0), 3, 1).epsilon(1e-5)
    assert bound.upper <= 1000.0


def test_a_mixture_that_is_hardly_sampled():
    """A sampling probability of the smallest double, of which no part is a double."""
    step = dp.PoissonSampled(dp.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)), LEAST)
    for neighbors in NEIGHBORS:
        assert (step * 3).epsilon(1e-5, neighbors=neighbors).upper == 0.0
        assert (step * 3).delta(0.0, neighbors=neighbors).upper <= 6 * LEAST


@pytest.mark.parametrize("rho", [LEAST, 1e-310, 1e308])
@pytest.mark.parametrize("xi", [0.0, 1.0])
def test_a_budget_of_zcdp_at_the_ends_of_doubles(rho, xi):
    """The interval holds xi-DP with the whole of xi, whatever overflows in the search for a better member."""
    bound = dp.ZCDP(rho, xi).delta(0.5)
    assert max(math.tanh(xi / 2) - 0.6, 0.0) <= bound.upper and bound.lower <= bound.upper
