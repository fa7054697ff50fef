"""Asks the library about a run and holds each answer against enumerated truth and against the other answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.auto import NAMES

from .mechanisms import EPSILONS
from .truth import Parts, Truth

ROUNDING = 1e-9
"""Relative: the oracle's own masses are known to 1e-11."""
ABSOLUTE = 1e-13
"""Of sums of probabilities, which are at most 1."""
CUT = 0.02
"""Relative width below which answers are cut no more; those that stay wide are cut by other points for each question.
Answers about groups are all of the same lines."""
FAR = 700.0
"""An epsilon at which a lower end of infinity is held against the truth: e^700 is a double."""
TINY = 1e-290
"""Where masses may be no doubles."""
ALPHAS = np.array([1e-6, 1e-3, 0.05, 0.2, 0.5, 0.8, 0.95])
PRIORS = np.array([0.02, 0.2, 0.5, 0.8, 0.98])
LINES = np.linspace(-6.0, 6.0, 25)
"""Slopes, as epsilons, of lines that no trade-off curve is below: beta >= 1 - delta - e^epsilon alpha."""
ORDERS = np.array([1.25, 2.0, 5.0, 16.0])
ATTAINED = (
    dp.Gaussian, dp.Laplace, dp.DiscreteGaussian, dp.DiscreteLaplace, dp.PureDP, dp.RandomizedResponse,
    dp.MixtureOfGaussians, dp.PrivacyLoss, dp.TreeAggregation,
)  # fmt: skip
"""The documentation calls them exact, and the worst data sets and members are among those that are enumerated."""


@dataclass(frozen=True)
class Case:
    run: dp.Mechanism | dp.Composition
    relation: str
    group: int = 1

    @property
    def asked(self) -> dp.Mechanism | dp.Composition:
        return self.run if self.group == 1 else self.run.group(self.group)

    @property
    def truth(self) -> Truth:
        return Truth(self.parts, self.relation, self.group)

    @property
    def parts(self) -> Parts:
        """As they were written: a composition keeps the simplest form of each."""
        return ((self.run, 1),) if isinstance(self.run, dp.Mechanism) else tuple(self.run.parts)

    def __str__(self) -> str:
        grouped = "" if self.group == 1 else f".group({self.group})"
        return f"({self.run!r}){grouped}, neighbors={self.relation!r}"


class Refused(Exception):
    """The library says that it has no proof here."""


def alarms(
    case: Case, curves: bool = True, patience: float = math.inf, epsilons: np.ndarray = EPSILONS
) -> Iterator[str]:
    """What cannot be true. Raises ``Refused`` where nothing is claimed. Where the first answer takes more units
    of work than ``patience``, few more are asked for."""
    try:
        before = _core.work_spent()
        if patience < math.inf:
            yield from (f"{case}: {text}" for text in _profile(case, EPSILONS[4:5]))
        quick = _core.work_spent() - before <= patience
        yield from (f"{case}: {text}" for text in _profile(case, epsilons if quick else EPSILONS[2:3]))
        if curves and quick:
            for about in (_epsilon, _batch, _tests, _moments, _gdp):
                yield from (f"{case}: {text}" for text in about(case))
    except dp.ContradictionError as error:
        yield f"{case}: ContradictionError: {error}"
    except ValueError as error:
        if str(error).startswith("neighbors must be"):
            raise Refused(str(error)) from None
        raise


def _profile(case: Case, epsilons: np.ndarray) -> Iterator[str]:
    asked = case.asked.profile(epsilons, neighbors=case.relation)
    least = case.truth.least_delta(epsilons)
    for e, upper, truth in zip(epsilons, asked.upper, least, strict=True):
        if truth > upper * (1 + ROUNDING) + TINY:
            yield f"delta({e:g}) has upper end {upper:.9g}, enumerated is {truth:.9g}"
    most = case.truth.most_delta(epsilons, attained(case))
    for e, lower, truth in zip(epsilons, asked.lower, most, strict=True):
        if lower > truth * (1 + ROUNDING) + ABSOLUTE:
            yield f"delta({e:g}) has lower end {lower:.9g}, no two neighbours have more than {truth:.9g}"


def useless(case: Case, epsilons: np.ndarray = EPSILONS) -> Iterator[str]:
    """Upper ends that another answer, or the probability of being looked at, shows to be too high."""
    found = [case.asked.delta(float(e), neighbors=case.relation) for e in np.sort(epsilons)]
    ends = [bound.upper for bound in found]
    lower = min(bound.lower / bound.upper if bound.upper else 1.0 for bound in found)
    allowed = CUT if lower < 1 - CUT and case.group == 1 else ROUNDING
    for before, after, e in zip(ends[:-1], ends[1:], np.sort(epsilons)[1:], strict=True):
        if after > before * (1 + allowed):
            yield f"{case}: delta({e:g}) has upper end {after:.9g}, that of a smaller epsilon is {before:.9g}"
    seen = looked_at(case)
    for e, upper in zip(np.sort(epsilons), ends, strict=True):
        if e >= 0 and upper > seen * (1 + ROUNDING) + 1e-15:
            yield f"{case}: delta({e:g}) has upper end {upper:.9g}, it is looked at with probability {seen:.9g}"


def attained(case: Case) -> bool:
    """Whether the lower end must be below what enumeration finds."""
    for mechanism, _ in case.parts:
        inner = mechanism
        if isinstance(mechanism, dp.PoissonSampled):
            inner = mechanism.mechanism
            if case.relation == "replace" and not isinstance(inner, (dp.Gaussian, dp.MixtureOfGaussians, dp.PureDP)):
                return False
        if not isinstance(inner, ATTAINED):
            return False
    return True


def looked_at(case: Case) -> float:
    """The probability that a record of the group is in any sample; 1 where that is not known here."""
    missed = 1.0
    for mechanism, count in case.parts:
        match mechanism:
            case dp.PoissonSampled(_, q) | dp.TruncatedPoissonSampled(_, q):
                missed *= (1 - q) ** (count * case.group * (2 if case.relation == "replace" else 1))
            case _:
                return 1.0
    return 1 - missed


def _epsilon(case: Case) -> Iterator[str]:
    for delta in (0.3, 1e-2, 1e-5):
        bound = case.asked.epsilon(delta, neighbors=case.relation)
        if bound.upper < 60:
            least = float(case.truth.least_delta(np.array([bound.upper]))[0])
            if least > delta * (1 + ROUNDING):
                yield f"epsilon({delta:g}) has upper end {bound.upper:.9g}, whose enumerated delta is {least:.9g}"
        if bound.lower > 0:
            at = np.array([min(bound.lower, FAR) * (1 - ROUNDING) - ABSOLUTE])
            most = case.truth.most_delta(at, attained(case))
            if most[0] < delta * (1 - ROUNDING) - ABSOLUTE:
                yield f"epsilon({delta:g}) has lower end {bound.lower:.9g}, whose delta is at most {most[0]:.9g}"


def _batch(case: Case) -> Iterator[str]:
    """The batch answers about one kind of run, under one relation."""
    match case.parts, case.relation, case.group:
        case ((dp.PoissonSampled(dp.Gaussian(sigma), q), count),), "add_or_remove", 1:
            for delta in (0.3, 1e-2, 1e-5):
                lower, upper = (float(end) for end in dp.epsilon_batch(sigma, q, count, delta))
                if case.truth.least_delta(np.array([upper]))[0] > delta * (1 + ROUNDING):
                    yield f"epsilon_batch at {delta:g} has upper end {upper:.9g}, which data sets exceed"
                most = case.truth.most_delta(np.array([max(lower * (1 - ROUNDING) - ABSOLUTE, 0.0)]), attained(case))
                if lower > 0 and most[0] < delta * (1 - ROUNDING) - ABSOLUTE:
                    yield f"epsilon_batch at {delta:g} has lower end {lower:.9g}, which no data sets reach"


def _tests(case: Case) -> Iterator[str]:
    """The trade-off curve, the Bayes risk and the advantage."""
    curve = case.asked.tradeoff(ALPHAS, neighbors=case.relation)
    for run in case.truth.runs():
        slack = ROUNDING + run.below.error * 10
        for alpha, lower, beta in zip(ALPHAS, curve.lower, run.below.type_two(ALPHAS), strict=True):
            if lower > beta + slack:
                yield f"tradeoff({alpha:g}) has lower end {lower:.9g}, a test has {beta:.9g}"
    risks = case.asked.bayes_risk(PRIORS, neighbors=case.relation)
    possible = PRIORS * (1 - case.truth.least_delta(np.log(1 / PRIORS - 1)))
    for prior, lower, risk in zip(PRIORS, risks.lower, possible, strict=True):
        if lower > risk * (1 + ROUNDING) + ABSOLUTE:
            yield f"bayes_risk({prior:g}) has lower end {lower:.9g}, a test has {risk:.9g}"
    surest = PRIORS * (1 - case.truth.most_delta(np.log(1 / PRIORS - 1), attained(case)))
    for prior, upper, risk in zip(PRIORS, risks.upper, surest, strict=True):
        if upper < risk * (1 - ROUNDING) - ABSOLUTE:
            yield f"bayes_risk({prior:g}) has upper end {upper:.9g}, every test has {risk:.9g}"
    missed = np.maximum(1 - case.truth.most_delta(LINES) - np.exp(LINES) * ALPHAS[:, None], 0.0).max(axis=1)
    for alpha, upper, beta in zip(ALPHAS, curve.upper, missed, strict=True):
        if upper < beta * (1 - ROUNDING) - ABSOLUTE:
            yield f"tradeoff({alpha:g}) has upper end {upper:.9g}, every test has {beta:.9g}"
    advantage = case.asked.advantage(neighbors=case.relation)
    least, most = (
        float(found[0]) for found in (case.truth.least_delta(np.zeros(1)), case.truth.most_delta(np.zeros(1)))
    )
    if advantage.upper < least * (1 - ROUNDING) - ABSOLUTE:
        yield f"advantage has upper end {advantage.upper:.9g}, a test has {least:.9g}"
    if advantage.lower > most * (1 + ROUNDING) + ABSOLUTE:
        yield f"advantage has lower end {advantage.lower:.9g}, no test has more than {most:.9g}"


def _moments(case: Case) -> Iterator[str]:
    try:
        curve = case.asked.renyi(ORDERS, neighbors=case.relation)
    except ValueError as error:
        if "renyi" in str(error) or "Renyi" in str(error):
            return
        raise
    for run in case.truth.runs():
        if run.below.error:
            continue
        for order, upper in zip(ORDERS, curve.upper, strict=True):
            least = run.below.renyi(order)
            if least > upper * (1 + 1e-7) + ROUNDING:
                yield f"renyi({order:g}) has upper end {upper:.9g}, two data sets have {least:.9g}"


def _gdp(case: Case) -> Iterator[str]:
    for delta in (0.0, 1e-3):
        mu = case.asked.gdp(delta, neighbors=case.relation).upper
        if not 0 < mu < 1e3:
            continue
        at = np.array([e for e in EPSILONS if e >= 0])
        allowed = np.maximum(delta, dp.Gaussian(1 / mu).profile(at).upper)
        least = case.truth.least_delta(at)
        for e, most, found in zip(at, allowed, least, strict=True):
            if found > most * (1 + ROUNDING) + TINY:
                yield f"gdp({delta:g}) is {mu:.9g}, which allows delta({e:g}) {most:.9g}; enumerated is {found:.9g}"


def disagreements(case: Case, epsilons: Sequence[float] = (0.0, 1.0, 3.0)) -> list[str]:
    """Engines whose intervals exclude each other or the truth."""
    least = case.truth.least_delta(np.array(epsilons, dtype=float))
    found = []
    for e, truth in zip(epsilons, least, strict=True):
        bounds = {}
        for name in NAMES:
            try:
                bound = case.asked.delta(e, neighbors=case.relation, engine=name)
            except ValueError:
                continue
            except dp.ContradictionError as error:
                found.append(f"{case}: engine {name!r}: ContradictionError: {error}")
                continue
            bounds[name] = bound
            if truth > bound.upper * (1 + ROUNDING) + TINY:
                found.append(f"{case}: {name} has delta({e:g}) upper end {bound.upper:.9g}, enumerated is {truth:.9g}")
        for one, a in bounds.items():
            for other, b in bounds.items():
                if a.lower > b.upper * (1 + 1e-13) + 1e-300:
                    found.append(
                        f"{case}: delta({e:g}) is at least {a.lower!r} ({one}) and at most {b.upper!r} ({other})"
                    )
    return found


def overspent(case: Case, epsilon: float, delta: float) -> list[str]:
    """Filters that allow, and odometers that read, less than the truth."""
    found = []
    parts = case.asked._to_composition().parts
    least = float(case.truth.least_delta(np.array([epsilon]))[0])
    for family in ("renyi", "zcdp", "gaussian"):
        options = {"failure": delta / 2} if family == "renyi" else {}
        try:
            filter_ = dp.PrivacyFilter(epsilon, delta, family=family, neighbors=case.relation, **options)
            for mechanism, count in parts:
                filter_.spend(mechanism, count)
        except (dp.BudgetExceeded, ValueError):
            continue
        if least > delta * (1 + ROUNDING):
            found.append(f"{case}: a {family} filter of ({epsilon:g}, {delta:g}) allows it, enumerated is {least:.9g}")
    odometer = dp.Odometer(delta, np.geomspace(0.1, 20, 12), neighbors=case.relation)
    try:
        for mechanism, count in parts:
            odometer.spend(mechanism, count)
    except ValueError:
        return found
    if math.isfinite(odometer.epsilon):
        least = float(case.truth.least_delta(np.array([odometer.epsilon]))[0])
        if least > delta * (1 + ROUNDING):
            found.append(f"{case}: an odometer reads {odometer.epsilon:g} at {delta:g}, enumerated is {least:.9g}")
    return found
