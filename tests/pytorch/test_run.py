"""A private run: what a step releases, and what it leaves alone."""

import copy
import math
import pickle

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import copied, cross_entropy, mlp, private, still, table
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import tightdp as dp

WIDE = 300 * 200


def wide():
    return nn.Linear(300, 200, bias=False)


def wide_table(records=20):
    return TensorDataset(torch.randn(records, 300), torch.randint(0, 200, (records,)))


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize("batch_size", [1e-6, 10])
def test_noise_is_added_once_a_step_with_the_deviation_that_is_charged(size, batch_size):
    """An empty batch and one of several parts have the same noise."""
    run = private(
        wide(), wide_table(), batch_size=batch_size, epochs=batch_size / 5, max_norm=0.37, noise_multiplier=1.7,
        physical_size=size,
    )  # fmt: skip
    before = copied(run.model)
    run.step(still, next(iter(run.loader)))
    noise = run.model.weight.grad.double().numpy().ravel() * batch_size / (1.7 * 0.37)
    assert abs(noise.mean()) < 5 / math.sqrt(WIDE)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / WIDE)
    assert abs((noise**4).mean() - 3) < 5 * math.sqrt(96 / WIDE)
    moved = (before["weight"] - run.model.weight.detach()) / 0.5
    assert torch.allclose(moved, run.model.weight.grad, rtol=1e-3, atol=1e-6 * float(moved.abs().max()) + 1e-6)


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_noise_of_a_bound_for_each_parameter(arithmetic):
    """One record moves the sums by the root of the sum of squared bounds: all coordinates have noise for that."""
    model = nn.Linear(300, 200)
    run = private(model, wide_table(), max_norm=[0.3, 0.4], noise_multiplier=2.0, arithmetic=arithmetic)
    run.step(still, next(iter(run.loader)))
    for p in model.parameters():
        noise, n = p.grad.double() * 6 / (2.0 * 0.5), p.numel()
        assert abs(noise.mean()) < 5 / n**0.5 and abs(noise.var() - 1) < 5 * (2 / n) ** 0.5


def test_noise_differs_from_step_to_step_and_between_parameters():
    run = private(nn.Sequential(nn.Linear(50, 50, bias=False), nn.Linear(50, 50, bias=False)),
                  TensorDataset(torch.randn(20, 50), torch.randint(0, 50, (20,))), noise_multiplier=1.0)  # fmt: skip
    rows = []
    for batch in run.loader:
        run.step(still, batch)
        rows += [p.grad.numpy().ravel() for p in run.model.parameters()]
    correlation = np.corrcoef(np.array(rows))
    assert np.abs(correlation - np.eye(len(rows))).max() < 6 / 50


def test_an_empty_batch_is_stepped_on_and_charged():
    run = private(dataset=table(40), batch_size=0.001, epochs=0.001 / 20, noise_multiplier=1.0)
    before = copied(run.model)
    batch = next(iter(run.loader))
    assert len(batch.rows) == 0
    run.step(cross_entropy, batch)
    assert run.steps_ == 1 and len(run.history_) == 1
    assert all(not torch.equal(p, before[name]) for name, p in run.model.named_parameters())


def test_the_estimate_is_the_mean_gradient_over_the_expected_batch():
    """Full batches with next to no noise: the gradient of the mean."""
    model, data = mlp(), table(40)
    loss = cross_entropy(model, data.tensors).mean()
    expected = torch.autograd.grad(loss, list(model.parameters()))
    run = private(model, data, batch_size=40, max_norm=1e3, noise_multiplier=1e-9)
    run.step(cross_entropy, next(iter(run.loader)))
    for p, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(p.grad, gradient, rtol=1e-3, atol=2e-4)
    assert run.history_ == (dp.Gaussian(1e-9),)


def test_a_seeded_run_repeats_and_physical_batches_do_not_matter():
    torch.manual_seed(3)
    start, data = mlp(), table()
    ends = []
    for size, workers in ((None, 0), (None, 0), (2, 0), (4, 2)):
        run = private(copy.deepcopy(start), data, random_state=7, physical_size=size, num_workers=workers)
        ends.append(copied(run.fit(cross_entropy).model))
    for name in ends[0]:
        assert torch.equal(ends[0][name], ends[1][name])
        assert torch.allclose(ends[0][name], ends[2][name], atol=1e-5)
        assert torch.allclose(ends[0][name], ends[3][name], atol=1e-5)
    assert run.statement_.seeded and not private().statement_.seeded


def test_the_model_and_the_optimizer_stay_what_they_are():
    model = mlp()
    names, kind = list(model.state_dict()), type(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.1)
    run = private(model, optimizer=optimizer)
    assert run.model is model and run.optimizer is optimizer
    for batch in run.loader:
        run.step(cross_entropy, batch)
        schedule.step()
    assert list(model.state_dict()) == names and type(model) is kind and not model._forward_hooks
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.1**3)
    assert all(optimizer.state[p]["step"] == 10 for p in model.parameters())
    pickle.loads(pickle.dumps(model)), copy.deepcopy(model)


def test_gradients_that_others_left_are_not_used():
    """Whatever was in ``grad`` has no noise: a step takes its place, also where the parameter is frozen."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model[0].bias.requires_grad_(False)
    run = private(model, optimizer=optimizer, noise_multiplier=1e-6)
    for zeroed in (False, True):
        for p in model.parameters():
            p.grad = torch.full_like(p, 1e6)
        before = copied(model)
        if zeroed:
            optimizer.zero_grad()
        run.step(still, next(iter(run.loader)))
        for name, p in model.named_parameters():
            assert (p - before[name]).abs().max() < 1e-3
        assert model[0].bias.grad is None
    cross_entropy(model, table(4).tensors).sum().backward()
    run.step(still, next(iter(run.loader)))
    assert max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None) < 1e-3


def test_gradients_that_the_loss_leaves_are_taken_away():
    """Where records go through the model one after the other; side by side PyTorch refuses it by itself."""

    class Branches(nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else -super().forward(x)

    def calls_backward(model, batch):
        if run.steps_:
            cross_entropy(model, batch).sum().backward()
        return cross_entropy(model, batch)

    for model, arithmetic in ((Branches(5, 3), "one-by-one"), (nn.Linear(5, 3), "exact")):
        run = private(model, batch_size=30, noise_multiplier=1.0, arithmetic=arithmetic)
        for batch in (next(iter(run.loader)), next(iter(run.loader))):
            before = copied(model)
            if run.steps_:
                with pytest.raises((ValueError, RuntimeError)) as caught:
                    run.step(calls_backward, batch)
            else:
                run.step(cross_entropy, batch)
        assert "backward" in str(caught.value) or model.__class__ is nn.Linear
        assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
        assert all(p.grad is None or float(p.grad.abs().max()) < 1 for p in model.parameters())


def test_frozen_parameters_stay_and_the_others_move():
    model = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 3))
    model[0].requires_grad_(False)
    run = private(model)
    before = copied(model)
    run.fit(cross_entropy)
    assert torch.equal(model[0].weight, before["0.weight"]) and not torch.equal(model[1].weight, before["1.weight"])
    model[0].weight.requires_grad_(True)
    with pytest.raises(ValueError, match=r"lacks 0\.weight"):
        private(model, optimizer=run.optimizer)


def test_training_and_eval_mode():
    model = nn.Sequential(nn.Linear(5, 30), nn.Dropout(0.5), nn.Linear(30, 3))
    run = private(model, noise_multiplier=1e-6)
    model.eval()
    run.step(cross_entropy, next(iter(run.loader)))
    assert not model.training and not model[1].training
    model.train()
    run.step(cross_entropy, next(iter(run.loader)))
    assert model.training


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_gradients_are_computed_where_they_are_switched_off(arithmetic):
    model, data = mlp(), table(40)
    run = private(model, data, batch_size=40, max_norm=1e3, noise_multiplier=1e-9, arithmetic=arithmetic, epochs=2)
    for _ in range(2):
        expected = torch.autograd.grad(cross_entropy(model, data.tensors).mean(), list(model.parameters()))
        with torch.no_grad():
            run.step(cross_entropy, next(iter(run.loader)))
        for p, gradient in zip(model.parameters(), expected, strict=True):
            assert torch.allclose(p.grad, gradient, rtol=1e-3, atol=2e-4)
    run = private(model, data, arithmetic=arithmetic)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="inference_mode"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0


def test_it_learns():
    torch.manual_seed(1)
    x = torch.randn(2000, 5)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    model = mlp(classes=2)
    private(model, data, batch_size=200, epochs=5, epsilon=2.0, optimizer=None).fit(cross_entropy)
    assert (model(x).argmax(1) == data.tensors[1]).float().mean() > 0.85


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions(dtype):
    model = mlp().to(dtype)
    data = table()
    data.tensors = (data.tensors[0].to(dtype), data.tensors[1])
    run = private(model, data, noise_multiplier=0.5)
    before = copied(model)
    run.step(cross_entropy, next(iter(run.loader)))
    assert all(p.dtype == p.grad.dtype == dtype and not torch.equal(p, before[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize("arithmetic", ["one-by-one"])
def test_the_generator_of_pytorch_does_not_tell_how_many_records_there_were(arithmetic, tmp_path):
    """Dropout draws for every record; its masks still differ from step to step."""
    after, model = [], nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))
    for batch_size in (1e-6, 60):
        run = private(model, table(60), batch_size=batch_size, noise_multiplier=1.0, epochs=batch_size / 60,
                      arithmetic=arithmetic, physical_size=7)  # fmt: skip
        seen = tmp_path / f"{batch_size}"

        def loss(model, batch, seen=seen):
            with seen.open("a") as states:
                states.write(f"{hash(bytes(torch.get_rng_state().numpy()))}\n")
            return cross_entropy(model, batch)

        batch = next(iter(run.loader))
        torch.manual_seed(5)
        run.step(loss, batch)
        after.append(torch.get_rng_state())
    assert torch.equal(*after)
    assert len(set(seen.read_text().splitlines())) > 4


class Augmented(Dataset):
    """Records that are drawn anew each time they are read."""

    def __init__(self, records):
        self.records = records

    def __len__(self):
        return self.records

    def __getitem__(self, index):
        return torch.randn(5), int(torch.randint(0, 3, ()))


@pytest.mark.parametrize("settings", [{}, {"physical_size": 2}, {"padded": True}, {"algorithm": "dpis"}], ids=str)
def test_nor_how_many_records_were_read(settings):
    """Also where the loader reads ahead of a step, and where a first batch that is not empty is looked at."""
    after = []
    for records in (0, 1, 60):
        run = private(mlp(), Augmented(records), public_size=60, noise_multiplier=1.0, **settings)
        torch.manual_seed(5)
        run.fit(cross_entropy)
        after.append(torch.get_rng_state())
    assert torch.equal(after[0], after[1]) and torch.equal(after[0], after[2])


def test_buffers_are_copied_once_and_put_back_at_any_step():
    model = mlp()
    model.register_buffer("mask", torch.ones(4))
    run = private(model, table(60), noise_multiplier=1.0, arithmetic="float")
    batches = iter(run.loader)
    run.step(cross_entropy, next(batches))
    copy = run._copies["", "mask"][2]
    run.step(cross_entropy, next(batches))
    assert run._copies["", "mask"][2] is copy
    model.mask.fill_(3.0)  # by the caller, between steps

    def counts(model, batch):
        model.mask.add_(1.0)
        return cross_entropy(model, batch)

    def keeps(model, batch):
        model.mask.add_(batch[0].sum())
        return cross_entropy(model, batch)

    for loss_fn, why in ((counts, "buffer mask changes"), (keeps, None)):
        with pytest.raises((ValueError, RuntimeError), match=why):  # torch.func refuses the second by itself
            while True:
                run.step(loss_fn, next(batches))
        assert torch.equal(model.mask, torch.full((4,), 3.0))


def test_the_statement_counts_what_was_trained_and_is_frozen_now():
    model = mlp()
    run = private(model)
    numbers = sum(p.numel() for p in model.parameters())
    run.step(cross_entropy, next(iter(run.loader)))
    model[0].requires_grad_(False)
    assert f"{numbers} numbers" in str(run.statement_)


def test_an_error_of_the_optimizer_leaves_what_it_did_and_the_run_goes_on():
    class FailsLate(torch.optim.SGD):
        fails = False

        def step(self, closure=None):
            super().step()
            if self.fails:
                raise RuntimeError("late")

    model, records = mlp(), table(32)
    optimizer = FailsLate(model.parameters(), lr=0.5)
    run = private(model, records, optimizer=optimizer, noise_multiplier=1.0, epochs=4)
    batches = iter(run.loader)
    run.step(cross_entropy, next(batches))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.fails = True
    with pytest.raises(RuntimeError, match="late"):
        run.step(cross_entropy, next(batches))
    assert run.steps_ == 2
    assert any((old != new).any() for old, new in zip(before, model.parameters(), strict=True))
    optimizer.fails = False
    run.step(cross_entropy, next(batches))
    assert run.steps_ == 3
