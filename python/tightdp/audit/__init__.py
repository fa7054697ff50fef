"""Lower bounds on epsilon by attack: what a run provably leaks, beside what it is charged.

Many runs, or one run with many canaries, are attacked and judged.

    from tightdp import audit
    with_, without = audit.run_pairs(run, 2000)   # run(True) trains with the canary, run(False) without: a score each
    found = audit.paired(with_, without, delta=1e-5, confidence=0.95)
    found.epsilon(1e-5)                           # lower bound; a leak is proved if it exceeds the claim
    found.excludes(clf.charged_)                  # the whole claimed curve against the evidence

One run holds 1000 canaries, each in by a fair coin.

    inside = audit.coins(1000)
    audit.one_run(scores, inside, delta=1e-5).epsilon

A lower bound far below the claim proves nothing: a better attack may exist. Neighbouring relation: add/remove one
record. Proofs: docs/theory/audit.md; how to: docs/audit.md.
"""

from .binomial import lower_limit, upper_limit
from .evidence import Evidence
from .one_run import OneRun, coins, epsilon_from_guesses, one_run, p_value
from .paired_audit import paired, run_pairs

__all__ = [
    "Evidence",
    "OneRun",
    "coins",
    "epsilon_from_guesses",
    "lower_limit",
    "one_run",
    "p_value",
    "paired",
    "run_pairs",
    "upper_limit",
]
