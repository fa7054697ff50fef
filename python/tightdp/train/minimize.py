"""The minimum of a smooth, strongly convex function, to a gradient norm that is certain to be reached."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .model import Vector

MEMORY = 10
"""Pairs that L-BFGS keeps: more gains nothing on these problems."""

ARMIJO = 1e-4
"""The part of the predicted decrease that a step must bring (Nocedal and Wright 2006, section 3.1)."""
ROUNDING = 1e-10
"""Relative rounding allowed to a value: a sum of up to 1e6 terms."""

Function = Callable[[Vector], tuple[float, Vector]]


def minimize(function: Function, start: Vector, tolerance: float, smoothness: float) -> Vector:
    """A point whose gradient has norm at most ``tolerance``.

    ``function(w)`` is the value and the gradient; ``smoothness`` bounds the Hessian's largest eigenvalue. L-BFGS steps
    (Nocedal 1980) are taken while they satisfy Armijo's condition; a step that does not is replaced by one of gradient
    descent with length 1/smoothness, which always lowers the value. So the loop ends for every strongly convex
    function: that it ends, and where, must not depend on luck, for the sensitivity of the minimum rests on the
    tolerance."""
    w = start.copy()
    value, gradient = function(w)
    pairs: list[tuple[Vector, Vector]] = []
    while np.linalg.norm(gradient) > tolerance:
        direction = _two_loops(gradient, pairs)
        slope = float(direction @ gradient)
        length = 1.0
        new = w - direction
        new_value, new_gradient = function(new)
        while not _accepted(value, slope, length, new_value, float(direction @ new_gradient)):
            length /= 2
            if length < 1e-3 or not slope > 0:  # rounding, or a model of the curvature gone wrong
                pairs.clear()
                new = w - gradient / smoothness
                new_value, new_gradient = function(new)
                break
            new = w - length * direction
            new_value, new_gradient = function(new)
        s, y = new - w, new_gradient - gradient
        if s @ y > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            pairs.append((s, y))
            del pairs[:-MEMORY]
        w, value, gradient = new, new_value, new_gradient
    return w


def _accepted(value: float, slope: float, length: float, new_value: float, new_slope: float) -> bool:
    """Armijo's condition; or, where the values differ by no more than their rounding, Hager and Zhang's (2005)
    approximate form of it, which compares slopes instead."""
    if new_value <= value - ARMIJO * length * slope:
        return True
    return new_value <= value + ROUNDING * abs(value) and -new_slope <= (1 - 2 * ARMIJO) * slope


def _two_loops(gradient: Vector, pairs: list[tuple[Vector, Vector]]) -> Vector:
    """The inverse Hessian of L-BFGS times the gradient."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        weights.append(a)
        q -= a * y
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    else:
        q /= max(float(np.linalg.norm(q)), 1.0)
    for (s, y), a in zip(pairs, reversed(weights), strict=True):
        q += (a - (y @ q) / (s @ y)) * s
    return q
