"""Draws cases and checks them: `cd tests && python -m oracle.hunt --seed 1 --cases 1000`."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Iterator

import numpy as np

from tightdp import _core

from .cases import Report, constructors, draw, kinds
from .ceilings import ceiling
from .check import Case, Refused, alarms, disagreements, overspent, useless
from .mechanisms import KNOWN, candidates
from .truth import composed
from .widths import too_wide

PATIENCE = 3e8
"""Units of work; a run whose answers take longer is asked for few."""


class TooLong(Exception):
    """A case took more time than the command line gives it."""


def late(*_: object) -> None:
    raise TooLong


def checks(case: Case, rng: np.random.Generator, curves: float = 0.2) -> Iterator[str]:
    """What cannot be true of a case, or is needlessly wide; what takes long is asked of some."""
    before = _core.work_spent()
    yield from alarms(case, curves=bool(rng.random() < curves), patience=PATIENCE)
    if _core.work_spent() - before > 10 * PATIENCE:
        return
    yield from useless(case)
    names = set(kinds(case.parts))
    yield from too_wide(case, names.pop() if len(names) == 1 else "")
    if rng.random() < 0.3:
        yield from disagreements(case)
    if rng.random() < 0.3:
        yield from overspent(case, float(rng.uniform(0.2, 8)), float(10 ** -rng.uniform(0.3, 5)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100, help="how many are drawn")
    parser.add_argument("--each", type=float, default=15.0, help="seconds of CPU for one case")
    parser.add_argument("--curves", type=float, default=0.3, help="share of cases with all derived curves")
    parser.add_argument("--only", type=int, help="the number of one case, to repeat it")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPROF, late)
    report, found, slow, number = Report(), 0, 0, arguments.only or 0
    end = number + (1 if arguments.only is not None else arguments.cases)
    while number < end:
        rng = np.random.default_rng([arguments.seed, number])
        kinds = [None, *constructors()]
        case = draw(rng, kinds[rng.integers(len(kinds))])
        signal.setitimer(signal.ITIMER_PROF, arguments.each)
        texts = []
        try:
            for text in checks(case, rng, arguments.curves):
                texts.append(text)
                print(f"ALARM [{arguments.seed}, {number}] {text}", flush=True)
            report.add(case)
        except Refused:
            report.add(case, refused=True)
        except TooLong:
            slow += 1
            report.add(case, late=True)
            print(f"SLOW [{arguments.seed}, {number}] {case}", flush=True)
        except Exception:
            texts.append("")
            print(f"ALARM [{arguments.seed}, {number}] {case}: {traceback.format_exc()}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found += bool(texts)
        for kept in (candidates, composed, ceiling):
            kept.cache_clear()
        KNOWN.clear()
        number += 1
    print(report)
    print(f"{number} cases, {found} with alarms, {slow} not asked to the end")
    if report.too_few:
        print("too few were compared")
    return bool(found) or report.too_few


if __name__ == "__main__":
    sys.exit(main())
