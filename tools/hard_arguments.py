"""Writes cpp/src/runtime/hard_arguments.hpp, a list of arguments at which the functions of the C library are checked.

The proofs assume bounds on the errors of these functions. cpp/src/runtime/arithmetic.cpp checks that the C library
meets the bounds at the arguments in the list. The list has three kinds of arguments for each function. Some are ends of
the ranges for which libraries usually have separate code. Some have a result close to 0, to 1, to overflow or to
underflow. The others are chosen from thousands of random arguments: their exact values are nearest to half way between
two doubles.

    python tools/hard_arguments.py
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import mpmath as mp

OUT = Path(__file__).parents[1] / "cpp/src/runtime/hard_arguments.hpp"
DRAWS, KEPT = 3000, 10
LN2 = math.log(2)
# Functions of one argument: name, chosen arguments, range of the random arguments, and allowed error in units of 2^-53.
# The allowed error of erfc is that of docs/theory/grid.md, section 6.3.
ONE = [
    ("exp", [0.5 * LN2, -0.5 * LN2, 709.7, -708.3, 1e-9, -37.0, 1.0], (-700, 700), 4),
    ("expm1", [0.5 * LN2, -0.5 * LN2, 1e-9, -1e-300, 709.7, -40.0, 0.25, -0.25], (-5, 5), 4),
    ("exp2", [0.5, -0.5, 1023.9, -1021.5, 1e-9], (-1000, 1000), 4),
    ("log", [1 + 2**-52, 1 - 2**-53, 0.5**0.5, 2**0.5, 1e308, 5e-324, 2.0, 0.99, 1.01], (0.5, 2), 4),
    ("log1p", [1e-9, -1e-9, 1e-300, 0.41421356237309503, -0.2928932188134524, -1 + 2**-53, 1e300], (-0.9, 2), 4),
    ("log2", [1 + 2**-52, 1 - 2**-53, 3.0, 1e-300, 0.7], (0.5, 2), 4),
    ("sinh", [1e-9, 1.0, 22.0, 709.0, -0.3], (-20, 20), 4),
    ("asinh", [1e-9, 1.0, 0.25, 1e15, 1e300, -2.5], (-10, 10), 4),
    ("tanh", [1e-9, 0.5, 1.0, 20.0], (-3, 3), 4),
    ("erf", [1e-9, 0.84375, 1.25, 3.0], (-3, 3), 4),
    ("erfc", [0.84375, 1.25, 2.857142857142857, 26.0, -1.0, 6.0], (-2, 25), lambda x: 6 + x * x),
    ("sin", [1e-9, 3.141592653589793, 1e5, 0.7853981633974483, 31415.926535], (-100, 100), 4),
    ("cos", [1e-9, 1.5707963267948966, 1e5, 0.7853981633974483, 31415.926535], (-100, 100), 4),
]
TWO = [
    ("atan2", [(1e-9, 1.0), (1.0, -1.0), (-1.0, 1e-9), (0.4375, 1.0), (-2.0, -3.0)], 4),
    ("hypot", [(3e-200, 4e-200), (1e200, 1e200), (1.0, 1e-9), (0.5, 0.7)], 4),
    ("pow", [(1.0000001, 1e7), (2.0, -0.5), (10.0, -300.0), (0.3, 25.5)], 4),
]


def exact(name, *arguments):
    values = [mp.mpf(x) for x in arguments]
    special = {"exp2": lambda x: mp.mpf(2) ** x, "log2": lambda x: mp.log(x, 2), "pow": lambda x, y: x**y}
    return special.get(name, getattr(mp, name, None))(*values)


def hardness(value):
    """Returns the distance of a value from half way between two doubles, in units of the distance of these doubles."""
    nearest = float(value)
    off = abs(value - mp.mpf(nearest)) / mp.mpf(math.ulp(nearest))
    return abs(off - mp.mpf(1) / 2)


def entries():
    draw = random.Random(2024)
    for name, chosen, (low, high), allowed in ONE:
        drawn = sorted((draw.uniform(low, high) for _ in range(DRAWS)), key=lambda x: hardness(exact(name, x)))
        for x in [*chosen, *drawn[:KEPT]]:
            yield name, (x,), exact(name, x), allowed
    for name, chosen, allowed in TWO:
        for pair in chosen:
            yield name, pair, exact(name, *pair), allowed


def main():
    lines = []
    with mp.workdps(60):
        for name, arguments, value, allowed in entries():
            nearest = float(value)
            rest = float(value - mp.mpf(nearest))
            given = ", ".join(float(x).hex() for x in arguments)
            units = allowed(arguments[0]) if callable(allowed) else allowed
            lines.append(f"    HARD({name}, ({given}), {nearest.hex()}, {rest.hex()}, {units:g})")
    text = (
        "// Each line has a function of the C library, its arguments, the double nearest to the exact value, the\n"
        "// exact value minus this double, and the allowed error in units of 2^-53. Written by\n"
        "// tools/hard_arguments.py.\n"
        "// clang-format off\n" + "\n".join(lines) + "\n// clang-format on\n"
    )
    OUT.write_text(text)


if __name__ == "__main__":
    main()
