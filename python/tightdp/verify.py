"""Verifies a certificate of a privacy bound, and shares no code with the library that made the certificate.

A certificate names a composition, a neighbouring relation, and the two ends of a bound on epsilon at a delta, or on
delta at an epsilon. This file proves both ends again, in ball arithmetic (python-flint), with pairs of distributions
from its own table (``PAIRS``). The certificate does not guide the proof. The method is proved in
docs/theory/certificates.md, and the format is described in docs/reference/certificate.md. The file also runs alone:
``python verify.py FILE``.

``check`` returns True only if both ends were proved as stated. If an end was not proved, ``explain`` also looks for a
number close to the end that can be proved. "Not verified" does not mean that an end is wrong.
"""

from __future__ import annotations

import json
import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property, reduce
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from flint import acb, acb_mat, acb_poly, arb, arb_poly, ctx, fmpq, fmpz, fmpz_poly

FORMAT, VERSION = "tightdp certificate", 1
RELATIONS = "add_or_remove", "add", "remove", "replace", "replace_special"
MOST_BYTES, MOST_COUNT = 20_000, 2**53
LN2 = math.log(2.0)
FARTHEST = 2.0**14
"""Largest absolute value of an output that is examined, in standard deviations of the noise."""


class Unverified(ValueError):
    """Error that is raised if a statement is not verified. Its message is the reason."""


class TooMuchWork(Unverified):
    """Error that is raised before a computation that would exceed the limit of work."""


class ProofWork:
    """Counter of the work on one certificate. Each loop and each table is counted before it begins.

    A unit is about one microsecond, or at most a few dozen bytes of a table. The limit therefore also bounds memory.
    """

    def __init__(self) -> None:
        self.reset_certificate_work(math.inf)

    def reset_certificate_work(self, limit: float) -> None:
        """Begins to count from nothing, up to ``limit`` units."""
        self.limit, self.done, self.refused = limit, 0.0, False

    def count_certificate_work(self, units: float, of_balls: bool = True) -> None:
        """Counts ``units``. Raises TooMuchWork if the work would exceed the limit.

        Operations with balls count more at a higher precision.
        """
        cost = units * (1 + (ctx.prec / 256) ** 1.5) if of_balls else units
        if not self.done + cost <= self.limit:
            self.refused = True
            raise TooMuchWork(TOO_MUCH)
        self.done += cost


WORK = ProofWork()
TOO_MUCH = "it would take too much work"
MOST_WORK = 4.5e7
"""Limit of work for one certificate. Each end has half of it.

A third of that half is kept for the search for a number close to an unproved end.
"""


# ---- Pairs of distributions ------------------------------------------------------------------------------------------
# P is the output's distribution with the record, and Q that without the record. The loss Y is log dP/dQ. Numbers of
# sections refer to docs/theory/certificates.md.


def to_ball(x: Any) -> arb:
    """Returns the ball of an exact number."""
    exact = Fraction(x)
    return arb(fmpq(exact.numerator, exact.denominator))


def compute_exponential_ball(x: arb) -> arb:
    """Returns e^x. The ball of a wide ``x`` is as narrow as its ends allow, which that of Arb's ``exp`` is not."""
    return x.lower().exp().union(x.upper().exp())


def compute_normal_tail_ball(x: arb) -> arb:
    """Returns the probability that a standard normal variable exceeds ``x``."""
    return (x / arb(2).sqrt()).erfc() / 2


class Pair:
    """A pair of distributions P and Q, given by the probabilities of the events Y > y or Y >= y of its loss Y."""

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        """Returns the probabilities under P and under Q of one of the events Y > ``y`` and Y >= ``y``.

        Both events give the same hockey-stick divergence.
        """
        raise Unverified("no curve is known")

    def evaluate_curve_ball(self, epsilon: arb) -> arb:
        """Returns the hockey-stick divergence of P and Q at ``epsilon``."""
        p, q = self.compute_verified_tail_balls(epsilon)
        return p - epsilon.exp() * q

    def reverse_verified_pair(self) -> Pair:
        """Returns the reversed pair (Q, P)."""
        return Reversed(self)

    def compute_verified_moment_balls(self, c: float, h: float, points: range, bits: int) -> list[acb]:
        """Returns E[e^{zY}; Y finite] under P at z = c + ihk for each k of ``points``."""
        return [self.compute_verified_moment_ball(acb(c, arb(h) * k)) for k in points]

    def compute_verified_moment_ball(self, z: acb) -> acb:
        """Returns E[e^{zY}; Y finite] under P."""
        raise Unverified("no moments are known")

    def list_verified_grid_anchors(self) -> list[arb]:
        """Returns at most two losses of positive mass at which a lattice should have points."""
        return []

    def compute_infinity_ball(self) -> arb:
        """Returns P's mass where Q has none."""
        return arb(0)

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        """Returns the least and the largest finite loss, as far as they are known."""
        return None, None

    def bound_decay_by_ball(self, c: float, cells: int) -> Callable[[float], arb]:
        """Returns a function of t that bounds |E e^{(c+is)Y}| / E e^{cY} for all s >= t."""
        return lambda t: arb(1)


@dataclass(frozen=True)
class Reversed(Pair):
    """The reversed pair (Q, P) of a pair (P, Q) in which P has mass wherever Q has."""

    pair: Pair

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        p, q = self.pair.compute_verified_tail_balls(-y)
        return 1 - q, 1 - p

    def reverse_verified_pair(self) -> Pair:
        return self.pair

    def list_verified_grid_anchors(self) -> list[arb]:
        return [-y for y in self.pair.list_verified_grid_anchors()]

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        low, high = self.pair.compute_verified_extreme_loss_balls()
        return None if high is None else -high, None if low is None else -low

    def compute_verified_moment_ball(self, z: acb) -> acb:
        return self.pair.compute_verified_moment_ball(-1 - z)

    def bound_decay_by_ball(self, c: float, cells: int) -> Callable[[float], arb]:
        return self.pair.bound_decay_by_ball(-1 - c, cells)


class Symmetric(Pair):
    """A pair with the same curve as its reverse."""

    def reverse_verified_pair(self) -> Pair:
        return self


@dataclass(frozen=True)
class Normal(Symmetric):
    """The pair N(mu, 1) and N(0, 1), where ``squared`` is mu^2."""

    squared: Fraction

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        WORK.count_certificate_work(10)
        mu = to_ball(self.squared).sqrt()
        return compute_normal_tail_ball(y / mu - mu / 2), compute_normal_tail_ball(y / mu + mu / 2)

    def compute_verified_moment_ball(self, z: acb) -> acb:
        return (z * (z + 1) * (to_ball(self.squared) / 2)).exp()

    def bound_decay_by_ball(self, c: float, cells: int) -> Callable[[float], arb]:
        return lambda t: (-to_ball(self.squared) * (arb(t) ** 2) / 2).exp()


class ExponentialPair(Symmetric):
    """A symmetric pair whose moment at z is a sum of two terms e^{zy} (a + b/(2z + 1)), y its largest or least loss."""

    def list_verified_moment_terms(self) -> list[tuple[arb, arb, arb]]:
        """Returns the two terms (y, a, b), that of the largest loss first."""
        raise NotImplementedError

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        (high, _, _), (low, _, _) = self.list_verified_moment_terms()
        return low, high

    def compute_verified_moment_ball(self, z: acb) -> acb:
        return sum(((z * y).exp() * (a + b / (2 * z + 1)) for y, a, b in self.list_verified_moment_terms()), acb(0))

    def bound_decay_by_ball(self, c: float, cells: int) -> Callable[[float], arb]:
        """Bounds each term of the transform by its size."""
        terms = [((y * c).exp(), abs(a), abs(b)) for y, a, b in self.list_verified_moment_terms()]
        whole = self.compute_verified_moment_ball(acb(c)).real
        return lambda t: (sum((x * (a + b / (2 * arb(t))) for x, a, b in terms), arb(0)) / whole).min(arb(1))


@dataclass(frozen=True)
class Laplacian(ExponentialPair):
    """The pair of Laplace distributions of scale 1 around ``mu`` and around 0."""

    mu: Fraction

    def list_verified_grid_anchors(self) -> list[arb]:
        return [-to_ball(self.mu), to_ball(self.mu)]

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        WORK.count_certificate_work(10)
        mu = to_ball(self.mu)
        if y > mu or y < -mu:
            return (arb(0), arb(0)) if y > mu else (arb(1), arb(1))
        return 1 - ((y - mu) / 2).exp() / 2, (-(y + mu) / 2).exp() / 2

    def list_verified_moment_terms(self) -> list[tuple[arb, arb, arb]]:
        mu = to_ball(self.mu)
        low = (-mu).exp() / 2
        return [(mu, arb(0.5), arb(0.5)), (-mu, low, -low)]


@dataclass(frozen=True)
class OppositeLaplacians(Symmetric):
    """Laplace noise of scale 1, around ``mu`` and around -``mu`` with the probability ``q``, and else around 0."""

    mu: Fraction
    q: Fraction

    def list_verified_grid_anchors(self) -> list[arb]:
        return list(self.compute_verified_extreme_loss_balls())

    def compute_verified_extreme_loss_balls(self) -> tuple[arb, arb]:
        top = compute_sampled_loss_ball(to_ball(self.mu), self.q) - compute_sampled_loss_ball(to_ball(-self.mu), self.q)
        return -top, top

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        """Returns the tails. The loss ascends on outputs in [-mu, mu], and is odd and constant beyond."""
        WORK.count_certificate_work(20)
        mu, q, found = to_ball(self.mu), to_ball(self.q), []
        behind = 1 - q + q * (-mu).exp()
        if abs(y) > self.compute_verified_extreme_loss_balls()[1]:
            return (arb(0), arb(0)) if y > 0 else (arb(1), arb(1))
        for sign in (s for s in (1, -1) if not s * y < 0):
            u = ((mu + (((sign * y).exp() * behind - (1 - q)) / q).log()) / 2).min(mu)
            tails = (1 - q) * (-u).exp() / 2 + q * (1 - (u - mu).exp() / 2), behind * (-u).exp() / 2
            found.append(tails if sign > 0 else (1 - tails[1], 1 - tails[0]))
        return found[0][0].union(found[-1][0]), found[0][1].union(found[-1][1])


@dataclass(frozen=True)
class Envelope(ExponentialPair):
    """The pointwise largest curve of all mechanisms whose losses lie in an interval of length ``eta``."""

    eta: Fraction

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        WORK.count_certificate_work(10)
        eta = to_ball(self.eta)
        if y > eta or y < -eta:
            return (arb(0), arb(0)) if y > eta else (arb(1), arb(1))
        root, whole = ((y - eta) / 2).exp(), 1 - (-eta).exp()
        return (1 - root) / whole, (1 - root) * root * (-y).exp() / whole

    def list_verified_moment_terms(self) -> list[tuple[arb, arb, arb]]:
        eta = to_ball(self.eta)
        return [(eta, arb(0), 1 / (1 - (-eta).exp())), (-eta, arb(0), -1 / (eta.exp() - 1))]


@dataclass(frozen=True)
class LaplaceSteps(Pair):
    """Several steps of such pairs, with their counts, observed together. The curve is a finite sum (section 2)."""

    steps: tuple[tuple[ExponentialPair, int], ...]

    def compute_verified_terms(self) -> list[tuple[arb, arb, arb, arb_poly]]:
        """Returns the terms e^{zy} p(1/(2z + 1)) of the moment: y, p(1), p(-1), and the polynomial of section 2."""
        sums = [(arb(0), arb_poly([1]))]
        for pair, count in self.steps:
            WORK.count_certificate_work(2 * len(sums) * count * sum(count for _, count in self.steps))
            (y, a, b), (x, c, d) = pair.list_verified_moment_terms()
            powers = [arb_poly([a, b]) ** k * arb_poly([c, d]) ** (count - k) * math.comb(count, k)
                      for k in range(count + 1)]  # fmt: skip
            sums = [(loss + y * k + x * (count - k), p * power) for loss, p in sums for k, power in enumerate(powers)]
        found = []
        for loss, p in sums:
            tail = [arb(0), arb(0), *reversed(p.coeffs()[1:])]  # sums of every other coefficient, from the last one on
            for i in range(2, len(tail)):
                tail[i] += tail[i - 2]
            shares = [each / arb.fac_ui(i) for i, each in enumerate(tail[:1:-1])]
            found.append((loss, p(arb(1)), p(arb(-1)), arb_poly(shares)))
        return found

    def evaluate_curve_ball(self, epsilon: arb) -> arb:
        terms = keep_verified_table(("Laplace", self.steps, ctx.prec), self.compute_verified_terms)
        WORK.count_certificate_work(len(terms) * (10 + sum(count for _, count in self.steps) / 10))
        total = arb(0)
        for loss, whole, back, tail in terms:
            if not loss <= epsilon:
                x = (loss - epsilon).max(arb(0))
                total += whole - (-x).exp() * back - 2 * (-x / 2).exp() * tail(x / 2)
        return total


class AtomTable(NamedTuple):
    """The losses of a pair: ``atoms`` has each finite loss with its mass under P.

    ``infinity`` is P's mass where Q has none, and ``hidden`` is Q's mass where P has none.
    """

    atoms: list[tuple[arb, arb]]
    infinity: arb
    hidden: arb


TABLES: dict[tuple[Any, ...], Any] = {}
"""Cache of computed tables, by name and precision. It is emptied for each certificate."""


def keep_verified_table(name: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
    """Returns a table that is computed only once."""
    if name not in TABLES:
        TABLES[name] = compute()
    return TABLES[name]


@dataclass(frozen=True)
class Atoms(Pair):
    """A pair with finitely many losses. ``compute`` computes the losses' table at the current precision."""

    name: tuple[Any, ...]
    compute: Callable[[], AtomTable] = field(compare=False)
    symmetric: bool = False

    def build_atom_balls(self) -> AtomTable:
        """Returns the table at the current precision. Each table is computed only once."""
        found: AtomTable = keep_verified_table((self.name, ctx.prec), self.compute)
        return found

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        tops, p, q = keep_verified_table(("tails", self.name, ctx.prec), self.accumulate_verified_tail_balls)
        WORK.count_certificate_work(10)
        above = len(tops) - bisect_left(tops, y)
        return p[above], q[above]

    def accumulate_verified_tail_balls(self) -> tuple[list[arb], list[arb], list[arb]]:
        """Returns the upper ends of the losses, ascending, and the masses of the k largest ones under P and Q."""
        atoms, infinity, _ = self.build_atom_balls()
        WORK.count_certificate_work(5 * len(atoms))
        ordered = sorted(((y.upper(), y, p) for y, p in atoms), key=lambda atom: atom[0])
        masses = [(p, p * (-y).exp()) for _, y, p in reversed(ordered)]
        p, q = (list(accumulate((each[i] for each in masses), initial=(infinity, arb(0))[i])) for i in (0, 1))
        return [top for top, _, _ in ordered], p, q

    def reverse_verified_pair(self) -> Pair:
        if self.symmetric:
            return self

        def compute_table() -> AtomTable:
            atoms, infinity, hidden = self.build_atom_balls()
            return AtomTable([(-y, p * compute_exponential_ball(-y)) for y, p in atoms], hidden, infinity)

        return Atoms(("reversed", *self.name), compute_table)

    def list_verified_grid_anchors(self) -> list[arb]:
        """Returns the loss with the largest mass, and the heavier of the two losses next to it."""
        atoms = sorted(self.build_atom_balls().atoms, key=lambda atom: float(atom[0].mid()))
        masses = [float(mass.mid()) for _, mass in atoms]
        top = max(range(len(atoms)), key=masses.__getitem__, default=0)
        beside = [i for i in (top - 1, top + 1) if 0 <= i < len(atoms)]
        return [atoms[i][0] for i in [top, *sorted(beside, key=masses.__getitem__)[-1:]] if atoms]

    def compute_infinity_ball(self) -> arb:
        return self.build_atom_balls().infinity

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        found = self.build_atom_balls()
        if not found.infinity.is_zero() and found.infinity.rel_accuracy_bits() < 32:
            # A wide ball means that the table leaves out losses, and its extreme losses may differ from the pair's.
            return None, None
        losses = [loss for loss, _ in found.atoms] or [arb(0)]
        return reduce(arb.min, losses), reduce(arb.max, losses)

    def compute_verified_moment_balls(self, c: float, h: float, points: range, bits: int) -> list[acb]:
        atoms, n = self.build_atom_balls().atoms, len(points)
        WORK.count_certificate_work(len(atoms) * (20 + math.sqrt(n) + n / 16))
        return sum_certificate_waves([(mass * (c * loss).exp(), loss) for loss, mass in atoms], h, points)

    def join_verified_steps(self, times: int) -> Atoms:
        """Returns the pair of ``times`` independent outputs. Losses that both P and Q hardly have are left out."""

        def compute_table() -> AtomTable:
            """Returns the losses of all combinations of outputs. Masses of what is left out are in the last balls."""
            atoms, infinity, hidden = self.build_atom_balls()
            faint = arb(2) ** min(64 - ctx.prec, -ctx.prec // 2)
            kept = [(y, p) for y, p in atoms if not (p < faint and p * (-y).exp() < faint)]
            WORK.count_certificate_work(10 * count_verified_outcome_balls(len(kept), times))
            joined = list(list_verified_outcome_balls(kept, times)) if kept else []
            missing = 1 - sum((p for _, p in joined), arb(0)), 1 - sum((p * (-y).exp() for y, p in joined), arb(0))
            revealed, absent = ((1 - (1 - mass) ** times).union(lack).max(arb(0))
                                for mass, lack in zip((infinity, hidden), missing, strict=True))  # fmt: skip
            return AtomTable(joined, revealed, absent)

        return Atoms(("steps", times, *self.name), compute_table)

    def leave_out_faint_verified_losses(self, faint: arb) -> Atoms:
        """Returns the pair without losses of a mass below ``faint``, whose curves are between 0 and their mass.

        Only moments and the mass at infinity may be asked of the result. Its reversed pair is not defined.
        """

        def compute_table() -> AtomTable:
            atoms, infinity, hidden = self.build_atom_balls()
            missing = sum((p for _, p in atoms if p < faint), arb(0))
            return AtomTable([(y, p) for y, p in atoms if not p < faint], infinity.union(infinity + missing), hidden)

        return Atoms(("bright", float(faint), *self.name), compute_table)

    def sample_verified_pair(self, q: Fraction) -> Atoms:
        """Returns the pair ((1-q) Q + q P, Q)."""

        def compute_table() -> AtomTable:
            atoms, infinity, hidden = self.build_atom_balls()
            there, out = to_ball(q), to_ball(1 - q)
            mixed = [((out + there * y.exp()).log(), p * (out * (-y).exp() + there)) for y, p in atoms]
            mixed += [] if hidden.is_zero() else [(out.log(), out * hidden)]
            return AtomTable(mixed, there * infinity, arb(0))

        return Atoms(("sample", q, *self.name), compute_table)


def compute_sampled_loss_ball(y: arb | None, q: Fraction) -> arb:
    """Returns ln(1 - q + q e^y). None stands for y = -infinity."""
    return (to_ball(1 - q) + (arb(0) if y is None else to_ball(q) * y.exp())).log()


@dataclass(frozen=True)
class Sampled(Pair):
    """The pair ((1-q) Q + q P, Q) of a sample that includes the record with probability q."""

    pair: Pair
    q: Fraction

    def list_verified_grid_anchors(self) -> list[arb]:
        return [compute_sampled_loss_ball(y, self.q) for y in self.pair.list_verified_grid_anchors()]

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        low, high = self.pair.compute_verified_extreme_loss_balls()
        low = (
            None if self.pair.reverse_verified_pair().compute_infinity_ball() > 0 else low
        )  # Q's mass where P has none
        return compute_sampled_loss_ball(low, self.q), None if high is None else compute_sampled_loss_ball(high, self.q)

    def compute_infinity_ball(self) -> arb:
        return to_ball(self.q) * self.pair.compute_infinity_ball()

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        """Returns the tails at ``y``, from the tails of the inner pair at the loss x that becomes ``y``."""
        WORK.count_certificate_work(10)
        q = to_ball(self.q)
        x = (y.exp() - (1 - q)) / q
        if x <= 0:
            return arb(1), arb(1)
        if not x > 0:
            raise Unverified("an epsilon is too close to ln(1 - q)")
        p_tail, q_tail = self.pair.compute_verified_tail_balls(x.log())
        return (1 - q) * q_tail + q * p_tail, q_tail

    def compute_sampled_ratio_ball(self, y: acb) -> acb:
        """Returns 1 - q + q e^y, the likelihood ratio of the sample at the loss ``y`` of the pair."""
        return to_ball(1 - self.q) + to_ball(self.q) * y.exp()

    def compute_verified_moment_ball(self, z: acb) -> acb:
        """Returns the moment of a sample of Laplace noise, by an integral over the losses of the noise (section 3)."""
        if not isinstance(self.pair, Laplacian):
            return super().compute_verified_moment_ball(z)
        WORK.count_certificate_work(3000)
        mu, w = to_ball(self.pair.mu), z + 1

        def evaluate_density(y: acb, analytic: bool) -> acb:
            return (w * self.compute_sampled_ratio_ball(y).log(analytic=analytic) - (y + mu) / 2).exp() / 4

        ends = (w * self.compute_sampled_ratio_ball(acb(mu)).log() - mu).exp() + (
            w * self.compute_sampled_ratio_ball(acb(-mu)).log()
        ).exp()
        return ends / 2 + acb.integral(evaluate_density, acb(-mu), acb(mu))

    def bound_decay_by_ball(self, c: float, cells: int) -> Callable[[float], arb]:
        if not isinstance(self.pair, Laplacian):
            return super().bound_decay_by_ball(c, cells)
        mu, whole = to_ball(self.pair.mu), self.compute_verified_moment_ball(acb(c)).real
        low, high = self.compute_sampled_ratio_ball(acb(-mu)).real, self.compute_sampled_ratio_ball(acb(mu)).real
        ends = ((arb(c) + 1) * high.log() - mu).exp() + ((arb(c) + 1) * low.log()).exp()
        density = (low ** (arb(c) + 2) * mu.exp() + high ** (arb(c) + 2) * (-2 * mu).exp()) / (4 * to_ball(self.q))
        return lambda t: ((ends / 2 + 2 * density / arb(t)) / whole).min(arb(1))


@dataclass(frozen=True)
class Joined(Symmetric):
    """The symmetric curve that equals the curve of ((1-q) Q + q P, Q) at epsilon >= 0, for a symmetric pair (P, Q)."""

    pair: Pair
    q: Fraction

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        high = self.pair.compute_verified_extreme_loss_balls()[1]
        return (
            (None, None)
            if high is None
            else (-compute_sampled_loss_ball(high, self.q), compute_sampled_loss_ball(high, self.q))
        )

    def compute_infinity_ball(self) -> arb:
        return to_ball(self.q) * self.pair.compute_infinity_ball()

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        sampled = Sampled(self.pair, self.q)
        return sampled.compute_verified_tail_balls(y) if y >= 0 else Reversed(sampled).compute_verified_tail_balls(y)


@dataclass(frozen=True)
class Told(Pair):
    """A random choice between two pairs. The adversary is told which pair was chosen.

    The second pair is chosen with a probability between ``low`` and ``high``.
    """

    one: Pair
    other: Pair
    low: Fraction
    high: Fraction

    def average_balls(self, first: arb, second: arb) -> arb:
        """Returns the mean of two numbers, weighted by the probabilities of the two pairs."""
        share = to_ball(self.low).union(to_ball(self.high))
        return (1 - share) * first + share * second

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        (p, q), (r, s) = self.one.compute_verified_tail_balls(y), self.other.compute_verified_tail_balls(y)
        return self.average_balls(p, r), self.average_balls(q, s)

    def reverse_verified_pair(self) -> Pair:
        return Told(self.one.reverse_verified_pair(), self.other.reverse_verified_pair(), self.low, self.high)

    def compute_infinity_ball(self) -> arb:
        return self.average_balls(self.one.compute_infinity_ball(), self.other.compute_infinity_ball())

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        (a, b), (c, d) = (
            self.one.compute_verified_extreme_loss_balls(),
            self.other.compute_verified_extreme_loss_balls(),
        )
        return None if a is None or c is None else a.min(c), None if b is None or d is None else b.max(d)


@dataclass(frozen=True)
class EitherOrder(Symmetric):
    """The pointwise maximum of the curves of (P, Q) and of (Q, P)."""

    pair: Pair

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        back = self.pair.reverse_verified_pair()
        here, there = self.pair.evaluate_curve_ball(y), back.evaluate_curve_ball(y)
        if here > there or here < there:
            return (self.pair if here > there else back).compute_verified_tail_balls(y)
        p, q = self.pair.compute_verified_tail_balls(y)
        return p.union(p + arb((there - here).abs_upper())), q

    def evaluate_curve_ball(self, epsilon: arb) -> arb:
        return self.pair.evaluate_curve_ball(epsilon).max(
            self.pair.reverse_verified_pair().evaluate_curve_ball(epsilon)
        )

    def compute_infinity_ball(self) -> arb:
        return self.pair.compute_infinity_ball().max(self.pair.reverse_verified_pair().compute_infinity_ball())


@dataclass(frozen=True)
class RecordChain(Pair):
    """A group of ``size`` records. ``parts`` has the pairs of a group of one record, with their counts.

    Only an upper bound of the group's curve is known. It follows from a chain of data sets, each of which differs from
    the next by one record.
    """

    parts: tuple[tuple[Pair, int], ...]
    size: int

    def reverse_verified_pair(self) -> Pair:
        return RecordChain(tuple((pair.reverse_verified_pair(), count) for pair, count in self.parts), self.size)

    def bound_verified_chain_link(self, e: Fraction, points: int) -> arb:
        """Returns an upper bound of delta at the epsilon ``e`` for a single record. Changes the precision to 128."""
        found = next(
            list_verified_delta_proofs(merge_verified_pairs_of_run(list(self.parts)), e, 1e-9, True, points), None
        )
        ctx.prec = 128
        return arb(1) if found is None else arb(found[1].upper())

    def bound_verified_chain_curve(self, epsilon: Fraction, points: int) -> arb:
        """Returns an upper bound of delta at ``epsilon`` (section 7).

        A link joins two adjacent data sets of the chain. Each link gets its own epsilon e. For every event A, the
        line exp(e) Q(A) + delta(e) then bounds P(A). The lines of all links are composed to one line. A weighted mean
        of two composed lines is a bound too.
        """
        bound_link = cache(lambda e: self.bound_verified_chain_link(e, points))

        def add_chain_lines(links: list[Fraction]) -> arb:
            """Returns the height at Q(A) = 0 of the composed line of links with these epsilons."""
            return reduce(lambda total, e: bound_link(e) + to_ball(e).exp() * total, links, arb(0))

        def average_chain_lines(one: list[Fraction], other: list[Fraction]) -> arb:
            """Returns the height at Q(A) = 0 of a weighted mean of two composed lines.

            The weights are chosen such that the mean has the slope e^epsilon. Returns 1 if this is impossible.
            """
            low, high = (to_ball(sum(links)).exp() for links in (one, other))
            weight = (to_ball(epsilon).exp() - low) / (high - low)
            if not (weight >= 0 and weight <= 1):
                return arb(1)
            return (1 - weight) * add_chain_lines(one) + weight * add_chain_lines(other)

        # Any epsilons of the links give a valid bound, so nothing has to be proved about their choice.
        WORK.count_certificate_work(73**2 * self.size**2 / 2)
        ctx.prec, at = 128, float(epsilon)
        tops = [(pair.compute_verified_extreme_loss_balls()[1], count) for pair, count in self.parts]
        top = sum(float(high) * count for high, count in tops if high is not None)
        width = top / 36 if 0 < top < 20 and all(high is not None for high, _ in tops) else (abs(at) + 4) / 36
        heights = {i: max(float(bound_link(Fraction(width * i))), 0.0) for i in range(-36, 37)}
        chains = {
            total: (height, [Fraction(width * i) for i in chain])
            for total, (height, chain) in search_certificate_chains(heights, width, self.size).items()
        }
        two = choose_two_certificate_chains({width * total: height for total, (height, _) in chains.items()}, at)
        found = arb(1) if two is None else average_chain_lines(*(chains[round(each / width)][1] for each in two))
        links = list(chains[min(chains, key=lambda i: abs(width * i - at))][1])
        links[0] += epsilon - sum(links)
        move, tries = Fraction(width / 2), 0
        while move > width / 1000 and tries < 400:
            for i, j in ((i, j) for i in range(self.size) for j in range(self.size) if i != j):
                moved = [e + move * ((n == i) - (n == j)) for n, e in enumerate(links)]
                tries, links = tries + 1, moved if add_chain_lines(moved) < add_chain_lines(links) else links
            move /= 2
        return arb(found.min(add_chain_lines(links)).min(arb(1)).upper())


def search_certificate_chains(heights: dict[int, float], width: float, size: int) -> dict[int, tuple[float, list[int]]]:
    """Returns the lowest composed lines of ``size`` links. Nothing is proved here.

    A link i has the epsilon ``width`` * i, and its line has the height ``heights[i]``. The result has one composed line
    for each sum of the indices of its links: the height of the line, and the indices.
    """
    best = {i: (height, [i]) for i, height in heights.items()}
    for _ in range(size - 1):
        longer: dict[int, tuple[float, list[int]]] = {}
        for total, (height, chain) in best.items():
            for i, own in heights.items():
                line = own + math.exp(min(width * i, 600.0)) * height, [*chain, i]
                if total + i not in longer or line[0] < longer[total + i][0]:
                    longer[total + i] = line
        best = longer
    return best


def choose_two_certificate_chains(heights: dict[float, float], at: float) -> tuple[float, float] | None:
    """Returns two epsilons, one on each side of ``at``, or None if all epsilons are on one side.

    A weighted mean of their two lines has the slope e^at. The two epsilons are those whose mean is lowest.
    """
    found: tuple[float, tuple[float, float] | None] = math.inf, None
    for low in (each for each in heights if each <= at):
        for high in (each for each in heights if each > at):
            share = math.exp(at - high) * math.expm1(low - at) / math.expm1(low - high)
            mean = (1 - share) * heights[low] + share * heights[high]
            found = (mean, (low, high)) if mean < found[0] else found
    return found[1]


@dataclass(frozen=True)
class Concentrated(Symmetric):
    """The class of (xi, rho)-zCDP mechanisms. Only a bound of the moments is known.

    With ``replaced`` the bound is that of two steps: a record is removed, and another is added.
    """

    rho: Fraction
    xi: Fraction = Fraction(0)
    replaced: bool = False

    def compute_verified_moment_ball(self, z: acb) -> acb:
        """Returns a bound of the moment at a real z > 0."""
        rho, xi = to_ball(self.rho), to_ball(self.xi)
        if self.replaced:
            rho, xi = 4 * rho, xi * (2 + 1 / (2 * z.real + 1))
        return (z * ((z + 1) * rho + xi)).exp()


Shifts = tuple[tuple[Fraction, Fraction], ...]
"""Means of normal distributions of standard deviation 1, with their weights."""
ZERO_SHIFT: Shifts = ((Fraction(0), Fraction(1)),)


@dataclass(frozen=True)
class NormalMixtures(Pair):
    """The pair P = sum p_i N(a_i, 1) and Q = sum q_j N(b_j, 1), where every a_i >= every b_j.

    The loss Y grows with the output u: its slope is a weighted mean of the a_i minus a weighted mean of the b_j.
    """

    ahead: Shifts
    behind: Shifts

    def __hash__(self) -> int:
        return self.kept_hash

    @cached_property
    def kept_hash(self) -> int:
        """The hash, computed once: fractions take long to be hashed."""
        return hash((self.ahead, self.behind))

    def reverse_verified_pair(self) -> Pair:
        return NormalMixtures(*(tuple((-a, p) for a, p in side) for side in (self.behind, self.ahead)))

    def list_verified_extreme_shifts(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """Returns the least and the largest mean in P, and then those in Q."""
        a, b = [shift for shift, _ in self.ahead], [shift for shift, _ in self.behind]
        return min(a), max(a), min(b), max(b)

    def compute_verified_extreme_loss_balls(self) -> tuple[arb | None, arb | None]:
        (a_low, p_low), (a_high, p_high) = min(self.ahead), max(self.ahead)
        (b_low, q_low), (b_high, q_high) = min(self.behind), max(self.behind)
        low = to_ball(p_low / q_low).log() if a_low == b_low else None
        return low, to_ball(p_high / q_high).log() if a_high == b_high else None

    def list_verified_shift_balls(self) -> list[list[tuple[arb, arb, arb]]]:
        """Returns for P and for Q the mean a and the weight p of each term, and log p - a^2/2."""

        def compute_balls() -> list[list[tuple[arb, arb, arb]]]:
            sides = [[(to_ball(a), to_ball(p)) for a, p in side] for side in (self.ahead, self.behind)]
            return [[(a, p, p.log() - a**2 / 2) for a, p in side] for side in sides]

        found: list[list[tuple[arb, arb, arb]]] = keep_verified_table(("shifts", self, ctx.prec), compute_balls)
        return found

    def build_verified_log_balls(self) -> Callable[[arb], tuple[arb, arb, arb]]:
        """Returns a function of the output u.

        The function computes log dP/dN and log dQ/dN for N = N(0, 1), and the derivative of log dP/dQ.
        """
        sides, terms_in_all = self.list_verified_shift_balls(), len(self.ahead) + len(self.behind)

        def evaluate_log_balls(u: arb) -> tuple[arb, arb, arb]:
            """Returns the two logarithms and the derivative at ``u``."""
            WORK.count_certificate_work(2 + terms_in_all)
            found = []
            for side in sides:
                terms = [(a, (a * u + shift).exp()) for a, _, shift in side]
                total = sum((w for _, w in terms), arb(0))
                found.append((total.log(), sum((a * w for a, w in terms), arb(0)) / total))
            return found[0][0], found[1][0], found[0][1] - found[1][1]

        return evaluate_log_balls

    def estimate_certificate_output_of_loss(self, y: float) -> float:
        """Returns an estimate of the output whose loss is ``y``. Nothing is proved here."""
        outputs, losses = self.build_verified_output_table()
        i = min(max(bisect_left(losses, y), 1), len(losses) - 1)
        slope = (losses[i] - losses[i - 1]) / (outputs[i] - outputs[i - 1])
        return outputs[i] + (y - losses[i]) / slope if slope else outputs[i]

    def build_verified_output_table(self) -> tuple[list[float], list[float]]:
        """Returns ascending outputs with their approximate losses. The table is computed only once."""
        found: tuple[list[float], list[float]] = keep_verified_table(
            ("outputs", self), self.compute_verified_output_table
        )
        return found

    def compute_verified_output_table(self) -> tuple[list[float], list[float]]:
        """Computes the table of outputs and losses."""
        sides = [[(float(a), math.log(p) - float(a) ** 2 / 2) for a, p in side] for side in (self.ahead, self.behind)]
        least_a, most_a, least_b, most_b = map(float, self.list_verified_extreme_shifts())
        low, high = min(least_a, least_b) - 40, max(most_a, most_b) + 40
        count = min(math.ceil((high - low) * 8 * max(1.0, most_a - least_b)), 10**5)
        WORK.count_certificate_work(count * (len(self.ahead) + len(self.behind)))

        def evaluate_loss(u: float) -> float:
            logs = []
            for side in sides:
                terms = [a * u + shift for a, shift in side]
                logs.append(max(terms) + math.log(sum(math.exp(term - max(terms)) for term in terms)))
            return logs[0] - logs[1]

        outputs = [low + (high - low) * i / count for i in range(count + 1)]
        return outputs, [evaluate_loss(u) for u in outputs]

    def bracket_verified_output_of_loss(self, y: arb) -> tuple[arb, arb]:
        """Returns two outputs between which the loss passes ``y``.

        An end that cannot be proved is -FARTHEST or FARTHEST.
        """
        evaluate_log_balls, near = (
            self.build_verified_log_balls(),
            arb(self.estimate_certificate_output_of_loss(float(y.mid()))),
        )
        # Newton's steps guess the output. The signs of loss - y at both ends prove the range.
        for _ in range(2 + (ctx.prec // 16).bit_length()):
            ahead, behind, slope = evaluate_log_balls(near)
            moved = near - (ahead - behind - y) / slope
            near = moved.mid() if abs(moved) < FARTHEST else near
        low, high = arb(-FARTHEST), arb(FARTHEST)
        for power in (ctx.prec - 24, ctx.prec // 2, 16, 4, -4):
            width = arb(2) ** -power
            for end in ((near - width).mid(), (near + width).mid()):
                ahead, behind, _ = evaluate_log_balls(end)
                if ahead - behind < y:
                    low = low.max(end)
                elif ahead - behind > y:
                    high = high.min(end)
            if low > -FARTHEST and high < FARTHEST:
                break
        return low, high

    def compute_verified_tail_balls(self, y: arb) -> tuple[arb, arb]:
        """Returns the probabilities under P and Q of an output above v, where v is the output whose loss is ``y``."""
        low, high = self.bracket_verified_output_of_loss(y)
        ends = [low.union(high)] if low > -FARTHEST and high < FARTHEST else [low, high]
        found = []
        for side in self.list_verified_shift_balls():
            tails = [sum((p * compute_normal_tail_ball(end - a) for a, p, _ in side), arb(0)) for end in ends]
            tails[0] = tails[0] if low > -FARTHEST else arb(1)
            tails[-1] = tails[-1] if high < FARTHEST else arb(0)
            found.append(tails[0].union(tails[-1]))
        return found[0], found[1]

    def compute_verified_moment_balls(self, c: float, h: float, points: range, bits: int) -> list[acb]:
        """Returns the moments by the trapezoid rule over outputs u (section 4)."""
        n = len(points)
        a_low, a_high, b_low, b_high = map(float, self.list_verified_extreme_shifts())
        need, s = (bits + 4) * LN2, h * points.stop
        strip = min([12.0, *(x / w for x, w in ((3.0, a_high - a_low), (2.4, b_high - b_low)) if w > 0)])
        step, y = max((2 * math.pi / (y / 2 + s * (a_high - b_low)
                                      + (need - c * math.log(math.cos(y * (b_high - b_low) / 2))) / y), y)
                      for y in (strip / 2**i for i in range(7)))  # fmt: skip
        ends = []  # for each side: the length, the largest slope of log |F| and the logarithm of its factor
        for top, behind in ((-a_low, [(-b, q) for b, q in self.behind]), (a_high, self.behind)):
            slopes = [(max((1 + c) * max(top, 0.0) - c * float(b), 0.0), c * (float(b) ** 2 / 2 - math.log(q)), i)
                      for i, (b, q) in enumerate(behind)]  # fmt: skip
            ends.append(min((k + math.sqrt(k * k + 2 * (need + front)), i) for k, front, i in slopes))
        first, last = (math.ceil(length / step) for length, _ in ends)
        if (first + last) * n > MOST_TERMS:
            raise Unverified("the transform of a mixture of Gaussians would take too long")
        terms = len(self.ahead) + len(self.behind)
        WORK.count_certificate_work(
            (first + last) * ((4 + 4 * terms if n == 1 else 4 + 2 * terms) + 2 * math.sqrt(n) + n / 16)
        )
        evaluate_log_balls, scale = self.build_verified_log_balls(), step / (2 * arb.pi()).sqrt()
        nodes, lost, total, faint = [], arb(0), arb(0), arb(2) ** (-bits - 40)
        for j in range(-first, last + 1):
            u = arb(j) * step
            ahead, behind, _ = evaluate_log_balls(u)
            weight = (ahead * (1 + arb(c)) - behind * c - u * u / 2).exp() * scale
            total += weight
            if weight > faint:
                nodes.append((weight, ahead - behind))
            else:
                lost += weight
        # Three errors are bounded: the nodes beyond both ends, the nodes left out, and the trapezoid rule itself.
        # The bounds hold for all z = c + is of the points.
        least_a, most_a, least_b, most_b = map(to_ball, self.list_verified_extreme_shifts())
        for sign, top, count, (_, i) in ((-1, -least_a, first, ends[0]), (1, most_a, last, ends[1])):
            b, q = map(to_ball, self.behind[i])
            k = (top.max(arb(0)) * (1 + arb(c)) - b * sign * c).max(arb(0))
            if not arb(count) * step > k:
                raise Unverified("the nodes of a transform end too early")
            lost += ((k * k + b * b * c) / 2 - q.log() * c).exp() * compute_normal_tail_ball(arb(count) * step - k)
        width_a, width_b, whole = most_a - least_a, most_b - least_b, most_a - least_b
        if not (y * width_a < arb.pi() and y * width_b < arb.pi()):
            raise Unverified("the strip of a transform is too wide")
        norm = (arb(y) ** 2 / 2).exp() / ((y * width_b / 2).cos() ** arb(c))
        rule = 2 * norm / ((2 * arb.pi() * y / step).exp() - 1)
        if not rule < 1:
            raise Unverified("the rule of a transform is too coarse")
        error = lost + (total + lost) / (1 - rule) * rule * (arb(h) * points.stop * y * whole).exp()
        radius = arb(0, error.abs_upper())
        if points.stop == 1:
            return [acb(total + radius)]
        blur = acb(radius, radius)
        return [found + blur for found in sum_certificate_waves(nodes, h, points)]

    def bound_decay_by_ball(self, c: float, cells: int) -> Callable[[float], arb]:
        """Bounds the transform by rectangles (boxes) below the density of Y weighted by e^{cY} (section 3)."""
        a_low, a_high, b_low, b_high = map(float, self.list_verified_extreme_shifts())
        evaluate_log_balls = self.build_verified_log_balls()

        def evaluate_log_density(u: arb) -> arb:
            ahead, behind, _ = evaluate_log_balls(u)
            return ahead * (1 + arb(c)) - behind * c - u * u / 2

        right = (1 + c) * max(a_high, 0.0) + c * max(-b_low, 0.0) + 5
        left = (1 + c) * max(-a_low, 0.0) + c * max(b_high, 0.0) + 5
        coarse = [(-left + (left + right) * i / 200) for i in range(201)]
        heights = [float(evaluate_log_density(arb(u)).mid()) for u in coarse]  # densities may exceed all doubles
        kept = [u for u, height in zip(coarse, heights, strict=True) if height > math.log(1e-8) + max(heights)]
        low, width = min(kept) - 0.05, (max(kept) - min(kept) + 0.1) / cells
        edges, floors = [], []
        for j in range(cells + 1):
            ahead, behind, _ = evaluate_log_balls(arb(low) + arb(width) * j)
            edges.append(ahead - behind)
        for j in range(cells):
            cell = (arb(low) + arb(width) * j).union(arb(low) + arb(width) * (j + 1))
            slope = evaluate_log_balls(cell)[2].abs_upper()
            density = evaluate_log_density(cell).exp()
            floors.append((density / ((2 * arb.pi()).sqrt() * arb(slope))).lower() if slope > 0 else arb(0))
        whole = self.compute_verified_moment_balls(c, 0.0, range(1), 40)[0].real
        boxes = [(length, (mass / whole).lower()) for length, mass in cut_verified_cells_into_boxes(edges, floors)]

        def bound_from(t: float) -> arb:
            WORK.count_certificate_work(2 * len(boxes))
            lost = arb(0)
            for length, mass in boxes:
                half = arb(t) * length / 2
                first = arb(0.2173)  # a little more than the largest |sin v|/v beyond v = pi
                largest = (half.sin() / half).max(first) if half < 3 else first if half < 4.6 else 1 / half
                lost += mass * (1 - largest)
            return 1 - lost

        return bound_from


def cut_verified_cells_into_boxes(edges: list[arb], floors: list[arb]) -> list[tuple[arb, arb]]:
    """Cuts a histogram into boxes over neighbouring cells. Returns their lengths and masses."""
    boxes, stack = [], list[tuple[int, arb]]()
    for j, floor in enumerate([*floors, arb(0)]):
        start = j
        while stack and stack[-1][1] > floor:
            start, height = stack.pop()
            below = stack[-1][1] if stack and stack[-1][1] > floor else floor
            length = arb((edges[j] - edges[start]).lower())
            if length > 0 and height > below:
                boxes.append((length, (height - below) * length))
        if not stack or floor > stack[-1][1]:
            stack.append((start, floor))
    return boxes


def sum_certificate_waves(nodes: list[tuple[arb, arb]], h: float, points: range) -> list[acb]:
    """Returns the sum over the nodes (w, y) of w e^{ihky} for each k of ``points``, as one product of two matrices."""
    n = len(points)
    if not nodes:
        return [acb(0)] * n
    block, start = math.isqrt(n - 1) + 1, arb(h) * points.start

    def list_powers(base: acb, count: int, first: acb) -> list[acb]:
        powers = [acb(1), base]
        for k in range(2, count):  # few products for each power: each of them widens its ball
            powers.append(powers[k // 2] * powers[k - k // 2])
        return [first * power for power in powers[:count]]

    rows = [list_powers(acb(0, loss * h).exp(), block, acb(0, loss * start).exp() * weight) for weight, loss in nodes]
    columns = [list_powers(acb(0, loss * h * block).exp(), (n - 1) // block + 1, acb(1)) for _, loss in nodes]
    product = acb_mat(rows).transpose() * acb_mat(columns)
    return [product[k % block, k // block] for k in range(n)]


# ---- Proofs of delta at one epsilon ----------------------------------------------------------------------------------

Run = dict[Pair, int]
"""A composition: distinct pairs with their counts. Independent outputs of all of them are observed together."""
Proof = tuple[arb, arb, str]
"""A lower bound of delta, an upper bound of delta, and the method."""


def merge_verified_pairs_of_run(parts: list[tuple[Pair, int]]) -> Run:
    """Adds up the counts of equal pairs, and joins normal pairs by adding up their squared shifts (section 1)."""
    run: Run = {}
    squared = Fraction(0)
    for pair, count in parts:
        if isinstance(pair, Normal):
            squared += count * pair.squared
        else:
            run[pair] = run.get(pair, 0) + count
    return {**run, Normal(squared): 1} if squared else run


def reverse_verified_pairs_of_run(run: Run) -> Run:
    """Returns the composition of the reversed pairs."""
    return merge_verified_pairs_of_run([(pair.reverse_verified_pair(), count) for pair, count in run.items()])


def list_verified_delta_proofs(run: Run, epsilon: Fraction, scale: float, high: bool, points: int) -> Iterator[Proof]:
    """Yields bounds of delta(``epsilon``), each by more work than the bound before.

    ``high`` tells whether the upper or the lower bound is asked for. ``scale`` is about the size of delta, and sets the
    accuracy of lattices. No lattice has more than about ``points`` points.
    """
    if epsilon < 0:  # delta(e) = 1 - exp(e) + exp(e) delta'(-e), where delta' is the curve of the reversed run
        back = max((scale + math.expm1(epsilon)) * math.exp(min(float(-epsilon), 700.0)), 1e-13 * scale)
        for least, most, how in list_verified_delta_proofs(
            reverse_verified_pairs_of_run(run), -epsilon, back, high, points
        ):
            x = to_ball(epsilon).exp()
            yield 1 - x + x * least, 1 - x + x * most, how
        return
    for least, most, how in _list_verified_forward_proofs(run, epsilon, scale, high, points):
        if least.is_finite() and most.is_finite():
            yield least.max(arb(0)), most.min(arb(1)), how


def _list_verified_forward_proofs(
    run: Run, epsilon: Fraction, scale: float, high: bool, points: int
) -> Iterator[Proof]:
    """Yields bounds of delta at an epsilon >= 0: by a formula if possible, else by integrals, else on lattices."""
    finite = {pair: count for pair, count in run.items() if isinstance(pair, Atoms)}
    rest = [(pair, count) for pair, count in run.items() if pair not in finite]
    chains = [pair for pair in run if isinstance(pair, RecordChain)]
    if chains:
        if run == {chains[0]: 1}:
            yield arb(0), chains[0].bound_verified_chain_curve(epsilon, points), "chain"
        return
    if any(isinstance(pair, Concentrated) for pair, _ in rest):
        yield arb(0), bound_verified_delta_by_moment(run, to_ball(epsilon)), "moment"
        return
    ctx.prec = 128
    largest = [(pair.compute_verified_extreme_loss_balls()[1], count) for pair, count in run.items()]
    if all(high is not None for high, _ in largest):
        total = sum((high * count for high, count in largest if high is not None), arb(0))
        if to_ball(epsilon) >= total:
            beyond = compute_verified_infinity_of_run(run)
            yield beyond.lower(), beyond.upper(), "largest loss"
            return
    ctx.prec = 64
    outcomes = math.prod(
        count_verified_outcome_balls(len(pair.build_atom_balls().atoms), count) for pair, count in finite.items()
    )
    noise = [(pair, count) for pair, count in rest if isinstance(pair, ExponentialPair)]
    if noise == rest and math.prod(count + 1 for _, count in rest) * outcomes <= 400 and sum(run.values()) > 1:
        rest = [(LaplaceSteps(tuple(noise)), 1)]
    if (not rest and outcomes <= 3 * 10**5) or (len(rest) == 1 == rest[0][1] and outcomes <= 3000):
        for bits in (64, 128, 256, 512, 1024, 2048):
            ctx.prec = bits
            WORK.count_certificate_work(5 * outcomes)
            found = sum_verified_outcome_balls(finite, rest[0][0] if rest else None, to_ball(epsilon))
            yield found.lower(), found.upper(), f"formula, {bits} bits"
        return
    if high and (least := bound_verified_variation(run)) is not None:
        yield arb(0), least, "total variation"
    if any(isinstance(pair, (Normal, NormalMixtures)) or count > 20 for pair, count in rest):
        removed = list_steps_of_verified_rays(run) or list_steps_of_verified_rays(reverse_verified_pairs_of_run(run))
        sums = sum_balls_along_verified_rays, sum_balls_along_verified_reversed_rays
        rays = [(each, (24, 48, 96), "rays") for each in sums if removed]
        contour = invert_verified_transform, (26, 50, 100), "contour"
        rare = sum(float(each.q.mid()) * each.steps for each in removed) < 2  # the transform of Y hardly decays
        methods = [*rays, contour] if rare else [contour, *rays]
        for method, precisions, name in methods:
            with suppress(Unverified):
                for bits in precisions:
                    yield (*method(run, to_ball(epsilon), bits, scale), f"{name}, {bits} bits")
                return
    for size in (2**12, 2**14, 2**16, 2**18, 2**20)[: max(1, (points.bit_length() - 11) // 2)]:
        with suppress(Unverified):
            # Some pairs' moments are an integral each, and those of normal mixtures take longer than a lattice.
            slow = any(isinstance(pair, (Sampled, Reversed, NormalMixtures)) for pair in run)
            for bits in (18, 23, 28, 33, 38, 43)[: points.bit_length() - 13] if size == 2**14 and not slow else ():
                yield (*invert_verified_transform(run, to_ball(epsilon), bits, scale, True), f"smoothed, {bits} bits")
        with suppress(Unverified):
            found = compose_certificate_on_grid(run, to_ball(epsilon), size, scale, high)
            yield (arb(0), found.upper(), f"lattice of {size} points") if high else (
                found.lower(), arb(1), f"lattice of {size} points")  # fmt: skip


def compute_verified_infinity_of_run(run: Run) -> arb:
    """Returns P's mass where Q has none."""
    found = [(pair.compute_infinity_ball(), count) for pair, count in run.items()]
    kept = math.prod(((1 - mass) ** count for mass, count in found if not mass.is_zero()), start=arb(1))
    return 1 - kept


def compute_verified_moment_ball_of_run(run: Run, c: float, bits: int) -> arb:
    """Returns E[e^{cY}; Y finite] under P for the loss Y of the run."""
    moments = [pair.compute_verified_moment_balls(c, 0.0, range(1), bits)[0].real ** n for pair, n in run.items()]
    return math.prod(moments, start=arb(1))


def count_verified_outcome_balls(atoms: int, count: int) -> int:
    """Returns how many multisets of ``count`` losses there are among ``atoms`` losses, or any number above 10^6."""
    found, few = 1, min(atoms - 1, count)
    for j in range(1, few + 1):
        found = found * (atoms - 1 + count - few + j) // j
        if found > 10**6:
            break
    return found


def list_verified_outcome_balls(atoms: list[tuple[arb, arb]], count: int) -> Iterator[tuple[arb, arb]]:
    """Yields each total loss of ``count`` independent outputs, with its mass over all orders of the outputs."""
    if count == 1:
        yield from atoms
        return
    (loss, mass), others = atoms[0], atoms[1:]
    if not others:
        yield loss * count, mass**count
        return
    ways = arb(1)
    for k in range(count + 1):
        for y, p in list_verified_outcome_balls(others, count - k):
            yield y + loss * k, p * (ways * mass**k)
        ways = ways * (count - k) / (k + 1)


def sum_verified_outcome_balls(finite: dict[Atoms, int], rest: Pair | None, epsilon: arb) -> arb:
    """Returns delta of pairs with finitely many losses, composed with ``rest`` if it is not None (section 2)."""
    outcomes, kept, infinite = [(arb(0), arb(1))], arb(1), False
    for pair, count in finite.items():
        found = pair.build_atom_balls()
        kept *= (1 - found.infinity) ** count
        infinite = infinite or not found.infinity.is_zero()
        if found.atoms:
            these = list(list_verified_outcome_balls(found.atoms, count))
            outcomes = [(y + z, p * r) for y, p in outcomes for z, r in these]
        else:
            outcomes = []
    total = 1 - kept if infinite else arb(0)
    for y, p in outcomes:
        if rest is not None:
            total += p * rest.evaluate_curve_ball(epsilon - y)
        elif not y < epsilon:
            total += p * (1 - compute_exponential_ball(epsilon - y)).max(arb(0))
    return total


def bound_verified_variation(run: Run) -> arb | None:
    """Returns a quick upper bound of delta(0), the total variation distance (section 2).

    Returns None if no bound is found quickly.
    """
    found = None
    ctx.prec = 64
    with suppress(Unverified):
        found = arb(sum((count * pair.evaluate_curve_ball(arb(0)) for pair, count in run.items()), arb(0)).upper())
    with suppress(Unverified):
        if compute_verified_infinity_of_run(run).is_zero():
            squares = compute_verified_moment_ball_of_run(run, 1.0, 64)
            half = arb(((squares - 1).max(arb(0)).sqrt() / 2).upper())
            found = half if found is None or not found < half else found
    return found


def bound_verified_delta_by_moment(run: Run, epsilon: arb) -> arb:
    """Returns Chernoff's bound of delta, by one moment (section 3)."""

    def evaluate_bound(c: float) -> arb:
        """Returns log(kappa(c) E e^{cY} e^{-c epsilon}), where kappa(c) = c^c / (1 + c)^(1 + c)."""
        kappa = arb(c) * arb(c).log() - (1 + arb(c)) * (1 + arb(c)).log()
        return kappa - c * epsilon + compute_verified_moment_ball_of_run(run, c, ctx.prec).log()

    ctx.prec = 100
    best = search_exponent_of_certificate(lambda c: float(evaluate_bound(c).mid()), 1e-4, 1e4, 1e-9)
    return arb((evaluate_bound(best).exp() + compute_verified_infinity_of_run(run)).upper())


def search_exponent_of_certificate(
    bound: Callable[[float], float], least: float, most: float, accuracy: float
) -> float:
    """Returns a c between ``least`` and ``most`` that nearly minimises a bound. Nothing is proved here.

    Golden sections of log c end at a range of length ``accuracy``.
    """
    golden = (math.sqrt(5.0) - 1) / 2
    low, high = math.log(least), math.log(most)
    one, two = high - golden * (high - low), low + golden * (high - low)
    at_one, at_two = bound(math.exp(one)), bound(math.exp(two))
    while high - low > accuracy:
        if at_one < at_two:
            high, two, at_two = two, one, at_one
            one = high - golden * (high - low)
            at_one = bound(math.exp(one))
        else:
            low, one, at_one = one, two, at_two
            two = low + golden * (high - low)
            at_two = bound(math.exp(two))
    return math.exp((low + high) / 2)


class InversionPlan(NamedTuple):
    """Choice of the line Re z = c, and of the spacing h and the number n of points on it.

    Nothing has to be proved about a plan.
    """

    c: float
    h: float
    n: int
    aliases: list[float]
    """Two exponents a. Chernoff's bounds at these exponents limit the error that comes from the spacing h."""
    decays: list[tuple[Callable[[float], arb], int]]
    """Each pair's ``bound_decay_by_ball`` function, and the pair's count. The pair of the added Gaussian is one."""
    added: Fraction
    """The squared shift of a Gaussian that is added to the run, so that the transform decays. It may be 0."""
    need: float
    """Logarithm of the ratio between the first point's size and the error that is allowed."""


def plan_verified_inversion(run: Run, epsilon: arb, bits: int, smooth: bool) -> InversionPlan:
    """Returns a plan whose errors are about 2^-``bits`` times delta. Raises Unverified if it needs too many points."""
    ctx.prec = 64
    at = float(epsilon.mid())
    logs: dict[float, float] = {0.0: 0.0}

    def estimate_exponent(c: float) -> float:
        """Returns an estimate of the logarithm of Chernoff's bound of delta (``bound_verified_delta_by_moment``)."""
        if c not in logs:
            moment = float(compute_verified_moment_ball_of_run(run, c, 30).log().mid())
            logs[c] = moment - c * at + c * math.log(c) - (1 + c) * math.log1p(c)
        return logs[c]

    c = search_exponent_of_certificate(estimate_exponent, 1e-2, 2e3, 0.1)
    level = estimate_exponent(c) - (0 if smooth else 6) - bits * LN2
    # The sum over points adds copies of the loss, shifted by multiples of 2 pi/h. Chernoff's bounds at c f limit the
    # copies on either side: f > 1 on one side, f < 1 on the other.
    sides = [
        min(((estimate_exponent(c * f) - level) / abs(c * f - c), f) for f in factors)
        for factors in ((1.03, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0), (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95))
    ]
    h = 2 * math.pi / max(period for period, _ in sides)
    added = Fraction(2.0 ** (8 - bits) / (c * (c + 1))) if smooth else Fraction(0)
    run = {**run, Normal(added): 1} if smooth else run
    decays = [(pair.bound_decay_by_ball(c, 256 if count > 200 else 1500), count) for pair, count in run.items()]
    front = estimate_exponent(c) - c * math.log(c) + (1 + c) * math.log1p(c)
    n = 16
    while True:
        faded = sum(count * math.log(max(float(bound(h * n).upper()), 1e-300)) for bound, count in decays)
        if front + faded - math.log(math.pi * h * n) < level:
            return InversionPlan(c, h, n, [c * f for _, f in sides], decays, added, front - level)
        n = math.ceil(n * 1.25)
        if n > (2**30 if smooth else 20_000):
            raise Unverified("the characteristic function decays too slowly for the contour")


def skip_verified_points(pair: Atoms, count: int, plan: InversionPlan) -> tuple[list[range], arb]:
    """Returns the points k < plan.n that are summed, and a bound on the sum of |phi|^count (1/t^2 + b) over the others.

    t = kh, and phi is the transform of one step of ``pair``, divided by its value at t = 0. It is computed at every
    ``width``-th point alone (section 3).
    """
    ctx.prec, added = 64, to_ball(plan.added)
    atoms = [(p * (y * plan.c).exp(), y) for y, p in pair.build_atom_balls().atoms]
    whole = sum((p for p, _ in atoms), arb(0))
    mean = sum((p * y for p, y in atoms), arb(0)).mid() / whole.mid()
    slope = sum((p * abs(y - mean) for p, y in atoms), arb(0)) / whole * plan.h
    width = int(max(0.06 / (float(slope.mid()) + 1e-300), plan.n / 3e5))
    if width < 4 or plan.n < 2 * width:
        return [range(plan.n)], arb(0)
    cells = plan.n // width + 2
    WORK.count_certificate_work(cells * (8 + len(atoms) / 16))
    share = added * (added / 8).exp()
    bounds = [arb(1)]
    for j, value in enumerate(sum_certificate_waves(atoms, plan.h * width, range(1, cells)), 1):
        largest = abs(value) / whole + slope * width * 0.51
        least = arb(plan.h) * (width * j - width // 2)
        bounds.append(largest.min(arb(1)) ** count * (1 / least**2 + share) * width)
    total, skipped = arb(0), {0: False}
    for j in sorted(range(1, cells), key=lambda j: float(bounds[j].mid())):
        more = arb((total + bounds[j]).upper())
        skipped[j] = more < math.exp(-plan.need) / plan.h
        total = more if skipped[j] else total
    edges = [j for j in range(cells + 1) if skipped.get(j, True) != skipped.get(j - 1, True)]
    ends = [min(max(width * j - width // 2, 0), plan.n) for j in edges]
    return [range(first, last) for first, last in zip(ends[::2], ends[1::2], strict=True) if first < last], total


def invert_verified_transform(run: Run, epsilon: arb, bits: int, scale: float, smooth: bool = False) -> tuple[arb, arb]:
    """Returns bounds of delta by a finite sum of the inversion formula (section 3).

    With ``smooth``, a Gaussian of small shift is added to the run. It raises delta by little, which is bounded.
    """
    if smooth:
        ctx.prec, faint = 64, arb(max(scale, 1e-300)) / 2 ** (bits + 6) / sum(run.values())
        run = {
            pair.leave_out_faint_verified_losses(faint) if isinstance(pair, Atoms) else pair: n
            for pair, n in run.items()
        }
    plan = plan_verified_inversion(run, epsilon, bits, smooth)
    c, h, n = plan.c, plan.h, plan.n
    ranges, middle, finite = [range(n)], arb(0), [pair for pair in run if isinstance(pair, Atoms)]
    if smooth and finite:
        most = max(finite, key=lambda pair: run[pair])
        ranges, middle = skip_verified_points(most, run[most], plan)
    if (n := sum(map(len, ranges))) > MOST_POINTS:
        raise Unverified("the transform has too many points")
    ctx.prec = bits + 80
    WORK.count_certificate_work(5 * n * len(run))
    half = to_ball(plan.added) / 2
    share = (half / 4).exp()
    total, raised, front = arb(0), arb(0), arb(0)
    for points in ranges:
        values = [acb(1)] * len(points)
        for pair, count in run.items():
            moments = pair.compute_verified_moment_balls(c, h, points, bits + 30)
            values = [value * moment**count for value, moment in zip(values, moments, strict=True)]
        for k, value in zip(points, values, strict=True):
            z = acb(c, arb(h) * k)
            square, weighted = z * (z + 1), value * (half * z * (z + 1) - z * epsilon).exp()
            front = front if k else weighted.real
            total += (weighted / square).real / (1 if k else 2)
            raised += weighted.real / (1 if k else 2)
    total, raised = (each * arb(h) / arb.pi() for each in (total, raised * 2 * half * share))
    tail = front / (arb.pi() * h * (plan.n - 1)) * (1 + share if smooth else 1)
    for bound, count in plan.decays:
        tail *= bound(h * (plan.n - 1)) ** count
    tail += front * h / arb.pi() * middle
    excess = raised  # the most that the added Gaussian raises delta, 0 if none was added
    for a in map(arb, plan.aliases):
        term = (-a * epsilon).exp() / ((abs(a - arb(c)) * 2 * arb.pi() / h).exp() - 1)
        if a > 0:
            term *= a**a / (1 + a) ** (1 + a) * compute_verified_moment_ball_of_run(run, float(a), 40)
        excess += term
    beyond = compute_verified_infinity_of_run(run)
    return (total - tail - excess + beyond).lower(), (total + tail + beyond).upper()


class SampledGaussians(NamedTuple):
    """Steps of Gaussian noise on Poisson samples, for "remove": noise multiplier, sampling probability and count."""

    sigma: arb
    q: arb
    steps: int

    def evaluate_verified_ray_log(self, p: acb, turn: acb, gamma: float, analytic: bool = False) -> acb:
        """Returns log B at h = e^{p + turn} (section 5).

        Here h = ln(1 + e^t) for a normal variable t. B is the density of h with respect to p, times e^{gamma h}.
        """
        h = (p + turn).exp()
        decay = (-(-h).expm1()).log(analytic=analytic)
        away = h + decay - self.compute_verified_ray_center()
        front = self.sigma / (2 * arb.pi()).sqrt()
        return front.log() + gamma * h - away * away * self.sigma**2 / 2 + p + turn - decay

    def compute_verified_ray_center(self) -> arb:
        """Returns the mean of t."""
        return (self.q / (1 - self.q)).log() - 1 / (2 * self.sigma**2)

    def choose_verified_ray_range(self, theta: float, gamma: float, need: float) -> tuple[float, float]:
        """Returns estimates of two numbers p beyond which B is below e^-``need``. Nothing is proved here."""
        sigma, center, rho = float(self.sigma.mid()), float(self.compute_verified_ray_center().mid()), 4.0
        while True:
            x, y = rho * math.cos(theta) - center - 0.06, rho * math.sin(theta) + 0.06
            slope = sigma**2 * (x * math.cos(theta) - y * math.sin(theta)) - gamma * math.cos(theta)
            if x > 1 and slope > 1.1 and gamma * rho * math.cos(theta) - sigma**2 * (x * x - y * y) / 2 < -need:
                return min(center - 0.11 - math.sqrt(2 * need + 1) / sigma, math.log(0.09)), math.log(rho)
            rho *= 1.1

    def bound_verified_ray_ends(self, low: arb, high: arb, theta: arb, gamma: float) -> arb:
        """Returns a bound on the integral of |B| left of p = ``low`` and right of p = ``high``.

        The bound also holds for the sum over the nodes in both ranges.
        """
        rho, center, s2 = low.exp(), self.compute_verified_ray_center(), self.sigma**2
        inner = center - rho - low
        left = (gamma * rho + s2 * ((theta + rho) ** 2 - inner**2) / 2).exp() * (1 + rho) / 2
        outer = high.exp()
        x, y = outer * theta.cos() - center - 0.06, outer * theta.sin() + 0.06
        slope = s2 * (x * theta.cos() - y * theta.sin()) - gamma * theta.cos()
        if not (rho < 0.1 and inner > 0 and outer * theta.cos() > 3 and x > 0 and slope > 1 and theta < arb.pi() / 4):
            raise Unverified("the nodes of a ray end too early")
        right = (gamma * outer * theta.cos() - s2 * (x * x - y * y) / 2).exp() * self.sigma / (2 * arb.pi()).sqrt() * 4
        return arb((left + right / (3 * slope)).abs_upper())

    def bound_verified_ray_norm(self, theta: arb, gamma: float) -> arb:
        """Returns a bound on the integral of |B| along a ray."""
        low, high = self.choose_verified_ray_range(float(theta.mid()), gamma, 40.0)
        WORK.count_certificate_work(15_000)
        up, down = acb(0, theta), acb(0, -theta)  # |B|^2 is the product of B on both rays

        def evaluate_norm(p: acb, analytic: bool) -> acb:
            both = self.evaluate_verified_ray_log(p, up, gamma, analytic) + self.evaluate_verified_ray_log(
                p, down, gamma, analytic
            )
            return (both / 2).exp()

        inside = acb.integral(
            evaluate_norm, acb(low), acb(high), rel_tol=arb(2) ** -24, abs_tol=arb(2) ** -40, eval_limit=4000
        )
        if not inside.is_finite():
            raise Unverified("an integral along a ray takes too much work")
        return arb((inside.real + self.bound_verified_ray_ends(arb(low), arb(high), theta, gamma)).abs_upper())

    def sum_along_verified_ray(self, plan: RayPlan, points: range) -> tuple[list[acb], arb]:
        """Returns section 5's sum 1 + D for each of ``points``, and a bound on the integral of |B| at angle beta."""
        beta, s, gamma = arb(plan.beta), arb(plan.step), 1 + plan.c
        one, middle, other = (self.bound_verified_ray_norm(beta * k / 2, gamma) for k in (1, 2, 3))
        low, high = self.choose_verified_ray_range(1.5 * plan.beta, gamma, plan.need)
        WORK.count_certificate_work(20 * ((high - low) / plan.step + len(points)))
        first, last = math.floor(low / plan.step), math.ceil(high / plan.step)
        if last - first + len(points) > 2 * 10**5:
            raise Unverified("the rays take too many nodes")
        turn = (arb.pi() + beta) / 2
        weights = [
            s * self.evaluate_verified_ray_log(acb(s * i), acb(0, beta), gamma).exp() for i in range(first, last + 1)
        ]
        waves = [acb(s * k, turn).exp().exp() for k in range(first + points[0], last + points[-1] + 1)]
        least = arb(2) ** -ctx.prec  # the product takes much longer if its factors also have much smaller numbers
        blank = acb(arb(0, least), arb(0, least))
        waves, weights = ([x if abs(x) > least else blank for x in numbers] for numbers in (waves, weights))
        WORK.count_certificate_work(4 * len(waves) * (0.6 + ctx.prec / 60), of_balls=False)
        sums = (acb_poly(waves) * acb_poly(weights[::-1])).coeffs()[len(weights) - 1 : len(waves)]
        rule = 2 * one.max(other) / ((arb.pi() * beta / s).exp() - 1)
        error = rule + self.bound_verified_ray_ends(s * first, s * last, beta, gamma)
        blur = acb(arb(0, error.abs_upper()), arb(0, error.abs_upper()))
        return [found + blur for found in sums], middle


def list_steps_of_verified_rays(run: Run) -> list[SampledGaussians]:
    """Returns the steps of a run. The list is empty unless all are Gaussians on Poisson samples under "remove"."""
    found = []
    for pair, count in run.items():
        if not (
            isinstance(pair, NormalMixtures)
            and pair.behind == ZERO_SHIFT
            and len(pair.ahead) == 2
            and not pair.ahead[0][0]
        ):
            return []
        shift, q = pair.ahead[1]
        found.append(SampledGaussians(1 / to_ball(shift), to_ball(q), count))
    return found


class RayPlan(NamedTuple):
    """Choice of section 5's angle beta and number c, and of the step of both sums along rays. Any choice is valid."""

    beta: float
    c: float
    step: float
    need: float
    """Logarithm of the ratio between the largest terms of the sums and the error that is allowed."""


def set_precision_of_verified_rays(run: Run, precision: int) -> tuple[list[SampledGaussians], arb]:
    """Sets the precision. Returns the run's steps, and lambda: the sum of -log(1 - q) over all steps."""
    ctx.prec = precision
    found = list_steps_of_verified_rays(run)
    return found, -sum((each.steps * (1 - each.q).log() for each in found), arb(0))


def sum_verified_single_steps(steps: list[SampledGaussians], lost: arb, epsilon: arb) -> arb:
    """Returns d_1, the part of delta that comes from single steps (docs/theory/rays.md, section 1)."""
    total, above = arb(0), (epsilon + lost).expm1()
    for each in steps:
        odds = each.q / (1 - each.q)
        far = (above.log() - each.compute_verified_ray_center()) * each.sigma
        near = compute_normal_tail_ball(far - 1 / each.sigma)
        total += each.steps * (odds * near - above * compute_normal_tail_ball(far))
    return (-lost).exp() * total


def plan_verified_rays(run: Run, epsilon: arb, bits: int, scale: float) -> RayPlan:
    """Returns a plan whose errors are about 2^-``bits`` times ``scale``."""
    steps, lost = set_precision_of_verified_rays(run, 64)
    spread = sum(each.steps * float(each.sigma.mid()) ** 2 for each in steps)
    beta = min(0.4, math.sqrt(2 * bits * LN2 / spread))

    def estimate_level(c: float) -> float:
        """Returns an estimate of log(e^{-lambda - cE} T/c)."""
        norms = [each.bound_verified_ray_norm(arb(beta), 1 + c).log() * each.steps for each in steps]
        size = max(float(sum(norms, arb(0)).mid()), 0.0) + math.log(4.0 * sum(each.steps for each in steps))
        return size - float(lost.mid()) - c * float((epsilon + lost).mid()) - math.log(c)

    level, c = min((estimate_level(c), c) for c in (0.75, 2.0, 4.0, 8.0, 16.0, 32.0))
    need = max(level - math.log(max(scale, 1e-300)) + bits * LN2, 0.0) + 8
    return RayPlan(beta, c, math.pi * beta / need, need)


def sum_balls_along_verified_rays(run: Run, epsilon: arb, bits: int, scale: float) -> tuple[arb, arb]:
    """Returns bounds of delta for a removed record that few samples include, by integrals along rays (section 5)."""
    steps, lost = set_precision_of_verified_rays(run, 256)
    if not steps or float(lost.mid()) > 20 or not (epsilon + lost) > 0:
        raise Unverified("no few inclusions of a removed record")
    plan = plan_verified_rays(run, epsilon, bits, scale)
    steps, lost = set_precision_of_verified_rays(run, math.ceil(plan.need / LN2) + 100)
    beta, s, c, e = arb(plan.beta), arb(plan.step), plan.c, epsilon + lost
    psi = (arb.pi() - beta) / 2
    last = max(c, plan.need / (float(e.mid()) * math.sin(plan.beta / 2)))
    points = range(math.floor(-plan.need / plan.step), math.ceil(math.log(last) / plan.step) + 1)
    products, single, wide, trust = [acb(1)] * len(points), [acb(0)] * len(points), arb(1), arb(1)
    for each in steps:
        sums, norm = each.sum_along_verified_ray(plan, points)
        products = [product * found**each.steps for product, found in zip(products, sums, strict=True)]
        single = [linear + each.steps * (found - 1) for linear, found in zip(single, sums, strict=True)]
        wide, trust = wide + each.steps * (norm + 1), trust * norm**each.steps
    bound, total = trust + wide, arb(0)
    for j, product, linear in zip(points, products, single, strict=True):
        zeta = acb(s * j, psi).exp()
        z = zeta + c
        total += (zeta * (-zeta * e).exp() * (product - 1 - linear) / (z * (z + 1))).imag
    start, end, fall = (s * points[0]).exp(), (s * points[-1]).exp(), e * psi.cos()
    if not end >= c:
        raise Unverified("the points of a ray end too early")
    error = bound * arb.pi() / c / ((arb.pi() * beta / s).exp() - 1)
    error += bound * start / arb(c) ** 2 + bound * (-end * fall).exp() / (end**2 * fall)
    ahead = (-lost - c * e).exp() / arb.pi()
    value = (s * total + arb(0, error.abs_upper())) * ahead + sum_verified_single_steps(steps, lost, epsilon)
    return value.lower(), value.upper()


def sum_balls_along_verified_reversed_rays(run: Run, epsilon: arb, bits: int, scale: float) -> tuple[arb, arb]:
    """Returns bounds of delta for an added record, from the curve of a removed record at -``epsilon`` (section 1)."""
    x = epsilon.exp()
    least, most = sum_balls_along_verified_rays(
        reverse_verified_pairs_of_run(run), -epsilon, bits, scale / float(x.mid())
    )
    return 1 - x + x * least, 1 - x + x * most


class VerifiedGridMeasure(NamedTuple):
    """A privacy loss distribution on a lattice. ``infinity`` is P's mass at an infinite loss.

    The finite losses are at the lattice points from ``start`` on. Their masses are integers times 2^-bits.
    """

    masses: fmpz_poly
    start: int
    infinity: arb


class VerifiedGridPlan(NamedTuple):
    """Plan of a composition on a lattice of spacing ``h``, with masses in units of 2^-bits.

    Masses below 2^-cut may be moved. If ``high`` (for an upper bound), they move to larger losses. Otherwise, they move
    to smaller losses or are dropped.
    """

    h: arb
    bits: int
    cut: int
    high: bool

    def trim_verified_grid_ends(self, found: VerifiedGridMeasure) -> VerifiedGridMeasure:
        """Returns the distribution without the faint masses at its two ends.

        For an upper bound, low masses move up to the first point that is kept, and high masses move to infinity. For a
        lower bound, low masses are dropped, and high masses move down to the last point that is kept.
        """
        masses, least = found.masses.coeffs(), 1 << (self.bits - self.cut)
        left, below = 0, fmpz(0)
        while left < len(masses) - 1 and below + masses[left] <= least:
            below, left = below + masses[left], left + 1
        right, above = len(masses) - 1, fmpz(0)
        while right > left and above + masses[right] <= least:
            above, right = above + masses[right], right - 1
        kept, infinity = masses[left : right + 1], found.infinity
        if self.high:
            kept[0] += below
            infinity += arb(above) / 2**self.bits
        elif kept:
            kept[-1] += above
        return VerifiedGridMeasure(fmpz_poly(kept), found.start + left, infinity)

    def multiply_verified_grid_measures(
        self, one: VerifiedGridMeasure, other: VerifiedGridMeasure
    ) -> VerifiedGridMeasure:
        """Convolves two distributions, rounded outward."""
        length = one.masses.length() + other.masses.length()
        heights = one.masses.height_bits() + other.masses.height_bits()
        if heights > 2 * self.bits + 64:  # larger masses prove nothing, and their powers fill the memory
            raise Unverified("masses on a lattice exceed 1")
        if length > MOST_POINTS:
            raise Unverified("a lattice has too many points")
        WORK.count_certificate_work(length * (0.6 + self.bits / 250), of_balls=False)
        product = one.masses * other.masses // fmpz_poly([1 << self.bits])
        if self.high:
            product += fmpz_poly([1] * (one.masses.length() + other.masses.length() - 1))
        infinity = 1 - (1 - one.infinity) * (1 - other.infinity)
        return self.trim_verified_grid_ends(VerifiedGridMeasure(product, one.start + other.start, infinity))

    def raise_verified_grid_measure(self, base: VerifiedGridMeasure, count: int) -> VerifiedGridMeasure:
        """Convolves ``count`` copies of ``base``."""
        found = None
        while count:
            if count & 1:
                found = base if found is None else self.multiply_verified_grid_measures(found, base)
            count >>= 1
            base = self.multiply_verified_grid_measures(base, base) if count else base
        assert found is not None
        return found

    def move_to_verified_grid(self, kept: dict[int, fmpz], away: dict[int, arb], length: int) -> list[fmpz]:
        """Returns one mass for each of ``length`` lattice points. The losses of this mass are at or above the point.

        Mass i of ``kept`` has a loss that is ``away[i]`` above point i. A mass below its point is merged with a part of
        a mass at a larger loss, or moves to a lower point. A mass above its point is merged with a part of a mass at a
        smaller loss.
        """
        done, filled = [fmpz(0)] * length, sorted(i for i, mass in kept.items() if mass)
        for rank in range(len(filled) - 1, -1, -1):
            i = point = filled[rank]
            lack, mass = arb((-away[i]).upper()), arb(kept[i])
            if lack > 0:
                taken = self.take_verified_masses_above(i, mass * (lack.exp() - 1), done, filled[rank + 1 : rank + 401])
                if taken:
                    for j, part in taken.items():
                        done[j] -= part
                    done[i] += kept[i] + sum(taken.values())
                    continue
                point -= int(float((lack / self.h).upper().ceil()))
            excess = self.h * (i - point) - lack
            if point < 0 or not excess >= 0:
                continue  # the mass is dropped
            spare = mass * (1 - (-excess).exp())
            least = float(spare.mid()) / (32 * float(self.h.mid()))
            for j in reversed(filled[max(rank - 400, 0) : rank]):
                if int(kept[j]) * (point - j) < least:
                    continue
                gap = self.h * (point - j) + arb((-away[j]).upper())
                if not gap > 0:
                    continue
                lift = gap.exp() - 1
                most = max((spare / lift).lower().floor().unique_fmpz(), fmpz(0))
                more = min(most, kept[j] // 2)
                kept[j] -= more
                kept[i] += more
                if most == more:
                    break
                spare -= lift * arb(more)
            done[point] += kept[i]
        return done

    def take_verified_masses_above(self, i: int, need: arb, done: list[fmpz], above: list[int]) -> dict[int, fmpz]:
        """Returns parts w_j of the masses ``done`` at points j > i with sum w_j (1 - e^{-h (j - i)}) >= ``need``.

        Nearer points come first, and those with less than 1/32 of what is needed are passed over. Returns nothing if
        the masses do not suffice.
        """
        taken: dict[int, fmpz] = {}
        least = float(need.mid()) / (32 * float(self.h.mid()))
        for j in above:
            if int(done[j]) * (j - i) < least:
                continue
            gain = 1 - (-self.h * (j - i)).exp()
            enough = (need / gain).upper().ceil().unique_fmpz()
            taken[j] = min(enough, done[j])
            if enough <= done[j]:
                return taken
            need = arb((need - gain * arb(done[j])).upper())
        return {}

    def round_verified_grid_mass(self, mass: arb) -> fmpz:
        """Returns a mass in units of 2^-bits, rounded outward."""
        scaled = mass * (arb(2) ** self.bits)
        rounded = scaled.upper().ceil() if self.high else scaled.lower().floor()
        whole = rounded.unique_fmpz()
        assert whole is not None
        return max(whole, fmpz(0))


MOST_POINTS, MOST_TERMS = 2**21, 3 * 10**7


def choose_certificate_grid_range(pair: Pair, cut: int) -> tuple[float, float]:
    """Returns estimates of two losses beyond which P has less than 2^-cut. Nothing is proved here."""
    infinity, faint = pair.compute_infinity_ball(), arb(2) ** -cut
    ends = []

    def is_inside(sign: int, y: float) -> bool:
        p = pair.compute_verified_tail_balls(arb(sign * y))[0]
        return not (1 - p if sign < 0 else p - infinity) < faint

    for sign in (-1, 1):
        far = 2.0**-20
        while is_inside(sign, far) and far < 2.0**14:
            far *= 2
        near = far / 2 if far > 2.0**-20 else -far
        for _ in range(30):
            middle = (near + far) / 2
            near, far = (middle, far) if is_inside(sign, middle) else (near, middle)
        ends.append(sign * far)
    return ends[0], max(ends[1], ends[0] + 2.0**-20)


def estimate_certificate_loss_variance(pair: Pair, low: float, end: float) -> float:
    """Returns an estimate of the variance under P of the loss within a range. Nothing is proved here."""

    def estimate_tail(y: float) -> float:
        return float(pair.compute_verified_tail_balls(arb(y))[0].mid())

    cells = [(0.0, low, end, estimate_tail(low), estimate_tail(end))]
    for _ in range(200):  # the cell that contributes the most is halved
        _, left, right, above, beyond = heappop(cells)
        middle = (left + right) / 2
        between = estimate_tail(middle)
        for cell in ((left, middle, above, between), (middle, right, between, beyond)):
            heappush(cells, (-abs(cell[2] - cell[3]) * (right - left) ** 2, *cell))
    found = [((left + right) / 2, right - left, abs(above - beyond)) for _, left, right, above, beyond in cells]
    mean = sum(y * mass for y, _, mass in found)
    return sum(((y - mean) ** 2 + width**2 / 4) * mass for y, width, mass in found)


def compose_certificate_on_grid(run: Run, epsilon: arb, size: int, scale: float, high: bool) -> arb:
    """Returns a ball whose upper end (if ``high``) or lower end bounds delta, by lattice distributions (section 6)."""
    count = sum(run.values())
    spare = 44 if all(isinstance(pair, Atoms) for pair in run) else 34  # no lattice is exact for other pairs
    cut = math.ceil(-math.log2(max(scale, 1e-300)) + spare + math.log2(count.bit_length() * len(run)))
    bits = cut + 44
    ctx.prec = bits + 60
    ranges = {pair: choose_certificate_grid_range(pair, cut + count.bit_length()) for pair in run}
    spread = sum(run[pair] * estimate_certificate_loss_variance(pair, *ends) for pair, ends in ranges.items())
    longest = max(end - low for low, end in ranges.values())
    whole = min(sum(run[pair] * (end - low) for pair, (low, end) in ranges.items()),
                2 * math.sqrt(2 * cut * LN2 * spread) + longest)  # fmt: skip
    step = arb(whole / size)
    anchors = {pair: pair.list_verified_grid_anchors() for pair in run}
    anchored = [(abs(gaps[1] - gaps[0]), run[pair] * (ranges[pair][1] - ranges[pair][0]))
                for pair, gaps in anchors.items() if len(gaps) == 2]  # fmt: skip
    if anchored:  # the anchors of the pair with the longest range get lattice points, if their distance allows it
        gap = max(anchored, key=lambda each: each[1])[0]
        step = (gap / math.ceil(float((gap / step).mid()))).mid() if gap > step / 2 else step
    plan, total, offset = VerifiedGridPlan(step, bits, cut, high), None, arb(0)
    for pair, times in run.items():
        first = anchors[pair][0].mid() if anchors[pair] else arb(0)  # an exact number: e^x of a ball is too wide
        for joined, together, copies in join_steps_for_verified_grid(pair, times, first, step):
            ends = ranges[pair] if together == 1 else choose_certificate_grid_range(joined, cut + count.bit_length())
            layout = plan_verified_grid_layout(plan, first * together, ends, epsilon, scale)
            law, origin = (build_upper_verified_grid if high else build_lower_verified_grid)(joined, plan, layout)
            offset += copies * origin
            power = plan.raise_verified_grid_measure(plan.trim_verified_grid_ends(law), copies)
            total = power if total is None else plan.multiply_verified_grid_measures(total, power)
    assert total is not None
    first = math.floor(float(((epsilon - offset) / step).mid())) - 1 - total.start
    first = min(max(first, 0), max(total.masses.length() - 1, 0))
    while first < total.masses.length() and offset + step * (total.start + first) < epsilon:
        first += 1
    kept = total.masses.coeffs()[first:]
    if not kept:
        return total.infinity
    point = offset + step * (total.start + first)  # perhaps below epsilon, where its term would lower an upper bound
    there = ((epsilon.min(point) if high else epsilon) - point).exp()
    mass, other = arb_poly(kept)(arb(1)), arb_poly(kept)((-step).exp())
    return total.infinity + (mass - there * other) / (arb(2) ** bits)


def join_steps_for_verified_grid(pair: Pair, times: int, origin: arb, step: arb) -> list[tuple[Pair, int, int]]:
    """Returns pairs of several steps each, the numbers of these steps, and the numbers of copies.

    Losses that are no lattice points have to be moved over the distance to their neighbours, which is shorter for the
    losses of several steps.
    """
    if not isinstance(pair, Atoms) or times == 1:
        return [(pair, 1, times)]
    noticed = [y for y, p in pair.build_atom_balls().atoms if p > 1e-20 or p * (-y).exp() > 1e-20]
    places = [float(((y - origin) / step).mid()) for y in noticed]
    together = max(
        k for k in (1, 2, 3, 4) if k <= times and count_verified_outcome_balls(len(noticed), k) <= MOST_ATOMS
    )
    if together == 1 or all(abs(place - round(place)) < 1e-6 for place in places):
        return [(pair, 1, times)]
    copies, rest = divmod(times, together)
    return [(pair.join_verified_steps(k), k, n) for k, n in ((together, copies), (rest, 1)) if k]


class VerifiedGridLayout(NamedTuple):
    """A choice of cells of a pair's losses, each of one lattice point or more. Nothing has to be proved about it."""

    origin: arb
    first: int
    last: int
    importance: Callable[[float], float]
    """Function of a loss. It estimates delta of the other steps at epsilon minus the loss, divided by delta."""

    def cut_verified_grid_cells(self, pair: Pair, h: arb, shift: float) -> tuple[list[int], list[tuple[arb, arb]]]:
        """Returns the indices i at which the losses are cut, at origin + (i + ``shift``) h, and the pair's tails there.

        The cell whose width costs the most is halved until all wide cells together cost little, compared with cells of
        width h. Losses of a finite number may be lattice points, where cells of width h cost nothing.
        """
        tails: dict[int, tuple[arb, arb]] = {}
        little = 1e-9 if isinstance(pair, Atoms) else 0.25

        def compute_tails(i: int) -> tuple[arb, arb]:
            if i not in tails:
                WORK.count_certificate_work(10)
                tails[i] = pair.compute_verified_tail_balls(self.origin + h * (i + shift))
            return tails[i]

        def compute_cell_cost(i: int, j: int) -> float:
            mass = float((compute_tails(i)[0] - compute_tails(j)[0]).mid())
            return mass * (j - i) ** 2 * self.importance(float((self.origin + h * j).mid()))

        cells = [(-math.inf, self.first, self.last)]
        while cells and -cells[0][0] * len(cells) > little:
            _, i, j = heappop(cells)
            middle = (i + j) // 2
            for low, high in ((i, middle), (middle, j)):
                cost = compute_cell_cost(low, high)  # it also computes the tails at both ends
                if high - low > 1:
                    heappush(cells, (-cost, low, high))
        indices = sorted(tails)
        return indices, [tails[i] for i in indices]


def plan_verified_grid_layout(
    plan: VerifiedGridPlan, origin: arb, ends: tuple[float, float], epsilon: arb, scale: float
) -> VerifiedGridLayout:
    """Returns the layout of a range of losses, for a delta of about ``scale`` at ``epsilon``."""
    low, high = (float(((arb(end) - origin) / plan.h).mid()) for end in ends)
    if high - low > MOST_POINTS:
        raise Unverified("a lattice has too many points")
    most = -math.log(max(scale, 1e-300))
    rate = 1.5 * most / max(float(epsilon.mid()), float(plan.h.mid()))
    return VerifiedGridLayout(
        origin, math.floor(low) - 2, math.ceil(high) + 1, lambda y: math.exp(min(max(rate * y, 0.0), most))
    )


def build_upper_verified_grid(
    pair: Pair, plan: VerifiedGridPlan, layout: VerifiedGridLayout
) -> tuple[VerifiedGridMeasure, arb]:
    """Returns a distribution that dominates the pair's own, and the origin of its points.

    The mass of each cell moves to the two ends of the cell, so that the cell keeps its mass under P and Q.
    """
    indices, tails = layout.cut_verified_grid_cells(pair, plan.h, 0.0)
    masses = dict.fromkeys(indices, arb(0))
    for (i, here), (j, there) in pairwise(zip(indices, tails, strict=True)):
        p, q = here[0] - there[0], here[1] - there[1]
        right = (p - (layout.origin + plan.h * i).exp() * q) / (1 - (-plan.h * (j - i)).exp())
        masses[i] += p - right
        masses[j] += right
    masses[indices[0]] += 1 - tails[0][0]
    beyond = (layout.origin + plan.h * indices[-1]).exp() * tails[-1][1]
    masses[indices[-1]] += beyond
    infinity = (tails[-1][0] - beyond).max(arb(0))
    rounded = [fmpz(0)] * (indices[-1] - indices[0] + 1)
    for i, mass in masses.items():
        rounded[i - indices[0]] = plan.round_verified_grid_mass(mass)
    return VerifiedGridMeasure(fmpz_poly(rounded), indices[0], arb(infinity.upper())), layout.origin


def build_lower_verified_grid(
    pair: Pair, plan: VerifiedGridPlan, layout: VerifiedGridLayout
) -> tuple[VerifiedGridMeasure, arb]:
    """Returns a distribution that the pair's own dominates, and the origin of its points.

    All outputs of a cell are merged into one output, whose loss is then moved to a lattice point.
    """
    origin = layout.origin
    indices, tails = layout.cut_verified_grid_cells(pair, plan.h, -0.5)
    cuts = [origin + plan.h * (i - 0.5) for i in indices]
    tops = [] if isinstance(pair, Atoms) else pair.list_verified_grid_anchors()
    if tops:  # no mass is above the largest loss, so nothing could lift it to its point: it is a cell of its own
        top = reduce(arb.max, tops)
        at = round(float(((top - origin) / plan.h).mid()))
        below = bisect_left(indices, at)
        cuts[below:], indices[below:] = [(top - arb(2) ** -plan.bits).mid(), (top + plan.h).mid()], [at, at + 1]
        tails[below:] = [pair.compute_verified_tail_balls(y) for y in cuts[below:]]
    points = [0] * (len(indices) - 1)
    infinity, faint = pair.compute_infinity_ball(), arb(2) ** -plan.cut * 2**-5 / len(cuts)
    for attempt in (0, 1):
        tails[-1] = infinity, arb(0)  # outputs beyond the last cut belong to the last cell
        cells = [(a[0] - b[0], a[1] - b[1]) for a, b in pairwise(tails)]
        cells = [(p, q if q > 0 else arb(q.upper()).max(arb(0))) for p, q in cells]
        losses = [(p / q).log() if p > faint and q > 0 else None for p, q in cells]
        heaviest = len(cells) - 1 if tops else max(range(len(cells)), key=lambda k: float(cells[k][0].mid()))
        if attempt == 0:
            for k, y in enumerate(losses):  # each cell has the point of its own that is closest to its loss
                near = indices[k] if y is None else round(float(((y - origin) / plan.h).mid()))
                points[k] = min(max(near, indices[k]), indices[k + 1] - 1)
        if (loss := losses[heaviest]) is not None:  # the heaviest loss is barely above its point, and so not below it
            origin = (loss - plan.h * points[heaviest]).mid() - arb(2) ** -plan.bits
        away = [arb(0) if y is None else y - origin - plan.h * i for i, y in zip(points, losses, strict=True)]
        if attempt == 0:  # cuts move so that the other losses are nearly at their points
            far = [float(each.mid()) for each in away]
            for k in range(1, len(cuts) - 2 if tops else len(cuts) - 1):
                most = 0.24 * float(plan.h.mid()) * min(indices[k] - indices[k - 1], indices[k + 1] - indices[k])
                cuts[k] = (cuts[k] + min(max(-(far[k - 1] + far[k]) / 2, -most), most)).mid()
            WORK.count_certificate_work(10 * len(cuts))
            tails = [pair.compute_verified_tail_balls(y) for y in cuts]
    kept = {i - indices[0]: plan.round_verified_grid_mass(p)
            for i, (p, _) in zip(points, cells, strict=True) if p > faint}  # fmt: skip
    moved = {i - indices[0]: each for i, each in zip(points, away, strict=True)}
    masses = plan.move_to_verified_grid(kept, moved, indices[-1] - indices[0])
    return VerifiedGridMeasure(fmpz_poly(masses), indices[0], arb(infinity.lower()).max(arb(0))), origin


# ---- The table of dominating pairs -----------------------------------------------------------------------------------
# The argument m is a mechanism's entry in a certificate. k is 1 if a record is removed, and 2 if a record is replaced.


class TableRow(NamedTuple):
    """A mechanism's dominating pairs: ``upper`` has the pairs that together dominate the mechanism.

    Each list of pairs in ``lower`` is attained by the mechanism or, for a class, by some mechanism of the class.
    """

    upper: list[tuple[Pair, int]]
    lower: list[list[tuple[Pair, int]]]
    alone: bool = False
    """True if, at each epsilon, some mechanism attains the first pair's curve, not always the same mechanism."""


def build_exact_verified_row(pair: Pair) -> TableRow:
    """Returns the row of a mechanism that has exactly the curve of ``pair``."""
    return TableRow([(pair, 1)], [[(pair, 1)]])


def _build_verified_response_atoms(e: Fraction) -> Atoms:
    """Returns the pair of binary randomised response with parameter ``e``."""

    def compute_table() -> AtomTable:
        odds = (-to_ball(e)).exp()
        return AtomTable([(-to_ball(e), odds / (1 + odds)), (to_ball(e), 1 / (1 + odds))], arb(0), arb(0))

    return Atoms(("response", e), compute_table, True)


def _build_verified_approximate_atoms(e: Fraction, d: Fraction) -> Atoms:
    """Returns the pair that reveals everything with probability ``d`` and is otherwise randomised response at ``e``."""

    def compute_table() -> AtomTable:
        atoms = _build_verified_response_atoms(e).build_atom_balls().atoms if e else [(arb(0), arb(1))]
        return AtomTable([(y, p * to_ball(1 - d)) for y, p in atoms] if d < 1 else [], to_ball(d), to_ball(d))

    return Atoms(("approximate", e, d), compute_table, True)


def _build_verified_replaced_class_atoms(e: Fraction, d: Fraction, q: Fraction) -> Atoms:
    """Returns the pair of the worst (e, d)-DP mechanism when a record of a Poisson sample is replaced.

    The outputs are in [0, 1], which consists of layers where the densities are constant.
    """

    def compute_table() -> AtomTable:
        """Returns the losses of the layers, with their masses."""
        up, drawn, fail = to_ball(e).exp(), to_ball(q), to_ball(d)
        down, cut, none = 1 / up, (1 - fail) / (1 + up), arb(0)
        if not (cut > fail or cut < fail):
            raise Unverified("a class of mechanisms is at the border of two formulas")
        # A layer has its size and the densities for the two records. The output is uniform if the sample has neither.
        if cut > fail:
            half, middle = [(fail, up, none), (cut - fail, up, down)], (1 - 2 * cut, down, down)
        elif 2 * d < 1:
            half, middle = [(cut, up, none), (fail - cut, down, none)], (1 - 2 * fail, down, down)
        else:
            half, middle = [(cut, up, none), (1 - fail - cut, down, none)], (2 * fail - 1, none, none)
        atoms, infinity = [], drawn * fail
        for size, ahead, behind in [*half, middle, *((size, b, a) for size, a, b in half)]:
            p, r = size * (1 - drawn + drawn * ahead), size * (1 - drawn + drawn * behind)
            if r.is_zero():
                infinity += p
            elif not p.is_zero():
                atoms.append((arb(0) if ahead is behind else (p / r).log(), p))
        return AtomTable(atoms, infinity, infinity)

    return Atoms(("class", e, d, q), compute_table, True)


def _build_verified_randomized_response_atoms(p: Fraction, buckets: int) -> Atoms:
    """Returns the pair of an answer that is uniform over ``buckets`` with probability ``p``, and else the truth.

    The pair compares two different truths of one person.
    """

    def compute_table() -> AtomTable:
        true, other = to_ball(1 - p + p / buckets), to_ball(p / buckets)
        loss = (true / other).log()
        middle = [(arb(0), to_ball(p * (buckets - 2) / buckets))] if buckets > 2 else []
        return AtomTable([(-loss, other), *middle, (loss, true)], arb(0), arb(0))

    return Atoms(("randomized response", p, buckets), compute_table, True)


def _build_verified_discrete_laplace_atoms(scale: Fraction, s: int) -> Atoms:
    """Returns the pair of integer noise around ``s`` and around 0, with probability proportional to e^{-|n|/scale}."""

    def compute_table() -> AtomTable:
        WORK.count_certificate_work(10 * s)
        odds = (-to_ball(1 / scale)).exp()
        middle = [((1 - odds) * odds ** (s - n) / (1 + odds)) for n in range(1, s)]
        masses = [odds**s / (1 + odds), *middle, 1 / (1 + odds)]
        return AtomTable([(to_ball((2 * n - s) / scale), p) for n, p in enumerate(masses)], arb(0), arb(0))

    return Atoms(("discrete Laplace", scale, s), compute_table, True)


def _list_verified_gaussian_probabilities(sigma: Fraction, s: int) -> list[arb]:
    """Returns the probabilities of the integers from 0 to ``s`` beyond the last noticeable one of integer noise."""
    reach = math.ceil(float(sigma) * math.sqrt(2 * LN2 * ctx.prec)) + 2 + s
    if reach > MOST_ATOMS:
        raise Unverified("discrete noise has too many values")
    WORK.count_certificate_work(30 * reach)
    weights = [(-to_ball(n * n / (2 * sigma**2))).exp() for n in range(reach + 1)]
    beyond = (weights[-1] / (1 - weights[-1] / weights[-2])).abs_upper()  # a geometric series bounds the rest
    total = weights[0] + 2 * sum(weights[1:], arb(0)) + 2 * arb(beyond).union(arb(0))
    return [weight / total for weight in weights]


def _build_verified_integer_table(atoms: list[tuple[arb, arb]]) -> AtomTable:
    """Returns the table of a symmetric pair whose faint losses are left out."""
    rest = arb((1 - sum((p for _, p in atoms), arb(0))).abs_upper()).union(arb(0))
    return AtomTable(atoms, rest, rest)


def _build_verified_discrete_gaussian_atoms(sigma: Fraction, s: int) -> Atoms:
    """Returns the pair of integer noise around ``s`` and 0, with probability proportional to e^{-n^2/(2 sigma^2)}."""

    def compute_table() -> AtomTable:
        """Returns the losses at all integers of noticeable probability, with their masses."""
        law = _list_verified_gaussian_probabilities(sigma, s)
        points = range(2 * s - len(law) + 1, len(law) - s)
        return _build_verified_integer_table(
            [(to_ball(s * (2 * n - s) / (2 * sigma**2)), law[abs(n - s)]) for n in points]
        )

    return Atoms(("discrete Gaussian", sigma, s), compute_table, True)


def _build_verified_replaced_sample_atoms(inner: dict[str, Any], q: Fraction) -> Atoms:
    """Returns the pair of integer noise on a Poisson sample, moved up by one record and down by the other one."""

    def compute_table() -> AtomTable:
        """Returns the losses of the integers near 0. The noise has the mean 0, or the mean s or -s of a record."""
        s, there, out = inner["sensitivity"], to_ball(q), to_ball(1 - q)
        if inner["type"] == "DiscreteLaplace":
            WORK.count_certificate_work(60 * s)
            odds = (-to_ball(1 / inner["scale"])).exp()
            law, last = [odds**n * (1 - odds) / (1 + odds) for n in range(2 * s + 1)], s
        else:
            law = _list_verified_gaussian_probabilities(inner["sigma"], 2 * s)
            last = len(law) - 1 - s
        sides = [[law[abs(n - mean)] for n in range(-last, last + 1)] for mean in (0, s, -s)]
        ahead, behind = ([out * a + there * b for a, b in zip(sides[0], side, strict=True)] for side in sides[1:])
        atoms = [((a / b).log(), a) for a, b in zip(ahead, behind, strict=True)]
        if inner["type"] == "DiscreteLaplace":  # integers beyond s have the loss of s
            atoms[0], atoms[-1] = ((y, p / (1 - odds)) for y, p in (atoms[0], atoms[-1]))
            return AtomTable(atoms, arb(0), arb(0))
        return _build_verified_integer_table(atoms)

    name = ("replaced", inner["type"], inner.get("sigma", inner.get("scale")), inner["sensitivity"], q)
    return Atoms(name, compute_table, True)


MOST_ATOMS = 20_000


def _list_verified_table_shifts(m: dict[str, Any], q: Fraction = Fraction(1)) -> Shifts:
    """Returns the distances by which a record may move the mean of Gaussian noise, with their probabilities.

    The record is in the Poisson sample with probability ``q``.
    """
    if m["type"] == "Gaussian":
        drawn = {1 / m["noise_multiplier"]: q}
    else:
        shares = list(m["probabilities"])
        heaviest = max(range(len(shares)), key=lambda i: shares[i])
        shares[heaviest] += 1 - sum(shares)  # rounded shares may not add up to 1
        drawn = {c / m["noise_multiplier"]: q * p for c, p in zip(m["sensitivities"], shares, strict=True)}
    if q < 1:
        drawn[Fraction(0)] = drawn.get(Fraction(0), Fraction(0)) + 1 - q
    return tuple(sorted(drawn.items()))


def _build_certificate_row_of_given_losses(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a pair that is given by a table of losses."""
    if m["relation"] not in ("any", "replace" if k == 2 else "add_or_remove"):
        raise Unverified(f"the given losses are about {m['relation']}")
    found = lower = _build_verified_given_atoms(
        m, (m["losses"], m["probabilities"], m["infinity"]), m["minus_infinity"]
    )
    if m["optimistic"]:
        lower = _build_verified_given_atoms(m, m["optimistic"], None)
    _check_losses_of_certificate(m, found, lower)
    if k == 1 or m["mirrored"]:
        return TableRow([(found, 1)], [[(lower, 1)]])
    return TableRow([(EitherOrder(found), 1)], [[(lower, 1)], [(lower.reverse_verified_pair(), 1)]])


def _check_losses_of_certificate(m: dict[str, Any], upper: Atoms, lower: Atoms) -> None:
    """Raises Unverified if no mechanism can have the given losses."""
    ctx.prec, slack = 64, 2 * m["loss_error"]
    given = list(zip(m["losses"], m["probabilities"], strict=True))
    hidden = sum((to_ball(p) * (-to_ball(y + m["loss_error"])).exp() for y, p in given), to_ball(m["minus_infinity"]))
    if hidden > 1 + arb(2) ** -29:
        raise Unverified("the probabilities of given losses are not those of P")
    back = Atoms(("checked", *upper.name), upper.build_atom_balls).reverse_verified_pair()
    points = {*m["losses"], *(m["optimistic"][0] if m["optimistic"] else ()), *(-y for y in m["losses"])}
    WORK.count_certificate_work(4 * len(points) * len(given))
    for y in map(to_ball, points):
        here = upper.evaluate_curve_ball(y)
        if m["mirrored"] and not m["optimistic"] and abs(here - back.evaluate_curve_ball(y)) > to_ball(slack) + 1e-6:
            raise Unverified("the given losses are not mirrored")
        if lower.evaluate_curve_ball(y) > here + to_ball(slack) + arb(2) ** -29:
            raise Unverified("the optimistic pair is not dominated")


def _build_verified_given_atoms(
    m: dict[str, Any], given: tuple[list[Fraction], list[Fraction], Fraction], most: Fraction | None
) -> Atoms:
    """Returns a pair, in balls, that stands for all pairs with losses within ``loss_error`` of the given losses.

    Q's mass where P has none is at most ``most``. It is exactly ``most`` if ``most`` is within 2^-30 of the largest
    mass that the losses allow.
    """

    losses, masses, infinity = given
    error = m["loss_error"]

    def compute_table() -> AtomTable:
        """Returns balls that hold the losses and masses of all pairs."""
        unsure, total = arb(1, arb(2) ** -50), sum(masses) + infinity
        scale = unsure if total <= 1 else (to_ball(1 / total) * unsure).union(unsure)
        atoms = [(to_ball(y) + arb(0, to_ball(error).upper()), to_ball(p) * scale)
                 for y, p in zip(losses, masses, strict=True)]  # fmt: skip
        lack = to_ball(1 - total) if total < 1 else arb(0)
        hidden = 1 - sum((p * compute_exponential_ball(-y) for y, p in atoms), arb(0))
        low, high = hidden.lower().max(arb(0)), hidden.upper().max(arb(0))
        if most is not None and not to_ball(most) < low:
            known = to_ball(most) <= high and to_ball(most) > high - arb(2) ** -30
            high = high.min(to_ball(most).max(low))
            low = high if known else low
        above = (
            (to_ball(infinity) * scale).union(to_ball(infinity) * scale + lack) if lack else to_ball(infinity) * scale
        )
        return AtomTable(atoms, above, arb(low).union(arb(high)))

    name = "given", tuple(losses), tuple(masses), infinity, error, most
    return Atoms(name, compute_table, m["mirrored"])


def _build_verified_concentrated_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of zCDP. The class contains the composition of a Gaussian and randomised response."""
    rho, xi = m["rho"], m["xi"]
    if not rho:
        return _build_verified_class_row(xi, Fraction(0), k)
    response = _build_verified_class_row(xi, Fraction(0), k).lower[0]
    return TableRow([(Concentrated(rho, xi, k == 2), 1)], [[(Normal(2 * rho * k**2), 1), *response]])


def _build_verified_discrete_vector_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of discrete Gaussian noise on vectors.

    The lower ends come from two differences of neighbouring vectors: a single large entry, and many entries of 1.
    """
    longest, whole = m["sensitivity"], math.floor(m["sensitivity"])
    lower: list[list[tuple[Pair, int]]] = [[]]
    if whole:
        ones = min(m["dimensions"], math.floor(longest**2))
        axis, spread = (
            _build_verified_discrete_gaussian_atoms(m["sigma"], k * whole),
            _build_verified_discrete_gaussian_atoms(m["sigma"], k),
        )
        lower = [[(axis, 1)], [(spread, ones)]]
    return TableRow([(Concentrated((k * longest) ** 2 / (2 * m["sigma"] ** 2)), 1)], lower)


def _bound_share_by_ball(ball: arb) -> tuple[Fraction, Fraction]:
    """Returns the two ends of a ball, confined to [0, 1]. Raises Unverified if the ball is unbounded."""
    if not ball.is_finite():
        raise Unverified("a probability cannot be enclosed")
    return max(convert_verified_ball_to_fraction(ball.lower()), Fraction(0)), min(
        convert_verified_ball_to_fraction(ball.upper()), Fraction(1)
    )


def _build_verified_truncated_sample_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a Poisson sample that is cut to a largest size.

    For the upper end, the adversary is told whether the sample was cut.
    """
    inner, q, most, n = m["mechanism"], m["sampling_probability"], m["batch_size"], m["dataset_size"]
    _refuse_given_certificate_losses(m)
    poisson = _build_verified_poisson_sample_row(m, k)
    if most >= n or q == 1:
        return poisson if most >= n else _build_verified_fixed_size_sample_row({**m, "sample_size": most}, k)
    ctx.prec = 256
    cut = to_ball(q).beta_lower(arb(most), arb(n - most), regularized=1)
    drawn = to_ball(q).beta_lower(arb(most + 1), arb(n - most), regularized=1) * most / n
    plain, replaced = build_verified_table_row(inner, 1), build_verified_table_row(inner, 2)
    share = min(_bound_share_by_ball(drawn / cut)[1], Fraction(1))
    if k == 2 or m.get("special"):
        fixed = _map_verified_table_row(replaced, lambda pair: Joined(pair, share))
    else:
        fixed = _map_verified_table_row(replaced, lambda pair: sample_verified_pair(pair, share))
    together = _bound_share_by_ball((1 - cut) * to_ball(q) + drawn)[0]
    if not (fixed.upper and poisson.upper and share and together):
        raise Unverified("a cut sample has no pair in the table")
    told = Told(poisson.upper[0][0], fixed.upper[0][0], *_bound_share_by_ball(cut))
    lower = (
        _build_verified_poisson_sample_row({**m, "sampling_probability": together}, k).lower if plain.upper else [[]]
    )
    return TableRow([(told, 1)], lower)


def _build_verified_draws_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a sample drawn with replacement. The record may be in the sample more than once."""
    size, n = m["sample_size"], m["dataset_size"]
    if size > 200:
        raise Unverified("the table has at most 200 draws with replacement")
    mu = 1 / m["mechanism"]["noise_multiplier"]
    shares = [math.comb(size, j) * Fraction(1, n) ** j * (1 - Fraction(1, n)) ** (size - j) for j in range(size + 1)]
    faint = [j for j, share in enumerate(shares) if share < Fraction(1, 2**160)]
    # ``lost`` is the probability of a faint (very unlikely) number of draws of the record. In this event, the upper end
    # assumes that everything is revealed, and the lower end that the record is not drawn.
    lost = sum((shares[j] for j in faint), Fraction(0))
    kept = {j: share for j, share in enumerate(shares) if j not in faint}

    def list_shifts(scale: int, whole: Fraction, none: Fraction) -> Shifts:
        found = {j: share / whole for j, share in kept.items()}
        found[0] = found.get(0, Fraction(0)) + none
        return tuple((scale * j * mu, share) for j, share in sorted(found.items()) if share)

    far = 1 if m.get("special") else 2
    behind = tuple((-shift, share) for shift, share in list_shifts(far, 1 - lost, Fraction(0)))
    upper: list[tuple[Pair, int]] = [(NormalMixtures(list_shifts(2, 1 - lost, Fraction(0)), behind), 1)]
    if lost:
        upper.append((_build_verified_approximate_atoms(Fraction(0), lost), 1))
    attained = NormalMixtures(list_shifts(far, Fraction(1), lost), ZERO_SHIFT)
    orders: list[list[tuple[Pair, int]]] = [[(attained, 1)], [(attained.reverse_verified_pair(), 1)]]
    return TableRow(upper, orders[:1] if m.get("special") else orders)


def _build_verified_allocation_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a record that takes part in some steps drawn at random.

    The pair is exact for a mechanism with few losses. Otherwise the upper end composes all selected steps.
    """
    inner, steps, selected = m["mechanism"], m["steps"], m["selected"]
    base = build_verified_table_row(inner, 1)
    if selected == steps:
        upper, *lists = [[(pair, n * steps) for pair, n in one] for one in (base.upper, *base.lower)]
        return TableRow(upper, lists)
    lower = _map_verified_table_row(base, lambda pair: sample_verified_pair(pair, Fraction(selected, steps))).lower
    plain = TableRow([(pair, n * selected) for pair, n in base.upper], lower)
    pair = base.upper[0][0] if base.upper == base.lower[0] and [n for _, n in base.upper] == [1] else None
    if not isinstance(pair, Atoms):
        return plain
    values = len(pair.build_atom_balls().atoms) + 1
    if math.comb(steps + values - 1, values - 1) * steps > 10**5:
        return plain

    def compute_table() -> AtomTable:
        """Returns the loss of each outcome. An outcome tells how many steps had each output.

        The likelihood ratio of an outcome is the mean, over all choices of steps, of the products of the chosen steps'
        ratios.
        """
        atoms, infinity, hidden = pair.build_atom_balls()
        kinds = [(p * (-y).exp(), y.exp()) for y, p in atoms] + ([] if hidden.is_zero() else [(hidden, arb(0))])
        outcomes = [(arb_poly([1]), arb(1), steps)]  # prod (1 + ratio t), Q's mass, outputs that are left
        for i, (mass, ratio) in enumerate(kinds):
            longer = []
            for product, weight, left in outcomes:
                for j in range(left + 1) if i < len(kinds) - 1 else (left,):
                    ways = weight * math.comb(left, j) * mass**j
                    longer.append((product * arb_poly([1, ratio]) ** j, ways, left - j))
            outcomes = longer
        found, away = [], arb(0)
        for product, weight, _ in outcomes:
            ratio = product[selected] / math.comb(steps, selected)
            if ratio > 0:
                found.append((ratio.log(), weight * ratio))
            else:
                away += weight
        return AtomTable(found, 1 - (1 - infinity) ** selected, away)

    return build_exact_verified_row(Atoms(("allocation", steps, selected, *pair.name), compute_table))


def _build_verified_bounded_range_row(eta: Fraction) -> TableRow:
    return TableRow([(Envelope(eta), 1)], [[(_build_verified_response_atoms(eta / 2), 1)]], True) if eta else NOTHING


def _build_verified_class_row(e: Fraction, d: Fraction, k: int, q: Fraction = Fraction(1)) -> TableRow:
    """Returns the row of all (e, d)-DP mechanisms, or of their Poisson samples with probability ``q`` if k = 2."""
    if not e and not d:
        return NOTHING
    return build_exact_verified_row(
        _build_verified_replaced_class_atoms(e, d, q)
        if k == 2
        else _build_verified_approximate_atoms(e, d)
        if d
        else _build_verified_response_atoms(e)
    )


def _build_verified_mixture_pair(shifts: Shifts, k: int) -> NormalMixtures:
    return NormalMixtures(shifts, tuple((-a, p) for a, p in shifts) if k == 2 else ((Fraction(0), Fraction(1)),))


def _build_verified_poisson_sample_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a Poisson sample. When a record is replaced, some mechanisms have a special pair."""
    inner, q = m["mechanism"], m["sampling_probability"]
    if inner["type"] in ("Gaussian", "MixtureOfGaussians"):
        return build_exact_verified_row(_build_verified_mixture_pair(_list_verified_table_shifts(inner, q), k))
    if k == 2 and inner["type"] in ("PureDP", "ApproximateDP"):
        return _build_verified_class_row(inner["epsilon"], inner.get("delta", Fraction(0)), 2, q)
    if k == 2 and inner["type"] in ("DiscreteLaplace", "DiscreteGaussian"):
        return build_exact_verified_row(_build_verified_replaced_sample_atoms(inner, q))
    if k == 2 and inner["type"] == "PrivacyLoss":
        raise Unverified("given losses do not say what is released without the record")
    plain = build_verified_table_row(inner, 1)
    if k == 1:
        return _map_verified_table_row(plain, lambda pair: sample_verified_pair(pair, q))
    row = _join_verified_sampled_row(build_verified_table_row(inner, 2), plain, q)
    if inner["type"] == "Laplace" and q < 1:
        return row._replace(lower=[[(OppositeLaplacians(1 / inner["noise_multiplier"], q), 1)]])
    return row


def _build_verified_group_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a group whose records move the mean of Gaussian noise independently of each other."""
    inner, size = m["mechanism"], m["size"]
    q = inner.get("sampling_probability", Fraction(1))
    noise = inner["mechanism"] if inner["type"] == "PoissonSampled" else inner
    if noise["type"] not in ("Gaussian", "MixtureOfGaussians"):
        return _build_verified_chain_row(m, k)
    one, sums = _list_verified_table_shifts(noise, q), {Fraction(0): Fraction(1)}
    for _ in range(size):
        longer: dict[Fraction, Fraction] = {}
        for shift, p in sums.items():
            for step, share in one:
                longer[shift + step] = longer.get(shift + step, Fraction(0)) + p * share
        sums = longer
        if len(sums) > 200 or size > 100:
            raise Unverified("a group has too many sums of contributions")
    return build_exact_verified_row(_build_verified_mixture_pair(tuple(sorted(sums.items())), k))


def count_largest_group_of_certificate(m: dict[str, Any]) -> float:
    """Returns the largest size of a group of ``m``, or infinity if nothing inside of it names the number of records."""
    inner = m.get("mechanism", {})
    inside = [part for part, _ in inner["parts"]] if "parts" in inner else [inner] if inner else []
    most: float = min([m.get("dataset_size", math.inf), *map(count_largest_group_of_certificate, inside)])
    return most // m["size"] if "size" in m and most < math.inf else most


def _build_verified_chain_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a group by the chain of its records. The lower end is that of a single record."""
    inner = m["mechanism"]
    parts = inner["parts"] if inner["type"] == "Composition" else [(inner, 1)]
    if (
        k == 1
        and not m.get("special")
        and any(count_largest_group_of_certificate(part) < math.inf for part, _ in parts)
    ):
        raise Unverified("the table has no group that changes a declared number of records")
    if m["size"] > 20:
        raise Unverified("a group has too many links")
    rows = [(build_verified_table_row({**part, "special": m.get("special")}, k), count) for part, count in parts]
    choices = range(max((len(row.lower) for row, _ in rows), default=1))
    upper = [(pair, n * count) for row, count in rows for pair, n in row.upper]
    lower = [[(pair, n * count) for row, count in rows for pair, n in row.lower[i % len(row.lower)]] for i in choices]
    return TableRow([(RecordChain(tuple(upper), m["size"]), 1)] if upper else [], lower)


def _build_verified_fixed_size_sample_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a sample of fixed size.

    If k = 1, the record is replaced by one without effect. The upper end then uses the bound for any replacement.
    """
    _refuse_given_certificate_losses(m)
    inner, q = build_verified_table_row(m["mechanism"], 2), Fraction(m["sample_size"], m["dataset_size"])
    if k == 1 and q == 1:
        return build_verified_table_row(m["mechanism"], 1)
    if k == 1:
        return TableRow(
            _join_verified_sampled_row(inner, inner, q).upper,
            _map_verified_table_row(
                build_verified_table_row(m["mechanism"], 1), lambda p: sample_verified_pair(p, q)
            ).lower,
        )
    return (
        inner
        if q == 1
        else _join_verified_sampled_row(inner, inner, q)._replace(alone=inner.alone or inner.upper in inner.lower)
    )


def _refuse_given_certificate_losses(m: dict[str, Any]) -> None:
    """Raises Unverified for given losses in a sample where another record may take the place of the record."""
    if m["mechanism"]["type"] == "PrivacyLoss":
        raise Unverified("given losses do not say what is released with other records")


def _map_verified_table_row(base: TableRow, change: Callable[[Pair], Pair]) -> TableRow:
    """Returns the row of a sample, where ``change`` makes a sampled pair of a pair.

    One draw decides about all steps of a list, so these are joined into one pair before the change. A list of ``lower``
    whose steps cannot be joined is left out. Raises Unverified if those of ``upper`` cannot be joined.
    """
    upper, *lower = [_join_verified_listed_steps(pairs) for pairs in (base.upper, *base.lower)]
    if upper is None:
        raise Unverified("a sample of this mechanism has no pair in the table")
    kept = [[(change(pair), 1) for pair in one] for one in lower if one is not None]
    return TableRow([(change(pair), 1) for pair in upper], kept or [[]], base.alone)


def _join_verified_listed_steps(pairs: list[tuple[Pair, int]]) -> list[Pair] | None:
    """Returns a list with one pair for all steps of ``pairs``. The list is empty if ``pairs`` is.

    Returns None if the table lacks such a pair.
    """
    if not pairs:
        return []
    (pair, count), *others = pairs
    if others:
        return None
    if count == 1:
        return [pair]
    if (
        isinstance(pair, Atoms)
        and count_verified_outcome_balls(len(pair.build_atom_balls().atoms), count) <= MOST_ATOMS
    ):
        return [pair.join_verified_steps(count)]
    return None


def _join_verified_sampled_row(base: TableRow, member: TableRow, q: Fraction) -> TableRow:
    """Returns the row of the ``Joined`` curve.

    The sampled pairs of ``member`` are attained in both orders, on data sets whose other records are all alike.
    """
    attained = _map_verified_table_row(member, lambda pair: sample_verified_pair(pair, q)).lower
    lower = [each for one in attained for each in (one, [(pair.reverse_verified_pair(), n) for pair, n in one])]
    return TableRow(_map_verified_table_row(base, lambda pair: Joined(pair, q)).upper, lower)


def sample_verified_pair(pair: Pair, q: Fraction) -> Pair:
    """Returns the pair ((1-q) Q + q P, Q)."""
    return pair if q == 1 else pair.sample_verified_pair(q) if isinstance(pair, Atoms) else Sampled(pair, q)


class Field(NamedTuple):
    """An entry of a certificate: the function that reads its value, and the accepted values in words.

    The function raises ValueError for a value that is not accepted.
    """

    read: Callable[[Any], Any]
    accepted: str

    def read_certificate_entry(self, place: str, value: Any) -> Any:
        """Returns the value of the entry at ``place``. Raises Unverified, which names the place, for other values."""
        try:
            return self.read(value)
        except Unverified:
            raise
        except ValueError:
            raise _build_certificate_refusal(place, self.accepted, value) from None


def _build_certificate_refusal(place: str, accepted: str, value: Any) -> Unverified:
    shown = json.dumps(value)
    return Unverified(f"{place} must be {accepted}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def build_certificate_number_reader(low: float, high: float = math.inf, open_below: bool = False) -> Field:
    """Returns the reader of a number from ``low`` to ``high``. With ``open_below`` the number must not be ``low``."""

    def read_field(value: Any) -> Fraction:
        number = read_certificate_number(value)
        if not low <= number <= high or (open_below and number == low):
            raise ValueError
        return number

    ends = f"{'(' if open_below else '['}{low:g}, {'inf)' if high == math.inf else f'{high:g}]'}"
    return Field(read_field, "a finite number" if low == -math.inf else f"a finite number in {ends}")


def build_certificate_count_reader(least: int) -> Field:
    """Returns the reader of a whole number from ``least`` to 2^53."""

    def read_field(value: Any) -> int:
        if type(value) is not int or not least <= value <= MOST_COUNT:
            raise ValueError
        return value

    return Field(read_field, f"an integer in [{least}, 2^53]")


def read_certificate_flag(value: Any) -> bool:
    """Reads true or false."""
    if type(value) is not bool:
        raise ValueError
    return value


def read_certificate_list(value: Any, most: int = 1000) -> list[Any]:
    """Reads a list of one to ``most`` values."""
    if type(value) is not list or not 0 < len(value) <= most:
        raise ValueError
    return value


def read_certificate_numbers(value: Any) -> list[Fraction]:
    """Reads a list of at most 1000 numbers >= 0."""
    if min(found := [read_certificate_number(each) for each in read_certificate_list(value)]) < 0:
        raise ValueError
    return found


UNSAMPLED = (
    "RandomizedResponse",
    "PoissonSampled",
    "FixedSizeSampled",
    "TreeAggregation",
    "Group",
    "TruncatedPoissonSampled",
    "SampledWithReplacement",
    "RandomAllocation",
)
"""Mechanisms that no sample contains: they have no output without the record, or are sampled already."""


def build_certificate_sample_reader(*refused: str) -> Field:
    """Returns the reader of a mechanism on a sample. The mechanisms that ``refused`` names are refused."""

    def read_field(value: Any) -> dict[str, Any]:
        found = read_certificate_mechanism(value)
        if found["type"] in refused:
            raise ValueError
        return found

    return Field(read_field, f"a mechanism, and none of {', '.join(refused)}")


def read_certificate_losses(value: Any) -> list[Fraction]:
    """Reads a list of at most 1000 ascending numbers."""
    found = [read_certificate_number(each) for each in read_certificate_list(value)]
    if any(b <= a for a, b in pairwise(found)):
        raise ValueError
    return found


def read_certificate_optimistic_losses(value: Any) -> tuple[list[Fraction], list[Fraction], Fraction] | None:
    """Reads null, or losses with their probabilities and the probability of an infinite loss."""
    if value is None:
        return None
    if type(value) is not list or len(value) != 3:
        raise ValueError
    losses, masses, infinity = value
    found = read_certificate_losses(losses), read_certificate_numbers(masses), PROBABILITY.read(infinity)
    if len(found[0]) != len(found[1]) or abs(sum(found[1]) + found[2] - 1) > Fraction(1, 10**9):
        raise ValueError
    return found


def read_certificate_relation(value: Any) -> str:
    """Reads the neighbouring relation for which losses are given."""
    if value not in ("add_or_remove", "replace", "any"):
        raise ValueError
    return str(value)


def read_certificate_composition(place: str, value: Any) -> list[tuple[dict[str, Any], int]]:
    """Reads a list of mechanisms, each in a list with its count. Raises Unverified, which names the place."""
    if type(value) is not list:
        raise _build_certificate_refusal(place, "a list of pairs [mechanism, count]", value)
    found = []
    for i, part in enumerate(value):
        if type(part) is not list or len(part) != 2:
            raise _build_certificate_refusal(f"{place}[{i}]", "a pair [mechanism, count]", part)
        found.append(
            (read_certificate_mechanism(part[0]), NATURAL.read_certificate_entry(f"the count of {place}[{i}]", part[1]))
        )
    return found


def read_certificate_group(value: Any) -> dict[str, Any]:
    """Reads a mechanism or a composition."""
    if isinstance(value, dict) and value.get("type") == "Composition" and set(value) == {"type", "parts"}:
        return {"type": "Composition", "parts": read_certificate_composition("parts", value["parts"])}
    return read_certificate_mechanism(value)


def read_certificate_gaussian(value: Any) -> dict[str, Any]:
    """Reads a mechanism that is Gaussian noise."""
    if (found := read_certificate_mechanism(value))["type"] != "Gaussian":
        raise ValueError
    return found


NUMBER, POSITIVE = build_certificate_number_reader(0.0), build_certificate_number_reader(0.0, open_below=True)
PROBABILITY, SHARE = (build_certificate_number_reader(0.0, 1.0, open_below=each) for each in (False, True))
NATURAL, FLAG = build_certificate_count_reader(1), Field(read_certificate_flag, "true or false")
NUMBERS = Field(read_certificate_numbers, "a list of 1 to 1000 finite numbers >= 0")
LOSSES = Field(read_certificate_losses, "a list of 1 to 1000 finite numbers that ascend")
OPTIMISTIC = Field(
    read_certificate_optimistic_losses,
    "null or a list of ascending losses, of their probabilities, and of that of an infinite loss, which add up to 1",
)
RELATION = Field(read_certificate_relation, "add_or_remove, replace or any")
COMPOSABLE = Field(read_certificate_group, "a mechanism or a composition")
GAUSSIAN = Field(read_certificate_gaussian, "a Gaussian")
SAMPLED = build_certificate_sample_reader(*UNSAMPLED)
# A mixture says how often a record contributes when it is added. A record that takes the place of another one, or that
# is in chosen steps alone, is not proved to contribute as often.
SAMPLED_WHOLE = build_certificate_sample_reader(*UNSAMPLED, "MixtureOfGaussians")
NOTHING = TableRow([], [[]])
PAIRS: dict[str, tuple[dict[str, Field], Callable[[dict[str, Any], int], TableRow], str]] = {
    "Gaussian": (
        {"noise_multiplier": POSITIVE},
        lambda m, k: build_exact_verified_row(Normal(k**2 / m["noise_multiplier"] ** 2)),
        "Dong, Roth and Su (2022), theorem 2.7",
    ),
    "Laplace": (
        {"noise_multiplier": POSITIVE},
        lambda m, k: build_exact_verified_row(Laplacian(k / m["noise_multiplier"])),
        "Dwork, McSherry, Nissim and Smith (2006)",
    ),
    "PureDP": (
        {"epsilon": NUMBER}, lambda m, k: _build_verified_class_row(m["epsilon"], Fraction(0), k),
        "Kairouz, Oh and Viswanath (2015), theorem 3.3; replaced: replace.md section 1",
    ),
    "ApproximateDP": (
        {"epsilon": NUMBER, "delta": PROBABILITY},
        lambda m, k: _build_verified_class_row(m["epsilon"], m["delta"], k),
        "Kairouz, Oh and Viswanath (2015), theorem 3.3; replaced: replace.md section 1",
    ),
    "RandomizedResponse": (
        {"noise_parameter": SHARE, "num_buckets": build_certificate_count_reader(2)},
        lambda m, k: build_exact_verified_row(
            _build_verified_randomized_response_atoms(m["noise_parameter"], m["num_buckets"])
        ),
        "its own output, under every relation",
    ),
    "BoundedRange": (
        {"eta": NUMBER}, lambda m, k: _build_verified_bounded_range_row(m["eta"] * k),
        "Dong, Durfee and Rogers (2020), lemma 3.4; replaced: replace.md section 1",
    ),
    "DiscreteLaplace": (
        {"scale": POSITIVE, "sensitivity": NATURAL},
        lambda m, k: build_exact_verified_row(_build_verified_discrete_laplace_atoms(m["scale"], m["sensitivity"] * k)),
        "log-concave noise: grid.md section 6.5",
    ),
    "DiscreteGaussian": (
        {"sigma": POSITIVE, "sensitivity": NATURAL},
        lambda m, k: build_exact_verified_row(
            _build_verified_discrete_gaussian_atoms(m["sigma"], m["sensitivity"] * k)
        ),
        "log-concave noise: grid.md section 6.5",
    ),
    "MixtureOfGaussians": (
        {"noise_multiplier": POSITIVE, "sensitivities": NUMBERS, "probabilities": NUMBERS},
        lambda m, k: build_exact_verified_row(_build_verified_mixture_pair(_list_verified_table_shifts(m), k)),
        "mixtures.md section 2",
    ),
    "PoissonSampled": (
        {"mechanism": SAMPLED, "sampling_probability": SHARE}, _build_verified_poisson_sample_row,
        "Zhu, Dong and Wang (2022), theorem 11; replaced: Lebeda, Regehr, Kamath and Steinke (2025), proposition 13, "
        "replace.md sections 1, 3 and 8, grid.md section 6.2",
    ),
    "Group": (
        {"mechanism": COMPOSABLE, "size": NATURAL}, _build_verified_group_row,
        "derived.md section 2, mixtures.md section 2",
    ),
    "FixedSizeSampled": (
        {"mechanism": SAMPLED_WHOLE, "sample_size": NATURAL, "dataset_size": NATURAL},
        _build_verified_fixed_size_sample_row,
        "Zhu, Dong and Wang (2022), grid.md section 6.2",
    ),
    "TruncatedPoissonSampled": (
        {"mechanism": SAMPLED_WHOLE, "sampling_probability": SHARE, "batch_size": NATURAL, "dataset_size": NATURAL},
        _build_verified_truncated_sample_row, "mixtures.md section 5",
    ),
    "SampledWithReplacement": (
        {"mechanism": GAUSSIAN, "sample_size": NATURAL, "dataset_size": NATURAL},
        _build_verified_draws_row,
        "mixtures.md section 6",
    ),
    "RandomAllocation": (
        {"mechanism": SAMPLED_WHOLE, "steps": NATURAL, "selected": NATURAL}, _build_verified_allocation_row,
        "allocation.md section 1",
    ),
    "ZCDP": (
        {"rho": NUMBER, "xi": NUMBER}, _build_verified_concentrated_row,
        "Canonne, Kamath and Steinke (2020), proposition 12; Bun and Steinke (2016), lemma 5.2",
    ),
    "DiscreteGaussianVector": (
        {"sigma": POSITIVE, "sensitivity": POSITIVE, "dimensions": NATURAL}, _build_verified_discrete_vector_row,
        "Canonne, Kamath and Steinke (2020), theorem 4; discrete.md section 1",
    ),
    "PrivacyLoss": (
        {"losses": LOSSES, "probabilities": NUMBERS, "infinity": PROBABILITY, "minus_infinity": PROBABILITY,
         "relation": RELATION, "mirrored": FLAG, "loss_error": NUMBER, "optimistic": OPTIMISTIC},
        _build_certificate_row_of_given_losses, "conversions.md section 10, replace.md section 7",
    ),
    "TreeAggregation": (
        {"noise_multiplier": POSITIVE, "steps": NATURAL, "own_steps": FLAG},
        lambda m, k: build_exact_verified_row(Normal(m["steps"].bit_length() * k**2 / m["noise_multiplier"] ** 2)),
        "closed-forms.md section 6",
    ),
}  # fmt: skip
"""Fields of each mechanism, the function that builds its row, and a reference."""


def build_verified_table_row(m: dict[str, Any], k: int) -> TableRow:
    """Returns the row of a mechanism, for removing a record (k = 1) or replacing it (k = 2).

    The entry "special" is true if k = 1 stands for a record that is replaced by one that contributes nothing.
    """
    counted = m["type"] in ("FixedSizeSampled", "SampledWithReplacement") or not m.get("own_steps", True)
    if (counted and k == 1 and not m.get("special")) or (m["type"] == "RandomAllocation" and k == 2):
        raise Unverified(f"the table has no pair of {m['type']} under this relation")
    return PAIRS[m["type"]][1](m, k)


# ---- Certificates ----------------------------------------------------------------------------------------------------


class Claim(NamedTuple):
    """The claim that ``asked``, which is "epsilon" or "delta", is between ``lower`` and ``upper``.

    ``at`` is the given delta or epsilon. None stands for infinity.
    """

    composition: list[tuple[dict[str, Any], int]]
    neighbors: str
    asked: str
    at: Fraction
    lower: Fraction | None
    upper: Fraction | None


def read_certificate_number(value: Any) -> Fraction:
    """Returns the double that is nearest to a number of JSON. Raises ValueError for a number beyond all doubles."""
    if type(value) not in (int, float):
        raise ValueError
    try:
        return Fraction(float(value))
    except OverflowError:  # an integer beyond all doubles, or an infinity
        raise ValueError from None


def read_certificate_mechanism(plain: Any) -> dict[str, Any]:
    """Returns a mechanism with exact numbers. Raises Unverified unless ``PAIRS`` has the mechanism with its entries."""
    kind = plain.get("type") if isinstance(plain, dict) else None
    if not isinstance(kind, str):
        raise _build_certificate_refusal(
            "a mechanism", 'an object with the entry "type", the name of a mechanism', plain
        )
    if kind not in PAIRS:
        raise Unverified(f"the table has no mechanism {kind[:60]!r}")
    fields = PAIRS[kind][0]
    found: dict[str, Any] = {"type": kind}
    if set(plain) != {"type", *fields}:
        raise Unverified(f"{kind} has the entries {', '.join(fields)}")
    found.update(
        {name: field.read_certificate_entry(f"{name} of {kind}", plain[name]) for name, field in fields.items()}
    )
    if kind == "FixedSizeSampled" and found["sample_size"] > found["dataset_size"]:
        raise Unverified("sample_size is at most dataset_size")
    if kind == "Group" and not count_largest_group_of_certificate(found):
        raise Unverified("size is at most the number of records")
    if found.get("selected", 0) > found.get("steps", 0):
        raise Unverified("selected is at most steps")
    if "losses" in found:
        total = sum(found["probabilities"]) + found["infinity"]
        if len(found["losses"]) != len(found["probabilities"]) or abs(total - 1) > Fraction(1, 10**9):
            raise Unverified("losses have one probability each, and these and infinity add up to 1")
    if "sensitivities" in found:
        norms, shares = found["sensitivities"], found["probabilities"]
        if not (len(norms) == len(shares) == len(set(norms)) and max(norms) and min(shares)):
            raise Unverified("sensitivities are distinct, one of them is positive, and so are probabilities")
        if abs(sum(shares) - 1) > Fraction(1, 2**45):
            raise Unverified("probabilities add up to 1")
    return found


ENTRIES = "format", "version", "composition", "neighbors", "epsilon", "delta"


def parse_certificate(text: str) -> dict[str, Any]:
    """Returns the entries of a certificate. Raises Unverified for text that is not JSON, or has other entries."""

    def read_object(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(entries)) < len(entries):
            raise Unverified("it is no certificate: a name stands twice in one object")
        return dict(entries)

    def read_integer(digits: str) -> int:
        if len(digits) > 400:
            raise Unverified("it is no certificate: an integer has more than 400 digits")
        return int(digits)

    if len(text) > MOST_BYTES:
        raise Unverified(f"a certificate has at most {MOST_BYTES} characters")
    try:
        plain = json.loads(text, object_pairs_hook=read_object, parse_int=read_integer)
    except json.JSONDecodeError as error:
        raise Unverified(f"it is no certificate: line {error.lineno}, column {error.colno} is not JSON") from None
    except RecursionError:
        raise Unverified("it is no certificate: its values are nested too deeply") from None
    if not isinstance(plain, dict) or set(plain) != set(ENTRIES):
        raise Unverified(f"it is no certificate: it must be an object with the entries {', '.join(ENTRIES)}")
    return plain


def read_certificate(text: str) -> Claim:
    """Returns the statement of a certificate. Raises Unverified for any other text."""
    plain = parse_certificate(text)
    for entry, value in (("format", FORMAT), ("version", VERSION)):
        if type(plain[entry]) is not type(value) or plain[entry] != value:
            raise _build_certificate_refusal(entry, json.dumps(value), plain[entry])
    if plain["neighbors"] not in RELATIONS:
        raise _build_certificate_refusal("neighbors", f"one of {', '.join(RELATIONS)}", plain["neighbors"])
    asked, given = ("epsilon", "delta") if isinstance(plain["epsilon"], list) else ("delta", "epsilon")
    at = build_certificate_number_reader(-math.inf).read_certificate_entry(given, plain[given])
    if asked == "epsilon" and not 0 <= at < 1:
        raise _build_certificate_refusal("delta", "a number in [0, 1)", plain["delta"])
    if type(plain[asked]) is not list or len(plain[asked]) != 2:
        raise Unverified("epsilon or delta must be a list of two numbers, the lower and the upper end")
    lower, upper = (
        None if end == "inf" else NUMBER.read_certificate_entry(f"an end of {asked}", end) for end in plain[asked]
    )
    if upper is not None and (lower is None or upper < lower):
        raise Unverified(f"the ends of {asked} must ascend")
    composition = read_certificate_composition("composition", plain["composition"])
    return Claim(composition, plain["neighbors"], asked, at, lower, upper)


def list_certificate_orders(claim: Claim) -> list[tuple[str, Run, list[Run]]]:
    """Returns, for each order of the neighbours, its name, a dominating composition and lists of attained pairs."""
    k = 2 if claim.neighbors == "replace" else 1
    rows = []
    for m, count in claim.composition:
        special = claim.neighbors == "replace_special"
        rows.append((build_verified_table_row({**m, "special": special}, k), count))
    if len(rows) == 1 == rows[0][1] and rows[0][0].alone:  # one step of a class attains its curve at each epsilon
        rows = [(TableRow(rows[0][0].upper, [rows[0][0].upper]), 1)]

    def compose_rows(choice: int, turn: Callable[[Pair], Pair]) -> Run:
        lists = [(each.upper if choice < 0 else each.lower[choice % len(each.lower)], count) for each, count in rows]
        return merge_verified_pairs_of_run(
            [(turn(pair), times * count) for pairs, count in lists for pair, times in pairs]
        )

    found = []
    for order in ("replace",) if k == 2 else ("remove", "add") if "_" in claim.neighbors else (claim.neighbors,):
        turn: Callable[[Pair], Pair] = (
            (lambda pair: pair.reverse_verified_pair()) if order == "add" else (lambda pair: pair)
        )
        choices = range(max((len(each.lower) for each, _ in rows), default=1))
        found.append((order, compose_rows(-1, turn), [compose_rows(i, turn) for i in choices]))
    return found


def convert_verified_ball_to_fraction(x: arb) -> Fraction:
    """Returns the value of an exact ball."""
    mantissa, exponent = x.man_exp()
    if abs(int(exponent)) > 2**20:
        raise Unverified("a number is too small or too large to be compared")
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


SLACKS = 0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5
"""Relative distances from a claimed epsilon at which a proof is attempted."""


class EndVerdict(NamedTuple):
    """The result of proving one end: the number ``end`` that was proved, or None, and the method.

    ``value`` is the bound of delta that is compared with the claim.
    """

    end: Fraction | None
    value: Fraction
    how: str
    proved: bool = False
    """True if the end was proved as stated."""


def bound_verified_delta_of_worst_order(
    orders: list[tuple[str, Run, list[Run]]], high: bool, epsilon: Fraction, goal: Fraction, points: int
) -> EndVerdict:
    """Returns the largest bound of delta over all orders, where each order has the bound of its best proof.

    Stops as soon as the verdict about ``goal`` is settled.
    """
    best = EndVerdict(Fraction(0), Fraction(0), "")
    for order, upper, lowers in orders:
        for run in [upper] if high else lowers:
            end: Fraction | None = None
            with suppress(TooMuchWork):  # earlier bounds still count
                for low, most, how in list_verified_delta_proofs(run, epsilon, float(goal), high, points):
                    reached = convert_verified_ball_to_fraction(
                        (most if high else low).upper() if high else low.lower()
                    )
                    if end is None or (reached < end if high else reached > end):
                        end, text = reached, f"{order}: {how}"
                    settled = (
                        convert_verified_ball_to_fraction(low.lower()) > goal
                        if high
                        else convert_verified_ball_to_fraction(most.upper()) < goal
                    )
                    if settled or ((end <= goal) if high else (end > goal)):  # the verdict is settled
                        break
            if end is None:
                end, text = Fraction(int(high)), f"{order}: no method answers"
            best = max(best, EndVerdict(end, end, text))
            if not high and best.value > goal:
                return best
    return best


def verify_certificate_end(
    claim: Claim, high: bool, nearby: bool, points: int = 2**20, limit: float = MOST_WORK / 2
) -> EndVerdict:
    """Proves the upper or the lower end. With ``nearby``, tries numbers next to an end that cannot be proved.

    No lattice has more than about ``points`` points. The proof of the end as stated takes at most two thirds of
    ``limit`` units of work, and everything together at most ``limit`` units.
    """
    claimed = claim.upper if high else claim.lower
    trivial = claim.upper is None or (claim.asked == "delta" and claim.upper >= 1) if high else claim.lower == 0
    if trivial:
        return EndVerdict(claimed, Fraction(0), "nothing is claimed", True)
    start, WORK.refused = WORK.done, False
    WORK.limit = start + limit * 2 / 3
    orders = list_certificate_orders(claim)
    if claimed is None:  # infinity: some neighbours reveal everything with a probability above delta
        ctx.prec = 128
        most = max(
            convert_verified_ball_to_fraction(compute_verified_infinity_of_run(run).lower())
            for _, _, lowers in orders
            for run in lowers
        )
        return EndVerdict(None, most, "what is revealed outright", claim.asked == "epsilon" and most > claim.at)

    if claim.asked == "delta":
        goal = claimed or Fraction(0)
        found = bound_verified_delta_of_worst_order(orders, high, claim.at, goal, points)
        return found._replace(proved=(found.value <= goal) if high else (found.value >= goal))
    for slack in SLACKS if nearby else SLACKS[:1]:
        end = claimed * (1 + Fraction(slack if high else -slack))
        if slack == SLACKS[1]:
            WORK.limit = start + limit
        found = bound_verified_delta_of_worst_order(
            orders, high, end, claim.at, min(points, 2**14) if slack else points
        )
        if (found.value <= claim.at) if high else (found.value > claim.at):
            return EndVerdict(end, found.value, found.how, end == claimed)
    return EndVerdict(None, Fraction(0), found.how)


def verify_certificate(text: str, nearby: bool = True, points: int = 2**20, patient: bool = False) -> tuple[bool, str]:
    """Returns whether both ends were proved as stated, and the steps of the proof in words.

    With ``nearby``, looks for a provable number next to an end that cannot be proved. No lattice has more than about
    ``points`` points. An end is not verified if its proof would take more than a third of MOST_WORK units of work,
    unless ``patient``. Raises TypeError unless ``text`` is a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, the text of a certificate, not {type(text).__name__}")
    precision, limit = ctx.prec, math.inf if patient else MOST_WORK
    TABLES.clear()
    WORK.reset_certificate_work(math.inf)
    try:
        claim = read_certificate(text)
        lines = [f"{claim.asked} at {'delta' if claim.asked == 'epsilon' else 'epsilon'} {float(claim.at)!r}, "
                 f"neighbors {claim.neighbors}, of:"]  # fmt: skip
        for m, count in claim.composition:
            names = ", ".join(
                f"{name} {_describe_certificate_value(value)}" for name, value in m.items() if name != "type"
            )
            lines.append(f"  {count} x {m['type']} ({names}). Pair: {PAIRS[m['type']][2]}")
        good = True
        for high, name, stated in ((True, "upper", claim.upper), (False, "lower", claim.lower)):
            try:
                found = verify_certificate_end(claim, high, nearby, points, limit / 2)
            except TooMuchWork as error:
                found = EndVerdict(None, Fraction(0), str(error))
            said = math.inf if stated is None else float(stated)
            proved, how = found.proved, found.how
            if WORK.refused and not proved and how != TOO_MUCH:
                how = f"{TOO_MUCH}; {how}"
            good = good and proved
            if proved:
                lines.append(f"{name} end {said!r}: verified ({how})")
            elif found.end is None or (high and claim.asked == "delta" and found.end >= 1) or not found.end:
                lines.append(f"{name} end {said!r}: not verified ({how})")
            else:
                away = float(min(abs(found.end / stated - 1), Fraction(10**300))) if stated else math.inf
                lines.append(
                    f"{name} end {said!r}: not verified; {float(found.end)!r} is, {away:.1e} of it away ({how})"
                )
        if claim.lower == 0 and (claim.upper is None or (claim.asked == "delta" and claim.upper >= 1)):
            lines.append(f"the interval states nothing: every run has {claim.asked} in it")
        return good, "\n".join([*lines, "verified" if good else "not verified as stated"])
    except Unverified as error:
        return False, f"not verified: {error}"
    except RecursionError:
        return False, "not verified: mechanisms are nested too deeply"
    except (ArithmeticError, ValueError):  # from doubles that guide the proof
        return False, "not verified: a number is too large or too small for the doubles that guide the proof"
    finally:
        WORK.reset_certificate_work(math.inf)
        TABLES.clear()
        ctx.prec = precision


MOST_DESCRIBED = 8
"""Largest number of elements of a list that a description shows."""


def _describe_certificate_value(value: Any) -> str:
    """Returns one value of a mechanism in words. Long lists are cut."""
    if isinstance(value, dict):
        if value["type"] == "Composition":
            parts = value["parts"]
            steps = [f"{_describe_certificate_value(part)} * {count}" for part, count in parts[:MOST_DESCRIBED]]
            return " + ".join(steps + ["..."] * (len(parts) > MOST_DESCRIBED))
        entries = (_describe_certificate_value(each) for name, each in value.items() if name != "type")
        return f"{value['type']}({', '.join(entries)})"
    if isinstance(value, (list, tuple)):
        elements = [_describe_certificate_value(each) for each in value[:MOST_DESCRIBED]]
        return f"[{', '.join(elements + ['...'] * (len(value) > MOST_DESCRIBED))}]"
    return repr(float(value)) if isinstance(value, Fraction) else str(value)


def check(text: str, *, patient: bool = False) -> bool:
    """Returns whether both ends of a certificate were proved as stated. False does not mean that an end is wrong.

    An end whose proof would take too much work is not verified, unless ``patient``.
    """
    return verify_certificate(text, nearby=False, patient=patient)[0]


def explain(text: str, *, patient: bool = False) -> str:
    """Returns the steps of the proof in words: what was verified, by which method, and what was proved instead.

    An end whose proof would take too much work is not verified, unless ``patient``.
    """
    return verify_certificate(text, patient=patient)[1]


def main() -> int:
    """Explains the certificate in the named file. Returns the exit code: 0 if it is verified, and 2 if it is not."""
    patient = "--patient" in sys.argv[2:]
    if len(sys.argv) != 2 + patient:
        print("usage: python verify.py FILE [--patient]", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        print(f"{sys.argv[1]}: {error.strerror}", file=sys.stderr)
        return 2
    except UnicodeDecodeError:
        print(f"{sys.argv[1]}: must be text in UTF-8", file=sys.stderr)
        return 2
    good, words = verify_certificate(text, patient=patient)
    print(words)
    return 0 if good else 2


if __name__ == "__main__":
    sys.exit(main())
