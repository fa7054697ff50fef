"""Lists algorithms and models by the names that the command line uses for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..algorithms.adaclip import AdaCliP
from ..algorithms.dpagd import DPAGD
from ..algorithms.dpis import DPIS
from ..algorithms.dpsgd import DPSGD
from ..algorithms.noisygd import NoisyGD
from ..algorithms.perturbation import ObjectivePerturbation, OutputPerturbation
from .linear_models import LinearSVC, LogisticRegression, PrivateClassifier

ALGORITHMS: Mapping[str, type[Any]] = {
    "noisy-gd": NoisyGD,
    "dp-sgd": DPSGD,
    "dp-agd": DPAGD,
    "adaclip": AdaCliP,
    "dpis": DPIS,
    "objective-perturbation": ObjectivePerturbation,
    "output-perturbation": OutputPerturbation,
}
"""Dataclasses of the algorithms' settings, by the names of the algorithms. The first algorithm is the default."""

MODELS: Mapping[str, type[PrivateClassifier]] = {"logistic": LogisticRegression, "svm": LinearSVC}
"""Classes of estimators, by the names of the models. The first model is the default."""
