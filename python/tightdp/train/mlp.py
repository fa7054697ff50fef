"""A multilayer perceptron whose per-example gradients are never formed: each layer's is an outer product of its error
and its input, as in a linear model, and the squared norms of the layers add up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .linear import Loss, Outer
from .model import Gradients, Vector
from .records import Array, Records

ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (lambda z: np.maximum(z, 0), lambda a: np.asarray(a > 0, a.dtype)),
    "tanh": (np.tanh, lambda a: 1 - a * a),
}
"""Name to the function of z and its derivative as a function of the activation."""


class Perceptron:
    """Fully connected layers with a loss on top; parameters are, layer by layer, (outputs, inputs + 1) row by row with
    the bias last."""

    def __init__(self, features: int, hidden: Sequence[int], loss: Loss, activation: str) -> None:
        widths = [features, *hidden, loss.outputs]
        self.head, self._shapes = loss, [(o, i + 1) for i, o in itertools.pairwise(widths)]
        self._activation = activation
        self._gain = 6.0 if activation == "relu" else 3.0
        self._ends = np.cumsum([o * i for o, i in self._shapes])
        self.size = int(self._ends[-1])

    def start(self, uniform: Callable[[int], Vector]) -> Vector:
        """Uniform weights of variance 2 / inputs for ReLU, 1 / inputs for tanh (He et al. 2015, LeCun et al. 1998), and
        biases 0; the last layer 0, so that the first scores are."""
        w = np.zeros(self.size)
        for layer in self.layers(w)[:-1]:
            inputs = layer.shape[1] - 1
            layer[:, :-1] = (2 * uniform(layer[:, :-1].size).reshape(-1, inputs) - 1) * math.sqrt(self._gain / inputs)
        return w

    def layers(self, w: Vector) -> list[Vector]:
        """Views of each layer's table."""
        return [part.reshape(shape) for part, shape in zip(np.split(w, self._ends[:-1]), self._shapes, strict=True)]

    def _forward(self, w: Vector, features: Array) -> tuple[list[Array], Array, list[Array]]:
        """What each layer was given, the scores, and the tables in the features' dtype."""
        tables: list[Array] = [t.astype(features.dtype, copy=False) for t in self.layers(w)]
        activate, _ = ACTIVATIONS[self._activation]
        given = [features]
        for table in tables[:-1]:
            given.append(activate(_affine(given[-1], table)))
        return given, _affine(given[-1], tables[-1]), tables

    def scores(self, w: Vector, features: Array) -> Array:
        """Shape (n, outputs)."""
        return self._forward(w, features)[1]

    def gradients(self, w: Vector, records: Records) -> Gradients:
        given, z, tables = self._forward(w, records.features)
        _, slope = ACTIVATIONS[self._activation]
        error = self.head.residual(z, records.targets)
        inputs = [records] + [Records(a, records.targets) for a in given[1:]]
        layers = [Outer(error, inputs[-1], True)]
        for i in range(len(tables) - 1, 0, -1):
            error = (error @ tables[i][:, :-1]) * slope(given[i])
            layers.insert(0, Outer(error, inputs[i - 1], True))
        return Layers(layers, records.valid)

    def losses(self, w: Vector, records: Records) -> Vector:
        values = np.asarray(self.head.value(self.scores(w, records.features), records.targets), dtype=np.float64)
        return np.where(records.valid, values, np.nan)

    def line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Array]:
        return (self.losses(w - step * direction, records) for step in steps)


class Layers(Gradients):
    """Gradients of several layers, one after another in the parameter vector."""

    def __init__(self, layers: Sequence[Outer], valid: NDArray[np.bool_]) -> None:
        self._layers = layers
        self._finite: NDArray[np.bool_] = valid & np.all([layer.finite() for layer in layers], axis=0)

    def finite(self) -> NDArray[np.bool_]:
        return self._finite

    def squared_norms(self, center: Vector | None, scale: Vector | None) -> Vector:
        total = np.zeros(len(self._finite))
        begin = 0
        for layer in self._layers:
            part = slice(begin, begin + layer.size)
            total += layer.squared_norms(
                None if center is None else center[part], None if scale is None else scale[part]
            )
            begin += layer.size
        return np.where(self._finite, total, 0.0)

    def weighted_sum(self, weights: Vector) -> Vector:
        kept = np.where(self._finite, weights, 0.0)
        return np.concatenate([layer.weighted_sum(kept) for layer in self._layers])


def _affine(x: Array, table: Array) -> Array:
    """[x, 1] table^T."""
    return np.asarray(x @ table[:, :-1].T + table[:, -1])
