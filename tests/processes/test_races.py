"""Threads that ask at once get what each gets alone. Long draws: `python3 dev.py hunt`."""

import random

import pytest
from fuzz import mechanism
from together import THREADS, alone, together

import tightdp as dp

pytestmark = pytest.mark.hunt


def question(draw):
    run = sum((mechanism(draw) * draw.choice([1, 2, 50]) for _ in range(draw.randint(1, 12))), dp.Composition())
    return run, 10 ** draw.uniform(-9, -2), draw.choice(["add", "remove", "replace"])


def answer(asked):
    run, delta, relation = asked
    try:
        bound = run.epsilon(delta, neighbors=relation, width=1e-2)
    except ValueError as error:
        return str(error)
    return bound.lower, bound.upper, bound.engine


@pytest.mark.parametrize("turn", range(5))
def test_answers_in_threads_are_those_of_one(turn):
    draw = random.Random(random.random())
    asked = [question(draw) for _ in range(2 * THREADS)]
    found = {}
    together(lambda k: found.update({(k, i): answer(asked[(k + i) % len(asked)]) for i in range(4)}))
    for (k, i), each in found.items():
        assert each == answer(asked[(k + i) % len(asked)]), asked[(k + i) % len(asked)]


@pytest.mark.parametrize("turn", range(5))
def test_a_shared_filter_and_account_over_any_mechanisms(turn):
    draw = random.Random(random.random())
    bought = [(dp.Gaussian(draw.uniform(20, 90)), draw.randint(1, 4)) for _ in range(8)]
    shared, account = dp.PrivacyFilter(1.0, 1e-6, order=draw.uniform(20, 40)), dp.Accountant()

    def work(k):
        mine = random.Random(k)
        for _ in range(200):
            each, count = mine.choice(bought)
            try:
                shared.spend(each, count)
            except dp.BudgetExceeded:
                continue
            account.compose(each, count)

    together(work)
    replay = dp.PrivacyFilter(1.0, 1e-6, order=shared._family.c + 1)
    for each, count in shared.history:
        replay.spend(each, count)
    assert replay.spent == shared.spent <= shared.cap
    total = sum((each * count for each, count in shared.history), dp.Composition())
    assert account.composition == total and len(account) == len(total)


def test_threads_that_fork_and_ask():
    """Every thread forks while the others ask; all children answer as the parent does."""
    script = """
import os, threading
import tightdp as dp

def ask(k):
    return sum(dp.PoissonSampled(dp.Laplace(2.0 - (10 * k + j) / 1e4), 0.1) for j in range(9)).epsilon(1e-6, width=0.1)

def work(k):
    for i in range(6):
        child = os.fork()
        if child == 0:
            os._exit(ask(k) != expected[k])
        failed.append(os.waitpid(child, 0)[1])
        ask(k + i)

expected, failed = [ask(k) for k in range(8)], []
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(failed), sum(map(bool, failed)))
"""
    assert alone(script, seconds=600).split() == ["48", "0"]
