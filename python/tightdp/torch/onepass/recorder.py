"""The forward pass, seen from the trained parameters: every call that one of them goes through.

PyTorch shows all calls of its functions to a mode. So what is recorded are functions, not modules: a parameter that
several modules share, or that the model uses without a module, is seen like any other. A use that cannot be clipped in
one pass is refused, and none is overlooked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, resolve_name

from ..examples import shown
from .attention import multi_head_attention
from .calls import RULES
from .factors import Rows
from .uses import Parts, Unsupported

_SPREAD = {
    getattr(where, name)
    for where in (torch, torch.Tensor)
    for name in ("add", "sub", "mul", "div", "true_divide", "__radd__", "__rsub__", "__rmul__")
    if hasattr(where, name)
}
"""Functions of numbers, coordinate by coordinate, in which a parameter is spread over records."""


@dataclass
class Call:
    """A call whose output, or one of whose arguments, has its gradient taken at ``edge``."""

    edge: Any
    parts: Callable[[Any], Parts]
    inputs: list[tuple[Any, int]]
    """Tensors that ``parts`` reads, and their versions at the call."""
    kind: tuple[Any, ...]
    """What the call was, for telling one forward pass from another."""

    def gradients(self, g: Any) -> Parts:
        if any(tensor._version != version for tensor, version in self.inputs):
            raise Unsupported("an input of it was changed in place afterwards")
        return self.parts(g)


class Recorder(TorchFunctionMode):
    """Records the calls that ``parameters`` go through, on a batch of so many records.

    ``shared`` says of a table of positions, by the number of the call, whether its indices are the same for all
    records: None decides by their shape.
    """

    def __init__(self, parameters: dict[str, Any], records: int, kinds: tuple[Any, ...] | None = None) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._names = {id(p): name for name, p in parameters.items()}
        self._records, self._kinds = records, kinds

    @property
    def kinds(self) -> tuple[Any, ...]:
        """What was called, in order."""
        return tuple(call.kind for call in self.calls)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        used = [x for x in _tensors((args, kwargs)) if id(x) in self._names]
        if not used or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        try:
            if func in RULES:
                return self._ruled(func, args, kwargs, used)
            if func is F.multi_head_attention_forward:
                return multi_head_attention(self._linear, *args, **kwargs)
            if func is torch.Tensor.expand:
                return self._expanded(func, args, kwargs)
            if func in _SPREAD:
                return self._spread(func, args, kwargs, used)
            found = func(*args, **kwargs)
        except Unsupported as why:
            raise self.refusal(func, used, str(why)) from None
        if any(x.requires_grad and id(x) not in self._names for x in _tensors(found)):
            raise self.refusal(func, used, "it is no function whose gradients are known for each record")
        return found  # a shape, a dtype, a constant

    def refusal(self, func: Any, used: list[Any], why: str) -> ValueError:
        names = ", ".join(sorted({self._names[id(x)] for x in used}))
        function = resolve_name(func) or getattr(func, "__name__", repr(func))
        return ValueError(
            f"model must be one that is clipped in one pass: {names} goes through {function}, and {why}. "
            f'arithmetic="exact" takes any module'
        )

    def _linear(self, input: Any, weight: Any, bias: Any) -> Any:
        return self.__torch_function__(F.linear, (), (input, weight, bias))

    def _ruled(self, func: Any, args: Any, kwargs: Any, used: list[Any]) -> Any:
        if func is F.embedding:
            args, kwargs, shared = self._indices(args, kwargs)
        else:
            shared = False
        parts = RULES[func](self._records, *args, **kwargs)
        found = func(*args, **kwargs)
        if found.requires_grad:
            trained = {id(x) for x in used}
            inputs = [x for x in _tensors((args, kwargs)) if id(x) not in self._names]
            self._record(func, found, lambda g: [(p, f) for p, f in parts(g) if id(p) in trained], used, inputs, shared)
        return found

    def _indices(self, args: Any, kwargs: Any) -> tuple[Any, Any, bool]:
        """Arguments of an embedding whose indices have an axis for records: those of all records are repeated."""
        given = dict(zip(("input", "weight"), args, strict=False)) | kwargs
        rest, input = args[2:], given.pop("input")
        weight = given.pop("weight")
        k = len(self.calls)
        if self._kinds is not None and k < len(self._kinds):
            shared = bool(self._kinds[k][-1])
        else:
            shared = input.ndim > 0 and len(input) != self._records and (input.ndim == 1 or len(input) == 1)
        if shared:
            one = input if input.ndim == 1 else input[0]
            input = one.expand(self._records, *one.shape)
        return (input, weight, *rest), given, shared

    def _expanded(self, func: Any, args: Any, kwargs: Any) -> Any:
        p, found = args[0], func(*args, **kwargs)
        if p.ndim == 0 or len(p) != 1 or found.ndim != p.ndim or len(found) != self._records:
            raise Unsupported("it is not spread over the records by its first axis")
        self._record(func, found, lambda g: [(p, _reduced(g, p))], [p], [])
        return found

    def _spread(self, func: Any, args: Any, kwargs: Any, used: list[Any]) -> Any:
        """The parameter is put in for each record, so that it has a gradient for each."""
        others = [x for x in args[:2] if isinstance(x, torch.Tensor) and id(x) not in self._names]
        if len(used) != 1 or len(others) != 1 or len(args) < 2:
            raise Unsupported("it is not spread over the records")
        (p,), (x,) = used, others
        whole = p.ndim == x.ndim and p.ndim > 0 and len(p) == 1
        if x.ndim == 0 or len(x) != self._records or not (p.ndim < x.ndim or whole):
            raise Unsupported(f"shape {tuple(p.shape)} is not spread over the records, beside {shown(x)}")
        shape = p.shape[1:] if whole else p.shape
        each = p.reshape(1, *(1,) * (x.ndim - 1 - len(shape)), *shape).expand(self._records, *(-1,) * (x.ndim - 1))
        self._record(func, each, lambda g: [(p, _reduced(g, p))], [p], [])
        return func(*(each if a is p else a for a in args), **kwargs)

    def _record(
        self, func: Any, output: Any, parts: Callable[[Any], Parts], used: list[Any], inputs: list[Any],
        shared: bool = False,
    ) -> None:  # fmt: skip
        kind = (resolve_name(func), tuple(self._names[id(x)] for x in used), output.ndim, shared)
        edge = torch.autograd.graph.get_gradient_edge(output)
        self.calls.append(Call(edge, parts, [(x, x._version) for x in inputs], kind))


def _reduced(g: Any, p: Any) -> Rows:
    """The gradient of a parameter that was put in for each record, from that of all its copies."""
    return Rows(g.reshape(len(g), -1, *p.shape).sum(1))


def _tensors(found: Any) -> Iterator[Any]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, (list, tuple)):
        for each in found:
            yield from _tensors(each)
    elif isinstance(found, dict):
        yield from _tensors(list(found.values()))
