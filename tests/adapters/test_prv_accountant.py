"""prv_accountant's names over our bounds: its documented examples, and beside its own answers where it is installed."""

import importlib
import math

import numpy as np
import pytest

import tightdp as dp
from tightdp.adapters import prv_accountant as prv
from tightdp.adapters.prv_accountant.dpsgd import DPSGDAccountant, find_noise_multiplier

STEP = prv.PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=1.0)


def test_composition_of_three_mechanisms_as_its_readme_has_it():
    a = prv.PoissonSubsampledGaussianMechanism(noise_multiplier=0.8, sampling_probability=5e-3)
    b = prv.GaussianMechanism(noise_multiplier=8.0)
    c = prv.LaplaceMechanism(mu=0.1)
    accountant = prv.PRVAccountant(
        prvs=[a, b, c], max_self_compositions=[1_000, 1_000, 1_000], eps_error=0.1, delta_error=1e-10
    )
    low, estimate, up = accountant.compute_epsilon(delta=1e-6, num_self_compositions=[100, 200, 100])
    run = dp.PoissonSampled(dp.Gaussian(0.8), 5e-3) * 100 + dp.Gaussian(8.0) * 200 + dp.Laplace(10.0) * 100
    exact = run.epsilon(1e-6)
    assert low <= exact.upper and exact.lower <= up and low <= estimate <= up <= low * (1 + 3e-6)
    low, estimate, up = accountant.compute_delta(epsilon=up, num_self_compositions=[100, 200, 100])
    assert low <= 1e-6 * (1 + 1e-5) and up <= 1e-6 * (1 + 1e-5) and low <= estimate <= up


def test_dpsgd_as_its_readme_has_it():
    accountant = DPSGDAccountant(
        noise_multiplier=0.8, sampling_probability=256 / 60000, max_steps=1000, eps_error=0.01, delta_error=1e-10
    )
    run = dp.PoissonSampled(dp.Gaussian(0.8), 256 / 60000)
    for steps in (1, 10, 1000):
        bound = (run * steps).epsilon(1e-6)
        low, estimate, up = accountant.compute_epsilon(delta=1e-6, num_steps=steps)
        assert (low, up) == (bound.lower, bound.upper) and low <= estimate <= up
    older = prv.Accountant(0.8, 256 / 60000, delta=1e-6, max_compositions=1000, eps_error=0.1)
    assert older.compute_epsilon(num_compositions=1000) == accountant.compute_epsilon(1e-6, 1000)


@pytest.mark.parametrize("delta", [1e-11, 1e-15, 1e-100, 1e-300])
def test_small_deltas_have_answers(delta):
    accountant = prv.PRVAccountant(STEP, eps_error=0.1, delta_error=1e-12, max_self_compositions=1000)
    low, _, up = accountant.compute_epsilon(delta, 1000)
    bound = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000).epsilon(delta)
    assert (low, up) == (bound.lower, bound.upper)


def test_pure_composition_where_theirs_turns_negative():
    """(10-DP) ten times is 100-DP: -52.0 is what theirs answers."""
    accountant = prv.PRVAccountant(prv.PureDPMechanism(10.0), 0.1, 1e-8, max_self_compositions=10)
    low, _, up = accountant.compute_epsilon(1e-5, 10)
    assert 99 < low <= up <= 100 * (1 + 1e-12)
    assert prv.PRVAccountant(prv.PureDPMechanism(0.0), 0.1, 1e-8).compute_epsilon(1e-5) == (0.0, 0.0, 0.0)


def test_approximate_composition():
    accountant = prv.PRVAccountant(prv.ApproximateDPMechanism(1.0, 1e-6), 0.1, 1e-8, max_self_compositions=4)
    bound = (dp.ApproximateDP(1.0, 1e-6) * 4).epsilon(1e-5)
    assert accountant.compute_epsilon(1e-5, 4)[::2] == (bound.lower, bound.upper)
    assert accountant.compute_epsilon(1e-7, 4)[1:] == (math.inf, math.inf)


@pytest.mark.parametrize("mu", [0.1, 0.3, 3.0])
def test_parameters_that_round_are_bounded_from_both_sides(mu):
    """The largest loss of Laplace noise of scale 1 is mu; a reciprocal rounds, and the ends go to different sides."""
    low, _, up = prv.PRVAccountant(prv.LaplaceMechanism(mu), 0.1, 1e-8, 20).compute_epsilon(1e-200, 20)
    assert low <= 20 * mu * (1 + 1e-13) and up >= 20 * mu * (1 - 1e-13) and up - low <= 1e-6 * up
    low, _, up = prv.PRVAccountant(prv.GaussianMechanism(1.0, mu), 0.1, 1e-8).compute_delta(1.0)
    root = math.sqrt(2)
    exact = 0.5 * math.erfc((1 / mu - mu / 2) / root) - math.e * 0.5 * math.erfc((1 / mu + mu / 2) / root)
    assert low <= exact * (1 + 1e-12) and up >= exact * (1 - 1e-12) and up - low <= 1e-11 * up


def test_multipliers_beyond_doubles():
    low, _, up = prv.PRVAccountant(prv.GaussianMechanism(1e-300, 1e300), 0.1, 1e-8).compute_epsilon(1e-5)
    assert 0 < low <= up == math.inf
    for nothing in (prv.LaplaceMechanism(1e-310), prv.GaussianMechanism(1e300, 1e-300)):
        low, _, up = prv.PRVAccountant(nothing, 0.1, 1e-8).compute_delta(0.0)
        assert low == 0.0 and up <= 1e-150


@pytest.mark.slow
def test_a_loss_of_ones_own():
    """The loss of Laplace noise by its distribution function, as prv_accountant's notebook writes it."""

    class Own(prv.PrivacyRandomVariable):
        def cdf(self, t):
            return np.where(t >= 0.5, 1.0, np.where(t < -0.5, 0.0, 0.5 * np.exp((t - 0.5) / 2)))

    low, _, up = prv.PRVAccountant(Own(), 0.1, 1e-8, max_self_compositions=5).compute_epsilon(1e-4, 5)
    exact = (dp.Laplace(2.0) * 5).epsilon(1e-4)
    assert low <= exact.upper and exact.lower <= up <= low + 1e-3


def test_noise_for_a_target():
    sigma = find_noise_multiplier(
        sampling_probability=0.01, num_steps=1000, target_epsilon=2.0, target_delta=1e-5, eps_error=0.1
    )
    assert sigma == dp.noise_multiplier(2.0, 1e-5, 0.01, 1000)
    with pytest.raises(RuntimeError, match="mu_max"):
        find_noise_multiplier(0.01, 1000, 2.0, 1e-5, mu_max=0.5)


def test_nothing_composed():
    unsampled = prv.PoissonSubsampledGaussianMechanism(sampling_probability=0.0, noise_multiplier=1.0)
    assert prv.PRVAccountant([unsampled, STEP], 0.1, 1e-8, [5, 5]).compute_epsilon(1e-5, [5, 0]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("error", "says", "call"),
    [
        (ValueError, "at most max_self", lambda: prv.PRVAccountant(STEP, 0.1, 1e-9, 10).compute_epsilon(1e-5, 11)),
        (ValueError, "one entry", lambda: prv.PRVAccountant([STEP, STEP], 0.1, 1e-9, [1])),
        (ValueError, "one entry", lambda: prv.PRVAccountant([STEP], 0.1, 1e-9, [1]).compute_epsilon(1e-5, [1, 1])),
        (ValueError, "num_self_compositions", lambda: prv.PRVAccountant(STEP, 0.1, 1e-9).compute_epsilon(1e-5, -1)),
        (TypeError, "num_self_compositions", lambda: prv.PRVAccountant(STEP, 0.1, 1e-9).compute_epsilon(1e-5, 1.0)),
        (ValueError, "eps_error", lambda: prv.PRVAccountant(STEP, 0.0, 1e-9)),
        (ValueError, "eps_max", lambda: prv.PRVAccountant(STEP, 0.1, 1e-9, eps_max=-1.0)),
        (ValueError, "num_steps", lambda: find_noise_multiplier(0.01, 0, 2.0, 1e-5)),
        (ValueError, "target_delta", lambda: find_noise_multiplier(0.01, 10, 2.0, 1.0)),
        (ValueError, "mu_max", lambda: find_noise_multiplier(0.01, 10, 2.0, 1e-5, mu_max=0.0)),
        (ValueError, "max_compositions", lambda: prv.Accountant(1.0, 0.01, 1e-5, 0)),
        (ValueError, "delta_error", lambda: prv.PRVAccountant(STEP, 0.1, math.nan)),
        (TypeError, "prvs", lambda: prv.PRVAccountant([dp.Gaussian(1.0)], 0.1, 1e-9)),
        (TypeError, "prvs", lambda: prv.PRVAccountant([], 0.1, 1e-9)),
        (ValueError, "delta", lambda: prv.PRVAccountant(STEP, 0.1, 1e-9).compute_epsilon(-1e-9)),
        (ValueError, "mu", lambda: prv.LaplaceMechanism(0.0)),
        (ValueError, "noise_multiplier", lambda: prv.GaussianMechanism(-1.0)),
        (ValueError, "sampling_probability", lambda: prv.PoissonSubsampledGaussianMechanism(1.1, 1.0)),
        (ValueError, "eps", lambda: prv.PureDPMechanism(-1.0)),
    ],
)
def test_bad_arguments(error, says, call):
    with pytest.raises(error, match=says):
        call()


def test_the_same_names_as_theirs():
    theirs = pytest.importorskip("prv_accountant", reason="prv-accountant is not installed")
    assert all(hasattr(prv, name) for name in vars(theirs) if name[0].isupper())
    for module, names in {
        "dpsgd": ["DPSGDAccountant", "find_noise_multiplier"],
        "privacy_random_variables": [name for name in vars(theirs.privacy_random_variables) if "Mechanism" in name],
    }.items():
        ours = importlib.import_module(f"tightdp.adapters.prv_accountant.{module}")
        assert names and all(hasattr(ours, name) for name in names)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_inside_theirs(delta):
    theirs = pytest.importorskip("prv_accountant", reason="prv-accountant is not installed")

    def answer(module):
        prvs = [
            module.PoissonSubsampledGaussianMechanism(0.01, 1.0),
            module.LaplaceMechanism(0.05),
            module.GaussianMechanism(20.0),
        ]
        accountant = module.PRVAccountant(prvs, 0.05, 1e-10, max_self_compositions=[500, 3, 4])
        return [*accountant.compute_epsilon(delta, [400, 2, 4]), *accountant.compute_delta(1.0, [400, 2, 4])]

    low, estimate, up, least, likely, most = answer(theirs)
    assert low <= answer(prv)[0] <= answer(prv)[2] <= up and answer(prv)[1] == pytest.approx(estimate, abs=1e-3)
    assert least <= answer(prv)[3] <= answer(prv)[5] <= most and answer(prv)[4] == pytest.approx(likely, rel=0.01)


def test_compositions_and_distribution_functions():
    """As prv-accountant's: the functions to double precision, what is composed within its interval."""
    theirs = pytest.importorskip("prv_accountant", reason="prv-accountant is not installed")
    t = np.linspace(-3.0, 3.0, 61) + 1e-3
    for name, parameters in {
        "PoissonSubsampledGaussianMechanism": (0.1, 1.5),
        "GaussianMechanism": (2.0,),
        "LaplaceMechanism": (0.7,),
        "PureDPMechanism": (0.5,),
        "ApproximateDPMechanism": (0.5, 1e-3),
    }.items():
        mine, other = (getattr(module, name)(*parameters) for module in (prv, theirs))
        assert np.allclose(mine.cdf(t), np.asarray(other.cdf(t), dtype=np.float64), atol=1e-12)
        assert mine.pm_inf == other.pm_inf
    nothing = prv.PoissonSubsampledGaussianMechanism(0.0, 1.0)
    assert nothing.cdf(np.array([-0.1, 0.0])).tolist() == [0.0, 1.0]
    step = prv.GaussianMechanism(5.0)
    accountant = prv.PRVAccountant(step, 0.1, 1e-9, max_self_compositions=10)
    composed = accountant.compute_composition(10)
    assert composed.compute_epsilon(1e-5, 1e-9, 0.1) == accountant.compute_epsilon(1e-5, 10)
    assert composed.compute_delta_estimate(0.5) == accountant.compute_delta(0.5, 10)[1]
    with pytest.raises(ValueError, match="num_self_compositions"):
        accountant.compute_composition(11)
