"""Sampled Gaussians of little noise, against mixtures in 60 digits and against other engines."""

import math

import pytest

import tightdp as dp
from tightdp.accounting.engines.participations import ENGINE
from tightdp.accounting.engines.participations import curves as participations
from tightdp.accounting.numerics.outward import Range
from tightdp.accounting.pairs.neighbors import translate_parts_to_replacement

mpmath = pytest.importorskip("mpmath")
mp = mpmath.mp


def gaussian(mu_squared, eps):
    mu = mp.sqrt(mu_squared)
    if mu == 0:
        return max(1 - mp.exp(eps), mp.mpf(0))
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


def masses(n, q):
    q = mp.mpf(q)
    return [mp.binomial(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]


def above(n, q, sigma, eps, beside=0):
    return sum(w * gaussian(beside + k / mp.mpf(sigma) ** 2, eps) for k, w in enumerate(masses(n, q)))


def parts(sigma, q, n, *others):
    return sum(others, dp.PoissonSampled(dp.Gaussian(sigma), q) * n)._to_composition().parts


def seen(n, q, sigma, eps, beside=0):
    """B of closed-forms.md section 5, and what it may lack of the truth."""
    q, mu, x = mp.mpf(q), 1 / mp.mpf(sigma), mp.log(1 / mp.mpf(q) - 1)
    log_set = [k * mp.log(q) + (n - k) * mp.log(1 - q) for k in range(n + 1)]
    found = sum(w * gaussian(beside + k * mu**2, eps - log_set[k]) for k, w in enumerate(masses(n, q)))
    return found, n * ((1 - q) * mp.ncdf(-mu / 2 - x / mu) + q * mp.ncdf(-mu / 2 + x / mu))


@pytest.mark.parametrize("eps", [0.0, 3.0, 150.0, 211.0, 430.0])
@pytest.mark.parametrize("beside", [0.0, 4.0])
@pytest.mark.parametrize("sigma", [0.05, 0.08])
def test_both_ends_are_what_is_seen(eps, beside, sigma):
    others = [dp.Gaussian(0.5)] if beside else []
    with mpmath.workdps(60):
        least, overlap = seen(12, 0.05, sigma, mp.mpf(eps), beside)
        mixture = above(12, 0.05, sigma, mp.mpf(eps), beside)
        found = ENGINE.delta(parts(sigma, 0.05, 12, *others), "remove", eps)
        assert least * (1 - mp.mpf(1e-11)) - mp.mpf(1e-288) <= found.lower <= least
        assert min(least + overlap, mixture) <= found.upper
        assert found.upper <= (least + 2 * overlap) * (1 + mp.mpf(1e-11)) + mp.mpf(1e-288)
        assert found.upper <= mixture * (1 + mp.mpf(1e-8))


def test_two_steps_against_quadrature():
    """delta is an integral over the first output; given that, the second is one step at another epsilon."""
    q, sigma, mu = mp.mpf(0.2), mp.mpf(0.09), 1 / mp.mpf(0.09)

    def one(x):  # H_x of one step
        if x <= 1 - q:
            return 1 - x
        ratio = (x - 1 + q) / q
        return q * gaussian(mu**2, mp.log(ratio))

    with mpmath.workdps(20):
        for eps in (55.0, 110.0):
            x = mp.exp(eps)

            def inner(u, x=x):
                ratio = 1 - q + q * mp.exp(mu * u - mu**2 / 2)
                return mp.npdf(u) * ratio * one(x / ratio)

            # Where the likelihood ratio begins to grow, and where the second step's curve has a bend.
            bends = [mu / 2 + mp.log(grown / q) / mu for grown in (1 - q, x / (1 - q) - 1 + q)]
            truth = mp.quad(
                inner, sorted([*range(-14, 26), *(b + d for b in bends for d in (-0.3, -0.1, 0, 0.1, 0.3))])
            )
            found = ENGINE.delta(parts(float(sigma), float(q), 2), "remove", eps)
            assert found.lower <= truth * (1 + mp.mpf(1e-11)) and truth * (1 - mp.mpf(1e-11)) <= found.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.2])
def test_one_step_is_known(direction, sigma, delta):
    step = dp.PoissonSampled(dp.Gaussian(sigma), 0.3)
    truth = step.epsilon(delta, neighbors=direction, engine="closed_form")
    found = ENGINE.epsilon(((step, 1),), direction, delta)
    assert found.lower <= truth.upper and truth.lower <= found.upper
    assert found.upper - found.lower <= (1e-9 if sigma <= 0.05 else 4e-2) * found.upper + 1e-9


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("sigma", "q", "n"), [(0.1, 0.3, 5), pytest.param(0.08, 0.01, 100, marks=pytest.mark.slow), (0.1, 0.5, 40)]
)
def test_others_know_the_same(direction, sigma, q, n):
    run = dp.PoissonSampled(dp.Gaussian(sigma), q) * n + dp.Gaussian(2.0)
    for delta in (1e-7, 0.01, 0.3):
        found = ENGINE.epsilon(run.parts, direction, delta)
        other = run.epsilon(delta, neighbors=direction, engine="grid")
        assert found.lower <= other.upper and other.lower <= found.upper
    for eps in (-30.0, -0.5, 0.5, 40.0, 160.0):
        found = ENGINE.delta(run.parts, direction, eps)
        other = run.delta(eps, neighbors=direction, engine="grid")
        assert found.lower <= other.upper and other.lower <= found.upper


def test_add_is_all_but_exact():
    """Without noise the record is in none of the steps with probability (1 - q)^n, else seen."""
    n, q = 1000, 1e-3
    with mpmath.workdps(40):
        for eps in (0.0, 0.5, 0.99):
            truth = 1 - mp.exp(mp.mpf(eps)) * (1 - mp.mpf(q)) ** n
            found = ENGINE.delta(parts(1e-4, q, n), "add", eps)
            assert truth * (1 - mp.mpf(1e-11)) <= found.lower <= truth <= found.upper <= truth * (1 + mp.mpf(1e-11))


def test_replaced_in_a_fixed_size():
    fixed = dp.FixedSizeSampled(dp.Gaussian(0.05), 10, 1000)
    with mpmath.workdps(60):
        for eps in (1.0, 700.0, 900.0):
            truth = above(5, 0.01, 0.025, mp.mpf(eps))
            found = ENGINE.delta(translate_parts_to_replacement(((fixed, 5),)), "remove", eps)
            assert truth <= found.upper <= truth * (1 + mp.mpf(1e-11))
            member = ENGINE.delta(((dp.PoissonSampled(dp.Gaussian(0.025), 0.01), 5),), "remove", eps)
            assert found.lower == pytest.approx(member.lower, rel=1e-9)


def test_replaced_in_a_poisson_sample():
    """Its losses are those of removal but for n ln(1/(1-q)); the grid engine knows its pair."""
    run = dp.PoissonSampled(dp.Gaussian(0.05), 0.01) * 5
    for delta in (1e-6, 1e-3):
        bound, removed = run.epsilon(delta, neighbors="replace"), run.epsilon(delta, neighbors="remove")
        assert removed.lower <= bound.upper and bound.lower <= removed.upper - 5 * math.log1p(-0.01) + 1e-9
        assert bound.width <= 0.05 * bound.upper
    small = dp.PoissonSampled(dp.Gaussian(1e-4), 1e-3) * 1000
    bound, removed = small.epsilon(1e-6, neighbors="replace"), small.epsilon(1e-6, neighbors="remove")
    assert "participations" in bound.engine and bound.width <= 1e-6 * bound.upper
    assert bound.lower == pytest.approx(removed.lower, rel=1e-12)
    assert bound.upper == pytest.approx(removed.upper - 1000 * math.log1p(-1e-3), rel=1e-11)


@pytest.mark.parametrize("eps", [-0.5, 0.0, 0.1, 0.4, 1.0, 3.0])
@pytest.mark.parametrize(("q", "n"), [(0.5, 2), (0.1, 2), (0.02, 30)])
def test_replaced_where_none_of_the_steps_is_likely_to_have_the_record(q, n, eps):
    """Without noise the outputs tell both data sets apart but where neither record is in any step."""
    for sigma in (0.1, 0.03, 1e-4):
        run = dp.PoissonSampled(dp.Gaussian(sigma), q) * n
        found = run.delta(eps, neighbors="replace")
        # Each of n outputs is nearer to another mean than to its own with a probability below e^(-1/(8 sigma^2)).
        blurred = 2 * n * math.exp(-1 / (8 * sigma**2)) * (1 + math.exp(eps))
        truth = 1 - (1 - q) ** n * min(math.exp(eps), 1)
        assert found.upper >= truth - blurred - 1e-14 and found.lower <= truth + 1e-14
    grid = (dp.PoissonSampled(dp.Gaussian(0.1), q) * n).delta(eps, neighbors="replace", engine="grid")
    own = (dp.PoissonSampled(dp.Gaussian(0.1), q) * n).delta(eps, neighbors="replace")
    assert own.lower <= grid.upper and grid.lower <= own.upper


def test_numbers_of_participations_are_told_apart_from_epsilon_0_on():
    curve = participations.build_participation_mixture_above(
        participations.list_likely_participations(3, 0.1), Range(100.0), Range(0.0)
    )
    with pytest.raises(ValueError, match=r"^epsilon must be at least 0"):
        curve(-0.1)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "q", "n"), [(0.1, 0.01, 1000), (0.01, 0.2, 50), (1e-3, 1e-3, 10**6), (1e-6, 0.5, 3)])
@pytest.mark.parametrize("delta", [1e-30, 1e-5, 0.4])
def test_epsilon_is_where_the_curve_crosses_delta(direction, sigma, q, n, delta):
    run = parts(sigma, q, n)
    found = ENGINE.epsilon(run, direction, delta)
    upper, lower = (
        (lambda eps: ENGINE.delta(run, direction, eps).upper),
        (lambda eps: ENGINE.delta(run, direction, eps).lower),
    )
    assert upper(found.upper) <= delta
    if found.upper > 0:
        assert upper(found.upper * (1 - 1e-8)) > delta * (1 - 1e-8)
    if found.lower > 0:
        assert lower(found.lower) > delta
    assert lower(found.lower * (1 + 1e-8)) <= delta * (1 + 1e-8)


def test_what_it_refuses():
    small = dp.PoissonSampled(dp.Gaussian(0.01), 0.5)
    assert ENGINE.explain_refusal(((small, 1), (dp.Laplace(1.0), 1)), "remove")
    assert ENGINE.explain_refusal(((dp.PoissonSampled(dp.Gaussian(0.08), 0.5), 10**15),), "remove")
    assert ENGINE.explain_refusal(((dp.PoissonSampled(dp.Gaussian(1.0), 0.5), 1),), "remove")
    assert ENGINE.explain_refusal(((small, 1),), "remove") is None


def test_masses_far_out():
    from tightdp.accounting.engines.participations.curves import list_likely_participations

    n, q = 10**6, 1e-5
    k = list_likely_participations(n, q)
    with mpmath.workdps(60):
        for i in (0, 1, 10, 30, 100):
            truth = mp.binomial(n, i) * mp.mpf(q) ** i * (1 - mp.mpf(q)) ** (n - i)
            assert k.low[i] <= truth <= k.high[i] and k.high[i] - k.low[i] <= 1e-11 * truth
    assert math.isclose(k.low_above[0], 1.0, rel_tol=1e-11) and k.low_above[0] <= 1 <= k.high_above[0]
    assert k.high_below[-1] >= 1


@pytest.mark.parametrize(("n", "q"), [(1, 0.3), (12, 0.05), (40, 0.5), (301, 0.99)])
def test_one_number_stands_for_all(n, q):
    with mpmath.workdps(60):
        weights = masses(n, q)
        median, largest = (
            participations.take_median_participations(n, q),
            participations.take_largest_participations(n, q),
        )
        assert mp.fsum(weights[median.first :]) >= mp.mpf(1) / 2
        assert mp.fsum(weights[largest.last + 1 :]) <= mp.exp(-700)
        once, beside, mu = Range(400.0), Range(0.0), 20
        for eps in (0.0, 3.0, 250.0):
            least, _ = seen(n, q, mp.mpf(1) / mu, mp.mpf(eps))
            assert (
                participations.build_mixture_when_participation_told(
                    median, once, beside
                ).bound_participations_from_below(eps)
                <= least
            )
            assert participations.build_participation_mixture_above(largest, once, beside)(eps) >= above(
                n, q, mp.mpf(1) / mu, mp.mpf(eps)
            ) * (1 - mp.mpf(10) ** -12)


@pytest.mark.parametrize("mu", [1.5e9, 1e11, 1e14])
@pytest.mark.parametrize("away", [-3, 0, 2, 9])
def test_curves_beyond_those_that_are_certified(mu, away):
    """One step with the record in it for sure: a = eps/mu - mu/2, with the errors of eps itself."""
    eps = float(mp.mpf(mu) * (mp.mpf(mu) / 2 + away))
    one = participations.ParticipationMixture(
        participations.list_likely_participations(1, 0.5), Range(mu) * mu, Range(0.0)
    )
    with mpmath.workdps(60):
        exact = mp.mpf(eps) / mu - mp.mpf(mu) / 2
        truth = mp.ncdf(-exact)  # and less, by less than e^-mu
        number = participations.np.array([1.0])
        assert (
            float(one._bound_participation_curves_below(number, eps)[0])
            <= truth
            <= float(one._bound_participation_curves_above(number, eps)[0])
        )
        assert float(one._bound_participation_curves_below(number, eps * (1 - 1e-10))[0]) >= truth / 2


@pytest.mark.parametrize(("sigma", "q", "n"), [(1e-5, 0.5, 2**40), (1e-6, 0.3, 2**53 - 1), (0.01, 0.9, 2**44)])
@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_more_participations_than_can_be_told_apart(sigma, q, n, relation):
    """The number of steps with the record is within 30 deviations of its mean, and its loss about as many times half
    the square of the signal; the steps themselves tell no more than their entropy."""
    found = (dp.PoissonSampled(dp.Gaussian(sigma), q) * n).epsilon(1e-5, neighbors=relation)
    far = 30 * math.sqrt(n * q * (1 - q))
    tells = n * (-q * math.log(q) - (1 - q) * math.log(1 - q)) + far * 10
    least = (n * q - far) / sigma**2 / 2 - tells - 30 * math.sqrt(n * q) / sigma
    most = (n * q + far) / sigma**2 / 2 + 30 * math.sqrt(n * q) / sigma
    assert least <= found.upper and found.lower <= most
    assert found.upper - found.lower <= 1e-3 * found.upper
