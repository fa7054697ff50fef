"""A private multilayer perceptron as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .._support import _check
from ..algorithms.dpsgd import DPSGD
from ..models.mlp import ACTIVATIONS, Perceptron
from .linear_models import PrivateClassifier, ProbabilisticClassifier


@dataclass(eq=False, repr=False)
class MLPClassifier(ProbabilisticClassifier):
    """Private multilayer perceptron with the logistic loss.

    ``hidden_layer_sizes`` holds the widths of the hidden layers, or is the width of a single hidden layer.
    ``activation`` is "relu" or "tanh". Every algorithm works except objective and output perturbation, which need a
    convex loss. ``algorithm=None`` stands for ``DPSGD()``. Every layer has a bias. The gradients of single records are
    never stored, so a batch needs memory only for its activations.

    >>> import numpy as np
    >>> from tightdp.train import DPSGD, MLPClassifier
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> y = abs(x[:, 0]) > 0.5

    Sixteen hidden units learn which numbers of ``x`` have an absolute value above 1/2.

    >>> clf = MLPClassifier(DPSGD(400, 30), 2.0, 1e-5, hidden_layer_sizes=(16,), random_state=0).fit(x, y)
    >>> bool(clf.score(x, y) > 0.9)
    True
    """

    __doc__ += PrivateClassifier.__doc__.partition("\n")[2] if PrivateClassifier.__doc__ else ""

    _default: ClassVar[type[Any]] = DPSGD
    _fixed: ClassVar[tuple[str, ...]] = "hidden_layer_sizes", "activation"
    hidden_layer_sizes: Sequence[int] | int = field(default=(100,), kw_only=True)
    activation: str = field(default="relu", kw_only=True)
    fit_intercept: bool = field(default=True, init=False)

    def _build_estimator_model(self, features: int, classes: int = 2) -> Perceptron:
        _check.check_choice_argument("activation", self.activation, tuple(ACTIVATIONS))
        sizes = self.hidden_layer_sizes
        widths: Iterable[int] = sizes if isinstance(sizes, Iterable) else [sizes]
        hidden = [_check.check_count_argument("hidden_layer_sizes", width) for width in widths]
        return Perceptron(features, hidden, self._loss(classes), self.activation)
