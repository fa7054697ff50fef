"""Private training, charged for what it releases.

    from tightdp.train import DPSGD, LogisticRegression
    clf = LogisticRegression(DPSGD(batch_size=512, epochs=20), epsilon=1.0, delta=1e-5).fit(X, y)
    clf.privacy_      # a certified Bound on epsilon at delta
    clf.history_      # the mechanisms that were released

Only NumPy is needed. With scikit-learn installed the estimators are scikit-learn estimators (pipelines, grid search,
``check_estimator``); without it they keep ``get_params``, ``set_params`` and ``score``.

How the parts fit together, in one direction::

    records -> oracle -> query -> gate (asks the budget, then evaluates, then adds noise) -> release -> algorithm

How to add an algorithm
-----------------------
1. Write a frozen dataclass of settings, checked in ``__post_init__``, in a file of its own.
2. Give it ``plan(public, target) -> Plan(budget, run)``. ``public`` holds the public number of records, the number of
   parameters and the regularization; ``target`` the (epsilon, delta) or a delta alone. No record has been looked at.
   ``budget`` is a ``FixedPlan`` when every release is known in advance (``noise_for`` calibrates it), ``Caps`` when
   releases are chosen adaptively below fixed totals, or anything else with ``spend`` and ``charge`` that comes with a
   proof.
3. ``run(oracle, gate, w)`` loops: build a query with the oracle, release it with the gate, compute from
   ``release.value``. It sees nothing else, so whatever it returns is post-processing.
4. A statistic that the oracle does not offer is a function ``(oracle, ...) -> Query`` in the algorithm's file:
   state its sensitivity and sampling probability, and prove them in docs/theory/. Its ``evaluate(source)`` may call
   ``oracle.batch`` and ``oracle.gradients`` (norms, clipped sums), and keep per-record notes in ``oracle.state``; it
   must treat each record independently of the others.
5. A test compares ``history_`` and ``charged_`` with an account made by hand.
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
    "Target",
    "fit",
]
