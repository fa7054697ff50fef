"""Measures the widths of bounds and their times, for every mechanism and relation, for the table of docs/accounting.md.

Each setting has a process of its own, which computes epsilon at three deltas. No results are kept from earlier calls
before the first delta. A width is relative to the upper end. It is 1 if the upper end is infinite, and 0 if both ends
are the same number. Times are processor times. Without options everything is measured again. With --page the page is
written from the existing results.

    python bench/width_atlas.py
    python bench/width_atlas.py --page
"""

from __future__ import annotations

import csv
import math
import os
import statistics
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from shared import options

import tightdp as dp

RESULTS = Path(__file__).parent / "width_atlas.csv"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "accounting.md"
BEGIN, END = "<!-- widths: bench/width_atlas.py writes this table -->\n", "<!-- end of widths -->\n"
DELTAS = 1e-3, 1e-6, 1e-10
SIGMAS, SHARES, STEPS = (0.5, 1.0, 4.0), (1e-4, 0.01, 0.2), (1, 100, 10_000)
FIELDS = "family", "relation", "run", "delta", "lower", "upper", "seconds", "engine"

Run = Any


class Family(NamedTuple):
    """A row of the table: the compositions whose epsilon is bounded, and the neighbouring relations."""

    relations: tuple[str, ...]
    runs: tuple[Run, ...]


ANY = "add_or_remove", "replace", "replace_special"
ADD_OR_REMOVE = ("add_or_remove",)


def _families() -> dict[str, Family]:
    few = dp.PrivacyLoss.from_distributions([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], relation="any")
    fixed, poisson = dp.FixedSizeSampled, dp.PoissonSampled
    truncated, again = dp.TruncatedPoissonSampled, dp.SampledWithReplacement
    size, steps = (100, 10_000), (1, 1000)
    return {
        "Gaussian": Family(ANY, tuple(dp.Gaussian(s) * k for s in (1e-3, 1.0, 1e6) for k in (1, 10_000, 10**15))),
        "Gaussian, Poisson sample": Family(
            ANY, tuple(poisson(dp.Gaussian(s), q) * k for s in SIGMAS for q in SHARES for k in STEPS)
        ),
        "the same at the ends of the range": Family(
            ANY,
            tuple(
                poisson(dp.Gaussian(s), q) * k
                for s, q, k in ((1e-3, 1e-9, 1), (0.05, 1e-3, 1000), (0.2, 1e-9, 10**9), (1e6, 0.5, 10**15))
            ),
        ),
        "Laplace": Family(ANY, tuple(dp.Laplace(b) * k for b in (0.1, 1.0, 30.0) for k in STEPS)),
        "Laplace, Poisson sample": Family(
            ANY, tuple(poisson(dp.Laplace(b), q) * k for b in (0.5, 5.0) for q in (0.01, 0.2) for k in STEPS)
        ),
        "pure, approximate": Family(
            ANY,
            (
                dp.PureDP(1.0), dp.PureDP(0.01) * 10_000, dp.ApproximateDP(0.1, 1e-8) * 100,
                dp.PureDP(0.5) * 3 + dp.PureDP(0.25) * 10, dp.PureDP(0.1) * 1000 + dp.ApproximateDP(0.2, 1e-9) * 1000,
            ),
        ),
        "pure, approximate, Poisson sample": Family(
            ANY,
            tuple(poisson(one, q) * k for one in (dp.PureDP(1.0), dp.ApproximateDP(0.5, 1e-8)) for q in (0.01, 0.2)
                  for k in (1, 10, 10_000)),
        ),
        "randomised response": Family(
            ANY, tuple(dp.RandomizedResponse(p, n) * k for p in (0.1, 0.9) for n in (2, 10) for k in (1, 10, 10_000))
        ),
        "discrete Gaussian": Family(ANY, tuple(dp.DiscreteGaussian(s) * k for s in (1.0, 30.0) for k in STEPS)),
        "discrete Laplace": Family(
            ANY, tuple(dp.DiscreteLaplace(b, s) * k for b in (1.0, 10.0) for s in (1, 5) for k in STEPS)
        ),
        "bounded range": Family(ANY, tuple(dp.BoundedRange(eta) * k for eta in (0.1, 1.0) for k in (1, 10, 1000))),
        "ZCDP": Family(ANY, (dp.ZCDP(0.5), dp.ZCDP(0.1), dp.ZCDP(0.01) * 10, dp.ZCDP(0.1) + dp.Gaussian(2.0))),
        "given losses": Family(("add_or_remove",), tuple(few * k for k in (1, 10, 1000))),
        "a sample of fixed size, Gaussian": Family(
            ("replace",), tuple(fixed(dp.Gaussian(s), *size) * k for s in (1.0, 4.0) for k in steps)
        ),
        "a sample of fixed size, zeroed out": Family(
            ("replace_special",), tuple(fixed(dp.Gaussian(s), *size) * k for s in (1.0, 4.0) for k in steps)
        ),
        "a sample of fixed size, Laplace": Family(
            ("replace",), tuple(fixed(dp.Laplace(b), *size) * k for b in (1.0, 5.0) for k in steps)
        ),
        "with replacement, Gaussian": Family(
            ("replace", "replace_special"), tuple(again(dp.Gaussian(s), *size) * k for s in (1.0, 4.0) for k in steps)
        ),
        "truncated Poisson sample, Gaussian": Family(
            ANY, tuple(truncated(dp.Gaussian(1.0), 0.01, most, 10_000) * 1000 for most in (200, 130))
        ),
        "random allocation, one step": Family(
            ADD_OR_REMOVE,
            tuple(dp.RandomAllocation(one, t) for one in (dp.Gaussian(0.5), dp.Gaussian(2.0), dp.Laplace(1.0))
                  for t in (10, 1000)),
        ),
        "random allocation, epochs": Family(
            ADD_OR_REMOVE, tuple(dp.RandomAllocation(dp.Gaussian(s), 100) * 10 for s in (1.0, 4.0))
        ),
        "random allocation, several steps": Family(
            ADD_OR_REMOVE,
            tuple(dp.RandomAllocation(dp.Gaussian(s), t, k) for s in (0.5, 1.0, 4.0) for t, k in ((10, 2), (100, 5))),
        ),
        "the same, Laplace": Family(
            ADD_OR_REMOVE, tuple(dp.RandomAllocation(dp.Laplace(1.0), t, k) for t, k in ((10, 2), (100, 5)))
        ),
        "the same, few outcomes": Family(
            ADD_OR_REMOVE,
            (
                dp.RandomAllocation(dp.PureDP(1.0), 10, 2), dp.RandomAllocation(dp.DiscreteGaussian(1.0), 3, 2),
                dp.RandomAllocation(dp.DiscreteLaplace(1.0, 1), 100, 5),
            ),
        ),
        "DP-SGD beside Laplace": Family(
            ADD_OR_REMOVE, tuple(poisson(dp.Gaussian(s), 0.01) * 1000 + dp.Laplace(10.0) for s in SIGMAS)
        ),
        "repeated selection": Family(
            ADD_OR_REMOVE, tuple(dp.RepeatAndSelect(dp.Gaussian(s), 10.0, 1.0) for s in (2.0, 5.0))
        ),
        "groups of three": Family(ADD_OR_REMOVE, ((poisson(dp.Gaussian(1.0), 0.01) * 1000).group(3),)),
    }  # fmt: skip


def cells() -> Iterator[tuple[str, str, Run]]:
    for name, family in _families().items():
        for relation in family.relations:
            for run in family.runs:
                yield name, relation, run


def measure(number: int) -> list[dict[str, Any]]:
    """Returns the results of one setting, one for each delta. Later deltas may use results kept from the first."""
    name, relation, run = list(cells())[number]
    rows = []
    for delta in DELTAS:
        start = time.process_time()
        bound = run.epsilon(delta, neighbors=relation)
        seconds = time.process_time() - start
        row = (name, relation, str(run), delta, bound.lower, bound.upper, round(seconds, 5), bound.engine)
        rows.append(dict(zip(FIELDS, row, strict=True)))
    return rows


def width(row: dict[str, Any]) -> float:
    lower, upper = float(row["lower"]), float(row["upper"])
    if lower == upper:
        return 0.0
    return (upper - lower) / upper if upper < math.inf else 1.0


def table(rows: list[dict[str, Any]]) -> str:
    """Returns the lines of the table in docs/accounting.md for these results."""
    lines = [
        "| What | Relation | Settings | Width: median | worst | Milliseconds: median | worst | Engines |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["family"], row["relation"]), []).append(row)
    for (family, relation), found in groups.items():
        widths, times = [width(row) for row in found], [1000 * float(row["seconds"]) for row in found]
        engines = sorted({name for row in found for name in row["engine"].split("+")})
        lines.append(
            f"| {family} | {relation} | {len(found)} | {_power(statistics.median(widths))} | {_power(max(widths))} | "
            f"{statistics.median(times):.2g} | {max(times):.2g} | {', '.join(engines)} |"
        )
    return "\n".join(lines) + "\n"


def _power(value: float) -> str:
    """Returns a width as text, with two digits and rounded up."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(value))
    digits = math.ceil(value / 10.0 ** (exponent - 1) - 1e-9)
    return f"{digits * 10.0 ** (exponent - 1):.1e}"


def load(file: Path = RESULTS) -> list[dict[str, Any]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def page(text: str, rows: list[dict[str, Any]]) -> str:
    """Returns the text of the page with a new table."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + table(rows) + "\n" + END + rest.split(END)[1]


def main() -> None:
    asked = options(__doc__, page=False)
    if not asked.page:
        with RESULTS.open("w", newline="") as file, get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            for rows in pool.imap(measure, range(len(list(cells()))), chunksize=1):
                writer.writerows(rows)
                file.flush()
    PAGE.write_text(page(PAGE.read_text(), load()))


if __name__ == "__main__":
    main()
