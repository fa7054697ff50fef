"""Tests with jax_privacy, which test_jax_privacy.py runs in a process of its own: JAX's threads outlive a test."""

import copy
import dataclasses
import importlib
import sys
from typing import Any

import dp_accounting as dpa
import jax_privacy.accounting as theirs
import numpy as np
import pages
import pytest
from jax_privacy.clipping import clipped_grad
from jax_privacy.experimental import accounting as events
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import tightdp as dp
from tightdp.adapters import jax_privacy as ours
from tightdp.adapters.dp_accounting import from_event

SPECIAL = dpa.NeighboringRelation.REPLACE_SPECIAL


def test_a_plan_is_calibrated_by_an_accountant_of_ours():
    def plan(accountant):
        return BandMFExecutionPlanConfig(
            strategy=np.array([1.0, 0.5, 0.2, 0.1]),
            iterations=100,
            epsilon=1.0,
            delta=1e-5,
            sampling_prob=0.4,
            accountant=accountant,
        ).plan.dp_event

    found = from_event(plan(ours.accountant()), SPECIAL)
    ((step, count),) = found.parts
    assert count == 25 and step.sampling_probability == 0.4
    assert found.epsilon(1e-5).upper <= 1.0
    assert (dp.PoissonSampled(dp.Gaussian(step.mechanism.noise_multiplier - 3e-6), 0.4) * 25).epsilon(1e-5).upper > 1.0
    ((other, _),) = from_event(plan(dpa.pld.PLDAccountant(SPECIAL)), SPECIAL).parts
    assert step.mechanism.noise_multiplier <= other.mechanism.noise_multiplier


@dataclasses.dataclass(frozen=True)
class BandMFConfig:
    """The calibrator of later versions, as far as it asks an accountant."""

    iterations: int
    num_bands: int
    sampling_prob: float
    neighboring_relation: Any = SPECIAL
    noise_multiplier: float | None = None

    def calibrate(self, *, epsilon, delta, tol=None, accountant_fn=dpa.pld.PLDAccountant):
        sigma = dpa.calibrate_dp_mechanism(
            make_fresh_accountant=lambda: accountant_fn(self.neighboring_relation),
            make_event_from_param=lambda sigma: events.amplified_bandmf_event(
                noise_multiplier=sigma,
                iterations=self.iterations,
                num_bands=self.num_bands,
                sampling_prob=self.sampling_prob,
            ),
            target_epsilon=epsilon,
            target_delta=delta,
            tol=tol,
        )
        return dataclasses.replace(self, noise_multiplier=sigma)


@pytest.mark.parametrize("relation", list(dpa.NeighboringRelation))
def test_accountant_fn_of_later_versions(relation):
    found = BandMFConfig(100, 4, 0.4, relation).calibrate(epsilon=2.0, delta=1e-6, accountant_fn=ours.accountant)
    neighbors = "replace" if relation == dpa.NeighboringRelation.REPLACE_ONE else "add_or_remove"
    deviation = found.noise_multiplier * clipped_grad(lambda x: x, l2_clip_norm=1.0).sensitivity(relation)
    run = dp.PoissonSampled(dp.Gaussian(deviation), 0.4) * 25
    assert 2.0 - 1e-4 <= run.epsilon(1e-6, neighbors=neighbors).upper <= 2.0


def test_training_accountants_and_their_calibrators():
    accountant = theirs.DpsgdTrainingAccountant(ours.TightDPAccountantConfig())
    params = theirs.DpParams(noise_multipliers=1.1, num_samples=60_000, delta=1e-5, batch_size=256)
    run = dp.PoissonSampled(dp.Gaussian(1.1), 256 / 60_000)
    assert accountant.compute_epsilon(14_000, params) == (run * 14_000).epsilon(1e-5).upper
    assert accountant.compute_epsilon(0, params) == 0
    settings = {"target_epsilon": 2.0, "accountant": accountant, "num_samples": 60_000, "target_delta": 1e-5}
    sigma = theirs.calibrate_noise_multiplier(
        **settings, batch_sizes=256, num_updates=1000, initial_min_noise=0.3, tol=1e-4
    )
    assert (dp.PoissonSampled(dp.Gaussian(sigma), 256 / 60_000) * 1000).epsilon(1e-5).upper <= 2.0
    steps = theirs.calibrate_num_updates(**settings, noise_multipliers=1.1, batch_sizes=256)
    assert (run * steps).epsilon(1e-5).upper <= 2.0 < (run * (steps + 10)).epsilon(1e-5).upper
    scheduled = dataclasses.replace(params, noise_multipliers=[(0, 1.1), (500, 2.0)])
    both = run * 500 + dp.PoissonSampled(dp.Gaussian(2.0), 256 / 60_000) * 500
    assert accountant.compute_epsilon(1000, scheduled) == both.epsilon(1e-5).upper


def test_events_of_their_experiments():
    fixed = events.fixed_dpsgd_event(2.0, 100, dataset_size=10_000, batch_size=100)
    relation = dpa.NeighboringRelation.REPLACE_ONE
    found = ours.accountant(relation).compose(fixed)
    deviation = 2.0 * clipped_grad(lambda x: x, l2_clip_norm=1.0).sensitivity(relation)
    run = dp.FixedSizeSampled(dp.Gaussian(deviation), 100, 10_000) * 100
    theirs_ = dpa.rdp.RdpAccountant(neighboring_relation=relation).compose(fixed)
    assert found.get_epsilon(1e-6) <= theirs_.get_epsilon(1e-6)
    assert found.get_epsilon(1e-6) == run.epsilon(1e-6, neighbors="replace").upper
    copy.deepcopy(found).compose(fixed)
    assert found.composition == run


def test_later_versions_have_no_configurations(monkeypatch):
    """The module imports with both, and says what to use."""
    monkeypatch.delattr(theirs, "PldAccountantConfig")
    monkeypatch.delitem(sys.modules, ours.__name__)
    monkeypatch.setattr(sys.modules["tightdp.adapters"], "jax_privacy", ours)  # the import below replaces it
    later = importlib.import_module(ours.__name__)
    assert later is not ours and later.accountant(SPECIAL).neighboring_relation == SPECIAL
    assert later.__all__ == ["accountant"]
    with pytest.raises(AttributeError, match="pass accountant to accountant_fn"):
        later.TightDPAccountantConfig()
    with pytest.raises(AttributeError, match="no attribute"):
        later.other()


def test_the_page():
    page = pages.DOCS / "migrate" / "jax_privacy.md"
    said, ran = pages.expected(page), pages.outputs(page, apart={"jax_privacy"})
    assert any(block.kind == "python with jax_privacy" for block, _ in ran)
    for block, printed in ran:
        assert pages.matches(said.get(block.line, printed), printed), f"line {block.line}: printed\n{printed}"
