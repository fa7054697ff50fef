"""Mixtures of Gaussians, samples that are cut or drawn with replacement, and records that contribute nothing, against
quadrature (docs/theory/mixtures.md)."""

import math
import random

import mpmath as mp
import numpy as np
import pytest
from effort import counted
from reference.mixtures import Pair, labelled, scaled

import tightdp as dp
from tightdp.accounting.engines.closed_form.truncation import compute_sample_truncation, sum_tail_of_truncation

EPSILONS = (-1.5, -0.3, 0.0, 0.2, 1.0, 2.5)
FINE = {"width": 1e-7}


def holds(found, truth, slack=1e-9):
    assert found.lower <= truth + slack and truth - slack <= found.upper, (found, truth)


def tight(found, truth, slack=1e-9):
    """Both ends are the truth, up to a width that was asked for."""
    holds(found, truth, slack)
    assert found.upper - found.lower <= 1e-4 * max(truth, 1e-6) + 1e-12, found


def mixture(sigma, norms, shares, relation, q=1.0):
    ahead = [(c / sigma, q * p) for c, p in zip(norms, shares, strict=True)] + ([(0.0, 1 - q)] if q < 1 else [])
    none = [(0.0, 1.0)]
    return {
        "remove": Pair(ahead, none),
        "add": Pair(none, ahead),
        "replace": Pair(ahead, scaled(ahead, -1)),
    }[relation]


CASES = [
    (1.3, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)),
    (0.7, (1.0,), (1.0,)),
    (2.0, (0.5, 1.0), (0.9, 0.1)),
    (1.0, (0.0, 0.1, 3.0), (0.2, 0.79, 0.01)),
    (0.4, (0.0, 1e-5, 1.0), (0.1, 0.4, 0.5)),
]


@pytest.mark.parametrize(
    "case",
    [*CASES[::4], *(pytest.param(case, marks=pytest.mark.slow) for case in CASES[1:4])],
    ids=str,
)
@pytest.mark.parametrize("relation", ["add", "remove", "replace"])
def test_a_mixture_of_gaussians_exactly(case, relation):
    for q in (1.0, 0.2):
        run = dp.MixtureOfGaussians(*case)
        run = run if q == 1 else dp.PoissonSampled(run, q)
        pair = mixture(*case, relation, q)
        for eps in EPSILONS:
            # A shift so small counts only where the other components are far away.
            check = holds if 1e-5 in case[1] else tight
            check(run.delta(eps, neighbors=relation, **FINE), pair.delta(eps))
        eps = 0.7
        holds((run * 2).delta(eps, neighbors=relation), pair.after(pair, eps), 2e-6)


def test_special_cases_of_a_mixture():
    plain, sampled = dp.Gaussian(0.8), dp.PoissonSampled(dp.Gaussian(0.8), 0.1)
    for relation in ("add", "remove", "replace", "replace_special"):
        one = (dp.MixtureOfGaussians(0.8, (1.0,), (1.0,)) * 20).epsilon(1e-6, neighbors=relation)
        two = (dp.MixtureOfGaussians(0.8, (0.0, 1.0), (0.9, 0.1)) * 20).epsilon(1e-6, neighbors=relation)
        for found, known in ((one, plain), (two, sampled)):
            exact = (known * 20).epsilon(1e-6, neighbors=relation)
            assert found.lower <= exact.upper and exact.lower <= found.upper
            assert found.upper == pytest.approx(exact.upper, rel=1e-5)
    assert dp.MixtureOfGaussians(1.0, (2.0, 1.0), (0.3, 0.7)) == dp.MixtureOfGaussians(1.0, (1.0, 2.0), (0.7, 0.3))


@pytest.mark.parametrize("n", [1, 7, 300])
@pytest.mark.parametrize("q", [1.0, 0.5, 0.013, 1e-9])
def test_tails_of_binomials(n, q):
    with mp.workdps(40):
        masses = [mp.binomial(n, k) * mp.mpf(q) ** k * (1 - mp.mpf(q)) ** (n - k) for k in range(n + 1)]
        for least in {0, 1, n // 2, int(n * q) + 1, n, n + 1}:
            found, truth = sum_tail_of_truncation(n, q, least)[0], mp.fsum(masses[least:])
            assert found.lo <= truth <= found.hi and found.hi - found.lo <= 1e-11 * truth + mp.mpf(10) ** -300


@pytest.mark.parametrize(("q", "b", "n"), [(0.1, 3, 10), (0.3, 1, 4), (0.9, 5, 12), (0.02, 30, 1000)])
def test_what_a_cut_does_to_a_record(q, b, n):
    """By summing over the size of the others' sample."""
    found = compute_sample_truncation(q, b, n)
    with mp.workdps(40):
        sizes = [mp.binomial(n - 1, s) * mp.mpf(q) ** s * (1 - mp.mpf(q)) ** (n - 1 - s) for s in range(n)]
        cut = mp.fsum(sizes[b:])
        both = mp.fsum(mass * q * b / mp.mpf(s + 1) for s, mass in enumerate(sizes) if s >= b)
        for range_, truth in ((found.cut, cut), (found.within, both / cut), (found.drawn, (1 - cut) * q + both)):
            assert range_.lo <= truth <= range_.hi and range_.hi - range_.lo <= 1e-11


def zeroed_pairs(mu, q):
    """Attained by others that contribute the opposite of the record, nothing, or the same."""
    opposed = Pair([(-mu, 1 - q), (mu, q)], [(-mu, 1 - q), (0.0, q)])
    return [opposed, Pair([(0.0, 1 - q), (mu, q)], [(0.0, 1.0)]), Pair([(mu, 1.0)], [(mu, 1 - q), (0.0, q)])]


def reversed_(pair):
    return Pair(pair.q, pair.p)


@pytest.mark.parametrize("sigma", [0.6, pytest.param(1.0, marks=pytest.mark.slow), 3.0])
@pytest.mark.parametrize(("m", "n"), [(1, 10), (5, 8), pytest.param(3, 1000, marks=pytest.mark.slow)])
def test_zeroed_in_a_sample_of_fixed_size(sigma, m, n):
    """For x >= 1 the others opposed are the worst, for x < 1 others that are like the record."""
    mu, q = 1 / sigma, m / n
    run = dp.FixedSizeSampled(dp.Gaussian(sigma), m, n)
    pairs = zeroed_pairs(mu, q)
    for eps in EPSILONS:
        curves = [max(pair.delta(eps), reversed_(pair).delta(eps)) for pair in pairs]
        found = run.delta(eps, neighbors="replace_special", **FINE)
        assert found.lower <= max(curves) + 1e-9 <= found.upper + 2e-9
        # Of one step the joined curve is attained.
        assert found.upper - found.lower <= 1e-3 * max(curves) + 1e-9 or max(curves) < 1e-6
    for eps in (0.3, 1.2):
        best = max(pair.after(pair, eps) for one in pairs for pair in (one, reversed_(one)))
        found = (run * 2).delta(eps, neighbors="replace_special")
        assert best <= found.upper + 2e-6 and found.lower <= found.upper
        assert found.lower >= best * (1 - 0.02) - 2e-6


def test_values_for_fixed_size_cut_and_replacement_that_were_computed_elsewhere():
    """In double precision, without bounds of its errors: sigma = 1, q = .01, T = 1000, delta = 1e-5."""
    one = dp.Gaussian(1.0)
    for mechanism, relation, lower, upper in (
        (dp.FixedSizeSampled(one, 100, 10_000), "replace_special", 10.37, 10.50),
        (dp.TruncatedPoissonSampled(one, 0.01, 130, 10_000), "replace_special", None, 2.992),
        (dp.TruncatedPoissonSampled(one, 0.01, 130, 10_000), "add_or_remove", None, 3.670),
        (dp.TruncatedPoissonSampled(one, 0.01, 130, 10_000), "replace", None, 4.049),
        (dp.SampledWithReplacement(one, 100, 10_000), "replace", 16.859, 18.428),
        (dp.PoissonSampled(one, 0.01), "replace_special", 1.82824, 1.82824),
    ):
        found = (mechanism * 1000).epsilon(1e-5, neighbors=relation, width=1e-4)
        assert found.upper == pytest.approx(upper, abs=6e-3 if upper > 4.1 else 6e-4)
        assert lower is None or found.lower == pytest.approx(lower, abs=6e-3)


@pytest.mark.parametrize(
    "relation",
    ["remove", "replace_special", *(pytest.param(one, marks=pytest.mark.slow) for one in ("add", "replace"))],
)
@pytest.mark.parametrize(
    ("sigma", "q", "b", "n"),
    [(1.0, 0.3, 2, 6), (0.7, 0.05, 1, 20), pytest.param(2.0, 0.5, 30, 50, marks=pytest.mark.slow)],
)
def test_a_cut_sample_against_its_worst_data_sets(relation, sigma, q, b, n):
    """Others that contribute nothing leave a Poisson sample; those that oppose, with their number known, more."""
    mu = 1 / sigma
    cut, within, drawn = (0.5 * (range_.lo + range_.hi) for range_ in compute_sample_truncation(q, b, n))
    run = dp.TruncatedPoissonSampled(dp.Gaussian(sigma), q, b, n)
    none = [(0.0, 1.0)]

    def sample(share, shift):
        return [(0.0, 1 - share), (shift, share)]

    whole = {"remove": Pair(sample(q, mu), none), "replace": Pair(sample(q, mu), sample(q, -mu))}
    fixed = {"remove": Pair(sample(within, 2 * mu), none)}
    for kind in (whole, fixed):
        kind["add"] = reversed_(kind["remove"])
    attained = {"remove": Pair(sample(drawn, mu), none), "replace": Pair(sample(drawn, mu), sample(drawn, -mu))}
    attained["add"] = reversed_(attained["remove"])
    for eps in EPSILONS:
        found = run.delta(eps, neighbors=relation, **FINE)
        if relation == "replace_special":
            best = max(attained[one].delta(eps) for one in ("add", "remove"))
            above = max(labelled(whole[one], 1 - cut, fixed[one], cut)(eps) for one in ("add", "remove"))
            assert found.upper <= above * (1 + 1e-4) + 1e-9
        else:
            best = attained[relation].delta(eps)
            if relation != "replace":
                assert found.upper == pytest.approx(labelled(whole[relation], 1 - cut, fixed[relation], cut)(eps),
                                                    rel=1e-4, abs=1e-9)  # fmt: skip
        assert found.lower == pytest.approx(best, rel=1e-4, abs=1e-9)


def draws(b, n):
    return [(k, math.comb(b, k) * (1 / n) ** k * (1 - 1 / n) ** (b - k)) for k in range(b + 1)]


@pytest.mark.parametrize(
    ("sigma", "b", "n"),
    [(1.0, 2, 5), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.8, 1, 1), (3.0, 6, 3), (2.0, 10, 40)))],
)
def test_draws_with_replacement(sigma, b, n):
    run = dp.SampledWithReplacement(dp.Gaussian(sigma), b, n)
    one, none = [(k / sigma, w) for k, w in draws(b, n)], [(0.0, 1.0)]
    two = scaled(one, 2)
    above = {"replace": [Pair(two, scaled(two, -1))], "replace_special": [Pair(two, scaled(one, -1))]}
    below = {"replace": [Pair(two, none)], "replace_special": [Pair(one, none)]}
    above["replace_special"].append(reversed_(above["replace_special"][0]))
    for relation in above:
        for eps in EPSILONS:
            found = run.delta(eps, neighbors=relation, **FINE)
            most = max(pair.delta(eps) for pair in above[relation])
            assert found.upper <= most * (1 + 1e-4) + 1e-9
            pairs = run.delta(eps, neighbors=relation, engine="grid")  # Renyi bounds may be below those of the pair
            assert relation == "replace_special" or pairs.upper >= most * (1 - 1e-4)
            best = max(max(pair.delta(eps), reversed_(pair).delta(eps)) for pair in below[relation])
            assert found.lower == pytest.approx(best, rel=1e-4, abs=1e-9)


def test_vectors_that_were_drawn_at_random_stay_below():
    """One step in the plane: others and both records anywhere in the ball, integrated over a grid of outputs."""
    rng = np.random.default_rng(random.randrange(10**9))
    sigma, q = 0.9, 0.3
    x = np.linspace(-7, 7, 281)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)

    def density(parts):
        return sum(w * np.exp(-((grid - v / sigma) ** 2).sum(-1) / 2) for v, w in parts) / (2 * math.pi)

    run = dp.FixedSizeSampled(dp.Gaussian(sigma), 3, 10)
    for _ in range(8):
        a, c = (v / max(1.0, np.linalg.norm(v)) for v in rng.normal(size=(2, 2)))
        p, r = density([(c, 1 - q), (a, q)]), density([(c, 1 - q), (np.zeros(2), q)])
        for eps in (-0.5, 0.0, 0.4, 1.0):
            for one, other in ((p, r), (r, p)):
                value = np.maximum(one - math.exp(eps) * other, 0.0).sum() * (x[1] - x[0]) ** 2
                assert value <= run.delta(eps, neighbors="replace_special").upper + 1e-6


@pytest.mark.parametrize(
    "sigma", [1e-300, *(pytest.param(sigma, marks=pytest.mark.slow) for sigma in (1e-3, 1e3)), 1e300]
)
def test_no_noise_is_too_little_or_too_much(sigma):
    one = dp.Gaussian(sigma)
    for run, relations in (
        (dp.MixtureOfGaussians(sigma, (0.0, 1e-200, 1e200), (0.2, 0.3, 0.5)), ("add_or_remove", "replace")),
        (dp.MixtureOfGaussians(sigma, tuple(range(50)), (0.02,) * 50), ("remove",)),
        (dp.TruncatedPoissonSampled(one, 1e-9, 1, 10**9), ("add", "replace", "replace_special")),
        (dp.TruncatedPoissonSampled(one, 1.0, 10**6, 10**15), ("add", "replace", "replace_special")),
        (dp.SampledWithReplacement(one, 10**15, 3), ("replace", "replace_special")),
        (dp.FixedSizeSampled(one, 10**15 - 1, 10**15), ("replace_special",)),
    ):
        for relation in relations:
            for found in (run.epsilon(1e-6, neighbors=relation), (run * 10**6).delta(1.0, neighbors=relation)):
                assert 0 <= found.lower <= found.upper and not math.isnan(found.upper)


@pytest.mark.parametrize("far", [1e4, 3e5])
@pytest.mark.parametrize("steps", [1, 3])
def test_components_that_are_far_apart(steps, far):
    """Against the record it is the least shift that hides it best, all by itself: the loss of a Gaussian, moved by the
    logarithm of that shift's probability."""
    run = dp.MixtureOfGaussians(1.0, (far, 1.7 * far, 2 * far), (0.25, 0.25, 0.5)) * steps
    truth = dp.Gaussian(1 / (math.sqrt(steps) * far)).epsilon(0.01).upper - steps * math.log(0.25)
    found, units, _ = counted(lambda: run.epsilon(0.01, neighbors="add"))
    holds(found, truth, 1e-9 * truth)
    assert found.upper - found.lower <= 1e-4 * truth and units <= 1e9


@pytest.mark.parametrize(
    "relation", ["replace", *(pytest.param(one, marks=pytest.mark.slow) for one in ("add", "remove"))]
)
def test_many_components_of_which_few_count_in_a_cell(relation):
    """Thirty shifts up to 60 deviations, with weights that differ by nine orders of magnitude."""
    norms = tuple(float(2 * i) for i in range(30))
    raw = [10.0 ** -((7 * i) % 10) for i in range(30)]
    run = dp.MixtureOfGaussians(1.0, norms, tuple(x / sum(raw) for x in raw))
    pair = mixture(1.0, run.sensitivities, run.probabilities, relation)
    for eps in (-0.5, 0.3, 5.0):
        tight(run.delta(eps, neighbors=relation, **FINE), pair.delta(eps), 1e-7)


@pytest.mark.parametrize("shift", [30.0, 1e3, 1e5])
@pytest.mark.parametrize("steps", [1, 100])
def test_a_far_component_is_a_gaussian(shift, steps):
    """Cells many deviations long, whose masses are differences of tails."""
    truth = (dp.Gaussian(1 / shift) * steps).epsilon(1e-7)
    found = (dp.MixtureOfGaussians(1.0, (shift,), (1.0,)) * steps).epsilon(1e-7, engine="grid")
    assert found.lower <= truth.upper and truth.lower <= found.upper
    assert found.upper - found.lower <= 1e-4 * truth.upper


@pytest.mark.parametrize("relation", ["add", pytest.param("remove", marks=pytest.mark.slow), "replace"])
@pytest.mark.parametrize(
    ("sigma", "norms", "q", "steps"),
    [
        (1.0, (1e5, 4e5), 1.0, 10**6),
        (1.0, (0.1, 1.0, 10.0, 1e3, 1e5), 1.0, 2**53 - 1),
        pytest.param(2.83e-4, (1.0, 48.0), 7e-6, 2**40, marks=pytest.mark.slow),
        pytest.param(1.0, tuple(1e5 * (i + 1) / 48 for i in range(48)), 1.0, 2**40, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_lower_ends_where_no_lattice_serves(relation, sigma, norms, q, steps):
    """Each threshold makes a Poisson sample of a Gaussian that is dominated: the lower end is no less than that of the
    least shift, nor than that of the largest."""
    share = 1 / len(norms)
    one = dp.MixtureOfGaussians(sigma, norms, (share,) * len(norms))
    run = (one if q == 1 else dp.PoissonSampled(one, q)) * steps
    found, units, _ = counted(lambda: run.epsilon(1e-5, neighbors=relation))
    assert units <= 6.1e9
    for shift, p in ((norms[0], q), (norms[-1], q * share)):
        below = dp.Gaussian(sigma / shift) if p == 1 else dp.PoissonSampled(dp.Gaussian(sigma / shift), p)
        truth = (below * steps).epsilon(1e-5, neighbors=relation)
        assert 0 < truth.lower * (1 - 1e-6) <= found.upper
        assert len(norms) > 5 or found.lower >= truth.lower * (1 - 1e-6)


def test_what_cannot_be_asked_is_refused():
    one = dp.Gaussian(1.0)
    for run in (dp.SampledWithReplacement(one, 3, 10), dp.FixedSizeSampled(one, 3, 10)):
        with pytest.raises(ValueError, match=r"^neighbors must be 'replace' or 'replace_special' for"):
            run.epsilon(1e-5)
    with pytest.raises(ValueError, match=r"^neighbors must be"):
        dp.TruncatedPoissonSampled(dp.PrivacyLoss.from_pmf([0.5], [1.0]), 0.1, 3, 10).epsilon(1e-5)
    assert (
        dp.TruncatedPoissonSampled(one, 0.1, 10, 10)._to_composition() == dp.PoissonSampled(one, 0.1)._to_composition()
    )


@pytest.mark.parametrize("settings", [6, pytest.param(300, marks=pytest.mark.hunt)])
def test_mechanisms_beside_each_other(settings):
    """Two steps, of two kinds, drawn at random, both ends."""
    draw = random.Random(random.randrange(10**9))
    for _ in range(settings):
        relation = draw.choice(["add", "remove", "replace"])
        runs, pairs = [], []
        for _ in range(2):
            norms = tuple(draw.sample([0.0, 0.3, 1.0, 1.7, 2.4], draw.randint(1, 4)))
            norms = norms if any(norms) else (1.0,)
            raw = [draw.random() + 0.01 for _ in norms]
            shares = tuple(x / sum(raw) for x in raw)
            sigma, q = math.exp(draw.uniform(-0.5, 1.2)), draw.choice([1.0, 0.5, 0.03])
            one = dp.MixtureOfGaussians(sigma, norms, shares)
            runs.append(one if q == 1 else dp.PoissonSampled(one, q))
            pairs.append(mixture(sigma, norms, shares, relation, q))
        for eps in (-0.8, 0.1, draw.uniform(0.0, 3.0)):
            found = (runs[0] + runs[1]).delta(eps, neighbors=relation)
            holds(found, pairs[0].after(pairs[1], eps), 3e-6)
