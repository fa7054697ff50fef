"""Gradients that are formed from several positions: bit for bit the plain reference, for any shape and any floats, on
any number of threads and on every instruction set (docs/theory/exact-products.md, section 9)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import positions as reference
from together import every_instruction_set

from tightdp import _core
from tightdp.models import dense


def random_factors(g, records, positions, left, right):
    return [g.normal(size=(records, positions, n)).astype(np.float32) for n in (left, right)]


def assert_same_bits(found, expected):
    """NaN has several bit patterns, which count as the same."""
    assert found.dtype == np.float32 and found.shape == expected.shape
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.nan_to_num(found, nan=0.0).tobytes() == np.nan_to_num(expected, nan=0.0).tobytes()


# Tiles have 8 rows and 32 columns or parts of them, panels 32 columns and 64 positions. Fewer than 16 columns are rows.
@pytest.mark.parametrize("positions", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("left, right", [(1, 1), (8, 32), (15, 33), (7, 64), (300, 8), (33, 15), (5, 3), (3, 5)])
def test_gradients_are_those_of_the_reference_bit_for_bit(positions, left, right):
    l, r = random_factors(np.random.default_rng(0), 3, positions, left, right)
    found = dense.form_dense_product_gradients(l, r)
    assert_same_bits(found, np.array([reference.formed_gradient(*each) for each in zip(l, r, strict=True)]))
    exact = l.astype(float).transpose(0, 2, 1) @ r.astype(float)
    most = (65 + positions // 64) * 2.0**-24 * (abs(l).astype(float).transpose(0, 2, 1) @ abs(r).astype(float))
    assert (abs(found - exact) <= most).all()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(0, 3), st.integers(0, 5), st.integers(0, 19), st.integers(0, 19))
def test_any_floats_of_any_shape(data, records, positions, left, right):
    """Entries that are not finite or that overflow, and arrays of no entries."""
    number = st.floats(width=32, allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, 2.0**100])
    seeds = data.draw(st.lists(number, min_size=4, max_size=4))
    g = np.random.default_rng(records + 7 * positions)
    l, r = (
        np.where(g.random(x.shape) < 0.7, x, g.choice(np.float32(seeds), x.shape))
        for x in random_factors(g, records, positions, left, right)
    )
    with np.errstate(all="ignore"):
        expected = [reference.formed_gradient(*each) for each in zip(l, r, strict=True)]
    assert_same_bits(
        dense.form_dense_product_gradients(l, r), np.array(expected, np.float32).reshape(records, left, right)
    )


def draw_convolution(data):
    """Images, errors and settings of a convolution of one to three axes. The shapes are drawn, the entries normal."""
    axes = data.draw(st.integers(1, 3))

    def draw_for_axes(least, most):
        return tuple(data.draw(st.lists(st.integers(least, most), min_size=axes, max_size=axes)))

    kernel, stride, padding, dilation = (draw_for_axes(*ends) for ends in ((1, 5), (1, 3), (0, 3), (1, 3)))
    least = [(k - 1) * d + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    image = tuple(max(1, n) + more for n, more in zip(least, draw_for_axes(0, 4), strict=True))
    output = tuple((n - m) // s + 1 for n, m, s in zip(image, least, stride, strict=True))
    records, channels, outputs = (data.draw(st.integers(1, most)) for most in (2, 3, 9))
    g = np.random.default_rng(0)
    images, errors = (
        g.normal(size=(records, n, *shape)).astype(np.float32) for n, shape in ((channels, image), (outputs, output))
    )
    return images, errors, (kernel, stride, padding, dilation)


def form_by_reference(images, errors, settings):
    found = [
        reference.formed_gradient(e.reshape(len(e), -1).T, reference.list_patches(x, e.shape[1:], *settings))
        for x, e in zip(images, errors, strict=True)
    ]
    return np.array(found).reshape(*errors.shape[:2], images.shape[1], *settings[0])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_gradients_of_convolutions_are_those_of_the_reference_bit_for_bit(data):
    images, errors, given_settings = draw_convolution(data)
    found = dense.form_dense_model_convolution_gradients(images, errors, *given_settings)
    assert_same_bits(found, form_by_reference(images, errors, given_settings))


def test_an_image_without_channels_outputs_or_positions():
    ones = ((1, 1),) * 2
    for channels, outputs, positions in ((0, 2, 3), (2, 0, 3), (2, 2, 0)):
        images, errors = np.zeros((2, channels, 3, 3), np.float32), np.zeros((2, outputs, 3, positions), np.float32)
        found = dense.form_dense_model_convolution_gradients(images, errors, (1, 1), ones[0], (0, 0), ones[1])
        assert found.shape == (2, outputs, channels, 1, 1) and not found.any()


def test_shapes_that_do_not_fit_are_refused():
    images, errors = np.zeros((2, 1, 4), np.float32), np.zeros((2, 1, 4), np.float32)
    for given_settings in (((2,), (1,), (0,), (1,)), ((1,), (2,), (1,), (1,)), ((2,), (1,), (0,), (3,)),
                           ((1,), (0,), (0,), (1,)), ((1,), (1,), (-1,), (1,)), ((0,), (1,), (0,), (1,))):  # fmt: skip
        with pytest.raises(ValueError, match="fit one another"):
            dense.form_dense_model_convolution_gradients(images, errors, *given_settings)
    with pytest.raises(ValueError, match="fit one another"):
        dense.form_dense_product_gradients(images, errors[:, :, :3][:1])


def test_arrays_need_not_be_contiguous():
    l, r = random_factors(np.random.default_rng(1), 4, 6, 5, 9)
    expected = dense.form_dense_product_gradients(l, r)
    strided = [np.repeat(x, 2, axis=2)[:, :, ::2] for x in (l, r)]
    assert_same_bits(dense.form_dense_product_gradients(*strided), expected)
    assert_same_bits(dense.form_dense_product_gradients(l[::-1], r[::-1]), expected[::-1])


@pytest.fixture(params=[1, 3])
def threads(request):
    before = _core.max_threads()
    _core.set_max_threads(request.param)
    yield
    _core.set_max_threads(before)


def test_a_record_has_the_same_bits_beside_others(threads):
    """With several threads, one of them forms a part of a record's gradient and another the rest."""
    g = np.random.default_rng(2)
    for left, right in ((70, 90), (900, 9)):
        l, r = random_factors(g, 5, 70, left, right)
        alone = [dense.form_dense_product_gradients(l[k : k + 1], r[k : k + 1])[0] for k in range(5)]
        assert_same_bits(dense.form_dense_product_gradients(l, r), np.array(alone))
        l[0, 0, 0], r[1] = np.nan, np.inf  # another record's entries do not matter
        assert_same_bits(dense.form_dense_product_gradients(l, r)[2:], np.array(alone[2:]))
    images, errors = g.normal(size=(4, 3, 20, 20)).astype(np.float32), g.normal(size=(4, 40, 9, 9)).astype(np.float32)
    given_settings = ((4, 4), (2, 2), (0, 0), (1, 1))
    found = dense.form_dense_model_convolution_gradients(images, errors, *given_settings)
    assert_same_bits(found, form_by_reference(images, errors, given_settings))


@pytest.mark.parametrize(
    ("image", "output", "settings"),
    [
        ((8, 1, 1), (4, 1, 1), ((1, 1, 1), (6148914691236517206, 1, 1), (0, 0, 0), (1, 1, 1))),
        ((8, 1, 1), (1, 1, 1), ((4, 1, 1), (1, 1, 1), (0, 0, 0), (6148914691236517206, 1, 1))),
        ((2, 2, 1), (1, 1, 1), ((1, 1, 1), (1, 1, 1), (2**31 - 1, 2**31 - 1, 0), (1, 1, 1))),
        ((2, 2, 2), (1, 1, 1), ((1, 1, 1), (1, 1, 1), (2**30, 2**30, 2**30), (1, 1, 1))),
    ],
)
def test_shapes_whose_sizes_overflow_are_refused(image, output, settings):
    """The first two passed a check of 64-bit integers that wrapped around."""
    with pytest.raises(ValueError, match="must fit one another"):
        dense.form_dense_model_convolution_gradients(
            np.ones((1, 1, *image), "f"), np.ones((1, 1, *output), "f"), *settings
        )


DIGEST = """
import hashlib, numpy as np
from tightdp import _core
from tightdp.models import dense
h, g = hashlib.sha256(), np.random.default_rng(0)
def draw(*shape): return g.normal(size=shape).astype(np.float32)
for t, m, n in ((130, 17, 75), (64, 300, 8), (3, 40, 33)):
    h.update(dense.form_dense_product_gradients(draw(5, t, m), draw(5, t, n)).tobytes())
h.update(dense.form_dense_model_convolution_gradients(
    draw(3, 2, 20, 20), draw(3, 9, 10, 10), (5, 3), (2, 2), (2, 1), (1, 1)).tobytes())
print(_core.isa(), h.hexdigest())
"""


@pytest.mark.slow
def test_the_instruction_set_changes_no_bit():
    assert len(every_instruction_set(DIGEST)) == 1
