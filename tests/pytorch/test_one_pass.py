"""Clipping in one pass: the sums are those of records taken alone, and what it cannot see through is refused."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import clipped_by_hand, cross_entropy, mlp, private, table
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from tightdp.torch.onepass import clipping, factors
from tightdp.torch.onepass import convolutions as convolving
from tightdp.torch.onepass.attention import multi_head_attention
from tightdp.torch.onepass.clipping import OnePassSums


class Block(nn.Module):
    """Attention built of linear layers, and what stands around it."""

    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.shrink(F.gelu(self.grow(self.after(x))))


class Language(nn.Module):
    """Words, learned positions shared by all records, blocks, and an output tied to the words."""

    def __init__(self, words=13, width=8, length=6, tied=True, each=False, padding=0):
        super().__init__()
        self.each = each  # whether every record brings positions of its own
        self.words, self.places = nn.Embedding(words, width, padding_idx=padding), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, words, bias=not tied)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, x):
        places = torch.arange(x.shape[1])
        h = self.words(x) + self.places(places.expand_as(x) if self.each else places)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Bare(nn.Module):
    """Parameters without a module: a token in front, positions, a scale, a matrix, GPT-2's product."""

    def __init__(self, width=4):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 6, width))
        self.scale, self.shift = nn.Parameter(torch.rand(width)), nn.Parameter(torch.randn(()))
        self.matrix, self.bias = nn.Parameter(torch.randn(width, 3)), nn.Parameter(torch.randn(3))
        self.square = nn.Parameter(torch.randn(width, width))

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        x = torch.tanh(x * self.scale - self.shift) @ self.square
        flat = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.matrix)
        return flat.view(len(x), -1, 3).mean(1)


class Shared(nn.Module):
    """One layer used three times, on inputs of different lengths."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = torch.stack([self.layer(x), x], 1)
        return self.out(self.layer(torch.tanh(self.layer(h))).mean(1))


class LoRA(nn.Module):
    def __init__(self, inner, rank=2):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, inner.in_features))
        self.b = nn.Parameter(torch.randn(inner.out_features, rank))

    def forward(self, x):
        return self.inner(x) + F.linear(F.linear(x, self.a), self.b)


class Attends(nn.Module):
    """PyTorch's own attention, with masks: positions first inside, and its weights are used."""

    def __init__(self, width=4):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(width, 2, 6, dropout=0.0, batch_first=True)
        self.attention, self.out = nn.MultiheadAttention(width, 2), nn.Linear(width, 3)

    def forward(self, x):
        x = self.encoder(x, src_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True)
        y = x.transpose(0, 1)
        y, weights = self.attention(y, y, y, key_padding_mask=torch.arange(x.shape[1]).expand(len(x), -1) > 3)
        return self.out(y.mean(0)) + weights.square().sum((1, 2))[:, None]


def convolutions():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=(2, 1), padding=(1, 2), dilation=(1, 2)), nn.GroupNorm(2, 4), nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 2, groups=2), nn.ReLU(inplace=True), nn.Flatten(2), nn.Conv1d(6, 4, 3, stride=2, padding=1),
        nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip


def built(model, *example):
    model(*example)
    return model


def sentences():
    x = torch.randint(0, 13, (9, 6))
    return [x, x.roll(1, 1)]


def words(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).transpose(1, 2), y, reduction="none").mean(1)


def images():
    return [torch.randn(9, 2, 7, 6), torch.randint(0, 3, (9,))]


def rows():
    return list(table(9).tensors)


CASES = {
    "mlp": (mlp, cross_entropy, rows),
    "tied language": (Language, words, sentences),
    "language": (lambda: Language(tied=False), words, sentences),
    "positions of each record": (lambda: Language(tied=False, each=True, padding=None), words, sentences),
    "long sentences": (lambda: Language(words=3, width=2, length=40), words,
                       lambda: [torch.randint(0, 3, (9, 40)), torch.randint(0, 3, (9, 40))]),
    "bare parameters": (Bare, cross_entropy, lambda: [torch.randn(9, 5, 4), torch.randint(0, 3, (9,))]),
    "attention of PyTorch": (Attends, cross_entropy, lambda: [torch.randn(9, 5, 4), torch.randint(0, 3, (9,))]),
    "shared": (Shared, cross_entropy, rows),
    "lora": (lambda: nn.Sequential(LoRA(nn.Linear(5, 7)), nn.ReLU(), LoRA(nn.Linear(7, 3))), cross_entropy, rows),
    "convolutions": (lambda: built(convolutions(), torch.randn(1, 2, 7, 6)), cross_entropy, images),
}  # fmt: skip


def one_pass(model, loss_fn, batch, max_norm, cuts=1):
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sums = OnePassSums(private(model, max_norm=max_norm, arithmetic="float", noise_multiplier=1.0).plan, parameters)
    size = -(-len(batch[0]) // cuts)
    for start in range(0, len(batch[0]), size):
        part = [tensor[start : start + size] for tensor in batch]
        sums.add(model, loss_fn, part, len(part[0]))
    return dict(zip(parameters, sums.values(), strict=True)), sums.ways


def assert_close(found, expected, tolerance=2e-5):
    assert found.keys() == expected.keys()
    largest = max(float(each.abs().max()) for each in expected.values())
    for name, each in found.items():
        assert (each - expected[name]).abs().max() <= tolerance * largest, name


@pytest.mark.parametrize("held", [0, 1 << 23])
@pytest.mark.parametrize("max_norm", [0.05, 1e4])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_records_taken_alone(case, max_norm, held, monkeypatch):
    """With rows where they are cheaper, and with none where factors will do, or those of one record at a time."""
    monkeypatch.setattr(factors, "HELD", held)
    monkeypatch.setattr(convolving, "PIECE", held)
    build, loss_fn, data = CASES[case]
    model, batch = build(), data()
    expected = clipped_by_hand(model, loss_fn, batch, max_norm)
    found, ways = one_pass(model, loss_fn, batch, max_norm)
    assert_close(found, expected)
    assert set(ways) == set(expected)
    assert_close(one_pass(model, loss_fn, batch, max_norm, cuts=2)[0], expected)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("left", ["indices", "vectors"])
@pytest.mark.parametrize("positions", [1, 4])
def test_factors_and_rows_are_the_same_gradients(left, positions):
    b, m, n = 5, 6, 3
    l = torch.randint(0, m, (b, positions)) if left == "indices" else torch.randn(b, positions, m)
    outer = factors.Outer(l, torch.randn(b, positions, n), m)
    other = factors.Outer(torch.randn(b, 2, m), torch.randn(b, 2, n), m)
    for each in (outer, factors.Sum([outer, other]), factors.Sum([other, outer, outer])):
        rows = each.rows()
        truth = rows.double().square().sum((1, 2))
        assert (each.squares() >= truth * (1 - 1e-6)).all() and torch.allclose(each.squares(), truth, rtol=1e-4)
        weights, total = torch.rand(b), torch.zeros(m, n)
        weights[1] = 0.0
        each.add_weighted(weights, total)
        assert torch.allclose(total, torch.einsum("b,bmn->mn", weights, rows), atol=1e-5)
        rest = torch.zeros(m, n)
        factors.Rows(rows).add_weighted(weights, rest)
        assert torch.allclose(total, rest, atol=1e-5)


@pytest.mark.parametrize("left", ["indices", "vectors"])
@pytest.mark.parametrize("rest", [1e-1, 1e-3, 1e-5, 0.0])
def test_norms_of_terms_that_cancel_are_not_too_small(left, rest):
    """Two positions with one input and opposite gradients: what is left of them, and their rounding, is clipped."""
    b, m, n = 4, 64, 64
    once = torch.randint(0, m, (b, 1)) if left == "indices" else 1e4 * torch.randn(b, 1, m)
    right = 1e3 * torch.randn(b, 1, n)
    outer = factors.Outer(torch.cat([once, once], 1), torch.cat([right, -(1 - rest) * right], 1), m)
    for each in (outer, factors.Sum([outer, outer])):
        weights, total = 1 / each.squares().sqrt(), torch.zeros(m, n)
        one = torch.zeros(b, dtype=torch.float64)
        for i in range(b):
            each.add_weighted(torch.where(torch.arange(b) == i, weights, 0.0), total.zero_())
            one[i] = total.double().norm()
        assert (one <= 1 + 1e-3).all()


@pytest.mark.parametrize("scale", [1.0, 1e-15, 1e-19, 1e-23, 1e-30, 1e-42])
@pytest.mark.parametrize("positions", [1, 3])
def test_norms_of_small_gradients_are_not_too_small(scale, positions):
    """Squares underflow in float32 long before the numbers do."""
    b, m, n = 3, 70, 5
    for left, right in ((1.0, scale), (scale, 1.0), (1e10, scale)):
        l, r = left * torch.randn(b, positions, m), right * torch.randn(b, positions, n)
        l[:, 1:], r[:, 1:] = l[:, 1:] * 1e-18, r[:, 1:] * 1e18  # terms of one size out of numbers of several
        outer = factors.Outer(l, r, m)
        truth = (l.double().transpose(1, 2) @ r.double()).square().sum((1, 2))
        assert (outer.squares() >= truth * (1 - 1e-6)).all()
        assert (factors.Rows(outer.rows()).squares() >= outer.rows().double().square().sum((1, 2)) * (1 - 1e-6)).all()


def test_norms_of_many_small_numbers_beside_a_large_one():
    """A running sum in float32 would lose each of them."""
    values = torch.full((2, 1_000_003), 1e-4)
    values[:, 0] = 1.0
    squares = factors.Rows(values).squares()
    assert (squares >= values.double().square().sum(1)).all() and (squares <= 1.02).all()


def test_a_record_that_is_not_finite_adds_nothing():
    for build, loss_fn, data in (CASES["mlp"], CASES["convolutions"], CASES["bare parameters"]):
        model, (x, y) = build(), data()
        expected = clipped_by_hand(model, loss_fn, [x[1:], y[1:]], 0.1)
        for bad in (float("nan"), float("inf")):
            x[0] = bad
            assert_close(one_pass(model, loss_fn, [x, y], 0.1)[0], expected)


def test_a_bound_for_each_parameter():
    model, batch = mlp(), rows()
    bounds = [0.1, 0.02, 0.3, 0.04]
    expected = dict.fromkeys((name for name, _ in model.named_parameters()), 0.0)
    for i in range(9):
        loss = cross_entropy(model, [tensor[i : i + 1] for tensor in batch]).sum()
        for (name, p), bound in zip(model.named_parameters(), bounds, strict=True):
            (g,) = torch.autograd.grad(loss, p, retain_graph=True)
            expected[name] = expected[name] + g.double() * min(1.0, bound / float(g.norm()))
    assert_close(one_pass(model, cross_entropy, batch, bounds)[0], expected)


def refused(model, loss_fn, batch, match):
    with pytest.raises(ValueError, match=match):
        one_pass(model, loss_fn, batch, 1.0)


def test_uses_without_known_gradients_are_named():
    class Transposed(nn.Linear):
        def forward(self, x):
            return x @ self.weight.t() + self.bias

    refused(Transposed(5, 3), cross_entropy, rows(), r"weight goes through .*[.]t, and.*arithmetic=.exact.")
    model = nn.Sequential(nn.Linear(5, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    refused(model, cross_entropy, rows(), r"parametrizations")

    def with_penalty(model, batch):
        return cross_entropy(model, batch) + 0.1 * model[0].weight.norm()

    refused(mlp(), with_penalty, rows(), r"0\.weight goes through .*norm")
    attention = nn.MultiheadAttention(4, 2, add_bias_kv=True, batch_first=True)
    refused(attention, lambda m, b: m(b[0], b[0], b[0])[0].sum((1, 2)), [torch.randn(9, 3, 4)], "multi_head_attention")
    refused(nn.Sequential(nn.Linear(5, 3), nn.PReLU()), cross_entropy, rows(), r"1\.weight goes through .*prelu")
    inner = nn.Linear(5, 3)
    refused(inner, lambda m, b: torch.vmap(m)(b[0]).sum(1), rows(), "inside of another function of torch.func")


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


@pytest.mark.parametrize("masked", [None, "shared", "own"])
@pytest.mark.parametrize("shape", [(6, 4), (2, 6, 4), (3, 2, 6, 4)])
def test_attention_in_one_call_is_that_of_records_alone(shape, masked):
    """Records have no axis of heads, or several axes before theirs."""

    class Fused(nn.Linear):
        def forward(self, x):
            q = super().forward(x)
            mask = {None: None, "shared": torch.ones(6, 6).tril().bool(), "own": q @ x.transpose(-1, -2)}[masked]
            return F.scaled_dot_product_attention(q, x, x, mask).flatten(1).square()

    batch = [torch.randn(9, *shape), torch.randint(0, 3, (9,))]
    model = Fused(4, 4)
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


def test_the_model_is_looked_at_once(monkeypatch):
    looks, seen = [], clipping.check_whole
    monkeypatch.setattr(clipping, "check_whole", lambda *a: (looks.append(len(a)), seen(*a)))
    model, batch = mlp(), rows()
    one_pass(model, cross_entropy, batch, 0.1, cuts=3)
    assert len(looks) == 1


def test_mixed_precision():
    def autocast(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(batch[0])
        return F.cross_entropy(scores.float(), batch[1], reduction="none")

    model, batch = mlp(), rows()
    assert_close(one_pass(model, autocast, batch, 0.1)[0], clipped_by_hand(model, autocast, batch, 0.1), 2e-2)
    narrow = mlp().bfloat16()
    batch[0] = batch[0].bfloat16()
    assert_close(
        one_pass(narrow, cross_entropy, batch, 0.1)[0], clipped_by_hand(narrow, cross_entropy, batch, 0.1), 2e-2
    )


def test_a_run_in_one_pass():
    run = private(arithmetic="float", noise_multiplier=1.0, physical_batch_size=2, dataset=table(100), batch_size=10)
    before = {name: p.detach().clone() for name, p in run.model.named_parameters()}
    run.fit(cross_entropy)
    assert run.steps_ == 10 and set(run.ways_.values()) == {"ghost norm", "materialised"}
    assert all(not torch.equal(p, before[name]) for name, p in run.model.named_parameters())
    assert "sums of gradients are of floats" in " ".join(run.statement_.not_covered)
    assert "noise are exact" in " ".join(private().statement_.not_covered)


def test_noise_of_a_run_in_one_pass():
    model = nn.Linear(300, 200, bias=False)
    data = torch.utils.data.TensorDataset(torch.randn(40, 300), torch.randint(0, 200, (40,)))
    for size in (None, 3):
        run = private(model, data, batch_size=20, max_norm=0.37, noise_multiplier=1.7, arithmetic="float",
                      physical_batch_size=size)  # fmt: skip
        run.step(lambda m, b: 0.0 * cross_entropy(m, b), next(iter(run.loader)))
        noise = model.weight.grad.double() * 20 / (1.7 * 0.37)
        n = noise.numel()
        assert abs(noise.mean()) < 5 / n**0.5 and abs(noise.var() - 1) < 5 * (2 / n) ** 0.5


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("shape", [(5, 5), (9 * 2, 5, 5)])
def test_attention_taken_apart_is_that_of_pytorch(shape, dropped):
    module, x = nn.MultiheadAttention(4, 2, dropout=0.5 if dropped else 0.0), torch.randn(5, 9, 4)
    mask = torch.randn(shape)
    expected = module.eval()(x, x, x, attn_mask=mask, average_attn_weights=False)
    found = multi_head_attention(
        F.linear, x, x, x, 4, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, module.dropout,
        module.out_proj.weight, module.out_proj.bias, training=False, attn_mask=mask, average_attn_weights=False,
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "settings, other, why",
    [({}, True, "only self-attention"), ({"kdim": 3, "vdim": 3}, False, "only self-attention"),
     ({"add_bias_kv": True}, False, "add_bias_kv"), ({"add_zero_attn": True}, False, "add_zero_attn")],
)  # fmt: skip
def test_attention_that_is_refused(settings, other, why):
    class Crossed(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True, **settings)

        def forward(self, x):
            y = torch.randn(len(x), 5, 3 if "kdim" in settings else 4) if other or "kdim" in settings else x
            return self.attention(x, y, y)[0].mean(1)

    dataset = TensorDataset(torch.randn(60, 5, 4), torch.randint(0, 3, (60,)))
    run = private(Crossed(), dataset, arithmetic="float", noise_multiplier=1.0, batch_size=30)
    with pytest.raises(ValueError, match=f"attention.*{why}"):
        run.step(cross_entropy, next(iter(run.loader)))
