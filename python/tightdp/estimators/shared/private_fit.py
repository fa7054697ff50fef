"""Wraps the method ``fit`` of private estimators. A fit sets all attributes at its end, or none of them if it fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from ...records.decoded_copies import cache_decoded_blocks
from .ownership import check_not_estimator_part

Method = TypeVar("Method", bound=Callable[..., Any])


def wrap_private_fit(fit: Method) -> Method:
    """Returns a method that runs ``fit`` on a copy of the estimator.

    If the fit succeeds, all attributes of the estimator are set at once. A failed fit leaves the estimator as it was.
    Without the copy, a failed fit could leave facts about data for which nothing was charged, or combine the parameters
    of one fit with the labels of another fit. Blocks that take long to decode are decoded once. The method raises
    RuntimeError if the estimator is a part of a fitted estimator.
    """
    fit_cached = cache_decoded_blocks(fit)

    @wraps(fit)
    def run_fit_on_estimator_copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_not_estimator_part(self)
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        fit_cached(copy, *args, **kwargs)
        self.__dict__ = vars(copy) | self.get_params(deep=False)
        return self

    return cast(Method, run_fit_on_estimator_copy)
