"""Prints the coefficients of cpp/include/tightdp/special/mills.hpp (needs mpmath).

R is Mills' ratio, and S = -R' = 1 - x R. With y = (x - c)/(x + c), x in [0, inf) becomes y in [-1, 1). The functions
(1 + a x) R(x) and (1 + b x + x^2) S(x) are smooth in y. Each of them is interpolated at Chebyshev nodes, and rewritten
in powers of y. Below, c is CENTER, a is RATIO_SLOPE and b is SLOPE_SLOPE.

    python tools/fit_mills.py
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
from numpy.polynomial.chebyshev import cheb2poly

mp.mp.dps = 60
CENTER, RATIO_SLOPE, SLOPE_SLOPE = mp.mpf(5), mp.mpf(1), mp.mpf("1.5")
RATIO_DEGREE, SLOPE_DEGREE = 25, 27


def ratio(x: mp.mpf) -> mp.mpf:
    """Returns Mills' ratio R(x) = (1 - Phi(x)) / phi(x)."""
    return mp.sqrt(mp.pi / 2) * mp.erfc(x / mp.sqrt(2)) * mp.exp(x * x / 2)


def scaled_ratio(y: mp.mpf) -> mp.mpf:
    x = CENTER * (1 + y) / (1 - y)
    return (1 + RATIO_SLOPE * x) * ratio(x)


def scaled_slope(y: mp.mpf) -> mp.mpf:
    x = CENTER * (1 + y) / (1 - y)
    with mp.workdps(120):
        return (1 + SLOPE_SLOPE * x + x * x) * (1 - x * ratio(x))


def powers(f, degree: int) -> list[mp.mpf]:
    """Returns the coefficients of the polynomial through f at degree + 1 Chebyshev nodes, lowest power of y first."""
    n = degree + 1
    nodes = [mp.cos(mp.pi * (mp.mpf(j) + 0.5) / n) for j in range(n)]
    values = [f(y) for y in nodes]
    chebyshev = [
        (2 if k else 1) * mp.fsum(v * mp.cos(k * mp.pi * (mp.mpf(j) + 0.5) / n) for j, v in enumerate(values)) / n
        for k in range(n)
    ]
    return list(cheb2poly(np.array(chebyshev, dtype=object)))


def main() -> None:
    for name, f, degree in (("kMillsRatio", scaled_ratio, RATIO_DEGREE), ("kMillsSlope", scaled_slope, SLOPE_DEGREE)):
        c = powers(f, degree)
        y = [mp.mpf(i) / 1000 for i in range(-1000, 1000)]
        worst = max(abs(mp.polyval(c[::-1], v) / f(v) - 1) for v in y)
        print(f"// {name}: truncated at degree {degree}, error {mp.nstr(worst, 3)}")
        print(f"inline constexpr Coefficients<{len(c)}> {name}{{{{")
        print(",\n".join(f"    {float(v).hex()}" for v in c) + "}};")


if __name__ == "__main__":
    main()
