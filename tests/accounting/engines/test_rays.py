"""Few steps of small sampling probability: the contour turned to rays (docs/theory/rays.md)."""

import math
import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from numpy.polynomial import legendre
from scipy import special

import tightdp as dp
from tightdp import Gaussian, PoissonSampled, _core
from tightdp.accounting.engines import grid

TOLERANCE = 1e-11


@pytest.fixture(autouse=True)
def forty_digits():
    with mpmath.workdps(40):
        yield


def one_step(sigma, q, epsilon):
    """delta of one step under "remove", at any real epsilon."""
    if epsilon <= mpmath.log1p(-q):
        return -mpmath.expm1(epsilon)
    sigma, q = mpmath.mpf(sigma), mpmath.mpf(q)
    e = mpmath.log1p(mpmath.expm1(epsilon) / q)
    tails = [mpmath.erfc((e * sigma + sign / (2 * sigma)) / mpmath.sqrt(2)) / 2 for sign in (-1, 1)]
    return q * (tails[0] - mpmath.exp(e) * tails[1])


def two_steps(sigma, q, epsilon):
    """delta of two steps: that of one, averaged over the loss of the other under the mixture."""
    s = mpmath.mpf(sigma)

    def term(x):
        weight = 1 - mpmath.mpf(q) + q * mpmath.exp(x / s - 1 / (2 * s * s))
        return mpmath.npdf(x) * weight * one_step(sigma, q, epsilon - mpmath.log(weight))

    # Where the other loss alone comes to epsilon the average changes over many scales.
    edge = s * mpmath.log1p(mpmath.expm1(epsilon) / q) + 1 / (2 * s)
    near = [edge + sign * mpmath.mpf(2) ** -i for i in range(1, 24) for sign in (-1, 1)]
    cuts = [mpmath.mpf(i) / 2 for i in range(-30, 31 + 2 * math.ceil(1 / sigma))]
    return mpmath.quad(term, sorted([*cuts, *near, edge]))


# Panels of Gauss and Legendre, and the polynomials that go through their nodes.
ORDER = 16
NODES, WEIGHTS = legendre.leggauss(ORDER)
COEFFICIENTS = np.linalg.inv(legendre.legvander(NODES, ORDER - 1))


def panels(low, high, width):
    """Nodes and weights of panels of equal width, at most this."""
    edges = np.linspace(low, high, math.ceil((high - low) / width) + 1)
    half = (edges[1] - edges[0]) / 2
    return (edges[:-1, None] + half + half * NODES).ravel(), np.tile(half * WEIGHTS, len(edges) - 1), edges


def shift_of(steps):
    return -sum(math.log1p(-q) for _, q in steps)


def by_conditioning(steps, epsilon, width=0.25):
    """delta of steps (sigma, q), in doubles: that of all but the last, averaged over the loss of the last.

    All terms are positive. With lambda = -sum ln(1 - q) and E = epsilon + lambda, delta is kept as a function of ln E
    on panels; for E <= 0 it is 1 - e^epsilon. The loss of a step and its part of lambda are h = ln(1 + e^t), t a
    Gaussian variable. Where h > E the average has a closed form; the rest is integrated over the distance of t from
    there, near 0 over its logarithm.
    """
    total = epsilon + shift_of(steps)
    lowest = min(math.log(q) - 0.5 / s**2 - 9.5 / s for s, q in steps)
    at, _, edges = panels(lowest, math.log(total), width)
    values = None
    for n in range(1, len(steps) + 1):
        shifted = [total] if n == len(steps) else np.exp(at)
        before, rest = values, shift_of(steps[: n - 1])

        def rest_of(y, before=before, rest=rest):
            where = np.clip(np.searchsorted(edges, np.log(y)) - 1, 0, len(edges) - 2)
            inside = (np.log(y) - edges[where]) / (edges[1] - edges[0]) * 2 - 1
            found = legendre.legval(np.clip(inside, -1, 1), before[where].T, tensor=False)
            return np.where(np.log(y) < lowest, -np.expm1(y - rest), found)

        values = np.array(
            [average(*steps[n - 1], e, e - shift_of(steps[:n]), n > 1 and rest_of, width) for e in shifted]
        )
        if n < len(steps):
            values = values.reshape(-1, ORDER) @ COEFFICIENTS.T
    return values[0]


def average(sigma, q, shifted, epsilon, rest_of, width):
    """E_P[delta'(epsilon - loss)] over the loss of one step, delta' that of the others or (1 - e^epsilon)_+."""
    mean = math.log(q) - math.log1p(-q) - 0.5 / sigma**2
    top = math.log(math.expm1(shifted))
    masses = special.ndtr([(mean - top) * sigma, (mean - top) * sigma + 1 / sigma])
    past = q * masses[1] - (1 - q) * math.expm1(epsilon - math.log1p(-q)) * masses[0]
    if not rest_of:
        return past
    # Far from there panels are as wide as a deviation of t.
    low, part = min(mean - 9.5 / sigma, top - 2), min(1.0, 1 / sigma)
    near, near_weight, _ = panels(math.log(1e-12), math.log(part), 2 * width)
    far, far_weight, _ = panels(part, top - low, 4 * width / sigma)
    distance = np.concatenate([np.exp(near), far])
    weight = np.concatenate([np.exp(near) * near_weight, far_weight])
    # shifted - h without cancellation on either side.
    close = -np.log1p(math.exp(-shifted) * math.expm1(shifted) * np.expm1(-distance))
    y = np.where(distance < 1, close, shifted - np.log1p(np.exp(top - distance)))
    z = (top - distance - mean) * sigma
    density = (1 - q) * np.exp(-z * z / 2) + q * np.exp(-((z - 1 / sigma) ** 2) / 2)
    return past + np.sum(weight * density * rest_of(y)) * sigma / math.sqrt(2 * math.pi)


def removed(parts, delta):
    """What the engine says of epsilon(delta), and its work."""
    before = _core.work_spent()
    found = _core.contour_epsilon(parts, 0.0, "remove", delta, TOLERANCE)
    return *found[:3], _core.work_spent() - before


def asked(parts, epsilon):
    """Certified ends of delta, and their relative distance."""
    sampled = [(sigma, q, float(k)) for sigma, q, k in parts]
    status, lower, upper, *_ = _core.contour_delta(sampled, 0.0, "remove", epsilon, TOLERANCE)
    assert status == "certified"
    return lower, upper, (upper - lower) / upper


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon"),
    [(0.8, 1.7e-4, 0.01), (1.0, 1e-4, 0.002), (0.5, 1e-5, 0.02), (0.4, 1e-3, 0.7), (1.2, 1e-3, 0.004)],
)
def test_one_step_has_its_closed_form(sigma, q, epsilon):
    lower, upper, width = asked([(sigma, q, 1)], epsilon)
    assert lower <= one_step(sigma, q, mpmath.mpf(epsilon)) <= upper
    assert width < 1e-7


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon"), [pytest.param(0.8, 1.7e-4, 0.01, marks=pytest.mark.slow), (0.4, 1e-3, 0.7)]
)
def test_conditioning_gives_two_steps(sigma, q, epsilon):
    with mpmath.workdps(20):
        exact = two_steps(sigma, q, mpmath.mpf(epsilon))
    assert by_conditioning([(sigma, q)] * 2, epsilon) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([(0.6, 1e-4, 2)], 0.1459),
        ([(1.0, 1e-3, 2)], 0.01),
        ([(0.4, 1e-5, 2)], 0.5),
        ([(1.2, 1e-3, 2)], 0.004),
        ([(0.4, 1e-3, 3)], 0.7245),
        pytest.param([(0.8, 1.7e-4, 3)], 0.0094, marks=pytest.mark.slow),
        ([(0.7, 1e-4, 1), (1.1, 2e-3, 1)], 0.02),
        pytest.param([(0.5, 1e-5, 1), (1.4, 5e-3, 2)], 0.03, marks=pytest.mark.slow),
        pytest.param([(0.8, 1.7e-4, 1), (0.6, 1e-4, 1), (1.2, 1e-3, 1)], 0.01, marks=pytest.mark.slow),
        pytest.param([(0.61, 5.5e-3, 1), (0.62, 5.3e-3, 1), (1.1, 2.8e-6, 1)], 0.85, marks=pytest.mark.slow),
        ([(0.33, 1e-3, 1), (0.77, 1.4e-4, 1)], 13.0),
    ],
)
def test_several_steps_are_averages_over_one_after_another(parts, epsilon):
    steps = [(sigma, q) for sigma, q, count in parts for _ in range(count)]
    exact = by_conditioning(steps, epsilon)
    assert exact == pytest.approx(by_conditioning(steps[::-1], epsilon, 0.4), rel=1e-12)
    lower, upper, width = asked(parts, epsilon)
    assert lower * (1 - 1e-12) <= exact <= upper * (1 + 1e-12)
    assert width < 1e-6


@pytest.mark.parametrize(
    ("sigma", "q", "count", "delta"), [(0.8, 1.7e-4, 36, 1e-5), (0.5, 1e-5, 20, 1e-6), (0.7, 1e-4, 5, 1e-6)]
)
def test_epsilon_agrees_with_delta_and_with_the_grid(sigma, q, count, delta):
    status, lower, upper, *_ = _core.contour_epsilon([(sigma, q, float(count))], 0.0, "remove", delta, TOLERANCE)
    assert status == "certified"
    assert upper - lower < 1e-6 * upper
    assert asked([(sigma, q, count)], upper)[0] <= delta <= asked([(sigma, q, count)], lower)[1]
    found = grid.ENGINE.epsilon(((PoissonSampled(Gaussian(sigma), q), count),), "remove", delta)
    assert max(found.lower, lower) <= min(found.upper, upper)


@pytest.mark.parametrize(
    ("sigma", "q", "count", "delta"),
    [(1.5, 1e-4, 5, 1e-10), (1.25, 7.8e-4, 37, 3e-9), (2.5, 1e-5, 3, 1e-9), (1.0, 6.4e-4, 20, 1e-8)],
)
def test_a_far_lobe_does_not_explode_on_the_strip(sigma, q, count, delta):
    """The abscissa is chosen for the outer edge of the strip: at one that is best for the path alone sums are long."""
    status, lower, upper, _ = removed([(sigma, q, float(count))], delta)
    assert status == "certified"
    assert upper - lower < 1e-6 * upper
    found = grid.ENGINE.epsilon(((PoissonSampled(Gaussian(sigma), q), count),), "remove", delta)
    assert max(found.lower, lower) <= min(found.upper, upper)


def test_two_steps_of_rare_samples_lose_few_digits_beside_their_first_order():
    steps, epsilon = [(0.8, 1e-7)] * 2, 1e-4
    lower, upper, width = asked([(0.8, 1e-7, 2)], epsilon)
    assert lower * (1 - 1e-12) <= by_conditioning(steps, epsilon) <= upper * (1 + 1e-12)
    assert width < 1e-7


@pytest.mark.parametrize(
    ("sigma", "q", "count", "delta"), [(0.8, 1.7e-4, 36, 1e-5), (0.5, 1e-5, 20, 1e-6), (0.7, 1e-4, 5, 1e-6)]
)
def test_a_batch_answers_as_one_setting_does(sigma, q, count, delta):
    one = (PoissonSampled(Gaussian(sigma), q) * count).epsilon(delta)
    lower, upper = dp.epsilon_batch([sigma] * 3, q, count, delta)
    assert set(lower) == {one.lower}
    assert set(upper) == {one.upper}
    assert upper[0] - lower[0] < 1e-6 * upper[0]


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_every_instruction_set_has_the_same_truth(isa):
    code = (
        "from tightdp import _core\n"
        'print(*_core.contour_delta([(0.8, 1.7e-4, 2.0)], 0.0, "remove", 0.01, 1e-11)[:3], _core.isa())'
    )
    environment = {**os.environ, "TIGHTDP_ISA": isa}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    status, lower, upper, used = run.stdout.split()
    assert status == "certified"
    assert used in (isa, "baseline")
    assert float(lower) * (1 - 1e-12) <= by_conditioning([(0.8, 1.7e-4)] * 2, 0.01) <= float(upper) * (1 + 1e-12)


@pytest.mark.parametrize(("sigma", "q", "steps"), [(0.446, 0.5, 2), (1.0, 0.01, 3), (0.8, 1e-3, 1), (2.0, 1e-4, 20)])
@pytest.mark.parametrize("epsilon", [-2.0, -0.7, -1e-3, -1e-9, 0.0])
def test_a_negative_epsilon_is_that_of_the_other_direction(sigma, q, steps, epsilon):
    """delta(epsilon) of removing is 1 - e^epsilon + e^epsilon delta(-epsilon) of adding."""
    run = dp.PoissonSampled(dp.Gaussian(sigma), q) * steps
    found = run.delta(epsilon, neighbors="remove")
    other = run.delta(-epsilon, neighbors="add", engine="grid")
    assert found.lower <= (-math.expm1(epsilon) + math.exp(epsilon) * other.upper) * (1 + 1e-12)
    assert found.upper >= (-math.expm1(epsilon) + math.exp(epsilon) * other.lower) * (1 - 1e-12)
