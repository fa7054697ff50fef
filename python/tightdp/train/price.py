"""What a run will be charged, known before it looks at a record."""

from __future__ import annotations

from .. import _check
from ..composition import Composition
from .algorithms.algorithm import Algorithm
from .counting import charge_of
from .models.linear import LinearModel
from .models.model import Model
from .releases.budget import Target
from .releases.oracle import Public


def price(
    model: Model,
    algorithm: Algorithm,
    *,
    epsilon: float | None,
    delta: float | None,
    public_size: int | None,
    regularization: float,
) -> Composition:
    """The ``charged`` of ``driver.fit`` with these arguments, whatever the records."""
    target = Target.of(epsilon, delta)
    regularization = _check.nonnegative("regularization", regularization)
    linear = model if isinstance(model, LinearModel) else None
    if public_size is None:
        return charge_of(algorithm, Public(0, model.size, regularization, linear), target)
    public = Public(_check.count("public_size", public_size), model.size, regularization, linear)
    return algorithm.plan(public, target).budget.charge()
