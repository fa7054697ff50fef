"""Private training, charged for what it releases.

    from tightdp.train import DPSGD, LogisticRegression
    clf = LogisticRegression(DPSGD(batch_size=512, epochs=20), epsilon=1.0, delta=1e-5).fit(X, y)
    clf.privacy_      # a certified Bound on epsilon at delta
    clf.history_      # the mechanisms that were released

Only NumPy is needed. With scikit-learn installed the estimators are scikit-learn estimators (pipelines, grid search,
``check_estimator``); without it they keep ``get_params``, ``set_params`` and ``score``.

How the parts fit together, in one direction::

    records -> oracle -> query -> gate (asks the budget, then evaluates, then adds noise) -> release -> algorithm

``models`` holds what a record is to an oracle, ``releases`` the way from a query to a release, ``algorithms`` what is
done with it; what joins them is here.

How to add an algorithm: docs/architecture.md.
"""

from .algorithms.adaclip import AdaCliP
from .algorithms.algorithm import Algorithm, Plan
from .algorithms.dpagd import DPAGD
from .algorithms.dpis import DPIS
from .algorithms.dpsgd import DPSGD
from .algorithms.noisygd import NoisyGD
from .algorithms.optimizers import SGD, Adam
from .algorithms.perturbation import ObjectivePerturbation, OutputPerturbation
from .blocks.arrays import ArrayBlocks
from .blocks.blocks import Blocks
from .blocks.dask import DaskBlocks
from .blocks.files import FileBlocks
from .driver import Fit, fit
from .estimators import LinearSVC, LogisticRegression, PrivateClassifier
from .models.linear import LinearModel
from .models.mlp import Perceptron
from .models.model import CallableModel
from .models.records import Records
from .network import MLPClassifier
from .pca import DPPCA
from .regression import Ridge
from .releases.budget import Caps, FixedPlan, Target
from .releases.gate import Gate, Release
from .releases.oracle import Oracle, Public, Query
from .sgd_regressor import SGDRegressor

__all__ = [
    "DPAGD",
    "DPIS",
    "DPPCA",
    "DPSGD",
    "SGD",
    "AdaCliP",
    "Adam",
    "Algorithm",
    "ArrayBlocks",
    "Blocks",
    "CallableModel",
    "Caps",
    "DaskBlocks",
    "FileBlocks",
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
    "SGDRegressor",
    "Target",
    "fit",
]
