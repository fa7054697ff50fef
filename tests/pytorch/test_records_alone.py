"""One pass shows a model one record at a time: nothing mixes records, and what it cannot see through is refused."""

import pytest

pytest.importorskip("torch", reason="needs torch")

from types import SimpleNamespace

import torch
from one_pass_models import Language, assert_close, one_pass, rows, words
from small import clipped_by_hand, cross_entropy, mlp, private
from torch import nn
from torch.utils.data import TensorDataset

from tightdp.torch.onepass.clipping import OnePassSums


def refused(model, loss_fn, batch, match):
    with pytest.raises(ValueError, match=match):
        one_pass(model, loss_fn, batch, 1.0)


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
        sums.clear()
        sums.add(model, cross_entropy, part, 24)
        assert_close(
            dict(zip(parameters, sums.values(), strict=True)), clipped_by_hand(model, cross_entropy, part, 0.1)
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


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return x * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g * weight, (g * x).sum(0)


class Followed(Doubled):
    generate_vmap_rule = True


class Hidden(nn.Module):
    """A parameter that PyTorch's functions are not shown to, beside a use that they are."""

    def __init__(self, function, seen):
        super().__init__()
        self.weight, self.out = nn.Parameter(torch.randn(5)), nn.Linear(5, 3)
        self.function, self.seen = function, seen

    def forward(self, x):
        return self.out(self.function.apply(x, self.weight) + (x * self.weight if self.seen else 0.0))


@pytest.mark.parametrize("seen", [False, True])
def test_uses_that_are_not_seen(seen):
    model = Hidden(Followed, seen)
    refused(model, cross_entropy, rows(), "weight goes through custom_function_call")
    alias = model.weight.view(5)  # made elsewhere: no call shows the parameter
    model.function = SimpleNamespace(apply=lambda x, weight: x * alias)
    refused(model, cross_entropy, rows(), "weight is used in a way that was not seen")
    refused(Hidden(Doubled, seen), cross_entropy, rows(), "torch.func.vmap.*Doubled|vmap")
    run = private(Hidden(Doubled, seen), noise_multiplier=1.0, batch_size=30)  # exact: one record after the other
    run.step(cross_entropy, next(iter(run.loader)))
    assert set(run.ways_.values()) == {"one record after the other"}


compiled = torch.jit.CompilationUnit("""
def scaled(x, weight):
    return torch.tanh(x * weight) * weight
""")


class Aliased(nn.Module):
    """Uses of parameters that are seen, and one by a tensor that was made of a parameter before, once it is told to."""

    def __init__(self, how):
        super().__init__()
        self.first, self.out, self.how, self.told = nn.Linear(5, 5), nn.Linear(5, 3), how, True
        self.alias = [self.first.bias.view(5), self.first.weight.view(5, 5)]

    def forward(self, x):
        bias, weight = self.alias
        if not self.told:
            return self.out(self.first(x))
        if self.how == "before":
            return self.out(self.first(x + bias))
        if self.how == "after":
            return self.out(self.first(x)) + (self.first(x) @ weight)[:, :3]
        if self.how == "argument":
            return self.out(nn.functional.linear(x, self.first.weight, bias) + self.first(x))
        if self.how == "input of all":
            return self.out(self.first(x) + self.first(bias))
        if self.how == "compiled":
            return self.out(compiled.scaled(self.first(x), self.first.bias))
        if self.how == "without effect":
            return self.out(self.first(x) + bias - bias)
        return self.out(nn.functional.layer_norm(self.first(x) + bias.sum(), (5,)))  # "cancelled"


@pytest.mark.parametrize("arithmetic", ["float", "products"])
@pytest.mark.parametrize(
    "how", ["before", "after", "argument", "input of all", "compiled", "without effect", "cancelled"]
)
def test_uses_that_are_not_seen_beside_others_that_are(how, arithmetic):
    """Whatever the gradients are: none, not finite, or large ones that cancel."""
    for scale in (1.0, 0.0, float("nan"), 1e7):
        x = torch.randn(12, 5)
        x = scale * torch.cat([x, -x])
        run = private(Aliased(how), TensorDataset(x, torch.zeros(24, dtype=torch.long)), batch_size=12,
                      noise_multiplier=1.0, arithmetic=arithmetic)  # fmt: skip
        with pytest.raises(ValueError, match=r"first\.\w+ is used in a way that was not seen|TorchScript"):
            run.step(cross_entropy, next(iter(run.loader)))
        assert run.steps_ == 0


def test_every_batch_is_looked_at():
    model, batch = Aliased("before"), rows()
    model.told = False
    sums = OnePassSums(private(model, arithmetic="float", noise_multiplier=1.0).plan, dict(model.named_parameters()))
    sums.add(model, cross_entropy, batch, 9)
    model.told = True
    with pytest.raises(ValueError, match="was not seen"):
        sums.add(model, cross_entropy, batch, 9)


def test_what_does_not_take_part_in_the_gradient_is_no_use():
    class Reads(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                scale = alias.norm()
            return super().forward(x) * scale + alias.detach()[:, 0] + (alias > 0).sum()

    model, batch = Reads(5, 3), rows()
    alias = model.weight.view(3, 5)
    assert_close(one_pass(model, cross_entropy, batch, 0.1)[0], clipped_by_hand(model, cross_entropy, batch, 0.1))


class Separate(nn.Module):
    """Attention with a layer for each of its arrays: the softmax cancels the bias of the keys."""

    def __init__(self, width=8):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 3)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (layer(h).unflatten(-1, (2, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.last((x + self.o(mixed)).mean(1))


class Squared(nn.Module):
    """The mean of the squares of what a group norm centres: its bias, at 0, has no gradient."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.GroupNorm(2, 10), nn.Linear(10, 3)

    def forward(self, x):
        return self.last(self.norm(x).square().mean(2))


class Centring(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = self.first(x)
        return self.last((h - h.mean(1, keepdim=True)).square().mean(1))


CANCELLED = {
    "keys": Separate,
    "convolution before a norm": lambda: nn.Sequential(
        nn.Conv1d(10, 8, 3), nn.GroupNorm(8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6, 3)
    ),
    "squares": Squared,
    "centring": Centring,
}


@pytest.mark.parametrize("arithmetic", ["float", "products"])
@pytest.mark.parametrize("case", CANCELLED)
def test_gradients_that_are_zero_but_for_rounding(case, arithmetic):
    for _ in range(8):
        model, data = CANCELLED[case](), TensorDataset(torch.randn(20, 10, 8), torch.randint(0, 3, (20,)))
        run = private(model, data, arithmetic=arithmetic, noise_multiplier=1.0)
        run.step(cross_entropy, next(iter(run.loader)))
        assert run.steps_ == 1
    batch = list(data.tensors)
    assert_close(one_pass(model, cross_entropy, batch, 0.1)[0], clipped_by_hand(model, cross_entropy, batch, 0.1))


@pytest.mark.parametrize("arithmetic", ["float", "products"])
def test_no_values_of_a_record_decide_whether_a_run_starts(arithmetic):
    """One that is large and cancels, wherever it stands."""
    for place in range(6):
        x = torch.randn(6, 4, 5)
        x[place, :2] = 1e7 * torch.ones(5) + torch.randn(2, 5)
        x[place, 2:] = -1e7
        run = private(torch.nn.Linear(5, 3), TensorDataset(x), arithmetic=arithmetic, noise_multiplier=1.0)
        run.step(lambda model, batch: model(batch[0]).sum((1, 2)), next(iter(run.loader)))
        assert run.steps_ == 1


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
    assert_close(dict(zip(parameters, sums.values(), strict=True)), expected)


def test_tables_of_as_many_positions_as_records():
    model, batch = Language(length=5), [torch.randint(0, 13, (5, 5))] * 2
    assert_close(one_pass(model, words, batch, 0.1)[0], clipped_by_hand(model, words, batch, 0.1))
