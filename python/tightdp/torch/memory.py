"""What a model and a loss function hold in Python objects, where one record could leave something for the next.

Looked at are attributes of modules, of the objects and containers in them, and the globals, closures and defaults that
their own functions name. What a program hides elsewhere, such as in a file, is not found.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from .behind import is_functorch_wrapped_tensor

Held = dict[str, tuple[Any, Any]]
"""By its path: a tensor and its version, an array and its bytes, or a number and its value."""

_MOST, _DEEPEST = 10_000, 6
"""Of things that are looked at, and of containers in containers: a loss function may name a whole data set."""
_SMALL = 1 << 16
"""Bytes of arrays that are compared; larger ones are told by being others."""
_OWN = frozenset(vars(torch.nn.Module())) | {"_flat_weights"}
"""What PyTorch keeps in a module: parameters and buffers are looked at by ``kept.py``. Recurrent layers have a second
list of their parameters, which each forward pass brings up to date."""
_THEIRS = ("torch", "numpy", "builtins", "tightdp", "threading", "_thread")
"""Packages whose objects are not looked into."""


def held(model: Any, loss_fn: Any) -> Held:
    """Everything of that kind, as it is now."""
    found: Held = {}
    modules = [(path or "model", module, 0) for path, module in model.named_modules()]
    waiting: deque[tuple[str, Any, int]] = deque([("loss_fn", loss_fn, 0), *modules])
    seen: set[int] = set()
    for _ in range(_MOST):
        if not waiting:
            break
        path, thing, depth = waiting.popleft()
        if isinstance(thing, torch.Tensor):
            found[path] = thing, None if is_of_records(thing) else thing._version
        elif isinstance(thing, np.ndarray):
            found[path] = thing, thing.tobytes() if thing.nbytes <= _SMALL else None
        elif isinstance(thing, numbers.Number) and not isinstance(thing, bool):
            found[path] = None, thing
        elif id(thing) not in seen and depth < _DEEPEST:
            seen.add(id(thing))
            waiting.extend((f"{path}.{name}", inner, depth + 1) for name, inner in _inside(thing))
    return found


def changed(before: Held, after: Held) -> str | None:
    """The path of something that the records have left there: a tensor of theirs, or another value than before.

    What is new and not of the records is no trace of them, such as a table that is made at first use.
    """
    for path, (thing, version) in after.items():
        old = before.get(path)
        if old is not None and old[0] is thing and _same(old[1], version):
            continue
        if old is not None or (isinstance(thing, torch.Tensor) and is_of_records(thing)):
            return path
    return None


def is_of_records(x: Any) -> bool:
    """Whether a tensor is one of ``torch.func``, which outlived the records that it belongs to."""
    return bool(is_functorch_wrapped_tensor(x))


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(type(one) is type(other) and (one == other or (one != one and other != other)))


def _inside(thing: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(thing, (str, bytes, type, types.ModuleType)):
        return ()
    if isinstance(thing, dict):
        return [(str(name), inner) for name, inner in list(thing.items())[:_MOST]]
    if isinstance(thing, (list, tuple, set, frozenset, deque)):
        return [(str(i), inner) for i, inner in enumerate(list(thing)[:_MOST])]
    if isinstance(thing, types.MethodType):
        return [("__self__", thing.__self__), ("__func__", thing.__func__)]
    if isinstance(thing, functools.partial):
        return [("func", thing.func), ("args", thing.args), ("keywords", thing.keywords)]
    if isinstance(thing, types.FunctionType):
        return _named(thing)
    if type(thing).__module__.split(".")[0] in _THEIRS:
        return _attributes(thing) if isinstance(thing, torch.nn.Module) else ()
    own = [(name, getattr(type(thing), name, None)) for name in ("forward", "__call__")]
    return [*_attributes(thing), *own]


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    return [(name, inner) for name, inner in getattr(thing, "__dict__", {}).items() if name not in _OWN]


def _named(function: types.FunctionType) -> list[tuple[str, Any]]:
    """What the code of a function of the user's can reach by its names."""
    if function.__module__.split(".")[0] in _THEIRS:
        return []
    names = inspect.getclosurevars(function)
    defaults = function.__defaults__, function.__kwdefaults__, vars(function)
    return [*names.nonlocals.items(), *names.globals.items(), ("defaults", defaults)]
