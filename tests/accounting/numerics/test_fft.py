"""The real Fourier transform against its definition, its identities and its stated rounding bound."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.dft import dft

from tightdp import _core

LENGTHS = [1 << p for p in range(2, 15)]


def order(n):
    """(index of the real part, of the imaginary part, frequency) of each coefficient: that of the unit impulse at 1 is
    the root of unity of its frequency."""
    impulse = np.zeros(n)
    impulse[1] = 1
    roots = _core.rfft_forward(impulse)
    for m in [1 << p for p in range(2, n.bit_length())]:
        for i in range(m // 2, 3 * m // 4):
            turn = np.arctan2(-roots[i + m // 4], roots[i]) / (2 * np.pi)
            yield i, i + m // 4, round(turn * n) % n


def natural(spectrum):
    """All n coefficients in the order of their frequency, from the order the transform leaves them in."""
    n = len(spectrum)
    out = np.zeros(n, complex)
    out[0], out[n // 2] = spectrum[:2]
    seen = {0, n // 2}
    for real, imaginary, f in order(n):
        out[f] = spectrum[real] + 1j * spectrum[imaginary]
        out[n - f] = out[f].conjugate()
        seen |= {f, n - f}
    assert seen == set(range(n))
    return out


def norm(x):
    return float(np.sqrt((np.abs(x) ** 2).sum()))


def sequence(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize("n", LENGTHS[:9])
def test_definition_within_the_stated_bounds(n):
    x, kappa = sequence(n), _core.rfft_rounding_bound(n)
    exact = dft(x)
    error = natural(_core.rfft_forward(x)).astype(np.clongdouble) - exact
    assert norm(error) <= kappa * norm(exact)
    assert np.abs(error).max() <= kappa * np.abs(x).sum()
    if n >= 64:
        assert norm(error) >= kappa * norm(exact) / 100, "the bound says nothing"


@pytest.mark.parametrize("n", LENGTHS)
def test_unit_impulses_give_the_roots_of_unity(n):
    for j in {0, 1, n // 2 - 1, n // 2, n - 1}:
        x = np.zeros(n)
        x[j] = 1
        exact = np.exp(-2j * np.pi * ((np.arange(n) * j) % n) / n)
        assert np.abs(natural(_core.rfft_forward(x)) - exact).max() <= _core.rfft_rounding_bound(n)


@pytest.mark.parametrize("n", [*LENGTHS, 1 << 18])
def test_inverse_undoes_forward(n):
    x, kappa = sequence(n), _core.rfft_rounding_bound(n)
    assert norm(_core.rfft_inverse(_core.rfft_forward(x)) - x) <= kappa * (2 + kappa) * norm(x)


@pytest.mark.parametrize("n", LENGTHS)
def test_parseval(n):
    x = sequence(n)
    spectrum = natural(_core.rfft_forward(x))
    assert norm(spectrum) ** 2 / n == pytest.approx(norm(x) ** 2, rel=3 * _core.rfft_rounding_bound(n) + 1e-15)


whole = st.integers(-(2**20), 2**20)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 8))
def test_convolution_theorem_on_integers(data, bits):
    """Integers convolve exactly in Python; the transform must come within its bound of them."""
    n = 1 << bits
    a = data.draw(st.lists(whole, min_size=n, max_size=n))
    b = data.draw(st.lists(whole, min_size=n, max_size=n))
    exact = np.zeros(n)
    for shift, weight in enumerate(b):
        exact += weight * np.roll(np.array(a, float), shift)  # exact: under 2^49
    x, y = np.array(a, float), np.array(b, float)
    product = _core.rfft_multiply(_core.rfft_forward(x), _core.rfft_forward(y))
    kappa = _core.rfft_rounding_bound(n)
    # |X^Y^ - XY|_2 <= |X^-X|_inf |Y|_2 + ... with |X|_inf <= |x|_1; then the product's and the inverse's error
    allowed = 1.01 * (2 * kappa + 4e-16 + kappa) * np.abs(x).sum() * norm(y)
    assert norm(_core.rfft_inverse(product) - exact) <= allowed


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10**6), st.integers(2, 10), st.integers(0, 2**32))
def test_power_within_its_bound(k, bits, seed):
    n = 1 << bits
    rng = np.random.default_rng(seed)
    pmf = rng.dirichlet(np.ones(n))
    spectrum = _core.rfft_forward(pmf)
    z = natural(spectrum).astype(np.clongdouble)
    exact = np.exp(np.log(np.where(z == 0, 1, z)) * np.longdouble(k)) * (z != 0)
    error = np.abs(natural(_core.rfft_power(spectrum, k)) - exact)
    slack = 1e-18 * k  # of the reference, whose phase carries k times an 80-bit rounding
    assert (error <= (_core.rfft_power_bound(k) + slack) * np.abs(exact) + 2.0**-450).all()


def test_power_is_repeated_multiplication():
    spectrum = _core.rfft_forward(np.random.default_rng(1).dirichlet(np.ones(512)))
    product = spectrum
    for k in range(2, 20):
        product = _core.rfft_multiply(product, spectrum)
        assert np.abs(_core.rfft_power(spectrum, k) - product).max() <= 2 * _core.rfft_power_bound(k)


def test_huge_powers_leave_the_constant_coefficient_and_nothing_else():
    spectrum = _core.rfft_forward(np.array([0.5, 0.25, 0.125, 0.125]))
    assert _core.rfft_power(spectrum, 10**18).tolist() == [1, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_instruction_sets_agree(isa):
    """Each variant in a process of its own; a machine without it runs the next narrower one."""
    program = (
        "import numpy as np; from tightdp import _core; from test_fft import natural, sequence\n"
        "for n in (4, 32, 64, 256, 512, 2048, 4096):\n"
        "    x = sequence(n); s = _core.rfft_forward(x); k = _core.rfft_rounding_bound(n)\n"
        "    assert np.abs(natural(s)[: n // 2 + 1] - np.fft.rfft(x)).max() <= 2 * k * np.abs(x).sum()\n"
        "    assert np.abs(_core.rfft_inverse(s) - x).max() <= 3 * k * np.linalg.norm(x)\n"
    )
    path = os.pathsep.join(
        [os.path.dirname(__file__), str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    env = {**os.environ, "TIGHTDP_ISA": isa, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=60)


def test_lengths_that_are_not_powers_of_two_are_refused():
    for n in (0, 1, 2, 3, 12, 1000):
        with pytest.raises(ValueError, match="power of two"):
            _core.rfft_forward(np.zeros(n))
    with pytest.raises(ValueError, match="differ in length"):
        _core.rfft_multiply(np.zeros(8), np.zeros(4))
    with pytest.raises(ValueError, match="k must be an integer >= 1"):
        _core.rfft_power(np.zeros(8), 0)
