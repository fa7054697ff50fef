"""Mechanisms as plain values for JSON: {"type": "Gaussian", "noise_multiplier": 1.0}, nested where they nest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _check
from ..composition import Composable, Composition
from ..mechanisms import Mechanism


def to_plain(run: Composable) -> dict[str, Any]:
    """The type and the arguments that build it again."""
    plain: dict[str, Any] = {"type": type(run).__name__}
    if isinstance(run, Composition):
        return {**plain, "parts": [[to_plain(mechanism), count] for mechanism, count in run.parts]}
    assert isinstance(run, Mechanism)
    for name, value in run._parameters().items():
        plain[name] = to_plain(value) if isinstance(value, Composable) else value
    return plain


def from_plain(plain: Any) -> Mechanism:
    """The mechanism, checked as its constructor checks; ValueError or TypeError for what is none."""
    if not isinstance(plain, Mapping) or "type" not in plain:
        raise TypeError(f"mechanism must be an object with a type, got {_check.shown(plain)}")
    types = _types(Mechanism)
    if not isinstance(plain["type"], str) or plain["type"] not in types:
        raise ValueError(f"type must be one of {', '.join(sorted(types))}, got {_check.shown(plain['type'])}")
    arguments = {
        name: _argument(value) if isinstance(value, Mapping) else value
        for name, value in plain.items()
        if name != "type"
    }
    try:
        return types[plain["type"]](**arguments)
    except TypeError as error:
        raise TypeError(
            f"mechanism must have the parameters of its type, got {_check.shown(plain)}: {str(error)[:500]}"
        ) from None
    except ValueError as error:  # which may quote what was given
        raise ValueError(str(error)[:500]) from None


def _argument(plain: Mapping[str, Any]) -> Composable:
    if plain.get("type") != "Composition":
        return from_plain(plain)
    parts = plain.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, list) and len(part) == 2 for part in parts):
        raise TypeError(f"parts must be pairs of a mechanism and a count, got {_check.shown(parts)}")
    return Composition((from_plain(mechanism), count) for mechanism, count in parts)


def _types(base: type[Mechanism]) -> dict[str, type[Mechanism]]:
    """Those that have parameters, by name."""
    found = {cls.__name__: cls for cls in base.__subclasses__() if hasattr(cls, "__match_args__")}
    return found | {name: cls for one in base.__subclasses__() for name, cls in _types(one).items()}
