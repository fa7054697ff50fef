"""Per-example clipping against the plain reference, on every dtype, layout and option."""

import numpy as np
import pytest
from reference import clipping as reference
from together import every_instruction_set

import tightdp as dp

DTYPES = [np.float16, np.float32, np.float64]
SHAPES = [(1, 1), (3, 5), (7, 16), (64, 17), (65, 513), (130, 2049), (9, 4097), (200, 100), (1000, 3), (70, 30_000)]


def gradients(shape, dtype, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(shape) * np.exp(spread * rng.standard_normal(shape[0]))[:, None]
    return (rows / np.sqrt(shape[1])).astype(dtype)


def assert_within(got, g, *args, **kwargs):
    total, norms, magnitude = reference.clipped_sum(g, *args, **kwargs)
    transformed = kwargs.get("center") is not None or kwargs.get("scale") is not None
    bound = reference.error_bound(magnitude, len(g), g.dtype, transformed)
    np.testing.assert_array_less(np.abs(got[0].astype(float).reshape(-1) - total), bound)
    np.testing.assert_allclose(got[1], norms, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_matches_the_reference(shape, dtype):
    g = gradients(shape, dtype)
    before = g.copy()
    got = dp.clipped_sum(g, 0.7)
    assert got[0].dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert_within(got, g, 0.7)
    np.testing.assert_array_equal(g, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9, 5), (65, 700), (600, 40)])
def test_weights_center_scale_and_normalisation(shape, dtype):
    g = gradients(shape, dtype)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0, 3, shape[0]) * (rng.uniform(size=shape[0]) < 0.9)
    center, scale = rng.normal(size=shape[1]) * 0.1, np.exp(rng.normal(size=shape[1]))
    assert_within(dp.clipped_sum(g, 0.5, weights=weights), g, 0.5, weights)
    assert_within(dp.clipped_sum(g, 0.5, center=center), g, 0.5, center=center)
    assert_within(dp.clipped_sum(g, 0.5, scale=scale), g, 0.5, scale=scale)
    options = {"weights": weights, "center": center, "scale": scale, "normalize": True, "stability": 0.1}
    assert_within(dp.clipped_sum(g, 2.0, **options), g, 2.0, **options)


def test_examples_under_the_bound_are_untouched():
    g = gradients((50, 33), np.float32) / 100
    total, _ = dp.clipped_sum(g[:1], 1.0)
    np.testing.assert_array_equal(total, g[0])


def test_a_list_is_the_flat_array_cut_up():
    flat = gradients((40, 20 + 700 + 7 + 1), np.float32)
    parts = np.split(flat, [20, 720, 727], axis=1)
    arrays = [parts[0].reshape(40, 4, 5), parts[1].reshape(40, 7, 10, 10), parts[2], parts[3][:, 0]]
    total, norms = dp.clipped_sum(arrays, 0.5)
    assert [t.shape for t in total] == [(4, 5), (7, 10, 10), (7,), ()]
    flat_total, flat_norms = dp.clipped_sum(flat, 0.5)
    np.testing.assert_allclose(norms, flat_norms, rtol=1e-14)
    np.testing.assert_allclose(np.concatenate([t.reshape(-1) for t in total]), flat_total, rtol=1e-5, atol=1e-7)
    noise = dp.clip_and_noise(flat, 0.5, 2.0, rng=dp.Philox(4), arithmetic="float") - flat_total
    lists = dp.clip_and_noise(arrays, 0.5, 2.0, rng=dp.Philox(4), arithmetic="float")
    np.testing.assert_allclose(np.concatenate([t.reshape(-1) for t in lists]) - flat_total, noise, atol=1e-5)


def test_examples_that_are_not_finite_add_nothing():
    for dtype in DTYPES:
        g = gradients((70, 600), dtype)
        clean = np.delete(g, [3, 4, 69], axis=0)
        g[3, 5], g[4, 599], g[69, 0] = np.nan, np.inf, -np.inf
        total, norms = dp.clipped_sum(g, 1.0)
        assert np.isinf(norms[[3, 4, 69]]).all() and np.isfinite(np.delete(norms, [3, 4, 69])).all()
        assert_within((total, norms), g, 1.0)
        assert_within((total, np.delete(norms, [3, 4, 69])), clean, 1.0)
        everything = np.full((5, 8), np.nan, dtype)
        assert (dp.clipped_sum(everything, 1.0)[0] == 0).all()
        assert (dp.clipped_sum(everything, 1.0, center=np.ones(8))[0] == 0).all()


def test_norms_whose_squares_leave_the_doubles():
    g = np.array([[3e200, 4e200], [3e-200, 4e-200], [1.7e308, 1.7e308], [0.0, 0.0]])
    total, norms = dp.clipped_sum(g, 1.0)
    assert norms[0] == pytest.approx(5e200) and norms[2] == np.inf and norms[3] == 0
    np.testing.assert_allclose(total, [0.6, 0.8], rtol=1e-12)
    total, norms = dp.clipped_sum(g[:2], 1.0, center=np.zeros(2))
    assert norms[0] == pytest.approx(5e200)
    np.testing.assert_allclose(total, [0.6, 0.8], rtol=1e-12)
    small = np.array([[3e-25, 4e-25], [3e7, 3e7]], np.float32)
    assert_within(dp.clipped_sum(small, 1e-24), small, 1e-24)
    # More than 2^126 bounds long: the factor is no normal float32, and the example adds nothing.
    huge = np.array([[3e38, 3e38]], np.float32)
    assert (dp.clipped_sum(huge, 1e-3)[0] == 0).all()


def test_layouts():
    g = gradients((24, 3 * 50), np.float32)
    expected = dp.clipped_sum(g, 0.5)[0]
    strided = np.zeros((48, 150), np.float32)
    strided[::2] = g
    np.testing.assert_array_equal(dp.clipped_sum(strided[::2], 0.5)[0], expected)
    np.testing.assert_array_equal(dp.clipped_sum(g[::-1], 0.5)[0].shape, expected.shape)
    backwards = np.ascontiguousarray(g[::-1])[::-1]
    np.testing.assert_array_equal(dp.clipped_sum(backwards, 0.5)[0], expected)
    fortran = np.asfortranarray(g)
    np.testing.assert_array_equal(dp.clipped_sum(fortran, 0.5)[0], expected)
    assert dp.clipped_sum(np.zeros((0, 7)), 1.0)[0].tolist() == [0.0] * 7
    assert dp.clipped_sum(np.zeros((0, 7)), 1.0)[1].shape == (0,)


def test_torch_tensors_bfloat16_included():
    torch = pytest.importorskip("torch")
    g = torch.from_numpy(gradients((30, 600), np.float32))
    total, norms = dp.clipped_sum([g[:, :100].reshape(30, 10, 10), g[:, 100:]], 0.5)
    assert isinstance(total[0], torch.Tensor) and total[0].shape == (10, 10)
    narrow = g.to(torch.bfloat16)
    total, norms = dp.clipped_sum(narrow, 0.5)
    assert total.dtype == torch.float32
    assert_within((total.numpy(), norms), narrow.float().numpy(), 0.5)
    permuted = g.reshape(30, 20, 30).transpose(1, 2)
    assert_within((dp.clipped_sum(permuted, 0.5)[0].numpy(), norms * 0 + dp.clipped_sum(g, 0.5)[1]),
                  permuted.reshape(30, -1).numpy(), 0.5)  # fmt: skip
    out = torch.zeros(600)
    assert dp.clipped_sum(g, 0.5, out=out)[0] is out and out.abs().sum() > 0


def test_every_float16_is_read_exactly():
    bits = np.arange(2**16, dtype=np.uint16)
    values = bits.view(np.float16)
    finite = values[np.isfinite(values)]
    for v in np.array_split(finite, 40):
        total, _ = dp.clipped_sum(v.reshape(1, -1), 1e25)
        np.testing.assert_array_equal(total, v.astype(np.float32))


def test_out_and_accumulate():
    g = gradients((30, 100), np.float32)
    expected = dp.clipped_sum(g, 0.5)[0]
    out = np.full(100, 7.0)
    total, _ = dp.clipped_sum(g, 0.5, out=out)
    assert total is out
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-7)
    dp.clipped_sum(g[:10], 0.5, out=out)
    _, norms = dp.clipped_sum(g[10:], 0.5, out=out, accumulate=True)
    assert norms.shape == (20,)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-7)
    before = out.copy()
    assert dp.add_noise(out, 3.0, rng=dp.Philox(5)) is out
    np.testing.assert_allclose(out - before, 3 * dp.Philox(5).normal(100), rtol=1e-12, atol=1e-12)


def test_groups_and_layers():
    g = [gradients((20, n), np.float32, seed=n) for n in (30, 40, 50)]
    total, norms = dp.clipped_sum(g, [0.1, 0.2, 0.3])
    assert norms.shape == (20, 3)
    for i, c in enumerate((0.1, 0.2, 0.3)):
        assert_within((total[i], norms[:, i]), g[i], c)
    total, norms = dp.clipped_sum(g, [0.1, 0.2], groups=[[2], [0, 1]])
    both = dp.clipped_sum([g[0], g[1]], 0.2)
    np.testing.assert_array_equal(total[1], both[0][1])
    np.testing.assert_array_equal(norms[:, 1], both[1])
    noisy = dp.clip_and_noise(g, [3.0, 4.0, 12.0], 1000.0, rng=dp.Philox(1))
    flat = np.concatenate(noisy)
    assert flat.std() == pytest.approx(13_000, rel=0.2)
    assert np.unique(flat).size == flat.size  # no noise used twice


def test_noise_is_that_of_the_stream():
    for dtype in (np.float32, np.float64):
        g = gradients((33, 1500), dtype)
        noisy = dp.clip_and_noise(g, 2.0, 1.5, rng=dp.Philox(9), arithmetic="float")
        total, _ = dp.clipped_sum(g, 2.0)
        expected = total + 3.0 * dp.Philox(9).normal(1500, dtype).astype(float)
        np.testing.assert_allclose(noisy, expected, rtol=1e-6 if dtype == np.float32 else 1e-14, atol=1e-6)
    fresh = [dp.clip_and_noise(g, 2.0, 1.5) for _ in range(2)]
    assert not np.isin(fresh[0], fresh[1]).any()
    np.testing.assert_array_equal(dp.clip_and_noise(g, 2.0, 0.0, arithmetic="float"), total)


def test_an_empty_batch_still_releases_noise():
    noisy = dp.clip_and_noise(np.zeros((0, 1000), np.float32), 2.0, 1.5)
    assert noisy.std() == pytest.approx(3.0, rel=0.2)


@pytest.mark.parametrize("shape", [(300, 3000), (5, 200_000), (70, 70_000), (100_000, 7), (4097, 200)])
def test_the_number_of_threads_changes_no_bit(threads, shape):
    g = gradients(shape, np.float32)
    results = []
    for count in (1, 2, 3, 7):
        threads(count)
        total, norms = dp.clipped_sum(g, 0.3)
        noisy = dp.clip_and_noise(g, 0.3, 1.0, rng=dp.Philox(1), arithmetic="float")
        results.append((total.tobytes(), norms.tobytes(), noisy.tobytes()))
    assert all(r == results[0] for r in results)


DIGEST = """
import hashlib, numpy as np, tightdp as dp
from tightdp import _core
h = hashlib.sha256()
rng = np.random.default_rng(0)
for shape in ((33, 700), (5, 100_001), (500, 30)):
    for dtype in (np.float16, np.float32, np.float64):
        g = rng.standard_normal(shape).astype(dtype)
        for options in ({}, {"weights": np.arange(shape[0]) / 3}, {"scale": np.linspace(1, 2, shape[1])}):
            total, norms = dp.clipped_sum(g, 1.3, **options)
            h.update(total.tobytes() + norms.tobytes())
        h.update(dp.clip_and_noise(g, 1.3, 0.7, rng=dp.Philox(2), arithmetic="float").tobytes())
print(_core.isa(), h.hexdigest())
"""


@pytest.mark.slow
def test_the_instruction_set_changes_no_bit():
    assert len(every_instruction_set(DIGEST)) == 1


def test_concurrent_calls_agree():
    from concurrent.futures import ThreadPoolExecutor

    g = gradients((64, 40_000), np.float32)
    expected = dp.clipped_sum(g, 0.3)[0]
    with ThreadPoolExecutor(4) as pool:
        for total, _ in pool.map(lambda _: dp.clipped_sum(g, 0.3), range(12)):
            np.testing.assert_array_equal(total, expected)


GOOD = np.ones((4, 3), np.float32)
READ_ONLY = np.zeros(3, np.float32)
READ_ONLY.flags.writeable = False


def test_a_bound_may_be_any_kind_of_number():
    expected = dp.clipped_sum(GOOD, 1.0)
    for bound in (1, np.float32(1.0), np.array(1.0)):
        for found, wanted in zip(dp.clipped_sum(GOOD, bound), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_tensor_of_a_graph_is_read_as_its_values():
    torch = pytest.importorskip("torch")
    total, _ = dp.clipped_sum(torch.ones(4, 3, requires_grad=True), 1.0)
    np.testing.assert_array_equal(total.numpy(), dp.clipped_sum(GOOD, 1.0)[0])
    with pytest.raises(ValueError, match=r"^out .* requires gradient"):
        dp.clipped_sum(GOOD, 1.0, out=torch.zeros(3, requires_grad=True))
    apart = torch.zeros(4, 6)
    with pytest.raises(ValueError, match=r"^out .* strided"):
        dp.clipped_sum(torch.ones(2, 4, 3), 1.0, out=apart[:, :3])
    assert not apart.any()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dp.clipped_sum(GOOD, 0.0), ValueError, r"max_norm .* \(0, inf\)"),
        (lambda: dp.clipped_sum(GOOD, -1.0), ValueError, "max_norm"),
        (lambda: dp.clipped_sum(GOOD, np.nan), ValueError, "max_norm"),
        (lambda: dp.clipped_sum(GOOD, np.inf), ValueError, "max_norm"),
        (lambda: dp.clipped_sum(GOOD, 1e-31), ValueError, r"max_norm.* \[1e-25, 1e\+25\]"),
        (lambda: dp.clipped_sum(GOOD, 1e24, weights=[100, 1, 1, 1]), ValueError, "largest weight"),
        (lambda: dp.clipped_sum(GOOD, [1.0, 1.0]), ValueError, "max_norm must have one entry for each group"),
        (lambda: dp.clipped_sum([GOOD, GOOD], 1.0, groups=[[0], [0]]), ValueError, "groups"),
        (lambda: dp.clipped_sum([], 1.0), ValueError, "grads"),
        (lambda: dp.clipped_sum(np.ones(3), 1.0), ValueError, "batch axis"),
        (lambda: dp.clipped_sum(np.ones((3, 0)), 1.0), ValueError, "column"),
        (lambda: dp.clipped_sum(np.ones((3, 2), np.int64), 1.0), TypeError, "dtype"),
        (lambda: dp.clipped_sum(np.ones((3, 2), ">f4"), 1.0), TypeError, "dtype"),
        (lambda: dp.clipped_sum([[1.0, 2.0]], 1.0), TypeError, r"grads\[0\]"),
        (lambda: dp.clipped_sum("no", 1.0), TypeError, "grads"),
        (lambda: dp.clipped_sum([GOOD, GOOD[:2]], 1.0), ValueError, "first axis"),
        (lambda: dp.clipped_sum([GOOD, GOOD.astype(float)], 1.0), TypeError, "one dtype"),
        (lambda: dp.clipped_sum(GOOD, 1.0, weights=[1, 2]), ValueError, "weights"),
        (lambda: dp.clipped_sum(GOOD, 1.0, weights=[1, 2, np.nan, 1]), ValueError, "weights"),
        (lambda: dp.clipped_sum(GOOD, 1.0, weights=[1, 2, -1, 1]), ValueError, "weights"),
        (lambda: dp.clipped_sum(GOOD, 1.0, center=[1, 2]), ValueError, "center"),
        (lambda: dp.clipped_sum(GOOD, 1.0, center=[1, 2, np.inf]), ValueError, "center"),
        (lambda: dp.clipped_sum(GOOD, 1.0, scale=[1, 2, 0]), ValueError, "scale"),
        (lambda: dp.clipped_sum(GOOD, 1.0, scale=[1, 2, -1]), ValueError, "scale"),
        (lambda: dp.clipped_sum(GOOD, 1.0, stability=0.0), ValueError, "stability"),
        (lambda: dp.clipped_sum(GOOD, 1.0, out=np.zeros(4, np.float32)), ValueError, "out"),
        (lambda: dp.clipped_sum(GOOD, 1.0, out=np.zeros(3, np.float16)), ValueError, "out"),
        (lambda: dp.clipped_sum(GOOD, 1.0, out=np.zeros(6, np.float32)[::2]), ValueError, "out"),
        (lambda: dp.clipped_sum(GOOD, 1.0, accumulate=True), ValueError, "out"),
        (lambda: dp.clip_and_noise(GOOD, 1.0, -0.1), ValueError, "noise_multiplier"),
        (lambda: dp.clip_and_noise(GOOD, 1.0, np.nan), ValueError, "noise_multiplier"),
        (lambda: dp.clip_and_noise(GOOD, 1.0, 1.0, rng=7), TypeError, "rng"),
        (lambda: dp.clip_and_noise(GOOD, 1e20, 1e20), ValueError, r"^noise_multiplier, times max_norm, .* 1e\+37"),
        (lambda: dp.clip_and_noise(np.ones((2, 2)), 1e100, 1e300, arithmetic="float"), ValueError, "^noise_multiplier"),
        (lambda: dp.clip_and_noise(np.ones((2, 2)), 1e30, 1e300), ValueError, "^noise_multiplier"),
        (lambda: dp.clipped_sum(np.ones((4, 3)), 1e30, out=np.zeros(3, np.float32)), ValueError, r"^max_norm.*1e\+25"),
        (lambda: dp.clipped_sum(GOOD, 1.0, out=READ_ONLY), ValueError, "^out .* read-only"),
        (lambda: dp.clipped_sum(GOOD, 1.0, center=["a"] * 3), TypeError, "^center"),
        (lambda: dp.clipped_sum(GOOD, 1.0, scale=[1j] * 3), TypeError, "^scale"),
        (lambda: dp.clipped_sum(GOOD, 1.0, weights=["a"] * 4), TypeError, "^weights"),
        (lambda: dp.clipped_sum(GOOD, 1.0, groups=0), TypeError, "^groups"),
        (lambda: dp.clipped_sum([GOOD], 1.0, groups=[[0.5]]), TypeError, "^groups"),
        (lambda: dp.clipped_sum([GOOD, GOOD], 1.0, groups=[[True, False]]), TypeError, "^groups"),
        (lambda: dp.clipped_sum(GOOD, b"1"), TypeError, "^max_norm"),
        (lambda: dp.clipped_sum(GOOD, np.array(True)), TypeError, "^max_norm"),
        (lambda: dp.clipped_sum(np.ma.masked_array(GOOD, GOOD > 0), 1.0), TypeError, "^grads .* mask"),
        (lambda: dp.add_noise(READ_ONLY, 1.0), ValueError, "^total .* read-only"),
        (lambda: dp.add_noise(np.zeros(3, np.float32), 1e38), ValueError, "^deviation"),
        (lambda: dp.add_noise(np.zeros(3, np.int32), 1.0), TypeError, "total"),
        (lambda: dp.add_noise(np.zeros(3), -1.0), ValueError, "deviation"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_a_bound_that_was_good_as_a_number_is_refused_as_none():
    for _ in range(2):
        dp.clip_and_noise(GOOD, 1.0, 1.0)
        for bad in (True, "1.0", np.bool_(True)):
            with pytest.raises(TypeError, match=r"^max_norm"):
                dp.clip_and_noise(GOOD, bad, 1.0)


def test_one_group_of_all_arrays_in_any_order():
    grads, center = [np.full((4, 2), 0.25), np.arange(4.0)[:, None] / 8], np.array([0.5, -1.0, 2.0])
    release = [
        dp.clip_and_noise(grads, 1.0, 1.0, groups=groups, center=center, scale=center**2, rng=dp.Philox(3))
        for groups in (None, [[0, 1]], [[1, 0]])
    ]
    for each in release[1:]:
        for one, other in zip(release[0], each, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("dtype", "bound"), [("float32", 1e-25), ("float32", 1e25), ("float64", 1e-100), ("float64", 1e100)]
)
def test_at_the_ends_of_the_range_of_bounds_nothing_vanishes(dtype, bound):
    """A row five times as long as the bound, with a weight of 1/64, becomes a 64th of the bound."""
    row = (np.array([[3.0, 4.0]]) * bound).astype(dtype)
    total, _ = dp.clipped_sum(row, bound, weights=np.array([0.015625]))
    np.testing.assert_allclose(total.astype(float) / bound * 64, [0.6, 0.8], rtol=1e-6)
