"""Intervals that are right and needlessly wide, by what docs/accounting.md states and by what inequalities show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import tightdp as dp

from .check import Case

PAGE = Path(__file__).parents[2] / "docs" / "accounting.md"
DELTA = 1e-3
"""The largest that the page's table was measured at."""
TIMES = 10.0
"""An answer may be this often as wide as the worst that the page states for its kind."""
ROUNDED = 1e-9
"""Width that is no matter, whatever the page states."""
BESIDE = 1.5, 0.1
"""Upper ends may be so often, and so much, above the epsilon of the curve that no neighbours exceed."""
OBSTACLES = (dp.TruncatedPoissonSampled, dp.FixedSizeSampled, dp.SampledWithReplacement, dp.PoissonSampled)
"""Samples, in groups of which no better upper end than that of a chain is known, and on which zCDP has moments alone:
the page says so, and curves of a line or two do know more."""
MOMENTS = dp.ZCDP, dp.DiscreteGaussianVector
"""Their samples have an upper end by moments, or by a Gaussian, alone."""
AT = np.concatenate((np.linspace(0.0, 12.0, 241), np.linspace(12.5, 60.0, 96)))
ROWS = {
    "Gaussian": "Gaussian",
    "Laplace": "Laplace",
    "PureDP": "pure, approximate",
    "ApproximateDP": "pure, approximate",
    "RandomizedResponse": "randomised response",
    "DiscreteGaussian": "discrete Gaussian",
    "DiscreteLaplace": "discrete Laplace",
    "PrivacyLoss": "given losses",
    "PoissonSampled of Gaussian": "Gaussian, Poisson sample",
    "PoissonSampled of Laplace": "Laplace, Poisson sample",
    "PoissonSampled of PureDP": "pure, approximate, Poisson sample",
    "FixedSizeSampled of Gaussian": "a sample of fixed size, Gaussian",
    "RandomAllocation of Gaussian": "random allocation, one step",
    "BoundedRange": "bounded range",
    "ZCDP": "ZCDP",
}
"""Rows of the page's table, by what a case is made of."""


@cache
def stated() -> dict[tuple[str, str], float]:
    """The worst width of every row, by kind and relation."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if "|" in line]
    rows = [row for row in cells if len(row) == 8 and row[2].isdigit()]
    return {(row[0], row[1]): float(row[4]) for row in rows}


def too_wide(case: Case, name: str) -> Iterator[str]:
    """Complaints about epsilon; ``name`` says what the case is made of, where that is one kind."""
    bound = case.asked.epsilon(DELTA, neighbors=case.relation)
    most = stated().get((ROWS.get(name, ""), case.relation))
    if case.group == 1 and most is not None and TIMES * most < 1 and 0 < bound.upper < math.inf:
        width, several = (bound.upper - bound.lower) / bound.upper, getattr(case.parts[0][0], "selected", 1) > 1
        if width > max(TIMES * most, ROUNDED) and not several:
            yield f"{case}: epsilon has the width {width:.3g}, the page states {most:.3g}"
    if any(isinstance(m, OBSTACLES) and (case.group > 1 or isinstance(m.mechanism, MOMENTS)) for m, _ in case.parts):
        return
    if any(isinstance(m, (dp.Group, dp.RepeatAndSelect)) for m, _ in case.parts):
        return
    below = AT[case.truth.most_delta(AT) <= DELTA]
    if len(below) and bound.upper > BESIDE[0] * below[0] + BESIDE[1]:
        yield f"{case}: epsilon has the upper end {bound.upper:.6g}, no two neighbours have more than {below[0]:.6g}"
