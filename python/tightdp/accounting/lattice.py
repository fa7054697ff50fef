"""Laws on a mesh of privacy losses that dominate given ones, and their composition (docs/theory/filters.md section 8).

For errors that are absolute, of 1e-12 or so: enough for the deltas of adaptive choice. The grid engine tilts, and has
relative ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .laws.base import Law

Array = NDArray[np.float64]
_U = 2.0**-53
_NOISE = 1e-13
"""delta above the trivial curve by less is taken for rounding."""


class Lattice(NamedTuple):
    """A dominating measure: ``masses`` on the losses (i - n/2) h, ``beyond`` at infinity; in all 1, rounded up."""

    masses: Array
    beyond: float


def pessimistic(law: Law, losses: Array) -> Lattice:
    """Connects the dots: between nodes the curve of the result is linear in e^eps, at the nodes no less than ``law``'s.

    The lower convex hull of upper bounds at the nodes is above the convex curve itself. Masses are its kinks, inflated
    until the curve they sum up to, of positive terms with errors below 2 n u, is above the bounds again.
    """
    upper = np.array([law.delta(float(loss)).hi for loss in losses])
    x = np.exp(losses)
    # Where the curve is the trivial one but for rounding, one chord from (0, 1) does; nodes would bring noise alone.
    proper = np.flatnonzero(upper > -np.expm1(losses) + _NOISE)
    first = max(int(proper[0]) - 1, 0) if len(proper) else 0
    nodes = np.concatenate(([0], np.arange(first + 1, len(x) + 1)))  # 0 stands for x = 0, i + 1 for node i
    corners = nodes[_hull(np.concatenate(([0.0], x))[nodes], np.concatenate(([1.0], upper))[nodes])]
    at, height = np.concatenate(([0.0], x))[corners], np.concatenate(([1.0], upper))[corners]
    kinks = np.diff(np.concatenate((np.diff(height) / np.diff(at), [0.0])))  # mass e^{-loss}
    weights = np.zeros(len(x))
    weights[corners[1:] - 1] = np.maximum(kinks, 0.0)
    beyond = float(height[-1])
    # delta at node i is beyond + sum over j >= i of (x_{j+1} - x_j) (weights above j): the same sums upwards.
    above = np.cumsum(weights[::-1])[::-1]
    rises = np.diff(x) * above[1:]
    curve = beyond + np.concatenate((np.cumsum(rises[::-1])[::-1], [0.0]))
    total = beyond + float((weights * x).sum())
    short = max(float(np.max(upper / np.maximum(curve, 5e-324), initial=0.0, where=upper > 0)), 1.0 / total)
    inflate = max(short, 1.0) * (1 + 8 * len(x) * _U)
    return Lattice(weights * x * inflate, beyond * inflate)


def _hull(x: Array, y: Array) -> NDArray[np.intp]:
    """The corners of the lower convex hull of points in ascending order."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept)


def compose(parts: list[tuple[Lattice, int]], losses: Array) -> Lattice:
    """The composition, by circular convolution; what wraps around, and all rounding, is charged to infinity."""
    n = len(losses)
    sums = [float(law.masses.sum()) for law, _ in parts]
    log_total = math.fsum(count * math.log(s) for s, (_, count) in zip(sums, parts, strict=True))
    at_infinity = math.fsum(count * math.log1p(law.beyond / s) for s, (law, count) in zip(sums, parts, strict=True))
    laws = [(law.masses / s, count) for s, (law, count) in zip(sums, parts, strict=True)]
    spectra = [(_core.rfft_forward(np.fft.ifftshift(law)), count) for law, count in laws]
    product = None
    for spectrum, count in spectra:
        raised = _core.rfft_power(spectrum, count)
        product = raised if product is None else _core.rfft_multiply(product, raised)
    assert product is not None, "nothing to compose"
    masses = np.fft.fftshift(_core.rfft_inverse(product))
    lost = _rounding(spectra, masses, n) + _wrapped(laws, losses)
    total = math.exp(log_total) * (1 + 1e-12)
    return Lattice(np.maximum(masses, 0.0) * total, total * (math.expm1(at_infinity) * (1 + 1e-12) + lost))


def _rounding(spectra: list[tuple[Array, int]], masses: Array, n: int) -> float:
    """Bound of the sum of |errors| of the masses (docs/theory/fft.md, Theorems 2 and 3, coefficient by coefficient)."""
    kappa = _core.rfft_rounding_bound(n)
    logs = [np.log(_magnitudes(spectrum) + kappa) for spectrum, _ in spectra]
    whole = np.sum([count * log for log, (_, count) in zip(logs, spectra, strict=True)], axis=0)
    error = np.full(len(whole), 1e-130)
    for log, (_, count) in zip(logs, spectra, strict=True):
        error += count * kappa * np.exp(whole - log) + (_core.rfft_power_bound(count) + 4 * _U) * np.exp(whole)
    of_spectrum = math.sqrt(2 * float((error * error).sum()))
    of_inverse = math.sqrt(n) * kappa * (math.sqrt(float((masses * masses).sum())) + of_spectrum)
    return (of_spectrum + of_inverse) * (1 + 1e-9)


def _magnitudes(spectrum: Array) -> Array:
    """|X_f|, one of each conjugate pair, out of the layout of fft/real_fft.hpp."""
    found = [np.abs(spectrum[:2])]
    m = len(spectrum)
    while m >= 4:
        found.append(np.hypot(spectrum[m // 2 : 3 * m // 4], spectrum[3 * m // 4 : m]))
        m //= 2
    return np.concatenate(found)


def _wrapped(laws: list[tuple[Array, int]], losses: Array) -> float:
    """Chernoff's bound of the mass that a composition has outside the mesh, above and below."""
    end = min(-losses[0], losses[-1])
    tilts = np.geomspace(1e-2, 1e3, 48)
    above, below = np.zeros(len(tilts)), np.zeros(len(tilts))
    for law, count in laws:
        for i, c in enumerate(tilts):
            above[i] += count * _log_moment(law, losses, c)
            below[i] += count * _log_moment(law, losses, -c)
    return float(np.exp((above - tilts * end).min()) + np.exp((below - tilts * end).min())) * (1 + 1e-9)


def _log_moment(law: Array, losses: Array, c: float) -> float:
    exponents = c * losses
    top = float(exponents.max())
    return top + math.log(float((law * np.exp(exponents - top)).sum()) + 1e-300) + 1e-12
