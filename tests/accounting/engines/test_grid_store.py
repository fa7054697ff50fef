"""What the grid engine keeps between questions changes no bit of an answer (docs/theory/grid.md, section 8)."""

import gc
import math
import threading
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.engine_interface import Request
from tightdp.accounting.engines.grid import ENGINE
from tightdp.composition import FEW_PARTS

WIDTH = 1e-3


@pytest.fixture(autouse=True)
def fresh():
    forget()
    yield
    forget()


def forget():
    _core.grid_keep(0)
    _core.grid_keep(_core.GRID_STORE_BYTES)


def ask(run, delta=1e-6, direction="remove", width=WIDTH):
    return ENGINE.epsilon(run._to_composition().parts_in_composition_order, direction, delta, Request(width=width))


def cold(question):
    """The answer where nothing is known and nothing is kept."""
    _core.grid_keep(0)
    try:
        return question()
    finally:
        _core.grid_keep(_core.GRID_STORE_BYTES)


SCALES = st.floats(0.5, 20)
LAWS = st.one_of(
    st.builds(dp.Laplace, SCALES),
    st.builds(dp.PoissonSampled, st.builds(dp.Laplace, SCALES), st.sampled_from([0.01, 0.2])),
    st.builds(dp.PoissonSampled, st.builds(dp.Gaussian, st.floats(0.7, 5)), st.sampled_from([0.01, 0.2])),
    st.builds(dp.RandomizedResponse, st.floats(0.3, 0.95), st.integers(2, 4)),
    st.builds(dp.ApproximateDP, st.floats(0.01, 0.5), st.sampled_from([1e-9, 1e-4])),
)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_answers_along_a_run_are_those_of_a_first_question(data):
    pool = data.draw(st.lists(LAWS, min_size=1, max_size=2 * FEW_PARTS, unique=True), label="laws")
    new = st.lists(st.tuples(st.sampled_from(pool), st.sampled_from([1, 1, 1, 2, 40])), min_size=1, max_size=5)
    run = sum(pool) if data.draw(st.booleans(), label="all at first") else pool[0] * 1
    delta = data.draw(st.sampled_from([1e-3, 1e-6, 1e-12]), label="delta")
    forget()
    for law, count in data.draw(new, label="steps"):
        run = run + law * count
        for direction in ("remove", "add"):
            warm = ask(run, delta, direction)
            assert warm == ask(run, delta, direction)
            assert warm == cold(partial(ask, run, delta, direction))
            ask(run, delta, direction)  # what cold() dropped is there again


def distinct(n):
    return [dp.PoissonSampled(dp.Laplace(2.0 - k / n), 0.1) for k in range(n)]


@pytest.mark.parametrize("question", ["epsilon", "delta"])
def test_a_long_run_of_distinct_laws(question):
    """Long enough for plans to stay the same for a while and then to change."""
    laws = distinct(3 * FEW_PARTS)
    run, found = dp.Composition(), []
    for law in laws:
        run = run + law
        found.append(run.epsilon(1e-6, engine="grid", width=WIDTH))
        if question == "delta":
            found[-1] = run.delta(0.3, engine="grid", width=WIDTH)
    run = dp.Composition()
    for law, warm in zip(laws, found, strict=True):
        run = run + law
        again = run.epsilon if question == "epsilon" else run.delta
        at = 1e-6 if question == "epsilon" else 0.3
        first = cold(partial(again, at, engine="grid", width=WIDTH))
        assert (warm.lower, warm.upper, warm.error_budget) == (first.lower, first.upper, first.error_budget)


def test_a_new_step_finds_what_was_kept():
    for laws in (distinct(2 * FEW_PARTS), distinct(2) * FEW_PARTS):
        forget()
        run = sum(laws[:-1])
        ask(run)
        before = _core.grid_found()
        ask(run + laws[-1])
        assert _core.grid_found() > before
        before = _core.grid_found()
        cold(partial(ask, run))
        assert _core.grid_found() == before


def test_an_accountant_profits_without_being_told():
    account = dp.Accountant()
    answers = []
    for law in distinct(2 * FEW_PARTS):
        account.compose(law)
        answers.append(account.epsilon(1e-6, engine="grid", width=WIDTH))
    assert _core.grid_found() > 0
    first = cold(partial(account.epsilon, 1e-6, engine="grid", width=WIDTH))
    assert (first.lower, first.upper) == (answers[-1].lower, answers[-1].upper)


def test_order_changes_no_more_than_roundings():
    laws = distinct(2 * FEW_PARTS)
    forth, back = ask(sum(laws)), ask(sum(reversed(laws)))
    assert sum(laws) == sum(reversed(laws))
    for a, b in ((forth.lower, back.lower), (forth.upper, back.upper)):
        assert math.isclose(a, b, rel_tol=1e-9)
    few = laws[:FEW_PARTS]
    assert ask(sum(few)) == ask(sum(reversed(few)))


@pytest.mark.slow
def test_a_law_at_the_address_of_one_that_is_gone_is_another_law():
    """Laws of the same shape are made and dropped by turns, so that memory is used again."""
    expected = {}
    for turn in range(3):
        for mu in (0.11, 0.12, 0.13, 0.14):
            laws = [_core.GridLaw.laplace(mu * (1 + j / 10)).poisson(0.1, False) for j in range(5)]
            found = _core.grid_epsilon([(law, 5.0) for law in laws], 1e-6, WIDTH, 1 << 20)
            del laws
            gc.collect()
            if turn == 0:
                expected[mu] = found
            assert found == expected[mu]
    assert len({found[0] for found in expected.values()}) == 4
    for mu, found in expected.items():
        laws = [_core.GridLaw.laplace(mu * (1 + j / 10)).poisson(0.1, False) for j in range(5)]
        parts = [(law, 5.0) for law in laws]
        assert found == cold(partial(_core.grid_epsilon, parts, 1e-6, WIDTH, 1 << 20))


def same_as_cold(questions):
    """All of them in a row, and then each by itself."""
    warm = [question() for question in questions]
    assert warm == [cold(question) for question in questions]


def test_laws_that_change_counts_are_another_product():
    """So much alike that their plans are the same."""
    alike = [dp.PoissonSampled(dp.Laplace(2.0 + k / 1000), 0.1) for k in range(FEW_PARTS + 2)]
    counts = (3, 5), (5, 3), (3, 3), (4, 5), (5, 4)
    same_as_cold([partial(ask, alike[0] * i + alike[1] * j + sum(alike[2:])) for i, j in counts])
    same_as_cold([partial(ask, sum(alike[2:]) + alike[0] * i + alike[1] * j) for i, j in counts])


@pytest.mark.parametrize("question", [ENGINE.epsilon, ENGINE.delta])
def test_levels_that_are_kept(question):
    """So many steps that they are composed in levels: consecutive questions share all but the last, and then do not."""
    law, at = dp.Laplace(3.0), 1e-6 if question == ENGINE.epsilon else 60.0
    few = [(law * k).parts for k in range(30000, 30012)]
    far = [(law * k).parts for k in range(30000, 40000, 800)]
    near = [at * (1 + k / 100) for k in range(10)]
    same_as_cold([partial(question, parts, "remove", at, Request(width=WIDTH)) for parts in few + far])
    same_as_cold([partial(question, few[0], "remove", x, Request(width=WIDTH)) for x in near])


def test_no_more_is_kept_than_stated():
    run = dp.Composition()
    for law in distinct(2 * FEW_PARTS):
        run = run + law
        run.epsilon(1e-6, engine="grid", width=1e-6)
        assert 0 < _core.grid_kept() <= _core.GRID_STORE_BYTES
    least = 1 << 16
    _core.grid_keep(least)
    assert _core.grid_kept() <= least
    run.epsilon(1e-6, engine="grid", width=1e-6)
    assert _core.grid_kept() <= least
    _core.grid_keep(0)
    assert _core.grid_kept() == 0


def test_threads_share_what_is_kept():
    laws = distinct(2 * FEW_PARTS)
    runs = [sum(laws[: k + 1]) for k in range(FEW_PARTS, len(laws))] + [laws[0] * k for k in range(1, 12)]
    expected = [cold(partial(ask, run)) for run in runs]
    forget()
    found, start = {}, threading.Barrier(4)

    def work(number):
        start.wait()
        order = runs if number % 2 == 0 else runs[::-1]
        found[number] = [ask(run) for run in order]
        if number == 3:
            forget()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, answers in found.items():
        assert answers == (expected if number % 2 == 0 else expected[::-1])
