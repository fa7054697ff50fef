"""The discrete Fourier transform by its definition, in extended precision."""

from __future__ import annotations

import mpmath
import numpy as np
from numpy.typing import NDArray


def roots_of_unity(n: int) -> NDArray[np.clongdouble]:
    """e^{-2 pi i j / n}, correctly rounded to long double."""
    with mpmath.workdps(30):
        z = [mpmath.expjpi(mpmath.mpf(-2 * j) / n) for j in range(n)]
        re = np.array([np.longdouble(mpmath.nstr(v.real, 25)) for v in z])
        im = np.array([np.longdouble(mpmath.nstr(v.imag, 25)) for v in z])
    return re + np.clongdouble(1j) * im


def dft(x: NDArray[np.float64]) -> NDArray[np.clongdouble]:
    """X_f = sum_j x_j e^{-2 pi i f j / n} for f = 0..n-1, by n^2 products."""
    n = len(x)
    table = np.arange(n)[:, None] * np.arange(n)[None, :] % n
    return (roots_of_unity(n)[table] * x.astype(np.longdouble)).sum(axis=1)
