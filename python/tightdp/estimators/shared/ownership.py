"""Parts of a fitted estimator, such as the steps of a pipeline. Its account covers them as they are, so they are not
trained further."""

from __future__ import annotations

from typing import Any


def mark_as_part_of(part: Any, whole: Any) -> None:
    """Marks ``part``, and later copies of it that keep what it learned, as belonging to the fitted ``whole``."""
    part._owner = type(whole).__name__


def check_free(estimator: Any) -> None:
    """Raises RuntimeError for a part: its training would change the whole, but not the charge of the whole."""
    owner = getattr(estimator, "_owner", None)
    if owner is not None:
        raise RuntimeError(
            f"this {type(estimator).__name__} is part of a fitted {owner}, whose account covers it as it is: fit the "
            f"{owner} again, or fit a new estimator with its settings, such as sklearn.base.clone makes"
        )


def list_parts(whole: Any) -> list[Any]:
    """Lists the parts of a fitted estimator: itself, its fitted steps and theirs."""
    parts = [*getattr(whole, "steps_", ()), *getattr(whole, "transformers_", ())]
    return [whole, *(one for _, part, *_ in parts for one in list_parts(part) if hasattr(one, "charged_"))]
