"""The context in which ``torch.func.vmap`` passes all records of a batch through a model at once.

In this context, nothing is compiled, all random draws use the run's seeds, and attention masks do not depend on values.

The library ``transformers`` reads the values of an attention mask, and leaves out a mask that hides nothing. Under
``torch.func.vmap`` no code can read values. So this module replaces the library's functions that make masks, through
the library's public registry of such functions. In this context, the new functions leave out no mask that they get.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..randomness.global_generators import CoinGuard, run_uncompiled
from .mixed_precision import WideLosses

_PASSING = ContextVar("records pass a model side by side", default=False)
"""Whether this thread is in the context of ``run_under_vmap``."""
_ATTENTION_KINDS = ("sdpa", "eager")
"""Kinds of attention of ``transformers`` whose masks are tensors."""


@contextmanager
def run_under_vmap() -> Iterator[None]:
    """Enters the context in which ``torch.func.vmap`` may pass records through a model, and leaves it at the end."""
    _set_vectorized_pass_masks()
    token = _PASSING.set(True)
    try:
        with run_uncompiled(), CoinGuard(), WideLosses():
            yield
    finally:
        _PASSING.reset(token)


def _set_vectorized_pass_masks() -> None:
    """Registers functions that make whole masks, if ``transformers`` is loaded and has the registry."""
    masks: Any = getattr(sys.modules.get("transformers.masking_utils"), "ALL_MASK_ATTENTION_FUNCTIONS", None)
    for kind in () if masks is None else _ATTENTION_KINDS:
        if not hasattr(masks[kind], "makes_full_masks"):
            masks.register(kind, _make_vectorized_pass_masks(masks[kind]))


def _make_vectorized_pass_masks(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls ``make``.

    Within ``run_under_vmap``, the function makes the whole mask of every call that has an ``attention_mask``.
    """

    @functools.wraps(make)
    def make_vectorized_pass_mask(*arguments: Any, **options: Any) -> Any:
        if _PASSING.get() and options.get("attention_mask") is not None:
            options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return make(*arguments, **options)

    make_vectorized_pass_mask.makes_full_masks = True  # type: ignore[attr-defined]
    return make_vectorized_pass_mask
