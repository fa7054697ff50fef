"""Do certificates of random answers verify? Draws answers of all mechanisms, relations and engines, and counts.

    python bench/certificates.py [--count 1000] [--seed 1] [--each 30] [--first 0] [--lines FILE] [--page] [--changes]

Half of the runs are drawn as the oracle draws its cases (tests/oracle), the others for an engine: Poisson samples of
Gaussians and mixtures in any number of steps, few steps of a small probability, and other noise in up to 10,000 steps.
Each certificate is verified by tightdp.verify. Its two ends are counted apart: verified as stated, verified at a number
next to the end, or not verified. Times are of CPU, and a proof that takes longer than --each seconds counts as not
verified. With --lines each answer is written to a file, and the answers that are in the file count. With --page the
table of docs/theory/certificates.md is written. With --changes the certificates of the file are changed instead, one
random change for each of their entries, and the changes that are verified are held against the engines.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from certificate_changes import is_possible, list_certificate_changes  # noqa: E402
from edits import edited, list_leaves  # noqa: E402
from oracle.cases import constructors, draw, kinds, mixture  # noqa: E402
from shared import options  # noqa: E402

import tightdp as dp  # noqa: E402
from tightdp import verify  # noqa: E402
from tightdp.options import NEIGHBORS  # noqa: E402

PAGE = ROOT / "docs" / "theory" / "certificates.md"
BEGIN, END = "<!-- answers: bench/certificates.py writes this table -->\n", "<!-- end of answers -->\n"
Rng = np.random.Generator
Answer = dict[str, Any]


class TooLong(Exception):
    """A proof took more time than the command line gives it."""


def _draw_power(rng: Rng, low: float, high: float) -> float:
    """Returns a number between two powers of ten, uniform in its logarithm."""
    return float(10.0 ** rng.uniform(low, high))


def _draw_sampled_gaussians(rng: Rng) -> Any:
    """Returns one to three kinds of steps on Poisson samples, for the contour engine."""
    run: Any = None
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        inner = dp.Gaussian(_draw_power(rng, -0.4, 1.0)) if rng.random() < 0.85 else mixture(rng)
        steps = dp.PoissonSampled(inner, _draw_power(rng, -4, -0.3)) * int(_draw_power(rng, 0.5, 5))
        run = steps if run is None else run + steps
    return run + dp.Gaussian(_draw_power(rng, 0, 2)) if rng.random() < 0.2 else run


def _draw_few_steps(rng: Rng) -> Any:
    """Returns few steps of a small sampling probability, for the engine of two rays."""
    step = dp.PoissonSampled(dp.Gaussian(_draw_power(rng, -0.5, 0.5)), _draw_power(rng, -7, -2))
    return step * int(rng.integers(1, 21))


def _draw_other_noise(rng: Rng) -> Any:
    """Returns steps of other noise, sampled or not, for the grid engine."""
    scale = _draw_power(rng, -0.3, 1)
    inner = [
        dp.Laplace(scale),
        dp.PureDP(1 / scale),
        dp.ApproximateDP(1 / scale, _draw_power(rng, -9, -5)),
        dp.DiscreteGaussian(scale),
        dp.DiscreteLaplace(scale),
        dp.RandomizedResponse(float(rng.uniform(0.1, 0.9)), int(rng.integers(2, 9))),
    ][rng.integers(6)]
    sampled = rng.random() < 0.6 and not isinstance(inner, dp.RandomizedResponse)
    step = dp.PoissonSampled(inner, _draw_power(rng, -3, -0.3)) if sampled else inner
    return step * int(_draw_power(rng, 0.3, 4))


def draw_certificate(rng: Rng) -> tuple[dp.Certificate, str, str] | None:
    """Returns a certificate with its kind and its engine, or None if the library does not answer the question."""
    relation, names = str(rng.choice(NEIGHBORS)), [None, *constructors()]
    source = rng.choice(["oracle", "contour", "rays", "grid"], p=[0.5, 0.25, 0.05, 0.2])
    if source == "oracle":
        case = draw(rng, names[rng.integers(len(names))])
        asked, relation = case.asked, case.relation
        found = sorted(set(kinds(case.parts)))
        kind = found[0] if len(found) == 1 else "several kinds"
        kind = f"group, {kind}" if case.group > 1 else kind
    else:
        makers = {"contour": _draw_sampled_gaussians, "rays": _draw_few_steps, "grid": _draw_other_noise}
        asked, kind = makers[source](rng), f"drawn for {source}"
    question = (
        {"delta": _draw_power(rng, -10, -0.3)}
        if rng.random() < 0.6
        else {"epsilon": float(rng.choice([-1.0, 0.0, 0.1, 0.5, 1.0, 3.0]))}
    )
    try:
        certificate = asked.certificate(neighbors=relation, **question)
        run = certificate.composition
        if certificate.epsilon is None:
            bound = run.epsilon(certificate.delta, neighbors=relation)
        else:
            bound = run.delta(certificate.epsilon, neighbors=relation)
    except ValueError:
        return None
    return certificate, kind, str(bound.engine)


def verify_ends(text: str, each: float) -> tuple[list[str], list[float], float, list[str]]:
    """Returns for both ends the verdict and the relative distance of the number that was proved, and the seconds."""
    verdicts, distances, words = [], [], []
    verify.TABLES.clear()
    start = time.process_time()
    for high in (True, False):
        verdict, distance, how = "refused", math.inf, ""
        signal.setitimer(signal.ITIMER_PROF, each)
        try:
            claim = verify.read_certificate(text)
            found = verify.verify_certificate_end(claim, high, nearby=True)
            stated, how = claim.upper if high else claim.lower, found.how
            if found.proved:
                verdict, distance = "full", 0.0
            elif found.end and stated and not (high and claim.asked == "delta" and found.end >= 1):
                verdict, distance = "wider", float(min(abs(found.end / stated - 1), Fraction(10**300)))
        except verify.Unverified as error:
            how = str(error)
        except (TooLong, SystemError):  # an integral of the checker turns the first into the second
            how = "too long"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        verdicts.append(verdict)
        distances.append(distance)
        words.append(how)
    return verdicts, distances, time.process_time() - start, words


def can_be_read(text: str) -> bool:
    """Tells whether the library builds the composition of a certificate."""
    with suppress(ValueError, TypeError):
        dp.Certificate.from_json(text)
        return True
    return False


def count_false_changes(answers: list[Answer], seed: int) -> Counter[str]:
    """Returns how many changed certificates are verified, and prints those of them that the engines contradict."""
    counts: Counter[str] = Counter()
    for answer in answers:
        rng = np.random.default_rng([seed, answer["number"]])
        plain = json.loads(answer["text"])
        for place in list_leaves(plain):
            value = plain
            for step in place:
                value = value[step]
            others = list(list_certificate_changes(value, rng))
            changed = edited(plain, place, others[rng.integers(len(others))]) if others else plain
            text, verified = json.dumps(changed), False
            with suppress(verify.Unverified):
                claim = verify.read_certificate(text)
                verified = all(
                    verify.verify_certificate_end(claim, high, nearby=False, points=2**12, limit=1e6).proved
                    for high in (True, False)
                )
            if verified and not is_possible(changed):
                kind = "false" if can_be_read(text) else "of a mechanism that the library refuses"
                print(f"VERIFIED, AND {kind}:", text, flush=True)
                counts[f"verified, and {kind}"] += 1
            counts["verified" if verified else "not verified"] += 1
        counts["certificates"] += 1
        print(dict(counts), flush=True)
    return counts


def tabulate(answers: list[Answer], key: str) -> list[str]:
    """Returns the rows of a table: how many ends were verified, by ``key``."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[answer[key]].append(answer)
    rows = [
        "| Answers | Number | Both ends as stated | Upper | Lower | Next to an end | Seconds, median | largest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in sorted(groups.items(), key=lambda each: -len(each[1])):
        both = sum(each["verdicts"] == ["full", "full"] for each in found)
        upper, lower = (sum(each["verdicts"][i] == "full" for each in found) for i in (0, 1))
        wider = sum("wider" in each["verdicts"] for each in found)
        seconds = sorted(each["seconds"] for each in found)
        rows.append(
            f"| {name} | {len(found)} | {both} ({100 * both / len(found):.0f} %) | {upper} | {lower} | {wider} "
            f"| {seconds[len(seconds) // 2]:.2g} | {seconds[-1]:.2g} |"
        )
    return rows


def main() -> None:
    """Draws answers, verifies their certificates, and prints the tables."""
    args = options(__doc__, count=1000, seed=1, each=30.0, first=0, lines="", page=False, changes=False)

    def stop(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, stop)
    answers: list[Answer] = []
    if args.lines and Path(args.lines).exists():
        answers = [json.loads(line) for line in Path(args.lines).read_text(encoding="utf-8").splitlines()]
    if args.changes:
        print(count_false_changes(answers, args.seed))
        return
    number = max((each["number"] + 1 for each in answers), default=args.first)
    while len(answers) < args.count:
        rng = np.random.default_rng([args.seed, number])
        number += 1
        signal.setitimer(signal.ITIMER_PROF, args.each)
        try:
            found = draw_certificate(rng)
        except TooLong:
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if found is None:
            continue
        certificate, kind, engine = found
        try:
            text = certificate.to_json()
        except ValueError:
            continue
        verdicts, distances, seconds, words = verify_ends(text, args.each)
        answer = {"number": number - 1, "kind": kind, "engine": engine, "verdicts": verdicts, "distances": distances,
                  "seconds": seconds, "words": words, "text": text}  # fmt: skip
        answers.append(answer)
        if args.lines:
            with open(args.lines, "a", encoding="utf-8") as file:
                file.write(json.dumps(answer) + "\n")
    by_engine, by_kind = tabulate(answers, "engine"), tabulate(answers, "kind")
    print("\n".join([*by_engine, "", *by_kind]))
    print(Counter(tuple(each["verdicts"]) for each in answers))
    if args.page:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text("\n".join([before + BEGIN, *by_engine, "\n" + END + rest.split(END)[1]]), encoding="utf-8")


if __name__ == "__main__":
    main()
