"""Optimizers, which take steps along released gradients. The steps are post-processing, so they cost no privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..._support import _check
from ...models.model_interface import Vector


class Optimizer(Protocol):
    """The frozen settings of an optimizer. ``make_stepper`` returns a function that holds the state of one run."""

    def make_stepper(self, size: int) -> Stepper: ...


class Stepper(Protocol):
    def __call__(self, w: Vector, gradient: Vector) -> Vector:
        """Returns the next parameters."""


def check_shared_algorithm_optimizer(name: str, value: Any) -> Any:
    """Returns ``value``, the argument ``name`` of an algorithm. Raises TypeError unless it has ``make_stepper``."""
    if not callable(getattr(value, "make_stepper", None)):
        raise TypeError(f"{name} must be an optimizer, such as SGD(learning_rate) or Adam(), got {value!r}")
    return value


@dataclass(frozen=True)
class SGD:
    """Gradient descent with momentum: m = momentum * m + gradient, then w = w - learning_rate * m.

    Parameters
    ----------
    learning_rate : the factor on m, > 0.
    momentum : the weight of the last m, in [0, 1).

    Raises ValueError for a number out of its range.

    >>> import numpy as np
    >>> from tightdp.train import SGD
    >>> step = SGD(learning_rate=0.5, momentum=0.5).make_stepper(1)
    >>> step(np.array([1.0]), np.array([1.0])), step(np.array([0.5]), np.array([1.0]))
    (array([0.5]), array([-0.25]))
    """

    learning_rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, _check.positive, "learning_rate")
        _check.check_dataclass_arguments(self, _check.below_one, "momentum")

    def make_stepper(self, size: int) -> Stepper:
        """Returns the function that takes one step, from ``size`` parameters and their gradient to new parameters."""
        m = np.zeros(size)

        def take_sgd_step(w: Vector, gradient: Vector) -> Vector:
            m[:] = self.momentum * m + gradient
            return w - self.learning_rate * m

        return take_sgd_step


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba's Adam, with bias correction.

    Parameters
    ----------
    learning_rate : the factor on each step, > 0.
    beta1, beta2 : the weights of the past in the means of gradients and of their squares, in [0, 1).
    damping : the number that is added to the root of the mean of squares, > 0.

    Raises ValueError for a number out of its range.

    The first step has the length of the learning rate in each coordinate:

    >>> import numpy as np
    >>> from tightdp.train import Adam
    >>> Adam(learning_rate=0.1).make_stepper(2)(np.zeros(2), np.array([3.0, -7.0])).round(6)
    array([-0.1,  0.1])
    """

    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    damping: float = 1e-8

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, _check.positive, "learning_rate", "damping")
        _check.check_dataclass_arguments(self, _check.below_one, "beta1", "beta2")

    def make_stepper(self, size: int) -> Stepper:
        """Returns the function that takes one step of Adam for ``size`` parameters. The function keeps the moments of
        past gradients."""
        m, v, t = np.zeros(size), np.zeros(size), 0

        def take_adam_step(w: Vector, gradient: Vector) -> Vector:
            nonlocal t
            t += 1
            m[:] = self.beta1 * m + (1 - self.beta1) * gradient
            v[:] = self.beta2 * v + (1 - self.beta2) * gradient**2
            scale = np.sqrt(v / (1 - self.beta2**t)) + self.damping
            return w - self.learning_rate * (m / (1 - self.beta1**t)) / scale

        return take_adam_step


class MeanOfLastIterates:
    """The mean of the last ``steps * share`` iterates, which has less noise than a single iterate. A share of 0 gives
    the last iterate."""

    def __init__(self, steps: int, share: float) -> None:
        self._skip = steps - max(1, round(steps * share))
        self._seen = 0
        self._mean: Vector = np.zeros(0)

    def add(self, w: Vector) -> None:
        self._seen += 1
        kept = self._seen - self._skip
        if kept == 1:
            self._mean = w.copy()
        elif kept > 1:
            self._mean += (w - self._mean) / kept

    def get_mean(self) -> Vector:
        return self._mean
