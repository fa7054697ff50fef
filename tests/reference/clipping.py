"""Plain NumPy versions of python/tightdp/clipping_and_noise/gradients.py in float64."""

from __future__ import annotations

import numpy as np


def clipped_sum(
    g, max_norm, weights=None, center=None, scale=None, normalize=False, stability=0.01
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sum, the norms, and the sum of absolute values that rounding errors are multiples of. g: (batch, dim)."""
    g = np.asarray(g, np.float64)
    finite = np.isfinite(g).all(axis=1)
    t = np.where(finite[:, None], g, 0.0)
    if center is not None:
        t = t - center
    if scale is not None:
        t = t / scale
    largest = np.abs(t).max(axis=1, initial=1e-300)
    norms = np.sqrt(((t / largest[:, None]) ** 2).sum(axis=1)) * largest
    ratios = max_norm / (norms + stability) if normalize else np.minimum(1.0, max_norm / np.maximum(norms, 1e-300))
    factors = np.where(finite, ratios, 0.0)
    if weights is not None:
        factors = factors * weights
    rows = factors[:, None] * t
    return rows.sum(axis=0), np.where(finite, norms, np.inf), np.abs(rows).sum(axis=0)


def error_bound(magnitude, batch, dtype, transformed=False) -> np.ndarray:
    """The bound of docs/theory/clipping.md, section 3; ``magnitude`` is the sum of absolute values."""
    if dtype == np.float64:
        return (batch + 600) * 2.0**-53 * magnitude + 1e-300
    if transformed:
        return (2.0**-24 + 2.0**-30) * magnitude + 1e-37
    return 9 * 2.0**-24 * magnitude + 1e-37
