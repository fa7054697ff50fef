"""Takes a collated batch apart into its tensors, and puts it together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any

import numpy as np
import torch

Rebuild = Callable[[list[Any]], Any]
"""Function that makes a batch from a list of tensors, in the structure of the batch that was taken apart."""


def flatten_batch(batch: Any) -> tuple[list[Any], Rebuild]:
    """Returns the tensors of a batch, and a function that rebuilds the batch from other tensors.

    A batch consists of tensors in tuples, lists and mappings. An item that is None, a dtype or a device never changes.
    Raises ValueError for other items, such as numbers and strings, because such an item cannot be split by records and
    may depend on several records. A mapping becomes a plain dict if its type cannot be constructed from a dict.
    """
    if isinstance(batch, torch.Tensor):
        if batch.layout is not torch.strided or batch.is_nested:
            raise _make_collated_batch_error(f"a {'nested' if batch.is_nested else 'sparse'} one")
        return [batch], lambda found: found[0]
    if isinstance(batch, Mapping):
        keys, kind = list(batch), type(batch)
        inner, rebuild = flatten_batch([batch[key] for key in keys])

        def build_batch_mapping(found: list[Any]) -> Any:
            plain = dict(zip(keys, rebuild(found), strict=True))
            return plain if kind is dict else _make_batch_mapping(kind, plain)

        return inner, build_batch_mapping
    if isinstance(batch, (list, tuple)):
        if batch and all(isinstance(item, _SCALARS) for item in batch):
            raise _make_collated_batch_error(f"a {type(batch).__name__} of {type(batch[0]).__name__}")
        parts = [flatten_batch(item) for item in batch]
        named = isinstance(batch, tuple) and hasattr(batch, "_fields")

        def build_batch_sequence(found: list[Any]) -> Any:
            items, start = [], 0
            for tensors, rebuild in parts:
                items.append(rebuild(found[start : start + len(tensors)]))
                start += len(tensors)
            return type(batch)(*items) if named else type(batch)(items)

        return [tensor for tensors, _ in parts for tensor in tensors], build_batch_sequence
    if not isinstance(batch, _CONSTANTS):
        raise _make_collated_batch_error(f"an object of the type {type(batch).__name__}")
    return [], lambda found: batch


_CONSTANTS = (type(None), torch.dtype, torch.device)
"""Types of items that do not depend on records. Such items stay in a batch as they are."""
_SCALARS = (str, bytes, Number, np.generic)
"""Types of single values. A list of such values is refused, because each value may belong to a different record."""


def _make_collated_batch_error(made: str) -> ValueError:
    return ValueError(
        f"collate_fn must make tensors whose first axis is that of the records: it made {made}, which each record "
        "would see whole. Make a dense tensor of it, with an entry for each record, or leave it out"
    )


def describe_batch_structure(batch: Any) -> Any:
    """Returns the types, keys and lengths in a batch, without the shapes and values of its tensors."""
    if isinstance(batch, torch.Tensor):
        return batch.dtype
    if isinstance(batch, Mapping):
        return type(batch), [(key, describe_batch_structure(inner)) for key, inner in batch.items()]
    return type(batch), [describe_batch_structure(item) for item in batch] if isinstance(
        batch, (list, tuple)
    ) else batch


def format_batch_tensor_shape(tensor: Any) -> str:
    """Returns the shape for an error message. The first axis is shown as *, because its length may be private."""
    return "()" if tensor.ndim == 0 else f"({', '.join(['*', *map(str, tensor.shape[1:])])})"


def _make_batch_mapping(kind: Any, plain: dict[Any, Any]) -> Any:
    """Returns a mapping of the type ``kind``, or the plain dict if the type cannot be constructed from a dict."""
    try:
        return kind(plain)
    except TypeError:
        return plain


def split_collated_batch(batch: Any, records: int) -> tuple[list[Any], Rebuild]:
    """Returns the result of ``flatten_batch``. Raises ValueError unless each tensor has one row for each record."""
    tensors, rebuild = flatten_batch(batch)
    if not tensors:
        raise ValueError("collate_fn must make tensors whose first axis is that of the records: it made none")
    for tensor in tensors:
        if tensor.ndim == 0 or len(tensor) != records:
            raise ValueError(
                f"collate_fn must make tensors whose first axis is that of the records: it made one of shape "
                f"{format_batch_tensor_shape(tensor)} with another length"
            )
    return tensors, rebuild


def move_batch_to_device(batch: Any, device: Any) -> Any:
    """Returns the batch with its tensors moved to the device."""
    tensors, rebuild = flatten_batch(batch)
    return rebuild([tensor.to(device) for tensor in tensors]) if any(t.device != device for t in tensors) else batch
