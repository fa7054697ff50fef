"""Algorithms and models by the names the command line uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .adaclip import AdaCliP
from .dpagd import DPAGD
from .dpis import DPIS
from .dpsgd import DPSGD
from .estimators import LinearSVC, LogisticRegression, PrivateClassifier
from .noisygd import NoisyGD
from .perturbation import ObjectivePerturbation, OutputPerturbation

ALGORITHMS: Mapping[str, type[Any]] = {
    "noisy-gd": NoisyGD,
    "dp-sgd": DPSGD,
    "dp-agd": DPAGD,
    "adaclip": AdaCliP,
    "dpis": DPIS,
    "objective-perturbation": ObjectivePerturbation,
    "output-perturbation": OutputPerturbation,
}
"""Name to the dataclass of settings; the first is the default."""

MODELS: Mapping[str, type[PrivateClassifier]] = {"logistic": LogisticRegression, "svm": LinearSVC}
"""Name to the estimator; the first is the default."""
