"""Accounts that are asked after every step (docs/theory/contour.md section 9)."""

import copy
import math
import random
from decimal import Decimal

import pytest
from reference import sampled_gaussian
from together import together

import tightdp as dp
from tightdp import _core

STEP = dp.PoissonSampled(dp.Gaussian(1.0), 0.01)


def meet(one, other):
    return max(one.lower, other.lower) <= min(one.upper, other.upper)


def schedules(rng):
    """Mechanisms of the k-th step."""
    decay = rng.uniform(0.2, 0.6)
    return {
        "one": lambda k: STEP,
        "decaying": lambda k: dp.PoissonSampled(dp.Gaussian(1.5 - decay * k / 400), 256 / 60000),
        "three": lambda k: dp.PoissonSampled(dp.Gaussian((1.0, 1.2, 2.0)[k % 3]), 0.01),
        "with plain": lambda k: dp.Gaussian(40.0) if k % 5 == 4 else STEP,
        "random": lambda k: dp.PoissonSampled(dp.Gaussian(1 + rng.random()), 0.01),
    }


@pytest.mark.parametrize("neighbors", ["add_or_remove", "add", "remove"])
@pytest.mark.parametrize("name", ["one", "decaying", "three", "with plain", "random"])
def test_kept_and_cold_answers_bound_the_same_truth(name, neighbors):
    mechanism = schedules(random.Random(random.randrange(2**32)))[name]
    kept, cold = dp.Accountant(neighbors=neighbors), dp.Accountant(neighbors=neighbors, keep=False)
    for k in range(400):
        step = mechanism(k)
        for account in (kept, cold):
            account.compose(step)
        if k < 100:
            continue
        found = kept.epsilon(1e-6)
        assert found.upper - found.lower <= 1e-8 * found.upper
        if k % 25 == 0:
            exact = cold.epsilon(1e-6)
            assert meet(found, exact)
            assert exact == cold.composition.epsilon(1e-6, neighbors=neighbors)
            assert found.upper - found.lower <= 1e-9 * found.upper + 4 * (exact.upper - exact.lower)


@pytest.mark.parametrize("add", [False, True])
def test_against_ball_arithmetic(add):
    pytest.importorskip("flint", reason="python-flint is not installed")
    account = dp.Accountant(neighbors="add" if add else "remove")
    for k in range(1, 1201):
        account.compose(dp.PoissonSampled(dp.Gaussian(1.5), 0.05))
        found = account.epsilon(1e-5) if k >= 200 else None
        if found is not None and k % 300 == 0:
            truth = sampled_gaussian.epsilon(1.5, 0.05, k, 1e-5, add)
            # An end that is off by one part in a hundred million fails.
            assert Decimal(found.lower) <= Decimal(truth) <= Decimal(found.upper)
            assert found.upper - found.lower <= 1e-8 * found.upper


def test_many_noise_levels_against_a_sum_over_each_of_them():
    """The kept line is made by interpolation (contour.md section 11); of unequal sampling probabilities none is."""
    rng = random.Random(random.randrange(2**32))
    for pair in ("remove", "add"):
        run, levels, q = _core.GrowingRun(pair), [], 0.01
        run.add_plain(0.05)
        for k in range(1, 181):
            sigma = 1 + rng.random()
            run.add(sigma, 0.01, 1.0)
            levels.append((sigma, q, 1.0))
            q = math.nextafter(q, 0.0)
            if k >= 60:
                found = run.epsilon(1e-6, 1e-11)
                assert found[0] == "certified"
                if k % 40 == 0:
                    exact = _core.contour_epsilon(levels, 0.05, pair, 1e-6, 1e-11)
                    assert exact[0] == "certified"
                    assert max(found[1], exact[1]) <= min(found[2], exact[2]) * (1 + 1e-12)
                    assert found[2] - found[1] <= 1e-9 * found[2] + 4 * (exact[2] - exact[1])


def test_more_steps_cost_more():
    account, before = dp.Accountant(), None
    for k in range(600):
        account.compose(dp.PoissonSampled(dp.Gaussian(2.0 - k / 1000), 0.01))
        if k >= 200:
            found = account.epsilon(1e-5)
            assert before is None or (before.lower < found.lower and before.upper < found.upper)
            before = found


def test_deltas_and_relations_may_change_between_questions():
    account = dp.Accountant()
    account.compose(STEP, 700)
    for k in range(40):
        account.compose(STEP)
        for target in (1e-5, 1e-9, 1e-100, 0.2):
            for neighbors in ("remove", "add", "add_or_remove"):
                exact = (STEP * (701 + k)).epsilon(target, neighbors=neighbors)
                assert meet(account.epsilon(target, neighbors=neighbors), exact)


def test_what_no_line_serves_is_answered_as_ever():
    account = dp.Accountant()
    for _ in range(5):
        account.compose(dp.PoissonSampled(dp.Gaussian(1.0), 1e-4))
        assert account.epsilon(1e-5) == account.composition.epsilon(1e-5)
    account.compose(STEP, 1000)
    assert meet(account.epsilon(1e-5), account.composition.epsilon(1e-5))
    account.compose(dp.Laplace(50.0))
    assert account.epsilon(1e-5) == account.composition.epsilon(1e-5)
    assert account.epsilon(0.0).lower == math.inf
    with pytest.raises(ValueError, match=r"^delta must be"):
        account.epsilon(-1e-9)
    with pytest.raises(ValueError, match=r"^neighbors must be"):
        account.epsilon(1e-5, neighbors="swap")
    big = dp.Accountant()
    big.compose(STEP, 2**53)
    before = big.epsilon(1e-5)
    with pytest.raises(ValueError, match="count"):
        big.compose(STEP, 1)
    assert big.epsilon(1e-5) == before and len(big) == 2**53


def test_the_first_answer_is_that_of_the_composition():
    account = dp.Accountant()
    for k in range(500):
        account.compose(dp.PoissonSampled(dp.Gaussian(1 + k / 500), 0.01))
    assert account.epsilon(1e-5) == account.composition.epsilon(1e-5)


def test_copies_keep_the_switch_and_nothing_else():
    with pytest.raises(TypeError, match=r"^keep must be True or False"):
        dp.Accountant(keep=1)
    for keep in (True, False):
        account = dp.Accountant(keep=keep)
        account.compose(STEP, 1000)
        first = account.epsilon(1e-5)
        account.epsilon(1e-5)
        again = copy.copy(account)
        assert again == account
        assert again.epsilon(1e-5) == first
        if not keep:
            assert again.epsilon(1e-5) == first


def test_threads_share_an_account():
    account = dp.Accountant()
    account.compose(STEP, 500)
    truth = [(STEP * (500 + k)).epsilon(1e-5) for k in (0, 400)]

    def work(_):
        for _ in range(25):
            account.compose(STEP)
            found = account.epsilon(1e-5)
            assert truth[0].lower <= found.upper <= truth[1].upper * (1 + 1e-9)

    together(work)
    assert len(account) == 900
    assert meet(account.epsilon(1e-5), truth[1])


def test_a_question_about_an_earlier_moment():
    from tightdp.accounting.running_accounts.growing_account import GrowingAccount

    growing = GrowingAccount()
    early = (None, STEP, 1000)
    late = ((None, STEP, 1000), dp.PoissonSampled(dp.Gaussian(2.0), 0.02), 50)
    assert growing.epsilon((None, STEP, 900), "add_or_remove", 1e-5) is None
    found = growing.epsilon(early, "add_or_remove", 1e-5)
    assert meet(found, (STEP * 1000).epsilon(1e-5))
    grown = growing.epsilon((early, *late[1:]), "add_or_remove", 1e-5)
    assert meet(grown, (STEP * 1000 + late[1] * late[2]).epsilon(1e-5))
    assert growing.epsilon(early, "add_or_remove", 1e-5) is None
    more = growing.epsilon((early, late[1], late[2] + 50), "add_or_remove", 1e-5)
    assert more.lower > grown.upper
    assert math.isfinite(more.upper)


@pytest.mark.parametrize("sigma, q", [(1.0, 0.01), (1.5, 256 / 60000), (0.8, 0.02)])
def test_work_of_a_loop(sigma, q):
    """Asking after each of the first thousand steps, in units of about a nanosecond."""
    account, before = dp.Accountant(), _core.work_spent()
    for _ in range(1000):
        account.compose(dp.PoissonSampled(dp.Gaussian(sigma), q))
        account.epsilon(1e-5)
    assert _core.work_spent() - before < 1.6e8


def test_work_of_a_schedule():
    """The same with a new noise multiplier every step, of which the first ones take longest."""
    account, before = dp.Accountant(), _core.work_spent()
    for k in range(300):
        account.compose(dp.PoissonSampled(dp.Gaussian(1.5 - 0.0007 * k), 256 / 60000))
        account.epsilon(1e-5)
    assert _core.work_spent() - before < 8e8


def test_what_a_record_that_is_added_cannot_lose_is_not_asked():
    """Of few steps it loses at most their number times ln(1/(1-q)), which is below what one that is removed loses."""
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 10
    spent = [_core.work_spent()]
    alone = run.epsilon(1e-5, neighbors="remove")
    spent.append(_core.work_spent())
    of_both = run.epsilon(1e-5)
    assert _core.work_spent() - spent[1] <= spent[1] - spent[0]
    assert run.epsilon(1e-5, neighbors="add").upper <= 10 * -math.log1p(-0.01) * (1 + 1e-9) < of_both.lower
    assert (of_both.lower, of_both.upper) == (alone.lower, alone.upper)
