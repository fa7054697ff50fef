"""A given pair whose two orders are both neighbours: "replace" against all orders of its steps."""

import itertools
import math

import numpy as np
import pytest

import tightdp as dp
from tightdp.accounting.pairs.pair_orders import unite_orders_of_pair

EPSILONS = [-1.0, 0.0, 0.2, 0.8, 2.0]


def hockey(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def drawn(rng, outcomes, zeros=0):
    p, q = rng.dirichlet(np.ones(outcomes)), rng.dirichlet(np.full(outcomes, 0.5))
    if zeros:  # some mass where the other has none
        p[0] = q[-1] = 0
    return p / p.sum(), q / q.sum()


def given(p, q, relation="any"):
    return dp.PrivacyLoss.from_distributions(p, q, relation=relation)


@pytest.mark.parametrize(
    ("relation", "zeros"),
    [("any", 1), *(pytest.param(*one, marks=pytest.mark.slow) for one in (("any", 0), ("replace", 0), ("replace", 1)))],
)
def test_one_release_is_the_worse_of_both_orders(relation, zeros):
    rng = np.random.default_rng(5)
    for outcomes in (2, 7, 40):
        p, q = drawn(rng, outcomes, zeros)
        for epsilon in EPSILONS:
            truth = max(hockey(p, q, epsilon), hockey(q, p, epsilon))
            for one, other in ((p, q), (q, p)):
                found = given(one, other, relation).delta(epsilon, neighbors="replace", width=1e-7)
                assert found.lower <= truth + 1e-9 and truth <= found.upper * (1 + 1e-9) + 1e-15
                assert found.width <= 1e-5 * truth + 1e-8


def test_the_smaller_order_hides_the_larger():
    loss = dp.PrivacyLoss.from_distributions([0.9, 0.1], [0.5, 0.5], relation="any")
    truth = math.log((0.5 - 1e-6) / 0.1)
    for run in (loss, loss * 2, loss.group(2), dp.RepeatAndSelect(loss, 3.0), loss + dp.Gaussian(100.0)):
        assert run.epsilon(1e-6, neighbors="replace").upper >= truth * (1 - 1e-14)
    assert loss.epsilon(1e-6, neighbors="replace").lower == pytest.approx(truth, rel=1e-9)
    twice = loss.renyi([2.0], neighbors="replace")
    assert twice.upper[0] >= math.log(0.9**2 / 0.5 + 0.1**2 / 0.5)


def test_each_step_may_have_either_order():
    rng = np.random.default_rng(6)
    for outcomes in (2, 3, 5):
        (p, q), (r, s) = drawn(rng, outcomes), drawn(rng, outcomes, 1)
        first, second = given(p, q), given(r, s)
        for run, steps in (
            (first * 2, [(p, q), (p, q)]),
            (first + second, [(p, q), (r, s)]),
            (first * 2 + second, [(p, q), (p, q), (r, s)]),
        ):
            for epsilon in EPSILONS:
                found = run.delta(epsilon, neighbors="replace")
                for turned in itertools.product((False, True), repeat=len(steps)):
                    ordered = [step[::-1] if turn else step for step, turn in zip(steps, turned, strict=True)]
                    ahead, behind = np.ones(1), np.ones(1)
                    for one, other in ordered:
                        ahead, behind = np.outer(ahead, one).ravel(), np.outer(behind, other).ravel()
                    truth = hockey(ahead, behind, epsilon)
                    assert found.upper >= truth * (1 - 1e-9) - 1e-15
                    if len(set(turned)) == 1:
                        assert found.lower <= found.upper


def test_links_of_a_group_may_have_either_order():
    """Three laws of which any two that are neighbours have the pair in one order or the other."""
    rng = np.random.default_rng(7)
    for _ in range(3):
        p, q = drawn(rng, 3)
        run = given(p, q).group(2)
        for epsilon in (0.0, 0.8):
            # From the law p to q and on to p with its outcomes permuted: a pair like that of (q, p).
            for turned in itertools.permutations(range(3)):
                back = p[list(turned)]
                pairs = [hockey(q, back, e) - max(hockey(p, q, e), hockey(q, p, e)) for e in np.linspace(-4, 4, 81)]
                backward = [hockey(back, q, e) - max(hockey(p, q, e), hockey(q, p, e)) for e in np.linspace(-4, 4, 81)]
                if max(pairs) <= 0 and max(backward) <= 0:
                    assert run.delta(epsilon, neighbors="replace").upper >= hockey(p, back, epsilon) * (1 - 1e-9)


def test_what_is_its_own_reverse_stays_as_it_is():
    mirrored = dp.PrivacyLoss.from_distributions([0.75, 0.25], [0.25, 0.75], relation="any", mirrored=True)
    for run in (mirrored, mirrored * 5):
        for epsilon in EPSILONS:
            assert run.delta(epsilon, neighbors="replace") == run.delta(epsilon)


@pytest.mark.slow
def test_tables_of_many_losses():
    """A normal loss that is its own reverse, but for roundings and what lies far out, and one that is not."""
    mu = 1.0
    y = np.linspace(-8 + mu**2 / 2, 8 + mu**2 / 2, 40_001)
    masses = np.exp(-((y - mu**2 / 2) ** 2) / (2 * mu**2))
    masses /= masses.sum()
    one = dp.PrivacyLoss.from_pmf(y, masses, relation="any", loss_error=1e-3)
    joined = unite_orders_of_pair(one.dominating)
    assert joined.infinity == joined.hidden and len(joined.losses) <= 4001
    assert joined.losses == pytest.approx(-joined.losses[::-1], abs=1e-12)
    for run in (1, 10):
        own, both = ((one * run).delta(1.0, neighbors=relation) for relation in ("add_or_remove", "replace"))
        assert both.upper >= own.lower and both.upper == pytest.approx(own.upper, rel=2e-2)
    far = dp.PrivacyLoss.from_pmf([0.0, 400.0], [1 - 1e-9, 1e-9], relation="replace")
    assert far.delta(500.0, neighbors="replace").upper <= 1e-8
    tiny = dp.PrivacyLoss.from_pmf([-1e-9, 0.0, 1e-9], [0.2, 0.2, 0.6], relation="any")
    assert 0 < tiny.delta(0.0, neighbors="replace").upper <= 1e-8
