"""Checks and nested parameters of estimators that consist of named estimators, such as a chain of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .transformer import PrivateTransformer


def check_names_of_transformers(steps: Any, argument: str, length: int) -> list[tuple[Any, ...]]:
    """Checks ``steps``, and returns a list of tuples of length ``length``. The first entries are different names."""
    shape = "(name, transformer, columns)" if length == 3 else "(name, estimator)"
    if isinstance(steps, (str, bytes)) or not isinstance(steps, Sequence) or not steps:
        raise TypeError(f"{argument} must be a list of {shape}, got {steps!r}")
    found = [tuple(step) if isinstance(step, (tuple, list)) else () for step in steps]
    if not all(len(step) == length and isinstance(step[0], str) for step in found):
        raise TypeError(f"{argument} must be a list of {shape}")
    names = [step[0] for step in found]
    if len(set(names)) < len(names) or any(not name or "__" in name for name in names):
        raise ValueError(f"{argument} must have different names without a double underscore, got {names!r}")
    return found


def list_named_transformers(transformers: Any, length: int) -> list[tuple[Any, ...]]:
    """Checks and returns the named parts of a transformer. A part is a private transformer without a budget of its own,
    or None for "passthrough"."""
    found = []
    for name, given, *columns in check_names_of_transformers(transformers, "transformers", length):
        member = None if length == 3 and isinstance(given, str) and given == "passthrough" else given
        if member is not None:
            if not isinstance(member, PrivateTransformer):
                raise TypeError(f"transformers must be those of tightdp.preprocessing: {name!r} is {given!r}")
            for setting in ("epsilon", "noise_multiplier", "ledger", "random_state"):
                if getattr(member, setting) is not None:
                    raise ValueError(f"{setting} of {name!r} must be None: what contains it has one for all parts")
        found.append((name, member, *columns))
    return found


class NamedTransformers:
    """A mixin with scikit-learn's nested parameters: NAME is a part, and NAME__PARAMETER a parameter of that part."""

    _steps: str
    """Name of the argument that holds the parts."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters by name. With ``deep``, parts and their parameters are included."""
        found: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        if deep:
            for name, part, *_ in getattr(self, self._steps) or ():
                found[name] = part
                if hasattr(part, "get_params"):
                    found |= {f"{name}__{key}": value for key, value in part.get_params(deep=True).items()}
        return found

    def set_params(self, **params: Any) -> Any:
        """Sets ``params``, values by their names in ``get_params``, and returns the estimator itself.

        Raises ValueError for an unknown name.
        """
        own = super().get_params(deep=False)  # type: ignore[misc]
        for key in own.keys() & params.keys():
            setattr(self, key, params[key])
        for key in params.keys() - own.keys():
            name, nested, rest = key.partition("__")
            parts = [list(part) for part in getattr(self, self._steps)]
            places = [i for i, part in enumerate(parts) if part[0] == name]
            if not places:
                raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}")
            if nested:
                parts[places[0]][1].set_params(**{rest: params[key]})
            else:
                parts[places[0]][1] = params[key]
                setattr(self, self._steps, [tuple(part) for part in parts])
        return self
