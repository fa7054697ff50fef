"""The checker proves what is true, and no false statement, by truths that it shares nothing with."""

import ast
import contextlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from certificate_changes import is_possible, list_certificate_changes

import tightdp as dp

verify = pytest.importorskip("tightdp.verify", reason="python-flint is missing")

G, S = dp.Gaussian, dp.PoissonSampled
GIVEN = dp.PrivacyLoss.from_distributions([0.5, 0.3, 0.2, 0.0], [0.3, 0.2, 0.4, 0.1], relation="any")
RUNS = {
    "DP-SGD": (S(G(1.0), 0.01) * 1000, "add_or_remove"),
    "replaced": (S(G(0.8), 0.02) * 300, "replace"),
    "heterogeneous": (S(G(1.0), 0.01) * 500 + S(G(1.3), 0.02) * 300 + G(9.0) * 3, "add_or_remove"),
    "large": (S(G(5.0), 0.5) * 100, "add"),
    "little": (S(G(0.5), 1e-3) * 10_000, "remove"),
    "few steps": (S(G(0.9), 1e-4) * 8, "remove"),
    "Gaussians": (G(2.0) * 10 + G(3.0), "add_or_remove"),
    "Laplace": (dp.Laplace(1.0), "replace"),
    "many Laplace": (dp.Laplace(20.0) * 3000, "replace"),
    "many sampled Laplace": (S(dp.Laplace(1.0), 0.01) * 400, "add_or_remove"),
    "pure": (dp.PureDP(0.1) * 100, "add_or_remove"),
    "pure replaced": (dp.PureDP(0.1) * 100, "replace"),
    "approximate": (dp.ApproximateDP(0.5, 1e-6) * 20, "add"),
    "approximate replaced": (dp.ApproximateDP(0.5, 1e-6) * 4, "replace"),
    "sampled response": (S(dp.PureDP(1.0), 0.1) * 50, "add_or_remove"),
    "answers": (dp.RandomizedResponse(0.3, 4) * 7, "replace_special"),
    "sampled integers, replaced": (S(dp.DiscreteLaplace(3.0), 0.02) * 1000, "replace"),
    "range": (dp.BoundedRange(0.5), "add"),
    "discrete Laplace": (dp.DiscreteLaplace(2.0, 3) * 3, "remove"),
    "discrete Gaussian": (dp.DiscreteGaussian(1.5, 2), "replace"),
    "tree": (dp.TreeAggregation(3.0, 100), "replace"),
    "mixture": (dp.MixtureOfGaussians(2.0, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)) * 20, "add_or_remove"),
    "sampled Laplace": (S(dp.Laplace(1.0), 0.1), "add_or_remove"),
    "noises": (G(2.0) * 3 + dp.PureDP(0.2) * 5 + dp.Laplace(3.0), "remove"),
    "fixed size": (dp.FixedSizeSampled(G(1.0), 10, 100), "replace"),
    "fixed size, approximate": (dp.FixedSizeSampled(dp.ApproximateDP(0.2, 0.01), 3, 4), "replace"),
    "given losses": (GIVEN + dp.PureDP(0.3) * 2, "add_or_remove"),
    "given losses, sampled": (S(GIVEN, 0.2) * 4, "replace_special"),
    "given losses, replaced": (GIVEN, "replace"),
    "zCDP": (dp.ZCDP(0.05, 0.1) * 2 + G(4.0), "replace"),
    "vector of integers": (dp.DiscreteGaussianVector(2.0, 2.5, 3), "remove"),
    "cut sample": (dp.TruncatedPoissonSampled(dp.DiscreteLaplace(1.0), 0.2, 3, 6), "add_or_remove"),
    "cut sample, replaced": (dp.TruncatedPoissonSampled(dp.PureDP(1.0), 0.2, 3, 6), "replace"),
    "draws": (dp.SampledWithReplacement(G(1.0), 3, 2), "replace"),
    "allocation": (dp.RandomAllocation(dp.ApproximateDP(1.0, 1e-6), 3, 2), "add_or_remove"),
    "group": ((dp.PureDP(0.5) * 3).group(2), "add_or_remove"),
    "group, sampled": (S(dp.Laplace(1.0), 0.1).group(2), "remove"),
    "fixed size, zeroed out": (dp.FixedSizeSampled(dp.DiscreteLaplace(1.0), 1, 4), "replace_special"),
}
"""Runs that the checker proves at full width, with a relation."""


def certificates(name: str) -> list[str]:
    run, relation = RUNS[name]
    return [
        run.certificate(delta=1e-4, neighbors=relation).to_json(),
        run.certificate(epsilon=0.7, neighbors=relation).to_json(),
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ("few steps", "many sampled Laplace"))) for name in RUNS],
)
def test_both_ends_of_an_answer_are_verified(name):
    for text in certificates(name):
        assert verify.check(text), verify.explain(text)


def test_losses_beyond_a_table_that_is_cut_are_verified():
    text = dp.DiscreteGaussian(0.5661220763409712, 9).certificate(delta=1e-8, neighbors="add").to_json()
    assert verify.check(text), verify.explain(text)


def test_few_steps_of_an_added_record_are_verified():
    text = (S(G(2.0), 1e-6) * 8).certificate(epsilon=5e-6, neighbors="add").to_json()
    assert json.loads(text)["delta"][0] > 0
    assert verify.check(text), verify.explain(text)


def test_hundreds_of_steps_that_few_samples_include_are_verified():
    """Their delta is far above that of single steps, which the plan of the rays must not aim at."""
    text = (S(G(1.8), 1e-4) * 900).certificate(delta=1e-8, neighbors="remove").to_json()
    assert verify.check(text)


@pytest.mark.parametrize("neighbors", ["add", "remove"])
def test_losses_with_an_error_are_verified_at_the_ends_of_their_balls(neighbors):
    """The exponential of a wide ball, as Arb computes it, is too wide by a part in 10^5 of its radius."""
    given = dp.PrivacyLoss((-3.0, 2.25, 4.5), (0.04, 0.45, 0.51), loss_error=1e-9, relation="any")
    for question in ({"epsilon": 0.5}, {"delta": 1e-3}):
        text = given.certificate(neighbors=neighbors, **question).to_json()
        assert verify.check(text), verify.explain(text)


@pytest.mark.parametrize("step", [dp.RandomizedResponse(0.2, 6), dp.DiscreteGaussian(2.0)])
def test_many_steps_whose_losses_are_points_of_one_lattice_are_verified(step):
    text = (step * 400).certificate(delta=1e-6, neighbors="remove").to_json()
    assert verify.check(text), verify.explain(text)


def test_many_steps_of_sampled_integers_are_verified_to_a_part_in_ten_million():
    text = (S(dp.DiscreteGaussian(1.5), 0.05) * 2000).certificate(epsilon=0.7).to_json()
    plain = json.loads(text)
    low, high = plain["delta"]
    assert verify.check(json.dumps({**plain, "delta": [low, high * (1 + 1e-7)]}))
    assert not verify.check(json.dumps({**plain, "delta": [0.0, low * (1 - 1e-6)]}))


def test_a_pair_whose_least_losses_are_close_has_a_lattice_that_is_not_finer_than_its_points():
    text = (S(dp.DiscreteGaussian(0.5), 0.002) * 1000).certificate(delta=1e-6, neighbors="remove").to_json()
    plain = json.loads(text)
    low, high = plain["epsilon"]
    assert verify.check(json.dumps({**plain, "epsilon": [low * 0.98, high * 1.001]}))


@pytest.mark.parametrize("spacing", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("name", ["sampled integers", "sampled Laplace", "sampled Gaussian", "three steps", "answers",
                                  "reversed"])  # fmt: skip
def test_distributions_on_points_have_curves_on_either_side_of_the_pair_s_own(name, spacing):
    """The curve of masses w at losses y is the sum of w (1 - e^{eps - y})_+, and the pair has a formula of its own."""
    share = verify.Fraction(1, 20)
    sampled = verify.Sampled(verify.Laplacian(verify.Fraction(3, 4)), share)
    integers = verify._build_verified_discrete_gaussian_atoms(verify.Fraction(3, 4), 1)
    pair = {
        "sampled integers": integers.sample_verified_pair(share),
        "sampled Laplace": sampled,
        "sampled Gaussian": verify.NormalMixtures(((verify.Fraction(0), 1 - share), (verify.Fraction(2), share)),
                                                  verify.ZERO_SHIFT),
        "three steps": integers.sample_verified_pair(share).join_verified_steps(3),
        "answers": verify._build_verified_randomized_response_atoms(verify.Fraction(1, 3), 4),
        "reversed": sampled.reverse_verified_pair(),
    }[name]  # fmt: skip
    arb = verify.arb
    with_precision, verify.ctx.prec = verify.ctx.prec, 200
    try:
        ends = verify.choose_certificate_grid_range(pair, 60)
        epsilons = [ends[0] + (ends[1] - ends[0]) * i / 40 for i in range(1, 40)]
        for high, build in ((True, verify.build_upper_verified_grid), (False, verify.build_lower_verified_grid)):
            plan = verify.VerifiedGridPlan(arb(spacing), 120, 80, high)
            law, origin = build(pair, plan, verify.plan_verified_grid_layout(plan, arb(0.001), ends, arb(1), 1e-3))
            points = [(origin + plan.h * (law.start + i), arb(mass) / 2**120)
                      for i, mass in enumerate(law.masses.coeffs()) if mass]  # fmt: skip
            assert sum(w for _, w in points) + law.infinity < 1 + arb(1e-20)
            for epsilon in epsilons:
                curve = sum((w * (1 - (epsilon - y).exp()) for y, w in points if y > epsilon), arb(0)) + law.infinity
                own = pair.evaluate_curve_ball(arb(epsilon))
                assert curve > own - 1e-30 if high else curve < own + 1e-30
                assert abs(curve - own) < spacing
    finally:
        verify.ctx.prec = with_precision


@pytest.mark.parametrize("steps", [5, 6])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_lattice_of_steps_that_are_joined_is_on_either_side_of_the_sum_over_all_outputs(steps, reverse):
    """Steps of two losses: the number of steps with the larger one has a binomial distribution."""
    mp, verify.ctx.prec = pytest.importorskip("mpmath").mp, 200
    q = verify.Fraction(1, 10)
    pair = verify._build_verified_response_atoms(verify.Fraction(1)).sample_verified_pair(q)
    run = {pair.reverse_verified_pair() if reverse else pair: steps}
    with mp.workdps(40):
        likely = 1 / (1 + mp.exp(-1))
        r = [1 - likely, likely]
        p = [mp.mpf(9) / 10 * b + a / 10 for a, b in zip([likely, 1 - likely], r, strict=True)]
        p, r = (r, p) if reverse else (p, r)
        outcomes = [[mp.binomial(steps, j) * side[0] ** j * side[1] ** (steps - j) for j in range(steps + 1)]
                    for side in (p, r)]  # fmt: skip
        for epsilon in (0.0, 0.05, 0.2):
            truth = verify.to_ball(verify.Fraction(mp.nstr(curve_of(*outcomes, mp.exp(mp.mpf(epsilon))), 35)))
            for high in (True, False):
                found = verify.compose_certificate_on_grid(run, verify.arb(epsilon), 2**12, float(truth), high)
                end = found.upper() if high else found.lower()
                assert end > truth * (1 - verify.arb(1e-20)) if high else end < truth * (1 + verify.arb(1e-20))
                assert abs(end / truth - 1) < 1e-3


def test_masses_above_a_loss_lift_it_to_its_point_and_no_less_than_that():
    plan, fmpz = verify.VerifiedGridPlan(verify.arb(0.01), 40, 40, False), verify.fmpz
    done = [fmpz(0), fmpz(50), fmpz(0), fmpz(10**6)]
    taken = plan.take_verified_masses_above(0, verify.arb(3), done, [1, 3])
    assert taken[1] == 50
    gains = {j: 1 - math.exp(-0.01 * j) for j in taken}
    assert 3 <= sum(int(part) * gains[j] for j, part in taken.items()) < 3 + 0.04
    assert not plan.take_verified_masses_above(0, verify.arb(3), done, [1])
    assert set(plan.take_verified_masses_above(0, verify.arb(300), done, [1, 3])) == {3}


def test_losses_beyond_the_largest_one_of_a_mixture_have_no_mass_above_them():
    verify.ctx.prec = 180
    pair = verify.NormalMixtures(((verify.Fraction(0), verify.Fraction(1)),),
                                 ((verify.Fraction(-5), verify.Fraction(1, 40)),
                                  (verify.Fraction(0), verify.Fraction(39, 40))))  # fmt: skip
    largest = pair.compute_verified_extreme_loss_balls()[1]
    for beyond in (0.0, 1e-13, 1e-5, 1e-3, 1.0):
        assert all(tail < 1e-9 for tail in pair.compute_verified_tail_balls(largest + beyond))


def test_losses_beyond_the_least_one_of_a_mixture_have_all_of_the_mass_above_them():
    p = verify.Fraction(1, 20)
    pair = verify.NormalMixtures(((verify.Fraction(0), p), (verify.Fraction(4), 1 - p)), verify.ZERO_SHIFT)
    for y in (-3.1, -100.0):  # the least loss is ln(1/20) = -2.9957
        above, _ = pair.compute_verified_tail_balls(verify.arb(y))
        assert above > 1 - 1e-9 and above < 1 + 1e-9


@pytest.mark.parametrize("name", ["Laplace", "sampled Laplace", "added", "bounded range", "Gaussian"])
def test_a_transform_decays_at_least_as_fast_as_it_is_said_to(name):
    noise = verify.Laplacian(verify.Fraction(3, 4))
    pair = {
        "Laplace": noise,
        "sampled Laplace": verify.Sampled(noise, verify.Fraction(1, 10)),
        "added": verify.Sampled(noise, verify.Fraction(1, 10)).reverse_verified_pair(),
        "bounded range": verify.Envelope(verify.Fraction(1, 2)),
        "Gaussian": verify.Normal(verify.Fraction(1, 3)),
    }[name]
    for c in (0.3, 4.0, 40.0):
        whole, bound = pair.compute_verified_moment_ball(verify.acb(c)).real, pair.bound_decay_by_ball(c, 100)
        for t in (0.1, 1.0, 7.0, 31.0, 1000.0):
            for s in (t, 1.3 * t, 10 * t):
                assert abs(pair.compute_verified_moment_ball(verify.acb(c, s))) / whole < bound(t) * (1 + 1e-9)


def test_a_decay_is_bounded_where_weighted_densities_exceed_all_doubles():
    """A mixture of one Gaussian: the loss is normal of deviation 5, and its weighted density is up to e^1375."""
    pair = verify.NormalMixtures(((verify.Fraction(5), verify.Fraction(1)),), verify.ZERO_SHIFT)
    bound = pair.bound_decay_by_ball(10.0, 256)
    for t in (0.01, 0.1, 0.4, 2.0):
        assert math.exp(-((5 * t) ** 2) / 2) < bound(t) * (1 + 1e-12)
    assert bound(0.4) < 1  # it says something


SAMPLED = [
    dp.Gaussian(0.1),
    dp.Laplace(0.1),
    dp.DiscreteLaplace(0.2, 3),
    dp.DiscreteGaussian(0.3),
    dp.DiscreteGaussianVector(0.3, 1.5, 3),
    dp.PureDP(5.0),
    dp.ApproximateDP(5.0, 0.1),
    dp.BoundedRange(5.0),
    dp.ZCDP(5.0),
]


@pytest.mark.parametrize(
    "relation",
    ["remove", "replace_special", *(pytest.param(one, marks=pytest.mark.slow) for one in ("add", "replace"))],
)
@pytest.mark.parametrize("inner", SAMPLED, ids=repr)
def test_no_delta_at_epsilon_0_exceeds_the_probability_that_the_record_is_drawn(inner, relation):
    """The outputs have the same law unless the record is drawn."""
    for sampled in (
        dp.PoissonSampled(inner, 0.3),
        dp.FixedSizeSampled(inner, 3, 10),
        dp.TruncatedPoissonSampled(inner, 0.3, 3, 10),
    ):
        try:
            plain = json.loads((sampled * 1).certificate(epsilon=0.0, neighbors=relation).to_json())
        except ValueError as error:
            assert "neighbors must be" in str(error)
            continue
        claim = verify.read_certificate(json.dumps({**plain, "delta": [0.3 * (1 + 1e-9), 1.0]}))
        with contextlib.suppress(verify.Unverified):
            assert not verify.verify_certificate_end(claim, high=False, nearby=False).proved


def test_moments_of_sampled_laplace_noise_are_those_of_its_density():
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(30):
        mu, q, z = mp.mpf(3) / 4, mp.mpf(1) / 10, mp.mpc(2.5, 3)

        def integrand(x):  # noise around 0, and the ratio of the densities around mu and 0
            return mp.exp(-abs(x)) / 2 * (1 - q + q * mp.exp(abs(x) - abs(x - mu))) ** (1 + z)

        truth = mp.quad(integrand, [-mp.inf, 0, mu / 2, mu, mp.inf])
        found = verify.Sampled(
            verify.Laplacian(verify.Fraction(3, 4)), verify.Fraction(1, 10)
        ).compute_verified_moment_ball(verify.acb(2.5, 3))
        assert abs(complex(found.mid()) - complex(truth)) < 1e-12 * abs(truth)


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0])
def test_a_kernel_with_added_noise_is_above_its_own_by_at_most_the_density_that_is_taken_off(mu):
    """The inequality of section 3, with the integral of the kernel over the normal loss."""
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(30):
        mu = mp.mpf(mu)
        for s in (-3, -1, -0.01, 0, 0.01, 0.5, 1, 3):
            s = s * mu
            raised = mp.quad(lambda z, s=s: -mp.expm1(-s - z) * mp.npdf(z, mu**2 / 2, mu), [-s, mu**2, 9 * mu + mu**2])
            density = mp.npdf(-s, mu**2 / 2, mu)
            gap = raised - max(-mp.expm1(-s), 0)
            assert -1e-12 < gap <= mu**2 * mp.exp(mu**2 / 8) * density + 1e-12


@pytest.mark.parametrize("bits", [18, 28, 31])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_smoothed_transform_is_on_either_side_of_the_sum_over_all_outputs(reverse, bits):
    """Steps of two losses: the sum over how many steps have which one is exact."""
    pair = verify._build_verified_response_atoms(verify.Fraction(1)).sample_verified_pair(verify.Fraction(1, 10))
    run = {pair.reverse_verified_pair() if reverse else pair: 60}
    for epsilon in (0.0, 0.4, 1.0):
        verify.ctx.prec = 200
        truth = verify.sum_verified_outcome_balls(run, None, verify.arb(epsilon))
        low, high = verify.invert_verified_transform(run, verify.arb(epsilon), bits, float(truth), True)
        assert low < truth < high
        assert high - low < truth * 2.0 ** (12 - bits)


@pytest.mark.parametrize("count", [1000, 9000])
def test_points_that_a_smoothed_sum_leaves_out_are_below_their_bound(count):
    """The tilted transform of one step, at every point that is left out."""
    pair = verify._build_verified_discrete_gaussian_atoms(verify.Fraction(3, 2), 1).sample_verified_pair(
        verify.Fraction(1, 20)
    )
    verify.WORK.reset_certificate_work(math.inf)
    plan = verify.plan_verified_inversion({pair: count}, verify.arb(0.5), 30, True)
    ranges, bound = verify.skip_verified_points(pair, count, plan)
    left = set(range(plan.n)).difference(*ranges)
    assert ranges[0].start == 0 and sum(map(len, ranges)) + len(left) == plan.n
    assert len(left) > plan.n / 3
    atoms = [(float(p) * math.exp(plan.c * float(y)), float(y)) for y, p in pair.build_atom_balls().atoms]
    masses, losses = np.array(atoms).T
    t = plan.h * np.array(sorted(left))
    phi = np.concatenate([np.abs(np.exp(1j * np.outer(some, losses)) @ masses) for some in np.array_split(t, 100)])
    mu2 = float(plan.added)
    total = np.sum((phi / masses.sum()) ** count * (1 / t**2 + mu2 * math.exp(mu2 / 8)))
    assert 0 < total <= float(bound) * (1 + 1e-9)


def curve_of_laplace(mp, mu, e):
    return mp.mpf(0) if e >= mu else 1 - (mp.exp((e - mu) / 2) if e > -mu else mp.exp(e))


def curve_of_range(mp, eta, e):
    middle = (1 - mp.exp((min(max(e, -eta), eta) - eta) / 2)) ** 2 / (1 - mp.exp(-eta))
    return middle if e > -eta else 1 - mp.exp(e)


@pytest.mark.parametrize("other", ["Laplace", "range"])
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.2])
def test_two_steps_of_laplace_noise_have_the_integral_of_one_s_curve(other, epsilon):
    """The loss of the first step is mu, or -mu, or has the density e^{(y - mu)/2}/4 between them."""
    mp, verify.ctx.prec = pytest.importorskip("mpmath").mp, 200
    with mp.workdps(40):
        mu, width, e = mp.mpf(3) / 4, mp.mpf(1) / 2, mp.mpf(epsilon)
        curve, far = (curve_of_laplace, mu) if other == "Laplace" else (curve_of_range, width)
        edges = [-mu, *(y for y in sorted((e - far, e + far)) if -mu < y < mu), mu]
        truth = mp.quad(lambda y: mp.exp((y - mu) / 2) / 4 * curve(mp, far, e - y), edges)
        truth += curve(mp, far, e - mu) / 2 + mp.exp(-mu) / 2 * curve(mp, far, e + mu)
        noise = verify.Laplacian(verify.Fraction(3, 4))
        second = noise if other == "Laplace" else verify.Envelope(verify.Fraction(1, 2))
        run = ((noise, 2),) if second == noise else ((noise, 1), (second, 1))
        found = verify.LaplaceSteps(run).evaluate_curve_ball(verify.arb(epsilon))
        assert found.rad() < 1e-30
        assert abs(mp.mpf(found.mid().str(40, radius=False)) - truth) < mp.mpf(10) ** -30


def test_losses_with_an_error_beside_a_wide_range_have_a_lattice_of_mass_1():
    """The curve at epsilon = -20 is 1 - e^{-20}, as no loss is below."""
    verify.WORK.reset_certificate_work(math.inf)
    part = verify.Fraction
    losses, masses = [part(-1, 6), part(1, 6)], [part(9, 20), part(11, 20)]
    entry = {"losses": losses, "mirrored": False, "loss_error": part(1, 10**15)}
    given = verify._build_verified_given_atoms(entry, (losses, masses, part(0)), None)
    wide = verify.NormalMixtures(((part(0), part(1, 3)), (part(3), part(2, 3))), verify.ZERO_SHIFT)
    found = verify.compose_certificate_on_grid({wide: 1, given: 1}, verify.arb(-20), 2**12, 0.5, True)
    assert 1 - math.exp(-20) - 1e-9 < found.upper() < 1 + 1e-9


def is_bounded_by(mechanism, count, delta, high, epsilon, neighbors):
    """Tells whether lattices of at most 2^16 points prove an end of delta."""
    plain = json.loads(write_delta(mechanism, *((0.0, delta) if high else (delta, 1.0)), epsilon, neighbors))
    plain["composition"][0][1] = count
    claim = verify.read_certificate(json.dumps(plain))
    verify.WORK.reset_certificate_work(math.inf)
    return verify.verify_certificate_end(claim, high, nearby=False, points=2**16).proved


@pytest.mark.parametrize("high", [True, False])
def test_a_run_below_0_is_verified_at_the_scale_of_the_reversed_run(high):
    """At epsilon = -1 delta is 1 - 1/e and what the reversed run has at 1, which is below 1e-11."""
    mechanism = {"type": "PoissonSampled", "mechanism": {"type": "Gaussian", "noise_multiplier": 1.6},
                 "sampling_probability": 2e-6}  # fmt: skip
    delta = -math.expm1(-1)
    near, false = (delta + 1e-11, delta * (1 - 1e-9)) if high else (delta - 1e-15, delta * (1 + 1e-9))
    assert is_bounded_by(mechanism, 18, near, high, -1.0, "replace")
    assert not is_bounded_by(mechanism, 18, false, high, -1.0, "replace")


def test_sampled_laplace_noise_in_few_steps_is_verified_from_below():
    """The upper end of the engine is above the truth by a part in ten million."""
    run = S(dp.Laplace(4.0), 0.4) * 6
    low, high = json.loads(run.certificate(epsilon=0.6, neighbors="remove").to_json())["delta"]
    mechanism = {"type": "PoissonSampled", "mechanism": {"type": "Laplace", "noise_multiplier": 4.0},
                 "sampling_probability": 0.4}  # fmt: skip
    assert is_bounded_by(mechanism, 6, low * (1 - 1e-6), False, 0.6, "remove")
    assert not is_bounded_by(mechanism, 6, high * (1 + 1e-9), False, 0.6, "remove")


@pytest.mark.parametrize("pair", [verify.Laplacian(verify.Fraction(1, 3)), verify.Envelope(verify.Fraction(1, 3))])
def test_many_steps_of_laplace_noise_have_what_their_transform_says(pair):
    verify.WORK.reset_certificate_work(math.inf)
    found = list(verify.list_verified_delta_proofs({pair: 300}, verify.Fraction(30), 1e-6, True, 2**20))[-1]
    low, high = verify.invert_verified_transform({pair: 300}, verify.arb(30), 50, 1e-6)
    assert "formula" in found[2] and low < found[0] and found[1] < high
    assert high - low < 1e-12 * high


def test_a_replaced_record_of_sampled_laplace_noise_attains_the_pair_of_two_opposite_shifts():
    """Delta by the integral of two densities: noise around 0, mu and -mu."""
    mp = pytest.importorskip("mpmath").mp
    pair = verify.OppositeLaplacians(verify.Fraction(3, 4), verify.Fraction(1, 5))
    with mp.workdps(40):
        mu, q = mp.mpf(3) / 4, mp.mpf(1) / 5

        def density(u, shift):
            return ((1 - q) * mp.exp(-abs(u)) + q * mp.exp(-abs(u - shift))) / 2

        for epsilon in (-0.2, -0.05, 0.0, 0.05, 0.2):
            x, verify.ctx.prec = mp.exp(mp.mpf(epsilon)), 200
            behind = 1 - q + q * mp.exp(-mu)
            edge = (mu + mp.log((mp.exp(abs(mp.mpf(epsilon))) * behind - 1 + q) / q)) / 2
            edge = edge if epsilon >= 0 else -edge
            parts = [edge, *(u for u in (-mu, mp.mpf(0), mu) if u > edge), mp.inf]
            truth = mp.quad(lambda u, x=x: density(u, mu) - x * density(u, -mu), parts)
            found = pair.evaluate_curve_ball(verify.arb(epsilon))
            assert found.rad() < 1e-30
            assert abs(mp.mpf(found.mid().str(40, radius=False)) - truth) < mp.mpf(10) ** -30
        mechanism = {"type": "PoissonSampled", "mechanism": {"type": "Laplace", "noise_multiplier": 4 / 3},
                     "sampling_probability": 0.2}  # fmt: skip
    truth = float(verify.OppositeLaplacians(1 / verify.Fraction(4 / 3), verify.Fraction(0.2)).evaluate_curve_ball(
        verify.arb(0.125)).mid())  # fmt: skip
    assert verify.check(write_delta(mechanism, truth * (1 - 1e-12), 1.0, 0.125, "replace"))
    assert not verify.check(write_delta(mechanism, truth * (1 + 1e-9), 1.0, 0.125, "replace"))


def test_a_pair_whose_losses_are_all_faint_is_smoothed():
    """A failure of probability close to 1 hides nearly all of a part, and delta is nearly 1."""
    parts = [[{"type": "Laplace", "noise_multiplier": 1.0}, 3],
             [{"type": "ApproximateDP", "epsilon": 1.0, "delta": 1 - 2e-8}, 1]]  # fmt: skip
    plain = {"format": verify.FORMAT, "version": 1, "composition": parts, "neighbors": "remove", "epsilon": 0.5}
    assert verify.check(json.dumps({**plain, "delta": [0.9, 0.999999990968326]}))
    assert not verify.check(json.dumps({**plain, "delta": [0.9, 1 - 2e-8]}))


def test_replaced_records_of_samples_with_integer_noise_have_the_pair_of_two_opposite_shifts():
    """Delta by enumeration of the integers: noise around 0, 2 and -2."""
    mp = pytest.importorskip("mpmath").mp
    q, x = mp.mpf(0.25), mp.exp(mp.mpf(1) / 4)
    for kind, name, law in (
        ("DiscreteLaplace", "scale", lambda n: mp.exp(-abs(n) / mp.mpf(1.5))),
        ("DiscreteGaussian", "sigma", lambda n: mp.exp(-(mp.mpf(n) ** 2) / mp.mpf(4.5))),
    ):
        with mp.workdps(40):
            total = sum(law(n) for n in range(-150, 151))
            p, r = ([((1 - q) * law(n) + q * law(n - shift)) / total for n in range(-150, 151)] for shift in (2, -2))
            truth = float(curve_of(p, r, x))
        mechanism = {"type": "PoissonSampled", "mechanism": {"type": kind, name: 1.5, "sensitivity": 2},
                     "sampling_probability": 0.25}  # fmt: skip
        near = write_delta(mechanism, truth * (1 - 1e-12), truth * (1 + 1e-12), neighbors="replace")
        assert verify.check(near), verify.explain(near)
        assert not verify.check(write_delta(mechanism, 0.0, truth * (1 - 1e-9), neighbors="replace"))
        assert not verify.check(write_delta(mechanism, truth * (1 + 1e-9), 1.0, neighbors="replace"))


def moved(text: str, end: int, factor: float) -> str:
    plain = json.loads(text)
    asked = "epsilon" if isinstance(plain["epsilon"], list) else "delta"
    ends = plain[asked]
    ends[end] *= factor
    ends[1 - end] = max(ends) if end == 0 else min(ends)  # the other end makes way
    return json.dumps(plain)


@pytest.mark.parametrize("name", ["DP-SGD", "replaced", "little", "Gaussians", "pure"])
def test_an_end_that_is_moved_past_the_truth_is_not_verified(name):
    for text in certificates(name):
        plain = json.loads(text)
        low, high = plain["epsilon"] if isinstance(plain["epsilon"], list) else plain["delta"]
        if high - low <= 5e-10 * high:  # the truth is within 1e-9 of both
            assert not verify.check(moved(text, 1, 1 - 1e-9))
            assert not verify.check(moved(text, 0, 1 + 1e-9))


@pytest.mark.slow
def test_ends_past_a_truth_of_high_precision_are_not_verified():
    """Truths by 40-digit integrals and formulas of their own: see each line."""
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(40):
        truths = [
            # Laplace noise: 1 - e^{(eps - mu)/2}
            ([[{"type": "Laplace", "noise_multiplier": 1.0}, 1]], 0.25, 1 - mp.exp((mp.mpf(0.25) - 1) / 2)),
            # Gaussian noise: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)
            (
                [[{"type": "Gaussian", "noise_multiplier": 0.5}, 1]],
                2.0,
                mp.ncdf(1 - mp.mpf(1)) - mp.exp(2) * mp.ncdf(-1 - mp.mpf(1)),
            ),
        ]
        # A Poisson sample of Gaussian noise, removed, beside Gaussian noise: the integral over the first output of the
        # second one's curve.
        q, sigma, eps, mu = mp.mpf(0.25), mp.mpf(2), mp.mpf(1) / 2, mp.mpf(1) / mp.mpf(1.5)

        def integrand(x):
            density = (1 - q) * mp.npdf(x, 0, sigma) + q * mp.npdf(x, 1, sigma)
            left = eps - mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2)))
            return density * (mp.ncdf(mu / 2 - left / mu) - mp.exp(left) * mp.ncdf(-mu / 2 - left / mu))

        beside = mp.quad(integrand, [-30, -15, -8, -4, 0, 4, 8, 15, 30])
        step = {"type": "PoissonSampled", "mechanism": {"type": "Gaussian", "noise_multiplier": 2.0},
                "sampling_probability": 0.25}  # fmt: skip
        truths.append(([[step, 1], [{"type": "Gaussian", "noise_multiplier": 1.5}, 1]], 0.5, beside))
        # Two steps of a small sampling probability: the integral over the output of the first one.
        q, sigma, eps = mp.mpf(1e-4), mp.mpf(1), mp.mpf(1) / 4

        def loss(x):
            return mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2)))

        def one_step(e):  # the outputs of a greater loss, under both
            if mp.exp(e) <= 1 - q:
                return 1 - mp.exp(e)
            x = sigma**2 * mp.log((mp.exp(e) - 1 + q) / q) + mp.mpf(1) / 2
            there, without = mp.ncdf((1 - x) / sigma), mp.ncdf(-x / sigma)
            return q * there + (1 - q) * without - mp.exp(e) * without

        def next_step(x):
            density = (1 - q) * mp.npdf(x, 0, sigma) + q * mp.npdf(x, 1, sigma)
            return density * one_step(eps - loss(x))

        edge = sigma**2 * mp.log((mp.exp(eps - mp.log(1 - q)) - 1 + q) / q) + mp.mpf(1) / 2
        points = sorted([-12, -8, -4, 0, 2, 4, 6, 7, 8, edge - 1, edge - mp.mpf(1) / 4, edge, edge + 1, edge + 4, 20])
        step = {"type": "PoissonSampled", "mechanism": {"type": "Gaussian", "noise_multiplier": 1.0},
                "sampling_probability": 1e-4}  # fmt: skip
        truths.append(([[step, 2]], 0.25, mp.quad(next_step, points)))
    for composition, epsilon, truth in truths:
        plain = {"format": "tightdp certificate", "version": 1, "composition": composition, "neighbors": "remove",
                 "epsilon": epsilon}  # fmt: skip

        def is_verified(low, high, plain=plain):
            return verify.check(json.dumps({**plain, "delta": [low, high]}))

        value = float(truth)
        assert is_verified(value * (1 - 1e-9), value * (1 + 1e-9)), verify.explain(
            json.dumps({**plain, "delta": [value * (1 - 1e-9), value * (1 + 1e-9)]})
        )
        assert not is_verified(0.0, value * (1 - 1e-9))
        assert not is_verified(value * (1 + 1e-9), 1.0)


def curve_of(p, q, epsilon):
    """Returns the hockey-stick divergence of two lists of probabilities."""
    return sum(max(a - b * epsilon, 0) for a, b in zip(p, q, strict=True))


def write_delta(mechanism, low, high, epsilon=0.25, neighbors="remove"):
    """Returns the text of a certificate of one mechanism."""
    return json.dumps({"format": "tightdp certificate", "version": 1, "composition": [[mechanism, 1]],
                       "neighbors": neighbors, "epsilon": epsilon, "delta": [low, high]})  # fmt: skip


def list_exact_mechanisms():
    """Yields mechanisms as plain values with delta at epsilon = 1/4 under "remove", by enumeration at 40 digits."""
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(40):
        x = mp.exp(mp.mpf(1) / 4)
        # Losses that are given: P and Q by hand.
        y = [-0.5, 0.75]
        p = [mp.mpf(0.25), mp.mpf(0.5)]
        q = [a * mp.exp(-mp.mpf(b)) for a, b in zip(p, y, strict=True)]
        given = {"type": "PrivacyLoss", "losses": y, "probabilities": [0.25, 0.5], "infinity": 0.25,
                 "minus_infinity": float(1 - sum(q)), "relation": "any", "mirrored": False, "loss_error": 0.0,
                 "optimistic": None}  # fmt: skip
        yield given, curve_of([*p, mp.mpf(0.25)], [*q, mp.mpf(0)], x)
        # Two of three steps, drawn at random: the outputs of all steps, for each draw.
        right = 1 / (1 + mp.exp(-1))
        there, without = {0: right, 1: 1 - right}, {0: 1 - right, 1: right}
        outputs = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
        draws = [(True, True, False), (True, False, True), (False, True, True)]
        ps, qs = [], []
        for output in outputs:
            of_draws = (
                mp.fprod((there if chosen else without)[o] for o, chosen in zip(output, draw, strict=True))
                for draw in draws
            )
            ps.append(sum(of_draws) / 3)
            qs.append(mp.fprod(without[o] for o in output))
        allocation = {"type": "RandomAllocation", "mechanism": {"type": "PureDP", "epsilon": 1.0}, "steps": 3,
                      "selected": 2}  # fmt: skip
        yield allocation, curve_of(ps, qs, x)


def test_enumerated_truths_are_verified_and_what_is_past_them_is_not():
    for mechanism, truth in list_exact_mechanisms():
        value = float(truth)
        near = write_delta(mechanism, value * (1 - 1e-12), value * (1 + 1e-12))
        assert verify.check(near), verify.explain(near)
        assert not verify.check(write_delta(mechanism, 0.0, value * (1 - 1e-9)))
        assert not verify.check(write_delta(mechanism, value * (1 + 1e-9), 1.0))


@pytest.mark.parametrize(
    "change",
    [
        {"minus_infinity": 0.9},
        {"mirrored": True},
        {"optimistic": [[0.75], [1.0], 0.0]},
        {"losses": [-2.0, 0.75]},
    ],
)
def test_given_losses_that_contradict_each_other_are_not_verified(change):
    given = {"type": "PrivacyLoss", "losses": [-0.5, 0.75], "probabilities": [0.25, 0.75], "infinity": 0.0,
             "minus_infinity": 0.0, "relation": "any", "mirrored": False, "loss_error": 0.0,
             "optimistic": None}  # fmt: skip
    assert verify.check(write_delta(given, 0.0, 1 - 1e-6))
    text = write_delta({**given, **change}, 0.0, 1 - 1e-6)
    assert not verify.check(text)
    assert "not verified: " in verify.explain(text)


def test_an_interval_that_holds_for_every_run_states_nothing():
    """It is true, so it is verified, and ``explain`` says in plain words that it is empty."""
    head = {"format": "tightdp certificate", "version": 1, "neighbors": "remove",
            "composition": [[{"type": "Gaussian", "noise_multiplier": 1.0}, 1]]}  # fmt: skip
    for asked, empty in (
        ({"delta": 0.0, "epsilon": [0.0, "inf"]}, True),
        ({"delta": 0.5, "epsilon": [0.0, 3.0]}, False),
        ({"epsilon": 1.0, "delta": [0.0, 1.0]}, True),
        ({"epsilon": 1.0, "delta": [0.0, 0.5]}, False),
    ):
        text = json.dumps({**head, **asked})
        assert verify.check(text), asked
        assert ("the interval states nothing: every run has" in verify.explain(text)) is empty, asked


@pytest.mark.parametrize("neighbors", ["replace", "replace_special", "remove"])
@pytest.mark.parametrize("sample", [
    {"type": "FixedSizeSampled", "sample_size": 1, "dataset_size": 2},
    {"type": "TruncatedPoissonSampled", "sampling_probability": 0.5, "batch_size": 1, "dataset_size": 2},
])  # fmt: skip
def test_given_losses_in_samples_that_others_fill_are_not_verified(sample, neighbors):
    """Below, a mechanism of the table is perfectly private; and who fills the record's place is not given."""
    p = 1 / (1 + math.exp(2.0))
    given = {"type": "PrivacyLoss", "losses": [-2.0, 2.0], "probabilities": [p, 1 - p], "infinity": 0.0,
             "minus_infinity": 0.0, "relation": "any", "mirrored": True, "loss_error": 0.0,
             "optimistic": [[0.0], [1.0], 0.0]}  # fmt: skip
    text = write_delta({**sample, "mechanism": given}, 0.2, 1.0, neighbors=neighbors)
    assert not verify.check(text), verify.explain(text)


def test_a_probability_that_is_no_number_is_not_verified_and_is_no_crash():
    with pytest.raises(verify.Unverified, match="cannot be enclosed"):
        verify._bound_share_by_ball(verify.arb("nan"))


def test_a_sample_of_fixed_size_has_the_lower_end_of_a_member_and_no_more():
    """A Gaussian of the class, replaced in every second sample, moves by twice its sensitivity."""
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(40):
        x = mp.exp(mp.mpf(1) / 4)
        u = mp.log(2 * x - 1) / 2 + 1  # 1/2 + 1/2 e^{2u - 2} = x
        truth = float((mp.ncdf(-u) + mp.ncdf(2 - u)) / 2 - x * mp.ncdf(-u))
    sample = {"type": "FixedSizeSampled", "mechanism": {"type": "ZCDP", "rho": 0.5, "xi": 0.0}, "sample_size": 1,
              "dataset_size": 2}  # fmt: skip
    good = write_delta(sample, truth * (1 - 1e-9), 1.0, neighbors="replace")
    assert verify.check(good), verify.explain(good)
    assert not verify.check(write_delta(sample, truth * (1 + 1e-9), 1.0, neighbors="replace"))


def test_a_tiny_claim_and_a_group_of_nothing_are_explained():
    text = write_delta({"type": "Gaussian", "noise_multiplier": 1.0}, 0.0, 5e-324)
    assert "not verified" in verify.explain(text)
    empty = {"type": "Group", "mechanism": {"type": "Composition", "parts": []}, "size": 2}
    assert verify.check(write_delta(empty, 0.0, 0.0))


def test_an_epsilon_of_nothing_is_verified_by_the_total_variation_distance():
    text = (S(G(1.5), 1e-4) * 4).certificate(delta=0.02, neighbors="add").to_json()
    assert json.loads(text)["epsilon"] == [0.0, 0.0]
    assert verify.check(text)
    # TV of the two steps is at least that of one: q (2 Phi(1/2) - 1) = .0383
    step = {"type": "PoissonSampled", "mechanism": {"type": "Gaussian", "noise_multiplier": 1.0},
            "sampling_probability": 0.1}  # fmt: skip
    assert not verify.check(write_delta(step, 0.0, 0.038, epsilon=0.0))
    assert verify.check(write_delta(step, 0.0, 0.0383, epsilon=0.0))


def test_a_group_is_verified_at_the_value_that_its_class_attains_and_not_below():
    """The event of probability p has at most g(p) under the next data set, g(p) = min(E p, 1 - (1 - p)/E), E = e^.5."""
    mp = pytest.importorskip("mpmath").mp
    group = {"type": "Group", "mechanism": {"type": "PureDP", "epsilon": 0.5}, "size": 2}
    with mp.workdps(40):
        e = mp.exp(mp.mpf(1) / 2)

        def g(p):
            return min(e * p, 1 - (1 - p) / e)

        kinks = [1 / (1 + e), 1 / (e * (1 + e)), 1 - e / (1 + e) * e]
        truth = max(g(g(p)) - mp.exp(mp.mpf(1) / 4) * p for p in kinks if 0 <= p <= 1)
    assert verify.check(write_delta(group, 0.0, float(truth) * (1 + 1e-12)))
    assert not verify.check(write_delta(group, 0.0, float(truth) * (1 - 1e-9)))


def test_an_upper_end_below_a_member_s_delta_is_not_verified():
    """Members by 40-digit formulas: a Gaussian of the class, Poisson samples, draws if all others are alike."""
    mp = pytest.importorskip("mpmath").mp
    gaussian = {"type": "Gaussian", "noise_multiplier": 1.0}
    cut = {"type": "TruncatedPoissonSampled", "mechanism": gaussian, "sampling_probability": 0.5, "batch_size": 1,
           "dataset_size": 2}  # fmt: skip
    draws = {"type": "SampledWithReplacement", "mechanism": gaussian, "sample_size": 2, "dataset_size": 2}
    vector = {"type": "DiscreteGaussianVector", "sigma": 2.0, "sensitivity": 1.0, "dimensions": 2}
    with mp.workdps(40):
        x, eps = mp.exp(mp.mpf(1) / 4), mp.mpf(1) / 4

        def mixture(shares):
            """Returns delta of sum of p N(shift) against N(0), with the output of loss 1/4 by bisection."""
            ratio = lambda u: sum(p * mp.exp(a * u - a * a / 2) for a, p in shares)  # noqa: E731
            u = mp.findroot(lambda u: mp.log(ratio(u)) - eps, 1)
            return sum(p * mp.ncdf(a - u) for a, p in shares) - x * mp.ncdf(-u)

        weights = [mp.exp(-mp.mpf(n * n) / 8) for n in range(-60, 61)]
        shifted = [mp.exp(-mp.mpf((n - 1) ** 2) / 8) for n in range(-60, 61)]
        members = [
            ({"type": "ZCDP", "rho": 0.5, "xi": 0.0}, "remove", mixture([(1, mp.mpf(1))])),
            # drawn with 1/2, and kept with 1/2 if the other one is drawn too
            (cut, "remove", mixture([(0, mp.mpf(5) / 8), (1, mp.mpf(3) / 8)])),
            (draws, "replace", mixture([(0, mp.mpf(1) / 4), (2, mp.mpf(1) / 2), (4, mp.mpf(1) / 4)])),
            (vector, "remove", curve_of(shifted, weights, x) / sum(weights)),
        ]
    for mechanism, neighbors, truth in members:
        assert not verify.check(write_delta(mechanism, 0.0, float(truth) * (1 - 1e-9), neighbors=neighbors))
        good = write_delta(mechanism, float(truth) * (1 - 1e-9), 1.0, neighbors=neighbors)
        assert verify.check(good), verify.explain(good)


def test_a_group_is_no_larger_than_its_data_set():
    """No such group exists, and the library makes no certificate of one."""
    sample = {"type": "FixedSizeSampled", "mechanism": {"type": "PureDP", "epsilon": 1.0}, "sample_size": 1,
              "dataset_size": 4}  # fmt: skip
    for inner in (sample, {"type": "Group", "mechanism": sample, "size": 2}):
        most = 4 if inner is sample else 2
        for size in (most, most + 1):
            text = write_delta({"type": "Group", "mechanism": inner, "size": size}, 0.0, 1.0, neighbors="replace")
            assert verify.check(text) == (size == most), verify.explain(text)


def check_changes(name: str, most: int) -> None:
    """Verifies up to ``most`` changed copies of each certificate of a run."""
    rng = np.random.default_rng(sum(map(ord, name)))
    for text in certificates(name):
        found = list(list_certificate_changes(json.loads(text), rng))
        for i in rng.permutation(len(found))[:most]:
            if verify.verify_certificate(json.dumps(found[i]), nearby=False, points=2**12)[0]:
                assert is_possible(found[i]), found[i]


@pytest.mark.parametrize("name", ["DP-SGD", "Gaussians", "pure", "range", "answers"])
def test_a_changed_certificate_is_verified_only_if_it_is_still_true(name):
    check_changes(name, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "DP-SGD",
        "replaced",
        "Gaussians",
        "approximate",
        "range",
        "fixed size",
        "noises",
        "few steps",
        "given losses",
        "zCDP",
        "cut sample",
        "draws",
        "allocation",
    ],
)
def test_every_change_of_a_certificate_is_verified_only_if_it_is_still_true(name):
    check_changes(name, {"few steps": 4, "draws": 15}.get(name, 60))  # so that none takes over half a minute


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "{" * 10_000, '{"format": "tightdp certificate"}', "x" * 30_000, '{"a": NaN, "a": 1}'],
)
def test_other_text_is_not_verified(text):
    assert not verify.check(text)
    assert "not verified" in verify.explain(text)


def test_what_has_no_row_in_the_table_is_not_verified_and_not_called_wrong():
    text = dp.RepeatAndSelect(G(1.0), 3.0).certificate(delta=1e-5).to_json()
    assert not verify.check(text)
    assert "the table has no mechanism 'RepeatAndSelect'" in verify.explain(text)
    assert "wrong" not in verify.explain(text)


def test_an_end_beyond_the_checker_s_reach_is_verified_at_the_width_that_it_reaches():
    text = (S(dp.Laplace(1.0), 0.1) * 20).certificate(delta=1e-3, neighbors="remove").to_json()
    plain = json.loads(text)
    plain["epsilon"] = [plain["epsilon"][0] * 0.99, plain["epsilon"][1] * 1.01]
    assert verify.check(json.dumps(plain)), verify.explain(json.dumps(plain))


def test_the_checker_sees_an_engine_s_constant_that_is_off_by_a_billionth():
    """A step's noise multiplier, or its sampling probability, that an engine reads wrongly."""
    right = json.loads((S(G(1.0), 0.01) * 1000).certificate(delta=1e-5).to_json())
    for wrong in (S(G(1.0 * (1 + 1e-9)), 0.01), S(G(1.0), 0.01 * (1 - 1e-9))):
        found = json.loads((wrong * 1000).certificate(delta=1e-5).to_json())
        assert not verify.check(json.dumps({**right, "epsilon": found["epsilon"]}))


@pytest.mark.parametrize("name", ["Gaussian", "Laplace", "sampled", "pure", "range", "discrete", "tree", "answers"])
def test_the_checker_sees_a_constant_of_a_closed_form_that_is_off_by_a_billionth(name):
    """The engine reads one parameter wrongly, in either direction, and the certificate names the right one."""
    make = {
        "Gaussian": lambda x: G(2.0 * x) * 10,
        "Laplace": lambda x: dp.Laplace(2.0 * x) * 1,
        "sampled": lambda x: S(G(1.0 * x), 0.1) * 1,
        "pure": lambda x: dp.PureDP(0.1 / x) * 50,
        "range": lambda x: dp.BoundedRange(0.5 / x) * 1,
        "discrete": lambda x: dp.DiscreteGaussian(2.0 * x, 3) * 1,
        "tree": lambda x: dp.TreeAggregation(3.0 * x, 100, own_steps=True) * 1,
        "answers": lambda x: dp.RandomizedResponse(0.3 * x, 4) * 7,
    }[name]
    right = json.loads(make(1.0).certificate(epsilon=0.2).to_json())
    assert verify.check(json.dumps(right))
    for x in (1 + 1e-9, 1 - 1e-9):
        wrong = json.loads(make(x).certificate(epsilon=0.2).to_json())
        assert not verify.check(json.dumps({**right, "delta": wrong["delta"]}))


def test_the_checker_imports_nothing_of_the_library():
    tree = ast.parse(Path(verify.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules = [(node.level, node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert all(level == 0 for level, _ in modules)
    assert {name.split(".")[0] for name in (*names, *(module for _, module in modules))} <= {
        *sys.stdlib_module_names,
        "flint",
    }


def test_the_checker_runs_alone(tmp_path):
    file = tmp_path / "certificate.json"
    file.write_text((G(2.0) * 3).certificate(delta=1e-5).to_json())
    found = subprocess.run(
        [sys.executable, "-I", verify.__file__, str(file)], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.endswith("verified\n")


def test_certificates_are_small_and_read_back():
    run = sum((S(G(1 + i / 100), 0.01) * i for i in range(1, 60)), G(3.0))
    found = run.certificate(delta=1e-5)
    text = found.to_json()
    assert len(text) < 20_000
    assert dp.Certificate.from_json(text) == found
    assert found.upper == run.epsilon(1e-5).upper
    with pytest.raises(TypeError, match="either epsilon or delta"):
        run.certificate()
    with pytest.raises(TypeError, match="either epsilon or delta"):
        run.certificate(epsilon=1.0, delta=1e-5)


def test_an_infinite_end_claims_nothing():
    found = dp.ApproximateDP(0.1, 1e-3).certificate(delta=1e-6)
    assert found.upper == math.inf
    assert "nothing is claimed" in verify.explain(found.to_json())


@pytest.mark.parametrize("option", ["--model", "--ledger"])
def test_a_certificate_is_compared_with_no_model_and_no_ledger(option, tmp_path, capsys):
    """Both options were left unread, and the exit code said that all agreed."""
    from tightdp import cli

    (tmp_path / "c.json").write_text(dp.Gaussian(2.0).certificate(delta=1e-5).to_json())
    assert cli.main(["verify", str(tmp_path / "c.json"), option, str(tmp_path / "none")]) == 2
    assert "certificate, which names no" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, {}, b"{}", 3])
def test_a_certificate_is_read_from_a_text(text):
    with pytest.raises(ValueError, match="text must be a string"):
        dp.Certificate.from_json(text)


def test_a_certificate_longer_than_the_checker_reads_is_refused():
    """``from_json`` took it, and neither the checker nor ``to_json`` did."""
    text = dp.Gaussian(2.0).certificate(delta=1e-5).to_json()
    full, long = text.ljust(20_000), text.ljust(20_001)
    assert verify.check(full) and dp.Certificate.from_json(full) == dp.Certificate.from_json(text)
    assert "at most 20000 characters" in verify.explain(long)
    with pytest.raises(ValueError, match="must have at most 20,000 characters, got 20,001"):
        dp.Certificate.from_json(long)


@pytest.mark.parametrize("delta", ["-1", "1", "1.5"])
def test_a_certificate_about_no_delta_is_refused(delta):
    text = dp.Gaussian(2.0).certificate(delta=1e-5).to_json().replace("1e-05", delta)
    with pytest.raises(ValueError, match=r"delta must be a number in \[0, 1\)"):
        dp.Certificate.from_json(text)


def test_the_command_line_verifies_certificates(tmp_path, capsys):
    from tightdp import cli

    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    found = (G(2.0) * 3).certificate(delta=1e-5)
    good.write_text(found.to_json())
    bad.write_text(found.to_json().replace(repr(found.upper), repr(found.upper * (1 - 1e-9))).replace(
        repr(found.lower), "0.0"))  # fmt: skip
    assert cli.main(["verify", str(good)]) == 0
    assert "upper end" in capsys.readouterr().out
    assert cli.main(["verify", str(bad), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["verified"] is False


MOST = 2**53
LARGE = {
    "discrete Laplace noise": {"type": "DiscreteLaplace", "scale": 1.0, "sensitivity": MOST},
    "vectors of integers": {"type": "DiscreteGaussianVector", "sigma": 1e-200, "sensitivity": 1e200,
                            "dimensions": MOST},
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_a_table_without_an_end_is_refused_before_it_is_built(name):
    text = write_delta(LARGE[name], 0.1, 0.5)
    assert not verify.check(text)
    assert "too m" in verify.explain(text)


def test_work_is_counted_before_it_is_done_and_refused_beyond_the_limit():
    work = verify.ProofWork()
    work.reset_certificate_work(1000.0)
    work.count_certificate_work(100)
    done = work.done
    with pytest.raises(verify.TooMuchWork):
        work.count_certificate_work(10_000)
    assert work.done == done  # what was refused was not done, and something smaller may still be
    assert work.refused


def test_every_part_of_a_group_is_explained():
    run = dp.Group(dp.Laplace(2.0) * 2 + dp.PureDP(0.125), 2) * 1
    words = verify.explain(run.certificate(delta=1e-3).to_json())
    assert "1 x Group (mechanism Laplace(2.0) * 2 + PureDP(0.125) * 1, size 2)" in words
    mixture = dp.MixtureOfGaussians(2.0, (0.0, *(0.5 + i for i in range(9))), (0.1,) * 10)
    words = verify.explain((mixture * 1).certificate(delta=1e-3).to_json())
    assert "sensitivities [0.0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, ...]" in words


def test_an_end_beyond_the_limit_of_work_is_not_verified_and_one_may_be_patient(monkeypatch):
    text = certificates("DP-SGD")[0]
    monkeypatch.setattr(verify, "MOST_WORK", 10.0)
    assert not verify.check(text)
    assert verify.TOO_MUCH in verify.explain(text)
    assert verify.check(text, patient=True)


@pytest.mark.parametrize("text", [None, 5, b"{}"])
def test_a_text_must_be_a_string(text):
    for function in (verify.check, verify.explain):
        with pytest.raises(TypeError, match="text must be a string"):
            function(text)


@pytest.mark.parametrize("epsilon", [1e308, -1e308])
def test_an_end_that_claims_nothing_is_verified_at_the_largest_epsilon(epsilon):
    assert verify.check(write_delta({"type": "Gaussian", "noise_multiplier": 1.0}, 0.0, 1.0, epsilon=epsilon))


def test_a_single_output_with_thousands_of_losses_is_verified():
    noise = {"type": "DiscreteGaussian", "sigma": 500.0, "sensitivity": 1}
    assert verify.check(write_delta(noise, 0.0, 1e-3))


@pytest.mark.parametrize("count", [-10, 0, 10.0, True])
def test_a_text_that_is_no_certificate_says_why(count):
    plain = json.loads((dp.Gaussian(2.0) * 10).certificate(delta=1e-5).to_json())
    plain["composition"][0][1] = count
    said = f"the count of composition[0] must be an integer in [1, 2^53], got {json.dumps(count)}"
    assert said in verify.explain(json.dumps(plain))


@pytest.mark.parametrize("composition", [{}, "", None, 0, False])
def test_an_empty_composition_is_an_empty_list_and_nothing_else(composition):
    plain = json.loads(dp.Composition().certificate(delta=1e-5).to_json())
    assert verify.check(json.dumps(plain))
    said = verify.explain(json.dumps({**plain, "composition": composition}))
    assert f"composition must be a list of pairs [mechanism, count], got {json.dumps(composition)}" in said


MIXTURE = {"type": "MixtureOfGaussians", "noise_multiplier": 2.0, "sensitivities": [0.0, 1.0],
           "probabilities": [0.5, 0.5]}  # fmt: skip
SAMPLES_OF_ONE_RECORD = (
    {"type": "FixedSizeSampled", "sample_size": 1, "dataset_size": 4},
    {"type": "RandomAllocation", "steps": 4, "selected": 1},
    {"type": "TruncatedPoissonSampled", "sampling_probability": 0.5, "batch_size": 2, "dataset_size": 4},
)


@pytest.mark.parametrize("sample", SAMPLES_OF_ONE_RECORD, ids=lambda sample: sample["type"])
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace", "replace_special"])
def test_a_mixture_that_the_library_does_not_sample_is_not_verified(sample, neighbors):
    text = write_delta({**sample, "mechanism": MIXTURE}, 0.0, 1.0 - 1e-9, neighbors=neighbors)
    with pytest.raises(ValueError, match="must not be a mixture"):
        dp.Certificate.from_json(text)
    assert f"mechanism of {sample['type']} must be a mechanism, and none of" in verify.explain(text)
    assert verify.check(write_delta({"type": "PoissonSampled", "sampling_probability": 0.5, "mechanism": MIXTURE},
                                    0.0, 1.0 - 1e-9))  # fmt: skip
