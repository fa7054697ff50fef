"""Repeated runs and groups against exact enumeration in mpmath (docs/theory/derived.md)."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from effort import bounded, counted

import tightdp as dp
from tightdp.accounting.engines.renyi.moments import bound_renyi_moment
from tightdp.accounting.pairs.largest_loss import largest_loss_of_pair
from tightdp.accounting.pairs.selection_repetitions import build_selection_repetitions

SHAPES = [1.0, 0.0, -0.5, 3.0, "poisson"]
QUICK = [0.0, "poisson", *(pytest.param(shape, marks=pytest.mark.slow) for shape in (1.0, -0.5, 3.0))]


def generating(mean, shape):
    """The probability generating function of the number of runs, its gamma found by bisection."""
    mean = mp.mpf(mean)
    if shape == "poisson":
        return lambda x: mp.exp(mean * (x - 1))
    eta = mp.mpf(shape)

    def expectation(gamma):
        if eta == 0:
            return (1 / gamma - 1) / mp.log(1 / gamma)
        return eta * (1 - gamma) / (gamma * (1 - gamma**eta))

    low, high = mp.mpf(10) ** -12, 1 - mp.mpf(10) ** -12
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if expectation(middle) > mean else (low, middle)
    gamma = (low + high) / 2
    if eta == 0:
        return lambda x: mp.log(1 - (1 - gamma) * x) / mp.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


def selected(masses, f):
    """Of the outputs in the order of preference, worst first, and of none."""
    below, found = mp.mpf(0), [f(mp.mpf(0))]
    for mass in masses:
        found.append(f(below + mass) - f(below))
        below += mass
    return found


def hockey_stick(p, q, epsilon):
    return mp.fsum(max(a - mp.exp(epsilon) * b, 0) for a, b in zip(p, q, strict=True))


def split(p, q, pieces):
    """Each outcome cut into equal pieces, which an order may tell apart."""
    return [[mass / pieces for mass in side for _ in range(pieces)] for side in (p, q)]


@pytest.mark.parametrize("shape", QUICK)
@pytest.mark.parametrize(
    "mean", [pytest.param(1.5, marks=pytest.mark.slow), 6.0, pytest.param(40.0, marks=pytest.mark.slow)]
)
def test_the_best_of_any_order_is_within_the_upper_bound(shape, mean):
    """Every order of the outcomes of small pairs; an outcome may be cut, so that ties are broken in many ways."""
    rng = np.random.default_rng(7)
    f = generating(mean, shape)
    with mp.workdps(40):
        for size, pieces in ((2, 2), (3, 1), (4, 1)):
            p, q = (rng.dirichlet(np.ones(size)) for _ in range(2))
            loss = dp.PrivacyLoss.from_distributions(p, q)
            cut_p, cut_q = split([mp.mpf(x) for x in p], [mp.mpf(x) for x in q], pieces)
            run = dp.RepeatAndSelect(loss, mean, shape)
            for neighbors, (first, second) in (("remove", (cut_p, cut_q)), ("add", (cut_q, cut_p))):
                ranked = [
                    (selected([first[i] for i in order], f), selected([second[i] for i in order], f))
                    for order in itertools.permutations(range(len(cut_p)))
                ]
                for eps in (-0.5, 0.0, 0.7, 2.0):
                    # All outcomes ranked alike: any of the runs, if there is one.
                    worst = hockey_stick(first, second, eps) if shape != "poisson" else mp.mpf(0)
                    worst = max(worst, *(hockey_stick(a, b, eps) for a, b in ranked))
                    bound = run.delta(eps, neighbors=neighbors)
                    assert worst <= bound.upper + 1e-9 and bound.lower <= worst + 1e-9, (size, neighbors, eps)


@pytest.mark.parametrize("shape", QUICK)
def test_a_preferred_set_attains_the_lower_bound(shape):
    """The best threshold of a Gaussian; the lower end is below that, and not far below where delta is small."""
    mean, sigma = 12.0, 2.0
    f, run = generating(mean, shape), dp.RepeatAndSelect(dp.Gaussian(sigma), mean, shape)
    for eps, share in ((1.0, 0.05), (2.0, 0.3), (3.0, 0.8)):
        with mp.workdps(40):

            def gain(z, eps=eps):
                r, s = mp.ncdf(-(z - mp.mpf(1) / sigma)), mp.ncdf(-z)
                return (1 - f(1 - r)) - mp.exp(eps) * (1 - f(1 - s))

            best = max(range(-80, 240), key=lambda z: gain(mp.mpf(z) / 20))
            attained = max(gain(mp.mpf(best) / 20 + mp.mpf(z) / 2000) for z in range(-100, 101))
        bound = run.delta(eps)
        assert share * attained <= bound.lower <= attained * (1 + 1e-5) and attained <= bound.upper


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_is_that_of_the_mean(shape):
    for mean in (1.0, 1.000001, 2.0, 1e3, 1e12):
        runs = build_selection_repetitions(dp.RepeatAndSelect(dp.Gaussian(1.0) + dp.Laplace(1.0), mean, shape))
        if shape == "poisson":
            continue
        with mp.workdps(60):
            for end, sign in ((runs.log_inverse_gamma.lo, 1), (runs.log_inverse_gamma.hi, -1)):
                if end > 0:
                    grown, eta = mp.expm1(mp.mpf(end)), mp.mpf(shape)
                    found = eta * grown / -mp.expm1(-eta * end) if eta else grown / end
                    assert sign * (mean - found) >= 0, (mean, end)
        assert runs.log_inverse_gamma.hi - runs.log_inverse_gamma.lo <= 1e-11 * (1 + runs.log_inverse_gamma.hi)


def test_papernot_and_steinke_corollary_3():
    """The best of e-DP runs is (2 + eta) e-DP, and no curve of it exceeds that."""
    for eps, mean, eta in ((1.0, 1000.0, 0.0), (1.0, 1000.0, 1.0), (1.0, 1000.0, 0.5), (1.0, 100.0, 2.0)):
        run = dp.RepeatAndSelect(dp.Laplace(1 / eps), mean, eta)
        assert largest_loss_of_pair(run._to_composition(), "add_or_remove") == pytest.approx((2 + eta) * eps, rel=1e-12)
        assert eps < run.epsilon(1e-10).upper <= (2 + eta) * eps * (1 + 1e-12)


@pytest.mark.parametrize(("rho", "gamma", "eta"), [(0.01, 0.01, 0), (1, 0.1, 0.5), (0.5, 0.3, 1), (0.3, 0.1, 5)])
def test_papernot_and_steinke_corollary_4(rho, gamma, eta):
    """Our moments are below theirs for Gaussians at every order that they have a formula for."""
    rho = min(rho, -math.log(gamma))
    mean = eta * (1 - gamma) / (gamma * (1 - gamma**eta)) if eta else (1 / gamma - 1) / -math.log(gamma)
    run = dp.RepeatAndSelect(dp.Gaussian(math.sqrt(0.5 / rho)), mean, eta)
    for order in (1 + math.sqrt(math.log(mean) / rho), 10.0, 100.0, 1000.0):
        constant = 2 * (1 + eta) * math.sqrt(-rho * math.log(gamma)) - eta * rho
        published = rho * (order - 1) + math.log(mean) / (order - 1) + constant
        assert bound_renyi_moment(run, order - 1) <= (order - 1) * published * (1 + 1e-9)


def test_one_run_is_the_run():
    for run in (dp.Gaussian(2.0) * 1, dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100):
        again = dp.RepeatAndSelect(run, 1.0).epsilon(1e-5)
        assert again.upper == pytest.approx(run.epsilon(1e-5).upper, rel=1e-4)
        assert again.lower == pytest.approx(run.epsilon(1e-5).lower, rel=1e-4)


@pytest.mark.slow
def test_repeated_runs_compose_and_compare():
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100
    search = dp.RepeatAndSelect(run, 10.0)
    both = (search + dp.Gaussian(3.0)).epsilon(1e-5)
    assert search.epsilon(1e-5).lower <= both.upper and (run + dp.Gaussian(3.0)).epsilon(1e-5).lower <= both.lower
    assert search.epsilon(1e-5).upper <= search.epsilon(1e-5, engine="renyi").upper
    assert search.epsilon(1e-5).upper <= dp.RepeatAndSelect(run, 20.0).epsilon(1e-5).upper
    nested = dp.RepeatAndSelect(search, 2.0)
    assert search.delta(3.0).lower <= nested.delta(3.0).lower
    with pytest.raises(ValueError, match="mechanism"):
        dp.PoissonSampled(search, 0.5)
    with pytest.raises(ValueError, match="neighbors"):
        dp.RepeatAndSelect(dp.FixedSizeSampled(dp.Gaussian(1.0), 1, 10), 2.0).epsilon(1e-5)


# Groups


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_group_under_gaussian_noise_is_exact(size):
    run = dp.Gaussian(10.0) * 20
    assert run.group(size) == dp.Gaussian(math.nextafter(10.0 / size, 0.0)) * 20 or run.group(size) == (
        dp.Gaussian(10.0 / size) * 20
    )
    # The curve alone knows as much: its chains attain the same.
    chain = dp.Group(dp.Gaussian(10.0) + dp.Gaussian(10.0 / math.sqrt(19)), size).epsilon(1e-6)
    exact = dp.Gaussian(10.0 / size / math.sqrt(20)).epsilon(1e-6)
    assert exact.lower <= chain.upper <= exact.upper * 1.01


@pytest.mark.parametrize("neighbors", ["remove", "add", "replace"])
def test_a_group_in_a_poisson_sample_is_that_of_mixtures(neighbors):
    sigma, q, size = 1.3, 0.2, 3
    run = dp.PoissonSampled(dp.Gaussian(sigma), q).group(size)
    with mp.workdps(30):
        weights = [mp.binomial(size, j) * mp.mpf(q) ** j * (1 - mp.mpf(q)) ** (size - j) for j in range(size + 1)]

        def ends(z, of):
            """Of the group's mixture, and of what it is compared with: densities, or masses above z."""
            ahead = mp.fsum(w * of(z - j) for j, w in enumerate(weights))
            other = mp.fsum(w * of(z + j) for j, w in enumerate(weights)) if neighbors == "replace" else of(z)
            return ahead, other

        for eps in (0.3, 0.6):
            log_ratio = -eps if neighbors == "add" else eps
            below, above = mp.mpf(-40), mp.mpf(40)  # the ratio grows with z
            for _ in range(120):
                z = (below + above) / 2
                p, other = ends(z, lambda x: mp.npdf(x, 0, sigma))
                below, above = (z, above) if p < mp.exp(log_ratio) * other else (below, z)
            p, other = ends(z, lambda x: mp.ncdf(-x / mp.mpf(sigma)))
            truth = (1 - other) - mp.exp(eps) * (1 - p) if neighbors == "add" else p - mp.exp(eps) * other
            bound = run.delta(eps, neighbors=neighbors)
            assert bound.lower <= truth <= bound.upper and bound.upper - bound.lower < 1e-5 * truth


@pytest.mark.parametrize("neighbors", ["remove", "add", "replace"])
@pytest.mark.parametrize(("q", "size"), [(1.0, 2), (0.3, 3)])
def test_a_group_under_a_mixture_is_that_of_the_sums_of_its_records(neighbors, q, size):
    sigma, norms, shares = 2.5, (0.0, 0.5, 1.0, 1.75), (0.5, 0.25, 0.125, 0.125)
    one = dp.MixtureOfGaussians(sigma, norms, shares)
    sums = {0.0: 0.0}
    drawn = [(0.0, 1 - q), *((norm, q * share) for norm, share in zip(norms, shares, strict=True))]
    for draws in itertools.product(drawn, repeat=size):
        at = sum(norm for norm, _ in draws)
        sums[at] = sums.get(at, 0.0) + math.prod(p for _, p in draws)
    exact = dp.MixtureOfGaussians(sigma, tuple(sums), tuple(sums.values())) * 10
    group = (one if q == 1 else dp.PoissonSampled(one, q)) * 10
    for delta in (1e-3, 1e-6):
        found, truth = (run.epsilon(delta, neighbors=neighbors) for run in (group.group(size), exact))
        assert found.lower <= truth.upper and truth.lower <= found.upper and found.width <= 1e-3 * found.upper


def test_a_group_whose_sums_are_too_many_is_that_of_the_chain():
    norms = tuple(math.sqrt(prime) / 10 for prime in (2, 3, 5, 7, 11, 13))
    group = dp.MixtureOfGaussians(3.0, norms, (0.125,) * 4 + (0.25,) * 2).group(9)
    # A record contributes at most the largest norm, and with it alone the group's noise is that of one Gaussian.
    assert group.delta(1.0).lower <= dp.Gaussian(3.0 / (9 * norms[-1])).delta(1.0).upper
    assert group.delta(1.0).upper < 1


@pytest.mark.parametrize("shape", [-0.5, 0.0])
def test_a_group_has_the_chain_of_any_one_line_near_the_largest_loss(shape):
    one, size = dp.RepeatAndSelect(dp.BoundedRange(0.7130077814196356), mean=68.84090486361822, shape=shape), 3
    for share in (0.99, 0.995):
        eps = share * largest_loss_of_pair(one * 1, "remove")
        delta = one.delta(eps).upper * math.fsum(math.exp(eps) ** link for link in range(size))
        assert 0 < delta < 1 and one.group(size).epsilon(delta).upper <= size * eps * (1 + 1e-4)


def test_a_group_in_a_poisson_sample_is_asked_about_its_mixture_alone():
    run = dp.PoissonSampled(dp.Gaussian(0.3343765756252674), 8.632685283958812e-07) * 3
    one, found = (asked.epsilon(7.5e-9, neighbors="replace_special") for asked in (run, run.group(3)))
    assert one.upper <= found.lower and found.width <= 1e-3 * found.upper


def test_a_group_of_a_class_is_that_of_the_chain():
    """e-DP: the chain of data sets that randomised response makes, on a grid."""
    eps, size = 0.4, 3
    g = lambda p: min(math.exp(eps) * p, 1 - math.exp(-eps) * (1 - p))  # noqa: E731

    def chained(p):
        for _ in range(size):
            p = g(p)
        return p

    for at in (0.0, 0.3, 0.9):
        truth = max(chained(i / 20000) - math.exp(at) * i / 20000 for i in range(20001))
        bound = dp.Group(dp.PureDP(eps), size).delta(at)
        assert truth <= bound.upper <= truth + 2e-3
    assert dp.Group(dp.PureDP(eps), size).epsilon(1e-9).upper <= size * eps * (1 + 1e-6)
    assert dp.ZCDP(0.1).group(3).epsilon(1e-5).upper == pytest.approx(dp.ZCDP(0.9).epsilon(1e-5).upper, rel=1e-9)


@pytest.mark.parametrize(
    ("q", "steps", "size"),
    [(0.01, 1, 1000), (0.5, 1, 1000), pytest.param(0.01, 40, 1000, marks=pytest.mark.slow), (0.5, 10, 700)],
)
def test_a_group_loses_no_more_than_as_many_largest_losses(q, steps, size):
    run = (dp.PoissonSampled(dp.Laplace(1.0), q) * steps).group(size)
    largest = size * steps * math.log1p(q * math.expm1(1.0)) * (1 + 1e-12)
    assert run.epsilon(1e-5).upper <= largest
    assert run.delta(largest).upper == 0.0


def test_a_group_that_is_replaced_loses_up_to_twice_as_much():
    """Bin(k, q) of them move Laplace noise up, or down: what two data sets attain is within the bound."""
    scale, q, size, eps = 6.2, 0.225, 2, 0.081
    weights = [math.comb(size, j) * q**j * (1 - q) ** (size - j) for j in range(size + 1)]
    z = np.linspace(-60, 60, 240_001)
    ahead, behind = (sum(w * np.exp(-abs(z - s * j) / scale) for j, w in enumerate(weights)) for s in (1, -1))
    attained = np.maximum(ahead - math.exp(eps) * behind, 0).sum() * (z[1] - z[0]) / (2 * scale)
    run = dp.PoissonSampled(dp.Laplace(scale), q).group(size)
    assert attained > 0.028
    assert run.delta(eps, neighbors="replace").upper >= attained
    assert run.epsilon(attained, neighbors="replace").upper >= eps * 0.999


def test_larger_groups_lose_more_and_one_record_is_no_group():
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.05) * 20 + dp.Laplace(20.0) + dp.PureDP(0.1)
    assert run.group(1) == run
    ends = [run.group(size).epsilon(1e-5) for size in (1, 2, 4)]
    for less, more in itertools.pairwise(ends):
        assert less.lower <= more.lower * (1 + 1e-6) and less.upper < more.upper
    with pytest.raises(ValueError, match="size"):
        run.group(0)
    with pytest.raises(TypeError, match="size"):
        run.group(2.0)
    with pytest.raises(ValueError, match="size"):
        dp.Group(run, 1001)


def test_a_large_group_takes_little_work():
    """Chains of a thousand lines: their number does not grow with the digits that are asked for."""
    step = dp.PoissonSampled(dp.Laplace(1.0), 0.01)
    found = bounded(lambda: step.group(1000).epsilon(1e-5))
    largest = math.log1p(0.01 * math.expm1(1.0))
    assert 0 < found.lower <= found.upper <= 1010 * largest
    at = dp.PoissonSampled(dp.Laplace(1.0), 0.01).group(1000).delta(found.upper)
    assert at.upper <= 1e-5 * (1 + 1e-6)


def test_a_run_that_may_not_run_is_a_member_under_every_relation():
    """A group of Poisson-many runs: the member that releases nothing has no part that an engine could be asked of."""
    run = dp.FixedSizeSampled(dp.Gaussian(0.8), 2, 5) + dp.RandomizedResponse(0.6, 5) * 2
    group = dp.RepeatAndSelect(run, mean=5.0, shape="poisson").group(2)
    for epsilon in (-1.0, 0.0, 1.0):
        bound = group.delta(epsilon, neighbors="replace")
        assert max(1 - math.exp(epsilon), 0.0) * (1 - 1e-12) <= bound.lower <= bound.upper <= 1.0
    assert group.epsilon(1e-5, neighbors="replace").lower >= 0.0


def test_a_group_of_allocations_pays_once_for_what_its_links_share():
    """A record is in two of three steps: two records move the sum of the outputs by at most 2 sqrt(2)."""
    run = dp.RandomAllocation(dp.Gaussian(0.7), 3, 2).group(2)
    ceiling = dp.Gaussian(0.7 / (2 * math.sqrt(2)) * (1 - 1e-12)).epsilon(5e-4).upper
    found, units, _ = counted(lambda: run.epsilon(5e-4, neighbors="remove"))
    assert found.upper <= ceiling and units <= 3e9


@pytest.mark.parametrize("noise", [1513.9155684483692, 1e17, 1e300])
def test_a_selection_that_reveals_nearly_nothing_has_an_answer(noise):
    """The chord to an epsilon may have no width in doubles."""
    run = dp.RepeatAndSelect(dp.Gaussian(noise), 5.0)
    single = dp.Gaussian(noise)  # its bound is a lower end of the selection's
    assert single.epsilon(1e-3).lower <= run.epsilon(1e-3).upper < 1e-6
    assert single.delta(0.0).lower <= run.delta(0.0).upper < 0.01


@pytest.mark.parametrize("shape", ["poisson", *(pytest.param(shape, marks=pytest.mark.slow) for shape in (0.0, 1.0))])
def test_lower_ends_of_epsilon_and_delta_come_from_the_same_tests(shape):
    """With tests of one threshold alone, epsilon's lower end was a twentieth of this for a Poisson number of runs."""
    run = dp.RepeatAndSelect(dp.DiscreteGaussianVector(2.37, 1.75, 2), 5.3, shape)  # one run's ends are far apart
    least = run.delta(2.0, neighbors="remove").lower
    assert least > 0 and run.epsilon(least / 2, neighbors="remove").lower >= 2.0
