"""Prevents further training of the parts of a fitted estimator, such as the steps of a pipeline.

The account of the estimator covers the parts only as they were when the estimator's fit ended.
"""

from __future__ import annotations

from typing import Any


def mark_as_estimator_part(part: Any, whole: Any) -> None:
    """Marks ``part`` as a part of the fitted ``whole``. Copies made by the module ``copy`` have the mark too."""
    part._owner = type(whole).__name__


def check_not_estimator_part(estimator: Any) -> None:
    """Raises RuntimeError if ``estimator`` is a part of a fitted estimator.

    Training the part further would change the whole estimator, and its charge would then be wrong.
    """
    owner = getattr(estimator, "_owner", None)
    if owner is not None:
        raise RuntimeError(
            f"this {type(estimator).__name__} is part of a fitted {owner}, whose account covers it as it is: fit the "
            f"{owner} again, or fit a new estimator with the same settings, which sklearn.base.clone makes"
        )


def list_estimator_parts(whole: Any) -> list[Any]:
    """Lists a fitted estimator and its fitted parts, at every depth. Parts without a charge are left out."""
    parts = [*getattr(whole, "steps_", ()), *getattr(whole, "transformers_", ())]
    return [whole, *(one for _, part, *_ in parts for one in list_estimator_parts(part) if hasattr(one, "charged_"))]
