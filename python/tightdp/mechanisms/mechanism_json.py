"""Mechanisms as plain values for JSON, such as {"type": "Gaussian", "noise_multiplier": 1.0}."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .._support import _check
from .._support.strict_json import check_json_entries, construct_from_strict_json, read_json_object, read_json_value
from ..composition import Composable, Composition, Mechanism
from .noise_mechanisms import (
    DiscreteGaussian,
    DiscreteGaussianVector,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    TreeAggregation,
)
from .privacy_losses import PrivacyLoss
from .samplers import (
    FixedSizeSampled,
    PoissonSampled,
    RandomAllocation,
    SampledWithReplacement,
    TruncatedPoissonSampled,
)
from .selections_and_groups import Group, RepeatAndSelect
from .stated_guarantees import ZCDP, ApproximateDP, BoundedRange, PureDP, RandomizedResponse

TYPES: Mapping[str, type[Mechanism]] = {
    cls.__name__: cls
    for cls in (
        Gaussian, Laplace, PureDP, ApproximateDP, RandomizedResponse, BoundedRange, ZCDP,
        DiscreteGaussian, DiscreteGaussianVector, DiscreteLaplace, MixtureOfGaussians, PoissonSampled,
        TruncatedPoissonSampled, SampledWithReplacement, FixedSizeSampled, RandomAllocation, TreeAggregation,
        PrivacyLoss, RepeatAndSelect, Group,
    )
}  # fmt: skip
"""Classes that a file may name: the public mechanisms, whose constructors check all arguments. All other mechanisms are
used by engines alone, and have constructors that check nothing."""
DEEPEST = 16
"""Largest number of mechanisms that are nested in one another."""


def to_mechanism_json(run: Composable) -> dict[str, Any]:
    """Returns the type of ``run`` and the arguments that build it again."""
    plain: dict[str, Any] = {"type": type(run).__name__}
    if isinstance(run, Composition):
        return {**plain, "parts": [[to_mechanism_json(mechanism), count] for mechanism, count in run.parts]}
    assert isinstance(run, Mechanism)
    for name, value in run._list_parameters().items():
        plain[name] = to_mechanism_json(value) if isinstance(value, Composable) else value
    return plain


def from_mechanism_json(hint: Any, plain: Any, name: str, depth: int = 0) -> Any:
    """Returns the public mechanism that ``to_mechanism_json`` wrote, built by its constructor.

    If ``hint`` is ``Composable``, the result may also be a composition. Raises ValueError if ``plain`` describes no
    such value. The message begins with ``name``, which tells where in the file the value is.
    """
    kind = plain.get("type") if isinstance(plain, dict) else None
    accepted = [*sorted(TYPES), *(["Composition"] if hint is Composable else [])]
    if not isinstance(kind, str) or kind not in accepted:
        raise ValueError(f"{name}: type must be one of {', '.join(accepted)}, got {_check.describe_argument(kind)}")
    if depth == DEEPEST:
        raise ValueError(f"{name} must be at most {DEEPEST} mechanisms inside of one another")
    inner = partial(from_mechanism_json, depth=depth + 1)
    if kind == "Composition":
        check_json_entries(name, plain, ("type", "parts"))
        parts = read_json_value(tuple[tuple[Mechanism, int], ...], plain["parts"], f"{name}.parts", inner)
        return construct_from_strict_json(Composition, {"parts": parts}, name)
    made = read_json_object(TYPES[kind], {key: value for key, value in plain.items() if key != "type"}, name, inner)
    if not isinstance(made, hint):
        raise ValueError(f"{name} must be a {hint.__name__}, got a {kind}")
    return made
