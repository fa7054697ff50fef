"""Convergence of clipped, noisy gradient descent: docs/theory/adaclip.md, section 7, by enumeration of all paths."""

import itertools

import numpy as np
import pytest

POINTS = np.array([[1.0, 0.2], [-1.0, 0.0], [0.5, -0.4]])
MEAN = POINTS.mean(axis=0)
STEPS = 4


def enumerate_paths(scale, sigma, eta, start):
    """Returns both sides of the theorem for f = mean |theta - x|^2 / 2, whose gradient has the Lipschitz constant 1.

    The noise is +-sigma in each coordinate with equal signs, of which the proof uses the mean and the variance."""
    scale = np.asarray(scale, float)
    left = clipping = largest = 0.0
    paths = list(itertools.product(range(len(POINTS)), (-1.0, 1.0), repeat=STEPS))
    for path in paths:
        theta = np.asarray(start, float)
        for record, sign in zip(path[::2], path[1::2], strict=True):
            gradients = theta - POINTS
            center = gradients.mean(axis=0)
            largest = max(largest, float(np.linalg.norm(gradients, axis=1).max()))
            left += float(center @ center)
            clipping += float((((gradients - center) / scale) ** 2).sum(axis=1).mean())
            moved = gradients[record] - center
            clipped = moved / max(1.0, float(np.linalg.norm(moved / scale)))
            theta = theta - eta * (center + clipped + scale * sign * sigma)
    spread = float(((POINTS - MEAN) ** 2).sum(axis=1).mean())
    excess = float(((start - MEAN) ** 2).sum()) / 2
    average = 1 / (len(paths) * STEPS)
    right = 2 * excess / (eta * STEPS) + eta * spread
    right += 16 / 27 * largest**2 * clipping * average + eta * sigma**2 * float(scale @ scale)
    return left * average, right


@pytest.mark.parametrize("scale", [(0.05, 0.05), (0.5, 0.1), (2.0, 2.0)])
@pytest.mark.parametrize(("sigma", "eta"), [(0.0, 1.0), (0.5, 0.3)])
def test_squared_gradients_are_below_the_bound(scale, sigma, eta):
    left, right = enumerate_paths(scale, sigma, eta, np.array([2.0, -1.0]))
    assert 0 < left <= right


def test_the_printed_lemma_fails_for_exact_gradients():
    """Without variance and bias its right side is 0. The squared gradients of gradient descent on x^2 / 2 are not."""
    eta, theta, squares = 0.5, 1.0, []
    for _ in range(10):
        squares.append(theta**2)
        theta -= eta * theta
    assert 0 < sum(squares) / 10 <= 2 * 0.5 / (eta * 10)


def test_what_clipping_moves_is_at_most_4_27_of_the_square():
    u = np.linspace(1, 100, 1_000_001)
    moved = (1 - 1 / u) / u**2
    assert moved.max() <= 4 / 27 < moved.max() * (1 + 1e-8) and u[moved.argmax()] == pytest.approx(1.5, abs=1e-3)
