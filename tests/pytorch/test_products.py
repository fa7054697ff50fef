"""Exact sums out of one backward pass: the integers, their norms, and sums that are those of records alone."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import numpy as np
import torch
from small import clipped_by_hand, cross_entropy, mlp, private, still, table
from test_one_pass import CASES

from tightdp.models.contribution_grid import FAST, MOST
from tightdp.torch.batches.batch_places import BatchPlaces
from tightdp.torch.ghost_clipping import products
from tightdp.torch.ghost_clipping.products import ProductSums


def made(model, max_norm, noise_multiplier=1.0):
    parameters = dict(model.named_parameters())
    parameters = {name: p for name, p in parameters.items() if p.requires_grad}
    plan = private(model, max_norm=max_norm, arithmetic="products", noise_multiplier=noise_multiplier).plan
    return ProductSums(plan, parameters), parameters


@pytest.mark.parametrize("held", [1, 1 << 24])
@pytest.mark.parametrize("max_norm", [0.05, 20.0])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_records_taken_alone(case, max_norm, held, monkeypatch):
    monkeypatch.setattr(products, "MOST_HELD_ENTRIES", held)
    build, loss_fn, data = CASES[case]
    model, batch = build(), data()
    sums, parameters = made(model, max_norm, 2.0**-6)
    sums.add(model, loss_fn, batch, len(batch[0]))
    expected = clipped_by_hand(model, loss_fn, batch, max_norm)
    largest = max(float(each.abs().max()) for each in expected.values())
    outputs = sum(len(p) for name, p in parameters.items() if sums.gradient_ways[name] == "product")
    rounding = bool(outputs) * 2.0**-14 + outputs**0.5 * 2.0**-15 + 2.0**-28  # section 7
    found = sums._find_factors(model, loss_fn, batch, len(batch[0])).values()
    positions = [
        products._join_uses_of_parameter(each).right.shape[1] for each in found if products._is_sum_of_products(each)
    ]
    rounding += 2.0**-14 * max(positions, default=0)  # section 9
    rounding *= len(batch[0]) * max_norm
    for name, total in zip(parameters, sums.convert_to_floats(), strict=True):
        difference = float((total - expected[name]).abs().max())
        assert difference <= 2e-5 * largest + rounding, name
    ways = {"product", "sum of products", "materialised"}
    assert set(sums.gradient_ways) == set(parameters) and set(sums.gradient_ways.values()) <= ways
    if case == "mlp":
        assert sums.gradient_ways["0.weight"] == "product"


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 100.0, 3000.0])
def test_integers_of_a_record_are_no_longer_than_the_bound(noise_multiplier):
    """In exact arithmetic. Clipped records are hardly shorter, also where many outputs meet a grid for much noise
    (exact-products.md, section 7), and the sampler draws the noise."""
    model, batch = torch.nn.Linear(8, 2000), [1e3 * torch.randn(20, 8), torch.randint(0, 2000, (20,))]
    sums, _ = made(model, 0.37, noise_multiplier)
    plan = sums._plan
    assert plan.noise_deviation < MOST * plan.planned_grid_step and np.frexp(plan.planned_grid_step)[0] == 0.5
    assert noise_multiplier > 1 or plan.noise_deviation <= FAST * plan.planned_grid_step
    for i in range(20):
        sums.clear_gradient_sums()
        sums.add(model, cross_entropy, [tensor[i : i + 1] for tensor in batch], 1)
        squares = sum(m * m for m in map(int, sums.integers()[0]))
        numerator, denominator = (0.37 / plan.planned_grid_step).as_integer_ratio()
        assert squares * denominator**2 <= numerator**2
        assert squares == 0 or squares * denominator**2 >= (0.99 * numerator) ** 2


def test_sums_do_not_depend_on_how_the_batch_is_cut_or_on_what_is_not_finite():
    model, batch = mlp(), list(table(12).tensors)
    batch[0][3] = float("nan")
    sums, _ = made(model, 0.1)
    sums.add(model, cross_entropy, batch, 12)
    whole = sums.integers()[0].clone()
    sums.clear_gradient_sums()
    rest = [i for i in range(12) if i != 3]
    sums.add(model, cross_entropy, [tensor[rest] for tensor in batch], 11)
    assert (whole - sums.integers()[0]).abs().max() < 2e-5 * whole.abs().max() and whole.any()


def test_words_that_do_not_occur_change_no_bit(monkeypatch):
    """The gradient of an embedding is formed of the words of some records, or of all there are."""
    model = torch.nn.Sequential(torch.nn.Embedding(70, 16), torch.nn.Flatten(), torch.nn.Linear(5 * 16, 3))
    batch = [torch.randint(0, 70, (9, 5)), torch.randint(0, 3, (9,))]
    found = []
    for sparse in (products._is_sparse_embedding, lambda factors: False):
        monkeypatch.setattr(products, "_is_sparse_embedding", sparse)
        sums, _ = made(model, 0.1)
        sums.add(model, cross_entropy, batch, 9)
        found.append(sums.integers()[0].clone())
    assert torch.equal(*found) and found[0][: 70 * 16].any()


def test_places():
    """Sums of records in their places are sums of the sums of each of them alone in its place, bit for bit."""
    model, batch = mlp(), list(table(5).tensors)
    sums, _ = made(model, 0.1)

    def integers(chosen, where):
        sums.clear_gradient_sums()
        part = [tensor[chosen] for tensor in batch]
        sums.add(model, cross_entropy, part, len(chosen), BatchPlaces(np.array(where), 16))
        return sums.integers()[0].clone()

    where = [1, 2, 7, 11, 15]
    alone = sum(integers([record], [place]) for record, place in enumerate(where))
    assert torch.equal(integers(list(range(5)), where), alone) and alone.any()


@pytest.mark.parametrize("padded", [False, True])
def test_a_run(padded):
    found = []
    for arithmetic in ("exact", "products"):
        torch.manual_seed(1)
        run = private(mlp(), table(60), noise_multiplier=1e-3, random_state=5, padded=padded, physical_size=4,
                      arithmetic=arithmetic)  # fmt: skip
        run.fit(cross_entropy)
        found.append([p.detach() for p in run.model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=2e-3)  # the noise is rounded on another grid
    assert "noise are exact" in " ".join(run.statement_.not_covered)
    assert set(run.ways_.values()) == {"product", "materialised"}


def test_noise_of_a_run():
    model = torch.nn.Linear(300, 200, bias=False)
    data = torch.utils.data.TensorDataset(torch.randn(40, 300), torch.randint(0, 200, (40,)))
    run = private(model, data, batch_size=20, max_norm=0.37, noise_multiplier=1.7, arithmetic="products")
    run.step(still, next(iter(run.loader)))
    noise = model.weight.grad.double() * 20 / (1.7 * 0.37)
    n = noise.numel()
    assert abs(noise.mean()) < 5 / n**0.5 and abs(noise.var() - 1) < 5 * (2 / n) ** 0.5


def test_what_is_refused():
    with pytest.raises(ValueError, match="max_norm must be one number for arithmetic"):
        private(arithmetic="products", max_norm=[1.0] * 4)
    for algorithm in ("adaclip", "dpis"):
        with pytest.raises(ValueError, match=r"arithmetic must be .* for"):
            private(arithmetic="products", algorithm=algorithm)
    with pytest.raises(ValueError, match="arithmetic must be"):
        private(arithmetic="integers")
