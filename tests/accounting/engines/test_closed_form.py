"""Every closed form against the same definition in 60-digit arithmetic."""

import math
import random
from fractions import Fraction

import mpmath as mp
import pytest

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.closed_form.binomial import RepeatedResponseCurve
from tightdp.accounting.engines.closed_form.gaussian import GaussianCurve
from tightdp.accounting.numerics.outward import Range


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


def gaussian_delta(mu, eps):
    upper, lower = mu / 2 - eps / mu, -mu / 2 - eps / mu
    return (mp.erfc(-upper / mp.sqrt(2)) - mp.exp(eps) * mp.erfc(-lower / mp.sqrt(2))) / 2


def atoms_delta(atoms, eps):
    return mp.fsum(p * (1 - mp.exp(eps - y)) for y, p in atoms if y > eps)


def holds(found, truth, width=None):
    lo, hi = (found.lo, found.hi) if isinstance(found, Range) else (found.lower, found.upper)
    assert lo <= truth <= hi, (found, truth)
    if width is not None:
        assert hi - lo <= width * truth, (found, truth)


def test_gaussian_delta_at_random_places():
    draw = random.Random(7)
    for _ in range(1500):
        mu = 10 ** draw.uniform(-6, 2)
        eps = (mu * mu / 2 + mu * draw.uniform(-8, 36)) * draw.choice([1, 1, 1, -1])
        holds(GaussianCurve(mu * mu).delta(eps), gaussian_delta(mp.sqrt(mu * mu), mp.mpf(eps)), 1e-9)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("delta", [0.2, 1e-5, 1e-30, 1e-300])
@pytest.mark.parametrize("count", [1, 10**4, 10**9])
def test_gaussian_epsilon_inverts_delta(sigma, delta, count):
    b = (dp.Gaussian(sigma) * count).epsilon(delta)
    mu = mp.sqrt(count) / mp.mpf(sigma)
    assert gaussian_delta(mu, mp.mpf(b.upper)) <= delta
    assert b.lower == 0 or gaussian_delta(mu, mp.mpf(b.lower)) >= delta
    assert b.width <= 1e-11 * max(b.upper, float(mu)) and b.engine == "closed_form"


@pytest.mark.parametrize("sigma", [1e-300, 1e-12, 1e11, 1e300])
def test_gaussians_far_out_are_bounded_more_loosely_but_bounded(sigma):
    b, mu = dp.Gaussian(sigma).epsilon(1e-5), 1 / mp.mpf(sigma)
    assert b.lower <= mu * mu / 2 + 5 * mu
    assert sigma < 1e-150 or b.upper <= (mu * mu / 2 + 5 * mu) * (1 + mp.mpf(10) ** -8)
    truth = gaussian_delta(mu, mp.mpf(0)) if mu < 1e20 else mp.mpf(1)
    holds(dp.Gaussian(sigma).delta(0.0), truth)


def test_gaussians_merge_by_their_squared_ratios():
    mixed = dp.Gaussian(3.0) * 9 + dp.Gaussian(4.0) * 16 + dp.Gaussian(1.0)
    truth = gaussian_delta(mp.sqrt(3), mp.mpf(2))
    holds(mixed.delta(2.0), truth, 1e-12)


@pytest.mark.parametrize("scale", [1e-3, 0.5, 2.0, 1e6])
def test_laplace(scale):
    mu = 1 / mp.mpf(scale)
    for share in (-1.5, -0.3, 0.0, 0.7, 0.999):
        eps = float(mu) * share
        truth = 1 - mp.exp((eps - mu) / 2) if eps >= -mu else 1 - mp.exp(eps)
        holds(dp.Laplace(scale).delta(eps), truth, 1e-10)
    holds(dp.Laplace(scale).epsilon(1e-4), max(mu + 2 * mp.log(1 - mp.mpf(1e-4)), 0))
    assert dp.Laplace(scale).delta(1.001 / scale).upper == 0


@pytest.mark.parametrize("e", [0.0, 1e-6, 0.5, 10.0, 800.0])
@pytest.mark.parametrize("failure", [0.0, 1e-6, 0.3, 1.0])
def test_pure_and_approximate(e, failure):
    p = 1 / (1 + mp.exp(-e))
    for eps in (-2 * e, -0.5 * e, 0.0, 0.99 * e, 2 * e + 1):
        pure = atoms_delta([(mp.mpf(e), p), (-mp.mpf(e), 1 - p)], mp.mpf(eps))
        holds(dp.ApproximateDP(e, failure).delta(eps), failure + (1 - mp.mpf(failure)) * pure)
    assert dp.ApproximateDP(e, failure).epsilon(0.2).lower == (math.inf if failure > 0.2 else pytest.approx(e, abs=0.8))
    assert dp.PureDP(e).epsilon(1e-300).upper <= e * (1 + 1e-15)
    if failure:
        at_failure = dp.ApproximateDP(e, failure)
        if failure < 1:
            assert at_failure.epsilon(failure).upper <= e * (1 + 1e-15)
            assert at_failure.epsilon(math.nextafter(failure, 0)).lower == math.inf


@pytest.mark.parametrize("p", [1e-6, 0.5, 1.0])
@pytest.mark.parametrize("buckets", [2, 3, 1000])
def test_randomized_response(p, buckets):
    wrong = mp.mpf(p) / buckets
    right = 1 - mp.mpf(p) + wrong
    atoms = [(mp.log(right / wrong), right), (-mp.log(right / wrong), wrong), (0, (buckets - 2) * wrong)]
    for eps in (-3.0, 0.0, 0.1, 2.0, 13.0):
        holds(dp.RandomizedResponse(p, buckets).delta(eps), atoms_delta(atoms, mp.mpf(eps)))


@pytest.mark.parametrize("eta", [1e-8, 0.3, 20.0, 2000.0])
def test_bounded_range(eta):
    mechanism = dp.BoundedRange(eta)
    for share in (-2.0, -1.0, -0.4, 0.0, 0.6, 0.9999):
        eps = eta * share
        truth = (1 - mp.exp((eps - mp.mpf(eta)) / 2)) ** 2 / (1 - mp.exp(-mp.mpf(eta)))
        holds(mechanism.delta(eps), truth if eps > -eta else 1 - mp.exp(eps), 1e-9)
    assert mechanism.delta(eta).upper == 0
    holds(mechanism.epsilon(1e-9), max(eta + 2 * mp.log(1 - mp.sqrt(1e-9 * (1 - mp.exp(-mp.mpf(eta))))), 0))


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.7, 1), (3.0, 1), (2.0, 5), (10.0, 40)])
def test_discrete_laplace(scale, sensitivity):
    t = mp.exp(-1 / mp.mpf(scale))
    span = int(80 * scale) + sensitivity
    atoms = [
        (mp.mpf(abs(n) - abs(n - sensitivity)) / scale, (1 - t) / (1 + t) * t ** abs(n - sensitivity))
        for n in range(-span, span + 1)
    ]
    for eps in (-1.0, 0.0, 0.3, 0.999 * sensitivity / scale):
        found = dp.DiscreteLaplace(scale, sensitivity).delta(eps)
        holds(Range(found.lower, found.upper + 1e-30), atoms_delta(atoms, mp.mpf(eps)))


def fold_delta(e, k, eps):
    p = 1 / (1 + mp.exp(-mp.mpf(e)))
    atoms = [((2 * i - k) * mp.mpf(e), mp.binomial(k, i) * p**i * (1 - p) ** (k - i)) for i in range(k + 1)]
    return atoms_delta(atoms, mp.mpf(eps))


def test_k_fold_randomised_response_at_random_places():
    draw = random.Random(3)
    for _ in range(150):
        e, k = 10 ** draw.uniform(-4, 2), draw.choice([1, 2, 3, 10, 40])
        eps = draw.choice([e * k * draw.uniform(-0.3, 1.01), float(Fraction(e) * draw.randint(0, k))])
        truth = fold_delta(e, k, eps)
        holds(RepeatedResponseCurve(e, k).delta(eps), truth, 1e-11 if truth > 1e-300 else None)


@pytest.mark.parametrize("e", [1e-4, 0.1, 1.0, 20.0, 1e4])
@pytest.mark.parametrize("count", [1000, 10**9])
def test_k_fold_randomised_response_of_any_size_stays_tight(e, count):
    for delta in (1e-5, 1e-300):
        b = (dp.PureDP(e) * count).epsilon(delta)
        assert 0 < b.lower <= b.upper <= e * count * (1 + 1e-14) and b.width <= 1e-10 * b.upper


def test_many_approximate_mechanisms_fail_together():
    run = dp.ApproximateDP(0.1, 1e-8) * 20 + dp.PureDP(0.1) * 10 + dp.ApproximateDP(0.1, 1e-7)
    kept = (1 - mp.mpf(1e-8)) ** 20 * (1 - mp.mpf(1e-7))
    holds(run.delta(1.0), 1 - kept + kept * fold_delta(0.1, 31, 1.0), 1e-10)


INNER = [dp.Gaussian(0.8), dp.Laplace(1.5), dp.PureDP(0.7), dp.ApproximateDP(0.7, 1e-3), dp.BoundedRange(0.9)]


@pytest.mark.parametrize("inner", INNER, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("q", [1e-9, 0.3, 0.999])
def test_one_sampled_step(inner, q):
    """(1-q) Q + q P against Q, and its reversal, from the curve of (P, Q) alone."""
    step, q_ = dp.PoissonSampled(inner, q), mp.mpf(q)

    def middle(eps):
        b = inner.delta(float(eps))
        return (mp.mpf(b.lower) + b.upper) / 2

    def remove(eps):
        x = (mp.exp(eps) - 1 + q_) / q_
        return q_ * middle(mp.log(x)) if x > 0 else 1 - mp.exp(eps)

    for eps in (-0.7 * q, 0.0, 0.3 * q, 0.2):
        truth = remove(mp.mpf(eps))
        slack = mp.mpf(10) ** -12 * q_
        found = step.delta(eps, neighbors="remove")
        assert found.lower - slack <= truth <= found.upper + slack and found.width <= 1e-10 * q
        truth = 1 - mp.exp(mp.mpf(eps)) + mp.exp(mp.mpf(eps)) * remove(-mp.mpf(eps))
        found = step.delta(eps, neighbors="add")
        assert found.lower - slack <= truth <= found.upper + slack and found.width <= 1e-10 * q
    for direction in ("add", "remove"):
        for delta in (1e-12 * q, 0.01 * q):
            b = step.epsilon(delta, neighbors=direction)
            if isinstance(inner, dp.ApproximateDP) and delta < q * 1e-3:
                assert b.lower == (math.inf if direction == "remove" else pytest.approx(-math.log1p(-q), rel=1e-6))
                continue
            assert step.delta(b.upper, neighbors=direction).lower <= delta
            assert step.delta(b.lower, neighbors=direction).upper >= delta or b.lower == 0
            assert b.width <= 1e-9 * b.upper


@pytest.mark.parametrize(
    ("run", "largest"),
    [
        (dp.Laplace(2.0), 0.5),
        (dp.Laplace(2.0) * 3, 1.5),
        (dp.PureDP(0.25) + dp.Laplace(4.0), 0.5),
        (dp.BoundedRange(0.75), 0.75),
        (dp.RandomizedResponse(0.5, 2), math.log(3)),
        (dp.DiscreteLaplace(2.0, 1), 0.5),
        (dp.PoissonSampled(dp.PureDP(math.log(2)), 0.5), math.log(1.5)),
        (dp.ApproximateDP(1.0, 0.0), 1.0),
        (dp.Gaussian(1.0), math.inf),
        (dp.Gaussian(1e9) + dp.PureDP(0.1), math.inf),
        (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100, math.inf),
        (dp.ApproximateDP(1.0, 1e-6), math.inf),
    ],
)
def test_at_delta_zero_epsilon_is_the_largest_loss(run, largest):
    found = run.epsilon(0)
    assert found.lower <= largest <= found.upper and found.upper >= run.epsilon(1e-9).lower
    assert largest == math.inf == found.lower or found.width <= 1e-5


def test_at_delta_zero_replacing_in_a_sample_is_amplified():
    """A replaced record counts twice for a mechanism that is e-DP without it: log(1 + q (e^(2 e) - 1))."""
    found = dp.FixedSizeSampled(dp.PureDP(math.log(2)), 1, 2).epsilon(0, neighbors="replace")
    assert found.lower <= math.log(2.5) <= found.upper <= math.log(2.5) * (1 + 1e-12)


def test_at_delta_zero_a_sampled_record_that_is_added_has_a_largest_loss():
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.25) * 10
    found = run.epsilon(0.0, neighbors="add")
    assert found.lower <= 10 * math.log(4 / 3) <= found.upper <= 10 * math.log(4 / 3) * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"^delta must be a number in \(0, 1\) for engine='grid'"):
        run.epsilon(0.0, engine="grid")
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"^delta must be"):
            run.epsilon(delta)


def test_sums_of_many_terms_are_charged_to_the_budget():
    """A unit is about a nanosecond, and a term is at least one; what is kept is charged like what is computed."""
    run = dp.PureDP(1e-6) * (4 * 10**8)  # a deviation of 10,000 terms, of which some ten are summed
    spent = []
    for _ in range(2):
        before = _core.work_spent()
        assert run.delta(1e-2).engine == "closed_form"
        spent.append(_core.work_spent() - before)
    assert spent[0] == spent[1] >= 10**5


@pytest.mark.parametrize("count", [2, 1000])
def test_losses_beyond_the_doubles_have_a_sum(count):
    """The odds of this response are 1e315; its largest loss is their logarithm, and all but 1e-297 have it."""
    found = (dp.RandomizedResponse(1e-300, 10**15) * count).epsilon(1e-5)
    with mp.workdps(30):
        loss = mp.log1p((1 - mp.mpf(1e-300)) * 10**15 / mp.mpf(1e-300))
        truth = count * loss + mp.log1p(-1e-5)
        assert 0 < found.lower <= truth <= found.upper <= count * loss * (1 + mp.mpf(10) ** -12)


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_special"])
@pytest.mark.parametrize(("one", "count"), [(dp.PureDP(1e308), 2), (dp.DiscreteLaplace(1e-300), 2**53)])
def test_an_epsilon_beyond_the_doubles_is_infinite_from_above(one, count, neighbors):
    """Each step reveals the record up to a probability below e^-1e300, and the losses add up to more than a double."""
    found = (one * count).epsilon(0.5, neighbors=neighbors)
    assert found.lower >= 1e300 and found.upper == math.inf


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_special"])
@pytest.mark.parametrize("one", [dp.BoundedRange(1e308), dp.ZCDP(1e308, 1e308)], ids=repr)
def test_a_member_whose_epsilon_is_beyond_the_doubles(one, neighbors):
    found = (one * 2**53).epsilon(0.5, neighbors=neighbors)
    assert 1e300 <= found.lower <= found.upper == math.inf
