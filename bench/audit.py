"""Longer audits of every algorithm, which compare the leak that is proved with the charge.

    python bench/audit.py [--trials 40000] [--only DPSGD NoisyGD]

The cases are those of tests/audit. Each algorithm is run ``--trials`` times with a canary and as often without it. The
attacker sees every release, and gives each run a score. The scores give lower limits on mu (of Gaussian differential
privacy) and on epsilon at delta = 0.01, which hold with probability ``--confidence``. Exits with 1 if a lower limit is
above the certified upper bound, or if the scores exclude the claimed trade-off curve at some point. Either of these
proves a bug.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "audit"))
from cases import CASES
from harness import DELTA
from shared import options

from tightdp import audit


def main() -> int:
    given = options(__doc__, trials=40_000, confidence=0.9999, seed=12345, only=list(CASES))
    print(f"{given.trials} runs each way, confidence {given.confidence:g}, delta {DELTA:g}")
    print(f"{'':26s}{'mu >=':>8s}{'epsilon >=':>12s}{'claimed <=':>12s}{'seconds':>9s}")
    leaks = []
    for name in given.only:
        start = time.perf_counter()
        run, claim = CASES[name].build(given.seed)
        scores = audit.run_pairs(run, given.trials)
        thresholds = CASES[name].thresholds
        found = audit.paired(*scores, confidence=given.confidence, delta=DELTA, thresholds=thresholds)
        shape = audit.paired(*scores, confidence=given.confidence, thresholds=thresholds)
        lower, upper = found.epsilon(DELTA), claim.epsilon(DELTA).upper
        leak = lower > upper or found.excludes(claim) or shape.excludes(claim)
        leaks += [name] * leak
        seconds = time.perf_counter() - start
        print(f"{name:26s}{shape.mu():8.3f}{lower:12.3f}{upper:12.3f}{seconds:9.0f}{'  LEAK' * leak}", flush=True)
    print(f"leaks: {', '.join(leaks)}" if leaks else "no lower limit is above its claim")
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
