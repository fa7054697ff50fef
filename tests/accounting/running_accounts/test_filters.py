import math

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import norm

import tightdp as dp
from tightdp.options import NEIGHBORS

STEP = dp.PoissonSampled(dp.Gaussian(4.0), 0.01)


def most(filter_, mechanism):
    """How many releases a filter covers."""
    low, high = 0, 1
    while filter_.can_spend(mechanism, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if filter_.can_spend(mechanism, middle) else (low, middle)
    return low


FILTERS = [
    (dp.PrivacyFilter(1.0, 1e-6), dp.Gaussian(50.0)),
    (dp.PrivacyFilter(1.0, 1e-6), dp.BoundedRange(0.05)),
    (dp.PrivacyFilter(1.0, 1e-6), dp.Laplace(30.0)),
    (dp.PrivacyFilter(1.0, 1e-6), STEP),
    (dp.PrivacyFilter(1.0, 1e-6, expected=STEP), STEP),
    (dp.PrivacyFilter(1.0, 1e-6, order=40.0), STEP),
    (dp.PrivacyFilter(1.0, 1e-6, family="zcdp"), dp.Gaussian(50.0)),
    (dp.PrivacyFilter(1.0, 1e-6, family="zcdp"), dp.ZCDP(1e-4)),
    (dp.PrivacyFilter(1.0, 1e-6, family="zcdp"), dp.DiscreteGaussian(50.0, 3)),
    (dp.PrivacyFilter(1.0, 1e-6, family="gaussian"), dp.Gaussian(50.0)),
    (dp.PrivacyFilter(1.0, 1e-6, failure=5e-7), dp.ApproximateDP(0.01, 1e-9)),
    (dp.PrivacyFilter(1.0, 1e-6, neighbors="replace"), dp.Gaussian(50.0)),
    pytest.param(
        dp.PrivacyFilter(1.0, 1e-6, neighbors="replace"),
        dp.FixedSizeSampled(dp.Gaussian(5.0), 10, 1000),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("filter_", "mechanism"), FILTERS, ids=repr)
def test_what_a_filter_covers_is_private(filter_, mechanism):
    """The fixed choice of the same mechanism every time is one adaptive adversary."""
    count = most(filter_, mechanism)
    assert count >= 1
    spent = mechanism * count
    assert spent.epsilon(filter_.delta, neighbors=filter_.neighbors).lower <= filter_.epsilon
    assert spent.delta(filter_.epsilon, neighbors=filter_.neighbors).lower <= filter_.delta


def test_a_filter_is_not_vacuous():
    exact = dp.calibrate(lambda n: dp.Gaussian(50.0) * n, epsilon=1.0, delta=1e-6, integer=True)
    assert most(dp.PrivacyFilter(1.0, 1e-6, family="gaussian"), dp.Gaussian(50.0)) == exact
    renyi = most(dp.PrivacyFilter(1.0, 1e-6), dp.Gaussian(50.0))
    assert most(dp.PrivacyFilter(1.0, 1e-6, family="zcdp"), dp.Gaussian(50.0)) in (renyi, renyi + 1, renyi - 1)
    assert 0.8 * exact < renyi < exact
    exact = dp.calibrate(lambda n: STEP * n, epsilon=1.0, delta=1e-6, integer=True)
    expected = most(dp.PrivacyFilter(1.0, 1e-6, expected=STEP), STEP)
    assert 0.6 * exact < expected < exact
    assert expected >= most(dp.PrivacyFilter(1.0, 1e-6), STEP)


def test_spending_stops_in_time_and_a_refusal_spends_nothing():
    f = dp.PrivacyFilter(1.0, 1e-6)
    for _ in range(10_000):
        if not f.can_spend(dp.Gaussian(20.0)):
            break
        f.spend(dp.Gaussian(20.0))
    before = f.spent, f.history
    with pytest.raises(dp.BudgetExceeded, match=r"would exceed the filter: .* of .* are spent, and this costs"):
        f.spend(dp.Gaussian(20.0))
    with pytest.raises(dp.BudgetExceeded):
        f.spend(dp.PureDP(3.0))
    assert (f.spent, f.history) == before and f.spent <= f.cap
    f.spend(dp.Gaussian(1000.0), count=3)
    assert len(f.history) == len(before[1]) + 1
    assert f.spent_releases == sum(count for _, count in f.history)


def test_gaussian_caps_keep_room_for_a_fixed_number_of_others():
    select = dp.BoundedRange(0.05)
    f = dp.PrivacyFilter(1.0, 1e-6, family="gaussian", others=select * 20)
    for _ in range(20):
        f.spend(select)
    assert f.spent == 0 and not f.can_spend(select)
    count = most(f, dp.Gaussian(50.0))
    run = dp.Gaussian(50.0) * count + select * 20
    assert run.epsilon(1e-6).upper <= 1.0 < (run + dp.Gaussian(20.0)).epsilon(1e-6).upper
    assert f.can_spend(dp.PoissonSampled(dp.Gaussian(50.0), 0.5), count)
    assert not f.can_spend(dp.PoissonSampled(dp.Gaussian(50.0), 0.5), count + 1)
    assert not f.can_spend(dp.Laplace(1e9))
    with pytest.raises(ValueError, match=r"^others must be"):
        dp.PrivacyFilter(0.1, 1e-6, family="gaussian", others=dp.PureDP(1.0))


def test_a_filter_says_what_is_left():
    f = dp.PrivacyFilter(1.0, 1e-6, family="zcdp", neighbors="remove")
    f.spend(dp.ZCDP(1e-3))
    assert repr(f).startswith("<PrivacyFilter of (1.0, 1e-06), neighbors='remove': 0.00100001 of 0.0")  # rounded up
    assert repr(f).endswith("spent (rho of zCDP)>")


def test_a_refusal_names_expected_where_it_was_left_out():
    step = dp.PoissonSampled(dp.Gaussian(1.0), 0.01)
    for options, advised in (
        ({}, True),
        ({"expected": step}, False),
        ({"order": 9.0}, False),
        ({"family": "zcdp"}, False),
    ):
        with pytest.raises(dp.BudgetExceeded) as refused:
            dp.PrivacyFilter(0.5, 1e-6, **options).spend(step, 10**6)
        assert ("A filter with expected=" in str(refused.value)) == advised


def test_approximate_mechanisms_need_a_part_of_delta():
    mechanism = dp.ApproximateDP(1e-4, 1e-8)
    assert not dp.PrivacyFilter(1.0, 1e-6).can_spend(mechanism)
    f = dp.PrivacyFilter(1.0, 1e-6, failure=1e-7)
    assert f.can_spend(mechanism, 9) and not f.can_spend(mechanism, 11)
    assert dp.PrivacyFilter(1.0, 1e-6).cost(mechanism) == math.inf > f.cost(mechanism)


def test_the_unit_names_an_order_close_to_one():
    assert "order 1 + 2.5e-10, times 2.5e-10" in dp.PrivacyFilter(1.0, 0.1, order=1 + 2.5e-10).unit


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "^epsilon must be", {"epsilon": 0.0}),
        (ValueError, "^delta must be", {"delta": 1.0}),
        (ValueError, "^family must be", {"family": "pld"}),
        (ValueError, "^neighbors must be", {"neighbors": "swap"}),
        (ValueError, "^order must be", {"order": 1.0}),
        (ValueError, "^order, expected and failure must be", {"family": "zcdp", "order": 2.0}),
        (ValueError, "^others must be", {"others": dp.PureDP(1.0)}),
        *((ValueError, r"^failure must be a number in \[0, delta\), got", {"failure": f}) for f in (1e-3, 1.0, -1.0)),
        (TypeError, "^expected must be", {"expected": 1.0}),
        (TypeError, "^others must be", {"family": "gaussian", "others": [dp.PureDP(1.0)]}),
    ],
)
def test_bad_filters_are_named(error, message, options):
    with pytest.raises(error, match=message):
        dp.PrivacyFilter(**{"epsilon": 1.0, "delta": 1e-5, **options})


def test_bad_releases_are_named():
    f = dp.PrivacyFilter(1.0, 1e-6)
    for error, name, arguments in (
        (TypeError, "mechanism", (STEP * 2,)),
        (ValueError, "count", (STEP, 0)),
        (ValueError, "neighbors", (dp.FixedSizeSampled(dp.Gaussian(1.0), 1, 9),)),
    ):
        with pytest.raises(error, match=f"^{name} must"):
            f.can_spend(*arguments)
    with pytest.raises(ValueError, match=r"^neighbors must be .* for RandomAllocation"):
        dp.PrivacyFilter(1.0, 1e-6, neighbors="replace").can_spend(dp.RandomAllocation(dp.Laplace(9.0), 10))


INNER = [
    dp.Gaussian(30.0),
    dp.Laplace(20.0),
    dp.PureDP(0.05),
    dp.ApproximateDP(0.05, 1e-9),
    dp.RandomizedResponse(0.9, 3),
    dp.BoundedRange(0.05),
    dp.ZCDP(1e-4),
    dp.DiscreteGaussian(30.0),
    dp.DiscreteGaussianVector(30.0, 2.0, 5),
    dp.DiscreteLaplace(20.0),
    dp.MixtureOfGaussians(30.0, (1.0, 2.0), (0.5, 0.5)),
]


def releases():
    for inner in INNER:
        yield inner
        yield dp.RepeatAndSelect(inner, 2.0)
        yield dp.Group(inner, 2)
        if isinstance(inner, dp.RandomizedResponse):
            continue
        yield dp.PoissonSampled(inner, 0.1)
        yield dp.Group(dp.PoissonSampled(inner, 0.1), 2)
        if not isinstance(inner, dp.MixtureOfGaussians):
            yield dp.TruncatedPoissonSampled(inner, 0.1, 20, 100)
            yield dp.FixedSizeSampled(inner, 10, 100)
            yield dp.RandomAllocation(inner, 10)
    yield dp.SampledWithReplacement(dp.Gaussian(30.0), 5, 100)
    yield dp.TreeAggregation(30.0, 8)


@pytest.mark.parametrize("relation", NEIGHBORS)
def test_a_filter_refuses_the_relations_that_a_question_refuses(relation):
    for mechanism in releases():
        f = dp.PrivacyFilter(1.0, 1e-6, failure=5e-7, neighbors=relation)
        odometer = dp.Odometer(1e-6, [1.0, 2.0], neighbors=relation)
        if relation not in mechanism.relations:
            for ask in (lambda m: m.epsilon(1e-6, neighbors=relation), f.can_spend, f.spend, odometer.spend):
                with pytest.raises(ValueError, match=r"^neighbors must be"):
                    ask(mechanism)
            continue
        odometer.spend(mechanism)
        assert f.can_spend(mechanism, 1) in (True, False)


@pytest.mark.parametrize("relation", ["replace", "replace_special"])
def test_other_noise_in_samples_is_charged(relation):
    """As many as are admitted are within the guarantee."""
    for inner in (one for one in INNER if not isinstance(one, (dp.ApproximateDP, dp.RandomizedResponse))):
        mechanism = dp.PoissonSampled(inner, 0.1)
        for family in ("renyi", "zcdp"):
            f = dp.PrivacyFilter(2.0, 1e-6, family=family, neighbors=relation)
            if not f.cost(mechanism) < math.inf:
                continue
            steps = 0
            while steps < 64 and f.can_spend(mechanism):
                f.spend(mechanism)
                steps += 1
            assert steps > 0
            assert (mechanism * steps).epsilon(1e-6, neighbors=relation).lower <= 2.0
    f = dp.PrivacyFilter(2.0, 1e-6, neighbors=relation)
    assert f.can_spend(dp.PoissonSampled(dp.Laplace(2.0), 0.1))
    others = dp.PoissonSampled(dp.Laplace(20.0), 0.1) * 3
    kept = dp.PrivacyFilter(2.0, 1e-6, family="gaussian", others=others, neighbors=relation)
    kept.spend(dp.PoissonSampled(dp.Laplace(20.0), 0.1), 3)
    assert not kept.can_spend(dp.PoissonSampled(dp.Laplace(20.0), 0.1))


def test_an_odometer_reads_the_smallest_level_that_still_holds():
    odometer = dp.Odometer(1e-6, [0.5, 1.0, 2.0])
    assert odometer.epsilon == 0.5
    readings = []
    for _ in range(400):
        odometer.spend(dp.Gaussian(30.0))
        readings.append(odometer.epsilon)
    assert readings == sorted(readings) and set(readings) == {0.5, 1.0, 2.0, math.inf}
    for level in (0.5, 1.0, 2.0):
        covered = dp.Gaussian(30.0) * readings.index(next(r for r in readings if r > level))
        assert covered.delta(level).upper <= 1e-6 / 3
    for error, levels in ((ValueError, []), (ValueError, [1.0, math.nan]), (ValueError, [0.0]), (TypeError, "x")):
        with pytest.raises(error, match=r"^levels must be"):
            dp.Odometer(1e-6, levels)


# The counterexample: two levels of DP-SGD. Ten epochs of either are (2, 1e-5)-DP, as is nearly every fixed mixture.
LEVELS = [(0.004, 0.709), (0.04, 2.666)]
EPOCHS, STEPS, EPSILON = 10, 100, 2.0
MESH, HALF = 5e-4, 2**15


def connected_dots(q, sigma, steps):
    """``steps``-fold "remove" loss on a grid, each step by connecting the dots; plain NumPy, apart from the library."""
    edges = np.arange(-HALF, HALF) * MESH
    odds = (np.exp(edges) - 1 + q) / q
    x = np.where(odds > 0, sigma**2 * np.log(np.maximum(odds, 1e-300)) + 0.5, -np.inf)
    above_q = norm.sf(x / sigma)
    above_p = (1 - q) * above_q + q * norm.sf((x - 1) / sigma)
    p, q_mass = -np.diff(above_p), -np.diff(above_q)
    right = (p - q_mass * np.exp(edges[:-1])) / -np.expm1(-MESH)
    mass = np.zeros(2 * HALF)
    mass[:-1] += p - right
    mass[1:] += right
    return np.fft.fftshift(np.fft.irfft(np.fft.rfft(np.fft.ifftshift(mass)) ** steps)), edges


def test_the_natural_filter_of_loss_distributions_is_invalid():
    """It would allow every mixture of the levels: each has delta(2) <= 1.09e-5. Chosen adaptively they reach 2.2e-5."""
    laws = [connected_dots(q, sigma, STEPS)[0] for q, sigma in LEVELS]
    losses = np.arange(-HALF, HALF) * MESH
    payoff = np.maximum(-np.expm1(EPSILON - losses), 0.0)
    spectra = [np.fft.rfft(np.fft.ifftshift(law)) for law in laws]
    mixtures = [
        np.fft.fftshift(np.fft.irfft(spectra[0] ** j * spectra[1] ** (EPOCHS - j))) @ payoff for j in range(EPOCHS + 1)
    ]
    for (q, sigma), mixture in zip(LEVELS, (mixtures[-1], mixtures[0]), strict=True):
        exact = (dp.PoissonSampled(dp.Gaussian(sigma), q) * (STEPS * EPOCHS)).delta(EPSILON, neighbors="remove")
        assert mixture == pytest.approx(exact.upper, rel=2e-3)  # the discretisation is not what makes the difference
    assert max(mixtures) <= 1.09e-5
    value = np.maximum(-np.expm1(EPSILON + losses), 0.0)
    for _ in range(EPOCHS):
        padded = np.concatenate((np.ones(HALF), value, np.full(HALF, value[-1])))
        value = np.max([fftconvolve(padded, law, mode="valid")[1 : 2 * HALF + 1] for law in laws], axis=0)
    assert 2.2e-5 < value[HALF] < 2.21e-5


def test_a_sound_filter_refuses_what_the_natural_one_allows():
    """At (2, 1e-5) a Renyi filter covers fewer epochs of either level than the ten that fixed plans have."""
    for q, sigma in LEVELS:
        step = dp.PoissonSampled(dp.Gaussian(sigma), q)
        f = dp.PrivacyFilter(EPSILON, 1e-5, expected=step)
        assert 1 <= most(f, step) < STEPS * EPOCHS


def test_what_has_a_largest_loss_alone_is_charged_by_that():
    """A group of a sample: e-DP with the largest loss."""
    group = dp.Group(dp.PoissonSampled(dp.Laplace(20.0), 0.1), 3)
    whole = dp.PrivacyFilter(2.0, 1e-6).cost(dp.PureDP(3 * math.log1p(0.1 * math.expm1(1 / 20))))
    assert dp.PrivacyFilter(2.0, 1e-6).cost(group) == pytest.approx(whole, rel=1e-9)
    assert whole < dp.PrivacyFilter(2.0, 1e-6, neighbors="replace").cost(group) < math.inf  # two steps


def test_a_given_pair_is_charged_by_its_moments():
    """The pair of a mechanism costs what the mechanism does, and no pair more than e-DP with its largest loss."""
    new = lambda: dp.PrivacyFilter(2.0, 1e-6)  # noqa: E731
    response = dp.PrivacyLoss.from_distributions([0.75, 0.25], [0.25, 0.75], relation="any")
    assert new().cost(response) == pytest.approx(new().cost(dp.RandomizedResponse(0.5, 2)), rel=1e-9)
    given = dp.PrivacyLoss.from_distributions([0.55, 0.45], [0.5, 0.5], relation="any")
    largest = max(abs(y) for y in given.losses)
    assert 0 < new().cost(given) < new().cost(dp.PureDP(largest))
    sample = new().cost(dp.PoissonSampled(given, 0.5))
    assert 0 < sample < min(new().cost(given), new().cost(dp.PureDP(math.log1p(0.5 * math.expm1(largest)))))
    hidden = dp.PrivacyLoss.from_distributions([0.5, 0.5, 0.0], [0.4, 0.5, 0.1], relation="any")
    assert dp.PrivacyFilter(2.0, 1e-6).cost(hidden) == math.inf


def test_under_replace_a_sample_of_fixed_size_costs_what_no_sampling_does():
    sampled = dp.FixedSizeSampled(dp.Gaussian(5.0), 10, 1000)
    for family in ("zcdp", "gaussian"):
        f = dp.PrivacyFilter(2.0, 1e-6, family=family, neighbors="replace")
        assert f.cost(sampled) == f.cost(dp.Gaussian(5.0)) < math.inf
