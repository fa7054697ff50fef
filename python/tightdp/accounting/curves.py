"""What one asks of a composition beside epsilon and delta: its privacy profile, trade-off curve and attack risks.

Derivations: docs/theory/conversions.md sections 8 and 9.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _check
from . import queries
from .bound import Bound
from .composition import Composition
from .options import Options

Array = NDArray[np.float64]
_LARGEST = float(np.finfo(np.float64).max)


class Curve(NamedTuple):
    """Arrays ``lower <= truth <= upper``, element by element, of the shape that was asked for."""

    lower: Array
    upper: Array

    @property
    def width(self) -> Array:
        """upper - lower"""
        return self.upper - self.lower


def real_array(name: str, values: ArrayLike, least: float, most: float) -> Array:
    """``values`` as finite doubles within [least, most], or an error that says so."""
    array = _check.reals(name, values, f"real numbers in [{least:g}, {most:g}]")
    if not np.all(np.isfinite(array) & (array >= least) & (array <= most)):
        raise ValueError(f"{name} must be finite real numbers in [{least:g}, {most:g}]")
    return array


def whole_array(name: str, values: ArrayLike) -> Array:
    """``values`` as whole doubles in [1, 2^53], none of them rounded, or an error that says so."""
    accepted = f"whole numbers in [1, {_check.MAX_COUNT}]"
    array = _check.reals(name, values, accepted)
    given = np.asarray(values, object if isinstance(values, (list, tuple)) else None)  # NumPy rounds what lists mix
    exact = array if given.dtype.kind == "f" and given.itemsize <= 8 else given.astype(object)
    if not np.all((array >= 1) & (array <= _check.MAX_COUNT) & (array == np.floor(array)) & (array == exact)):
        raise ValueError(f"{name} must be {accepted}")
    return array


def profile(composition: Composition, epsilons: ArrayLike, options: Options) -> Curve:
    """delta at each epsilon. As delta never increases, a neighbour's bound may improve one's own."""
    at = real_array("epsilons", epsilons, -_LARGEST, _LARGEST)
    order = np.argsort(at, axis=None)
    bounds = [queries.delta(composition, float(eps), options) for eps in at.ravel()[order]]
    lower, upper = np.empty(at.size), np.empty(at.size)
    lower[order] = np.maximum.accumulate([b.lower for b in bounds][::-1])[::-1] if bounds else []
    upper[order] = np.minimum.accumulate([b.upper for b in bounds]) if bounds else []
    return Curve(lower.reshape(at.shape), upper.reshape(at.shape))


def advantage(composition: Composition, options: Options) -> Bound:
    """delta(0), the total variation distance."""
    return queries.delta(composition, 0.0, options)


def bayes_risk(composition: Composition, priors: ArrayLike, options: Options) -> Curve:
    """prior * (1 - delta(log((1 - prior) / prior))), the least error of guessing whether the record is there."""
    at = real_array("prior", priors, 0.0, 1.0)
    lower, upper = np.zeros(at.size), np.zeros(at.size)
    for i, prior in enumerate(at.ravel()):
        if 0 < prior < 1:
            b = queries.delta(composition, math.log1p(-prior) - math.log(prior), options)
            slack = 4e-15  # of the logarithm (delta has slope at most 1 in eps) and of the product
            most = min(prior, 1 - prior)
            lower[i] = min(max(prior * (1 - b.upper - slack), 0.0), most)
            upper[i] = min(prior * (1 - b.lower + slack), most)
    return Curve(lower.reshape(at.shape), upper.reshape(at.shape))
