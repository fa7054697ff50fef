"""Types for rules. A rule says how to compute a function of PyTorch that has a trained parameter as an argument. It
also says how to clip the records' gradients with respect to this parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from .factors import GradientFactors

Parts = list[tuple[Any, GradientFactors]]
"""List of parameters, each with the factors of the records' gradients with respect to this parameter."""


@dataclass
class ComputedCall:
    """A computed call of one of PyTorch's functions, for all records at once."""

    output: Any
    """Output of PyTorch for all records. It is not a view, so that the backward pass can compute gradients with respect
    to this tensor."""
    shape: tuple[int, ...]
    """Shape of one record's output."""
    parts: Callable[[Any], Parts]
    """Function that takes the gradient with respect to ``output``, and returns the parameters of the call with their
    factors."""


Rule = Callable[..., ComputedCall]
"""Function that computes a call of a function of PyTorch, or raises ``Unsupported``. Its arguments are an array of the
inputs of all records, of shape (records, ...), and the other arguments of PyTorch's function."""


_read_signature = functools.cache(inspect.signature)


def bind_torch_arguments(func: Callable[..., Any], args: Any, kwargs: Any) -> SimpleNamespace:
    """Returns the arguments of a call of a PyTorch function by name, with the defaults of those that were left out."""
    bound = _read_signature(func).bind(*args, **kwargs)
    bound.apply_defaults()
    return SimpleNamespace(**bound.arguments)


class Unsupported(Exception):
    """The error for a use of a parameter that cannot be clipped in one pass. Its message says why."""
