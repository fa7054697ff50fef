"""The pessimistic and the optimistic lattice of one law: order, mass, mean, closeness, and the plain reference."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import grid as reference

from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

ATOMS = st.lists(st.tuples(st.floats(-3, 3, allow_subnormal=False), st.floats(1e-6, 1)), min_size=1, max_size=12)


def law_of(atoms):
    y = np.array([a[0] for a in atoms])
    logs = np.log([a[1] for a in atoms])
    return _core.GridLaw.atoms(y, logs, np.full(len(y), 1e-15), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def normalised(drawn):
    """Ascending atoms with P-mass 1 and Q-mass at most 1."""
    merged = {}
    for y, p in drawn:
        merged[y] = merged.get(y, 0.0) + p
    total = math.fsum(merged.values())
    ratio = math.fsum(p / total * math.exp(-y) for y, p in merged.items())
    return sorted((y + max(0.0, math.log(ratio)), p / total) for y, p in merged.items())


@settings(max_examples=150, deadline=None)
@given(ATOMS, st.sampled_from([1.0, 0.3, 0.11, 0.02]), st.floats(0, 5), st.integers(0, 2), st.integers(1, 3))
def test_any_atoms_lie_between_their_lattices(drawn, h, tilt, left, right):
    atoms = normalised(drawn)
    first = math.floor(atoms[0][0] / h) - left
    cells = math.floor(atoms[-1][0] / h) + right - first
    high, low, slack, beyond, _ = _testing.grid_weights(law_of(atoms), 0.0, h, tilt, 0.0, first, cells)
    x = (first + np.arange(cells + 1)) * h
    high, low = high * np.exp(-tilt * x), low * np.exp(-tilt * x)
    assert (high >= 0).all() and (low >= 0).all() and beyond == 0 and slack < 1e-13
    assert high.sum() == pytest.approx(1, abs=1e-12) and low.sum() <= 1 + 1e-15
    at = np.concatenate((x, x + h / 2, x + h / 7))
    true = reference.exact(atoms, at)
    error = 1e-13 * (1 + np.exp(at))
    assert (reference.curve(high, h, first, at) >= true - error).all()
    assert (reference.curve(low, h, first, at) <= true + error).all()


@settings(max_examples=60, deadline=None)
@given(ATOMS, st.sampled_from([1.0, 30.0, 1000.0]), st.sampled_from([0.7, 20.0, 290.0, 900.0, 5000.0]), st.floats(0, 1))
def test_wide_lattices_and_far_atoms(drawn, far, h, place):
    """Where e^h is large, or none at all: curves in many digits, at points and anywhere between them."""
    atoms = [(y * far, p) for y, p in normalised(drawn)]
    assume(far <= 8 * h)
    first, last = math.floor(atoms[0][0] / h) - 1, math.floor(atoms[-1][0] / h) + 2
    high, low, slack, beyond, _ = _testing.grid_weights(law_of(atoms), 0.0, h, 0.0, 0.0, first, last - first)
    with mp.workdps(60):
        for at in (*range(first, last + 1), *(first + (last - first) * place * j / 8 for j in range(9))):
            eps = mp.mpf(at) * mp.mpf(h)

            def curve(x, w, e):
                pairs = ((mp.mpf(y), mp.mpf(p)) for y, p in zip(x, w, strict=True) if p > 0 and y > e)
                return mp.fsum(p * -mp.expm1(e - y) for y, p in pairs)

            x = [mp.mpf(i) * mp.mpf(h) for i in range(first, last + 1)]
            y, p = zip(*atoms, strict=True)
            assert curve(x, high, eps - slack) + beyond >= curve(y, p, eps) * (1 - mp.mpf(10) ** -15)
            assert curve(x, low, eps + slack) <= curve(y, p, eps) * (1 + mp.mpf(10) ** -15)


@settings(max_examples=100, deadline=None)
@given(ATOMS, st.sampled_from([0.5, 0.25]))
def test_the_pessimistic_lattice_is_the_plain_one(drawn, h):
    atoms = normalised(drawn)
    first, cells = math.floor(-3 / h) - 1, math.ceil(9 / h) + 2
    high = _testing.grid_weights(law_of(atoms), 0.0, h, 0.0, 0.0, first, cells)[0]
    plain = reference.pessimistic(*reference.knots(atoms, h, first, cells), h)
    assert high == pytest.approx(plain, rel=1e-10, abs=1e-12)


def test_atoms_on_the_lattice_are_carried_exactly():
    atoms = [(-0.5, 0.2), (0.25, 0.3), (0.5, 0.5)]
    high, low, slack, _, _ = _testing.grid_weights(law_of(atoms), 0.0, 0.25, 0.0, 0.0, -4, 8)
    assert high == pytest.approx([0, 0, 0.2, 0, 0, 0.3, 0.5, 0, 0], rel=1e-14)
    assert low == pytest.approx(high, rel=1e-13) and (low <= high).all() and slack <= 1e-15


def gaussian_cells(mu, left, right):
    """Mass and spread of a cell of the Gaussian loss law."""
    z0, z1 = (left + mu * mu / 2) / mu, (right + mu * mu / 2) / mu
    p, q = mp.ncdf(z1 - mu) - mp.ncdf(z0 - mu), mp.ncdf(z1) - mp.ncdf(z0)
    return p, p - mp.exp(left) * q


def sampled_cells(mu, q, left, right):
    """The same of (1-q) N(0,1) + q N(mu,1) against N(0,1)."""
    base = []
    for x in (left, right):
        if mp.exp(x) <= 1 - q:
            base.append((mp.mpf(0), mp.mpf(0)))
        else:
            z = (mp.log((mp.exp(x) - 1 + q) / q) + mu * mu / 2) / mu
            base.append((mp.ncdf(z - mu), mp.ncdf(z)))
    p, b = base[1][0] - base[0][0], base[1][1] - base[0][1]
    mass = (1 - q) * b + q * p
    return mass, mass - mp.exp(left) * b


def added_cells(mu, q, left, right):
    """The same of N(0,1) against (1-q) N(0,1) + q N(mu,1): the mirror image of the former."""
    mass, spread = sampled_cells(mu, q, -right, -left)
    ratio = mass - spread  # e^{-right} times the Q-mass of the mirrored law
    p = mp.exp(right) * ratio
    return p, p - mp.exp(left) * mass


def laplace_cells(mu, left, right):
    left_, right_ = max(left, -mu), min(right, mu)
    p = (mp.exp((right_ - mu) / 2) - mp.exp((left_ - mu) / 2)) / 2
    q = (mp.exp(-(left_ + mu) / 2) - mp.exp(-(right_ + mu) / 2)) / 2
    return p, p - mp.exp(left) * q


CASES = {
    "gaussian": (lambda: _core.GridLaw.gaussian(0.7), lambda a, b: gaussian_cells(mp.mpf(0.7), a, b), 0.0),
    "narrow": (lambda: _core.GridLaw.gaussian(0.01), lambda a, b: gaussian_cells(mp.mpf(0.01), a, b), 0.0),
    "wide": (lambda: _core.GridLaw.gaussian(8.0), lambda a, b: gaussian_cells(mp.mpf(8), a, b), 0.0),
    "remove": (
        lambda: _core.GridLaw.gaussian(1.25).poisson(0.02, False),
        lambda a, b: sampled_cells(mp.mpf(1.25), mp.mpf(0.02), a, b),
        0.0,
    ),
    "add": (
        lambda: _core.GridLaw.gaussian(1.25).poisson(0.3, True),
        lambda a, b: added_cells(mp.mpf(1.25), mp.mpf(0.3), a, b),
        0.0,
    ),
    "laplace": (lambda: _core.GridLaw.laplace(1.5), lambda a, b: laplace_cells(mp.mpf(1.5), a, b), 1.5),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("h", [2.0**-2, 2.0**-6, 2.0**-14])
def test_masses_of_cells_against_40_digits(name, h):
    """The left and right share of single cells, isolated from their neighbours through the two ends of a lattice."""
    make, cells, anchor = CASES[name]
    law = make()
    with mp.workdps(40):
        for at in (-0.9, -0.01, 0.001, 0.2, 1.0, 2.4):
            first = math.floor((at - anchor) / h)
            left, right = (mp.mpf(anchor) + i * mp.mpf(h) for i in (first, first + 1))
            if name == "laplace" and not -1.5 <= left <= right <= 1.5:
                continue
            _, spread = cells(left, right)
            share = spread / -mp.expm1(-mp.mpf(h))
            # Two cells: the middle point gets the right share of the one and the left share of the other.
            high, _, slack, _, _ = _testing.grid_weights(law, anchor, h, 0.0, 0.0, first, 2)
            other, spread_ = cells(right, right + mp.mpf(h))
            expected = share + other - spread_ / -mp.expm1(-mp.mpf(h))
            if name == "laplace" and first + 1 == 0:
                continue
            allowed = 1e-12 + 8 * slack / h
            assert abs(high[1] - expected) <= expected * allowed + 1e-70, (name, h, at)


def gaussian_curve(mu, eps):
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


def sampled_curve(mu, q, eps):
    """(1-q) Q + q P against Q."""
    x = mp.exp(eps)
    return q * gaussian_curve(mu, mp.log((x - 1 + q) / q)) if x > 1 - q else 1 - x


CURVES = {
    "gaussian": lambda e: gaussian_curve(mp.mpf(0.7), e),
    "narrow": lambda e: gaussian_curve(mp.mpf(0.01), e),
    "wide": lambda e: gaussian_curve(mp.mpf(8), e),
    "remove": lambda e: sampled_curve(mp.mpf(1.25), mp.mpf(0.02), e),
    "add": lambda e: 1 - mp.exp(e) + mp.exp(e) * sampled_curve(mp.mpf(1.25), mp.mpf(0.3), -e),
    "laplace": lambda e: 1 - mp.exp((e - 1.5) / 2) if abs(e) <= 1.5 else max(0, 1 - mp.exp(e)),
}


def lattice(name, h, tilt=0.0):
    """The points and both lattices' weights over nearly all of a law, and its slack."""
    make, _, anchor = CASES[name]
    left, right = {"wide": (0.0, 90.0), "narrow": (-0.1, 0.1)}.get(name, (-6.0, 9.0))
    first, cells = math.floor((left - anchor) / h), math.ceil((right - left) / h)
    high, low, slack, beyond, _ = _testing.grid_weights(make(), anchor, h, tilt, 0.0, first, cells)
    x = anchor + (first + np.arange(cells + 1)) * h
    lean = np.exp(-tilt * (x - anchor))
    return x, high * lean, low * lean, slack, beyond


def weighed(x, w, eps):
    """delta of weights w on x, exactly."""
    return mp.fsum(mp.mpf(p) * -mp.expm1(eps - mp.mpf(y)) for y, p in zip(x, w, strict=True) if p > 0 and y > eps)


@pytest.mark.parametrize(
    ("name", "h"),
    [
        pytest.param(name, h, marks=[pytest.mark.slow] * (name == "wide" and h < 0.1))
        for name in CASES
        for h in (2.0**-2, 2.0**-7)
    ],
)
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_lattices_hold_the_curve_between_them(name, h, tilt):
    """At points, in the middle of cells and elsewhere, with nothing allowed for rounding but the stated slack."""
    if name == "narrow":
        h /= 64
    x, high, low, slack, beyond = lattice(name, h, tilt)
    with mp.workdps(60):
        middle = x[int(np.argmax(high))]
        for d in (-7.0, -2.5, -0.5, 0.0, 0.25, 1.5, 6.125):
            eps = mp.mpf(middle) + d * h
            true = max(CURVES[name](eps), 1 - mp.exp(eps))
            true = true if true > 1e-55 else 0  # beyond the support, where the formulas cancel
            assert weighed(x, high, eps - slack) + beyond >= true
            assert weighed(x, low, eps + slack) <= true


@pytest.mark.parametrize("name", ["gaussian", "remove", "add", "laplace"])
def test_both_lattices_are_second_order(name):
    """The two curves differ by about h^2/8 times the density, twelfths of it above and twenty-fourths below."""
    widths = []
    for h in (1 / 512, 1 / 1024):
        x, high, low, _, _ = lattice(name, h)
        at = np.array([0.25, 0.25 + h / 2])
        first = round((x[0] - CASES[name][2]) / h)
        shift = CASES[name][2]
        both = [reference.curve(w, h, first, at - shift) for w in (high, low)]
        widths.append(both[0] - both[1])
        assert low.sum() == pytest.approx(high.sum(), rel=1e-9)
    ratio = widths[0] / widths[1]
    assert (ratio > 3.6).all() and (ratio < 4.4).all()


@pytest.mark.parametrize("mass", [0.5, 1e-3, 1e-15, 7.3e-123, 3e-200, 1e-300, 1e-308])
@pytest.mark.parametrize("add", [True, False])
def test_a_mass_at_infinity_of_a_sample_is_confined_by_its_own_logarithm(mass, add):
    """It becomes an atom where one of the two sides vanishes, and is kept as its logarithm, whose rounding grows with
    it: ln 1e-308 is known to 512 units of roundoff."""
    q, far = 0.3, -5.0 if add else 5.0
    ends = (mass, 0.0) if add else (0.0, mass)
    base = _core.GridLaw.atoms([far], [math.log1p(-mass)], [1e-15], *ends, 0.0, 0.0, far, 0.0, 0.0)
    edge = -math.log1p(-q) if add else math.log1p(-q)
    high, low, *_ = _testing.grid_weights(base.poisson(q, add), edge, 2.0**-4, 0.0, 0.0, -2, 4)
    with mp.workdps(40):
        truth = mp.mpf(mass) * (1 if add else 1 - mp.mpf(q))
        assert low[2] <= truth <= high[2] <= low[2] * (1 + mp.mpf(10) ** -11)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("missing", [1e-3, 1e-9, -1e-9])
def test_a_distribution_with_missing_or_excessive_mass_bounds_nothing(missing, direction):
    """Of atoms whose masses do not add up to 1 no more is claimed than what three losses of at most 1 imply."""
    p = 1 / (1 + math.exp(-1.0))
    found = []
    for lost in (0.0, missing):
        logs = np.log([1 - p, p - lost])
        law = _core.GridLaw.atoms(np.array([-1.0, 1.0]), logs, np.full(2, 1e-15), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        found.append(_core.grid_delta([(law if direction == "remove" else law.reversed(), 3.0)], 0.5, 1e-6, 1 << 16))
    (low, high), (nothing, everything) = (ends[:2] for ends in found)
    assert 0 < low <= high < 1
    assert nothing == 0 and everything >= -math.expm1(0.5 - 3.0) * (1 - 1e-12) > high


@pytest.mark.parametrize("tilt", [0.5, 4.0, 20.0])
def test_errors_of_lowered_weights_grow_with_the_true_factors_they_meet(tilt):
    """docs/theory/grid.md, section 5.2: the weight of one odd point is lowered by a whole fine cell.

    The true weights may have the norm of the fine ones; in their fourth power an error meets three of them. What the
    engine counts, in units of the fourth power of the lowered weights, is 4 E exp(4 E) for the error E it hands on.
    """
    coarse_h, error = 0.25, 1e-7
    lowered, log_scale, handed_on = _testing.grid_coarse([0.0, 1.0, 0.0], 0, error, coarse_h, tilt, False)
    norm = lowered.sum()
    assert log_scale == 0 and 0 < norm <= math.exp(-tilt * coarse_h / 2)
    counted = 4 * handed_on / norm * math.exp(4 * handed_on / norm) * norm**4
    missed = math.fsum(math.comb(4, k) * error**k for k in (1, 2, 3, 4))  # (1 + error)^4 - 1
    assert counted >= missed
    assert 4 * error * math.exp(tilt * coarse_h) * norm**3 < missed  # not enough where three factors are forgotten
