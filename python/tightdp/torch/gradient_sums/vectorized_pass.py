"""The context in which records pass a model side by side, under ``torch.func.vmap``.

In this context, nothing is compiled, all random draws use the run's seeds, and masks do not depend on values.

The library ``transformers`` checks whether an attention mask hides anything, and leaves out a mask that hides nothing.
Under ``torch.func.vmap`` no code can read values. So the library's functions that make masks are replaced by functions
that always make the whole mask. The replacement uses the library's public registry of functions that make masks.
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
"""Whether records pass a model side by side in this thread."""
_MAKE_MASKS = ("sdpa", "eager")
"""Kinds of attention of ``transformers`` whose masks are tensors."""


@contextmanager
def run_under_vmap() -> Iterator[None]:
    """Makes the context for ``torch.func.vmap`` over records."""
    _set_transformers_masks()
    token = _PASSING.set(True)
    try:
        with run_uncompiled(), CoinGuard(), WideLosses():
            yield
    finally:
        _PASSING.reset(token)


def _set_transformers_masks() -> None:
    """Registers functions that make whole masks, if ``transformers`` is loaded and has the registry."""
    masks: Any = getattr(sys.modules.get("transformers.masking_utils"), "ALL_MASK_ATTENTION_FUNCTIONS", None)
    for kind in () if masks is None else _MAKE_MASKS:
        if not hasattr(masks[kind], "makes_full_masks"):
            masks.register(kind, _make_full_attention_masks(masks[kind]))


def _make_full_attention_masks(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls ``make``, and always makes whole masks while records pass side by side."""

    @functools.wraps(make)
    def make_full_attention_mask(*arguments: Any, **options: Any) -> Any:
        if _PASSING.get() and options.get("attention_mask") is not None:
            options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return make(*arguments, **options)

    make_full_attention_mask.makes_full_masks = True  # type: ignore[attr-defined]
    return make_full_attention_mask
