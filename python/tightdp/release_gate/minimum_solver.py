"""Minimisation of a smooth, strongly convex function, with a certified bound on the gradient norm at the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..models.model_interface import Vector
from ..models.model_records import Array

MOST = 2000
"""Largest number of passes over the data. Some 15 to 300 passes are usual, and nearly singular problems take more."""
MOST_PRODUCTS = 250
"""Largest number of products with the Hessian in one Newton step. After more products, rounding errors spoil the
conjugacy of the directions."""
MOST_TRIALS = 50
"""Largest number of trials of one line search. Each trial halves an interval, or quadruples the step length while no
upper end of the interval is known."""


def compute_solver_dot_product(a: Array, b: Array) -> float:
    """Returns a . b. The order of additions does not depend on the number of threads, unlike the order in BLAS."""
    return float((a * b).sum())


def compute_solver_norm(a: Array) -> float:
    """Returns |a|. The result does not depend on the number of threads."""
    return math.sqrt(compute_solver_dot_product(a, a))


class SolverPoint(Protocol):
    """The derivatives of the convex function at a point w."""

    gradient: Vector
    error: float
    """Bound on the distance of ``gradient`` from the true gradient, rounding included."""

    def multiply_by_gate_query_hessian(self, v: Vector) -> Vector:
        """Returns the Hessian times v."""

    def differentiate_along(self, direction: Vector) -> Callable[[float], float]:
        """Returns the derivative by t of the convex function at w - t * direction, as a function of t.

        The derivative grows with t.
        """


class MinimumNotReached(RuntimeError):
    """Error for a minimum that was not certified, for lack of passes or because of rounding."""


def minimize_convex_gate_function(
    at: Callable[[Vector], SolverPoint], start: Vector, tolerance: float, most: int = MOST
) -> Vector:
    """Returns a point at which the true gradient has norm at most ``tolerance``.

    The method is Newton's, with conjugate gradients for its linear systems and a line search along each step (Nocedal
    and Wright 2006, chapter 7). The result is certified by its computed gradient: the norm plus the bound on the error
    is at most the tolerance.

    Raises ``MinimumNotReached`` after ``most`` passes over the data. Raises it earlier if the computed gradient is not
    finite, or if it is far below the tolerance but the bound on its error is not. The message gives the norm that was
    reached.
    """
    w, passes = np.copy(start), 1
    point = at(w)
    first = compute_solver_norm(point.gradient)
    while (size := compute_solver_norm(point.gradient) * (1 + 1e-12)) + point.error > tolerance:
        if passes >= most or not math.isfinite(size) or size <= 1e-3 * tolerance:
            raise MinimumNotReached(
                f"the minimum must be certified to a gradient of norm {tolerance:.3g}; after {passes} passes over the "
                f"data the norm is {size:.3g}, with an error of up to {point.error:.3g}: use more "
                "regularization or smoothing (huber)"
            )
        accuracy = min(0.1, math.sqrt(size / first)) * size
        direction, products = _solve_gate_newton_step(point, max(accuracy, 0.1 * tolerance))
        length, trials = _search_gate_newton_step_length(
            point.differentiate_along(direction), -compute_solver_dot_product(direction, point.gradient)
        )
        w = w - length * direction
        point = at(w)
        passes += products + trials + 2
    return w


def _solve_gate_newton_step(point: SolverPoint, accuracy: float) -> tuple[Vector, int]:
    """Solves H x = g for the Hessian H and the gradient g, by conjugate gradients, to a residual of norm ``accuracy``.

    Returns x and the number of products with H."""
    residual = point.gradient.copy()
    x = np.zeros_like(residual)
    p = residual.copy()
    square = compute_solver_dot_product(residual, residual)
    for i in range(1, min(MOST_PRODUCTS, len(x) + 10) + 1):
        product = point.multiply_by_gate_query_hessian(p)
        bend = compute_solver_dot_product(p, product)
        if not bend > 0:  # an effect of rounding, since the Hessian is positive definite
            return (x if i > 1 else p), i
        x += (square / bend) * p
        residual -= (square / bend) * product
        before, square = square, compute_solver_dot_product(residual, residual)
        if math.sqrt(square) <= accuracy:
            break
        p = residual + (square / before) * p
    return x, i


def _search_gate_newton_step_length(slope: Callable[[float], float], start: float) -> tuple[float, int]:
    """Returns a step length t, and the number of slopes that were computed.

    The step length has |slope(t)| at most |start| / 2, where ``start`` is the slope at 0. If no such step length is
    found in ``MOST_TRIALS`` trials, t is the step length of the next trial.
    """
    low, high, t, trial = 0.0, math.inf, 1.0, 0
    while trial < MOST_TRIALS:
        trial += 1
        s = slope(t)
        if abs(s) <= 0.5 * abs(start):
            break
        low, high = (t, high) if s < 0 else (low, t)
        t = 4 * t if math.isinf(high) else 0.5 * (low + high)
    return t, trial
