"""Sets the fields of a mechanism, which is frozen, to checked parameters."""

from __future__ import annotations

from .._core import check_arithmetic
from ..composition import Mechanism


def set_mechanism_fields(mechanism: Mechanism, /, **checked: object) -> None:
    """Sets fields to checked parameters. Raises RuntimeError if floating-point arithmetic is not as the checks assume.

    Arithmetic that flushes subnormal numbers to zero would have changed a subnormal parameter to zero.
    """
    check_arithmetic()
    for name, value in checked.items():
        object.__setattr__(mechanism, name, value)
