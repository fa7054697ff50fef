"""Mechanisms as plain values for JSON: {"type": "Gaussian", "noise_multiplier": 1.0}, nested where they nest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..mechanisms import Mechanism


def to_plain(mechanism: Mechanism) -> dict[str, Any]:
    """The type and the arguments that build it again."""
    plain: dict[str, Any] = {"type": type(mechanism).__name__}
    for name, value in mechanism._parameters().items():
        plain[name] = to_plain(value) if isinstance(value, Mechanism) else value
    return plain


def from_plain(plain: Any) -> Mechanism:
    """The mechanism, checked as its constructor checks; ValueError or TypeError for what is none."""
    if not isinstance(plain, Mapping) or "type" not in plain:
        raise TypeError(f"mechanism must be an object with a type, got {plain!r}")
    types = {cls.__name__: cls for cls in Mechanism.__subclasses__()}
    if not isinstance(plain["type"], str) or plain["type"] not in types:
        raise ValueError(f"type must be one of {', '.join(sorted(types))}, got {plain['type']!r}")
    arguments = {
        name: from_plain(value) if isinstance(value, Mapping) else value
        for name, value in plain.items()
        if name != "type"
    }
    try:
        return types[plain["type"]](**arguments)
    except TypeError as error:
        raise TypeError(f"mechanism must have the parameters of its type, got {plain!r}: {error}") from None
