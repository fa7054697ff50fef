"""Gets and sets the settings of an estimator's algorithm by nested names, such as ``algorithm__max_norm``."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from .sklearn_interface import BaseEstimator


class NestedParameters(BaseEstimator):
    """A base class whose get_params and set_params reach the settings of the algorithm.

    To change a setting, ``set_params`` replaces the algorithm by a changed copy, and the old algorithm object stays as
    it was.
    """

    _default: ClassVar[type[Any]]
    """Algorithm that ``algorithm=None`` stands for."""
    n_features_in_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters by name. With ``deep``, also returns the settings of the algorithm, under names such
        as ``algorithm__max_norm``."""
        params = super().get_params(deep=deep)
        return params | _list_nested_parameters(params) if deep else params

    def set_params(self, **params: Any) -> Any:
        """Sets the parameters ``params``, named as in ``get_params``, and returns the estimator itself.

        Raises ValueError for an unknown name. If the unknown name is that of a nested parameter, nothing is set.
        """
        own = {name: value for name, value in params.items() if "__" not in name}
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            head, nested, rest = name.partition("__")
            if nested:
                inner.setdefault(head, {})[rest] = value
        for name, settings in inner.items():
            if name not in super().get_params(deep=False):
                raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}")
            value = own.get(name, getattr(self, name))
            if value is None and name == "algorithm":
                value = self._default()
            own[name] = _replace_nested_parameters(name, value, settings)
        return super().set_params(**own)


def _list_nested_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of all parameters that are dataclasses, by names of the form name__setting."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
            inner = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
            found |= {f"{name}__{key}": each for key, each in (inner | _list_nested_parameters(inner)).items()}
    return found


def _replace_nested_parameters(name: str, value: Any, settings: dict[str, Any]) -> Any:
    """Returns a copy of ``value``, which is the parameter ``name``, with new values of some settings."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ValueError(f"{name} must have settings of its own where {name}__{next(iter(settings))} is set: {value!r}")
    known = [field.name for field in dataclasses.fields(value) if field.init]
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for key, each in settings.items():
        head, nested, rest = key.partition("__")
        if head not in known:
            raise ValueError(f"{name} has no setting {head!r}: {type(value).__name__} has {', '.join(known)}")
        if nested:
            inner.setdefault(head, {})[rest] = each
        else:
            own[key] = each
    for head, rest_of in inner.items():
        own[head] = _replace_nested_parameters(f"{name}__{head}", own.get(head, getattr(value, head)), rest_of)
    return dataclasses.replace(value, **own)
