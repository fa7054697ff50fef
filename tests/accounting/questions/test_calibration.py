import functools
import math

import pytest

import tightdp as dp
from tightdp.accounting.numerics.root import find_monotone_boundary


def training(sigma, q=0.01, steps=1000):
    return dp.PoissonSampled(dp.Gaussian(sigma), q) * steps


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "steps"),
    [
        (2.0, 1e-5, 0.01, 1000),
        (0.1, 1e-9, 0.02, 10_000),
        (8.0, 1e-6, 0.001, 10**6),
        (3.0, 1e-5, 1.0, 100),
        (1.0, 1e-5, 1.0, 1),
    ],
)
def test_noise_multiplier_meets_the_target_and_no_more(epsilon, delta, q, steps):
    sigma = dp.noise_multiplier(epsilon=epsilon, delta=delta, sampling_probability=q, steps=steps)
    b = training(sigma, q, steps).epsilon(delta)
    assert epsilon - 1e-6 <= b.lower <= b.upper <= epsilon
    assert dp.calibrate(lambda s: training(s, q, steps), epsilon=epsilon, delta=delta) == pytest.approx(sigma, rel=1e-7)


def test_noise_multiplier_takes_a_handful_of_bounds(monkeypatch):
    from tightdp.accounting.questions.question import Question

    asked = []
    answer = Question.epsilon
    monkeypatch.setattr(Question, "epsilon", lambda *a: asked.append(a) or answer(*a))
    dp.noise_multiplier(epsilon=2.0, delta=1e-5, sampling_probability=0.01, steps=1000)
    assert len(asked) <= 10


def test_noise_multiplier_under_replace_is_twice_as_large():
    single = dp.noise_multiplier(1.0, 1e-5)
    assert dp.noise_multiplier(1.0, 1e-5, neighbors="replace") == pytest.approx(2 * single, rel=1e-8)


def test_any_noise_meets_a_delta_above_the_chance_of_being_sampled():
    assert dp.noise_multiplier(1.0, 1e-5, sampling_probability=1e-9, steps=1) <= 1e-3


@pytest.mark.parametrize(
    ("factory", "epsilon", "delta"),
    [
        (lambda s: dp.Gaussian(s) * 10, 1.0, 1e-6),
        (lambda s: dp.Laplace(s) * 1, 0.5, 1e-9),
        (lambda s: dp.Gaussian(s) + dp.Gaussian(2 * s) * 3, 1e-3, 1e-9),
        (lambda rho: dp.ZCDP(1 / rho), 1.0, 1e-8),
        (lambda s: training(s) + dp.Gaussian(20.0), 1.0, 1e-6),
    ],
)
def test_the_least_noise(factory, epsilon, delta):
    x = dp.calibrate(factory, epsilon=epsilon, delta=delta)
    assert factory(x).epsilon(delta).upper <= epsilon
    assert factory(x * (1 - 1e-6)).epsilon(delta).upper > epsilon


@pytest.mark.parametrize(
    ("factory", "epsilon"),
    [
        (lambda e: dp.PureDP(e) * 10, 1.0),
        (lambda q: dp.PoissonSampled(dp.Gaussian(1.0), q) * 1000, 2.0),
        (lambda rho: dp.ZCDP(rho), 1.0),
        (lambda eta: dp.BoundedRange(eta) * 100, 0.5),
    ],
)
def test_the_largest_cost(factory, epsilon):
    x = dp.calibrate(factory, epsilon=epsilon, delta=1e-6)
    assert factory(x).epsilon(1e-6).upper <= epsilon
    assert factory(x * (1 + 1e-6)).epsilon(1e-6).upper > epsilon


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize(("low", "high"), [(5, 6), (0.9, 1.1), (1, 2), (0.6, 0.8)])
def test_a_narrow_range(low, high, integer):
    """All of it meets the target, or none, or one end."""
    low, high = (math.ceil(low), math.ceil(high)) if integer else (low, high)
    if low == high:
        return
    noise = lambda s: dp.Gaussian(3.0 * s)  # noqa: E731
    ends = [noise(x).epsilon(1e-5).upper <= 1.0 for x in (low, high)]
    if not any(ends):
        with pytest.raises(ValueError, match="is not met"):
            dp.calibrate(noise, epsilon=1.0, delta=1e-5, low=low, high=high, integer=integer)
        return
    found = dp.calibrate(noise, epsilon=1.0, delta=1e-5, low=low, high=high, integer=integer)
    assert low <= found <= high and noise(found).epsilon(1e-5).upper <= 1.0
    assert (found == low) == ends[0]


def test_a_parameter_outside_the_factory_does_not_meet_the_target():
    q = dp.calibrate(lambda q: dp.PoissonSampled(dp.Gaussian(3.0), q) * 1, epsilon=5.0, delta=1e-5)
    assert q == pytest.approx(1.0, rel=1e-8) and q <= 1


def test_the_largest_number_of_steps():
    steps = dp.calibrate(lambda n: training(1.0, steps=n), epsilon=2.0, delta=1e-5, integer=True)
    assert isinstance(steps, int)
    assert training(1.0, steps=steps).epsilon(1e-5).upper <= 2.0 < training(1.0, steps=steps + 1).epsilon(1e-5).upper


def test_the_smallest_integer_and_the_ends_of_the_range():
    sigma = dp.calibrate(dp.Gaussian, epsilon=1.0, delta=1e-5, integer=True)
    assert dp.Gaussian(sigma).epsilon(1e-5).upper <= 1.0 < dp.Gaussian(sigma - 1).epsilon(1e-5).upper
    assert dp.calibrate(dp.Gaussian, epsilon=1.0, delta=1e-5, integer=True, low=10, high=20) == 10
    assert dp.calibrate(lambda n: dp.Gaussian(100.0) * n, epsilon=10.0, delta=1e-5, integer=True, high=50) == 50
    assert dp.calibrate(dp.Gaussian, epsilon=1.0, delta=1e-5, low=10, high=20) == pytest.approx(10)


def test_a_small_epsilon_builds_no_huge_object():
    """Peers took 75 GB here: a doubling that composed at every noise on the way."""
    import tracemalloc

    tracemalloc.start()
    sigma = dp.noise_multiplier(epsilon=1e-4, delta=1e-10, sampling_probability=0.01, steps=10_000)
    factory = functools.partial(training, q=0.01, steps=10_000)
    assert dp.calibrate(factory, epsilon=1e-4, delta=1e-10) == pytest.approx(sigma, rel=1e-6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6 and factory(sigma).epsilon(1e-10).upper <= 1e-4


def test_an_epsilon_of_zero():
    sigma = dp.calibrate(dp.Gaussian, epsilon=0.0, delta=0.1)
    assert dp.Gaussian(sigma).epsilon(0.1).upper == 0
    assert dp.Gaussian(sigma).delta(0.0).upper == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "^epsilon must be", {"epsilon": -1.0}),
        (ValueError, "^delta must be", {"delta": -1e-9}),
        (ValueError, "^low must be", {"low": 0.0}),
        (ValueError, "^low must be", {"low": 2.0, "high": 1.0}),
        (ValueError, "^neighbors must be", {"neighbors": "swap"}),
        (ValueError, "is not met", {"low": 1e-3, "high": 1.0, "epsilon": 0.1}),
        (ValueError, "is not met", {"low": 1, "high": 2, "epsilon": 0.1, "integer": True}),
    ],
)
def test_bad_targets_are_named(error, message, options):
    with pytest.raises(error, match=message):
        dp.calibrate(dp.Gaussian, **{"epsilon": 1.0, "delta": 1e-5, **options})


def test_a_factory_that_ignores_its_parameter():
    with pytest.raises(ValueError, match="depends on its parameter"):
        dp.calibrate(lambda x: dp.Gaussian(1.0), epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("factory", [3.0, lambda x: x, lambda x: None])
def test_what_is_no_factory(factory):
    with pytest.raises(TypeError, match=r"^factory must"):
        dp.calibrate(factory, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(5e-324, 1e-5), (1.0, 5e-324), (1e300, 5e-324)])
def test_the_least_targets(epsilon, delta):
    sigma = dp.noise_multiplier(epsilon, delta)
    assert dp.Gaussian(sigma).epsilon(delta).upper <= epsilon


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "^epsilon must be", (0.0, 1e-5)),
        (ValueError, "^delta must be", (1.0, 1.0)),
        (ValueError, "^sampling_probability must be", (1.0, 1e-5, 0.0)),
        (ValueError, "^steps must be", (1.0, 1e-5, 0.1, 0)),
        (TypeError, "^steps must be", (1.0, 1e-5, 0.1, 10.0)),
        (ValueError, "^epsilon=1e-09 is below every epsilon that can be shown", (1e-9, 1e-300)),
    ],
)
def test_noise_multiplier_names_what_is_wrong(error, message, arguments):
    with pytest.raises(error, match=message):
        dp.noise_multiplier(*arguments)


@pytest.mark.parametrize("at", [1e-8, 0.3, 1.0, 7.0, 1e12])
@pytest.mark.parametrize("shape", [1.0, -1.0])
@pytest.mark.parametrize("wrong", [0.25, 1.0, 4.0])
def test_boundary_finds_the_zero_of_a_line_whatever_slope_is_guessed(at, shape, wrong):
    count = 0

    def gap(x):
        nonlocal count
        count += 1
        return shape * 2 * (math.log(x) - math.log(at))

    found = find_monotone_boundary(gap, 1.0, shape * wrong, 1e-15, 1e15, 1e-9)
    assert gap(found) <= 0 and found == pytest.approx(at, rel=2e-9) and count < 40


def test_boundary_of_a_step():
    found = find_monotone_boundary(lambda x: math.inf if x < 3.0 else -math.inf, 1.0, -1.0, 1e-9, 1e9, 1e-9)
    assert 3.0 <= found <= 3.0 * (1 + 2e-9)
    assert find_monotone_boundary(lambda x: 1.0, 1.0, -1.0, 1e-9, 1e9, 1e-9) is None


SLOW = {
    "a sample of fixed size": (lambda s: dp.FixedSizeSampled(dp.Gaussian(s), 100, 10_000) * 20, "replace"),
    "zeroed out": (lambda s: dp.FixedSizeSampled(dp.Gaussian(s), 100, 10_000) * 200, "replace_special"),
    "with replacement": (lambda s: dp.SampledWithReplacement(dp.Gaussian(s), 10, 1000) * 200, "replace"),
    "truncated": (lambda s: dp.TruncatedPoissonSampled(dp.Gaussian(s), 0.01, 130, 10_000) * 200, "add_or_remove"),
    "allocation": (lambda s: dp.RandomAllocation(dp.Gaussian(s), 100) * 10, "add_or_remove"),
    "beside others": (lambda s: training(s) + dp.Laplace(10 * s), "add_or_remove"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slow_bounds_meet_the_target_within_a_part_of_their_width(name, monkeypatch):
    """The result's own bound meets the target, and few sharp bounds are taken on the way."""
    from tightdp.accounting.questions.question import Question

    factory, neighbors = SLOW[name]
    sharp, answer = [], Question.epsilon
    monkeypatch.setattr(
        Question, "epsilon", lambda self, at: (sharp.append(at) if self.request.width < 0.1 else 0, answer(self, at))[1]
    )
    x = dp.calibrate(factory, epsilon=2.0, delta=1e-5, low=0.2, high=50.0, neighbors=neighbors)
    assert len(sharp) <= 5
    bound = factory(x).epsilon(1e-5, neighbors=neighbors)
    assert bound.upper <= 2.0 and 2.0 - bound.upper <= 2.0 * max(1e-8, 2e-3 * bound.width / bound.upper)


def test_pure_differential_privacy_is_a_target():
    """Its noise has a closed form: k/epsilon for k releases with Laplace noise."""
    scale = dp.calibrate(lambda b: dp.Laplace(b) * 3, epsilon=0.5, delta=0)
    assert scale == pytest.approx(6, rel=2e-9) and (dp.Laplace(scale) * 3).epsilon(0).upper <= 0.5
    assert dp.calibrate(lambda k: dp.PureDP(0.125) * k, epsilon=1.1, delta=0.0, integer=True) == 8
    with pytest.raises(ValueError, match="factory must build something whose epsilon depends on its parameter"):
        dp.calibrate(lambda x: dp.PureDP(2.0), epsilon=1.0, delta=0)


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("with_gaussians", [dp.Gaussian, lambda s: dp.PoissonSampled(dp.Gaussian(s), 0.1) * 3])
def test_gaussian_noise_is_said_to_have_no_guarantee_at_delta_0(with_gaussians, integer):
    with pytest.raises(ValueError, match=r"delta must be > 0 .* Gaussian noise, however large, has no guarantee"):
        dp.calibrate(with_gaussians, epsilon=1.0, delta=0, integer=integer)
