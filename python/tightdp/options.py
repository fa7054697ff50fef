"""Options of the methods that bound privacy: the neighbouring relation, the engine and the accuracy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

Neighbors = Literal["add_or_remove", "add", "remove", "replace", "replace_special"]
NEIGHBORS: tuple[Neighbors, ...] = get_args(Neighbors)
EVERY: frozenset[Neighbors] = frozenset(NEIGHBORS)
"""The set of all neighbouring relations."""
SIZED: frozenset[Neighbors] = frozenset(("replace", "replace_special"))
"""Relations that do not change the number of records."""
ADDED = EVERY - SIZED
"""Relations that change the number of records."""
Direction = Literal["add", "remove"]
"""The order of a dominating pair (P, Q): "remove" means (P, Q), and "add" means (Q, P). Under "replace" and
"replace_special" mechanisms are first translated to other mechanisms (``accounting/pairs/neighbors.py``)."""

WIDTH, EPS_ERROR, DELTA_ERROR = 1e-6, 0.01, 1e-10
"""Default accuracy: the relative width of a bound and, for the engine "prv", the errors of epsilon and of delta. The
error of delta is smaller than the deltas in common use."""


class AccuracyOptions(TypedDict, total=False):
    """Keywords for the engine that computes a bound, and for the width of the bound."""

    engine: str
    width: float
    eps_error: float
    delta_error: float


class Options(AccuracyOptions, total=False):
    """Keywords of every method that bounds privacy. ``accounting/questions/question.py`` checks their values."""

    neighbors: Neighbors


_KEYWORDS: tuple[tuple[str, str, Any], ...] = (
    ("neighbors", "Neighbors", "add_or_remove"),
    ("engine", "str", "auto"),
    ("width", "float", WIDTH),
    ("eps_error", "float", EPS_ERROR),
    ("delta_error", "float", DELTA_ERROR),
)
Asking = TypeVar("Asking", bound=Callable[..., Any])


def accept_options_as_arguments(function: Asking) -> Asking:
    """Decorates a function with ``**options: Unpack[Options]``, so that its signature lists these options.

    The decorated function raises TypeError, which names the function, for any other keyword.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in _KEYWORDS
        if name not in signature.parameters
    ]
    shown = signature.replace(parameters=[*own, *options])
    accepted = frozenset(shown.parameters)

    @functools.wraps(function)
    def refuse_unknown_option(*values: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in accepted:
                names = ", ".join(one for one in shown.parameters if one != "self")
                raise TypeError(f"{function.__name__}() has no argument {name!r}; its arguments are {names}")
        return function(*values, **keywords)

    refuse_unknown_option.__signature__ = shown  # type: ignore[attr-defined]
    return cast(Asking, refuse_unknown_option)
