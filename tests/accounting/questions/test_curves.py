import math
from fractions import Fraction

import numpy as np
import pytest
from effort import bounded
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

import tightdp as dp

TRAINING = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
ALPHAS = np.concatenate(([0.0, 1e-9, 1e-4], np.linspace(0.01, 0.99, 15), [1.0]))


def inside(curve, truth):
    assert np.all(curve.lower <= truth + 1e-15) and np.all(truth - 1e-15 <= curve.upper)


def test_tradeoff_of_gaussians_is_the_known_one():
    curve = (dp.Gaussian(2.0) * 9).tradeoff(ALPHAS)
    inside(curve, norm.cdf(norm.isf(ALPHAS) - 1.5))
    assert np.max(curve.width) <= 1e-6


def test_tradeoff_of_pure_and_approximate_mechanisms():
    """f(a) = max(0, 1 - delta - e^eps a, e^-eps (1 - delta - a)) (Dong, Roth and Su 2022, Proposition 3)."""
    for e, d in ((1.0, 0.0), (0.3, 0.05)):
        truth = np.maximum(0, np.maximum(1 - d - math.exp(e) * ALPHAS, math.exp(-e) * (1 - d - ALPHAS)))
        curve = dp.ApproximateDP(e, d).tradeoff(ALPHAS)
        inside(curve, truth)
        assert np.max(curve.width[1:]) <= 1e-6


def test_tradeoff_of_laplace():
    """Symmetric about its fixed point 1/2 e^{-mu/2}; 1 - e^mu a up to there (Dong, Roth and Su 2022, Proposition 6)."""
    mu = 0.8
    low = 0.5 * math.exp(-mu)
    a = ALPHAS[1:-1]
    truth = np.where(a < low, 1 - np.exp(mu) * a, np.where(a <= 0.5, np.exp(-mu) / (4 * a), np.exp(-mu) * (1 - a)))
    inside(dp.Laplace(1 / mu).tradeoff(a), truth)


def test_the_two_directions_are_inverse_functions():
    for alpha in (0.03, 0.2, 0.6):
        beta = TRAINING.tradeoff(alpha, neighbors="remove", width=1e-8)
        back = TRAINING.tradeoff(float(beta.upper), neighbors="add", width=1e-8)
        assert back.lower - 1e-6 <= alpha <= back.upper + 1e-6
    both = TRAINING.tradeoff(ALPHAS)
    each = [TRAINING.tradeoff(ALPHAS, neighbors=n) for n in ("add", "remove")]
    assert np.array_equal(both.upper, np.minimum(each[0].upper, each[1].upper))
    assert np.array_equal(both.lower, np.minimum(each[0].lower, each[1].lower))


def test_tradeoff_matches_an_attack():
    """The likelihood ratio test on one Poisson-subsampled Gaussian, in closed form."""
    q, sigma = 0.3, 0.7
    at = norm.isf(ALPHAS[1:-1]) * sigma  # reject N(0, sigma^2) above
    beta = (1 - q) * norm.cdf(at / sigma) + q * norm.cdf((at - 1) / sigma)
    inside(dp.PoissonSampled(dp.Gaussian(sigma), q).tradeoff(ALPHAS[1:-1], neighbors="remove"), beta)


def test_profile_is_monotone_of_any_shape_and_agrees_with_delta():
    epsilons = np.array([[3.0, -1.0], [0.5, 2.0]])
    curve = TRAINING.profile(epsilons)
    assert curve.lower.shape == curve.upper.shape == (2, 2) and np.all(curve.lower <= curve.upper)
    for eps, lower, upper in zip(epsilons.ravel(), curve.lower.ravel(), curve.upper.ravel(), strict=True):
        b = TRAINING.delta(eps)
        assert b.lower <= lower <= upper <= b.upper
    assert TRAINING.profile([]).upper.shape == (0,)
    lower, upper = TRAINING.profile(2.0)
    assert lower <= upper and upper.shape == ()


def test_advantage_is_total_variation():
    b = dp.Gaussian(1.0).advantage()
    assert b.lower <= 2 * norm.cdf(0.5) - 1 <= b.upper


def test_bayes_risk_is_the_least_error_of_a_guess():
    curve = dp.Gaussian(1.0).bayes_risk([0.0, 0.2, 0.5, 1.0])
    threshold = math.log(0.8 / 0.2) + 0.5
    truth = 0.2 * norm.cdf(threshold - 1) + 0.8 * norm.sf(threshold)
    inside(curve, np.array([0.0, truth, norm.cdf(-0.5), 0.0]))
    assert np.max(curve.width) <= 1e-12
    assert dp.Composition().bayes_risk(0.3).lower == pytest.approx(0.3)


@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_bayes_risk_and_tradeoff_agree(alpha):
    """min over tests of prior * beta + (1 - prior) * alpha is at most its value at one alpha."""
    for neighbors in ("add", "remove"):
        beta = TRAINING.tradeoff(alpha, neighbors=neighbors).upper
        for prior in (0.2, 0.5, 0.9):
            assert TRAINING.bayes_risk(prior, neighbors=neighbors).lower <= prior * beta + (1 - prior) * alpha + 1e-12


@pytest.mark.parametrize(
    ("error", "name", "ask"),
    [
        (ValueError, "alphas", lambda: TRAINING.tradeoff([0.5, 1.5])),
        (ValueError, "alphas", lambda: TRAINING.tradeoff(float("nan"))),
        (TypeError, "alphas", lambda: TRAINING.tradeoff("x")),
        (TypeError, "alphas", lambda: TRAINING.tradeoff(True)),
        (TypeError, "epsilons", lambda: TRAINING.profile(["1.0", "2.0"])),
        (TypeError, "epsilons", lambda: TRAINING.profile([None])),
        (TypeError, "epsilons", lambda: TRAINING.profile(1j)),
        (ValueError, "epsilons", lambda: TRAINING.profile([10**400])),
        (TypeError, "steps", lambda: dp.epsilon_batch(1.0, 0.1, True, 1e-5)),
        (ValueError, "device", lambda: dp.epsilon_batch(1.0, 0.1, 1, 1e-5, device=0)),
        (ValueError, "epsilons", lambda: TRAINING.profile([math.inf])),
        (ValueError, "prior", lambda: TRAINING.bayes_risk(-0.1)),
        (ValueError, "noise_multiplier", lambda: dp.epsilon_batch([1.0, 0.0], 0.1, 10, 1e-5)),
        (ValueError, "sampling_probability", lambda: dp.epsilon_batch(1.0, 1.1, 10, 1e-5)),
        (ValueError, "steps", lambda: dp.epsilon_batch(1.0, 0.1, 0, 1e-5)),
        (ValueError, "steps", lambda: dp.epsilon_batch(1.0, 0.1, 1.5, 1e-5)),
        (ValueError, "delta", lambda: dp.epsilon_batch(1.0, 0.1, 1, [0.0])),
        (ValueError, "threads", lambda: dp.epsilon_batch(1.0, 0.1, 1, 1e-5, threads=0)),
        (ValueError, "width", lambda: dp.epsilon_batch(1.0, 0.1, 1, 1e-5, width=0.0)),
        (ValueError, "steps", lambda: dp.epsilon_batch([1.0, 2.0], [0.1, 0.2, 0.3], 1, 1e-5)),
    ],
)
def test_bad_arrays_are_named(error, name, ask):
    with pytest.raises(error, match=f"^{name} "):
        ask()


@pytest.mark.parametrize(
    "steps",
    [
        2**53 + 1,
        [2**53 + 1, 1.0],
        np.array([1, 2**53 + 1]),
        np.array([2**53 + 1], np.uint64),
        np.array([2**53 + 1], object),
        [Fraction(10**20 + 1, 10**20)],
        math.nan,
        math.inf,
    ],
)
def test_numbers_of_steps_that_a_double_would_round_are_refused(steps):
    with pytest.raises(ValueError, match=r"^steps must be whole numbers in \[1, 9007199254740992\]$"):
        dp.epsilon_batch(1.0, 0.1, steps, 1e-5)


def test_numbers_of_steps_of_any_type():
    found = [dp.epsilon_batch(1.0, 1e-3, kind([1, 50]), 1e-5) for kind in (list, np.float32, np.int8, np.longdouble)]
    assert all(np.array_equal(one, found[0]) for one in found)
    assert dp.epsilon_batch(1.0, 0.01, 2**53, 1e-5).lower > 7e11


def test_the_range_of_epsilons_is_one_of_numbers():
    with pytest.raises(
        ValueError, match=r"^epsilons must be .* in \[-1.7976931348623157e\+308, 1.7976931348623157e\+308\]$"
    ):
        TRAINING.profile([0.0, -math.inf])


def test_numbers_of_every_kind_are_numbers():
    at = [1, np.float32(1.0), Fraction(1)]
    assert len(set(TRAINING.profile(at).upper)) == 1


def test_the_least_type_one_errors():
    """beta of N(1, 1) against N(0, 1) is Phi(Phi^{-1}(1 - alpha) - 1), which is 1 to the last bit for tiny alpha."""
    lower, upper = dp.Gaussian(1.0).tradeoff([5e-324, 1e-310, 1e-300, 1e-200])
    assert (lower > 1 - 1e-6).all() and (lower <= upper).all() and (upper <= 1).all()


def test_noise_so_small_that_its_square_is_zero():
    lower, upper = dp.epsilon_batch([5e-324, 1e-200], 0.1, [[1], [1000]], 1e-5)
    assert (lower > 1e300).all() and np.isinf(upper).all()


def test_a_batch_agrees_with_single_queries_and_broadcasts():
    sigma = np.array([[0.5], [1.0], [30.0]])
    q = np.array([1e-9, 0.01, 1.0])
    for threads in (1, 3):
        lower, upper = dp.epsilon_batch(sigma, q, 1000, 1e-5, threads=threads)
        assert lower.shape == upper.shape == (3, 3)
        for i in range(3):
            for j in range(3):
                b = (dp.PoissonSampled(dp.Gaussian(float(sigma[i, 0])), float(q[j])) * 1000).epsilon(1e-5)
                assert max(b.lower, lower[i, j]) <= min(b.upper, upper[i, j])
                assert upper[i, j] - lower[i, j] <= 1e-9 * upper[i, j] or b.engine != "contour"
    assert dp.epsilon_batch([], 0.1, 1, 1e-5).upper.shape == (0,)


@given(alpha=st.floats(0.0, 1.0))
@example(alpha=1 - 2**-53)
def test_the_line_of_nothing_is_held_by_both_ends(alpha):
    """What reveals nothing has the curve 1 - alpha, which is seldom a double."""
    curve = dp.PoissonSampled(dp.PureDP(1e-300), 1e-9).tradeoff([alpha])
    truth = 1 - Fraction(alpha)
    assert Fraction(float(curve.lower[0])) <= truth <= Fraction(float(curve.upper[0])) + Fraction(2, 10**300)


def test_the_end_of_the_curve_is_found_quickly():
    found = bounded(lambda: TRAINING.tradeoff(0.0, neighbors="remove"), units=5e8)
    assert found.lower > 1 - 1e-14 and found.upper == 1
    pure = (dp.PureDP(2.0) * 10000).tradeoff(0.0)  # every loss is above the first epsilon that is asked
    assert pure.lower > 1 - 1e-12


def test_the_end_of_the_curve_is_known_where_the_rest_of_it_takes_all_of_the_work():
    """Nodes took the work first: the lower end at 0 was 0.94 here, below that at 1e-300."""
    run = dp.FixedSizeSampled(dp.Gaussian(1.0), 10, 100) * 3  # no loss is infinite, so that f(0) is 1
    assert run.tradeoff(0.0, neighbors="replace").lower > 1 - 1e-14


@pytest.mark.slow
def test_beta_is_at_most_what_the_advantage_implies():
    """Where delta at 0 is nearly 1, whatever else is known of the curve (docs/theory/conversions.md, section 9)."""
    run = dp.PoissonSampled(dp.Gaussian(0.15), 0.01) * 1000
    rest = 1 - run.delta(0.0).lower
    assert rest < 1e-3
    alpha = np.array([1e-3, 0.01, 0.3, 0.9])
    found = run.tradeoff(alpha)
    assert (found.lower <= found.upper).all()
    assert (found.upper <= 10 * rest * (1 - alpha)).all()  # deltas of the curve are rougher ones
