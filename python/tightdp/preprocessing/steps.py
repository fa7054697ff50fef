"""Checks and nested parameters of estimators that consist of named estimators, such as a chain of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..composition import Composition
from ..estimators.shared.ownership import mark_as_estimator_part
from ..gate.gate import Gate
from ..gate.shares import NoiseShare
from ..records.blocks import Blocks
from .cells import check_shape_to_preprocess, check_width_to_preprocess, split_columns_to_preprocess
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


class CombinedTransformer(NamedTransformers, PrivateTransformer):
    """Base class of transformers that consist of named transformers. Those that release something have equal shares of
    the budget."""

    transformers: Sequence[tuple[Any, ...]]
    transformers_: list[tuple[Any, ...]]
    _steps = "transformers"
    _length: ClassVar[int]
    """Number of entries of a part: its name, its transformer and, if there are 3, its columns."""

    def _list_parts(self) -> list[tuple[Any, ...]]:
        return list_named_transformers(self.transformers, self._length)

    def _list_charges(self, spent: NoiseShare) -> list[Composition]:
        return [member._charge(spent) for _, member, *_ in self._list_parts() if member is not None]

    def _charge(self, spent: NoiseShare) -> Composition:
        return sum(self._list_charges(self._divide_share(spent)), Composition())

    def _divide_share(self, spent: NoiseShare) -> NoiseShare:
        """Returns the budget of one transformer."""
        return spent.divide_equally(max(1, sum(map(bool, self._list_charges(spent)))))

    def _fit_part(self, member: PrivateTransformer, values: Any, gate: Gate, each: NoiseShare) -> None:
        member._release_and_learn(values, gate, each)
        member.charged_ = member._charge(each)
        mark_as_estimator_part(member, self)

    def _check_columns(self, X: Any, *, reset: bool) -> Sequence[Any]:
        """Checks X, and returns the columns of a table or the numbers of the columns of blocks."""
        if isinstance(X, Blocks):
            check_width_to_preprocess(self, X, X.width, reset=reset)
            return range(X.width)
        columns = split_columns_to_preprocess(X)
        check_shape_to_preprocess(self, X, columns, reset=reset)
        return columns

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Joins the facts of the transformers, each under the transformer's name."""
        released: list[str] = []
        public: dict[str, str] = {}
        for name, member, *columns in self.transformers_:
            if columns:
                public[f"columns of {name}"] = ", ".join(map(str, list_columns_to_transform(*columns)))
            if member is not None:
                shown, taken = member._list_facts()
                released += [f"{name}: {one}" for one in shown]
                public |= {f"{name}: {key}": value for key, value in taken.items()}
        return tuple(released), public


def list_columns_to_transform(columns: Any) -> list[Any]:
    """Returns a list of the names or numbers of columns. Raises ValueError for booleans, which Python would treat as
    the numbers 0 and 1."""
    keys = [columns] if isinstance(columns, (str, int, np.integer)) or not np.iterable(columns) else list(columns)
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
            raise ValueError(f"columns must be names or numbers of columns of X, got {key!r}")
    return keys
