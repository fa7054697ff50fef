"""Cells as texts."""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np

EXACT = 2.0**64


def text_of(cell: Any) -> str:
    """``str`` of a cell, but whole floats are spelled as integers: a column of integers is one of floats where a cell
    is missing, and its categories are to be the same."""
    if isinstance(cell, (float, np.floating)) and -EXACT < cell < EXACT and cell.is_integer():
        return str(int(cell))
    return str(cell)


def is_encoding(name: Any) -> bool:
    """Whether it names an encoding of texts."""
    try:
        return bool(codecs.lookup(name)._is_text_encoding)
    except (LookupError, TypeError, ValueError):
        return False
