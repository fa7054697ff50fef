"""dp_accounting's module of privacy loss distributions over our bounds."""

import copy
import inspect
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from effort import counted

import tightdp as dp

dpa = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
from dp_accounting.pld import common  # noqa: E402
from dp_accounting.pld import privacy_loss_distribution as theirs  # noqa: E402

from tightdp.adapters.dp_accounting import TightDPAccountant, distribution, pld  # noqa: E402
from tightdp.options import WIDTH  # noqa: E402

ADD, ONE, SPECIAL = (dpa.NeighboringRelation(i) for i in (1, 2, 3))
COARSE = 0.02
"""Theirs takes tens of seconds for a mixture of Gaussians on the usual grid."""
CALLS = {
    "gaussian": lambda of: of.from_gaussian_mechanism(2.0),
    "gaussian of a sensitivity": lambda of: of.from_gaussian_mechanism(3.0, 1.5),
    "sampled gaussian": lambda of: of.from_gaussian_mechanism(1.0, sampling_prob=0.1).self_compose(20),
    "replaced gaussian": lambda of: of.from_gaussian_mechanism(4.0, neighboring_relation=ONE).self_compose(3),
    "replaced sample": lambda of: of.from_gaussian_mechanism(1.0, sampling_prob=0.1, neighboring_relation=ONE),
    "special gaussian": lambda of: of.from_gaussian_mechanism(1.0, sampling_prob=0.1, neighboring_relation=SPECIAL),
    "laplace": lambda of: of.from_laplace_mechanism(2.0, 0.5).self_compose(5),
    "sampled laplace": lambda of: of.from_laplace_mechanism(1.0, sampling_prob=0.2).self_compose(5),
    "discrete laplace": lambda of: of.from_discrete_laplace_mechanism(0.5, 2).self_compose(3),
    "sampled discrete laplace": lambda of: of.from_discrete_laplace_mechanism(0.5, sampling_prob=0.3),
    "discrete gaussian": lambda of: of.from_discrete_gaussian_mechanism(2.0, 1).self_compose(4),
    "sampled discrete gaussian": lambda of: of.from_discrete_gaussian_mechanism(2.0, sampling_prob=0.3),
    "mixture": lambda of: of.from_mixture_gaussian_mechanism(
        2.0, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2], value_discretization_interval=COARSE
    ),
    "truncated": lambda of: of.from_truncated_subsampled_gaussian_mechanism(
        1000, 0.1, 150, 1.0, value_discretization_interval=COARSE
    ),
    "replaced truncated": lambda of: of.from_truncated_subsampled_gaussian_mechanism(
        1000, 0.1, 150, 1.0, value_discretization_interval=COARSE, neighboring_relation=ONE
    ),
    "parameters": lambda of: of.from_privacy_parameters(common.DifferentialPrivacyParameters(0.5, 1e-4)),
    "response": lambda of: of.from_randomized_response(0.4, 5).self_compose(3),
    "special response": lambda of: of.from_randomized_response(0.4, 5, neighboring_relation=SPECIAL),
    "together": lambda of: of.from_gaussian_mechanism(2.0).compose(of.from_laplace_mechanism(3.0)).self_compose(2),
    "identity": lambda of: of.identity().compose(of.from_gaussian_mechanism(2.0)),
}
LOOSE = {
    "mixture": "theirs is on a coarse grid",
    "truncated": "theirs takes the pair of replacement where a sample is cut, for all relations",
    "replaced truncated": "as above, on a sample that is cut",
}


@pytest.mark.parametrize("name", CALLS)
def test_as_theirs_and_below(name):
    """Their grid is above the truth by about its interval of 1e-4, and so are we below it by about that."""
    ours, above = CALLS[name](pld), CALLS[name](theirs)
    assert isinstance(ours, theirs.PrivacyLossDistribution) and isinstance(ours, pld.CertifiedDistribution)
    near = 0.3 if name in LOOSE else 3e-3
    for delta in (1e-3, 1e-6):
        bound = above.get_epsilon_for_delta(delta)
        if bound == math.inf:
            assert ours.get_epsilon_for_delta(delta) == math.inf
            continue
        assert abs(ours.get_epsilon_for_delta(delta) - bound) <= near * bound + 1e-9
        assert ours.get_epsilon_for_delta(delta) <= bound * (1 + WIDTH) + 1e-9
    many = np.array([0.0, 0.1, 1.0, math.inf, 0.1])
    found = ours.get_delta_for_epsilon(many)
    assert found.shape == many.shape and found[1] == found[4] and found[3] <= 1e-4
    assert ours.get_delta_for_epsilon(many.tolist()).tolist() == found.tolist()
    for epsilon, value in zip(many[:3].tolist(), found[:3].tolist(), strict=True):
        one = ours.get_delta_for_epsilon(epsilon)
        assert isinstance(one, float) and one == pytest.approx(value, rel=1e-3, abs=1e-15)
        assert one <= above.get_delta_for_epsilon(epsilon) * (1 + near) + 1e-12


def test_exact_behind():
    found = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(1000)
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
    assert found.composition == run
    for delta in (1e-5, 1e-16, 1e-100):
        assert found.get_epsilon_for_delta(delta) == run.epsilon(delta).upper < math.inf
    assert found.get_epsilon_for_delta(0) == math.inf and found.get_epsilon_for_delta(1) == 0
    assert 3.0 <= pld.from_laplace_mechanism(1.0).self_compose(3).get_epsilon_for_delta(0) <= 3.0 * (1 + 1e-14)
    assert found.get_delta_for_epsilon(2.0) == run.delta(2.0).upper
    assert pld.identity().get_epsilon_for_delta(0.0) == 0 == pld.identity().get_delta_for_epsilon(0.0)


def test_the_grid_is_made_when_it_is_read():
    found = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(1000)
    found.get_epsilon_for_delta(1e-5)
    assert "_exported_pld" not in vars(found)
    run = found.composition
    for pmf, direction in ((found._pmf_remove, "remove"), (found._pmf_add, "add")):
        for epsilon in (0.0, 0.5, 2.0):
            assert pmf.get_delta_for_epsilon(epsilon) >= run.delta(epsilon, neighbors=direction).lower
    assert not found._symmetric and pld.from_laplace_mechanism(1.0)._symmetric
    assert pld.identity()._pmf_remove.get_delta_for_epsilon(0.0) <= 1e-15
    other = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.0, 1.0))
    assert other.get_epsilon_for_delta(0.5) == math.inf and other._pmf_remove.get_delta_for_epsilon(5.0) == 1.0


def test_with_distributions_of_theirs():
    ours, other = pld.from_gaussian_mechanism(2.0), theirs.from_laplace_mechanism(3.0)
    exact = (dp.Gaussian(2.0) + dp.Laplace(3.0)).epsilon(1e-5)
    for both in (ours.compose(other), other.compose(ours)):
        assert exact.lower <= both.get_epsilon_for_delta(1e-5) <= exact.upper + 3e-4
    together = ours.get_delta_for_epsilon_for_composed_pld(pld.from_laplace_mechanism(3.0), 1.0)
    assert together == (dp.Gaussian(2.0) + dp.Laplace(3.0)).delta(1.0).upper
    assert ours.get_delta_for_epsilon_for_composed_pld(other, 1.0) == pytest.approx(together, rel=1e-3)
    half = ours.compute_mixture(other, 0.5)
    middle = [(dp.Gaussian(2.0) * 1).delta(0.5).upper, (dp.Laplace(3.0) * 1).delta(0.5).upper]
    assert half.get_delta_for_epsilon(0.5) == pytest.approx(sum(middle) / 2, rel=1e-3)
    with pytest.raises(ValueError, match="interval"):
        ours.compose(pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3))
    with pytest.raises(ValueError):
        ours.compose(theirs.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3))


def test_what_is_left_to_theirs():
    lower = pld.from_gaussian_mechanism(1.0, pessimistic_estimate=False)
    assert not isinstance(lower, pld.CertifiedDistribution)
    assert lower.get_epsilon_for_delta(1e-5) <= pld.from_gaussian_mechanism(1.0).get_epsilon_for_delta(1e-5)
    assert not isinstance(pld.from_discrete_gaussian_mechanism(1.0, truncation_bound=5), pld.CertifiedDistribution)
    assert pld.privacy_loss_distribution is pld and pld.common is common
    assert pld.from_two_probability_mass_functions is theirs.from_two_probability_mass_functions
    assert pld.PLDAccountant is TightDPAccountant
    with pytest.raises(AttributeError, match="from_nowhere"):
        pld.from_nowhere  # noqa: B018


@pytest.mark.parametrize("name", [name for name in pld.__all__ if name.startswith(("from_", "identity"))])
def test_signatures_are_theirs(name):
    mine, original = inspect.signature(getattr(pld, name)), inspect.signature(getattr(theirs, name))
    assert list(mine.parameters) == list(original.parameters)
    for ours, other in zip(mine.parameters.values(), original.parameters.values(), strict=True):
        assert (ours.default, ours.kind) == (other.default, other.kind)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pld.from_gaussian_mechanism(0.0),
        lambda: pld.from_gaussian_mechanism(1.0, sensitivity=-1),
        lambda: pld.from_gaussian_mechanism(1.0, sampling_prob=0.0),
        lambda: pld.from_gaussian_mechanism(1.0, sampling_prob=1.5),
        lambda: pld.from_laplace_mechanism(math.nan),
        lambda: pld.from_discrete_laplace_mechanism(-1.0),
        lambda: pld.from_randomized_response(0.5, 2, neighboring_relation=ADD),
        lambda: pld.from_gaussian_mechanism(1.0, value_discretization_interval=0.0),
        lambda: pld.from_gaussian_mechanism(1.0).self_compose(0),
        lambda: pld.from_gaussian_mechanism(1.0).get_epsilon_for_delta(-0.1),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(ValueError, match="must be"):
        call()


def test_copies():
    found = pld.from_gaussian_mechanism(1.0).self_compose(3)
    for made in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert made.get_epsilon_for_delta(1e-5) == found.get_epsilon_for_delta(1e-5)


def test_true_positive_rates_and_mu():
    """Of a Gaussian both are closed forms: Phi(Phi^-1(rate) + mu), and mu."""
    from scipy.stats import norm

    rates = np.array([1e-6, 0.01, 0.3, 0.9])
    found = pld.from_gaussian_mechanism(2.0)
    for asked in (found, TightDPAccountant().compose(dpa.GaussianDpEvent(2.0))):
        truth = norm.cdf(norm.ppf(rates) + 0.5)
        got = asked.get_true_positive_rates(rates)
        assert (truth * (1 - 1e-12) <= got).all() and (got <= truth * (1 + 1e-4)).all()
        assert asked.get_true_positive_rates(0.01) == pytest.approx(got[1], rel=1e-5)
        assert 0.5 * (1 - 1e-9) <= asked.get_gdp_parameter_estimate() <= 0.5 * (1 + 1e-4)
        assert 0.5 * (1 - 1e-9) <= asked.get_gdp_parameter_estimate(np.array([0.01, 0.7])) <= 0.5 * (1 + 1e-4)
    for asked in (pld.identity(), TightDPAccountant()):
        assert asked.get_true_positive_rates(0.25) == 0.25 and asked.get_gdp_parameter_estimate() <= 1e-9
    nothing = TightDPAccountant().compose(dpa.NonPrivateDpEvent())
    assert nothing.get_true_positive_rates(rates).tolist() == [1.0] * 4
    assert nothing.get_gdp_parameter_estimate() == math.inf
    with pytest.raises(ValueError, match="false_positive_rates"):
        found.get_gdp_parameter_estimate(np.array([0.0]))


def test_calibrators_of_riskcal(monkeypatch):
    """The same noise, to their tolerance, by our distributions."""
    dpsgd = pytest.importorskip("riskcal.calibration.dpsgd", reason="riskcal is not installed")

    def calibrated():
        settings = {"sample_rate": 0.1, "num_steps": 50, "grid_step": 1e-2, "noise_min": 0.5, "noise_max": 10.0}
        return (
            dpsgd.find_noise_multiplier_for_advantage(0.1, **settings, advantage_tol=0.02),
            dpsgd.find_noise_multiplier_for_err_rates(0.05, 0.8, **settings, beta_tol=0.02),
        )

    expected = calibrated()
    monkeypatch.setattr(dpsgd, "pld_module", pld)
    assert calibrated() == pytest.approx(expected, rel=1e-2)


def test_the_least_noise_that_calibrators_try_has_a_grid():
    """Calibrations of riskcal begin at a noise multiplier of 0.1 on the default grid."""
    run = dp.PoissonSampled(dp.Gaussian(0.1), 0.01) * 1000
    for neighbors in ("remove", "add"):
        assert (
            distribution._find_highest_exported_pld_loss(run, neighbors, distribution.INTERVAL)
            <= distribution.MOST_POINTS
        )


@pytest.mark.parametrize("noise", [0.13, pytest.param(0.1, marks=pytest.mark.slow)])
def test_a_distribution_has_a_budget_of_work(monkeypatch, noise):
    """Bounds that a spent budget cut short are above the curve, and so is what is made of them.

    At noise 0.1 the bounds at 0 and far out take microseconds, and those between a hundred times as long.
    """
    monkeypatch.setattr(distribution, "MOST_WORK", 10**9, raising=False)
    run = dp.PoissonSampled(dp.Gaussian(noise), 0.01) * 300
    found, spent, _ = counted(lambda: distribution.privacy_loss_distribution(run, value_discretization_interval=1e-3))
    assert spent < 2.5e9  # for two orders
    for epsilon in (10.0, 100.0, 150.0, 250.0):
        assert found.get_delta_for_epsilon(epsilon) >= run.delta(epsilon).lower


def test_long_grids_have_the_masses_of_short_ones(monkeypatch):
    """However the array is filled, losses and masses are the same, and a sparse one may be read as a dense one."""
    run = dp.PoissonSampled(dp.Gaussian(0.5), 0.01) * 100
    short = distribution.privacy_loss_distribution(run)
    monkeypatch.setattr(distribution, "LONG", 1)
    long = distribution.privacy_loss_distribution(run)
    for one, other in ((short._pmf_remove, long._pmf_remove), (short._pmf_add, long._pmf_add)):
        one, other = one.to_dense_pmf(), other.to_dense_pmf()
        assert one._lower_loss == other._lower_loss and one._infinity_mass == other._infinity_mass
        assert np.array_equal(one._probs, other._probs)


@pytest.mark.hunt
def test_riskcal_with_its_defaults(monkeypatch):
    """The noise at which our own trade-off curve has the error rates that were asked for."""
    dpsgd = pytest.importorskip("riskcal.calibration.dpsgd", reason="riskcal is not installed")
    monkeypatch.setattr(dpsgd, "pld_module", pld)
    found = dpsgd.find_noise_multiplier_for_err_rates(alpha=0.01, beta=0.9, sample_rate=0.01, num_steps=1000)
    curve = (dp.PoissonSampled(dp.Gaussian(found), 0.01) * 1000).tradeoff(0.01)
    assert curve.lower == pytest.approx(0.9, abs=2e-3)


def test_noise_a_unit_of_sensitivity_is_the_largest_that_is_no_more():
    draw = np.random.default_rng(5)
    for noise, sensitivity in draw.uniform(0.1, 10.0, (1000, 2)):
        found = pld._divide_pld_noise("parameter", noise, sensitivity)
        assert Fraction(found) * Fraction(sensitivity) <= Fraction(noise)
        assert Fraction(math.nextafter(found, math.inf)) * Fraction(sensitivity) > Fraction(noise)
