"""Draws cases and checks them: `cd tests && python -m oracle.hunt --seed 1 --cases 1000`.

A wrong end is an ALARM and fails the hunt. An end that is right and needlessly wide is printed as WIDE and counted; it
fails the hunt with --wide alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tightdp import _core

from .cases import Report, constructors, draw, kinds
from .ceilings import ceiling
from .certified import disprove, fail_to_verify
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


class Complaint(NamedTuple):
    """Something about the answers to one case."""

    text: str
    wide: bool
    """Whether the answer is right and needlessly wide; a wrong one otherwise."""

    def __str__(self) -> str:
        return f"{'WIDE' if self.wide else 'ALARM'} {self.text}"


def checks(case: Case, rng: np.random.Generator, curves: float = 0.2) -> Iterator[Complaint]:
    """Yields what cannot be true of a case, and what is needlessly wide; what takes long is asked of some cases."""
    before = _core.work_spent()
    yield from complain_of_errors(alarms(case, curves=bool(rng.random() < curves), patience=PATIENCE))
    if _core.work_spent() - before > 10 * PATIENCE:
        return
    names = set(kinds(case.parts))
    for text in (*useless(case), *too_wide(case, names.pop() if len(names) == 1 else "")):
        yield Complaint(text, wide=True)
    yield from complain_of_errors(disprove(case, rng))
    for text in fail_to_verify(case, rng):
        yield Complaint(text, wide=True)
    if rng.random() < 0.3:
        yield from complain_of_errors(disagreements(case))
    if rng.random() < 0.3:
        yield from complain_of_errors(overspent(case, float(rng.uniform(0.2, 8)), float(10 ** -rng.uniform(0.3, 5))))


def complain_of_errors(texts: Iterable[str]) -> Iterator[Complaint]:
    """Returns them as complaints about wrong answers."""
    return (Complaint(text, wide=False) for text in texts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100, help="how many are drawn")
    parser.add_argument("--each", type=float, default=15.0, help="seconds of CPU for one case")
    parser.add_argument("--curves", type=float, default=0.3, help="share of cases with all derived curves")
    parser.add_argument("--wide", action="store_true", help="fail for answers that are right and needlessly wide, too")
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
        errors = 0
        try:
            for complaint in checks(case, rng, arguments.curves):
                errors += not complaint.wide
                report.wide += [complaint.text] * complaint.wide
                print(f"[{arguments.seed}, {number}] {complaint}", flush=True)
            report.add(case)
        except Refused:
            report.add(case, refused=True)
        except TooLong:
            slow += 1
            report.add(case, late=True)
            print(f"[{arguments.seed}, {number}] SLOW {case}", flush=True)
        except Exception:
            errors += 1
            print(f"[{arguments.seed}, {number}] ALARM {case}: {traceback.format_exc()}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found += bool(errors)
        for kept in (candidates, composed, ceiling):
            kept.cache_clear()
        KNOWN.clear()
        number += 1
    print(report)
    print(f"{number} cases, {found} with alarms, {slow} not asked to the end")
    if report.too_few:
        print("too few were compared")
    return bool(found) or report.too_few or (arguments.wide and bool(report.wide))


if __name__ == "__main__":
    sys.exit(main())
