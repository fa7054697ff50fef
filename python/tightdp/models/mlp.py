"""A multilayer perceptron. Gradients of single records are never stored.

The gradient of each layer is the outer product of the layer's errors and inputs. The errors are the derivatives of the
loss by the layer's outputs. The squared norm of the whole gradient is the sum of the squared norms of the layers'
gradients. Everything that is computed for a record depends on that record alone, to the last bit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from .._core import dense as kernels
from .dense import DenseLayer, apply_dense_affine_map, round_dense_inputs_to_units
from .linear import Loss
from .model_interface import Model, ModelGradients, Vector
from .model_records import Array, Records

ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (lambda z: np.maximum(z, 0), lambda a: np.asarray(a > 0, a.dtype)),
    "tanh": (lambda z: kernels.tanh(np.ascontiguousarray(z)), lambda a: 1 - a * a),
}
"""Activation functions by name, each with its derivative as a function of the activation's value."""


class Perceptron(Model):
    """A perceptron: fully connected layers with a loss of the last layer's outputs.

    The parameters are the tables of the layers in order. Each table has shape (outputs, inputs + 1), and is stored row
    by row. The last column of a table is the layer's bias.

    Parameters
    ----------
    features : the number of features, an integer >= 1.
    hidden : the numbers of units of the hidden layers.
    loss : the loss as a function of the scores, which are the outputs of the last layer.
    activation : "relu" or "tanh".

    Methods take the parameters ``w``, of shape (size,), and ``records`` or their ``features``. A method raises
    ValueError if an argument has another shape.

    >>> import numpy as np
    >>> from tightdp.models.linear import Logistic
    >>> from tightdp.train import Perceptron
    >>> model = Perceptron(2, [3], Logistic(), "relu")

    The last layer starts at zero, so all scores are zero.

    >>> w = model.make_initial_parameters(lambda size: np.full(size, 0.5))
    >>> [layer.shape for layer in model.view_layers(w)], model.compute_scores(w, np.ones((1, 2))).tolist()
    ([(3, 3), (1, 4)], [[0.0]])
    """

    def __init__(self, features: int, hidden: Sequence[int], loss: Loss, activation: str) -> None:
        widths = [features, *hidden, loss.outputs]
        self.head, self._shapes = loss, [(o, i + 1) for i, o in itertools.pairwise(widths)]
        self._activation = activation
        self._gain = 6.0 if activation == "relu" else 3.0
        self._ends = np.cumsum([o * i for o, i in self._shapes])
        self.size = int(self._ends[-1])

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        """Returns uniform weights of variance 2 / inputs for ReLU and 1 / inputs for tanh (He et al. 2015, LeCun et al.
        1998). Biases are 0. The weights of the last layer are 0, so that the first scores are 0.

        ``uniform(size)`` returns ``size`` random numbers that are uniform on [0, 1)."""
        w = np.zeros(self.size)
        for layer in self.view_layers(w)[:-1]:
            inputs = layer.shape[1] - 1
            layer[:, :-1] = (2 * uniform(layer[:, :-1].size).reshape(-1, inputs) - 1) * math.sqrt(self._gain / inputs)
        return w

    def view_layers(self, w: Vector) -> list[Vector]:
        """Returns views of the layers' tables in ``w``."""
        return [part.reshape(shape) for part, shape in zip(np.split(w, self._ends[:-1]), self._shapes, strict=True)]

    def _propagate_forward(self, w: Vector, features: Array) -> tuple[list[Array], Array]:
        """Returns a list with the inputs of each layer, and the scores."""
        tables = self.view_layers(w)
        activate, _ = ACTIVATIONS[self._activation]
        given = [features]
        for table in tables[:-1]:
            given.append(activate(apply_dense_affine_map(given[-1], table[:, :-1], table[:, -1])))
        return given, apply_dense_affine_map(given[-1], tables[-1][:, :-1], tables[-1][:, -1])

    def compute_scores(self, w: Vector, features: Array) -> Array:
        """Returns the scores of the records, of shape (n, outputs)."""
        return self._propagate_forward(w, features)[1]

    def compute_gradients(self, w: Vector, records: Records) -> ModelGradients:
        """Returns the gradients of ``records`` at ``w``, as the inputs and errors of all layers. Backpropagation
        computes the errors.
        """
        given, z = self._propagate_forward(w, records.features)
        tables = self.view_layers(w)
        _, slope = ACTIVATIONS[self._activation]
        error = self.head.differentiate_by_scores(z, records.targets)
        layers: list[DenseLayer] = []
        for i in range(len(tables) - 1, -1, -1):
            units = round_dense_inputs_to_units(given[i], True) if i else records.get_units_of_model_records(True)
            layers.insert(0, DenseLayer(given[i], error, units, True))
            if i:
                error = apply_dense_affine_map(error, tables[i][:, :-1].T, None) * slope(given[i])
        return ModelGradients(layers, weights=records.weights)

    def compute_losses(self, w: Vector, records: Records) -> Vector:
        """Returns the losses of ``records`` at ``w``, of shape (n,), with NaN for invalid records."""
        values = self.head.compute_losses(self.compute_scores(w, records.features), records.targets)
        return np.where(records.valid, values, np.nan)
