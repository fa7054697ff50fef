"""Integer sums of clipped outer products: bit for bit the plain reference, a bound that holds in rational arithmetic
for any operands, and contributions that do not know of one another (docs/theory/exact-products.md)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense as reference
from together import every_instruction_set

import tightdp as dp
from tightdp import _core
from tightdp.models import dense
from tightdp.models.linear import Hinge, Logistic, Multinomial
from tightdp.models.model_interface import ModelGradients, wrap_model_gradient_matrix
from tightdp.train import LinearModel, Perceptron, Records

DTYPES = [np.float32, np.float64]


def layer(x, r, bias):
    return dense.DenseLayer(x, r, dense.round_dense_inputs_to_units(x, bias), bias)


def moved_tables(layers, grid, center, scale):
    _, tables = dense._prepare_dense_model_center_and_scale(layers, grid, center, scale)
    cut = []
    for one, (a, s, _) in zip(layers, tables, strict=True):
        width = one.shape[1]
        cut.append((a[:, :width], s[:, :width]))
    return cut


def by_reference(layers, max_norm, center=None, scale=None, normalize=False, weights=None):
    """m_k of every record, one at a time."""
    grid = dense.choose_dense_gradient_grid(max_norm, center, scale)
    moved, bound = None, max_norm / grid
    if center is not None or scale is not None:
        moved, bound = moved_tables(layers, grid, center, scale), max_norm
    return [
        reference.contribution(
            [(one.inputs[k], one.errors[k], one.bias) for one in layers],
            bound,
            1 / grid,
            moved,
            normalize,
            1.0 if weights is None else weights[k],
        )
        for k in range(len(layers[0].errors))
    ]


def random_layers(g, n, dtype, shapes, size=1.0):
    return [
        layer((size * g.normal(size=(n, d))).astype(dtype), g.normal(size=(n, o)).astype(dtype), bias)
        for d, o, bias in shapes
    ]


SHAPES = [[(5, 1, True)], [(40, 3, False)], [(300, 2, True)], [(17, 4, True), (4, 3, True)], [(1, 1, False)]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 7, 8, 15, 16, 17, 50, 784])
def test_scores_are_those_of_the_reference_bit_for_bit(columns, dtype):
    g = np.random.default_rng(columns)
    x, table = g.normal(size=(21, columns)).astype(dtype), g.normal(size=(6, columns)).astype(dtype)
    for outputs, bias in ((1, None), (6, table[:, 0].copy()), (5, None)):
        found = dense.apply_dense_affine_map(x, table[:outputs], None if bias is None else bias[:outputs])
        expected = [reference.affine(row, table[:outputs], None if bias is None else bias[:outputs]) for row in x]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 8, 19, 784])
def test_rows_in_integers_are_those_of_the_reference(columns, dtype):
    g = np.random.default_rng(columns)
    sizes = 10.0 ** g.uniform(-30, 30, 40)
    x = (sizes[:, None] * g.normal(size=(40, columns))).astype(dtype)
    x[3], x[4, 0], x[5, -1] = 0, np.nan, np.inf
    for bias in (False, True):
        steps, squares = dense.round_dense_inputs_to_units(x, bias)
        for row, step, square in zip(x, steps, squares, strict=True):
            expected, q = reference.integers(row, bias)
            assert step == expected and square == sum(int(v) ** 2 for v in q)
        assert steps[4] == steps[5] == 0 < steps[3]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", ["plain", "normalize", "center", "scale", "both"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_sums_are_those_of_the_reference_bit_for_bit(shapes, options, dtype):
    g = np.random.default_rng(len(options))
    layers = random_layers(g, 70, dtype, shapes)
    size = sum(one.shape[0] * one.shape[1] for one in layers)
    center = 0.1 * g.normal(size=size) if options in ("center", "both") else None
    scale = g.uniform(0.1, 3, size) if options in ("scale", "both") else None
    normalize = options == "normalize"
    for max_norm in (1e-20, 0.3, 4.0, 1e20):
        for weights in (None, np.append(g.random(69), 1.0)):
            rows = by_reference(layers, max_norm, center, scale, normalize, weights)
            found = dense.sum_clipped_dense_model_gradients(
                layers, max_norm, center, scale, normalize=normalize, weights=weights
            )
            assert found.tolist() == [sum(column) for column in zip(*rows, strict=True)]


SHARES = [1.0, 1 - 2.0**-53, np.float64(np.float32(0.1)), 2.0**-1022, 5e-324, 0.0]
"""Weights near 1, near those of float32, subnormal and 0."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", ["plain", "normalize", "center", "scale", "both"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e30])
def test_a_weighted_record_stays_within_the_bound_in_rational_arithmetic(options, size, dtype):
    """Clipped or not, each weight leaves the bound as it is, and the bound times the weight but for what is rounded."""
    g = np.random.default_rng(7)
    (one,) = random_layers(g, len(SHARES), dtype, [(9, 3, True)], size)
    center = 0.1 * g.normal(size=30) if options in ("center", "both") else None
    scale = g.uniform(0.1, 3, 30) if options in ("scale", "both") else None
    grid, b = dense.choose_dense_gradient_grid(0.7, center, scale), np.ones(30) if scale is None else scale
    for k, share in enumerate(SHARES):
        alone = [layer(one.inputs[k : k + 1], one.errors[k : k + 1], True)]
        sums = [
            dense.sum_clipped_dense_model_gradients(
                alone, 0.7, center, scale, normalize=options == "normalize", weights=weights
            )
            for weights in (None, np.array([share]))
        ]
        within(sums[1], grid, 0.7, b)
        assert share != 1 or (sums[0] == sums[1]).all()
        assert share > 1e-300 or not sums[1].any()
        # Rounding moves a record by at most half the margin of section 3 or 5, here below 2^-17 of the bound.
        np.testing.assert_allclose(sums[1] * grid, share * sums[0] * grid, rtol=0, atol=2.0**-15 * b.max() / b.min())


def test_weights_leave_norms_and_unit_vectors_as_they_are():
    """DPIS takes records by their weighted norms, and adds unit vectors: the weight goes into one of the two."""
    g = np.random.default_rng(0)
    layers, shares = random_layers(g, 50, np.float64, [(6, 2, True)]), g.random(50)
    plain, weighted = ModelGradients(layers), ModelGradients(layers, weights=shares)
    np.testing.assert_array_equal(weighted.compute_model_gradient_norms(), plain.compute_model_gradient_norms())
    np.testing.assert_array_equal(
        weighted.clip_model_gradient_norms(2.0), plain.clip_model_gradient_norms(2.0) * shares
    )
    everyone = np.ones(50, bool)
    np.testing.assert_array_equal(
        weighted.sum_unit_model_gradients(2.0, everyone), plain.sum_unit_model_gradients(2.0, everyone)
    )


def floats(width):
    return st.floats(width=width, allow_nan=True, allow_infinity=True)


@settings(max_examples=120, deadline=None)
@given(st.data(), st.sampled_from([32, 64]), st.booleans(), st.floats(1e-30, 1e30))
def test_one_record_stays_within_the_bound_in_rational_arithmetic(data, width, bias, max_norm):
    """Any bit patterns: entries that overflow, underflow, cancel or are not finite."""
    d, o = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    dtype = np.float32 if width == 32 else np.float64
    x = np.array([data.draw(st.lists(floats(width), min_size=d, max_size=d))], dtype)
    r = np.array([data.draw(st.lists(floats(width), min_size=o, max_size=o))], dtype)
    layers = [layer(x, r, bias)]
    for normalize in (False, True):
        m = dense.sum_clipped_dense_model_gradients(layers, max_norm, normalize=normalize)
        within(m, dense.choose_dense_gradient_grid(max_norm), max_norm, 1)
    if not (np.isfinite(x).all() and np.isfinite(r).all()):
        assert not m.any()
    size = o * (d + bias)
    center = np.array(data.draw(st.lists(st.floats(-1e30, 1e30), min_size=size, max_size=size)))
    scale = np.array(data.draw(st.lists(st.floats(1e-10, 1e10), min_size=size, max_size=size)))
    for a, b in ((center, scale), (center, None), (None, scale)):
        m = dense.sum_clipped_dense_model_gradients(layers, max_norm, a, b)
        within(m, dense.choose_dense_gradient_grid(max_norm, a, b), max_norm, np.ones(size) if b is None else b)


def within(m, grid, max_norm, scale):
    scales = np.broadcast_to(scale, m.shape)
    total = sum((int(v) * Fraction(grid) / Fraction(float(s))) ** 2 for v, s in zip(m, scales, strict=True))
    assert total <= Fraction(max_norm) ** 2


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.floats(1e-3, 1e3), st.booleans())
def test_clipped_records_reach_the_bound_but_for_some_millionths(seed, d, o, max_norm, bias):
    """The bound is used up, so that a clamp that is one too high would break it (the test above)."""
    g = np.random.default_rng(seed)
    x, r = g.normal(size=(1, d)), g.normal(size=(1, o))
    m = dense.sum_clipped_dense_model_gradients([layer(x, 1e9 * max_norm * r, bias)], max_norm).astype(
        float
    ) * dense.choose_dense_gradient_grid(max_norm)
    within(
        dense.sum_clipped_dense_model_gradients([layer(x, 1e9 * max_norm * r, bias)], max_norm),
        dense.choose_dense_gradient_grid(max_norm),
        max_norm,
        1,
    )
    assert np.linalg.norm(m) >= max_norm * (1 - 3e-5)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_near_those_of_real_numbers(dtype, scaled):
    g = np.random.default_rng(0)
    layers = random_layers(g, 500, dtype, [(30, 3, True), (12, 2, True)])
    full = [np.column_stack([one.inputs, np.ones(500)]).astype(float) for one in layers]
    errors = [one.errors.astype(float) for one in layers]
    rows = np.concatenate(
        [(r[:, :, None] * x[:, None, :]).reshape(500, -1) for r, x in zip(errors, full, strict=True)], axis=1
    )
    center, scale = (0.1 * g.normal(size=119), g.uniform(0.5, 2, 119)) if scaled else (0.0, 1.0)
    for max_norm in (3.0, 15.0, 1e3):
        norms = np.linalg.norm((rows - center) / scale, axis=1)
        expected = ((rows - center) * np.minimum(1, max_norm / norms)[:, None]).sum(axis=0)
        options = (center, scale) if scaled else ()
        found = dense.sum_clipped_dense_model_gradients(layers, max_norm, *options) * dense.choose_dense_gradient_grid(
            max_norm, *options
        )
        # Section 3: a record is off by its inputs' rounding, 2^-20 sqrt(d + 1), and twice the margin, which is here at
        # most 2^-18 sqrt(5 outputs), times 4 = max b / min b under a scale.
        error = max_norm * (2.0**-20 * 31**0.5 + 2 * 2.0**-18 * 5**0.5 * (4 if scaled else 1))
        np.testing.assert_allclose(found, expected, rtol=0, atol=500 * error)
        if not scaled:
            np.testing.assert_allclose(dense.compute_dense_model_gradient_norms(layers), norms, rtol=2.0**-20 * 31**0.5)


MODELS = {
    "logistic": LinearModel(50, Logistic()),
    "hinge": LinearModel(50, Hinge(), intercept=False),
    "huber rest": LinearModel(50, Hinge(3, 0.5)),
    "multinomial": LinearModel(50, Multinomial(3)),
    "perceptron": Perceptron(50, (9, 5), Multinomial(3), "relu"),
    "tanh": Perceptron(50, (9,), Multinomial(3), "tanh"),
}


def table(name, n, dtype, seed=0):
    g = np.random.default_rng(seed)
    model = MODELS[name]
    classes = 2 if name in ("logistic", "hinge") else 3
    return model, g.random((n, 50), dtype=dtype), g.integers(0, classes, n), g.normal(size=model.size)


def sums_of(model, w, X, y, center, scale):
    gradients = model.compute_gradients(w, Records(X, y))
    return [
        gradients.sum_clipped_model_gradients(0.7),
        gradients.sum_clipped_model_gradients(0.7, center, scale),
        gradients.sum_unit_model_gradients(0.7, np.ones(len(X), bool)),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_what_a_record_adds_does_not_depend_on_the_others(name, dtype):
    """Each record's losses, norms and integers alone are its part of the whole, wherever it stands."""
    model, X, y, w = table(name, 203, dtype)
    g = np.random.default_rng(1)
    center, scale = 0.01 * g.normal(size=model.size), g.uniform(0.5, 2, model.size)
    together = sums_of(model, w, X, y, center, scale)
    alone = [sums_of(model, w, X[k : k + 1], y[k : k + 1], center, scale) for k in range(len(X))]
    for i, total in enumerate(together):
        np.testing.assert_array_equal(total, sum(one[i] for one in alone))
    records = Records(X, y)
    losses, norms = model.compute_losses(w, records), model.compute_gradients(w, records).compute_model_gradient_norms()
    lines = list(model.compute_line_losses(w, center, np.array([0.0, 0.5, 3.0]), records))
    for k in (0, 7, 100, 202):
        one = Records(X[k : k + 1].copy(), y[k : k + 1])
        assert (
            model.compute_losses(w, one)[0] == losses[k]
            and model.compute_gradients(w, one).compute_model_gradient_norms()[0] == norms[k]
        )
        assert [line[0] for line in model.compute_line_losses(w, center, np.array([0.0, 0.5, 3.0]), one)] == [
            line[k] for line in lines
        ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_dropping_a_row_permuting_rows_and_threads(name, dtype):
    model, X, y, w = table(name, 3000, dtype)
    g = np.random.default_rng(2)
    center, scale = 0.01 * g.normal(size=model.size), g.uniform(0.5, 2, model.size)
    whole = sums_of(model, w, X, y, center, scale)
    order, threads = g.permutation(len(X)), _core.max_threads()
    try:
        for count in (1, 2, 7):
            _core.set_max_threads(count)
            for found, expected in zip(sums_of(model, w, X[order], y[order], center, scale), whole, strict=True):
                np.testing.assert_array_equal(found, expected)
    finally:
        _core.set_max_threads(threads)
    for k in (0, 1234, 2999):
        kept = np.arange(len(X)) != k
        less = sums_of(model, w, X[kept], y[kept], center, scale)
        grids = [
            dense.choose_dense_gradient_grid(0.7),
            dense.choose_dense_gradient_grid(0.7, center, scale),
            dense.choose_dense_gradient_grid(0.7),
        ]
        for moved, grid, b in zip(np.subtract(whole, less), grids, (1, scale, 1), strict=True):
            within(moved, grid, 0.7, b)


DIGEST = """
import hashlib, numpy as np
from tightdp import _core
from tightdp.train import LinearModel, Perceptron, Records
from tightdp.models.linear import Hinge, Logistic, Multinomial
h, g = hashlib.sha256(), np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    for model, classes in ((LinearModel(50, Logistic()), 2), (LinearModel(7, Hinge(2, .5)), 2),
                           (LinearModel(33, Multinomial(5)), 5), (Perceptron(20, (9, 5), Multinomial(3), "tanh"), 3)):
        features = model._shape[1] - 1 if isinstance(model, LinearModel) else 20
        records = Records((3 * g.normal(size=(1001, features))).astype(dtype), g.integers(0, classes, 1001))
        w, a, b = g.normal(size=model.size), .1 * g.normal(size=model.size), g.uniform(.5, 2, model.size)
        gradients = model.compute_gradients(w, records)
        for found in (gradients.sum_clipped_model_gradients(.7), gradients.sum_clipped_model_gradients(.7, a, b),
                      gradients.compute_model_gradient_norms(),
                      gradients.sum_unit_model_gradients(.7, np.arange(1001) % 3 > 0),
                      model.compute_losses(w, records)):
            h.update(found.tobytes())
print(_core.isa(), h.hexdigest())
"""


@pytest.mark.slow
def test_the_instruction_set_changes_no_bit():
    assert len(every_instruction_set(DIGEST)) == 1


def test_sums_past_what_a_double_holds_are_exact():
    """One row so often that the doubles must be emptied into integers many times over."""
    n = 100_003
    one = np.array([[1.0, -0.3, 0.7]])
    single = dense.sum_clipped_dense_model_gradients([layer(one, np.array([[5.0]]), True)], 1.0)
    many = dense.sum_clipped_dense_model_gradients([layer(np.repeat(one, n, axis=0), np.full((n, 1), 5.0), True)], 1.0)
    assert many.tolist() == [n * int(v) for v in single]


def test_sums_wrap_modulo_two_to_the_64():
    n = 1 << 27
    bound = 2.0**38 * (1 - 2.0**-53)
    rows = np.ones((1 << 16, 1), np.float32)
    steps = dense.round_dense_inputs_to_units(rows, False)
    out = np.zeros(1, np.int64)
    _core.dense.outer_sum([(rows, rows, *steps, False, None)], bound, 2.0**60, 0.0, True, None, None, None, out)
    assert n * (int(out[0]) // len(rows)) >= 2**63  # what 2^27 of them would add up to
    wrapped = np.zeros(1, np.int64)
    for _ in range(n // len(rows)):
        wrapped += out
    assert int(wrapped[0]) == (int(out[0]) * (n // len(rows)) + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_and_residuals_are_those_of_the_definitions(dtype):
    g = np.random.default_rng(0)
    error = 4 * np.finfo(dtype).eps
    for loss, classes in ((Logistic(), 2), (Multinomial(4), 4), (Hinge(), 2), (Hinge(3), 3), (Hinge(3, 0.4), 3)):
        z = (10.0 ** g.uniform(-3, 2.5, (500, loss.outputs)) * g.choice([-1, 1], (500, loss.outputs))).astype(dtype)
        y = g.integers(0, classes, 500)
        exact = z.astype(np.longdouble)
        signs = np.where(y[:, None] == (1 if loss.outputs == 1 else np.arange(loss.outputs)), 1, -1)
        if isinstance(loss, Hinge):
            h, gap = loss.h, 1 - signs * exact
            slope = np.clip((gap + h) / (2 * h), 0, 1) if h else gap > 0
            value = np.where(abs(gap) <= h, (gap + h) ** 2 / (4 * h or 1), np.maximum(gap, 0)).sum(axis=1)
            residual = -signs * slope
        elif loss.outputs == 1:
            value = np.logaddexp(0, -signs * exact)[:, 0]
            residual = -signs / (1 + np.exp(signs * exact))
        else:
            top = exact.max(axis=1, keepdims=True)
            powers = np.exp(exact - top)
            value = (np.log(powers.sum(axis=1)) + top[:, 0]) - exact[np.arange(500), y]
            residual = powers / powers.sum(axis=1, keepdims=True) - (np.arange(4) == y[:, None])
        np.testing.assert_allclose(loss.differentiate_by_scores(z, y), residual.astype(float), rtol=0, atol=error)
        np.testing.assert_allclose(loss.compute_losses(z, y), value.astype(float), rtol=4 * 2**-53 * 16, atol=1e-13)
        for bad in (np.nan, np.inf, -np.inf):
            z[7, -1] = bad
            assert np.isnan(loss.differentiate_by_scores(z, y)[7]).all() and np.isnan(loss.compute_losses(z, y)[7])
            assert np.isfinite(np.delete(loss.differentiate_by_scores(z, y), 7, axis=0)).all()


def test_tanh_of_the_kernel():
    x = np.concatenate([np.linspace(-25, 25, 1001), [1e-300, -1e-9, np.inf, -np.inf]])
    np.testing.assert_allclose(_core.dense.tanh(x), np.tanh(x), rtol=1e-15)
    assert np.isnan(_core.dense.tanh(np.array([np.nan]))[0])


def test_a_users_own_rows_are_idealised_and_the_built_in_models_exact():
    records = Records(np.ones((2, 2)), np.zeros(2, np.intp))
    model = dp.train.CallableModel(2, lambda w, x, y: x)
    assert model.compute_gradients(np.zeros(2), records).arithmetic == "idealised"
    assert LinearModel(2, Logistic()).compute_gradients(np.zeros(3), records).arithmetic == "exact"


def test_taken_records_alone_are_added():
    g = np.random.default_rng(0)
    layers = random_layers(g, 100, np.float64, [(6, 2, True)])
    taken = g.random(100) < 0.4
    part = []
    for one in layers:
        units = dense.DenseRowUnits(*(u[taken] for u in one.units))
        part.append(dense.DenseLayer(one.inputs[taken], one.errors[taken], units, one.bias))
    found, alone = (
        ModelGradients(layers).sum_unit_model_gradients(2.0, taken),
        ModelGradients(part).sum_unit_model_gradients(2.0, np.ones(taken.sum(), bool)),
    )
    np.testing.assert_array_equal(found, alone)
    assert not ModelGradients(layers).sum_unit_model_gradients(2.0, np.zeros(100, bool)).any()


def test_an_empty_batch_adds_nothing():
    empty = wrap_model_gradient_matrix(np.zeros((0, 3)), np.zeros(0, bool))
    assert empty.sum_clipped_model_gradients(1.0).tolist() == [
        0,
        0,
        0,
    ] and empty.compute_model_gradient_norms().shape == (0,)
