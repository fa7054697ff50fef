"""Composition of discretised losses for the ``prv`` engine, by the Fourier transforms of an array library.

The same code runs on a device (CuPy's arrays, cuFFT) and, for tests, on the host (NumPy). Section 4 of
docs/theory/fft.md states the assumptions on the library's transforms, and which of them are checked. The compiled core
chooses the grid, corrects the means, and computes epsilon or delta from the composed losses.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

_UNIT = 2.0**-53
_CHUNK = 32
"""Number of terms that the library may add in any order. Longer sums are computed in several levels of such sums. The
additions on all levels are counted to bound the error."""
_LEAST = 2.0**-480
"""Smallest absolute value in a spectrum that is kept. Products of smaller numbers would underflow (docs/theory/fft.md,
Theorem 4)."""
BYTES_A_POINT = 128.0
"""Bytes of a device's memory for each grid point: for the masses, two spectra with their products and masks, and the
work space of the transform."""

Loss = tuple[str, float, float, int, float]
"""A loss as (name, first parameter, sampling probability, count, 0). The 0 stands for the probability of an infinite
loss, which the core accounts for itself."""
Sums = tuple[float, float, float]


class PrvBackend(Protocol):
    """An array library, with a method that computes the cells of a loss."""

    name: str
    xp: Any

    def compute_prv_cells(self, loss: Loss, h: float, first: int, count: int) -> Any:
        """Returns the probability that the loss is in ((first + i - 1/2) h, (first + i + 1/2) h], for each
        i < count."""

    def copy_to_host(self, array: Any) -> Any:
        """Returns a NumPy array with the same values."""


def compose_prv_by_transforms(
    backend: PrvBackend, losses: list[Loss], h: float, n: int, spans: list[tuple[int, int]]
) -> tuple[Any, list[Sums], float, float]:
    """Returns the same results as the core's ``compose``.

    The results are n masses of the composed loss, sums over each loss's cells, the error bound kappa of the transform,
    and the relative error of each mass.
    """
    xp = backend.xp
    kappa = check_prv_transform_rounding(backend, n)
    product, sums, chain = None, [], 0
    for loss, (first, count) in zip(losses, spans, strict=True):
        cells = backend.compute_prv_cells(loss, h, first, count)
        found, additions = _sum_prv_cells(xp, cells, first)
        sums.append(found)
        masses, folds = _wrap_prv_cells(xp, cells, first, n)
        spectrum = _raise_prv_spectrum_to_power(xp, xp.fft.rfft(masses / found[0]), loss[3])
        product = spectrum if product is None else product * spectrum
        chain = max(chain, additions + folds)
    # The relative error of a mass, in units of the unit roundoff, is at most 8 plus 1 for each addition. The 8 are 4
    # for the cells, 1 for the division, and 3 that the compiled core adds too.
    return backend.copy_to_host(xp.fft.irfft(product, n)), sums, kappa, (8 + chain) * _UNIT


def bound_prv_transform_rounding(n: int) -> float:
    """Returns the error bound kappa of a library's transforms of length n, a power of two (docs/theory/fft.md, section
    4)."""
    return 10 * _UNIT * (math.log2(n) + 2)


_checked: set[tuple[str, int]] = set()


def check_prv_transform_rounding(backend: PrvBackend, n: int) -> float:
    """Returns the bound of ``bound_prv_transform_rounding``, after a check on a sequence whose transform is known.

    The first time that a length is used, the library's transforms must err by at most half of the bound on this
    sequence. Raises RuntimeError if they err by more.
    """
    kappa = bound_prv_transform_rounding(n)
    if (backend.name, n) not in _checked:
        forward, inverse = measure_prv_transform_errors(backend.xp, n)
        if not (forward <= kappa / 2 and inverse <= kappa / 2):
            raise RuntimeError(
                f"the Fourier transform of {backend.name} errs by {forward:g} and {inverse:g} at length {n}, "
                f"over half of {kappa:g}: its bounds cannot be certified"
            )
        _checked.add((backend.name, n))
    return kappa


def measure_prv_transform_errors(xp: Any, n: int) -> tuple[float, float]:
    """Returns the errors of the transform and of its inverse for a geometric distribution.

    The first is the largest error of a coefficient, and the second is the relative error of the inverse in norm. Let
    w = e^{-2 pi i/n}. The distribution p_j = r^j (1 - r)/(1 - r^n) has the transform (1 - r)/(1 - r w^f) at the
    frequency f. The p_j and their transform are computed with errors of some 20 u, where u is the unit roundoff. The
    denominator is computed without cancellation as (1 - r) + 2 r sin^2(t/2) + i r sin(t) for t = 2 pi f/n.
    """
    rest = 1.0 / max(2, n // 8)
    log_r = math.log1p(-rest)
    p = xp.exp(xp.arange(n, dtype=xp.float64) * log_r) * (rest / -math.expm1(n * log_r))
    half = xp.arange(n // 2 + 1, dtype=xp.float64) * (math.pi / n)
    sine, cosine = xp.sin(half), xp.cos(half)
    spectrum = rest / ((rest + 2 * (1 - rest) * sine * sine) + 1j * (2 * (1 - rest) * sine * cosine))
    forward = xp.abs(xp.fft.rfft(p) - spectrum).max()
    inverse = xp.sqrt(((xp.fft.irfft(spectrum, n) - p) ** 2).sum() / (p * p).sum())
    return float(forward), float(inverse)


def _sum_prv_cells(xp: Any, cells: Any, first: int) -> tuple[Sums, int]:
    """Returns the sums of mass, mass * index and mass * |index|, and the number of roundings that affect a term."""
    index = xp.arange(cells.size, dtype=xp.float64) + float(first)
    rows = xp.stack([cells, cells * index, cells * xp.abs(index)])
    roundings = 2  # one for the product, and one at the end of fsum
    while rows.shape[1] > 16 * _CHUNK:
        missing = -rows.shape[1] % _CHUNK
        if missing:
            rows = xp.concatenate([rows, xp.zeros((3, missing))], axis=1)
        rows = rows.reshape(3, -1, _CHUNK).sum(axis=2)
        roundings += _CHUNK - 1
    total, moment, magnitude = (math.fsum(row) for row in rows.tolist())
    return (total, moment, magnitude), roundings


def _wrap_prv_cells(xp: Any, cells: Any, first: int, n: int) -> tuple[Any, int]:
    """Returns the n sums of all cells i with the same (first + i) mod n, and the largest number of cells in a sum."""
    shift = first % n
    turns = -(-(shift + cells.size) // n)
    line = xp.zeros(turns * n)
    line[shift : shift + cells.size] = cells
    return (line if turns == 1 else line.reshape(turns, n).sum(axis=0)), turns


def _raise_prv_spectrum_to_power(xp: Any, z: Any, count: int) -> Any:
    """Returns z^count by repeated squaring. Numbers whose products could underflow become zero."""
    result = None
    while True:
        if count & 1:
            result = z if result is None else _discard_small_prv_spectrum(xp, result * z)
        count >>= 1
        if count == 0:
            return result
        z = _discard_small_prv_spectrum(xp, z * z)


def _discard_small_prv_spectrum(xp: Any, z: Any) -> Any:
    """Returns ``z`` with numbers whose products could underflow set to zero."""
    return xp.where(xp.abs(z.real) + xp.abs(z.imag) >= _LEAST, z, 0)
