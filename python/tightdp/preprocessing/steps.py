"""Checks estimators made of named estimators, such as a chain of transformers, and gives them nested parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..composition import Composition
from ..estimators.shared.ownership import mark_as_estimator_part
from ..release_gate.gate import Gate
from ..release_gate.shares import NoiseShare
from .transformer import PrivateTransformer
from .transformer_input import list_columns_to_preprocess


def check_named_transformer_steps(steps: Any, argument: str, length: int) -> list[tuple[Any, ...]]:
    """Checks ``steps``, and returns a list of tuples of length ``length``. Each tuple begins with a name, and all names
    differ."""
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


def check_columns_of_steps(steps: Sequence[PrivateTransformer], columns: int) -> None:
    """Checks the declared lists of steps that are applied one after another, the first of them to ``columns`` columns.

    A step is not checked if nobody knows its number of columns before ``fit``. Then ``columns`` is 0.
    """
    for step in steps:
        if columns:
            step._check_columns(columns)
        columns = step._count_outputs(columns)


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
        """Sets the parameters ``params``, named as in ``get_params``, and returns the estimator itself.

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


class CompositeTransformer(NamedTransformers, PrivateTransformer):
    """Base class of transformers that consist of named transformers, and share one budget and one account with them."""

    transformers: Any
    transformers_: list[Any]
    """The fitted parts."""
    _steps = "transformers"
    _length: int
    """Number of entries of a part: its name, its transformer and, if there are three, its columns."""

    def _list_transformer_parts(self) -> list[tuple[Any, ...]]:
        """Checks and returns the parts. The transformer of a part has no budget of its own, and is None for
        "passthrough"."""
        found = []
        for name, given, *columns in check_named_transformer_steps(self.transformers, "transformers", self._length):
            member = None if columns and isinstance(given, str) and given == "passthrough" else given
            if member is not None:
                if not isinstance(member, PrivateTransformer):
                    raise TypeError(f"transformers must be those of tightdp.preprocessing: {name!r} is {given!r}")
                for setting in ("epsilon", "noise_multiplier", "ledger", "random_state"):
                    if getattr(member, setting) is not None:
                        raise ValueError(f"{setting} of {name!r} must be None: what contains it has one for all parts")
            found.append((name, member, *columns))
        return found

    def _list_members(self) -> list[PrivateTransformer]:
        return [member for _, member, *_ in self._list_transformer_parts() if member is not None]

    def _divide_share(self, spent: NoiseShare) -> NoiseShare:
        """Returns the budget of one transformer. The transformers that release something have equal shares."""
        return spent.divide_equally(max(1, sum(bool(member._charge(spent)) for member in self._list_members())))

    def _charge(self, spent: NoiseShare) -> Composition:
        each = self._divide_share(spent)
        return sum((member._charge(each) for member in self._list_members()), Composition())

    def _fit_member_transformer(self, member: PrivateTransformer, values: Any, gate: Gate, each: NoiseShare) -> None:
        """Fits a transformer with the budget ``each``, and marks the transformer as a part of this one."""
        member._release_and_learn(values, gate, each)
        member.charged_ = member._charge(each)
        mark_as_estimator_part(member, self)

    def _has_text_outputs(self) -> bool:
        return any(member._has_text_outputs() for member in self._list_members())

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Joins the facts of the transformers, each under the transformer's name."""
        released: list[str] = []
        public: dict[str, str] = {}
        for name, member, *places in self.transformers_:
            for columns in places:
                public[f"columns of {name}"] = ", ".join(map(str, list_columns_to_preprocess(columns)))
            if member is not None:
                shown, taken = member._list_facts()
                released += [f"{name}: {one}" for one in shown]
                public |= {f"{name}: {key}": value for key, value in taken.items()}
        return tuple(released), public
