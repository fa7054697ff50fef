"""Curves of mixtures of Gaussians against each other, by quadrature in plain NumPy: one step, and two of any kinds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr


@dataclass
class Pair:
    """sum p N(a, 1) and sum q N(b, 1): lists of (mean, weight)."""

    p: list
    q: list

    def density(self, side, z):
        return sum(w * np.exp(-0.5 * (z - m) ** 2) for m, w in side) / np.sqrt(2 * np.pi)

    def loss(self, z):
        with np.errstate(divide="ignore"):
            p = np.logaddexp.reduce([np.log(w) - 0.5 * (z - m) ** 2 for m, w in self.p if w > 0], axis=0)
            q = np.logaddexp.reduce([np.log(w) - 0.5 * (z - m) ** 2 for m, w in self.q if w > 0], axis=0)
        return p - q

    def span(self):
        means = [m for m, _ in self.p + self.q]
        return min(means) - 12, max(means) + 12

    def delta(self, eps):
        """H at e^eps of one step, whatever the likelihood ratio: from its crossings on a fine grid."""
        low, high = self.span()
        z = np.linspace(low, high, 20001)
        above = self.loss(z) - eps
        total = 0.0

        def gap(x):
            return float(self.loss(np.array([x]))[0]) - eps

        crossings = np.flatnonzero(np.sign(above[:-1]) != np.sign(above[1:]))
        ends = [-np.inf, *(brentq(gap, z[i], z[i + 1], xtol=1e-15) for i in crossings), np.inf]
        for left, right in itertools.pairwise(ends):
            middle = np.clip((max(left, low - 1) + min(right, high + 1)) / 2, low - 1, high + 1)
            if gap(middle) > 0:
                mass = sum(w * (ndtr(right - m) - ndtr(left - m)) for m, w in self.p)
                total += mass - np.exp(eps) * sum(w * (ndtr(right - m) - ndtr(left - m)) for m, w in self.q)
        return total

    def table(self):
        """delta at many eps, for ``after``."""
        eps = np.linspace(-40, 40, 160001)
        z = np.linspace(*self.span(), 60001)
        step = z[1] - z[0]
        p, q, y = self.density(self.p, z), self.density(self.q, z), self.loss(z)
        order = np.argsort(y)
        above_p, above_q = (np.cumsum((v[order] * step)[::-1])[::-1] for v in (p, q))
        at = np.searchsorted(y[order], eps, side="right")
        above_p, above_q = np.append(above_p, 0.0)[at], np.append(above_q, 0.0)[at]
        return eps, above_p - np.exp(np.minimum(eps, 600)) * above_q

    def after(self, other, eps):
        """H at e^eps of this step and then ``other``: the mean of the second's curve, to about 1e-6."""
        at, values = other.table()
        z = np.linspace(*self.span(), 4001)
        rest = np.interp(eps - self.loss(z), at, values)
        return float(np.sum(self.density(self.p, z) * rest) * (z[1] - z[0]))


def labelled(first, share, second, rest):
    """Curves of what is one pair with a probability, and else another, as functions of eps."""
    return lambda eps: share * first.delta(eps) + rest * second.delta(eps)


def scaled(weights, factor):
    return [(m * factor, w) for m, w in weights]
