"""Computes recurrent layers step by step, since ``torch.func.vmap`` does not support PyTorch's own functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode


class StepByStep(TorchFunctionMode):
    """A context that computes recurrent layers and cells by operations that ``torch.func.vmap`` can follow.

    Packed sequences are passed on to PyTorch, where ``torch.func.vmap`` raises an error that names them.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        whole, cell = _SEQUENCES.get(func), _CELLS.get(func)
        if whole is not None and isinstance(args[2], (list, tuple)):
            return _compute_recurrent_layers(whole, _SequenceCall(*args, **(kwargs or {})))
        if cell is not None:
            return _compute_recurrent_cell(cell, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _step_recurrent_gru(x: Any, h: Any, state: Any) -> Any:
    """Returns the next state of a GRU. ``x`` is the input times its weights, and ``h`` the state times its weights."""
    (reset, update, new), (by_reset, by_update, by_new) = x.chunk(3, -1), h.chunk(3, -1)
    z = torch.sigmoid(update + by_update)
    candidate = torch.tanh(new + torch.sigmoid(reset + by_reset) * by_new)
    return [(1 - z) * candidate + z * state[0]]


def _step_recurrent_tanh_layer(x: Any, h: Any, state: Any) -> Any:
    """Returns the next state of a plain recurrent layer with tanh."""
    return [torch.tanh(x + h)]


def _step_recurrent_relu_layer(x: Any, h: Any, state: Any) -> Any:
    """Returns the next state of a plain recurrent layer with ReLU."""
    return [torch.relu(x + h)]


def _step_recurrent_lstm(x: Any, h: Any, state: Any) -> Any:
    """Returns the next state of an LSTM, which is the list of its output and its memory."""
    take, keep, new, show = (x + h).chunk(4, -1)
    memory = torch.sigmoid(keep) * state[1] + torch.sigmoid(take) * torch.tanh(new)
    return [torch.sigmoid(show) * torch.tanh(memory), memory]


# PyTorch's functions for whole layers and for single cells, each with the function that computes one step.
_SEQUENCES = {
    torch.gru: _step_recurrent_gru,
    torch.rnn_tanh: _step_recurrent_tanh_layer,
    torch.rnn_relu: _step_recurrent_relu_layer,
    torch.lstm: _step_recurrent_lstm,
}
_CELLS = {
    torch.gru_cell: _step_recurrent_gru,
    torch.rnn_tanh_cell: _step_recurrent_tanh_layer,
    torch.rnn_relu_cell: _step_recurrent_relu_layer,
    torch.lstm_cell: _step_recurrent_lstm,
}


def _compute_recurrent_cell(
    step: Any, x: Any, start: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """Returns the next state of a recurrent cell, in the form in which PyTorch's function returns it."""
    state = [start] if isinstance(start, torch.Tensor) else list(start)
    found = step(F.linear(x, w_ih, b_ih), F.linear(state[0], w_hh, b_hh), state)
    return found[0] if isinstance(start, torch.Tensor) else tuple(found)


class _SequenceCall(NamedTuple):
    """The arguments of a call of ``torch.lstm``, ``torch.gru`` or a plain recurrent layer, in PyTorch's order."""

    input: Any
    hx: Any
    params: Any
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def _compute_recurrent_layers(step: Any, call: _SequenceCall) -> tuple[Any, ...]:
    """Returns the outputs of the last layer at every step, and then the last states of all layers, as PyTorch does."""
    x = call.input.transpose(0, 1) if call.batch_first else call.input
    starts = [call.hx] if isinstance(call.hx, torch.Tensor) else list(call.hx)
    directions, last = 1 + call.bidirectional, []
    each = len(call.params) // (call.num_layers * directions)
    for layer in range(call.num_layers):
        ways = []
        for number in range(layer * directions, (layer + 1) * directions):
            w_ih, w_hh, *rest = call.params[number * each : (number + 1) * each]
            b_ih, b_hh = rest[:2] if call.has_biases else (None, None)
            projection = rest[-1] if len(rest) % 2 else None  # for an LSTM with outputs smaller than its memory
            inputs, state, outputs = F.linear(x, w_ih, b_ih), [one[number] for one in starts], []
            backwards = number % directions == 1
            for t in range(len(inputs))[:: -1 if backwards else 1]:
                state = step(inputs[t], F.linear(state[0], w_hh, b_hh), state)
                if projection is not None:
                    state[0] = F.linear(state[0], projection)
                outputs.append(state[0])
            last.append(state)
            ways.append(torch.stack(outputs[::-1] if backwards else outputs))
        x = torch.cat(ways, -1)
        if call.dropout > 0 and layer + 1 < call.num_layers:
            x = F.dropout(x, call.dropout, call.train)
    return (x.transpose(0, 1) if call.batch_first else x), *(torch.stack(column) for column in zip(*last, strict=True))
