"""Compares tightdp's real Fourier transform with scipy.fft in float64, on one thread. The two take turns.

python bench/fft.py [--rounds 31]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft
from shared import interleaved, options

from tightdp import _core


def assert_same_convolution(x: np.ndarray) -> None:
    """Asserts that both libraries compute the same convolution of x with x.

    Their spectra cannot be compared, because the libraries order them differently.
    """
    ours = _core.rfft_inverse(_core.rfft_power(_core.rfft_forward(x), 2))
    theirs = scipy.fft.irfft(scipy.fft.rfft(x) ** 2, len(x))
    allowed = 8 * _core.rfft_rounding_bound(len(x)) * np.abs(x).sum() * np.linalg.norm(x)
    assert np.linalg.norm(ours - theirs) <= allowed


def main() -> None:
    rounds = options(__doc__, rounds=31).rounds
    print(f"instruction set: {_core.isa()}; scipy {scipy.__version__}; median of {rounds} rounds")
    header = f"{'forward us':>11} {'scipy us':>10} {'ratio':>6}"
    print(f"{'length':>8} {header} {header.replace('forward', 'inverse')}")
    for bits in range(12, 23):
        n = 1 << bits
        x = np.random.default_rng(bits).random(n)
        assert_same_convolution(x)
        ours, theirs = _core.rfft_forward(x), scipy.fft.rfft(x)
        calls: list[Callable[[], object]] = [
            lambda x=x: _core.rfft_forward(x),
            lambda x=x: scipy.fft.rfft(x, workers=1),
            lambda s=ours: _core.rfft_inverse(s),
            lambda s=theirs, n=n: scipy.fft.irfft(s, n, workers=1),
        ]
        f, sf, i, si = (t * 1e6 for t in interleaved(calls, rounds))
        print(f"{n:>8} {f:>11.1f} {sf:>10.1f} {f / sf:>6.2f} {i:>11.1f} {si:>10.1f} {i / si:>6.2f}")


if __name__ == "__main__":
    main()
