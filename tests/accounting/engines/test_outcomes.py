"""Compositions with few outcomes are summed exactly: every sequence of atoms in 50-digit arithmetic tells the truth
(docs/theory/closed-forms.md section 8)."""

import itertools
import math

import mpmath as mp
import pytest
from effort import bounded

import tightdp as dp
from tightdp.accounting.engines.closed_form import outcomes
from tightdp.mechanisms import PrivacyLoss

DIRECTIONS = ("remove", "add")
NARROW = 2e-13
"""Relative width: far less than the part in a million by which no bound may be too low."""


def binary(e):
    """(P, Q) of each output of randomised response."""
    p = 1 / (1 + mp.exp(-mp.mpf(e)))
    return [(p, 1 - p), (1 - p, p)]


def approximate(e, d):
    return [((1 - mp.mpf(d)) * p, (1 - mp.mpf(d)) * q) for p, q in binary(e)] + [(mp.mpf(d), 0), (0, mp.mpf(d))]


def response(noise, buckets):
    wrong = mp.mpf(noise) / buckets
    return [(1 - mp.mpf(noise) + wrong, wrong), (wrong, 1 - mp.mpf(noise) + wrong)] + [(wrong, wrong)] * (buckets - 2)


def laplace(scale, sensitivity):
    t = mp.exp(-1 / mp.mpf(scale))
    unit = (1 - t) / (1 + t)
    within = [(unit * t ** (sensitivity - n), unit * t**n) for n in range(1, sensitivity)]
    ends = [(1 / (1 + t), t**sensitivity / (1 + t))]
    return within + ends + [(q, p) for p, q in ends]


def gaussian(sigma, sensitivity=1, reach=20):
    total = mp.nsum(lambda n: mp.exp(-(n**2) / (2 * mp.mpf(sigma) ** 2)), [-mp.inf, mp.inf])
    mass = {n: mp.exp(-(mp.mpf(n) ** 2) / (2 * mp.mpf(sigma) ** 2)) / total for n in range(-reach, reach + 1)}
    return [(mass[n], mass.get(n + sensitivity, mp.mpf(0))) for n in range(-reach, reach + 1 - sensitivity)]


def sampled(pair, q):
    """For removing a record; reversed for adding one."""
    return [((1 - mp.mpf(q)) * b + mp.mpf(q) * a, b) for a, b in pair]


def curve(pairs, epsilon, direction):
    """The divergence of the product of independent pairs, over all sequences of outputs."""
    found = mp.mpf(0)
    for sequence in itertools.product(*pairs):
        p, q = mp.fprod(a for a, _ in sequence), mp.fprod(b for _, b in sequence)
        p, q = (p, q) if direction == "remove" else (q, p)
        found += max(p - mp.exp(mp.mpf(epsilon)) * q, 0)
    return found


def allocated(pair, steps, selected, epsilon, direction):
    """The divergence of the mean over all choices of steps, over all sequences of outputs."""
    choices = list(itertools.combinations(range(steps), selected))
    found = mp.mpf(0)
    for sequence in itertools.product(pair, repeat=steps):
        q = mp.fprod(b for _, b in sequence)
        p = mp.fsum(mp.fprod(sequence[i][i not in chosen] for i in range(steps)) for chosen in choices) / len(choices)
        p, q = (p, q) if direction == "remove" else (q, p)
        found += max(p - mp.exp(mp.mpf(epsilon)) * q, 0)
    return found


def check(run, truth, at, direction):
    with mp.workdps(50):
        exact = truth(at, direction)
        bound = run.delta(at, neighbors=direction)
        assert bound.engine == "closed_form"
        assert bound.lower <= exact * (1 + mp.mpf(10) ** -30) and exact * (1 - mp.mpf(10) ** -30) <= bound.upper
        assert bound.width <= NARROW * bound.upper
        if not (at > 0 and exact > 1e-300) or truth(at + 1e-9, direction) == exact:
            return
        asked = float(exact)
        found = run.epsilon(asked, neighbors=direction)
        low, high = truth(mp.mpf(found.lower), direction), truth(mp.mpf(found.upper), direction)
        rounding = asked * mp.mpf(10) ** -30
        assert found.engine == "closed_form" and low >= asked - rounding and high <= asked + rounding
        assert low - high <= 10 * NARROW * asked


with mp.workdps(60):
    RUNS = {
        "pure": (dp.PureDP(0.5) * 3 + dp.PureDP(1.25) * 2, [binary(0.5)] * 3 + [binary(1.25)] * 2),
        "approximate": (
            dp.ApproximateDP(0.3, 1e-3) * 2 + dp.PureDP(1.0) * 2,
            [approximate(0.3, 1e-3)] * 2 + [binary(1.0)] * 2,
        ),
        "response": (dp.RandomizedResponse(0.25, 4) * 4, [response(0.25, 4)] * 4),
        "laplace": (dp.DiscreteLaplace(2.0, 3) * 3, [laplace(2.0, 3)] * 3),
        "sampled": (
            dp.PoissonSampled(dp.PureDP(1.0), 0.125) * 3 + dp.PoissonSampled(dp.ApproximateDP(0.5, 1e-2), 0.25) * 2,
            [sampled(binary(1.0), 0.125)] * 3 + [sampled(approximate(0.5, 1e-2), 0.25)] * 2,
        ),
        "rarely sampled": (
            dp.PoissonSampled(dp.DiscreteLaplace(1.0, 2), 2.0**-30) * 3,
            [sampled(laplace(1.0, 2), 2.0**-30)] * 3,
        ),
        "given": (
            PrivacyLoss.from_distributions([0.5, 0.25, 0.25, 0.0], [0.25, 0.5, 0.0, 0.25]) * 3,
            [[(mp.mpf(0.5), mp.mpf(0.25)), (mp.mpf(0.25), mp.mpf(0.5)), (mp.mpf(0.25), 0), (0, mp.mpf(0.25))]] * 3,
        ),
    }
    ALLOCATIONS = {
        "pure": (dp.PureDP(1.0), binary(1.0)),
        "approximate": (dp.ApproximateDP(0.5, 1e-2), approximate(0.5, 1e-2)),
        "laplace": (dp.DiscreteLaplace(1.0, 2), laplace(1.0, 2)),
    }


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("at", [-0.4, 0.0, 0.3, 1.1, 2.4])
@pytest.mark.parametrize("name", RUNS)
def test_compositions(name, at, direction):
    with mp.workdps(50):
        run, pairs = RUNS[name]
        if name == "given":  # what a user states is known to a few roundings
            exact, bound = curve(pairs, at, direction), run.delta(at, neighbors=direction)
            assert bound.engine == "closed_form" and bound.lower <= exact <= bound.upper
            assert bound.width <= 1e-12 * bound.upper
            return
        check(run, lambda where, way: curve(pairs, where, way), at, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("steps", "selected"), [(2, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_random_allocations(name, steps, selected, direction):
    mechanism, pair = ALLOCATIONS[name]
    run = dp.RandomAllocation(mechanism, steps, selected)
    for at in (-0.2, 0.35):
        check(run, lambda where, way: allocated(pair, steps, selected, where, way), at, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_allocations_of_discrete_gaussians(direction):
    with mp.workdps(40):
        pair = [(p, q) for p, q in gaussian(1.0, reach=10)]
        run = dp.RandomAllocation(dp.DiscreteGaussian(1.0), 3, 2)
        exact, bound = allocated(pair, 3, 2, 1.5, direction), run.delta(1.5, neighbors=direction)
        assert bound.lower <= exact * (1 + mp.mpf(10) ** -12) and exact * (1 - mp.mpf(10) ** -12) <= bound.upper
        assert bound.width <= 1e-12 * bound.upper
        assert run.epsilon(1e-5, neighbors=direction).width < 1e-12


def test_the_ratio_of_several_selected_at_the_top_of_its_support():
    """All steps show the smallest ratio: nothing but its power is left."""
    bound = dp.RandomAllocation(dp.PureDP(1.0), 10, 2).delta(1.99, neighbors="add")
    with mp.workdps(40):
        # Under Q all ten outputs have the ratio e^-1, so that e_2 / C(10, 2) is e^-2.
        all_ten = (1 / (1 + mp.exp(-1))) ** 10
        exact = all_ten * (1 - mp.exp(mp.mpf(1.99) - 2))
        assert bound.lower <= exact <= bound.upper and bound.width <= 1e-12 * bound.upper


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_allocations_beside_others(direction):
    one = dp.RandomAllocation(dp.PureDP(0.5), 3, 2)
    run = one * 2 + dp.PureDP(0.25)
    with mp.workdps(40):
        joint = []
        for sequence in itertools.product(binary(0.5), repeat=3):
            q = mp.fprod(b for _, b in sequence)
            p = mp.fsum(mp.fprod(sequence[i][i == left] for i in range(3)) for left in range(3)) / 3
            joint.append((p, q))
        check(run, lambda where, way: curve([joint, joint, binary(0.25)], where, way), 0.4, direction)


@pytest.mark.parametrize("count", [40, 400, 60_000])
def test_many_steps_of_two_kinds_are_binomials(count):
    """Two losses that are multiples of each other: the curve of one kind alone is that of the closed form."""
    run = dp.PoissonSampled(dp.PureDP(0.01), 0.5) * count
    q, e = mp.mpf(0.5), mp.mpf(0.01)
    with mp.workdps(50):
        (p1, q1), (p2, q2) = sampled(binary(e), q)
        at = mp.mpf(0.2)
        exact = mp.mpf(0)
        for i in range(count + 1) if count <= 400 else []:
            exact += max(
                mp.binomial(count, i) * (p1**i * p2 ** (count - i) - mp.exp(at) * q1**i * q2 ** (count - i)), 0
            )
        bound = run.delta(float(at), neighbors="remove")
        if count <= 400:
            assert bound.lower <= exact * (1 + 1e-30) and exact * (1 - 1e-30) <= bound.upper
        assert bound.engine == "closed_form" and bound.width <= 1e-11 * bound.upper
        grid = run.delta(float(at), neighbors="remove", engine="grid")
        assert grid.lower <= bound.upper and bound.lower <= grid.upper


def test_replacing_a_record_of_a_class():
    """The losses 2e, 0, -2e with masses E, 1 - 1/E and 1/E over 1 + E (replace.md section 1)."""
    run = dp.PureDP(0.5) * 2 + dp.PureDP(0.25)
    with mp.workdps(40):

        def replaced(e):
            big = mp.exp(mp.mpf(e))
            masses = [big / (1 + big), (1 - 1 / big) / (1 + big), 1 / big / (1 + big)]
            return list(zip(masses, reversed(masses), strict=True))

        for at in (0.0, 0.3, 1.0):
            exact = curve([replaced(0.5)] * 2 + [replaced(0.25)], at, "remove")
            bound = run.delta(at, neighbors="replace")
            assert bound.lower <= exact <= bound.upper and bound.width <= 1e-12 * bound.upper


def test_the_number_of_outcomes_is_bounded_before_any_work():
    assert outcomes.find_outcome_curve(((dp.PureDP(1.0), 10**15),), "remove") is None
    assert outcomes.find_outcome_curve(((dp.RandomizedResponse(0.5, 3), 10**4),), "remove") is None
    assert outcomes.find_outcome_curve(((dp.DiscreteGaussian(1.0), 4),), "remove") is None
    assert outcomes.find_outcome_curve(((dp.RandomAllocation(dp.DiscreteGaussian(1.0), 100, 50), 1),), "remove") is None
    many = tuple((dp.PureDP(1.0 + i), 1) for i in range(1000))
    assert outcomes.find_outcome_curve(many, "remove") is None


@pytest.mark.parametrize("delta", [1e-3, 1e-20, 1e-300])
def test_every_delta_gets_an_answer(delta):
    for run in (dp.DiscreteGaussian(1.0) * 2, dp.DiscreteLaplace(1e-3, 3) * 2, dp.RandomizedResponse(1e-12, 5) * 3):
        bound = run.epsilon(delta)
        assert 0 < bound.lower <= bound.upper < math.inf and bound.width <= 1e-12 * bound.upper


@pytest.mark.parametrize(
    "one", [dp.DiscreteLaplace(1e-60), dp.DiscreteLaplace(1e-60, 3), dp.PureDP(1e60), dp.PureDP(1e29)]
)
def test_losses_whose_logarithms_leave_no_digits(one):
    """Without noise, what is sampled with probability 1/2 is seen as often."""
    found = dp.PoissonSampled(one, 0.5).delta(1.0, neighbors="remove")
    assert found.lower <= 0.5 <= found.upper <= 0.5 + 1e-12


@pytest.mark.parametrize("q", [1e-30, 1e-50, 1e-61, 1e-100])
@pytest.mark.parametrize("steps", [1, 2])
def test_losses_of_rare_samples(q, steps):
    """The largest loss of a step is ln(1 + q (e^2 - 1))."""
    largest = steps * q * math.expm1(2.0)
    found = (dp.PoissonSampled(dp.DiscreteLaplace(1.0, 2), q) * steps).epsilon(1e-30 * q**steps, neighbors="remove")
    assert found.lower <= largest <= found.upper * (1 + 1e-15) and found.upper <= largest * (1 + 1e-6)


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("inverse_scale", [240.0, 372.0, 708.5, 745.2, 1500.0])
def test_noise_whose_atoms_are_below_all_doubles(inverse_scale, sensitivity):
    """Both ends of delta, epsilon and the risk of a guess, where most masses are subnormal or zero as doubles."""
    with mp.workdps(60):
        scale = 1 / inverse_scale
        pairs, run, top = [laplace(scale, sensitivity)] * 2, dp.DiscreteLaplace(scale, sensitivity) * 2, 2 / scale
        places = [0.0, 0.5, -0.3, -700.0] + [top * sensitivity * share for share in (0.25, 0.4999, 0.5001, 1 - 1e-9)]
        for at in places:
            exact, bound = curve(pairs, at, "remove"), run.delta(at)
            assert bound.lower <= exact * (1 + mp.mpf(10) ** -40) and exact * (1 - mp.mpf(10) ** -40) <= bound.upper
            asked = float(exact)
            if 0 < asked < 1:
                found = run.epsilon(asked)
                assert found.upper == math.inf or curve(pairs, found.upper, "remove") <= asked * (1 + 1e-30)
                assert found.lower == 0 or curve(pairs, found.lower * (1 - mp.mpf(10) ** -30), "remove") >= asked
        for prior in (1e-300, 1e-10, 0.3):
            likely = [mp.fprod(p for p, _ in both) for both in itertools.product(*pairs)]
            rivals = [mp.fprod(q for _, q in both) for both in itertools.product(*pairs)]
            risk = mp.fsum(min(prior * p, (1 - mp.mpf(prior)) * q) for p, q in zip(likely, rivals, strict=True))
            guess = run.bayes_risk(prior)
            assert float(guess.lower) <= risk * (1 + mp.mpf(10) ** -40)
            assert risk * (1 - mp.mpf(10) ** -40) <= float(guess.upper)


@pytest.mark.parametrize("count", [100, 10**6, 2**53])
@pytest.mark.parametrize("q", [5e-324, 1e-12, 0.5, 1 - 2**-53])
def test_one_kind_of_outcome_takes_no_more_work_for_more_steps(q, count):
    """A step whose only loss is infinite with probability q: delta is 1 - (1 - q)^n at every epsilon."""
    run = dp.PoissonSampled(dp.ApproximateDP(0.0, 1.0), q) * count
    with mp.workdps(400):
        truth = 1 - (1 - mp.mpf(q)) ** count
        for neighbors in ("add_or_remove", "replace_special"):
            found = bounded(lambda neighbors=neighbors: run.delta(1.0, neighbors=neighbors), units=1e7, calls=3000)
            assert found.lower <= truth <= found.upper <= truth * (1 + NARROW) + 5e-324
            assert found.lower >= truth * (1 - NARROW) - count * 5e-324  # q may be uncertain by the least double
            at = bounded(lambda neighbors=neighbors: run.epsilon(0.25, neighbors=neighbors), units=1e7, calls=3000)
            assert (at.lower, at.upper) == ((math.inf, math.inf) if truth > 0.25 else (0.0, 0.0))


def test_an_allocation_over_one_kind_of_outcome():
    """Under Q every step shows the same output. Under P the two chosen steps show it with probability 1/4 each."""
    one = PrivacyLoss([math.log(0.25)], [0.25], 0.75)
    found = bounded(lambda: dp.RandomAllocation(one, 2**40, 2).delta(1.0, neighbors="remove"), units=1e5, calls=5000)
    assert found.lower <= 1 - 0.25**2 <= found.upper <= found.lower * (1 + NARROW)
