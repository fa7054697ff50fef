"""Records every function call of the forward pass that uses a trained parameter.

PyTorch passes all calls of its functions to a ``TorchFunctionMode``. So functions are recorded, and not modules. A
parameter that several modules share, or that the model uses without a module, is recorded like any other parameter. A
use that cannot be clipped in one pass is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, resolve_name

from .attention import compute_attention_kernel, compute_self_attention
from .call_rules import Parts, Unsupported
from .calls import RULES
from .factors import GradientRows
from .pooling import compute_max_pool2d
from .record_axis import RecordAxis, list_record_axis_tensors

_SPREAD = {
    getattr(where, name)
    for where in (torch, torch.Tensor)
    for name in ("add", "sub", "mul", "div", "true_divide", "__radd__", "__rsub__", "__rmul__")
    if hasattr(where, name)
}
"""Functions that work coordinate by coordinate. A parameter in such a call is repeated for each record."""
# Functions that return a view of a vector of parameters.
_VIEWS = {torch.Tensor.flatten, torch.flatten, torch.Tensor.view, torch.Tensor.reshape, torch.Tensor.unsqueeze}
# Functions that transpose a parameter. The error message proposes F.linear instead.
_TRANSPOSED = (torch.Tensor.T, torch.Tensor.mT, torch.Tensor.t, torch.Tensor.transpose, torch.t, torch.transpose)
_FOR_ALL_RECORDS: dict[Any, Callable[..., Any]] = {
    F.scaled_dot_product_attention: compute_attention_kernel,
    F.max_pool2d: compute_max_pool2d,
}
"""Functions that are computed for all records at once, much faster than by ``torch.func.vmap``."""
_REFUSED = {"register_hook", "register_post_accumulate_grad_hook", "resize_", "resize_as_", "set_"}
"""Names of functions that would access gradients or memory of all records, and are refused."""


_read_name = lru_cache(256)(resolve_name)

Kind = tuple[str, tuple[str, ...]]
"""Name of a function, and the names of the parameters that go through it."""


@dataclass
class RecordedCall:
    """A recorded call of one of PyTorch's functions.

    ``edge`` is the place in PyTorch's graph where the backward pass computes the gradient by (with respect to) the
    call's output or an argument of the call. ``parts`` gets this gradient, and returns the parameters in the call, each
    with the ``GradientFactors`` of its gradients.
    """

    edge: Any
    parts: Callable[[Any], Parts]
    inputs: list[tuple[Any, int]]
    """Tensors that ``parts`` reads, each with its version at the time of the call."""
    kind: Kind
    before: list[Any]
    """Nodes of PyTorch's graph that computed the arguments of the call, except its trained parameters."""

    @property
    def has_unchanged_inputs(self) -> bool:
        return all(tensor._version == version for tensor, version in self.inputs)


class CallRecorder(TorchFunctionMode):
    """A context that records the calls that use ``parameters``, while a model is applied to each record on its own."""

    def __init__(self, parameters: dict[str, Any], axis: RecordAxis) -> None:
        super().__init__()
        self.calls: list[RecordedCall] = []
        self._names = {id(p): name for name, p in parameters.items()}
        self._axis, self._stopped = axis, False

    def stop_recording(self) -> list[RecordedCall]:
        """Stops recording and returns the calls. Calls that activation checkpointing repeats are left out."""
        self._stopped = True
        for call in self.calls:
            if not call.has_unchanged_inputs:
                raise refuse_unclippable_call(call.kind, "an input of it was changed in place afterwards")
        return self.calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "").partition(".")[0] in _REFUSED:
            raise ValueError(
                f"model must be one that is clipped in one pass, without {resolve_name(func)}: it reaches gradients or "
                "memory of all records"
            )
        if func in _FOR_ALL_RECORDS:
            return _FOR_ALL_RECORDS[func](self._axis, *args, **kwargs)
        used = [x for x in list_record_axis_tensors((args, kwargs)) if id(x) in self._names]
        if not used or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        try:
            if func in RULES:
                return self._apply_rule(func, args, dict(kwargs), used)
            if func is F.multi_head_attention_forward:
                return compute_self_attention(self._apply_recorded_linear, *args, **kwargs)
            if func is torch.Tensor.expand or func in _SPREAD or _is_recorded_view_of_vector(func, used):
                return self._record_call_of_repeated_parameter(func, args, kwargs, used)
            found = func(*args, **kwargs)
        except Unsupported as why:
            raise refuse_unclippable_call(self._name_recorded_call(func, used), str(why)) from None
        if any(self._axis.has_gradient(x) and id(x) not in self._names for x in list_record_axis_tensors(found)):
            instead = ": write F.linear(x, a) for x @ a.T" if getattr(func, "__self__", func) in _TRANSPOSED else ""
            raise refuse_unclippable_call(
                self._name_recorded_call(func, used),
                f"it is no function whose gradients are known for each record{instead}",
            )
        return found  # a value without a gradient, such as a shape, a dtype or a constant

    def _name_recorded_call(self, func: Any, used: list[Any]) -> Kind:
        return _read_name(func) or getattr(func, "__name__", repr(func)), tuple(self._names[id(x)] for x in used)

    def _apply_recorded_linear(self, input: Any, weight: Any, bias: Any) -> Any:
        return self.__torch_function__(F.linear, (), (input, weight, bias))

    def _apply_rule(self, func: Any, args: Any, kwargs: Any, used: list[Any]) -> Any:
        """Computes a call by the rule for its function, on the arrays of all records, and records the call."""
        rule, place, name = RULES[func]
        input = args[place] if place < len(args) else kwargs.pop(name)
        trained = {id(p) for p in used}

        def compute_recorded_use(x: Any, rest: Any, kwargs: Any) -> Any:
            """Computes and records the call. ``x`` is the array of the argument that depends on the records."""
            if id(input) in trained:
                self._record_repeated_parameter(func, x, input)
            use = rule(x, *rest, **kwargs)
            if use.output.requires_grad:
                before = [
                    each.grad_fn for each in list_record_axis_tensors([x, rest, kwargs]) if id(each) not in trained
                ]
                self._record_call(
                    func, use.output, lambda g: [(p, f) for p, f in use.parts(g) if id(p) in trained], used, [x], before
                )
            return torch.ops.aten._unsafe_view(use.output, (self._axis.records, *use.shape))

        return self._axis.compute_along_record_axis(
            compute_recorded_use, (input,), ((*args[:place], *args[place + 1 :]), kwargs)
        )

    def _record_call_of_repeated_parameter(self, func: Any, args: Any, kwargs: Any, used: list[Any]) -> Any:
        """Computes a call with the parameter repeated for each record, so that each record has its own gradient."""
        others = [x for x in args[:2] if isinstance(x, torch.Tensor) and id(x) not in self._names]
        if len(used) != 1 or (func in _SPREAD and not (len(others) == 1 and self._axis.has_record_axis(others[0]))):
            raise Unsupported("its other argument is not an array of records")
        each = self._axis.compute_along_record_axis(
            lambda array: self._record_repeated_parameter(func, array, used[0]), (used[0],)
        )
        return func(*(each if a is used[0] else a for a in args), **kwargs)

    def _record_repeated_parameter(self, func: Any, each: Any, p: Any) -> Any:
        """Records the array ``each`` of a parameter that is repeated for each record, and returns this array.

        The backward pass computes the gradients with respect to this array.
        """
        self._record_call(func, each, lambda g: [(p, GradientRows(g))], [p], [], [])
        return each

    def _record_call(
        self, func: Any, output: Any, parts: Callable[[Any], Parts], used: list[Any], inputs: list[Any],
        before: list[Any],
    ) -> None:  # fmt: skip
        if self._stopped:
            return
        edge = torch.autograd.graph.get_gradient_edge(output)
        versions = [(x, x._version) for x in inputs]
        self.calls.append(RecordedCall(edge, parts, versions, self._name_recorded_call(func, used), before))


def refuse_unclippable_call(kind: Kind, why: str) -> ValueError:
    """Returns the error for a use of parameters that cannot be clipped in one pass."""
    function, names = kind
    return ValueError(
        f"model must be one that is clipped in one pass: {', '.join(dict.fromkeys(names))} goes through {function}, "
        f'and {why}. arithmetic="exact" takes more modules, and "one-by-one" any'
    )


def _is_recorded_view_of_vector(func: Any, used: list[Any]) -> bool:
    """Tells whether a call makes a view of a vector. A vector is small enough to be repeated for each record."""
    return func in _VIEWS and len(used) == 1 and used[0].numel() == max(used[0].shape)
