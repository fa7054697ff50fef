"""Clipping the gradients of linear layers that are never formed ("ghost clipping").

A linear layer's gradient for one example is the sum over positions t of outer products a_t b_t^T of the layer's input
and the gradient of its output. So its norm follows from inner products, and the clipped sum is one matrix product.
Goodfellow (2015), arXiv:1510.01799; Li, Tramer, Liang and Hashimoto (ICLR 2022), section 4. Proofs:
docs/theory/clipping.md, section 5. Arithmetic: idealised, because the roundings of matrix products depend on the other
examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _check
from . import arrays, clipping

Array = npt.NDArray[Any]
Norms = npt.NDArray[np.float64]

_CHUNK = 1 << 23
"""Entries of the temporaries that sequences need: 64 MB."""


def ghost_norms(activations: npt.ArrayLike, signals: npt.ArrayLike, *, bias: bool = False) -> Norms:
    """Norms of the per-example gradients of a linear layer, rounded up by what their computation can lose.

    ``activations``, ``signals`` and ``bias`` are those of ``ghost_clipped_sum``. Add squares over layers for the norm
    of a whole model, and pass the result to ``ghost_clipped_sum``.
    """
    return _compute_layer_norms(_check_examples(activations, signals, bias))


def ghost_clipped_sum(
    activations: npt.ArrayLike,
    signals: npt.ArrayLike,
    max_norm: float,
    *,
    weights: npt.ArrayLike | None = None,
    bias: bool = False,
    norms: npt.ArrayLike | None = None,
) -> tuple[Any, Norms]:
    """``clipped_sum`` for the weight of a linear layer y = x W (+ c), from its inputs and the gradients of its outputs.

    Parameters
    ----------
    activations : (batch, inputs) or (batch, positions, inputs)
        The inputs of the layer.
    signals : (batch, outputs) or (batch, positions, outputs)
        The gradient of each example's loss with respect to the layer's output.
    max_norm : L2 bound of one example's gradient, in [1e-100, 1e100] for float64, else in [1e-25, 1e25]
    weights : (batch,), optional, finite and >= 0
    bias : whether the layer has the bias c; its gradient then counts in the norm
    norms : (batch,), optional
        Norms to clip by, such as those of a model of several layers; by default this layer's own.

    Returns
    -------
    sum : (inputs, outputs), or the pair of it and (outputs,) with ``bias``
    norms : (batch,), before clipping; inf for examples with an infinity or NaN, which add nothing

    One example moves the sum by at most ``weights[k] * max_norm`` in L2 norm (over the layers whose squared norms
    add up to ``norms``), up to the rounding of the matrix product, which depends on the other examples. Arithmetic:
    idealised: unlike a release of ``clip_and_noise``, a release of this sum is not exact.

    >>> import numpy as np
    >>> total, norms = ghost_clipped_sum(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]), 1.0)
    >>> total.round(6).tolist(), norms.round(6).tolist()
    ([[0.6, 0.0], [0.8, 0.0]], [5.0])
    """
    bound = _check.positive("max_norm", max_norm)
    pair = _check_examples(activations, signals, bias)
    a, b = pair.a, pair.b
    single = b.dtype == np.float32
    low, high = clipping.bound_range(b.dtype.name, b.dtype.name)
    if not low <= bound <= high:
        raise ValueError(f"max_norm must be in [{low:g}, {high:g}], got {bound!r}")
    if norms is None:
        n = _compute_layer_norms(pair)
    else:
        n = np.asarray(norms, np.float64)
        if n.shape != pair.finite.shape or not (n >= 0).all():
            raise ValueError(f"norms must have shape {pair.finite.shape} and lie in [0, inf], got shape {n.shape}")
        n = np.where(pair.finite, n, np.inf)
    w = arrays.check_weights_vector(weights, len(n))
    # What the products F b and a (F b) can add to one example's norm.
    safe = bound * (1 - 4 * float(np.finfo(b.dtype).eps))
    factors = clipping.clip_factors(n, safe)
    if w is not None:
        factors *= w
        factors[(w * bound < (2.0**-90 if single else 2.0**-900)) | (factors < 2.0**-1022)] = 0.0
    factors = np.ldexp(factors, pair.exponents)
    weighted = (b * factors.reshape(-1, *(1,) * (b.ndim - 1))).astype(b.dtype, copy=False)
    positions = math.prod(a.shape[:-1])
    total = a.reshape(positions, a.shape[-1]).T @ weighted.reshape(positions, b.shape[-1])
    if not bias:
        return total, n
    ones = pair.ones.astype(b.dtype)
    by_example = weighted if b.ndim == 2 else weighted.sum(axis=1)
    return (total, ones @ by_example), n


@dataclass(slots=True)
class _LayerExamples:
    """Activations and signals, float32 or float64, of a batch of examples whose gradients are 2^exponents a b^T.

    Examples of extreme size are scaled by powers of two, so that no square and no product below under- or overflows in
    a way that matters: docs/theory/clipping.md, section 5. ``ones`` is what stands for the 1 of the bias, 0 without.
    """

    a: Array
    b: Array
    finite: npt.NDArray[np.bool_]
    exponents: npt.NDArray[np.intc]
    ones: Norms


def _check_examples(activations: npt.ArrayLike, signals: npt.ArrayLike, bias: bool) -> _LayerExamples:
    """Checks both, and sets examples that are not finite to zeros."""
    pair: list[Array] = []
    given: tuple[tuple[str, Any], ...] = (("activations", activations), ("signals", signals))
    for name, value in given:
        if getattr(value, "requires_grad", False):
            value = value.detach()
        try:
            x = np.asarray(value)
        except TypeError:  # torch's bfloat16, which NumPy does not have
            raise TypeError(f"{name} must be of dtype float16, float32 or float64, got {value.dtype}") from None
        if x.dtype not in (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"{name} must be of dtype float16, float32 or float64, got {x.dtype}")
        if x.ndim not in (2, 3):
            raise ValueError(f"{name} must have shape (batch, features) or (batch, positions, features), got {x.shape}")
        pair.append(x)
    a, b = pair
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError(f"signals must agree with activations in all axes but the last, got {a.shape}, {b.shape}")
    dtype = np.result_type(a, b, np.float32)
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    axes = tuple(range(1, a.ndim))
    finite = np.asarray(np.isfinite(a).all(axis=axes) & np.isfinite(b).all(axis=axes))
    if not finite.all():
        keep = finite.reshape(-1, *(1,) * (a.ndim - 1))
        a, b = np.where(keep, a, dtype.type(0)), np.where(keep, b, dtype.type(0))
    return _scale_examples(a, b, finite, bias)


def _scale_examples(a: Array, b: Array, finite: npt.NDArray[np.bool_], bias: bool) -> _LayerExamples:
    batch = len(a)
    exponents = np.zeros(batch, np.intc)  # on Windows ldexp takes no wider ones
    ones = np.full(batch, 1.0 if bias else 0.0)
    with np.errstate(over="ignore", under="ignore"):
        sizes = [_sum_squares(_flatten_rows(x)) for x in (a, b)]
    # Where F b is subnormal, a (F b) loses |a| 2^-150, or 2^-1075.
    if a.dtype == np.float32:  # its squares are normal in float64
        ordinary = sizes[0] <= 2.0**40
    else:
        ordinary = np.logical_and.reduce([(s >= 2.0**-400) & (s <= 2.0**80) for s in sizes])
    (odd,) = np.nonzero(~ordinary)
    if not len(odd):
        return _LayerExamples(a, b, finite, exponents, ones)
    scaled: list[Array] = []
    for x, least in ((a, 1.0 if bias else 0.0), (b, 0.0)):
        largest = np.maximum(_flatten_rows(np.abs(x[odd])).max(axis=1, initial=0.0), least)
        shift = np.frexp(largest)[1]
        x = x.copy()
        x[odd] = np.ldexp(x[odd], -shift.reshape(-1, *(1,) * (x.ndim - 1)))
        exponents[odd] += shift
        if x.shape == a.shape and not scaled:
            ones[odd] = np.ldexp(ones[odd], -shift)
        scaled.append(x)
    return _LayerExamples(scaled[0], scaled[1], finite, exponents, ones)


def _compute_layer_norms(pair: _LayerExamples) -> Norms:
    a, b, extra = pair.a, pair.b, pair.ones**2
    with np.errstate(over="ignore", invalid="ignore"):
        if a.ndim == 2:
            squares = _sum_squares(a) + extra
            squares *= _sum_squares(b)
            lost = (a.shape[1] + b.shape[1] + 8) * 2.0**-53
            norms = np.sqrt(squares) * (1 + lost)
        else:
            norms = _sequence_norms(a, b, extra)
        norms = np.ldexp(norms, pair.exponents)
    # An overflow says nothing of the norm but that it is large: the example adds nothing.
    return np.where(pair.finite & ~np.isnan(norms), norms, np.inf)


def _flatten_rows(x: Array) -> Array:
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _sum_squares(x: Array) -> Norms:
    return np.asarray(np.einsum("...j,...j->...", x, x, dtype=np.float64))


def _sequence_norms(a: Array, b: Array, extra: Norms) -> Norms:
    """|sum_t a_t b_t^T|^2 = sum_st (a_s . a_t)(b_s . b_t), or from the sum itself where that is smaller."""
    batch, positions, inputs = a.shape
    outputs = b.shape[2]
    # |b_t| |a_t| bounds every term, so the sum of them squared bounds the rounding of a sum that may cancel.
    lengths = np.sqrt((_sum_squares(a) + extra[:, None]) * _sum_squares(b)).sum(axis=1)
    lost = (inputs + outputs + positions * positions + 8) * 2.0**-53
    squares = np.empty(batch)
    gram = 2 * positions * positions <= (inputs + 1) * outputs
    step = max(1, _CHUNK // (2 * positions * positions if gram else (inputs + 1) * outputs))
    for i in range(0, batch, step):
        x, y = a[i : i + step].astype(np.float64), b[i : i + step].astype(np.float64)
        if gram:
            inner = (x @ x.transpose(0, 2, 1) + extra[i : i + step, None, None]) * (y @ y.transpose(0, 2, 1))
            squares[i : i + step] = inner.sum(axis=(1, 2))
        else:
            squares[i : i + step] = _sum_squares(_flatten_rows(x.transpose(0, 2, 1) @ y))
            squares[i : i + step] += extra[i : i + step] * _sum_squares(y.sum(axis=1))
    norms: Norms = np.sqrt(np.maximum(squares, 0.0) + lost * lengths**2)
    return norms
