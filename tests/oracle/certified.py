"""Answers to drawn cases, as the checker of certificates judges them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np

import tightdp as dp

from .check import Case

try:
    from tightdp import verify
except ModuleNotFoundError:  # python-flint is missing
    verify = None  # type: ignore[assignment]

POINTS = 2**12
"""Lattice points of a proof: about a second for each end."""
DIGITS = 1e-12
"""Relative distance past an end at which the truth would make it wrong."""
EXACT = {"closed_form", "contour"}
"""Engines whose answers the checker proves at full width."""


def draw_certificate(case: Case, rng: np.random.Generator) -> dp.Certificate | None:
    """Asks a question about a case; None if there is no answer."""
    question = (
        {"delta": float(rng.choice([0.3, 1e-2, 1e-5, 1e-8]))}
        if rng.random() < 0.5
        else {"epsilon": float(rng.choice([-1.0, 0.0, 0.5, 1.0, 3.0]))}
    )
    try:
        return case.asked.certificate(neighbors=case.relation, **question)
    except ValueError as error:
        if str(error).startswith("neighbors must be"):
            return None
        raise


def disprove(case: Case, rng: np.random.Generator) -> Iterator[str]:
    """Yields an end of an answer that is wrong: the checker proves that the truth lies past it."""
    found = draw_certificate(case, rng) if verify else None
    if found is None:
        return
    plain = json.loads(found.to_json())
    asked = "epsilon" if found.epsilon is None else "delta"
    for high, end in ((True, found.upper), (False, found.lower)):
        past = [end * (1 + DIGITS), "inf" if asked == "epsilon" else 1.0] if high else [0.0, end * (1 - DIGITS)]
        if not 0 < end < math.inf or (high and asked == "delta" and end >= 1 - DIGITS):
            continue
        try:
            claim = verify.read_certificate(json.dumps({**plain, asked: past}))
            proved = verify.verify_certificate_end(claim, high=not high, nearby=False, points=POINTS).proved
        except verify.Unverified:
            return
        if proved:
            yield f"{case}: {'upper' if high else 'lower'} end {end!r} of {found} is disproved by the checker"


def fail_to_verify(case: Case, rng: np.random.Generator) -> Iterator[str]:
    """Yields an answer of an exact engine that the checker does not prove although its table has the mechanisms."""
    found = draw_certificate(case, rng) if verify else None
    if found is None:
        return
    run, asked = found.composition, {"neighbors": case.relation}
    bound = run.epsilon(found.delta, **asked) if found.epsilon is None else run.delta(found.epsilon, **asked)
    if bound.engine in EXACT:
        good, words = verify.verify_certificate(found.to_json(), nearby=False, points=POINTS)
        if not good and "the table has no" not in words and "BoundedRange" not in words:  # which is adaptive there
            yield f"{case}: {words}"
