"""The prv engine as a device runs it, run by the host: cells by thread, and the array code with NumPy's transforms."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.normal import cdf
from reference.privacy_loss import Laplace, Sampled

import tightdp as dp
from tightdp import _core, cuda
from tightdp.accounting.engines.prv import engine, spectral

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

UNIT = 2.0**-53
VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "accounting.json").read_text())["epsilon_of_delta"]
SAMPLED = [v for v in VECTORS if v["mechanism"] == "PoissonSampled(Gaussian)" and v["steps"] <= 20_000]


class Host:
    """NumPy in the place of CuPy, the host in the place of a device's threads."""

    name, xp = "the host", np

    def compute_prv_cells(self, law, h, first, count):
        return _testing.emulate_prv_cells(law, h, first, count)

    def copy_to_host(self, array):
        return array

    def compose(self, *arguments):
        return spectral.compose_prv_by_transforms(self, *arguments)


def asked(run, where=None, neighbors="add_or_remove", eps_error=0.01, delta_error=1e-10, max_bytes=1 << 32):
    where = where or Host()
    prv = engine.Prv(f"prv on {where.name}", where.compose, spectral.BYTES_A_POINT)
    return cuda._build_question_of_cuda_module(run, neighbors, eps_error, delta_error, max_bytes, prv)


LAWS = [
    ("gaussian", 0.7, 1.0),
    ("gaussian", 9.0, 1.0),
    ("laplace", 0.7, 1.0),
    ("pure", 0.4, 1.0),
    ("sampled_remove", 0.8, 0.01),
    ("sampled_add", 0.8, 0.01),
    ("sampled_remove", 0.3, 0.3),
    ("sampled_add", 0.5, 1 - 1e-9),
    ("sampled_remove", 20.0, 1e-9),
]


def exact_cdf(name, a, q):
    if name == "gaussian":
        return lambda y: cdf(y / mp.mpf(a) - mp.mpf(a) / 2)
    if name == "laplace":
        return Laplace(a).cdf
    return Sampled(a, q, name.removeprefix("sampled_")).cdf


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cells_are_those_of_displaced_edges(law):
    """prv.md, section 4.1, cell by cell in high precision; and close to what the CPU's loops compute."""
    run = (*law, 1, 0.0)
    low, high, _, _, displacement = _testing.prv_support(run, 1e-13)
    h = (high - low) / 700
    first = round(low / h) - 2
    count = round(high / h) + 2 - first + 1
    found = _testing.emulate_prv_cells(run, h, first, count)
    assert (found >= 0).all() and abs(found.sum() - 1) <= 1e-11
    if law[0] == "pure":
        np.testing.assert_array_equal(found, _testing.prv_cells(run, h, first, count))
        return
    with mp.workdps(40):
        f = exact_cdf(*law)
        for i in np.random.default_rng().choice(count, 60, replace=False):
            left, right = (mp.mpf(first + int(i)) + s * mp.mpf(1) / 2 for s in (-1, 1))
            left, right, mass = left * mp.mpf(h), right * mp.mpf(h), mp.mpf(found[i])
            least = f(right - displacement) - f(left + displacement)
            most = f(right + displacement) - f(left - displacement)
            # At most two cells hold a component's centre: 2 u absolutely.
            assert least * (1 - 4 * UNIT) - 2.5 * UNIT <= mass <= most * (1 + 4 * UNIT) + 2.5 * UNIT
    both = _testing.prv_cells(run, h, first, count)
    np.testing.assert_allclose(found, both, rtol=1e-9, atol=4 * UNIT)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 50), st.floats(1e-9, 1 - 1e-9), st.sampled_from(["add", "remove"]), st.floats(1e-5, 1.0))
def test_tails_keep_their_relative_precision(sigma, q, direction, share):
    run = (f"sampled_{direction}", sigma, q, 1, 0.0)
    low, high, _, _, displacement = _testing.prv_support(run, 1e-30)
    h = share * (high - low) / 50
    for at in (low, high):
        (found,) = _testing.emulate_prv_cells(run, h, round(at / h), 1)
        with mp.workdps(60):
            f, x = Sampled(sigma, q, direction).cdf, mp.mpf(round(at / h)) * mp.mpf(h)
            half = mp.mpf(h) / 2
            least = f(x + half - displacement) - f(x - half + displacement)
            most = f(x + half + displacement) - f(x - half - displacement)
            assert least * (1 - 40 * UNIT) - 2.5 * UNIT * (least > 1e-3) <= mp.mpf(found)
            assert mp.mpf(found) <= most * (1 + 40 * UNIT) + 2.5 * UNIT * (most > 1e-3)


def named(v):
    return "-".join(str(v[k]) for k in ("noise_multiplier", "sampling_probability", "steps", "delta", "direction"))


@pytest.mark.parametrize("v", SAMPLED, ids=named)
def test_reference_values_are_inside(v):
    run = dp.PoissonSampled(dp.Gaussian(v["noise_multiplier"]), v["sampling_probability"]) * v["steps"]
    eps_error, delta = (0.2 if float(v["epsilon"]) > 50 else 0.02), float(v["delta"])
    bound = asked(run, neighbors=v["direction"], eps_error=eps_error).epsilon(delta)
    assert bound.lower <= float(v["epsilon"]) <= bound.upper
    here = run.epsilon(delta, neighbors=v["direction"], engine="prv", eps_error=eps_error)
    assert max(bound.lower, here.lower) <= min(bound.upper, here.upper)
    if delta >= max(1e-8, 1e-11 * v["steps"]):
        assert bound.width <= 2.2 * eps_error
        # Cells, means and mesh are the host's: what differs is the bound on rounding.
        assert abs(bound.upper - here.upper) <= 0.02 * eps_error


RUNS = {
    "one sampled": dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000,
    "several": dp.PoissonSampled(dp.Gaussian(0.8), 0.02) * 300 + dp.Laplace(3.0) * 40 + dp.Gaussian(4.0) * 3,
    "failures": dp.ApproximateDP(0.1, 1e-7) * 50 + dp.PureDP(0.3) * 7,
    "wide": dp.PureDP(10) * 10,
}


@pytest.mark.parametrize("name", RUNS)
def test_the_same_bounds_as_on_the_cpu(name):
    run = RUNS[name]
    for delta in (0.3, 1e-5):
        bound, here = asked(run).epsilon(delta), run.epsilon(delta, engine="prv")
        assert bound.engine == "prv on the host"
        assert abs(bound.lower - here.lower) <= 1e-6 and abs(bound.upper - here.upper) <= 1e-6
    # Below the rounding the moment bound answers, which is the host's own.
    assert asked(run).epsilon(1e-30).upper == run.epsilon(1e-30, engine="prv").upper
    for epsilon in (-1.0, 0.0, 0.7, 2.5):
        bound, here = asked(run).delta(epsilon), run.delta(epsilon, engine="prv")
        assert abs(bound.lower - here.lower) <= 1e-10 and abs(bound.upper - here.upper) <= 1e-10


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000, 65537])
def test_powers(count):
    r = np.random.default_rng()
    z = np.exp(1j * r.uniform(0, 2 * np.pi, 50)) * r.uniform(0, 1, 50) ** (8 / count)
    z[0] = 0
    found = spectral._raise_prv_spectrum_to_power(np, z, count)
    with mp.workdps(30):
        for x, y in zip(z, found, strict=True):
            exact = mp.mpc(complex(x)) ** count
            assert abs(mp.mpc(complex(y)) - exact) <= 2 * math.sqrt(2) * UNIT * count * abs(exact) + mp.mpf(2) ** -450


@pytest.mark.parametrize(("first", "count", "n"), [(-3, 5, 8), (10**9 + 1, 700, 1024), (-9, 40, 8), (0, 8, 8)])
def test_cells_on_the_circle_and_their_sums(first, count, n):
    cells = np.random.default_rng().uniform(size=count)
    circle, folds = spectral._wrap_prv_cells(np, cells, first, n)
    expected = np.zeros(n)
    np.add.at(expected, (first + np.arange(count)) % n, cells)
    np.testing.assert_allclose(circle, expected, rtol=2 * folds * UNIT)
    index = [first + i for i in range(count)]
    (total, moment, magnitude), roundings = spectral._sum_prv_cells(np, cells, first)
    scale = math.fsum(c * abs(i) for c, i in zip(cells, index, strict=True))
    assert abs(total - math.fsum(cells)) <= roundings * UNIT * total
    assert abs(moment - math.fsum(c * i for c, i in zip(cells, index, strict=True))) <= 2 * roundings * UNIT * scale
    assert abs(magnitude - scale) <= 2 * roundings * UNIT * scale


def test_sums_of_many_cells_stay_within_the_roundings_they_count():
    cells = np.random.default_rng().uniform(size=100_003)
    (total, _, _), roundings = spectral._sum_prv_cells(np, cells, -50_000)
    assert abs(total - math.fsum(cells)) <= roundings * UNIT * total and roundings < 150


@pytest.mark.parametrize("power", [11, 12, 16, 20])
def test_transforms_meet_half_of_their_bound(power):
    forward, inverse = spectral.measure_prv_transform_errors(np, 1 << power)
    assert 0 < forward <= spectral.bound_prv_transform_rounding(1 << power) / 2
    assert 0 < inverse <= spectral.bound_prv_transform_rounding(1 << power) / 2


def broken(error, direction):
    """NumPy with a transform that errs at a single point."""

    def rfft(x):
        z = np.fft.rfft(x)
        z[len(z) // 3] += error if direction == "forward" else 0
        return z

    def irfft(z, n):
        x = np.fft.irfft(z, n)
        x[n // 5] += error * np.sqrt((x * x).sum()) if direction == "inverse" else 0
        return x

    names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_") and name != "fft"}
    return SimpleNamespace(**names, fft=SimpleNamespace(rfft=rfft, irfft=irfft))


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_a_transform_that_is_not_what_is_assumed_is_refused(direction):
    where = Host()
    where.name, where.xp = f"broken {direction}", broken(1e-13, direction)
    with pytest.raises(RuntimeError, match="cannot be certified"):
        asked(RUNS["one sampled"], where).epsilon(1e-5)
    where.name, where.xp = f"sound {direction}", broken(0.0, direction)
    assert asked(RUNS["one sampled"], where).epsilon(1e-5).upper < 2


def test_what_the_core_is_handed_is_checked():
    runs = [("gaussian", 0.5, 1.0, 1, 0.0)]
    for answer in [(np.zeros(3), [(1.0, 0.0, 0.0)], 1e-14, 1e-14), (np.zeros(2048), [], 1e-14, 1e-14), 7]:
        with pytest.raises((ValueError, RuntimeError)):
            _core.prv_epsilon(runs, 1e-5, 0.01, 1e-10, 1e9, lambda *_, a=answer: a)

    def raises(*_):
        raise ZeroDivisionError("as it came")

    with pytest.raises(ZeroDivisionError, match="as it came"):
        _core.prv_epsilon(runs, 1e-5, 0.01, 1e-10, 1e9, raises)


def test_memory_is_refused_before_it_is_taken():
    with pytest.raises(ValueError, match="max_bytes"):
        asked(RUNS["one sampled"], max_bytes=10_000).epsilon(1e-5)
    assert asked(RUNS["one sampled"], max_bytes=1 << 25).epsilon(1e-5).upper < 2


def test_without_a_device_the_reason_is_said_before_any_work():
    if cuda.devices():
        pytest.skip("a CUDA device is at hand: tests/cuda covers it")
    for ask in (cuda.epsilon, cuda.delta):
        for device in ("cuda", "cuda:1"):
            with pytest.raises(RuntimeError, match=r"CUDA: (not built|built, no device)"):
                ask(RUNS["one sampled"], 0.5, device=device)


@pytest.mark.parametrize("device", ["cpu", "gpu", "cuda:", "cuda:x", 0])
def test_a_device_is_named_as_for_a_batch_of_settings(device):
    for ask in (cuda.epsilon, cuda.delta):
        with pytest.raises(ValueError, match="device must be"):
            ask(RUNS["one sampled"], 0.5, device=device)


def test_arguments_are_checked():
    for wrong, name in [
        ({"neighbors": "both"}, "neighbors"),
        ({"eps_error": 0}, "eps_error"),
        ({"delta_error": 1}, "delta_error"),
    ]:
        with pytest.raises(ValueError, match=name):
            asked(dp.Gaussian(1.0), **wrong)
    with pytest.raises(ValueError, match="cannot serve"):
        asked(dp.ZCDP(0.1) * 3).epsilon(1e-5)
