"""Exact noise: integers whose distribution is the one that is accounted for, to the last bit.

Floating-point Gaussian noise is not the Gaussian mechanism, because the set of floats that a release can take depends
on the protected value (Mironov, CCS 2012). Here every example is rounded to a public grid before it is added. So sums
are integers in units of the grid. The noise consists of integers too: real-valued noise that is rounded, or discrete
noise. Proofs are in docs/theory/noise.md, sections 4 to 6. Drawing discrete noise takes a random time. Whoever measures
this time to the nanosecond learns something about the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core import RandomStream
from .._support import _check
from .._support.number_texts import format_up
from ..mechanisms import ZCDP, DiscreteGaussian, Gaussian, Mechanism
from . import clipping, kernels
from .noise import RandomSource, Size, check_size_of_noise, resolve_random_source

Integers = npt.NDArray[np.int64]

_LOW, _HIGH = Fraction(1, 2**10), Fraction(2**40)
"""Range of the scale of discrete noise."""


def discrete_gaussian(sigma: float | Fraction, size: Size, *, rng: RandomSource | None = None) -> Integers:
    """Returns integers n with probability proportional to exp(-n^2 / (2 sigma^2)), exactly.

    sigma : int, float or Fraction in [2^-10, 2^40], whose value is taken exactly.
    size : shape of the result, an integer >= 0 or a tuple of them.
    rng : SecureRandom (the default) or Philox.

    Raises ValueError or TypeError for an argument out of its range. Source: Canonne, Kamath and Steinke (2020).

    If one record moves an integer vector by at most D in L2 norm, the vector plus this noise is D^2/(2 sigma^2)-zCDP.
    For a single integer that one record moves by at most an integer s, the mechanism is ``DiscreteGaussian(sigma, s)``.

    >>> discrete_gaussian(3, 4, rng=__import__("tightdp").Philox(1)).dtype
    dtype('int64')
    """
    return _draw_exact_noise("sigma", sigma, size, rng, kernels.add_discrete_gaussian)


def discrete_laplace(scale: float | Fraction, size: Size, *, rng: RandomSource | None = None) -> Integers:
    """Returns integers n with probability proportional to exp(-|n| / scale), exactly: the geometric mechanism.

    scale : int, float or Fraction in [2^-10, 2^40], whose value is taken exactly, as a rational number
    size, rng : as for ``discrete_gaussian``

    Raises ValueError or TypeError for an argument out of its range. If one record moves an integer vector by at most D
    in L1 norm, the vector plus this noise is D/scale-DP. Charge ``DiscreteLaplace(scale, D)``.

    >>> dp.discrete_laplace(10, 3, rng=dp.Philox(1)).shape
    (3,)
    """
    return _draw_exact_noise("scale", scale, size, rng, kernels.add_discrete_laplace)


def rounded_gaussian(sigma: npt.ArrayLike | Fraction, size: Size, *, rng: RandomSource | None = None) -> Integers:
    """Returns the integers nearest to draws of N(0, sigma^2), exactly: floor(sigma Z + 1/2), Z a real normal.

    sigma : int, float or Fraction in (0, 2^39] that a double represents exactly. It may also be an array
        of doubles, one for each integer of the result.
    size : shape of the result, an integer >= 0 or a tuple of them
    rng : SecureRandom (the default) or Philox

    Raises ValueError or TypeError for an argument out of its range.

    An integer vector plus this noise is the Gaussian mechanism on real numbers, followed by rounding, which is
    post-processing. If one record moves the vector by at most D in L2 norm, the mechanism is ``Gaussian(sigma / D)``.
    On a Poisson sample, charge ``PoissonSampled`` of this mechanism. The integers depend on the source's key and
    stream, and not on the number of threads or the machine.

    >>> rounded_gaussian([0.01, 1000.0], 2, rng=__import__("tightdp").Philox(1)).tolist()
    [0, -881]
    """
    shape, n = check_size_of_noise(size)
    each = isinstance(sigma, (np.ndarray, list, tuple))
    deviations = (
        _check.check_array_argument("sigma", sigma) if each else np.array(_check_exact_noise_deviation("sigma", sigma))
    )
    if not ((deviations > 0) & (deviations <= 2.0**39)).all():
        raise ValueError(f"sigma must be in (0, 2^39], got {sigma!r}")
    if each and deviations.shape != shape:
        raise ValueError(f"sigma must be a number or of shape {shape}, as size is, got shape {deviations.shape}")
    rng = resolve_random_source(rng)
    out = np.zeros(n, np.int64)
    kernels.add_rounded_normals(rng.stream(), deviations.reshape(-1) if each else deviations, out)
    return out.reshape(shape)


class ExactRelease(NamedTuple):
    """A noisy clipped sum and the mechanism to charge for its release.

    Fields
    ------
    value : the noisy sum
    mechanism : the charge
    grid : a public power of two, of which all values are multiples
    sigma : the deviation of the noise, in steps of the grid

    ``exact_release`` returns an ``ExactRelease``, and raises an error for a wrong argument.

    >>> import numpy as np
    >>> release = exact_release(np.ones((4, 2)), 1.0, 2.0, grid=0.5)
    >>> release.grid, release.sigma >= 4.0
    (0.5, True)
    """

    value: Any
    """Exact multiples of ``grid``, as a float64 array, or as a list of arrays if ``grads`` was a list."""
    mechanism: Mechanism
    """Mechanism to charge if neighbours differ by adding or removing one example. Charge ``PoissonSampled`` of this
    mechanism if the batch was a Poisson sample."""
    grid: float
    sigma: float
    """Standard deviation parameter of the noise, in units of the grid. It is at least noise_multiplier * max_norm /
    grid."""


def exact_release(
    grads: Any,
    max_norm: float,
    noise_multiplier: float,
    *,
    noise: Literal["gaussian", "discrete_gaussian"] = "gaussian",
    grid: float | None = None,
    rng: RandomSource | None = None,
) -> ExactRelease:
    """Clips and adds noise as ``clip_and_noise`` does, and also returns the charge and the grid. The noise may be
    discrete.

    Every example is clipped to ``max_norm`` and truncated toward zero to multiples of the grid. Truncation never
    increases the norm. So one example moves the integer sum by at most max_norm / grid in L2 norm, rounding included.
    Truncation changes each coordinate of each example by less than one grid step.

    Parameters
    ----------
    grads : as for ``clipped_sum``, in host memory.
    max_norm : float in [1e-30, 1e30].
    noise_multiplier : float > 0.
    noise : "gaussian" rounds real-valued Gaussian noise to the grid and costs ``Gaussian(noise_multiplier)``. Every
        engine can account for this mechanism, also on Poisson samples. "discrete_gaussian" costs
        ``ZCDP(1 / (2 noise_multiplier^2))``, or the exact ``DiscreteGaussian`` if there is a single column.
    grid : a public power of two. The default is the grid of ``clip_and_noise``. With the default, the values
        equal those of ``clip_and_noise``.
    rng : SecureRandom (the default) or Philox.

    Raises ValueError if noise_multiplier * max_norm / grid is not in [2^-10, 2^39], and wherever ``clip_and_noise``
    raises an error.

    >>> import numpy as np
    >>> r = exact_release(np.ones((4, 2)), 1.0, 2.0)
    >>> r.mechanism, bool((r.value % r.grid == 0).all())
    (Gaussian(noise_multiplier=2.0), True)
    """
    rng = resolve_random_source(rng)
    bound = clipping.exact_bound("max_norm", max_norm)
    multiplier = _check.positive("noise_multiplier", noise_multiplier)
    if noise not in ("gaussian", "discrete_gaussian"):
        raise ValueError(f'noise must be "gaussian" or "discrete_gaussian", got {noise!r}')
    if grid is None:
        clipping.compute_clip_and_noise_deviation(multiplier, bound, "float64")
    step = clipping.find_clip_and_noise_grid(bound, multiplier) if grid is None else clipping.check_release_grid(grid)
    sigma = Fraction(multiplier) * Fraction(bound) / Fraction(step)
    if grid is None and sigma < _LOW:
        least = format_up(float(_LOW) * (step / bound), ".3g")
        raise ValueError(
            f"noise_multiplier must be at least {least} with this max_norm and no grid, got {multiplier!r}"
        )
    if not _LOW <= sigma <= _HIGH / 2 or bound / step >= 2.0**62:
        raise ValueError(
            "grid must be a power of two with noise_multiplier * max_norm / grid in [2^-10, 2^39] and "
            f"max_norm / grid under 2^62, got {step!r}"
        )
    run = clipping.prepare_clip_and_noise_call(grads, clipping.ClippingSettings(bound), exact=True, integers=True)
    mechanism: Mechanism
    if noise == "gaussian":
        values = run.outs = [np.empty(shape) for shape in run.found.shapes]
        run.write_noisy_sums(multiplier * bound, rng, step)
        spread, mechanism = clipping.convert_deviation_to_grid(step, multiplier * bound), Gaussian(multiplier)
    else:
        run.write_noisy_sums(0.0, None, step)
        # sigma is rounded up to few digits. Rounding adds less than a relative 2^-20 to sigma, and keeps the numerator
        # and the denominator short.
        sigma = _round_noise_deviation_up(sigma, 20)
        for total in run.outs:
            kernels.add_discrete_gaussian(rng.stream(), sigma.numerator, sigma.denominator, total.reshape(-1))
        values, spread = [total * step for total in run.outs], float(sigma)
        mechanism = ZCDP(math.nextafter(float(1 / (2 * Fraction(multiplier) ** 2)), math.inf))
        if run.found.columns == 1:
            mechanism = DiscreteGaussian(spread, max(1, math.floor(Fraction(bound) / Fraction(step))))
    return ExactRelease(values if run.found.is_list else values[0], mechanism, step, spread)


def _draw_exact_noise(
    name: str,
    parameter: float | Fraction,
    size: Size,
    rng: RandomSource | None,
    add: Callable[[RandomStream, int, int, Integers], None],
) -> Integers:
    """Returns noise with a rational parameter, drawn from a new stream of the source."""
    ratio = _check_exact_noise_ratio(name, parameter)
    rng = resolve_random_source(rng)
    shape, n = check_size_of_noise(size)
    out = np.zeros(n, np.int64)
    add(rng.stream(), ratio.numerator, ratio.denominator, out)
    return out.reshape(shape)


def _check_exact_noise_ratio(name: str, value: float | Fraction) -> Fraction:
    ratio = value if isinstance(value, Fraction) else Fraction(_check.positive(name, value))
    if not _LOW <= ratio <= _HIGH or ratio.numerator >= 2**53 or ratio.denominator > 2**63:
        raise ValueError(
            f"{name} must be a float, or a fraction with a numerator under 2^53 and a denominator up to 2^63, "
            f"in [2^-10, 2^40], got {value!r}"
        )
    return ratio


def _check_exact_noise_deviation(name: str, value: Any) -> float:
    x = _check.positive(name, value)
    if isinstance(value, (int, Fraction)) and x != value:
        raise ValueError(f"{name} must be a number that a double holds, got {value!r}")
    return x


def _round_noise_deviation_up(sigma: Fraction, bits: int) -> Fraction:
    """Rounds sigma up to about ``bits`` + 1 binary digits."""
    unit = Fraction(2) ** min(0, math.frexp(sigma)[1] - 1 - bits)
    return math.ceil(sigma / unit) * unit
