"""Options of a question: the neighbouring relation, the engine, and how exact the answer should be."""

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
"""Relations that leave the number of records as it is."""
ADDED = EVERY - SIZED
"""Relations that change the number of records."""
Direction = Literal["add", "remove"]
"""The order of a dominating pair. Under "replace" mechanisms are translated (``accounting/pairs/neighbors.py``)."""

WIDTH, EPS_ERROR, DELTA_ERROR = 1e-6, 0.01, 1e-10
"""Defaults: a relative width of the answer, and, for engine "prv", an error of epsilon and one of delta that is smaller
than usual deltas."""


class AccuracyOptions(TypedDict, total=False):
    """Keywords for the engine that answers, and for the width of its answer."""

    engine: str
    width: float
    eps_error: float
    delta_error: float


class Options(AccuracyOptions, total=False):
    """The keywords of every question. ``accounting/questions/question.py`` checks them."""

    neighbors: Neighbors


_KEYWORDS: tuple[tuple[str, str, Any], ...] = (
    ("neighbors", "Neighbors", "add_or_remove"),
    ("engine", "str", "auto"),
    ("width", "float", WIDTH),
    ("eps_error", "float", EPS_ERROR),
    ("delta_error", "float", DELTA_ERROR),
)
Asking = TypeVar("Asking", bound=Callable[..., Any])


def accept_question_options(function: Asking) -> Asking:
    """Lets a function show, and accept, the keywords that ``**options: Unpack[Options]`` stands for.

    Its signature lists them. Any other keyword is refused in the name of the function.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in _KEYWORDS
        if name not in signature.parameters
    ]
    shown = signature.replace(parameters=[*own, *options])

    @functools.wraps(function)
    def refuse_unknown(*values: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in shown.parameters:
                names = ", ".join(one for one in shown.parameters if one != "self")
                raise TypeError(f"{function.__name__}() has no argument {name!r}; its arguments are {names}")
        return function(*values, **keywords)

    refuse_unknown.__signature__ = shown  # type: ignore[attr-defined]
    return cast(Asking, refuse_unknown)
