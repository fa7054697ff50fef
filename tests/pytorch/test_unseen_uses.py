"""One pass refuses a use of a parameter that it did not see, whatever the gradients are, and no other."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from one_pass_models import assert_close, one_pass, refused, rows
from small import clipped_by_hand, cross_entropy, private
from torch import nn
from torch.utils.data import TensorDataset

from tightdp.torch.ghost_clipping.clipping import OnePassSums


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
    run = private(Hidden(Doubled, seen), noise_multiplier=1.0, batch_size=30)
    with pytest.raises(ValueError, match=r"record alone: .*Doubled.*one-by-one"):
        run.step(cross_entropy, next(iter(run.loader)))
    run = private(Hidden(Doubled, seen), noise_multiplier=1.0, batch_size=30, arithmetic="one-by-one")
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
