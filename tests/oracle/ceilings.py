"""Curves that no two neighbours of a mechanism exceed: no lower end of a bound may lie above them.

Each is a closed form, a sum over all outcomes, or an inequality of a line or two: convexity of the divergence
H_x(P, Q) = sup over events of P - x Q in (P, Q), the chain H_{xy}(P, R) <= H_x(P, Q) + x H_y(Q, R), and the identity
H_x(Q, P) = 1 - x + x H_{1/x}(P, Q). They hold for every data set, every member of a class, and every step that looks at
earlier outputs. A curve is a function of x = e^epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import combinations

import mpmath as mp
import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

import tightdp as dp

from .mechanisms import EPSILONS, given, randomized_response
from .noise import Continuous, Integers, Law, Noise, laws
from .pairs import Pair, product, spread
from .repetitions import log_gamma
from .samplers import added

Curve = Callable[[np.ndarray], np.ndarray]
ROUNDED = 1e-14
"""Absolute, of a curve that is a difference of probabilities."""
LATTICE = np.unique(
    np.concatenate((EPSILONS, np.linspace(-20, -12, 30), np.linspace(-12, 12, 481), np.linspace(12, 60, 60)))
)
"""Losses of the pairs that stand for curves in compositions."""
SPLITS = np.exp(np.concatenate((np.linspace(-12, 12, 241), [-40.0, -20.0, 20.0, 40.0])))
"""Factors that a chain of two curves is split at."""


def bounded(curve: Curve) -> Curve:
    """No more than 1, no less than 1 - x."""
    return lambda x: np.clip(curve(x) + ROUNDED, np.maximum(1 - x, 0.0), 1.0)


def mirrored(curve: Curve) -> Curve:
    """The same pair in the other order."""
    return bounded(lambda x: 1 - x + x * curve(1 / x) + 1e-15 * x)


def least(*curves: Curve) -> Curve:
    return lambda x: np.min([curve(x) for curve in curves], axis=0)


def largest(*curves: Curve) -> Curve:
    return lambda x: np.max([curve(x) for curve in curves], axis=0)


def averaged(weights: Sequence[float], curves: Sequence[Curve]) -> Curve:
    """Of mixtures whose parts are told, and what the weights lack of 1 reveals everything."""
    rest = max(0.0, 1 - math.fsum(weights))
    return bounded(lambda x: rest + sum(w * curve(x) for w, curve in zip(weights, curves, strict=True)))


def chained(one: Curve, other: Curve) -> Curve:
    def curve(x: np.ndarray) -> np.ndarray:
        y = np.append(SPLITS, 1.0)[:, None]
        return np.minimum(one(y) + y * other(x[None, :] / y), 1.0).min(axis=0)

    return bounded(curve)


def chain(curves: Sequence[Curve]) -> Curve:
    return reduce(chained, curves)


def sampled(q: float, curve: Curve) -> Curve:
    """(1 - q) B + q A against B, for A against B."""
    return bounded(lambda x: np.where(x > 1 - q, q * curve(np.maximum(x - 1 + q, 1e-200) / q), 1 - x))


def joined(q: float, here: tuple[Curve, Curve], there: tuple[Curve, Curve]) -> Curve:
    """(1 - q) B + q A against (1 - q) B + q A', by the curves of A against B and A', and of A' against B and A."""

    def above(curves: tuple[Curve, Curve]) -> Curve:
        def curve(x: np.ndarray) -> np.ndarray:
            inner = 1 + (x - 1) / q
            share = x / inner
            return q * ((1 - share) * curves[0](inner) + share * curves[1](inner))

        return curve

    one, other = above(here), above(there)

    def curve(x: np.ndarray) -> np.ndarray:
        large = np.maximum(x, 1.0)
        small = np.maximum(1 / x, 1.0)
        return np.where(x >= 1, one(large), 1 - x + x * other(small))

    return bounded(curve)


def as_pair(curve: Curve) -> Pair:
    """A pair whose curve joins the points of ``curve`` on the lattice, made convex: a chord is above a convex curve."""
    x = np.exp(LATTICE)
    points = [(0.0, 1.0), *zip(x.tolist(), np.minimum.accumulate(curve(x)).tolist(), strict=True)]
    hull: list[tuple[float, float]] = []
    for a, b in points:
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (a - hull[-1][0]) >= (b - hull[-1][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((a, b))
    at, height = map(np.array, zip(*hull, strict=True))
    slopes = np.append(np.diff(height) / np.diff(at), 0.0)
    q = np.maximum(np.diff(slopes), 0.0)
    hidden = max(1.0 + float(slopes[0]), 0.0)
    return Pair(np.concatenate((q * at[1:], [height[-1], 0.0])), np.concatenate((q, [0.0, hidden])))


def of_pair(pair: Pair) -> Curve:
    with np.errstate(divide="ignore"):
        return lambda x: pair.most(np.log(x).ravel()).reshape(x.shape)


def of_noise(noise: Noise, p: Law, q: Law) -> Curve:
    above = laws(noise, p, q, EPSILONS)[1]
    if above is None:
        raise TypeError(f"no curve is known from above for {noise!r}")
    return of_pair(above)


def normal(mu: float) -> Curve:
    return bounded(lambda x: ndtr(mu / 2 - np.log(x) / mu) - x * ndtr(-mu / 2 - np.log(x) / mu))


def laplace(shift: float) -> Curve:
    return bounded(lambda x: np.maximum(-np.expm1((np.maximum(np.log(x), -shift) - shift) / 2), 0.0))


def pure(epsilon: float) -> Curve:
    e = math.exp(min(epsilon, 700.0))
    return bounded(lambda x: np.maximum((e - x) / (1 + e), 0.0))


def bounded_range(eta: float) -> Curve:
    """The largest over t of the pair with losses t and t - eta, which is at t = (epsilon + eta)/2."""
    if eta == 0:
        return pure(0.0)
    root = math.exp(eta / 2)
    return bounded(lambda x: np.maximum(root - np.sqrt(np.maximum(x, math.exp(-eta))), 0.0) ** 2 / math.expm1(eta))


def concentrated(rho: float, xi: float) -> Curve:
    """By moments: (1 - x/r)_+ <= (r/x)^(a-1) (a-1)^(a-1) / a^a for every r > 0 and order a > 1."""
    orders = 1 + np.geomspace(1e-3, 1e4, 1500)

    def above(x: np.ndarray) -> np.ndarray:
        a, e = orders[:, None], np.log(x).ravel()
        least_logs = np.zeros(len(e))
        for i in range(0, len(e), 4096):  # a chain asks for millions of points, which take gigabytes at once
            logs = (a - 1) * (xi + rho * a - e[None, i : i + 4096]) + (a - 1) * np.log(a - 1) - a * np.log(a)
            least_logs[i : i + 4096] = np.minimum(logs.min(axis=0), 0.0)
        return np.exp(least_logs).reshape(x.shape)

    return bounded(least(above, mirrored(above)))


def vectors(sigma: float, norm: float, dimensions: int) -> Curve:
    """Integer vectors of at most this norm; those that no longer one exceeds in every coordinate."""

    def longest(square: Fraction, left: int) -> list[tuple[int, ...]]:
        most = math.isqrt(math.floor(square))
        if left == 1:
            return [(most,)]
        return [(v, *rest) for v in range(most + 1) for rest in longest(square - v * v, left - 1)]

    axis = {v: laws(Integers("normal", sigma), {(v,): Fraction(1)}, {(0,): Fraction(1)}, EPSILONS)[0]
            for v in range(math.floor(norm) + 1)}  # fmt: skip
    found = {tuple(sorted(v)) for v in longest(Fraction(norm) ** 2, dimensions)}
    return largest(*(of_pair(reduce(product, (axis[x] for x in v if x))) for v in sorted(found)))


def plain(mechanism: dp.Mechanism, role: str, k: int) -> Curve:
    """One that looks at all records, ``k`` of which are removed, added or exchanged."""
    far = 2 * k if role == "replace" else k
    match mechanism:
        case dp.Gaussian(sigma):
            return normal(far / sigma)
        case dp.Laplace(scale):
            return laplace(far / scale)
        case dp.PureDP(e):
            return pure(far * e)
        case dp.BoundedRange(eta):
            return bounded_range(far * eta)
        case dp.TreeAggregation(sigma, steps):
            return normal(far * math.sqrt(steps.bit_length()) / sigma)
        case dp.DiscreteGaussian(sigma, sensitivity):
            return of_noise(Integers("normal", sigma), {(far * sensitivity,): Fraction(1)}, {(0,): Fraction(1)})
        case dp.DiscreteLaplace(scale, sensitivity):
            return of_noise(Integers("laplace", scale), {(far * sensitivity,): Fraction(1)}, {(0,): Fraction(1)})
        case dp.DiscreteGaussianVector(sigma, sensitivity, dimensions):
            return vectors(sigma, far * sensitivity, dimensions)
        case dp.ZCDP(rho, 0):
            return concentrated(far * far * rho, 0.0)
        case dp.RandomizedResponse(noise, buckets):
            return of_pair(randomized_response(noise, buckets, k).below)
        case dp.MixtureOfGaussians(sigma, norms, shares):
            one = {(c,): Fraction(p) / sum(map(Fraction, shares)) for c, p in zip(norms, shares, strict=True)}
            all_ = reduce(added, [one] * k)
            other = {(-c,): p for (c,), p in all_.items()} if role == "replace" else {(0.0,): Fraction(1)}
            found = of_noise(Continuous("normal", sigma), all_, other)
            return mirrored(found) if role == "add" else found
        case dp.PrivacyLoss() if role == "replace":
            pair = given(mechanism)
            return chain([largest(of_pair(pair), of_pair(pair.reversed))] * k)
        case dp.PrivacyLoss():
            pair = given(mechanism)
            return chain([of_pair(pair.reversed if role == "add" else pair)] * k)
        case dp.ApproximateDP(e, d):
            inner = pure(e)
            return chain([bounded(lambda x: d + (1 - d) * inner(x))] * far)
        case dp.ZCDP(rho, xi):
            return chain([concentrated(rho, xi)] * far)
    raise TypeError(f"{mechanism!r} has no ceiling")


ALONE = {"remove": "remove", "emptied": "remove", "add": "add", "filled": "add", "replace": "replace"}
"""A record that contributes nothing is as good as none where nobody counts it."""
OTHER = {"remove": "add", "add": "remove", "emptied": "filled", "filled": "emptied", "replace": "replace"}


def once(mechanism: dp.Mechanism, role: str) -> Curve:
    """A sample, one record of which differs."""
    if role in ("add", "filled"):
        return mirrored(once(mechanism, OTHER[role]))
    inner = mechanism.mechanism
    out = plain(inner, "remove", 1)
    back = mirrored(out)
    match mechanism:
        case dp.PoissonSampled(_, q):
            if role != "replace":
                return sampled(q, out)
            swap, links = plain(inner, "replace", 1), (sampled(q, out), mirrored(sampled(q, out)))
            return least(joined(q, (out, swap), (out, swap)), chain(links))
        case dp.TruncatedPoissonSampled(_, q, most, records):
            parts = []
            for others in range(records):  # how many of them a Poisson sample holds is told
                share = q * most / (others + 1)
                if others < most:
                    parts.append(once(dp.PoissonSampled(inner, q), ALONE[role]))
                elif role == "remove":  # the record is in another's place, or nothing has changed
                    parts.append(sampled(share, plain(inner, "replace", 1)))
                else:
                    parts.append(_in_place(share, inner, role))
            return averaged([float(binom.pmf(m, records - 1, q)) for m in range(records)], parts)
        case dp.FixedSizeSampled(_, size, records):
            return _in_place(size / records, inner, role)
        case dp.SampledWithReplacement(dp.Gaussian(sigma), draws, records):
            chances = [float(binom.pmf(j, draws, 1 / records)) for j in range(1, draws + 1)]
            hit = math.fsum(chances)
            swap, alone = (
                averaged(
                    [c / hit * (1 - 1e-15) for c in chances], [normal(step * j / sigma) for j in range(1, draws + 1)]
                )
                for step in (2, 1)
            )
            near = swap if role == "replace" else alone
            return joined(hit, (swap, near), (swap, near))
        case dp.RandomAllocation(_, steps, selected):
            if role == "replace":
                assert selected == steps, "no ceiling is known if a record moves between steps"
                out = plain(inner, "replace", 1)
                back = mirrored(out)
            return of_pair(_allocated(out, back, steps, selected))
    raise TypeError(f"{mechanism!r} has no ceiling")


def _in_place(q: float, inner: dp.Mechanism, role: str) -> Curve:
    """The record is in the place of another of the batch with probability ``q``."""
    swap, out = plain(inner, "replace", 1), plain(inner, "remove", 1)
    if role == "replace":
        return joined(q, (swap, swap), (swap, swap))
    return joined(q, (swap, out), (mirrored(out), mirrored(out)))


def _allocated(out: Curve, back: Curve, steps: int, selected: int) -> Pair:
    """A step that the record takes part in shows A, the others B: all outcomes of all steps."""
    one = spread(as_pair(out), {2: 500, 3: 60}.get(steps, 24))
    choices = list(combinations(range(steps), selected))
    p: np.ndarray | float = 0.0
    for chosen in choices:
        p = p + reduce(np.multiply.outer, [one.p if i in chosen else one.q for i in range(steps)]).ravel()
    return Pair(np.asarray(p) / len(choices), reduce(np.multiply.outer, [one.q] * steps).ravel())


def selected(parts: tuple[tuple[dp.Mechanism, int], ...], mean: float, shape: float | str, role: str, k: int) -> Curve:
    """The best of several runs has f'(F) times the density of one, f generating their number and F being the
    probability of what is no better. f' <= mean, and f'(F) <= e^g f'(F') for neighbours: 1 - F' <= x (1 - F) + H_x,
    with the neighbours in the other order."""
    run, back = ceiling(parts, role, k), ceiling(parts, OTHER[role], k)
    if mean == 1 and shape != "poisson":
        return run
    empty, x = 0.0, np.exp(np.linspace(0, 60, 6001))
    if shape == "poisson":
        gain, empty = mean * float(back(np.ones(1))[0]), math.exp(-mean)
    else:
        with mp.workdps(40):
            log_g = float(log_gamma(mean, float(shape)))
        fits = -math.expm1(log_g) * back(x) <= math.exp(log_g) * (x - 1)
        tops = np.where(fits, np.log(x), math.inf).min()
        gain = (float(shape) + 1) * min(float(tops), -log_g)
    if gain > 300:
        return bounded(np.ones_like)
    factor = math.exp(gain)
    return bounded(lambda y: empty * np.maximum(1 - y, 0.0) + mean * factor * run(y / factor))


def _step(mechanism: dp.Mechanism, role: str, k: int) -> Curve:
    match mechanism:
        case dp.Group(inner, size):
            return ceiling(_parts(inner), role, k * size)
        case dp.RepeatAndSelect(inner, mean, shape):
            return selected(_parts(inner), mean, shape, role, k)
        case dp.TreeAggregation() | dp.RandomizedResponse():
            return plain(mechanism, ALONE[role], k)
    if not hasattr(mechanism, "mechanism"):
        return plain(mechanism, ALONE[role], k)
    if not isinstance(mechanism, dp.TruncatedPoissonSampled) or role not in ("add", "remove"):
        return chain([once(mechanism, role)] * k)
    sizes = [mechanism.dataset_size - j for j in range(k)]  # of the larger data set of each link
    steps = [dp.TruncatedPoissonSampled(mechanism.mechanism, mechanism.sampling_probability, mechanism.batch_size, n)
             for n in (sizes if role == "remove" else sizes[::-1])]  # fmt: skip
    return chain([once(step, role) for step in steps])


def _parts(run: dp.Mechanism | dp.Composition) -> tuple[tuple[dp.Mechanism, int], ...]:
    return ((run, 1),) if isinstance(run, dp.Mechanism) else tuple(run.parts)


@lru_cache(maxsize=512)
def ceiling(parts: tuple[tuple[dp.Mechanism, int], ...], role: str, k: int) -> Curve:
    """A whole run for ordered neighbours that differ by ``k`` records."""
    curves = [curve for mechanism, count in parts for curve in [_step(mechanism, role, k)] * count]
    if len(curves) == 1:
        return curves[0]
    if not curves:
        return pure(0.0)
    found, *others = map(as_pair, curves)
    for pair in others:
        found = spread(product(found, spread(pair, 800)))
    return of_pair(found)
