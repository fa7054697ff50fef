"""A multilayer perceptron whose per-example gradients are never formed. The gradient of each layer is an outer product
of its error and its input, as in a linear model, and the squared norms of the layers add up. Whatever is computed for a
record is a function of that record alone, to the last bit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from .._core import dense as kernels
from .dense import Layer, apply_affine_map, round_rows_to_units
from .linear import Loss
from .model import Gradients, Model, Vector
from .records import Array, Records


def _apply_tanh(z: Array) -> Array:
    values: Array = kernels.tanh(np.ascontiguousarray(z))
    return values


ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (lambda z: np.maximum(z, 0), lambda a: np.asarray(a > 0, a.dtype)),
    "tanh": (_apply_tanh, lambda a: 1 - a * a),
}
"""Name to the function of z and its derivative as a function of the activation."""


class Perceptron(Model):
    """Fully connected layers with a loss on top; parameters are, layer by layer, (outputs, inputs + 1) row by row with
    the bias last."""

    def __init__(self, features: int, hidden: Sequence[int], loss: Loss, activation: str) -> None:
        widths = [features, *hidden, loss.outputs]
        self.head, self._shapes = loss, [(o, i + 1) for i, o in itertools.pairwise(widths)]
        self._activation = activation
        self._gain = 6.0 if activation == "relu" else 3.0
        self._ends = np.cumsum([o * i for o, i in self._shapes])
        self.size = int(self._ends[-1])

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        """Uniform weights of variance 2 / inputs for ReLU, 1 / inputs for tanh (He et al. 2015, LeCun et al. 1998), and
        biases 0; the last layer 0, so that the first scores are."""
        w = np.zeros(self.size)
        for layer in self.view_layers(w)[:-1]:
            inputs = layer.shape[1] - 1
            layer[:, :-1] = (2 * uniform(layer[:, :-1].size).reshape(-1, inputs) - 1) * math.sqrt(self._gain / inputs)
        return w

    def view_layers(self, w: Vector) -> list[Vector]:
        """Views of each layer's table."""
        return [part.reshape(shape) for part, shape in zip(np.split(w, self._ends[:-1]), self._shapes, strict=True)]

    def _propagate_forward(self, w: Vector, features: Array) -> tuple[list[Array], Array]:
        """The inputs of each layer, and the scores."""
        tables = self.view_layers(w)
        activate, _ = ACTIVATIONS[self._activation]
        given = [features]
        for table in tables[:-1]:
            given.append(activate(apply_affine_map(given[-1], table[:, :-1], table[:, -1])))
        return given, apply_affine_map(given[-1], tables[-1][:, :-1], tables[-1][:, -1])

    def compute_scores(self, w: Vector, features: Array) -> Array:
        """Shape (n, outputs)."""
        return self._propagate_forward(w, features)[1]

    def compute_gradients(self, w: Vector, records: Records) -> Gradients:
        """Propagates the errors back through the layers, of which inputs and errors are kept."""
        given, z = self._propagate_forward(w, records.features)
        tables = self.view_layers(w)
        _, slope = ACTIVATIONS[self._activation]
        error = self.head.differentiate_by_scores(z, records.targets)
        layers: list[Layer] = []
        for i in range(len(tables) - 1, -1, -1):
            units = round_rows_to_units(given[i], True) if i else records.get_units(True)
            layers.insert(0, Layer(given[i], error, units, True))
            if i:
                error = apply_affine_map(error, tables[i][:, :-1].T, None) * slope(given[i])
        return Gradients(layers, weights=records.weights)

    def compute_losses(self, w: Vector, records: Records) -> Vector:
        values = self.head.compute_losses(self.compute_scores(w, records.features), records.targets)
        return np.where(records.valid, values, np.nan)
