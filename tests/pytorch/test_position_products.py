"""Sums of products over positions that are not formed (docs/theory/exact-products.md, section 9): the integers of the
reference, within the bound in Python's integers, and a function of their own record."""

import pytest

pytest.importorskip("torch", reason="needs torch")

from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import positions as reference
from small import clipped_by_hand, private
from torch import nn

from tightdp.models import dense
from tightdp.torch.ghost_clipping import position_products as positions
from tightdp.torch.ghost_clipping import products as product_sums
from tightdp.torch.ghost_clipping.factors import GradientRows, OuterProducts, SummedProducts
from tightdp.torch.ghost_clipping.position_products import (
    PositionProducts,
    choose_position_product_digits,
    clip_position_products,
    is_product_sum_cheaper,
)
from tightdp.torch.ghost_clipping.products import ProductSums


@pytest.fixture(autouse=True, scope="module")
def never_formed():
    """No sum of products is formed, although that takes less work for small shapes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product_sums, "is_product_sum_cheaper", lambda positions, *shape, on_device: positions > 1)
        yield


GRID = dense.choose_dense_product_grid(1.0)


def sums_of(factors, shapes, max_norm=1.0, chosen=None):
    """The sums of one batch with these factors, by the number of the parameter."""
    parameters = {str(i): nn.Parameter(torch.zeros(shape)) for i, shape in enumerate(shapes)}
    plan = private(nn.Linear(2, 2), max_norm=max_norm, arithmetic="products", noise_multiplier=2.0**-6).plan
    sums = ProductSums(plan, parameters)
    sums._add_gradient_factors(factors, len(next(iter(factors.values())).expand_gradient_factors()), chosen)
    return [total.clone() for total in sums.integers()[1]], plan.planned_grid_step


def is_within(totals, grid, max_norm=1.0):
    squares = sum(int(x) ** 2 for total in totals for x in total.flatten())
    return squares * Fraction(grid) ** 2 <= Fraction(max_norm) ** 2


def add_alone(left, right, factors, bound=2.0**30, digits=15):
    """Integers of records for given norms: the clipped factors, and the sum of each record."""
    products = PositionProducts(OuterProducts(left, right, left.shape[2]), digits)
    clipped = clip_position_products([products], factors, bound, 1 / GRID)
    total = torch.zeros(left.shape[2], right.shape[2], dtype=torch.int64)
    products.add_position_products_to(total)
    return clipped, total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("digits", [12, 14, 15])
@pytest.mark.parametrize("records, count, left, right", [(1, 2, 5, 7), (3, 9, 40, 33), (5, 70, 3, 2)])
def test_integers_are_those_of_the_reference(records, count, left, right, digits, dtype):
    bound = 2.0 ** (15 + digits)
    assert choose_position_product_digits(bound) == digits
    l, r = torch.randn(records, count, left, dtype=dtype), torch.randn(records, count, right, dtype=dtype)
    norms = (l.transpose(1, 2) @ r).flatten(1).double().norm(dim=1)
    clipped, total = add_alone(l, r, norms, bound, digits)
    expected = np.zeros((left, right), object)
    for k in range(records):
        m = reference.product_sum(l[k].numpy(), r[k].numpy(), float(clipped.factors[k]), 1 / GRID, digits)
        expected = expected + np.array(m, object)
        assert reference.squared_norm(m) + int(clipped.rest[k]) ** 2 <= bound**2
        assert reference.squared_norm(m) >= (bound * (1 - 2.0**-9)) ** 2  # clipped records reach the bound
    assert total.numpy().tolist() == expected.tolist()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 4), st.floats(1e-6, 1e6))
def test_any_record_is_within_the_bound_with_all_its_gradients(data, count, max_norm):
    """Any bit patterns: what overflows, underflows, cancels or is not finite, in two sums and a formed gradient."""
    number = st.floats(width=32, allow_nan=True, allow_infinity=True) | st.sampled_from([1.0, -1.0, 2.0**24, 1e9, 1e-9])

    def draw(*shape):
        n = int(np.prod(shape))
        return torch.tensor(data.draw(st.lists(number, min_size=n, max_size=n)), dtype=torch.float32).view(shape)

    shapes = [(2 * count + 3, 2 * count + 3), (9, 9), (3,)]
    uses = [OuterProducts(draw(1, n, 9), draw(1, n, 9), 9) for n in (2, 1)]
    factors = {
        0: OuterProducts(draw(1, count + 1, 2 * count + 3), draw(1, count + 1, 2 * count + 3), 2 * count + 3),
        1: SummedProducts(uses),
        2: GradientRows(draw(1, 3)),
    }  # fmt: skip
    totals, grid = sums_of(factors, shapes, max_norm)
    assert is_within(totals, grid, max_norm)
    held = [factors[0].left, factors[0].right, factors[2].values]
    if not all(torch.isfinite(each).all() for each in held):
        assert not any(total.any() for total in totals)


@pytest.mark.parametrize("size", [1.0, 2.0**8, 2.0**20, 1e30])
@pytest.mark.parametrize("rest", [0.0, 1e-7, 1e-3])
def test_positions_that_cancel_do_not_pass_the_bound(size, rest):
    """Confining one of three weights whose sum is 0 would make the sum 128 times as long as the bound."""
    r = torch.randn(1, 1, 40).expand(1, 3, 40) + rest * torch.randn(1, 3, 40)
    l = size * torch.tensor([2.0, -1.0, -1.0])[None, :, None] * torch.ones(1, 3, 40)
    totals, grid = sums_of({0: OuterProducts(l, r, 40), 1: GradientRows(torch.ones(1, 4))}, [(40, 40), (4,)])
    assert is_within(totals, grid)


def test_norms_of_integers_are_not_too_small():
    """The bound on the squared norm beside Python's integers, where terms are large and nearly cancel."""
    g = np.random.default_rng(3)
    for width in (3, 64, 700):
        w = g.integers(-(2**17) + 1, 2**17, (8, 5, width))
        q = g.integers(-(2**15) + 129, 2**15 - 128, (8, 5, width))
        w[:, 1], q[:, 1] = -w[:, 0], q[:, 0]
        q[:4, 1, 0] += 1
        w[2:6, 2:] = 0
        inner = [torch.from_numpy((x @ x.transpose(0, 2, 1)).astype(np.float64)) for x in (w, q)]
        for k, found in enumerate(positions.bound_squared_product_norms(*inner)):
            exact = int(
                sum(
                    int(a) * int(b)
                    for a, b in zip((w[k] @ w[k].T).ravel().tolist(), (q[k] @ q[k].T).ravel().tolist(), strict=True)
                )
            )
            assert exact >= 0 and Fraction(float(found)) >= exact


def test_a_record_does_not_depend_on_others_or_on_positions_of_zeros():
    """Small integers, of which every product and sum of the norms is exact in floats."""
    g = torch.Generator().manual_seed(0)
    l, r = (torch.randint(-8, 9, (6, 4, 24), generator=g).float() for _ in range(2))
    r[4, 2, 1], l[5, 0, 0] = torch.inf, torch.nan
    rows = torch.randint(-8, 9, (6, 5), generator=g).float()

    def totals(some, padding=0):
        zeros = torch.zeros(len(l[some]), padding, 24)
        factors = {
            0: OuterProducts(torch.cat([l[some], zeros], 1), torch.cat([r[some], zeros], 1), 24),
            1: GradientRows(rows[some]),
        }
        return sums_of(factors, [(24, 24), (5,)])[0]

    alone = [totals(slice(k, k + 1)) for k in range(6)]
    together = totals(slice(None))
    for i, total in enumerate(together):
        assert torch.equal(total, sum(each[i] for each in alone)) and total.any()
    assert not any(total.any() for k in (4, 5) for total in alone[k])
    assert torch.equal(totals(slice(None), 3)[0], together[0])


@pytest.fixture
def four_threads():
    """PyTorch then splits a sum of one record, and a product of matrices of one record, into parts."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("rest", [1.0, 1e-3])
def test_a_record_has_the_same_bits_beside_others(rest, four_threads):
    """Bit for bit where every sum is rounded, and where most of it cancels."""
    l, r, rows = torch.randn(4, 34, 301), torch.randn(4, 34, 301), torch.randn(4, 5)
    l[:, 17:], r[:, 17:] = -l[:, :17], r[:, :17] + rest * r[:, 17:]

    def totals(some):
        return sums_of({0: OuterProducts(l[some], r[some], 301), 1: GradientRows(rows[some])}, [(301, 301), (5,)])[0]

    alone = [totals(slice(k, k + 1)) for k in range(4)]
    for i, total in enumerate(totals(slice(None))):
        assert torch.equal(total, sum(each[i] for each in alone)) and total.any()


def test_bounds_of_norms_have_the_same_bits_beside_others(four_threads):
    """A record whose integers were too long is rounded anew beside the others that were, which may be none."""
    inner = torch.randn(3, 260, 9, dtype=torch.float64)
    inner = inner @ inner.transpose(1, 2)
    together = positions.bound_squared_product_norms(inner, inner)
    assert together.tolist() == [float(positions.bound_squared_product_norms(x[None], x[None])) for x in inner]


def test_norms_do_not_depend_on_words_of_other_records():
    row = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    among = np.zeros((90, 16), np.float32)
    places = np.sort(np.random.default_rng(2).choice(90, 40, replace=False))
    among[places] = row
    found = [float(product_sums._compute_squared_ghost_row_norms(x.reshape(1, -1))[0]) for x in (row, among)]
    assert found[0] == found[1] >= sum(Fraction(float(x)) ** 2 for x in row.flatten())
    row[3, 2] = np.nan
    assert torch.isinf(product_sums._compute_squared_ghost_row_norms(row.reshape(1, -1))).all()


def test_records_that_are_not_chosen_add_nothing():
    l, r, rows = torch.randn(5, 3, 20), torch.randn(5, 3, 20), torch.randn(5, 4)
    chosen = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    part = [0, 2]
    found = sums_of({0: OuterProducts(l, r, 20), 1: GradientRows(rows)}, [(20, 20), (4,)], chosen=chosen)[0]
    of_part = sums_of({0: OuterProducts(l[part], r[part], 20), 1: GradientRows(rows[part])}, [(20, 20), (4,)])[0]
    for one, other in zip(found, of_part, strict=True):
        assert torch.equal(one, other) and one.any()


def test_tries_are_bounded_and_then_a_record_adds_nothing():
    calls = []

    class TooLong(PositionProducts):
        def round_position_weights(self, records, factors):
            calls.append(factors.clone())
            found = super().round_position_weights(records, factors)
            return torch.where(factors > 0, found + torch.inf, found)

    products = TooLong(OuterProducts(torch.randn(2, 3, 8), torch.randn(2, 3, 8), 8), 15)
    clipped = clip_position_products([products], torch.tensor([1.0, 2.0]), 2.0**30, 1 / GRID)
    assert len(calls) <= positions.TRIES + 1 and not calls[-1].any() and not clipped.factors.any()
    total = torch.zeros(8, 8, dtype=torch.int64)
    products.add_position_products_to(total)
    assert not total.any()


def test_norms_that_are_wrong_do_not_pass_the_bound():
    """Norms choose the clip factors only: the integers are compared with the bound."""
    l, r = torch.randn(4, 6, 30), torch.randn(4, 6, 30)
    true = (l.transpose(1, 2) @ r).flatten(1).double().norm(dim=1)
    for wrong in (0.0, 1e-9, 0.5, 0.999, 1.0, 7.0):
        for k in range(4):
            _, total = add_alone(l[k : k + 1], r[k : k + 1], wrong * true[k : k + 1])
            assert sum(int(x) ** 2 for x in total.flatten()) <= 2**60


def test_shapes_alone_decide():
    assert is_product_sum_cheaper(64, 768, 256) and not is_product_sum_cheaper(1, 768, 256)
    assert is_product_sum_cheaper(64, 256, 256) and not is_product_sum_cheaper(65, 256, 256)
    assert not is_product_sum_cheaper(196, 16, 64) and not is_product_sum_cheaper(16, 128, 128)  # forming is faster
    assert is_product_sum_cheaper(16, 768, 256, on_device=True)
    assert not is_product_sum_cheaper(64, 768, 256, on_device=True)  # the host would have to add it
    assert not is_product_sum_cheaper(2, 2**19, 2**19) and not is_product_sum_cheaper(
        2**13, 2**17, 2**17
    )  # inner products too large


class Sentences(nn.Module):
    """A layer that is used twice, at several positions, beside layers whose gradients are formed."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(12, 32), nn.LayerNorm(32)
        self.grow, self.mix, self.out = nn.Linear(32, 48), nn.Linear(48, 48), nn.Linear(48, 3)

    def forward(self, x):
        x = torch.tanh(self.mix(self.grow(self.norm(self.words(x)))))
        return self.out(self.mix(x).mean(1))


def sentence_loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("max_norm", [0.05, 2.0])
def test_sums_of_a_model_are_those_of_records_taken_alone(max_norm):
    torch.manual_seed(0)
    model, batch = Sentences(), [torch.randint(0, 12, (9, 6)), torch.randint(0, 3, (9,))]
    run = private(model, torch.utils.data.TensorDataset(*batch), max_norm=max_norm, noise_multiplier=2.0**-6,
                  arithmetic="products")  # fmt: skip
    sums = ProductSums(run.plan, dict(model.named_parameters()))
    sums.add(model, sentence_loss, batch, 9)
    expected = clipped_by_hand(model, sentence_loss, batch, max_norm)
    ways = sums.gradient_ways
    assert ways["grow.weight"] == ways["mix.weight"] == "sum of products" and ways["out.weight"] == "product"
    found = dict(zip(expected, sums.convert_to_floats(), strict=True))
    differences = torch.cat([(total - expected[name]).flatten() for name, total in found.items()])
    assert differences.norm() < 0.01 * torch.cat([each.flatten() for each in expected.values()]).norm()
