"""The loop of DP-SGD and of noisy gradient descent, which releases clipped sums of gradients and averages iterates."""

from __future__ import annotations

from ...models.model_interface import Vector
from ...release_gate.gate import Gate
from ...release_gate.oracle import Oracle
from .algorithm import Run
from .optimizers import MeanOfLastIterates, Optimizer


def build_shared_gradient_descent(
    optimizer: Optimizer, steps: int, max_norm: float, noise_multiplier: float, q: float, average: float
) -> Run:
    """Returns a function that makes ``steps`` releases. Each is a sum of gradients clipped to ``max_norm``, over a
    Poisson batch with sampling probability ``q``.

    Each sum is divided by the public expected batch size, the penalty's gradient is added, and ``optimizer`` takes a
    step. The result is the mean of the last iterates. ``average`` is the share of the iterates in this mean.
    """

    def run_gradient_descent(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
        public = oracle.public
        step, iterates = optimizer.make_stepper(public.size), MeanOfLastIterates(steps, average)
        for _ in range(steps):
            query = oracle.gradient_sum_query(w, max_norm, sampling_probability=q)
            mean = gate.release_gaussian(query, noise_multiplier).value / (q * public.records)
            w = step(w, mean + public.regularization * w)
            iterates.add(w)
        return iterates.get_mean()

    return run_gradient_descent
