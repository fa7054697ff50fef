"""Private training, charged for what it releases.

    from tightdp.train import DPSGD, LogisticRegression
    clf = LogisticRegression(DPSGD(batch_size=512, epochs=20), epsilon=1.0, delta=1e-5).fit(X, y)
    clf.privacy_      # a certified Bound on epsilon at delta
    clf.history_      # the mechanisms that were released

Only NumPy is needed. With scikit-learn installed the estimators are scikit-learn estimators (pipelines, grid search,
``check_estimator``); without it they keep ``get_params``, ``set_params`` and ``score``.

How the parts fit together, in one direction::

    records -> oracle -> query -> gate (asks the budget, then evaluates, then adds noise) -> release -> algorithm

How to add an algorithm: docs/architecture.md.
"""

from .adaclip import AdaCliP
from .algorithm import Algorithm, Plan
from .budget import Caps, FixedPlan, Target
from .dpagd import DPAGD
from .dpis import DPIS
from .dpsgd import DPSGD
from .driver import Fit, fit
from .estimators import LinearSVC, LogisticRegression, PrivateClassifier
from .gate import Gate, Release
from .linear import LinearModel
from .mlp import Perceptron
from .model import CallableModel
from .network import MLPClassifier
from .noisygd import NoisyGD
from .optimizers import SGD, Adam
from .oracle import Oracle, Public, Query
from .pca import DPPCA
from .perturbation import ObjectivePerturbation, OutputPerturbation
from .records import Records
from .regression import Ridge

__all__ = [
    "DPAGD",
    "DPIS",
    "DPPCA",
    "DPSGD",
    "SGD",
    "AdaCliP",
    "Adam",
    "Algorithm",
    "CallableModel",
    "Caps",
    "Fit",
    "FixedPlan",
    "Gate",
    "LinearModel",
    "LinearSVC",
    "LogisticRegression",
    "MLPClassifier",
    "NoisyGD",
    "ObjectivePerturbation",
    "Oracle",
    "OutputPerturbation",
    "Perceptron",
    "Plan",
    "PrivateClassifier",
    "Public",
    "Query",
    "Records",
    "Release",
    "Ridge",
    "Target",
    "fit",
]
