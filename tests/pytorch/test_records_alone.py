"""One pass shows a model one record at a time: nothing mixes records, and what it cannot see through is refused."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from one_pass_models import Language, assert_close, one_pass, refused, rows, words
from small import clipped_by_hand, cross_entropy, mlp, private
from torch import nn

from tightdp.torch.ghost_clipping import record_axis
from tightdp.torch.ghost_clipping.clipping import OnePassSums


def test_uses_without_known_gradients_are_named():
    class Transposed(nn.Linear):
        def forward(self, x):
            return x @ self.weight.t() + self.bias

    refused(Transposed(5, 3), cross_entropy, rows(), r"weight goes through .*[.]t, and.*arithmetic=.exact.")

    def with_penalty(model, batch):
        return cross_entropy(model, batch) + 0.1 * model[0].weight.norm()

    refused(mlp(), with_penalty, rows(), r"0\.weight goes through .*norm")

    class Bent(nn.Linear):
        def forward(self, x):
            return nn.functional.prelu(super().forward(x), self.bias)

    refused(Bent(5, 3), cross_entropy, rows(), r"bias goes through .*prelu")
    inner = nn.Linear(5, 3)
    refused(inner, lambda m, b: torch.vmap(m)(b[0]).sum(1), rows(), "inside another torch.func transform")


class Centred(nn.Linear):
    """Subtracts the mean over the batch: zero, of one record."""

    def forward(self, x):
        scores = super().forward(x)
        return super().forward(x) - scores.mean(0)


class Regrouped(nn.Module):
    """Orders, turns around or gathers the rows of a batch by what they hold, between two layers."""

    def __init__(self, how):
        super().__init__()
        self.first, self.last, self.how = nn.Linear(5, 7), nn.Linear(7, 3), how

    def forward(self, x):
        h = torch.tanh(self.first(x))
        order = torch.argsort(h[:, 0]) if self.how != "largest" else h.abs().argmax(0)
        moved = {
            "sorted": lambda: h[order],
            "sorted and back": lambda: h[order][torch.argsort(order)],
            "gathered": lambda: h.gather(0, order[:, None].expand_as(h)),
            "selected": lambda: h.index_select(0, order),
            "largest": lambda: h.gather(0, order[None]).expand_as(h),
            "turned": lambda: h.flip(0),
            "rolled": lambda: h.roll(1, 0),
            "scattered": lambda: torch.zeros_like(h).index_copy(0, order, h),
            "attended": lambda: (h @ h.t()).softmax(1) @ h,
            "cumulated": lambda: h.cumsum(0),
            "detached": lambda: h * h.detach().square().sum(),
        }
        return self.last(moved[self.how]())


HOWS = ("sorted", "sorted and back", "gathered", "selected", "largest", "turned", "rolled", "scattered", "attended",
        "cumulated", "detached")  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
def test_no_batch_can_be_regrouped(how):
    """The rows of the first batch are in order, and those of the second are not: both have the sums of records alone.

    A factor that was another record's would leave a gradient of up to sqrt(2) times the bound.
    """
    model, x, y = Regrouped(how), torch.randn(24, 5), torch.randint(0, 3, (24,))
    with torch.no_grad():
        x = x[torch.argsort(torch.tanh(model.first(x))[:, 0])]
    x, y = torch.cat([x, x.flip(0) * torch.logspace(-3, 3, 24)[:, None]]), torch.cat([y, y])
    parameters = dict(model.named_parameters())
    sums = OnePassSums(private(model, arithmetic="float", noise_multiplier=1.0, max_norm=0.1).plan, parameters)
    for start in (0, 24):
        part = [x[start : start + 24], y[start : start + 24]]
        sums.clear_gradient_sums()
        sums.add(model, cross_entropy, part, 24)
        assert_close(
            dict(zip(parameters, sums.convert_to_floats(), strict=True)),
            clipped_by_hand(model, cross_entropy, part, 0.1),
        )


def test_records_do_not_see_how_many_there_are():
    seen = []

    class Counts(nn.Linear):
        def forward(self, x):
            seen.append(len(x))
            return super().forward(x)

    one_pass(Counts(5, 3), cross_entropy, rows(), 0.1)
    assert set(seen) == {1}
    batch = [torch.randn(9, 5), torch.zeros(9, dtype=torch.long)]
    model = Centred(5, 3)
    found, _ = one_pass(model, cross_entropy, batch, 0.1)
    assert_close(found, dict.fromkeys(found, torch.zeros(())), 1.0)
    assert all(each.abs().max() == 0.0 for each in found.values())


def test_losses_that_depend_on_the_batch_are_those_of_records_alone():
    def over_all(model, batch):
        return cross_entropy(model, batch) * 3 / batch[0].abs().sum()

    model, batch = mlp(), rows()
    assert_close(one_pass(model, over_all, batch, 0.1)[0], clipped_by_hand(model, over_all, batch, 0.1))


@pytest.mark.parametrize(
    "depends",
    [lambda h: h if h.max() > 9 else 2 * h, lambda h: h * float(h.sum()), lambda h: h * h.tolist()[0][0],
     lambda h: torch.from_numpy(h.detach().numpy()), lambda h: h * len(h[h > 0]),
     lambda h: h.as_strided((1, 5), (5, 1), 5), lambda h: h.view(-1).resize_(10)[5:][None],
     lambda h: torch.ops.aten.set_(h, torch.ones(1, 5)), lambda h: (h.data, h)[1],
     lambda h: (h.register_hook(lambda g: g.flip(0)), h)[1]],
)  # fmt: skip
def test_ways_around_that_are_refused(depends):
    """Values of the batch that decide what is computed, memory of all records, and hooks that see it."""

    class Depends(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.out = nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.out(depends(self.first(x)))

    refused(Depends(), cross_entropy, rows(), "model must be one that")


def test_a_loss_of_another_shape():
    refused(mlp(), lambda m, b: cross_entropy(m, b).mean(), rows(), r"one loss for each record.*got \(\)")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):  # the user's own error stays what it is
        one_pass(mlp(), lambda m, b: cross_entropy(m, [b[0][:, :4], b[1]]), rows(), 1.0)


@pytest.mark.parametrize("length", [3, 9])
def test_records_along_the_second_axis(length):
    """As many positions as records: the shape alone would not tell, and need not."""

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x.transpose(0, 1)).transpose(0, 1).mean(1)

    model, batch = Sequence(), [torch.randn(9, length, 4), torch.randint(0, 3, (9,))]
    assert_close(one_pass(model, cross_entropy, batch, 0.1)[0], clipped_by_hand(model, cross_entropy, batch, 0.1))


by_vmap = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="checkpoints by torch.func.vmap need torch 2.13"
)


@by_vmap
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations(reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.out = mlp(), nn.Linear(3, 3)

        def forward(self, x):
            h = torch.utils.checkpoint.checkpoint(self.first, x, use_reentrant=reentrant)
            return self.out(h)

    model, batch = Checkpointed(), rows()
    if reentrant:
        refused(model, cross_entropy, batch, "vmap")
    else:
        found, _ = one_pass(model, cross_entropy, batch, 0.1)
        assert_close(found, clipped_by_hand(model, cross_entropy, batch, 0.1))


@by_vmap
def test_without_the_engine_under_the_mode_checkpoints_are_refused(monkeypatch):
    monkeypatch.setattr(record_axis, "_run_backward", None)
    model, batch = mlp(), rows()
    assert_close(one_pass(model, cross_entropy, batch, 0.1)[0], clipped_by_hand(model, cross_entropy, batch, 0.1))
    inner = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 5), nn.Sigmoid())
    model = nn.ModuleList([inner, nn.Linear(5, 3)])

    def checkpointed(model, batch):
        h = torch.utils.checkpoint.checkpoint(model[0], batch[0], use_reentrant=False)
        return nn.functional.cross_entropy(model[1](h), batch[1], reduction="none")

    with pytest.raises(RuntimeError, match="Recomputed values"):
        one_pass(model, checkpointed, batch, 0.1)
    run = private(model)
    with pytest.raises(ValueError, match=r"saved tensor hooks.*use arithmetic='one-by-one'"):
        run.step(checkpointed, next(iter(run.loader)))


def test_inputs_that_change_in_place():
    class Changes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.out = nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x):
            h = x.clone()
            y = self.layer(h)
            h.mul_(2.0)
            return self.out(y + h)

    refused(Changes(), cross_entropy, rows(), "changed in place")


@pytest.mark.parametrize("sizes", [(9, 6), (6, 9), (5, 6), (8, 5, 2, 1, 6)])
def test_tables_of_positions_stay_shared_when_shapes_coincide(sizes):
    """Whether a table is shared is seen once, and as many records as positions do not unsay it."""
    x = torch.randint(0, 13, (sum(sizes), 6))
    batch, model = [x, x.roll(1, 1)], Language(length=6)
    parameters = dict(model.named_parameters())
    sums = OnePassSums(private(model, arithmetic="float", noise_multiplier=1.0).plan, parameters)
    for part in zip(*(tensor.split(sizes) for tensor in batch), strict=True):
        sums.add(model, words, list(part), len(part[0]))
    expected = clipped_by_hand(model, words, batch, 1.0)
    assert_close(dict(zip(parameters, sums.convert_to_floats(), strict=True)), expected)


def test_tables_of_as_many_positions_as_records():
    model, batch = Language(length=5), [torch.randint(0, 13, (5, 5))] * 2
    assert_close(one_pass(model, words, batch, 0.1)[0], clipped_by_hand(model, words, batch, 0.1))
