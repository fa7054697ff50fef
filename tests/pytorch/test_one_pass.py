"""Clipping in one pass: the sums are those of records taken alone."""

import pytest

pytest.importorskip("torch", reason="needs torch")


import torch
from one_pass_models import CASES, assert_close, one_pass, rows
from small import clipped_by_hand, cross_entropy, mlp, private, still, table
from torch import nn
from torch.nn import functional as F

from tightdp.torch.ghost_clipping import convolutions as convolving
from tightdp.torch.ghost_clipping import factors


@pytest.mark.parametrize("held", [0, 1 << 23])
@pytest.mark.parametrize("max_norm", [0.05, 1e4])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_records_taken_alone(case, max_norm, held, monkeypatch):
    """With rows where they are cheaper, and with none where factors will do, or those of one record at a time."""
    monkeypatch.setattr(factors, "MOST_ROW_ENTRIES", held)
    monkeypatch.setattr(convolving, "PIECE_ENTRIES", held)
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
    outer = factors.OuterProducts(l, torch.randn(b, positions, n), m)
    other = factors.OuterProducts(torch.randn(b, 2, m), torch.randn(b, 2, n), m)
    for each in (outer, factors.SummedProducts([outer, other]), factors.SummedProducts([other, outer, outer])):
        rows = each.expand_gradient_factors()
        truth = rows.double().square().sum((1, 2))
        assert (each.bound_squared_factor_norms() >= truth * (1 - 1e-6)).all() and torch.allclose(
            each.bound_squared_factor_norms(), truth, rtol=1e-4
        )
        weights, total = torch.rand(b), torch.zeros(m, n)
        weights[1] = 0.0
        each.add_weighted_gradients_of_factors(weights, total)
        assert torch.allclose(total, torch.einsum("b,bmn->mn", weights, rows), atol=1e-5)
        rest = torch.zeros(m, n)
        factors.GradientRows(rows).add_weighted_gradients_of_factors(weights, rest)
        assert torch.allclose(total, rest, atol=1e-5)


@pytest.mark.parametrize("left", ["indices", "vectors"])
@pytest.mark.parametrize("rest", [1e-1, 1e-3, 1e-5, 0.0])
def test_norms_of_terms_that_cancel_are_not_too_small(left, rest):
    """Two positions with one input and opposite gradients: what is left of them, and their rounding, is clipped."""
    b, m, n = 4, 64, 64
    once = torch.randint(0, m, (b, 1)) if left == "indices" else 1e4 * torch.randn(b, 1, m)
    right = 1e3 * torch.randn(b, 1, n)
    outer = factors.OuterProducts(torch.cat([once, once], 1), torch.cat([right, -(1 - rest) * right], 1), m)
    for each in (outer, factors.SummedProducts([outer, outer])):
        weights, total = 1 / each.bound_squared_factor_norms().sqrt(), torch.zeros(m, n)
        one = torch.zeros(b, dtype=torch.float64)
        for i in range(b):
            each.add_weighted_gradients_of_factors(torch.where(torch.arange(b) == i, weights, 0.0), total.zero_())
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
        outer = factors.OuterProducts(l, r, m)
        truth = (l.double().transpose(1, 2) @ r.double()).square().sum((1, 2))
        assert (outer.bound_squared_factor_norms() >= truth * (1 - 1e-6)).all()
        assert (
            factors.GradientRows(outer.expand_gradient_factors()).bound_squared_factor_norms()
            >= outer.expand_gradient_factors().double().square().sum((1, 2)) * (1 - 1e-6)
        ).all()


def test_norms_of_many_small_numbers_beside_a_large_one():
    """A running sum in float32 would lose each of them."""
    values = torch.full((2, 1_000_003), 1e-4)
    values[:, 0] = 1.0
    squares = factors.GradientRows(values).bound_squared_factor_norms()
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


def mixed_loss(loss_fn):
    """The loss function in the arithmetic of autocast, from the model's first layer on."""

    def loss(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return loss_fn(model, batch).float()

    return loss


NORMS = {
    "layer norm": lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
    "instance norm": lambda: nn.Sequential(
        nn.Linear(5, 8), nn.Unflatten(1, (2, 4)), nn.InstanceNorm1d(2, affine=True), nn.Flatten(), nn.Linear(8, 3)
    ),
}
"""Models in which autocast gives a norm layer an input that is narrower than its weights."""


@pytest.mark.parametrize("case", ["mlp", "convolutions", "bare parameters", *NORMS])
@pytest.mark.parametrize("arithmetic", ["auto", "products", "float", "exact", "one-by-one"])
@pytest.mark.parametrize("narrow", [False, True])
def test_autocast_in_the_loss(case, arithmetic, narrow):
    """The first layer's input is wide and its error narrow, and the weights may be narrow. Each record adds its clipped
    gradient, no longer than the bound."""
    build, loss_fn, data = (NORMS[case], cross_entropy, rows) if case in NORMS else CASES[case]
    model, batch = build(), data()
    if case == "instance norm" and arithmetic in ("products", "float"):
        with pytest.raises(ValueError, match="model must"):
            private(model, arithmetic=arithmetic, noise_multiplier=1.0)
        return
    if narrow:
        model.bfloat16()
    loss, dataset = mixed_loss(loss_fn), torch.utils.data.TensorDataset(*batch)
    run = private(model, dataset, arithmetic=arithmetic, batch_size=len(dataset), max_norm=0.05, noise_multiplier=1.0)
    run.step(loss, next(iter(run.loader)))
    for i in range(3):
        one = [tensor[i : i + 1] for tensor in batch]
        sums = run._sum_maker.make_step_sums(run._check_run_parameters())
        sums.check(model, loss, one, 1)
        sums.add(model, loss, one, 1)
        found = dict(zip(run._names, sums.convert_to_floats(), strict=True))
        assert sum(float(total.double().square().sum()) for total in found.values()) <= 0.05**2
        assert_close(found, clipped_by_hand(model, loss, one, 0.05), 3e-2)


LOSSES = {
    "cross entropy": lambda scores, y: F.cross_entropy(scores, y, reduction="none"),
    "negative log likelihood": lambda scores, y: F.nll_loss(scores, y, reduction="none"),
    "logistic": lambda scores, y: F.binary_cross_entropy_with_logits(scores[:, 0], 1.0 * y, reduction="none"),
    "distance": lambda scores, y: F.l1_loss(scores[:, 0], 1.0 * y, reduction="none"),
    "poisson": lambda scores, y: F.poisson_nll_loss(scores[:, 0], 1.0 * y, reduction="none"),
    "hinge": lambda scores, y: F.hinge_embedding_loss(scores[:, 0], 1.0 - 2 * (y == 0), reduction="none"),
    "cosine": lambda scores, y: F.cosine_embedding_loss(scores, scores + 1, 1.0 - 2 * (y == 0), reduction="none"),
}


@pytest.mark.parametrize("arithmetic", ["products", "exact"])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_under_autocast_are_wide(loss, arithmetic):
    """Scores are integers, which bfloat16 holds. Where they tell records apart, 1 - exp(-loss) is lost in bfloat16."""
    model = nn.Linear(5, 3)
    x, types = torch.randint(-1, 2, (9, 5)).float(), set()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randint(-1, 2, p.shape))
        y = model(x).argmax(1)

    def mixed(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            found = LOSSES[loss](model(batch[0]), batch[1])
        types.add(found.dtype)
        return found

    run = private(model, arithmetic=arithmetic, max_norm=0.05, noise_multiplier=1.0)
    for i in range(9):
        one = [x[i : i + 1], y[i : i + 1]]
        sums = run._sum_maker.make_step_sums(dict(model.named_parameters()))
        sums.add(model, mixed, one, 1)
        expected = clipped_by_hand(model, mixed, one, 0.05)
        assert_close(dict(zip(expected, sums.convert_to_floats(), strict=True)), expected, 2e-2)
    assert types == {torch.float32}


def test_a_run_in_one_pass():
    run = private(arithmetic="float", noise_multiplier=1.0, physical_size=2, dataset=table(100), batch_size=10)
    before = {name: p.detach().clone() for name, p in run.model.named_parameters()}
    run.fit(cross_entropy)
    assert run.steps_ == 10 and set(run.ways_.values()) == {"ghost norm", "materialised"}
    assert all(not torch.equal(p, before[name]) for name, p in run.model.named_parameters())
    assert "roundings of gradients, their norms and their sums" in " ".join(run.statement_.not_covered)
    assert "noise are exact" in " ".join(private().statement_.not_covered)


def test_noise_of_a_run_in_one_pass():
    model = nn.Linear(300, 200, bias=False)
    data = torch.utils.data.TensorDataset(torch.randn(40, 300), torch.randint(0, 200, (40,)))
    for size in (None, 3):
        run = private(model, data, batch_size=20, max_norm=0.37, noise_multiplier=1.7, arithmetic="float",
                      physical_size=size)  # fmt: skip
        run.step(still, next(iter(run.loader)))
        noise = model.weight.grad.double() * 20 / (1.7 * 0.37)
        n = noise.numel()
        assert abs(noise.mean()) < 5 / n**0.5 and abs(noise.var() - 1) < 5 * (2 / n) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("layer", ["linear", "bias", "convolution"])
@pytest.mark.parametrize("max_norm", [1e-30, 1e-8, 1e-3, 1.0])
def test_no_length_of_a_gradient_takes_a_record_beyond_the_bound(max_norm, layer, dtype):
    """Weights that a narrow type holds as subnormal numbers, or not at all, are up to twice as large there."""
    model = nn.Conv1d(1, 2, 2) if layer == "convolution" else nn.Linear(2, 1, bias=layer == "bias")
    model = model.to(dtype)
    most, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    lengths = [most**share for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)]
    lengths += [max_norm / (times * least) for times in (0.505, 1.51, 2.51, 5.5) if max_norm / most < times * least]
    for length in torch.tensor(lengths, dtype=torch.float64).to(dtype):
        x = torch.ones(1, 1, 2, dtype=dtype) if layer == "convolution" else torch.zeros(1, 2, dtype=dtype)
        if layer == "linear":
            x += 1

        def loss(module, batch):
            return (module(batch[0]).flatten(1).sum(1) * batch[1]).float()

        found, _ = one_pass(model, loss, (x, length[None]), max_norm)
        norm = sum(part.double().square().sum() for part in found.values()).sqrt()
        assert norm <= max_norm * (1 + 2**-7), float(length)
