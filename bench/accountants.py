"""Compares accountants: the time that each takes, and the distance of its answer from the exact value.

    python bench/accountants.py [--rounds 5] [--only NAME,...]

All contenders run in one process, and take turns of ten milliseconds or of one call. The engines of tightdp answer for
both directions, add and remove. The peers compose one direction or both, as they do for their users. Every bound is
checked against the exact value. Each bound of tightdp must contain this value, and a bound of a peer that does not is
marked. Writes bench/results/accountants.csv, and a plot of relative width against time to accountants.png.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from contenders import CONTENDERS, Answer, Case, Contender
from shared import RESULTS, Points, draw, interleaved, options

from tightdp import _core

ROOT = Path(__file__).resolve().parent.parent

# Settings by which the library's speed is judged: noise multiplier, sampling probability, steps and delta. A setting
# with sampling probability 1 is a plain Gaussian.
SETTINGS = [
    (1.0, 0.01, 1000, 1e-5),
    (0.8, 0.004, 4000, 1e-5),
    (1.1, 256 / 60000, 14000, 1e-5),
    (2.0, 0.02, 10000, 1e-6),
    (0.6, 0.001, 100000, 1e-6),
    (1.0, 1.0, 100, 1e-5),
    (1.0, 0.01, 1000, 1e-9),
]


class Row(NamedTuple):
    case: Case
    contender: Contender
    answer: Answer
    seconds: float

    @property
    def holds(self) -> bool:
        slack = 1e-12 * self.case.exact  # allows for the rounding of the exact value
        return self.answer.lower <= self.case.exact + slack and self.case.exact - slack <= self.answer.upper

    @property
    def width(self) -> float:
        """Relative width of the bound. For a bound without a lower end, its distance from the exact value."""
        lower = self.answer.lower if math.isfinite(self.answer.lower) else self.case.exact
        return (self.answer.upper - lower) / self.case.exact

    @property
    def excess(self) -> float:
        """Relative distance of the upper bound from the exact value."""
        return (self.answer.upper - self.case.exact) / self.case.exact


def cases() -> list[Case]:
    """Returns the settings with their exact epsilon, the larger of both directions in tests/vectors/accounting.json."""
    vectors = json.loads((ROOT / "tests" / "vectors" / "accounting.json").read_text())["epsilon_of_delta"]
    found = []
    for sigma, q, steps, delta in SETTINGS:
        exact = [
            float(v["epsilon"])
            for v in vectors
            if v["mechanism"] == "PoissonSampled(Gaussian)"
            and (v["noise_multiplier"], v["sampling_probability"], v["steps"]) == (sigma, q, steps)
            and float(v["delta"]) == delta
        ]
        found.append(Case(sigma, q, steps, delta, max(exact) if exact else plain_gaussian(sigma, steps, delta)))
    return found


def plain_gaussian(sigma: float, steps: int, delta: float) -> float:
    """Returns epsilon(delta) of a Gaussian mechanism with mu^2 = steps/sigma^2 (mu-GDP), computed in 40 digits."""
    import mpmath as mp

    with mp.workdps(40):
        mu = mp.sqrt(steps) / mp.mpf(sigma)

        def excess(eps: mp.mpf) -> mp.mpf:
            return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu) - mp.mpf(delta)

        bracket = (mu * mu / 2, mu * mu / 2 + 10 * mu)  # Phi(-10) is smaller than every delta in SETTINGS
        return float(mp.findroot(excess, bracket, solver="bisect", maxsteps=200))


def entrants(only: Sequence[str], case: Case) -> list[Contender]:
    found = []
    for contender in CONTENDERS:
        if only and not any(name in contender.name for name in only):
            continue
        try:
            contender.call(case)
            found.append(contender)
        except Exception as error:  # a peer that is missing or cannot be imported is left out
            if contender.ours:
                raise
            print(f"without {contender.name}: {type(error).__name__}: {error}")
    return found


def run(rounds: int, only: Sequence[str]) -> list[Row]:
    _core.grid_keep(0)  # no result is kept, so each call does all of its work
    settings = cases()
    field = entrants(only, settings[0])
    rows = []
    for case in settings:
        answers = [contender.call(case) for contender in field]  # these calls also warm up
        seconds = interleaved([partial(contender.call, case) for contender in field], rounds)
        for contender, answer, time in zip(field, answers, seconds, strict=True):
            row = Row(case, contender, answer, time)
            assert row.holds or not contender.ours, f"{contender.name} is wrong: {answer} for {case}"
            rows.append(row)
        report(case, rows[-len(field) :])
    return rows


def report(case: Case, rows: list[Row]) -> None:
    print(f"\n{case}: epsilon = {case.exact:.9f}")
    ours = next((r.seconds for r in rows if r.contender.ours), math.nan)
    for row in rows:
        lower = f"{row.answer.lower:.6f}" if math.isfinite(row.answer.lower) else "-"
        verdict = "" if row.holds else "  WRONG"
        print(
            f"  {row.contender.name:<20} {row.seconds * 1e3:>10.3f} ms {row.seconds / ours:>9.2f}x"
            f"   [{lower:>11}, {row.answer.upper:.6f}]  above by {row.excess:.1e}{verdict}"
        )


def summary(rows: list[Row]) -> None:
    """Prints the ratios of each contender's time and width to those of each tightdp engine, as medians over cases."""
    for engine in dict.fromkeys(r.contender.name for r in rows if r.contender.ours):
        ours = {r.case: r for r in rows if r.contender.name == engine}
        print(f"\nmedian over the cases, relative to {engine}: time (least, largest), width")
        for name in dict.fromkeys(r.contender.name for r in rows if r.contender.name != engine):
            mine = [r for r in rows if r.contender.name == name and r.case in ours]
            times = [r.seconds / ours[r.case].seconds for r in mine]
            widths = [r.width / max(ours[r.case].width, 1e-16) for r in mine]
            print(
                f"  {name:<20} {statistics.median(times):>9.2f}x  ({min(times):.2f}x, {max(times):.2f}x)"
                f"   {statistics.median(widths):>9.2g}x"
            )
    ours = {r.case: r for r in rows if r.contender.name == "tightdp prv"}
    peers: dict[Case, float] = {}
    for r in rows:
        if r.contender.equal and not r.contender.ours:
            peers[r.case] = min(peers.get(r.case, math.inf), r.seconds)
    if peers and ours:
        ratio = statistics.median(seconds / ours[case].seconds for case, seconds in peers.items())
        print(f"\nthe faster of the peers at equal eps_error takes {ratio:.1f}x the time of tightdp prv")


def save(rows: list[Row]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "accountants.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["contender", "sigma", "q", "steps", "delta", "exact", "lower", "upper", "milliseconds"])
        for row in rows:
            c = row.case
            setting = [c.noise_multiplier, c.sampling_probability, c.steps, c.delta, c.exact]
            out.writerow([row.contender.name, *setting, row.answer.lower, row.answer.upper, row.seconds * 1e3])
    lines: dict[str, Points] = {}
    for name in dict.fromkeys(r.contender.name for r in rows):
        mine = [r for r in rows if r.contender.name == name]
        lines[name] = [r.seconds * 1e3 for r in mine], [max(abs(r.width), 1e-16) for r in mine], None
    x, y = "milliseconds for epsilon(delta)", "relative width; of upper ends, distance from the truth"
    draw(RESULTS / "accountants.png", {"": lines}, x, y, joined=False, xscale="log", yscale="log")


def main() -> None:
    given = options(__doc__, rounds=5, only="")
    warnings.simplefilter("ignore")  # hides warnings of the peers
    rows = run(given.rounds, given.only.split(","))
    summary(rows)
    save(rows)


if __name__ == "__main__":
    main()
