"""The looks at the first records, and now and then at others: what is kept between them, and gradients that are wrong
or missing (docs/tutorials/torch.md section 7)."""

import itertools

import pytest

pytest.importorskip("torch", reason="needs torch")

import numpy as np
import torch
from small import cross_entropy, mlp, private
from test_coins import Records, rows
from torch import nn
from torch.utils.data import TensorDataset

from tightdp.torch.randomness.global_generators import draw_check_order_from_generator

ARITHMETIC = ["auto", "exact", "float", "products"]


def test_every_record_is_taken_three_times_and_the_first_twice_in_a_row():
    for records, seed in itertools.product((1, 2, 5), range(20)):
        order = draw_check_order_from_generator(records, seed)
        assert sorted(order) == sorted([*range(records)] * 3) and order[:2] == [0, 0]
    assert len({tuple(draw_check_order_from_generator(5, seed)) for seed in range(20)}) == 20


class Alternates(Records):
    """Every other read is of something else, whichever record it is."""

    reads = 0

    def __getitem__(self, i):
        self.reads += 1
        return self.rows[i] * (1 + self.reads % 2)


def cycled(period):
    factors = itertools.cycle(range(1, 1 + period))
    return Records(rows(20), lambda row: row * next(factors))


def flipped():
    generator = torch.Generator().manual_seed(0)
    return Records(rows(20), lambda row: row if torch.rand((), generator=generator) < 0.5 else row.flip(0))


def refused(run, match):
    try:
        next(iter(run.loader))
    except ValueError as error:
        return error.args[0].startswith(match)
    return False


@pytest.mark.parametrize(
    "build",
    [lambda: Alternates(rows(20)), lambda: cycled(2), lambda: cycled(3), lambda: cycled(50), flipped],
    ids=["every other read", "a cycle of 2", "a cycle of 3", "a cycle of 50", "a flip"],
)
def test_what_is_read_otherwise_at_another_time(build):
    for seed in range(20):
        assert refused(private(dataset=build(), random_state=seed), "dataset and collate_fn must make the same")


def test_a_collation_that_pads_to_the_longest_record_so_far():
    """It shows unless the longest record of those that are looked at came first."""
    found = 0
    for seed in range(20):
        longest = [0]

        def collate(records, longest=longest):
            longest[0] = max(longest[0], len(records[0]))
            return nn.functional.pad(records[0], (0, 0, 0, longest[0] - len(records[0])))[None]

        lengths = Records([torch.ones(i + 1, 5) for i in range(20)])
        run = private(dataset=lengths, collate_fn=collate, random_state=seed)
        found += refused(run, "dataset and collate_fn must make the same")
    assert found >= 15


class Carries(nn.Linear):
    """Each record gets a share of the one before."""

    last = 0.0

    def forward(self, x):
        y = super().forward(x + 0.3 * self.last)
        self.last = x.detach()
        return y


class Draws(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.generator = np.random.default_rng(0)

    def forward(self, x):
        return super().forward(
            x + torch.from_numpy(self.generator.standard_normal(x.shape) / x.shape[1] ** 0.5).to(x.dtype)
        )


@pytest.mark.parametrize(
    ("build", "arithmetic"),
    [(Carries, "one-by-one"), (Draws, "one-by-one"), (Draws, "exact"), (Draws, "auto"), (Draws, "float")],
)
def test_small_changes_of_wide_gradients(build, arithmetic):
    """Each coordinate is far below an eighth of the bound."""
    for features in (20, 2000):
        unit = TensorDataset(torch.randn(30, features) / features**0.5, torch.randint(0, 10, (30,)))
        run = private(build(features, 10), unit, arithmetic=arithmetic, batch_size=30)
        with pytest.raises(ValueError, match="must keep nothing from one record to the next"):
            run.step(cross_entropy, next(iter(run.loader)))
        assert run.steps_ == 0


def penalized_by_func(model, batch):
    x = batch[0]
    names, values = zip(*model.named_parameters(), strict=True)

    def at(x):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,)).square().sum()

    slope = torch.func.grad(at)(x)
    return cross_entropy(model, batch) + slope.square().flatten(1).sum(1)


def of_all(model, batch):
    """A penalty on the slope of the model, by its Jacobian."""
    x, _ = batch
    return cross_entropy(model, batch) + torch.func.jacrev(model)(x).square().sum().reshape(1)


def capturing(model):
    held = list(model.parameters())
    return lambda model, batch: cross_entropy(model, batch) + 10 * sum(p.square().sum() for p in held)


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_gradients_that_are_not_those_of_autograd_are_refused(arithmetic):
    for dropout in (0.0, 0.5):
        model = nn.Sequential(nn.Dropout(dropout), nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
        run = private(model, arithmetic=arithmetic, noise_multiplier=1.0)
        with pytest.raises(ValueError, match=r"^model must|^loss_fn must have the gradients"):
            run.step(capturing(model), next(iter(run.loader)))
        assert run.steps_ == 0
    for loss in (penalized_by_func, of_all):
        run = private(mlp(), arithmetic=arithmetic, noise_multiplier=1.0)
        if arithmetic in ("exact", "auto"):
            run.step(loss, next(iter(run.loader)))  # torch.func takes its own derivatives
            assert set(run.ways_.values()) == {"vectorised"}
            continue
        with pytest.raises(ValueError, match=r"^model must|^loss_fn must have the gradients"):
            run.step(loss, next(iter(run.loader)))
        assert run.steps_ == 0


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_a_model_with_dropout_has_the_gradients_of_autograd(arithmetic):
    """With the same coins, or in eval mode where layers draw in another order."""
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.TransformerEncoderLayer(8, 2, 8, dropout=0.5))
    if arithmetic == "exact":
        model.append(nn.LSTM(8, 3, 2, dropout=0.5))

    def loss(model, batch):
        found = model(batch[0][:, None])
        return (found[0] if isinstance(found, tuple) else found).square().sum((1, 2))

    private(model, arithmetic=arithmetic, noise_multiplier=1.0).fit(loss)


def contrastive(model, batch):
    scores = model(batch[0])
    return nn.functional.cross_entropy(scores @ scores.t(), torch.arange(len(scores)), reduction="none")


def centred(model, batch):
    scores = model(batch[0])
    return (scores - scores.mean(0)).square().sum(1)


@pytest.mark.parametrize("arithmetic", [*ARITHMETIC, "one-by-one"])
@pytest.mark.parametrize("loss", [contrastive, centred])
def test_losses_that_are_constant_for_a_record_alone_are_warned_of(loss, arithmetic):
    run = private(arithmetic=arithmetic, noise_multiplier=1.0)
    batches = iter(run.loader)
    with pytest.warns(UserWarning, match="the gradients of all records that were looked at are zero"):
        run.step(loss, next(batches))
    run.step(loss, next(batches))  # once


def test_one_record_without_a_gradient_is_nothing_to_warn_of():
    x = torch.zeros(60, 5)
    x[::2] = 1.0
    run = private(nn.Linear(5, 2, bias=False), TensorDataset(x), noise_multiplier=1.0, batch_size=60)
    run.step(lambda model, batch: model(batch[0]).square().sum(1), next(iter(run.loader)))
