"""What a model and a loss function hold in Python objects, where one record could leave something for the next.

Looked at are attributes of modules, the objects and containers in them, iterators, the classes of the user's own code,
and the globals, closures and defaults that its functions name: some thousand things. What a program hides elsewhere,
such as in a file, in the environment or in an installed package, is not found.
"""

from __future__ import annotations

import array
import contextvars
import functools
import inspect
import io
import itertools
import numbers
import operator
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import torch

from .behind import is_functorch_wrapped_tensor
from .bits import bits

Held = dict[str, tuple[Any, Any]]
"""By its path: an object that is told by being the same one, or None, and what of it is compared besides."""

_MOST, _DEEPEST = 10_000, 20
"""Of things that are looked at, and of containers in containers: a loss function may name a whole data set."""
_WALKED = 256
"""Items of a container that are looked into; of the others each is told by being the same one."""
_SMALL = 1 << 24
"""Bytes of tensors and arrays that are compared; larger ones are told by being others."""
_PLAIN = frozenset((int, float, str, bool, type(None)))
_VALUES = (numbers.Number, str, bytes, type(None), Enum, np.generic, range, slice, torch.dtype, torch.device)
_LEAVES = (torch.Tensor, np.ndarray, *_VALUES)
"""What is compared and not looked into."""
_WATCHED = ("training", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OWN = (frozenset(vars(torch.nn.Module())) | {"_flat_weights"}) - frozenset(_WATCHED)
"""What PyTorch keeps in a module: parameters and buffers are looked at by ``kept.py``. Recurrent layers have a second
list of their parameters, which each forward pass brings up to date."""
_THEIRS = frozenset(("torch", "numpy", "builtins", "tightdp", "threading", "_thread", "logging"))
"""Packages whose objects are not looked into."""


def held(**roots: Any) -> Held:
    """Everything of that kind, as it is now, in what has these names. Of models it is in each of their modules."""
    found: Held = {}
    waiting: deque[tuple[str, Any, int]] = deque()
    for name, root in roots.items():
        modules = root.named_modules() if isinstance(root, torch.nn.Module) else [("", root)]
        waiting.extend((f"{name}.{path}" if path else name, module, 0) for path, module in modules)
    seen: set[int] = set()
    for _ in range(_MOST):
        if not waiting:
            break
        path, thing, depth = waiting.popleft()
        if type(thing) in _PLAIN:
            found[path] = None, thing
            continue
        found[path] = _compared(thing)
        if not isinstance(thing, _LEAVES) and id(thing) not in seen and depth < _DEEPEST:
            seen.add(id(thing))
            waiting.extend((f"{path}.{name}", inner, depth + 1) for name, inner in _inside(thing))
    return found


def changed(before: Held, after: Held) -> str | None:
    """The path of something that is not as before: another value or object, or one that is new or gone."""
    for path, (thing, value) in after.items():
        old = before.get(path)
        if old is None or old[0] is not thing or not _same(old[1], value):
            return path
    return next((path for path in before if path not in after), None)


def is_of_records(x: Any) -> bool:
    """Whether a tensor is one of ``torch.func``, which outlived the records that it belongs to."""
    return bool(is_functorch_wrapped_tensor(x))


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        alike = len(one) == len(other) and all(map(operator.is_, one, other))
        return alike or (len(one) == len(other) and all(map(_alike, one, other)))
    return one is other or bool(one == other or (one != one and other != other))


def _alike(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, _VALUES) and _same(one, other))


def _compared(thing: Any) -> tuple[Any, Any]:
    if isinstance(thing, torch.Tensor):
        if is_of_records(thing):
            return thing, None
        return thing, (thing._version, bits(thing) if thing.numel() * thing.element_size() <= _SMALL else None)
    if isinstance(thing, np.ndarray):
        return thing, bits(thing) if thing.nbytes <= _SMALL else None
    if isinstance(thing, _VALUES):
        return None, thing
    if isinstance(thing, (bytearray, array.array)):
        return None, hash(bytes(thing))
    if isinstance(thing, (io.StringIO, io.BytesIO)):
        return None, hash(thing.getvalue())
    if isinstance(thing, dict):
        return None, [type(thing), *thing, *itertools.islice(thing.values(), _WALKED, None)]
    if isinstance(thing, (list, tuple, deque)):
        return None, [type(thing), len(thing), *itertools.islice(thing, _WALKED, None)]
    if isinstance(thing, (set, frozenset)):
        return None, frozenset(thing)
    if isinstance(thing, types.GeneratorType):
        return thing, -1 if thing.gi_frame is None else thing.gi_frame.f_lasti
    if isinstance(thing, Iterator) and not hasattr(thing, "__dict__"):
        return thing, (operator.length_hint(thing, -1), repr(thing))
    if isinstance(thing, functools._lru_cache_wrapper):
        return thing, thing.cache_info().currsize
    if isinstance(thing, types.MethodType):  # made anew whenever it is asked for
        return None, None
    return thing, None


def _inside(thing: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(thing, dict):
        some = itertools.islice(thing.items(), _WALKED)
        return [(name if isinstance(name, str) else f"[{name!r}]", inner) for name, inner in some]
    if isinstance(thing, (list, tuple, set, frozenset, deque)):
        return [(str(i), inner) for i, inner in enumerate(itertools.islice(thing, _WALKED))]
    if isinstance(thing, types.MethodType):
        return [("__self__", thing.__self__), ("__func__", thing.__func__)]
    if isinstance(thing, functools.partial):
        return [("func", thing.func), ("args", thing.args), ("keywords", thing.keywords)]
    if isinstance(thing, functools._lru_cache_wrapper):
        return [("__wrapped__", thing.__wrapped__)]
    if isinstance(thing, types.FunctionType):
        return _named(thing)
    if isinstance(thing, types.GeneratorType):
        return list(inspect.getgeneratorlocals(thing).items())
    if isinstance(thing, weakref.ref):
        return [("()", thing())]
    if isinstance(thing, contextvars.ContextVar):
        return [("value", thing.get(None))]
    if isinstance(thing, property):
        return [("fget", thing.fget), ("fset", thing.fset)]
    if isinstance(thing, (classmethod, staticmethod)):
        return [("__func__", thing.__func__)]
    if isinstance(thing, type):
        return [("__bases__", thing.__bases__), *_plain(vars(thing))] if _of_the_user(thing.__module__) else ()
    if isinstance(thing, (types.ModuleType, types.BuiltinFunctionType)):
        return ()
    if isinstance(thing, (torch.nn.Module, threading.local)) or not _theirs(type(thing).__module__):
        return [*_attributes(thing), ("__class__", type(thing))]
    return ()


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    slots = [(name, getattr(thing, name)) for name in _slots(type(thing).__mro__) if hasattr(thing, name)]
    own = getattr(thing, "__dict__", {}).items()
    if isinstance(thing, torch.nn.Module):
        own = [(name, x) for name, x in own if name not in _OWN and (name not in _WATCHED or x or name == "training")]
    return [*own, *slots]


@functools.lru_cache(4096)
def _slots(kinds: tuple[type, ...]) -> tuple[str, ...]:
    of_kinds = [vars(kind).get("__slots__", ()) for kind in kinds]
    names = itertools.chain.from_iterable((slots,) if isinstance(slots, str) else slots for slots in of_kinds)
    return tuple(name for name in names if not name.startswith("__"))


def _plain(names: Any) -> list[tuple[str, Any]]:
    """Without what Python itself puts into a class, but with what makes its objects functions."""
    return [(name, x) for name, x in list(names.items()) if not name.startswith("__") or name == "__call__"]


def _named(function: types.FunctionType) -> list[tuple[str, Any]]:
    """What the code of a function of the user's can reach by its names."""
    if not _of_the_user(function.__module__):
        return []
    names = _names(function.__code__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = [(name, _content(cell)) for name, cell in cells]
    for name in names:
        if name not in function.__globals__ and name not in sys.modules:
            continue
        thing = function.__globals__.get(name, sys.modules.get(name))
        if not isinstance(thing, types.ModuleType):
            found.append((name, thing))
        elif not _theirs(thing.__name__):
            found.extend((f"{name}.{inner}", vars(thing)[inner]) for inner in names if inner in vars(thing))
    kept = function.__defaults__, function.__kwdefaults__, vars(function)
    return [*found, ("__defaults__", kept)]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return None


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """The names in a function's code, and in that of the functions that it makes."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return tuple(dict.fromkeys(itertools.chain(code.co_names, *map(_names, inner))))


def _theirs(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _THEIRS


@functools.lru_cache(4096)
def _of_the_user(module: str | None) -> bool:
    """Whether it is neither Python's nor of an installed package."""
    top = (module or "").partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return not _theirs(top) and top not in sys.stdlib_module_names and "site-packages" not in file
