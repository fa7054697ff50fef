"""Audits: attacks on training runs, which prove lower bounds on the epsilon of the training.

A canary is a record that the auditor makes up. An audit attacks many runs with one canary, or one run with many
canaries.

    from tightdp import audit
    with_, without = audit.run_pairs(run, 2000)   # run(True) uses the canary, run(False) does not; both return a score.
    found = audit.paired(with_, without, delta=1e-5, confidence=0.95)
    found.epsilon(1e-5)                           # A lower bound. If it exceeds the claim, the claim is wrong.
    found.excludes(clf.charged_)                  # compares the whole claimed privacy profile with the evidence

The second kind of audit is one run with, for example, 1000 canaries. A fair coin decides for each canary whether the
data hold it.

    inside = audit.coins(1000)
    audit.one_run(scores, inside, delta=1e-5).epsilon

A lower bound far below the claim proves nothing, because a better attack may exist. Neighbours differ by adding or
removing one record. Proofs are in docs/theory/audit.md, and a how-to is in docs/audit.md.
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
