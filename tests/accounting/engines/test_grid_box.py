"""The grid engine over the whole box: against exact sums, against the other engines, and against itself.

What fails names its settings; a hunt draws others.
"""

import itertools
import math
import random

import mpmath as mp
import pytest
from effort import bounded

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines import closed_form, contour, renyi
from tightdp.accounting.engines.engine_interface import Request
from tightdp.accounting.engines.grid import ENGINE
from tightdp.accounting.pairs.class_members import list_class_members

BUDGET = 7.5e9
"""Units of work that a question of the grid engine may take: 6e9, and 1.5e9 for a normal law (grid.md section 7)."""


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def log_uniform(self, low, high):
        return math.exp(self.random.uniform(math.log(low), math.log(high)))

    def base(self):
        pick, log_uniform = self.random.choice, self.log_uniform
        return pick(
            [
                lambda: dp.Gaussian(log_uniform(1e-3, 1e6)),
                lambda: dp.Gaussian(log_uniform(0.05, 1e2)),
                lambda: dp.Laplace(log_uniform(1e-3, 1e6)),
                lambda: dp.PureDP(pick([0.0, log_uniform(1e-6, 1e3), 0.5, 2.0])),
                lambda: dp.ApproximateDP(log_uniform(1e-4, 50), pick([0.0, 1.0, log_uniform(1e-20, 1), 0.5])),
                lambda: dp.BoundedRange(pick([0.0, log_uniform(1e-4, 100)])),
                lambda: dp.RandomizedResponse(pick([1.0, log_uniform(1e-9, 1)]), pick([2, 3, 1000])),
                lambda: dp.DiscreteGaussian(log_uniform(1e-2, 300), self.random.randint(1, 10)),
                lambda: dp.DiscreteGaussian(log_uniform(0.05, 0.5), self.random.randint(1, 30)),
                lambda: dp.DiscreteLaplace(log_uniform(1e-2, 1e3), self.random.randint(1, 50)),
                self.mixture,
            ]
        )()

    def mixture(self):
        norms = self.random.sample([0.0, 1e-3, 0.5, 1.0, 2.0, 30.0], self.random.randint(2, 6))
        raw = [self.log_uniform(1e-9, 1) for _ in norms]
        return dp.MixtureOfGaussians(self.log_uniform(0.05, 1e3), norms, [x / sum(raw) for x in raw])

    def mechanism(self):
        base = self.base()
        if self.random.random() < 0.5 or isinstance(base, dp.RandomizedResponse):
            return base
        if not isinstance(base, dp.MixtureOfGaussians) and self.random.random() < 0.3:
            n = self.random.randint(2, 40)
            q = self.random.choice([1.0, self.log_uniform(1e-9, 1), 0.5])
            return dp.TruncatedPoissonSampled(base, q, self.random.randint(1, n - 1), n)
        near_one = 1 - self.log_uniform(1e-15, 0.5)
        return dp.PoissonSampled(base, self.random.choice([1.0, self.log_uniform(1e-9, 1), 0.5, near_one]))

    def parts(self):
        pick, steps = self.random.choice, lambda: int(self.log_uniform(1, 1e9))
        run = sum(self.mechanism() * pick([1, 1, 2, 3, 20, steps()]) for _ in range(pick([1, 1, 1, 2, 3])))
        return run._to_composition().parts

    def delta(self):
        power = 10.0 ** -self.random.uniform(0, 300)
        return self.random.choice([0.5, 1e-5, power, 1e-300, 1 - self.log_uniform(1e-15, 0.5)])

    def epsilon(self):
        pick = self.random.choice
        return pick([0.0, self.random.uniform(-5, 5), self.log_uniform(1e-12, 1e4) * pick([1, -1])])


def pair(mechanism):
    """(P, Q) of a mechanism of few outcomes, in the digits of mpmath; None of others."""
    match mechanism:
        case dp.PureDP() | dp.ApproximateDP():
            ratio, lost = mp.exp(mechanism.nominal_epsilon), mp.mpf(getattr(mechanism, "nominal_delta", 0))
            one, other = (1 - lost) * ratio / (1 + ratio), (1 - lost) / (1 + ratio)
            return [one, other, lost, 0], [other, one, 0, lost]
        case dp.RandomizedResponse(noise, buckets):
            other = mp.mpf(noise) / buckets
            truth = 1 - mp.mpf(noise) + other
            return [truth, other, (buckets - 2) * other], [other, truth, (buckets - 2) * other]
        case dp.DiscreteLaplace(scale, sensitivity):
            ratio = mp.exp(-1 / mp.mpf(scale))
            tail = 1 / (1 + ratio)
            middle = [tail * (1 - ratio) * ratio**k for k in range(1, sensitivity)]
            return [ratio**sensitivity * tail, *middle[::-1], tail], [tail, *middle, ratio**sensitivity * tail]
        case dp.DiscreteGaussian(sigma, sensitivity) if sigma < 1:
            reach = math.ceil(48 * sigma)
            far = range(-reach - sensitivity, reach + sensitivity + 1)
            mass = {n: mp.exp(-((n / mp.mpf(sigma)) ** 2) / 2) for n in far}
            total = mp.fsum(mass.values())
            at = range(-reach - sensitivity, reach + 1)
            return [mass[n] / total for n in at], [mass[n + sensitivity] / total for n in at]
    return None


def cut_sample(mechanism, direction):
    """Of the pair that dominates a cut sample (docs/theory/mixtures.md section 5), which the upper end must reach."""
    inner, q, size = mechanism.mechanism, mp.mpf(mechanism.sampling_probability), mechanism.batch_size
    n = mechanism.dataset_size - 1
    sizes = [mp.binomial(n, s) * q**s * (1 - q) ** (n - s) for s in range(n + 1)]
    cut = mp.fsum(sizes[size:])
    within = mp.fsum(p * q * size / (s + 1) for s, p in enumerate(sizes) if s >= size) / cut if cut else mp.mpf(0)
    match inner:
        case dp.DiscreteLaplace(scale, s):
            doubled = dp.DiscreteLaplace(scale, 2 * s)
        case dp.DiscreteGaussian(sigma, s):
            doubled = dp.DiscreteGaussian(sigma, 2 * s)
        case _:
            return None
    whole, fixed = outcomes(inner, direction, q), outcomes(doubled, direction, within)
    if whole is None or fixed is None:
        return None
    finite = [(y, share * p) for share, (atoms, _) in ((1 - cut, whole), (cut, fixed)) for y, p in atoms]
    return [(y, p) for y, p in finite if p > 0], (1 - cut) * whole[1] + cut * fixed[1]


def outcomes(mechanism, direction, q=None):
    """Losses with P's probabilities, and P's probability of an infinite loss."""
    if isinstance(mechanism, dp.TruncatedPoissonSampled):
        return cut_sample(mechanism, direction)
    q = mp.mpf(1) if q is None else q
    if isinstance(mechanism, dp.PoissonSampled):
        mechanism, q = mechanism.mechanism, mp.mpf(mechanism.sampling_probability)
    found = pair(mechanism)
    if found is None:
        return None
    with_, without = found[0], found[1]
    mixed = [(1 - q) * b + q * a for a, b in zip(with_, without, strict=True)]
    p, r = (mixed, without) if direction == "remove" else (without, mixed)
    finite = [(mp.log(a / b), a) for a, b in zip(p, r, strict=True) if a > 0 and b > 0]
    return finite, mp.fsum(a for a, b in zip(p, r, strict=True) if b == 0)


def power(atoms, count):
    """Of ``count`` independent draws; None if there are too many sums."""
    if math.comb(count + len(atoms) - 1, len(atoms) - 1) > 600:
        return None
    sums = []
    for drawn in itertools.combinations_with_replacement(range(len(atoms)), count):
        times = [drawn.count(i) for i in range(len(atoms))]
        ways = mp.factorial(count) / mp.fprod(mp.factorial(t) for t in times)
        probability = mp.fprod(p**t for (_, p), t in zip(atoms, times, strict=True))
        sums.append((mp.fsum(t * y for (y, _), t in zip(atoms, times, strict=True)), ways * probability))
    return sums


def exact_curve(parts, direction):
    """delta as a function of epsilon, or None."""
    total, finite = [(mp.mpf(0), mp.mpf(1))], mp.mpf(1)
    for mechanism, count in parts:
        found = outcomes(mechanism, direction)
        if found is None or count > 30:
            return None
        sums = power(found[0], count) if found[0] else []
        if sums is None or len(sums) * len(total) > 3000:
            return None
        finite *= (1 - found[1]) ** count
        total = [(y + z, p * r) for y, p in total for z, r in sums]
    return lambda epsilon: mp.fsum(p * -mp.expm1(epsilon - y) for y, p in total if y > epsilon) + 1 - finite


def sound(found, truth):
    """Up to what the digits of the truth itself lose."""
    return found.lower <= truth * (1 + mp.mpf(10) ** -40) and truth <= found.upper * (1 + mp.mpf(10) ** -40)


def check(parts, direction, target, epsilons, request):
    here = parts, direction, target, epsilons, request
    crossings = _core.grid_crossings()
    inverse = bounded(lambda: ENGINE.epsilon(parts, direction, target, request), BUDGET)
    curve = {e: bounded(lambda e=e: ENGINE.delta(parts, direction, e, request), BUDGET) for e in sorted(epsilons)}
    assert _core.grid_crossings() == crossings, here
    assert 0 <= inverse.lower <= inverse.upper, (here, inverse)
    for epsilon, found in curve.items():
        assert -math.expm1(min(epsilon, 0.0)) * (1 - 1e-15) <= found.lower <= found.upper <= 1, (here, found)
        assert not (epsilon >= max(inverse.upper, 0) and found.lower > target), (here, inverse, found)
        assert not (0 <= epsilon < inverse.lower and found.upper < target), (here, inverse, found)
    for found in (inverse, *curve.values()):
        assert all(term >= 0 for term in found.error_budget.values()), (here, found)
    for first, second in itertools.pairwise(curve.values()):
        assert second.lower <= first.upper, (here, first, second)
    loose = list_class_members(parts) != (parts,)
    for engine in (contour.ENGINE, renyi.ENGINE, closed_form.ENGINE):
        if engine.explain_refusal(parts, direction) is None:
            pairs = [(inverse, engine.epsilon(parts, direction, target, request))]
            pairs += [(found, engine.delta(parts, direction, epsilon, request)) for epsilon, found in curve.items()]
            for found, other in pairs:
                assert other.lower <= found.upper and (loose or found.lower <= other.upper), (here, found, other)
    with mp.workdps(400):
        truth = exact_curve(parts, direction)
        if truth is None:
            return
        for epsilon, found in curve.items():
            assert sound(found, truth(mp.mpf(epsilon))), (here, epsilon, found)
        if inverse.upper < math.inf:
            assert truth(mp.mpf(inverse.upper)) <= target * (1 + mp.mpf(10) ** -40), (here, inverse)
        if inverse.lower > 0:
            least = truth(mp.mpf(min(inverse.lower, 1e6)))
            assert least >= target * (1 - mp.mpf(10) ** -40), (here, inverse)


@pytest.mark.parametrize(
    "settings", [8, pytest.param(60, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.hunt)]
)
def test_a_fresh_sample_of_the_box(settings):
    draw = Draw(random.randrange(10**9))
    for _ in range(settings):
        parts, direction = draw.parts(), draw.random.choice(["add", "remove"])
        if ENGINE.explain_refusal(parts, direction) is None:
            request = Request(width=draw.random.choice([1e-3, 1e-6]), max_bytes=draw.random.choice([1 << 23, 1 << 30]))
            check(parts, direction, draw.delta(), (draw.epsilon(), draw.epsilon()), request)


GAUSSIAN = dp.PoissonSampled(dp.Gaussian(0.6824534212089961), 0.015330536804905714)
HARD = [
    # Cells so wide that e^x is beyond doubles.
    (dp.PoissonSampled(dp.Gaussian(0.07675513545475626), 8.69622009756448e-08) * 694688291, 1e-300, 0.5),
    # What is left of a window on the way turns up right of it.
    (GAUSSIAN + dp.PoissonSampled(dp.Gaussian(19.88471440057018), 0.4531090944112467) * 5940, 1e-170, 62.7628971041838),
    # Edges near log(1 - q), where the base loss is known to few digits.
    (dp.PoissonSampled(dp.Laplace(0.07166512766228296), 7.217211781158893e-07) * 1, 1e-9, -2.572795757694476),
    # Chords over more than e^709.
    (dp.PureDP(358.92750918751665) * 2, 1e-5, 717.8550083),
    (dp.DiscreteGaussian(0.01045980142667892, 9) * 1, 1e-300, 370000.0),
    (dp.PoissonSampled(dp.DiscreteLaplace(0.024485534460363632, 30), 0.6388497648583605) * 102, 0.997, 62459.2),
    # Atoms where 1 - q + q e^y cancels.
    (dp.PoissonSampled(dp.PureDP(30.0), 1 - 1e-12) * 1, 1e-5, -29.0),
]


@pytest.mark.parametrize(("run", "target", "epsilon"), HARD, ids=repr)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_settings_that_are_hard_to_bound(run, target, epsilon, direction):
    parts = run._to_composition().parts
    for width in (1e-2, 1e-6):
        check(parts, direction, target, (epsilon, epsilon / 3), Request(width=width))


# All of Q is where P has next to nothing, a little of it is, or all but a little.
@pytest.mark.parametrize(
    ("sigma", "sensitivity"),
    [
        (0.152, 8),
        (0.9, 42),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.3, 15), (0.3, 20), (0.2, 11), (0.5, 24))),
    ],
)
@pytest.mark.parametrize("probability", [7e-9, pytest.param(0.1, marks=pytest.mark.slow), 0.9])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_none_of_the_neighbour_is_lost(sigma, sensitivity, probability, direction):
    mechanism = dp.PoissonSampled(dp.DiscreteGaussian(sigma, sensitivity), probability)
    for steps in (1, 2):
        check((mechanism * steps)._to_composition().parts, direction, 1e-9, (-3.9, -1.0, -0.1, 0.05, 1.0), Request())
