"""How the constants of cpp/include/tightdp/random/normal.hpp were found: near-minimax fits at 60 digits.

Run it to print them. ``tests/release/test_random_distribution.py`` measures what the compiled functions then reach.
"""

from __future__ import annotations

import mpmath as mp

mp.mp.dps = 60

Z_MAX = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
"""log(m) for m in [sqrt(1/2), sqrt(2)] has s = (m - 1)/(m + 1) in +-0.1716 and z = s^2."""
Y_MAX = mp.mpf(1) / 64
"""The angle is reduced to x in +-1/8 turn, and y = x^2."""


def log_tail(z: mp.mpf) -> mp.mpf:
    """(log((1 + s)/(1 - s)) - 2 s) / s^3 with z = s^2."""
    if z < mp.mpf("1e-12"):
        return mp.mpf(2) / 3 + 2 * z / 5 + 2 * z**2 / 7
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3


def sin_turn(y: mp.mpf) -> mp.mpf:
    """sin(2 pi x)/x with y = x^2."""
    x = mp.sqrt(y)
    return 2 * mp.pi * mp.sincpi(2 * x)


def cos_turn(y: mp.mpf) -> mp.mpf:
    """(cos(2 pi x) - 1)/x^2 with y = x^2."""
    x = mp.sqrt(y)
    return -2 * mp.pi**2 * mp.sincpi(x) ** 2


FITS = {
    "kLogTail<double>": (log_tail, Z_MAX, 7),
    "kSinTurn<double>": (sin_turn, Y_MAX, 7),
    "kCosTurn<double>": (cos_turn, Y_MAX, 7),
    "kLogTail<float>": (log_tail, Z_MAX, 3),
    "kSinTurn<float>": (sin_turn, Y_MAX, 4),
    "kCosTurn<float>": (cos_turn, Y_MAX, 4),
}


def fit(name: str) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients, constant term first, and the largest relative error of the exact polynomial."""
    function, end, terms = FITS[name]
    polynomial, error = mp.chebyfit(function, [0, end], terms, error=True)
    return polynomial[::-1], error / min(abs(function(mp.mpf(0))), abs(function(end)))


if __name__ == "__main__":
    for name in FITS:
        coefficients, error = fit(name)
        digits = 17 if "double" in name else 9
        print(name, "relative error", mp.nstr(error, 2))
        print("   ", ", ".join(mp.nstr(c, digits) for c in coefficients))
    print("ln 2 =", mp.nstr(mp.log(2), 40))
