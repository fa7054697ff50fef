"""Makes a fit set all attributes of an estimator, or none if the fit fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def fit_copy_of_estimator(fit: Method) -> Method:
    """Runs ``fit`` on a copy of the estimator. If the fit succeeds, all attributes of the estimator are set at once.

    A failed fit leaves the estimator as it was. Without the copy, a failed fit could leave facts about data for which
    nothing was charged, or combine the parameters of one fit with the labels of another fit.
    """

    @wraps(fit)
    def run_fit_on_estimator_copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        fit(copy, *args, **kwargs)
        self.__dict__ = vars(copy) | self.get_params(deep=False)
        return self

    return cast(Method, run_fit_on_estimator_copy)
