"""Sums by torch.func: those of records taken one by one, clipped, to the grid."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import clipped_by_hand, cross_entropy, mlp, private, table
from torch import nn

from tightdp.torch.gradient_sums import per_example_gradients as materialized
from tightdp.torch.gradient_sums.exact_sums import ExactSums


class Tied(nn.Module):
    """Embeddings that are the output layer too, a bare parameter, dropout-free attention and norms."""

    def __init__(self, words=11, width=8):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(4, width))
        self.norm = nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(width, words)
        self.out.weight = self.words.weight

    def forward(self, x):
        h = self.norm(self.words(x) + self.places)
        return self.out(h + self.mix(h, h, h)[0])


def language(model, batch):
    (x,) = batch
    return nn.functional.cross_entropy(model(x).transpose(1, 2), x, reduction="none").mean(1)


def images(model, batch):
    x, y = batch
    return nn.functional.cross_entropy(model(x), y, reduction="none")


def convolutions():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2, groups=2),
        nn.Flatten(), nn.Linear(4 * 2 * 2, 3),
    )  # fmt: skip


CASES = {
    "mlp": (mlp, cross_entropy, lambda: list(table(20).tensors)),
    "tied": (Tied, language, lambda: [torch.randint(0, 11, (20, 4))]),
    "convolutions": (convolutions, images, lambda: [torch.randn(20, 2, 6, 6), torch.randint(0, 3, (20,))]),
    "recurrent": (
        lambda: Last(nn.GRU(3, 4, batch_first=True)),
        images,
        lambda: [torch.randn(20, 5, 3), torch.arange(20) % 4],
    ),
}


class Last(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0][:, -1]


def exact_sums(model, loss_fn, batch, max_norm, cuts=1):
    run = private(model, max_norm=max_norm, noise_multiplier=1.0, arithmetic="exact")
    sums = ExactSums(run.plan, dict(model.named_parameters()))
    size = -(-len(batch[0]) // cuts)
    for start in range(0, len(batch[0]), size):
        part = [tensor[start : start + size] for tensor in batch]
        sums.add(model, loss_fn, part, len(part[0]))
    assert set(sums.gradient_ways.values()) == {"vectorised"}
    return dict(zip(sums.gradient_ways, sums.convert_to_floats(), strict=True)), run.plan.planned_grid_step


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("max_norm", [0.05, 1.0, 1e6])
def test_sums_are_those_of_records_taken_alone(case, max_norm):
    build, loss_fn, data = CASES[case]
    model, batch = build(), data()
    ours, grid = exact_sums(model, loss_fn, batch, max_norm)
    by_hand = clipped_by_hand(model, loss_fn, batch, max_norm)
    assert ours.keys() == by_hand.keys()
    for name, found in ours.items():
        scale = max(float(by_hand[name].abs().max()), 1e-3 * max_norm if max_norm < 1e6 else 0.0)
        assert (found - by_hand[name]).abs().max() <= 20 * grid + 2e-5 * scale, name


@pytest.mark.parametrize("held", [1, 300, 1 << 26])
def test_pieces_and_physical_batches_add_up_to_the_same(held, monkeypatch):
    monkeypatch.setattr(materialized, "MOST_HELD_BYTES", held)
    model, batch = mlp(), list(table(20).tensors)
    whole, grid = exact_sums(model, cross_entropy, batch, 0.1)
    cut, _ = exact_sums(model, cross_entropy, batch, 0.1, cuts=3)
    for name in whole:
        assert (whole[name] - cut[name]).abs().max() <= 20 * grid + 1e-7


def test_a_record_that_is_not_finite_adds_nothing():
    model, (x, y) = mlp(), table(20).tensors
    without, _ = exact_sums(model, cross_entropy, [x[1:], y[1:]], 0.1)
    for bad in (float("nan"), float("inf"), 1e38):
        x[0] = bad
        found, grid = exact_sums(model, cross_entropy, [x, y], 0.1)
        for name in without:
            assert (found[name] - without[name]).abs().max() <= (0.1 if bad == 1e38 else 20 * grid + 1e-7)


def test_one_record_moves_the_sums_by_at_most_the_bound():
    model, (x, y) = mlp(), table(30).tensors
    for max_norm in (1e-3, 0.3):
        with_all, grid = exact_sums(model, cross_entropy, [x, y], max_norm)
        without, _ = exact_sums(model, cross_entropy, [x[1:], y[1:]], max_norm)
        moved = torch.sqrt(sum(((with_all[n] - without[n]) ** 2).sum() for n in with_all))
        assert 0.2 * max_norm < moved <= max_norm + 30 * grid * len(with_all)


def test_a_bound_for_each_parameter():
    model, batch = mlp(), list(table(12).tensors)
    bounds = [0.1, 0.02, 0.3, 0.04]
    ours, grid = exact_sums(model, cross_entropy, batch, bounds)
    by_hand = dict.fromkeys(ours, 0.0)
    for i in range(12):
        loss = cross_entropy(model, [tensor[i : i + 1] for tensor in batch]).sum()
        for (name, p), bound in zip(model.named_parameters(), bounds, strict=True):
            (g,) = torch.autograd.grad(loss, p, retain_graph=True)
            by_hand[name] = by_hand[name] + g * min(1.0, bound / float(g.norm()))
    for name in ours:
        assert (ours[name] - by_hand[name]).abs().max() <= 12 * grid + 1e-6


def test_a_mean_over_the_batch_is_one_over_a_single_record():
    """A loss that divides by what the whole batch holds cannot mix records here."""

    def over_all(model, batch):
        losses = cross_entropy(model, batch)
        return losses * 3 / batch[0].abs().sum()

    model, batch = mlp(), list(table(9).tensors)
    ours, grid = exact_sums(model, over_all, batch, 1e-2)
    by_hand = clipped_by_hand(model, over_all, batch, 1e-2)
    for name in ours:
        assert (ours[name] - by_hand[name]).abs().max() <= 9 * grid + 1e-6


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.read, self.out = kind(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.read(x.unflatten(1, (3, 2)))[0][:, -1])


@pytest.mark.parametrize("arithmetic", ["exact", "one-by-one"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, arithmetic):
    """They hold their weights a second time, which torch.func would leave to its own tensors."""
    model, records = Recurrent(kind), table(12, 6)
    by_hand = clipped_by_hand(model, cross_entropy, records.tensors, 1.0)
    run = private(model, records, batch_size=12, noise_multiplier=1e-9, arithmetic=arithmetic)
    run.step(cross_entropy, next(iter(run.loader)))
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad.double() * 12, by_hand[name], rtol=1e-4, atol=1e-5)
    assert all(held is p for held, p in zip(model.read._flat_weights, model.read.parameters(), strict=True))
