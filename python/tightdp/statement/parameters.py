"""Computes the hash of named arrays, such as the state_dict of a PyTorch model, to tie a statement to a file of such
arrays.

All arrays together have one hash, the SHA-256 of their encodings joined in the order of the names. The encoding of an
array is ``["name", "dtype", [shape]]`` as JSON without blanks, an end of line, and the bytes of the array. Numbers are
little-endian, and the last index runs fastest. Types have the names of the safetensors format (docs/howto/verify.md).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .._support.files import open_regular_file
from .._support.strict_json import parse_json, read_json_object

SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4,
    "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
"""Number of bytes of one number of each type, by the type's name in the safetensors format."""
_TORCH = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "uint16": "U16",
    "int16": "I16", "float16": "F16", "bfloat16": "BF16", "uint32": "U32", "int32": "I32", "float32": "F32",
    "uint64": "U64", "int64": "I64", "float64": "F64", "complex64": "C64",
}  # fmt: skip
"""Names of the types in the safetensors format, by their names in PyTorch."""
LONGEST_HEADER = 2**25
"""Largest number of bytes of the header of a safetensors file."""
_CHUNK = 2**20
"""Number of bytes that are read at a time."""


class NamedArray(NamedTuple):
    """An array: its name, its type, its shape, and a function that yields the bytes of its numbers in pieces."""

    name: str
    dtype: str
    shape: list[int]
    get_bytes: Callable[[], Iterable[Any]]


def hash_statement_parameters_of_arrays(arrays: Iterable[NamedArray]) -> str:
    """Returns the hash of arrays with distinct names."""
    found = hashlib.sha256()
    for name, dtype, shape, get_bytes in sorted(arrays, key=lambda each: each.name.encode()):
        found.update(json.dumps([name, dtype, shape], separators=(",", ":")).encode() + b"\n")
        for piece in get_bytes():
            found.update(piece)
    return f"sha256:{found.hexdigest()}"


def hash_statement_parameters_of_state_dict(state: Any) -> str:
    """Returns the hash of a ``state_dict``. Raises ValueError unless ``state`` is a mapping from names to tensors."""
    if not isinstance(state, Mapping) or not state:
        raise ValueError(f"must be a state_dict, tensors by their names, got {type(state).__name__}")
    return hash_statement_parameters_of_arrays(
        [_describe_statement_tensor(name, tensor) for name, tensor in state.items()]
    )


def _describe_statement_tensor(name: Any, tensor: Any) -> NamedArray:
    """Returns a PyTorch tensor as a named array. Raises ValueError for a sparse tensor, or for a type that safetensors
    does not have."""
    import torch

    if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
        raise ValueError(f"must be a state_dict, tensors by their names, got {type(tensor).__name__} at {name!r:.100}")
    dtype = _TORCH.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None or tensor.layout is not torch.strided or tensor.is_quantized:
        raise ValueError(f"must have dense tensors of the types of safetensors, got {tensor.dtype} at {name!r:.100}")

    def get_bytes() -> Iterable[Any]:
        plain = tensor.detach().to("cpu").contiguous().reshape(-1)
        return [] if plain.numel() == 0 else [plain.view(torch.uint8).numpy()]

    return NamedArray(name, dtype, list(tensor.shape), get_bytes)


def hash_statement_torch_file(path: Path) -> str:
    """Returns the hash of a ``state_dict`` that ``torch.save`` wrote. Code that the file may contain is not run."""
    with open_regular_file(path) as file:
        try:
            import torch
        except ImportError:
            raise ValueError(f"{path}: needs PyTorch to be read; a .safetensors file does not") from None
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file may make the reader raise any exception
            raise ValueError(f"{path}: cannot be read by torch.load(weights_only=True): {str(error)[:200]}") from None
    try:
        return hash_statement_parameters_of_state_dict(state)
    except Exception as error:  # a damaged tensor may raise any exception
        raise ValueError(f"{path}: {str(error)[:500]}") from None


def hash_safetensors_for_statement(path: Path) -> str:
    """Returns the hash of the arrays of a safetensors file. Raises ValueError for any other file.

    Such a file consists of the header's length in eight bytes, a header of JSON, and numbers without gaps.
    """
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size - 8, LONGEST_HEADER):
                raise ValueError("is no safetensors file: its header is longer than it may be")
            header = parse_json(file.read(length).decode())
            return hash_statement_parameters_of_arrays(
                _read_statement_safetensors_header(header, file, 8 + length, size)
            )
        except UnicodeDecodeError:
            raise ValueError(f"{path}: is no safetensors file: its header is not UTF-8") from None
        except ValueError as error:
            raise ValueError(f"{path}: {str(error)[:500]}") from None


@dataclass(frozen=True)
class _ArrayEntry:
    """The entry of a safetensors header for one array."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def _read_statement_safetensors_header(header: Any, file: BinaryIO, start: int, size: int) -> list[NamedArray]:
    """Returns the arrays of a file. Their numbers must fill the file of ``size`` bytes from byte ``start`` on."""
    if not isinstance(header, dict):
        raise ValueError("is no safetensors file: its header is no object")
    found, ends = [], [(start, start)]
    for name, plain in header.items():
        if name == "__metadata__":
            continue
        entry = read_json_object(_ArrayEntry, plain, f"header[{name!r}]")
        first, last = entry.data_offsets
        bytes_each = SIZES.get(entry.dtype)
        if bytes_each is None or not 0 <= first <= last or min(entry.shape, default=0) < 0:
            raise ValueError(f"header[{name!r:.100}] must have a dtype of the format, a shape and ascending offsets")
        if last - first != math.prod(entry.shape) * bytes_each:
            raise ValueError(f"header[{name!r:.100}] must have as many bytes as its shape has numbers")
        ends.append((start + first, start + last))
        found.append(
            NamedArray(
                name,
                entry.dtype,
                list(entry.shape),
                partial(_read_bytes_hashed_by_statement, file, start + first, last - first),
            )
        )
    ends.sort()
    if ends[-1][1] != size or any(one[1] != other[0] for one, other in pairwise(ends)):
        raise ValueError("header must describe every byte of the file once")
    return found


def _read_bytes_hashed_by_statement(file: BinaryIO, at: int, length: int) -> Iterator[bytes]:
    file.seek(at)
    while length > 0:
        piece = file.read(min(length, _CHUNK))
        if not piece:
            raise ValueError("ends before its numbers do")
        length -= len(piece)
        yield piece


READERS: Mapping[str, Callable[[Path], str]] = {
    ".safetensors": hash_safetensors_for_statement,
    ".pt": hash_statement_torch_file,
    ".pth": hash_statement_torch_file,
}
"""Functions that return the hash of a file of parameters, by the suffix of the file's name."""
