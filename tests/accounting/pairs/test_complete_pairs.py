"""A user's table of losses stands for every pair that agrees with it: bounds against all of them, one by one.

The oracle draws a table, moves its losses within the stated error, gives the rest of Q to outcomes that P does not
have, and sums over all outcomes of what was asked. It knows nothing of how the library bounds a table.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import tightdp as dp

EPSILONS = (-1.2, -0.3, 0.0, 0.25, 1.0, 2.5)
SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 24))]
ROUNDED = 1e-11
"""Relative error of the sums below: a few hundred terms and their exponentials."""


def table(rng, relation="any"):
    """A table that some pairs of distributions agree with; ``error`` is what its losses are known to."""
    size = int(rng.integers(1, 4))
    losses = np.unique(np.round(rng.uniform(-1.5, 2.0, size), int(rng.integers(0, 3))))
    infinity = float(rng.choice([0.0, 0.0, 0.125]))
    masses = rng.dirichlet(np.ones(len(losses))) * (1 - infinity)
    over = math.log(float(np.sum(masses * np.exp(-losses))))
    losses = losses + (over if over > 0 or rng.random() < 0.5 else 0.0)
    error = float(rng.choice([0.0, 1e-7, 1e-3, 0.1, 0.5, 2.5]))
    if rng.random() < 0.5:
        found = dp.PrivacyLoss.from_pmf(losses, masses, infinity=infinity, relation=relation, loss_error=error)
    else:
        known = max(0.0, 1 - float(np.sum(masses * np.exp(-losses))))
        # What Q has elsewhere is stated where the losses tell it: else any of it may be there.
        stated = known if error == 0 else float(rng.choice([0.0, known]))
        numbers = tuple(losses.tolist()), tuple(masses.tolist()), infinity
        found = dp.PrivacyLoss(*numbers, stated, relation=relation, loss_error=error)
    return found, losses, masses, infinity, error


def true_pairs(rng, losses, masses, infinity, error):
    """Pairs of distributions with the table's P and losses within ``error``: the corners, the middle, and others."""
    corners = list(itertools.product((-1.0, 1.0), repeat=len(losses)))
    shares = [np.zeros(len(losses)), *map(np.array, corners), *rng.uniform(-1, 1, (3, len(losses)))]
    for share in shares:
        moved = np.array(losses) + 0.999999 * error * share
        q = masses * np.exp(-moved)
        if q.sum() > 1:  # the nearest pair on the way up, if there is one
            moved = np.minimum(moved + math.log(q.sum()), np.array(losses) + 0.999999 * error)
            q = masses * np.exp(-moved)
        if q.sum() <= 1 + 1e-15:
            yield np.append(masses, [infinity, 0.0]), np.append(q, [0.0, max(1 - q.sum(), 0.0)])


def divergence(p, q, epsilon):
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0))


def product(pairs):
    p, q = np.ones(1), np.ones(1)
    for one, other in pairs:
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    return p, q


@functools.lru_cache(64)
def bound_delta(run, epsilon, neighbors):
    """Asks once for a bound that is compared with many pairs."""
    return run.delta(epsilon, neighbors=neighbors)


def assert_holds(run, truth, neighbors):
    """That the bounds of ``run`` hold ``truth`` at every epsilon."""
    for epsilon in EPSILONS:
        bound, true = bound_delta(run, epsilon, neighbors), truth(epsilon)
        assert bound.lower <= true * (1 + ROUNDED) + 1e-14, (run, epsilon, neighbors, bound.lower, true)
        assert true * (1 - ROUNDED) - 1e-14 <= bound.upper, (run, epsilon, neighbors, bound.upper, true)


def drawn(seed, relation="any"):
    rng = np.random.default_rng([7, seed])
    found, *numbers = table(rng, relation)
    return found, list(true_pairs(rng, *numbers))


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_step_and_several(seed, steps):
    found, pairs = drawn(seed)
    assert pairs
    for p, q in pairs:
        ahead, behind = product([(p, q)] * steps)
        orders = {
            "remove": [(ahead, behind)],
            "add": [(behind, ahead)],
            "add_or_remove": [(ahead, behind), (behind, ahead)],
        }
        for neighbors, both in orders.items():
            assert_holds(
                found * steps, lambda e, both=both: max(divergence(*one, e) for one in both), neighbors=neighbors
            )


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_either_order_in_every_step(seed, steps):
    for relation in ("any", "replace"):
        found, pairs = drawn(seed, relation)
        for p, q in pairs[:6]:
            orders = [product(one) for one in itertools.product(((p, q), (q, p)), repeat=steps)]
            assert_holds(
                found * steps, lambda e, orders=orders: max(divergence(*one, e) for one in orders), neighbors="replace"
            )


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_samples(seed, steps):
    found, pairs = drawn(seed)
    share = (0.05, 0.5, 0.9)[seed % 3]
    run = dp.PoissonSampled(found, share) * steps
    for p, q in pairs[:6]:
        mixed, rest = product([((1 - share) * q + share * p, q)] * steps)
        assert_holds(run, lambda e, m=mixed, r=rest: divergence(m, r, e), neighbors="remove")
        assert_holds(run, lambda e, m=mixed, r=rest: divergence(r, m, e), neighbors="add")
        assert_holds(
            run, lambda e, m=mixed, r=rest: max(divergence(m, r, e), divergence(r, m, e)), neighbors="replace_special"
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_random_allocations(seed):
    """Of three steps, in one of which the record takes part."""
    found, pairs = drawn(seed)
    run = dp.RandomAllocation(found, 3)
    for p, q in pairs[:4]:
        parts = [product([(p, q) if i == j else (q, q) for j in range(3)])[0] for i in range(3)]
        ahead, behind = sum(parts) / 3, product([(q, q)] * 3)[0]
        assert_holds(run, lambda e, a=ahead, b=behind: divergence(a, b, e), neighbors="remove")
        assert_holds(run, lambda e, a=ahead, b=behind: divergence(b, a, e), neighbors="add")


def gaussian_delta(mu, epsilon):
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def beside_gaussian(mu, p, q, epsilon):
    """delta of a Gaussian with mu = 1/sigma beside the pair, summed over the pair's outcomes."""
    total = 0.0
    for one, other in zip(p, q, strict=True):
        if one > 0:
            total += one if other == 0 else one * gaussian_delta(mu, epsilon - math.log(one / other))
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_beside_a_gaussian_and_in_a_filter(seed):
    """The grid engine composes both; and a filter keeps room for the table whichever pair it is."""
    found, pairs = drawn(seed)
    run = dp.Gaussian(1.25) + found
    promised = {e: (found.delta(e, neighbors="replace").upper + 1) / 2 for e in (0.2, 1.0)}
    room = {}
    for epsilon, delta in promised.items():
        if delta < 0.99:
            room[epsilon] = dp.PrivacyFilter(epsilon, delta, family="gaussian", neighbors="replace", others=found).cap
    bounds = {(e, d): run.delta(e, neighbors=d) for e in EPSILONS for d in ("remove", "add")}
    for p, q in pairs:
        for (epsilon, direction), bound in bounds.items():
            true = beside_gaussian(0.8, *((p, q) if direction == "remove" else (q, p)), epsilon)
            assert bound.lower <= true * (1 + 1e-9) + 1e-14 and true * (1 - 1e-9) - 1e-14 <= bound.upper
        for epsilon, cap in room.items():
            for one in ((p, q), (q, p)):
                assert beside_gaussian(math.sqrt(cap), *one, epsilon) <= promised[epsilon] * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_epsilon_groups_and_renyi_divergences(seed):
    found, pairs = drawn(seed)
    group, orders = found.group(2), [1.5, 3.0]
    moments = found.renyi(orders, neighbors="add_or_remove")
    for delta in (1e-6, 0.02, 0.3):
        for neighbors in ("remove", "add"):
            bound = found.epsilon(delta, neighbors=neighbors)
            for p, q in pairs:
                one, other = (p, q) if neighbors == "remove" else (q, p)
                if bound.upper < math.inf:
                    assert divergence(one, other, bound.upper) <= delta * (1 + 1e-9)
                if 0 < bound.lower < math.inf:
                    assert divergence(one, other, bound.lower * (1 - 1e-9)) >= delta * (1 - 1e-9)
                elif bound.lower == math.inf:
                    assert divergence(one, other, 700.0) >= delta
    for p, q in pairs:
        for epsilon in (0.0, 1.0):  # a second record that changes nothing is one of a group
            bound = bound_delta(group, epsilon, "add_or_remove")
            true = max(divergence(p, q, epsilon), divergence(q, p, epsilon))
            assert bound.lower <= true * (1 + 1e-9) + 1e-14 and true * (1 - 1e-9) - 1e-14 <= bound.upper
        for i, order in enumerate(orders):
            for one, other in ((p, q), (q, p)):
                if (other[one > 0] > 0).all():
                    both = one > 0
                    true = math.log(math.fsum(one[both] ** order * other[both] ** (1 - order))) / (order - 1)
                    assert true <= moments.upper[i] * (1 + 1e-9) + 1e-12
                else:
                    assert moments.upper[i] == math.inf


def merged(rng, p, q):
    """A pair below (p, q): outcomes put together, which every curve can only fall by."""
    labels = rng.integers(0, 2, len(p))
    return tuple(np.array([mass[labels == k].sum() for k in (0, 1)]) for mass in (p, q))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lower_pair_that_was_given(seed):
    """Any pair between ``optimistic`` and the table is allowed: lower ends may not exceed its own curve."""
    rng = np.random.default_rng([8, seed])
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    if seed % 3 == 0:
        q[0], q[1] = 0.0, q[0] + q[1]
    low_p, low_q = merged(rng, p, q)
    both = (low_p > 0) & (low_q > 0)
    order = np.argsort(low_p[both] / low_q[both])
    y = np.log(low_p[both] / low_q[both])[order]
    if len(np.unique(y)) < len(y):
        return
    low = tuple(y.tolist()), tuple(low_p[both][order].tolist()), float(low_p[low_q == 0].sum())
    upper = dp.PrivacyLoss.from_distributions(p, q)
    found = dp.PrivacyLoss(
        upper.losses, upper.probabilities, upper.infinity, upper.minus_infinity, loss_error=1e-13, optimistic=low
    )
    for epsilon in EPSILONS:
        for steps in (1, 2):
            for neighbors in ("remove", "add"):
                bound = (found * steps).delta(epsilon, neighbors=neighbors)
                least, most = product([(low_p, low_q)] * steps), product([(p, q)] * steps)
                if neighbors == "add":
                    least, most = least[::-1], most[::-1]
                assert bound.lower <= divergence(*least, epsilon) * (1 + 1e-9) + 1e-12
                assert divergence(*most, epsilon) * (1 - 1e-9) - 1e-12 <= bound.upper


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(1, 100)), min_size=1, max_size=4, unique_by=lambda one: one[0]),
    st.sampled_from([0.0, 1e-12, 1e-7, 0.02, 1.9]),
    st.floats(-1, 1),
    st.floats(-2, 3),
)
def test_every_pair_of_a_table_is_within_its_bounds(atoms, error, share, epsilon):
    losses, masses = (np.array(values, float) for values in zip(*sorted(atoms), strict=True))
    if (np.diff(losses) <= 1e-9).any():
        return
    masses /= masses.sum()
    losses += max(math.log(float(np.sum(masses * np.exp(-losses)))), 0.0) + error + 1e-12
    found = dp.PrivacyLoss.from_pmf(losses, masses, loss_error=error)
    q = masses * np.exp(-losses - error * share)
    p, q = np.append(masses, 0.0), np.append(q, 1 - q.sum())
    for neighbors, one in (("remove", (p, q)), ("add", (q, p))):
        bound, true = found.delta(epsilon, neighbors=neighbors), divergence(*one, epsilon)
        assert bound.lower <= true * (1 + 1e-9) + 1e-13 and true * (1 - 1e-9) - 1e-13 <= bound.upper


def test_replace_with_losses_that_are_known_to_an_error():
    """Of P = (.05, .95) and Q = (.05 e^2.01, 1 - .05 e^2.01), ln((.05 e^2.01 - .2)/.05) is epsilon of (Q, P) at .2."""
    losses = -2.0, math.log(0.95 / (1 - 0.05 * math.e**2))
    found = dp.PrivacyLoss(losses, (0.05, 0.95), loss_error=0.01, relation="replace")
    assert found.epsilon(0.2, neighbors="replace").upper >= math.log((0.05 * math.exp(2.01) - 0.2) / 0.05)


def test_what_an_error_leaves_to_outcomes_that_only_q_has():
    """A loss of .1 instead of 0 leaves 1 - e^-.1 of Q; one of .1 instead of .2 no more than that."""
    rest = -math.expm1(-0.1)
    found = dp.PrivacyLoss.from_pmf([0.0], [1.0], loss_error=0.1)
    bound = found.delta(1.0, neighbors="add")
    assert bound.lower == 0 and rest <= bound.upper <= rest * (1 + 1e-12)
    known = dp.PrivacyLoss((0.2,), (1.0,), minus_infinity=rest, loss_error=0.1)
    assert known.delta(1.0, neighbors="add").lower <= rest <= known.delta(1.0, neighbors="add").upper
    # Three times some step shows it, and in two half samples both do: Q has rest^2 there, and P a quarter of that.
    for run, true in ((found * 3, 1 - math.exp(-0.3)), (dp.PoissonSampled(found, 0.5) * 2, rest**2 * (1 - math.e / 4))):
        bound = run.delta(1.0, neighbors="add")
        assert bound.lower == 0 and true * (1 - 1e-9) <= bound.upper <= true * (1 + 1e-9)
    assert dp.PrivacyLoss.from_pmf([0.0], [1.0]).delta(1.0, neighbors="add").lower == 0


def test_what_q_lacks_is_not_claimed():
    """Losses of 0 and .01 within .01 may all be 0: P = Q."""
    assert dp.PrivacyLoss((0.0, 0.01), (0.5, 0.5), loss_error=0.01).epsilon(1e-6).lower == 0


def test_a_lower_pair_is_reversed_itself():
    share = 1 / (1 + math.e)
    found = dp.PrivacyLoss((-1.0, 1.0), (share, 1 - share), optimistic=((0.0,), (1.0,), 0.0))
    for run in (found, found * 3, dp.PoissonSampled(found, 0.5)):
        for neighbors in ("add", "remove", "add_or_remove"):
            assert run.delta(0.5, neighbors=neighbors).lower == 0
    with pytest.raises(ValueError, match=r"^optimistic must have P's probabilities: Q's"):
        dp.PrivacyLoss((-1.0, 1.0), (share, 1 - share), optimistic=((-0.5,), (1.0,), 0.0))


def test_a_filter_keeps_room_for_all_that_a_table_may_be():
    """Q = (.05 e^2.01, 1 - .05 e^2.01) is allowed: .237 at epsilon 1 in the second order, without any Gaussian."""
    losses = -2.0, math.log(0.95 / (1 - 0.05 * math.e**2))
    found = dp.PrivacyLoss(losses, (0.05, 0.95), loss_error=0.01, relation="replace")
    with pytest.raises(ValueError, match=r"^others must be"):
        dp.PrivacyFilter(1.0, 0.235, family="gaussian", neighbors="replace", others=found)
    cap = dp.PrivacyFilter(1.0, 0.25, family="gaussian", neighbors="replace", others=found).cap
    moved = 0.05 * math.exp(2.01)
    pair = np.array([moved, 1 - moved]), np.array([0.05, 0.95])
    assert divergence(*pair, 1.0) > 0.235
    assert cap > 0 and beside_gaussian(math.sqrt(cap), *pair, 1.0) <= 0.25


def test_missing_mass_may_have_an_infinite_loss():
    found = dp.PrivacyLoss.from_pmf([0.0], [1 - 5e-10])
    assert found.delta(20.0, neighbors="remove").lower == 0
    assert 5e-10 * (1 - 1e-6) <= found.delta(20.0, neighbors="remove").upper < 6e-10
    assert found.epsilon(1e-10, neighbors="remove").upper == math.inf


@pytest.mark.parametrize("error", [1e-3, 0.3])
def test_upper_ends_are_attained_by_the_largest_losses(error):
    """The pair with all losses at their largest is one of those that are allowed, and dominates the others."""
    losses, masses = np.array([-0.6, 0.1, 1.4]), np.array([0.1, 0.5, 0.4])
    p = np.append(masses, 0.0)
    q = masses * np.exp(-losses - error)
    q = np.append(q, 1 - q.sum())
    found = dp.PrivacyLoss.from_pmf(losses, masses, loss_error=error)
    for epsilon in EPSILONS:
        for neighbors, (one, other) in (("remove", (p, q)), ("add", (q, p))):
            pair = product([(one, other)] * 2)
            assert (found * 2).delta(epsilon, neighbors=neighbors).upper <= divergence(*pair, epsilon) * (1 + 1e-9)


def test_exact_tables_are_as_tight_as_closed_forms():
    p = 1 / (1 + math.exp(-1.0))
    pairs = {
        "from_distributions": dp.PrivacyLoss.from_distributions([p, 1 - p], [1 - p, p]),
        "from_pmf": dp.PrivacyLoss.from_pmf([-1.0, 1.0], [1 - p, p], minus_infinity=0.0),
    }
    for found in pairs.values():
        assert found.dominating is found.dominated
        assert found.epsilon(1e-300).upper <= 1 + 1e-14
        assert found.renyi([2.0]).upper[0] <= dp.PureDP(1.0).renyi([2.0]).upper[0] * (1 + 1e-12)
        for steps in (1, 10, 1000):
            bound, true = (found * steps).epsilon(1e-6), (dp.PureDP(1.0) * steps).epsilon(1e-6)
            assert bound.width <= 1e-6 * true.upper and bound.upper <= true.upper * (1 + 1e-6)


@pytest.mark.parametrize("error", [1e-5, 1e-2])
def test_the_cost_of_an_error_is_of_its_size(error):
    rng = np.random.default_rng(11)
    masses = rng.dirichlet(np.ones(200))
    losses = np.sort(rng.normal(0.5, 1.0, 200))
    losses += max(math.log(float(np.sum(masses * np.exp(-losses)))), 0.0)
    exact = dp.PrivacyLoss.from_pmf(losses, masses)
    found = dp.PrivacyLoss.from_pmf(losses, masses, loss_error=error)
    for neighbors in ("remove", "add"):
        for epsilon in (0.0, 0.5, 1.0):
            one, other = exact.delta(epsilon, neighbors=neighbors), found.delta(epsilon, neighbors=neighbors)
            assert other.lower <= one.lower and one.upper <= other.upper
            assert other.upper <= exact.delta(epsilon - error, neighbors=neighbors).upper + 2 * error
            assert other.lower >= exact.delta(epsilon + error, neighbors=neighbors).lower * (1 - 3 * error) - 1e-9


def test_a_million_losses_make_two_pairs_of_a_million():
    size = 1_000_000
    losses = np.linspace(-4.0, 5.0, size)
    masses = np.exp(-((losses - 0.5) ** 2) / 2)
    masses /= masses.sum()
    losses += math.log(float(np.sum(masses * np.exp(-losses))))
    found = dp.PrivacyLoss.from_pmf(losses, masses, loss_error=1e-3)
    for pair in (found.dominating, found.dominated):
        assert len(pair.losses) <= size + 1 and (np.diff(pair.losses) > 0).all()
        p, q = float(pair.masses.sum()) + pair.infinity, float(pair.q_masses.sum()) + pair.hidden
        assert p == pytest.approx(1, abs=1e-9) and q == pytest.approx(1, abs=1e-9)
