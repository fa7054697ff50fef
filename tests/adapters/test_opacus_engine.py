"""Opacus' engine with our account, batches, sums and noise: what it charges, and what it refuses."""

import math
import warnings

import numpy as np
import pytest

import tightdp as dp

pytest.importorskip("torch", reason="needs torch and Opacus")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

import opacus
import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader
from training_with_opacus import C, data, network, private, train

from tightdp.adapters import opacus as ours

pytestmark = pytest.mark.filterwarnings(
    "ignore:Full backward hook:UserWarning",
    "ignore:Secure RNG:UserWarning",
    "ignore:with poisson_sampling=False:UserWarning",
)


def test_the_engine_charges_what_it_runs():
    engine = ours.PrivacyEngine()
    train(*private(engine, 1.0, poisson=True))
    assert engine.accountant.history == [(1.0, 1 / 3, 3)]
    assert engine.get_epsilon(1e-5) == (dp.PoissonSampled(dp.Gaussian(1.0), 1 / 3) * 3).epsilon(1e-5).upper


def test_opacus_engine_with_our_account():
    engine = opacus.PrivacyEngine(accountant="tightdp")
    train(*private(engine, 1.0, poisson=True))
    assert engine.get_epsilon(1e-5) == (dp.PoissonSampled(dp.Gaussian(1.0), 1 / 3) * 3).epsilon(1e-5).upper


def with_epsilon(engine, epsilon, epochs):
    model = network()
    return engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data(), batch_size=16),
        target_epsilon=epsilon,
        target_delta=1e-5,
        epochs=epochs,
        max_grad_norm=C,
    )


def test_calibrates_to_the_target():
    engine = ours.PrivacyEngine()
    model, optimizer, loader = with_epsilon(engine, 3.0, 2)
    for _ in range(2):
        train(model, optimizer, loader)
    assert 3.0 * (1 - 1e-6) <= engine.get_epsilon(1e-5) <= 3.0
    model, optimizer, loader = with_epsilon(engine, 4.0, 1)  # what was spent counts
    train(model, optimizer, loader)
    assert 4.0 * (1 - 1e-6) <= engine.get_epsilon(1e-5) <= 4.0
    for target in (2.0, 3.9999, engine.get_epsilon(1e-5)):
        with pytest.raises(ValueError, match=r"^target_epsilon must leave room .* 9 steps have spent 4 at delta=1e-05"):
            with_epsilon(engine, target, 1)


def test_poisson_batches():
    """Each record in each batch independently, with the probability that is charged; physical batches of at most 8."""
    _, optimizer, loader = private(ours.PrivacyEngine(), 1.0, poisson=True, n=480)
    batches = [batch for _ in range(40) for batch in loader.batch_sampler]
    assert len(batches) == 40 * len(loader) == 40 * 30
    counts = np.bincount([i for batch in batches for i in batch], minlength=480)
    q, n = 1 / 30, len(batches)
    assert (np.abs(counts - n * q) < 6 * math.sqrt(n * q * (1 - q))).all()
    assert abs(sum(map(len, batches)) / (480 * n) - q) < 6 * math.sqrt(q * (1 - q) / (480 * n))
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=8, optimizer=optimizer) as split:
        assert max(len(x) for x, _ in split) <= 8


def loaded(**options):
    model = network()
    loader = DataLoader(data(), batch_size=16, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return ours.PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=C
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_load_the_batches_of_a_step():
    """Processes that a loader forks take indices from this one, and each batch is charged once."""
    model, optimizer, loader = loaded(num_workers=2)
    charged = []
    optimizer.attach_step_hook(lambda o: charged.append(o.noise_multiplier))
    train(model, optimizer, loader)
    assert charged == [1.0] * 3


def test_a_loader_with_a_generator_keeps_it():
    batches = [list(loaded(generator=torch.Generator().manual_seed(7))[2].batch_sampler) for _ in range(2)]
    assert batches[0] == batches[1]


def test_secure_mode_needs_no_other_package_and_refuses_what_is_not():
    engine = ours.PrivacyEngine(secure_mode=True)
    model, optimizer, loader = private(engine, 1.0, poisson=True)
    train(model, optimizer, loader)
    with pytest.raises(ValueError, match="secure mode"):
        private(engine, 1.0, poisson=True, noise_generator=torch.Generator())
    with pytest.raises(ValueError, match="secure"):
        private(engine, 1.0, poisson=False)
    with pytest.raises(ValueError, match="secure"):
        private(engine, 1.0, poisson=True, grad_sample_mode="ghost")


def test_what_opacus_must_do_is_said():
    with pytest.warns(UserWarning, match="idealises"):
        _, optimizer, _, _ = private(ours.PrivacyEngine(), 1.0, grad_sample_mode="ghost")
    assert type(optimizer) is opacus.optimizers.DPOptimizerFastGradientClipping
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.PrivacyEngine()


@pytest.mark.parametrize(
    "wrong", [{"target_epsilon": -1.0}, {"target_epsilon": math.nan}, {"target_delta": 2.0}, {"epochs": 0},
              {"max_grad_norm": 0.0}]
)  # fmt: skip
def test_bad_targets_are_named_and_leave_the_model_alone(wrong):
    model = network()
    given = {"target_epsilon": 2.0, "target_delta": 1e-5, "epochs": 1, "max_grad_norm": C}
    options = {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data_loader": DataLoader(data(), batch_size=16),
    }
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
        ours.PrivacyEngine().make_private_with_epsilon(**options, **{**given, **wrong})
    ours.PrivacyEngine().make_private_with_epsilon(**options, **given)
