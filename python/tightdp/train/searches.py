"""Searches and cross-validations of scikit-learn make many private fits on the same records: what they cost."""

from __future__ import annotations

import sys
import warnings
import weakref
from types import FrameType
from typing import Any

from ..composition import Composition

_SEARCH, _VALIDATION = "sklearn.model_selection._search", "sklearn.model_selection._validation"
_DEEP = 60
"""Callers that are looked at: a search is some twenty calls above the fit."""
_told: weakref.WeakSet[Any] = weakref.WeakSet()
_told_once: set[str] = set()


def warn_of_search(charged: Composition, delta: float) -> None:
    """A UserWarning, once for each search, if a fit that was charged so much is one of those that a search makes."""
    search, fits = _around(sys._getframe(1))
    if search is None:
        return
    by_object = not isinstance(search, str)
    if search in (_told if by_object else _told_once):
        return
    (_told if by_object else _told_once).add(search)
    name = type(search).__name__ if by_object else "a cross-validation"
    one = charged.epsilon(delta)
    cost = f"each of its fits costs epsilon {one:.3g} at delta {delta:g}"
    if fits > 1:
        all_ = (charged * fits).epsilon(delta)
        cost = f"its {fits} fits cost up to epsilon {all_:.3g} at delta {delta:g}, where one costs {one:.3g}"
    warnings.warn(
        f"{name} makes several private fits on the same records: {cost}, and its scores and its choice are not private "
        "at all. tightdp.model_selection.PrivateSearchCV has one account for fits, scores and choice.",
        stacklevel=5,
    )


def _around(frame: FrameType | None) -> tuple[Any, int]:
    """The search that a call belongs to, and its number of fits where that is known; (None, 0) if there is none."""
    found: tuple[Any, int] = None, 0
    for _ in range(_DEEP):
        if frame is None:
            return found
        module = frame.f_globals.get("__name__")
        if module == _VALIDATION:
            found = (
                "cross-validation",
                0,
            )  # a search calls it too, so its frame may be further up, or in another process
        elif module == _SEARCH and "candidate_params" in frame.f_locals:
            candidates, search = frame.f_locals["candidate_params"], frame.f_locals.get("self")
            splits = frame.f_locals.get("n_splits", 0)
            refits = bool(getattr(search, "refit", False))
            known = isinstance(candidates, list) and isinstance(splits, int)
            return search, len(candidates) * splits + refits if known else 0
        elif module == _SEARCH and frame.f_code.co_name == "fit":
            return frame.f_locals.get("self"), 0  # the refit, after the others
        frame = frame.f_back
    return found
