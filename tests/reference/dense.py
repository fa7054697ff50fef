"""Dense layers in plain NumPy, rounding after rounding in the order of docs/theory/exact-products.md, and the sums in
Python's integers. Rows are taken one by one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

F = np.float64
LARGEST_ENTRY = 127 * 256 + 127
"""Inputs beyond are confined to this in fewer digits."""
LARGEST_WEIGHT = 127 * 256**2 + LARGEST_ENTRY
"""Weights of integer products are at most this."""


def halved(lanes):
    """Halves added to halves, in the lanes' own type."""
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def in_lanes(values, lanes):
    """A sum whose term j is added to lane j mod ``lanes``, the last line padded with zeros."""
    padded = np.concatenate([values, np.zeros(-len(values) % lanes, values.dtype)]).reshape(-1, lanes)
    sums = np.zeros(lanes, values.dtype)
    for line in padded:
        sums = sums + line
    return halved(sums)


def affine(x, table, bias):
    """One row's scores, in the type of x."""
    lanes, scores = 64 // x.itemsize, []
    for row, b in zip(table, np.zeros(len(table), x.dtype) if bias is None else bias, strict=True):
        if len(x) < lanes:
            total = x.dtype.type(0)
            for product in x * row:
                total = total + product
        else:
            whole = len(x) // lanes * lanes
            sums = np.zeros(lanes, x.dtype)
            for j in range(0, whole, lanes):
                sums = sums + x[j : j + lanes] * row[j : j + lanes]
            if whole < len(x):  # the last line reaches back over columns that count once
                fresh = np.arange(len(x) - lanes, len(x)) >= whole
                sums = sums + x[-lanes:] * np.where(fresh, row[-lanes:], x.dtype.type(0))
            total = halved(sums)
        scores.append(total + b)
    return np.array(scores, x.dtype)


def power_below(x):
    return math.ldexp(1.0, math.frexp(x)[1] - 1)


def integers(x, bias, digits=20):
    """The step of a row and its integers q, with round(step) last under a bias. A row that is too large has step 0."""
    wide = x.astype(F)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        square = in_lanes(wide * wide, 16) + (1.0 if bias else 0.0)
    width = len(x) + bias
    if not 2.0**-800 <= square <= 2.0**800:
        return float(square < 1), np.zeros(width)
    if not digits:
        return 1.0, wide
    step = 2.0 ** (digits - 1) / power_below(math.sqrt(square))
    return step, np.rint(np.append(wide, np.ones(int(bias))) * step)


def slack(terms):
    """Of the comparison of squares with the bound."""
    return (terms + 16) * 2.0**-52


def contribution(layers, bound, inverse_grid, moved=None, normalize=False, share=1.0):
    """m_k of one record, as a list of Python integers: layers are (x, r, bias), ``moved`` (A, grid / b) a layer.
    ``share`` multiplies the factor that clips.

    The floats are those of the kernel, one by one; the comparison at the end is made in integers where the kernel's
    is in floats with a margin, so that a record kept here and dropped there (or the other way about) would show.
    """
    found = [(*integers(x, bias), r) for x, r, bias in layers]
    size = sum(len(q) * len(r) for _, q, r in found)
    errors = _in_units(found, inverse_grid)
    if errors is None:
        return [0] * size
    if moved is None:
        weights, factor = _plain([q for _, q, _ in found], errors, bound, normalize, share=share), 0
    else:
        weights, factor = _moved([q for _, q, _ in found], errors, bound, moved, normalize, share)
    out = []
    for i, (_, q, _) in enumerate(found):
        for o, w in enumerate(weights[i]):
            centers = [0] * len(q) if moved is None else moved[i][0][o]
            out += [int(w) * int(x) - int(factor) * int(a) for x, a in zip(q, centers, strict=True)]
    return out


def short_contribution(layers, bound, inverse_grid):
    """m_k of one record in fewer digits (section 7), as a list of Python integers: layers are (x, r)."""
    found = [(*integers(x, False, 0 if len(r) == 1 else 15), r) for x, r in layers]
    errors, out = _in_units(found, inverse_grid), []
    if errors is None:
        return [0] * sum(len(x) * len(r) for x, r in layers)
    weights = _plain([q for _, q, _ in found], errors, bound, False, [len(r) == 1 for _, r in layers])
    for (_, q, r), ws in zip(found, weights, strict=True):
        if len(r) == 1:
            out += [int(ws[0] * x) for x in q]
        else:
            out += [int(w) * int(x) for w in ws for x in np.clip(q, -LARGEST_ENTRY, LARGEST_ENTRY)]
    return out


def integer_product(weights, inputs):
    """sum_k w_ko q_kj in integers of 64 bits, which hold it for fewer than 2^24 records."""
    return weights.T.astype(np.int64) @ inputs.astype(np.int64)


def _in_units(found, inverse_grid):
    """Errors in units in which the gradient is v (x) q; None if the record is to contribute nothing."""
    if any(step == 0 for step, _, _ in found):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        errors = [r.astype(F) * (inverse_grid / step if q.any() else 0.0) for step, q, r in found]
    return errors if all((np.abs(v) <= 2.0**1022).all() for v in errors) else None


def _squares(values, squares):
    """sum over layers of Q (sum over outputs of v^2)."""
    total = F(0)
    for v, q2 in zip(values, squares, strict=True):
        part = F(0)
        for x in v:
            part = part + x * x
        total = total + part * q2
    return total


def _plain(rows, errors, bound, normalize, formed=None, share=1.0):
    """Weights of each layer, integers but where it is ``formed``."""
    formed = formed or [False] * len(rows)
    largest = max(float(np.abs(v).max(initial=0.0)) for v in errors)
    squares = [
        in_lanes(q * q, 16) * (1 + 2.0**-24) if one else F((q * q).sum()) for q, one in zip(rows, formed, strict=True)
    ]
    scale = 1 / power_below(max(largest, 2.0**-1000))
    norm = np.sqrt(_squares([v * scale for v in errors], squares))
    margin = F(0)
    for v, q2, one in zip(errors, squares, formed, strict=True):
        margin = margin + (F(0) if one else F(len(v)) * q2)
    aim = 1 - (2.0**-36 + 2 * slack(sum(len(v) + 1 for v in errors)))
    goal = bound * aim - 0.5 * np.sqrt(margin)
    factor = F(0)
    if norm > 0 and goal > 0:
        factor = goal / norm if normalize else min(goal / norm, 1 / scale)
    factor = factor * share
    weights = [v * scale * factor for v in errors]
    weights = [ws if one else np.rint(ws) for ws, one in zip(weights, formed, strict=True)]
    exact = sum(sum(Fraction(w) ** 2 for w in ws) * Fraction(q2) for ws, q2 in zip(weights, squares, strict=True))
    return weights if exact <= Fraction(bound) ** 2 else [0 * w for w in weights]


def _moved(rows, errors, bound, moved, normalize, share):
    unit = 2.0**22

    def square(values, f):
        lanes = np.zeros(16)
        for q, v, (a, s) in zip(rows, values, moved, strict=True):
            for o in range(len(v)):
                t = (v[o] * q - f * a[o]) * s[o]
                for line in _lines(t * t):
                    lanes = lanes + line
        return halved(lanes)

    lanes = np.zeros(16)
    for q, (_, s) in zip(rows, moved, strict=True):
        for line in _lines(q * q * (s**2).sum(axis=0)):
            lanes = lanes + line
    center = np.concatenate([(a * s).ravel() for a, s in moved])
    margin = 0.5 * (np.sqrt(halved(lanes)) + float(np.linalg.norm(center)) * unit * (1 + 1e-9) / unit)
    loose = slack(len(center))
    norm, goal = np.sqrt(square(errors, unit)), bound * (1 - (2.0**-36 + 2 * loose)) - margin
    if not (norm > 0 and norm <= 2.0**1022 and goal > 0):
        return [0 * v for v in errors], 0
    factor = share * (goal / norm if normalize or goal / norm < 1 else 1.0)
    weights, f = [np.rint(v * factor) for v in errors], np.rint(factor * unit)
    kept = square(weights, f) <= bound * bound * (1 - loose)
    return (weights, f) if kept else ([0 * v for v in errors], 0)


def _lines(values):
    return np.concatenate([values, np.zeros(-len(values) % 16)]).reshape(-1, 16)
