"""Private training, charged for what it releases.

    from tightdp.train import DPSGD, LogisticRegression
    clf = LogisticRegression(DPSGD(batch_size=512, epochs=20), epsilon=1.0, delta=1e-5).fit(X, y)
    clf.privacy_      # a certified Bound on epsilon at delta
    clf.history_      # the mechanisms that were released

Only NumPy is needed. If scikit-learn is installed, the estimators are scikit-learn estimators, and work with its
pipelines, grid searches and ``check_estimator``. Without scikit-learn, the estimators keep ``get_params``,
``set_params`` and ``score``.

The parts work together in one direction::

    records -> oracle -> query -> gate (asks the budget, then evaluates, then adds noise) -> release -> algorithm

``tightdp.records`` reads the records, and ``tightdp.models`` computes their gradients and losses.
``tightdp.release_gate`` holds oracle, query, budget and gate. ``tightdp.algorithms`` turns releases into trained
parameters, and ``tightdp.estimators`` offers scikit-learn's interface. This module has the public names of these
packages.

The page docs/architecture.md explains how to add an algorithm.
"""

from ..algorithms.adaclip import AdaCliP
from ..algorithms.building_blocks.algorithm import Algorithm, AlgorithmPlan
from ..algorithms.building_blocks.optimizers import SGD, Adam
from ..algorithms.dpagd import DPAGD
from ..algorithms.dpis import DPIS
from ..algorithms.dpsgd import DPSGD
from ..algorithms.driver import Fit, fit
from ..algorithms.noisygd import NoisyGD
from ..algorithms.perturbation import ObjectivePerturbation, OutputPerturbation
from ..estimators.linear_models import LinearSVC, LogisticRegression, PrivateClassifier
from ..estimators.network import MLPClassifier
from ..estimators.pca import DPPCA
from ..estimators.regression import Ridge
from ..estimators.sgd_regressor import SGDRegressor
from ..models.linear import LinearModel
from ..models.mlp import Perceptron
from ..models.model_interface import CallableModel
from ..models.model_records import Records
from ..records.blocks import Blocks
from ..records.sources.arrays import ArrayBlocks
from ..records.sources.dask import DaskBlocks
from ..records.sources.files import FileBlocks
from ..release_gate.budget import Caps, FixedPlan, Target
from ..release_gate.gate import Gate, Release
from ..release_gate.oracle import Oracle, Public, Query

__all__ = [
    "DPAGD",
    "DPIS",
    "DPPCA",
    "DPSGD",
    "SGD",
    "AdaCliP",
    "Adam",
    "Algorithm",
    "AlgorithmPlan",
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
