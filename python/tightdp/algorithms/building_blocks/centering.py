"""Subtraction of a private mean from the features, which makes gradients smaller and the loss better conditioned.

The gradient of a linear model for features x and residual r is r x^T. On typical one-hot tables, |x| is a quarter
smaller after the mean of all rows is subtracted. So the clipping norm and the noise can be a quarter smaller. The mean
costs one release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._support import _check
from ...models.model_interface import Vector
from ...release_gate.gate import Gate
from ...release_gate.oracle import Oracle, Public
from .algorithm import Run

LEAST_SHARE = 1e-6
"""Smallest accepted share of the budget. With a smaller share, the noise may be more than the gate can draw."""


def check_centering_share(name: str, value: Any) -> float:
    """Returns a checked share of the budget, which may be 0."""
    share = _check.below_one(name, value)
    if 0 < share < LEAST_SHARE:
        raise ValueError(f"{name} must be 0 or a number in [{LEAST_SHARE:g}, 1), got {value!r}")
    return share


def can_center_features(public: Public) -> bool:
    """Tells whether features can be centred. The model must be linear, with an intercept that can absorb the shift by
    the centre."""
    return public.linear is not None and public.linear.intercept


def compute_centering_noise(noise_multiplier: float, sampling_probability: float, steps: int, share: float) -> float:
    """Returns the noise multiplier with which the release of the mean takes the part ``share`` of the budget.

    The budget is measured as mu^2, which adds up over releases. A release that uses all records has
    mu^2 = 1 / noise multiplier^2. All sampled steps together have a mu^2 of about
    (sampling_probability / noise_multiplier)^2 * steps."""
    return noise_multiplier / (sampling_probability * math.sqrt(steps)) * math.sqrt((1 - share) / share)


def build_descent_on_centered_features(descend: Run, noise_multiplier: float) -> Run:
    """Returns a run that releases the sum of the features and then calls ``descend`` on centred features.

    Before the sum, each row of d features whose norm exceeds sqrt(d)/2 is scaled down to this norm. A row of zeros and
    ones reaches this norm if a quarter of its features are 1. Most one-hot rows and images in [0, 1] stay below, and
    are not changed. If rows have larger norms, the centre differs from the mean. The centre is then less useful, but
    just as private.
    """

    def run_centered_descent(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
        """Releases the centre, descends on centred features, and moves the intercepts back."""
        outputs = 1 if oracle.public.loss is None else oracle.public.loss.outputs
        features = w.size // outputs - 1
        query = oracle.feature_sum_query(0.5 * math.sqrt(features))
        center = gate.release_gaussian(query, noise_multiplier).value / oracle.public.records
        start = w.reshape(outputs, -1).copy()
        start[:, -1] += start[:, :-1] @ center
        table = descend(oracle.center_features(center), gate, start.reshape(-1)).reshape(outputs, -1).copy()
        table[:, -1] -= table[:, :-1] @ center  # w . (x - c) + b = w . x + (b - w . c)
        return np.asarray(table.reshape(-1))

    return run_centered_descent
