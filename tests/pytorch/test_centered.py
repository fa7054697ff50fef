"""AdaCliP in PyTorch: sums and estimates by hand, the charge of ``tightdp.train``, and what is refused."""

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, still, table
from torch import nn
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp.algorithms.adaclip import limit_adaclip_batch
from tightdp.torch import DPAdam
from tightdp.torch.algorithm_sums.centered_sums import CenteredSums
from tightdp.train import DPIS, SGD, AdaCliP, CallableModel, fit

OWN = AdaCliP(h1=1e-4, h2=1e-2, beta1=0.5, beta2=0.8, gamma=2.0)


def flat(model):
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double().numpy()


def rows_by_hand(model, records):
    """Every record's gradient, alone, as a row of doubles."""
    rows = []
    for x, y in records:
        loss = cross_entropy(model, (x[None], y[None]))
        found = torch.autograd.grad(loss.sum(), list(model.parameters()))
        rows.append(torch.cat([g.reshape(-1) for g in found]).double().numpy())
    return np.array(rows)


def clipped(rows, center, scale):
    rows = (rows - center) / scale
    return (rows * np.minimum(1, 1 / np.linalg.norm(rows, axis=1))[:, None]).sum(0)


@pytest.mark.parametrize("settings", [{"epsilon": 2.0}, {"noise_multiplier": 1.5}])
@pytest.mark.parametrize("own", [OWN, AdaCliP()])
def test_it_is_charged_what_train_charges(own, settings):
    def gradients(w, X, y):
        return np.zeros((len(X), 1))

    records = table(60)
    run = private(dataset=records, algorithm=own, epochs=3, max_norm=0.3, **settings)
    plain = AdaCliP(batch_size=6, epochs=3, noise_multiplier=settings.get("noise_multiplier"))
    other = fit(CallableModel(1, gradients), records.tensors[0].numpy(), records.tensors[1].numpy(), plain,
                epsilon=settings.get("epsilon"), delta=1e-5, public_size=60)  # fmt: skip
    assert run.charged_ == other.charged and run.privacy_ == other.privacy
    run.fit(cross_entropy)
    assert run.history_ == other.history


def test_sums_are_of_centred_and_scaled_gradients():
    model, records = mlp(), table(8)
    run = private(model, records, algorithm=OWN, batch_size=4, noise_multiplier=1.0)
    sums = run._begin_step_sums_of_private_run(dict(model.named_parameters()))
    assert isinstance(sums, CenteredSums)
    rng = np.random.default_rng(3)
    sums._center, sums._scale = rng.normal(size=66) * 0.1, rng.uniform(0.05, 2.0, size=66)
    sums.add(model, cross_entropy, list(records.tensors), 8)
    found = torch.cat([v.reshape(-1) for v in sums.convert_to_floats()]).numpy()
    expected = clipped(rows_by_hand(model, records), sums._center, sums._scale)
    assert np.allclose(found, expected, rtol=1e-5, atol=8 * run.plan.planned_grid_step)
    assert run.plan.sensitivity == 1.0


def test_estimates_follow_the_releases():
    """Three steps by hand, with noise so small that it does not show, on the batches that were drawn."""
    model, records = mlp(), table(30)
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    run = private(model, records, still, algorithm=OWN, batch_size=15, epochs=2, noise_multiplier=1e-5)
    rows, q, expected_size, noise = rows_by_hand(model, records), 0.5, 15, 1e-5
    center, variance = np.zeros(66), np.full(66, math.sqrt(OWN.h1 * OWN.h2))
    for batch in run.loader:
        run.step(cross_entropy, batch)
        deviation = np.sqrt(np.clip(variance, OWN.h1, OWN.h2))
        scale = np.sqrt(deviation * deviation.sum() / OWN.gamma)
        estimate = center + scale * clipped(rows[batch.rows], center, scale) / expected_size
        assert np.allclose(flat(model), estimate, atol=2e-5)
        seen = ((estimate - center) ** 2 - (scale * noise / expected_size) ** 2) * (expected_size / (1 - q))
        variance = OWN.beta2 * variance + (1 - OWN.beta2) * seen
        center = OWN.beta1 * center + (1 - OWN.beta1) * estimate
    assert np.abs(variance - math.sqrt(OWN.h1 * OWN.h2)).max() > 1e-3


def test_noise_is_scaled_by_coordinate_and_there_on_an_empty_batch():
    """The centre is 0 at first and no gradient is: what is released has the noise alone."""
    model = nn.Linear(300, 200, bias=False)
    records = TensorDataset(torch.zeros(0, 300), torch.zeros(0, dtype=torch.long))
    run = private(model, records, algorithm="adaclip", public_size=60, max_norm=0.5, noise_multiplier=1.7)
    run.step(still, next(iter(run.loader)))
    noise = model.weight.grad.double().numpy().ravel() * 6 / 1.7 / 0.5  # h1 h2 makes the first scale max_norm
    assert abs(noise.mean()) < 5 / 60000**0.5 and abs(noise.var() - 1) < 5 * (2 / 60000) ** 0.5


def test_a_record_that_is_not_finite_contributes_nothing():
    records = table(20)
    records.tensors[0][3] = math.nan
    model = mlp()
    run = private(model, records, algorithm="adaclip", batch_size=19, noise_multiplier=1e-5)
    sums = run._begin_step_sums_of_private_run(dict(model.named_parameters()))
    sums.add(model, cross_entropy, list(records.tensors), 20)
    whole = sums.convert_to_floats()
    sums.clear_gradient_sums()
    others = [t[[i for i in range(20) if i != 3]] for t in records.tensors]
    sums.add(model, cross_entropy, others, 19)
    assert all(torch.allclose(a, b, rtol=0, atol=1e-5) for a, b in zip(whole, sums.convert_to_floats(), strict=True))


def test_a_resumed_run_knows_the_moments():
    records = table(40)
    settings = {"algorithm": OWN, "noise_multiplier": 1.0, "epochs": 2}
    run = private(dataset=records, **settings)
    for batch in run.loader:
        run.step(cross_entropy, batch)
    other = private(dataset=records, **settings)
    other.load_state_dict(run.state_dict())
    assert other.steps_ == run.steps_
    assert np.array_equal(other._moments.center, run._moments.center) and np.abs(run._moments.center).max() > 0
    assert np.array_equal(other._moments.gradient_scale, run._moments.gradient_scale)
    for wrong in (None, {}, {"center": torch.zeros(3).double(), "variance": torch.zeros(3).double()},
                  {"center": torch.full((66,), math.nan).double(), "variance": torch.zeros(66).double()}):  # fmt: skip
        fresh = private(dataset=records, **settings)
        with pytest.raises(ValueError, match=r"^state must hold"):
            fresh.load_state_dict({**run.state_dict(), "moments": wrong})
        assert fresh.steps_ == 0


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"batch_size": 60}, "batch_size must be less"),
        ({"max_norm": [1.0] * 4}, "max_norm must be one number for AdaCliP"),
        ({"arithmetic": "float"}, "arithmetic must be"),
        ({"algorithm": AdaCliP(epochs=3)}, "algorithm must leave epochs"),
        ({"algorithm": AdaCliP(optimizer=SGD(1.0))}, "algorithm must leave optimizer"),
        ({"algorithm": AdaCliP(noise_multiplier=1.0)}, "algorithm must leave noise_multiplier"),
        ({"algorithm": DPIS(adapt=1.0)}, "algorithm must leave adapt at None"),
        ({"algorithm": "ada-clip"}, "algorithm must be"),
        ({"algorithm": AdaCliP}, "algorithm must be"),
    ],
)
def test_what_is_refused(settings, match):
    with pytest.raises((ValueError, TypeError), match=match):
        private(**{"algorithm": "adaclip", **settings})


@pytest.mark.parametrize("records", [1, 2, 30])
def test_a_noisy_count_below_the_batch_size_leaves_a_plan(records):
    """A batch of all records has no plan: its share, its charge and its divisor are those of one record less."""
    run = private(algorithm="adaclip", dataset=table(records), batch_size=10**5, public_size=None,
                  epsilon=1.0, delta=1e-6, noise_multiplier=None, epochs=5)  # fmt: skip
    plan = run._account.plan
    assert plan.batch_size == limit_adaclip_batch(10**5, plan.records, 5) and 0 < plan.sampling_probability < 1
    run.step(cross_entropy, next(iter(run.loader)))
    assert np.isfinite(run._moments.center).all()
    assert run.privacy_.upper <= 1.0


def test_an_optimizer_that_takes_all_coordinates_to_have_the_same_noise():
    model = mlp()
    with pytest.raises(ValueError, match="optimizer must not be a DPAdam"):
        private(model, optimizer=DPAdam(model.parameters()), algorithm="adaclip")


def test_the_statement_names_the_algorithm():
    run = private(algorithm="adaclip", public_size=None)
    assert "AdaCliP" in str(run.statement_) and run.privacy_.upper <= 3.0
    assert isinstance(run.plan.count, dp.Gaussian)
