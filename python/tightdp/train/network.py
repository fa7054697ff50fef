"""A private multilayer perceptron as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _check
from .algorithm import Algorithm
from .dpsgd import DPSGD
from .estimators import PrivateClassifier, Probabilities
from .linear import Logistic, Multinomial
from .mlp import ACTIVATIONS, Perceptron


class MLPClassifier(Probabilities):
    """Private multilayer perceptron with the logistic loss.

    ``hidden_layer_sizes`` holds the widths of the hidden layers, ``activation`` is "relu" or "tanh". Every algorithm
    works except those that need convexity (objective and output perturbation); None is ``DPSGD()``. Every layer has a
    bias. Per-example gradients are never formed: memory is that of the activations of one batch.

    >>> import numpy as np
    >>> from tightdp.train import DPSGD, MLPClassifier
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> y = abs(x[:, 0]) > 0.5
    >>> clf = MLPClassifier(DPSGD(400, 30), 2.0, 1e-5, hidden_layer_sizes=(16,), random_state=0).fit(x, y)
    >>> bool(clf.score(x, y) > 0.9)
    True
    """

    _model: Perceptron
    _default = DPSGD

    __doc__ += PrivateClassifier.__doc__.partition("\n")[2] if PrivateClassifier.__doc__ else ""

    def __init__(
        self,
        algorithm: Algorithm | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        hidden_layer_sizes: Sequence[int] = (100,),
        activation: str = "relu",
        classes: Any = None,
        public_size: int | None = None,
        bounds: Any = None,
        regularization: float = 0.0,
        random_state: int | None = None,
        callback: Callable[[int, int | None], object] | None = None,
    ) -> None:
        super().__init__(
            algorithm,
            epsilon,
            delta,
            classes=classes,
            public_size=public_size,
            bounds=bounds,
            regularization=regularization,
            random_state=random_state,
            callback=callback,
        )
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation

    def _build(self, features: int, classes: int) -> Perceptron:
        _check.choice("activation", self.activation, tuple(ACTIVATIONS))
        try:
            widths = tuple(self.hidden_layer_sizes)
        except TypeError:
            raise TypeError(
                f"hidden_layer_sizes must be a sequence of ints >= 1, got {self.hidden_layer_sizes!r}"
            ) from None
        hidden = [_check.count("hidden_layer_sizes", width) for width in widths]
        return Perceptron(features, hidden, Logistic() if classes == 2 else Multinomial(classes), self.activation)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        features = self._predictable(X)
        z = np.asarray(self._model.scores(self._w, features), dtype=np.float64)
        return z[:, 0] if z.shape[1] == 1 else z
