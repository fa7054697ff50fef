"""Chooses the Renyi order that bounds epsilon best, for interfaces whose accountants return this order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..accounting.engines.renyi import engine as renyi
from ..accounting.engines.renyi.conversion import epsilon_at_renyi_order
from ..accounting.pairs.neighbors import translate_parts_to_replacement
from ..composition import Composition
from ..options import Neighbors

FEW = 64
"""Largest number of distinct mechanisms for which Renyi divergences are computed. For more mechanisms, the computation
would take seconds."""


def choose_order_for_adapters(
    run: Composition, neighbors: Neighbors, delta: float, epsilon: float, orders: NDArray[np.float64]
) -> float:
    """Returns the best of the ascending ``orders`` or, for many distinct mechanisms, an order near the best one.

    For many mechanisms, the function chooses the order a for which a - 1 is nearest to the slope of -ln delta in
    epsilon. The bound on delta by order a is proportional to e^(-(a - 1) epsilon), so it falls about as fast as delta.
    """
    if len(run.parts) > FEW and 0 < epsilon < math.inf:
        ends = [run.delta(epsilon * at, neighbors=neighbors).upper for at in (0.99, 1.01)]
        slope = math.log(ends[0] / ends[1]) / (0.02 * epsilon) if ends[1] > 0 else math.inf
        return float(orders[np.argmin(np.abs(orders - 1 - slope))]) if slope < math.inf else float(orders[-1])
    kept, _ = renyi.split_failures_from_moments(
        translate_parts_to_replacement(run.parts) if neighbors == "replace" else run.parts
    )
    target = min(max(float(delta), math.ulp(0.0)), 1.0)

    def epsilon_of_adapter_order(i: int) -> float:
        c = float(orders[i]) - 1
        return epsilon_at_renyi_order(c, renyi.sum_renyi_moments(kept, c), target)

    low, high = 0, len(orders) - 1
    while low < high:  # with growing order, the bounds on epsilon fall and then rise, or become infinite
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if epsilon_of_adapter_order(middle) <= epsilon_of_adapter_order(middle + 1)
            else (middle + 1, high)
        )
    return float(orders[low])
