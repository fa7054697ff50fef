"""The account that Opacus asks: its answers, and what may be done to its history."""

import copy
import json
import math
import os
import pickle

import pytest
from together import together

import tightdp as dp
from tightdp import _core

pytest.importorskip("torch", reason="needs torch and Opacus")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

from opacus.accountants import PRVAccountant, RDPAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier

from tightdp.accounting.engines import contour
from tightdp.adapters.opacus import Accountant

MNIST = 256 / 60000


def account(*history):
    made = Accountant()
    made.history = list(history)
    return made


def run_of(history):
    return sum((dp.PoissonSampled(dp.Gaussian(s), q) * n for s, q, n in history), dp.Composition())


def test_registered_and_named():
    assert type(create_accountant("tightdp")) is Accountant and Accountant.mechanism() == "tightdp"


@pytest.mark.parametrize(
    "history",
    [
        [(1.0, 0.01, 1000)],
        [(1.1, MNIST, 14000)],
        [(1.5, 0.04, 2250)],
        [(2.0, 0.02, 500), (1.0, 0.01, 500), (2.0, 0.02, 500)],
        [(50.0, 1.0, 10)],
    ],
)
def test_the_upper_bound_of_the_steps(history):
    assert account(*history).get_epsilon(1e-5) == run_of(history).epsilon(1e-5).upper


def test_between_the_truth_and_the_bounds_of_opacus():
    """Opacus' PRV bound is at most 2.5 times its eps_error above the truth, and its Renyi bound further."""
    for history in [(1.5, 0.04, 2250)], [(1.0, 0.01, 1000)]:
        ours, prv, renyi = account(*history), PRVAccountant(), RDPAccountant()
        prv.history = renyi.history = history
        found = ours.get_epsilon(1e-5)
        assert prv.get_epsilon(1e-5) - 0.025 < found < prv.get_epsilon(1e-5) < renyi.get_epsilon(1e-5)
        assert ours.composition.epsilon(1e-5).lower <= found


def test_steps_are_counted_as_opacus_counts_them():
    ours, prv = Accountant(), PRVAccountant()
    for sigma, q in [(1.0, 0.1)] * 3 + [(2.0, 0.1)] * 2 + [(1.0, 0.1)]:
        ours.step(noise_multiplier=sigma, sample_rate=q)
        prv.step(noise_multiplier=sigma, sample_rate=q)
    assert ours.history == prv.history == [(1.0, 0.1, 3), (2.0, 0.1, 2), (1.0, 0.1, 1)]
    assert len(ours) == 6


def test_asking_while_stepping_is_as_asking_once():
    growing, schedule = Accountant(), [(1.0 + 0.1 * (k // 2), 0.01) for k in range(10)]
    for k, (sigma, q) in enumerate(schedule):
        growing.step(noise_multiplier=sigma, sample_rate=q)
        fresh = account(*((s, r, 1) for s, r in schedule[: k + 1]))
        assert growing.get_epsilon(1e-5) == pytest.approx(fresh.get_epsilon(1e-5), rel=1e-6)
    assert growing.composition == run_of(growing.history)


def test_every_question_reads_the_history_anew():
    ours = account((1.0, 0.1, 3))
    before = ours.get_epsilon(1e-5)
    for edit in (
        lambda h: h.append((2.0, 0.1, 1)),
        lambda h: h.__setitem__(0, (1.0, 0.1, 2)),
        lambda h: h.__setitem__(0, [1.0, 0.1, 2]),
        lambda h: h[0].__setitem__(2, 7),
        lambda h: h.pop(),
        lambda h: h.reverse(),
        lambda h: h.clear(),
    ):
        edit(ours.history)
        assert ours.composition == run_of(ours.history)
    assert ours.get_epsilon(1e-5) == 0.0 < before


def test_total():
    """Whatever the question, a number in [0, inf], or an error before any work."""
    assert Accountant().get_epsilon(1e-5) == Accountant().get_epsilon(0.0) == 0.0
    assert account((1.0, 0.01, 1)).get_epsilon(0.5) == 0.0  # theirs is negative: issue 585
    assert (
        account((0.0, 0.01, 1)).get_epsilon(0.5) == account((1.0, 1.0, 1), (0.0, 0.5, 1)).get_epsilon(0.1) == math.inf
    )
    assert account((0.0, 0.0, 9), (0.0, 0.5, 0)).get_epsilon(1e-5) == 0.0  # nobody takes part
    assert account((1.0, 0.1, 1)).get_epsilon(0.0) == math.inf
    assert account((0.0, 0.1, 1)).get_epsilon(1.0) == 0.0
    assert account((1e-8, 1.0, 1)).get_epsilon(1e-5) == pytest.approx(0.5e16, rel=1e-6)
    assert account((1.0, 0.01, 10**6)).get_epsilon(1e-5) == run_of([(1.0, 0.01, 10**6)]).epsilon(1e-5).upper
    assert account((5.0, 1.0, 100)).get_epsilon(1e-5) == dp.Gaussian(0.5).epsilon(1e-5).upper
    assert account((1.0, 0.2, 500)).get_epsilon(1e-5) > 38  # "discrete mean differs": issues 601 and 604
    assert account((1.0, 0.01, 1000)).get_epsilon(1e-5, eps_error=0.1, alphas=[2.0], other=None) < 1.8283


@pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan, "1e-5", None])
def test_bad_deltas(delta):
    with pytest.raises((ValueError, TypeError), match="delta"):
        account((1.0, 0.1, 1)).get_epsilon(delta)


@pytest.mark.parametrize(
    "step, named",
    [((-1.0, 0.1), "noise_multiplier"), ((math.nan, 0.1), "noise_multiplier"), ((1.0, 1.5), "sample_rate"),
     ((1.0, -0.1), "sample_rate"), ((1.0, math.nan), "sample_rate")],
)  # fmt: skip
def test_bad_steps_record_nothing(step, named):
    ours = account((1.0, 0.1, 1))
    with pytest.raises(ValueError, match=named):
        ours.step(noise_multiplier=step[0], sample_rate=step[1])
    assert ours.history == [(1.0, 0.1, 1)]
    ours.history.append((*step, 1))
    with pytest.raises(ValueError, match=named):
        ours.get_epsilon(1e-5)


@pytest.mark.parametrize("entry", [(1.0, 0.1), 3, "abc", (1.0, 0.1, -1), (1.0, 0.1, 1.5), None])
def test_malformed_histories(entry):
    with pytest.raises((ValueError, TypeError), match=r"history|steps"):
        account((1.0, 0.1, 1), entry).get_epsilon(1e-5)


def test_states():
    ours, other = account((1.0, 0.1, 3), (2.0, 0.1, 1)), account()
    state = json.loads(json.dumps(ours.state_dict()))  # tuples become lists on the way
    other.load_state_dict(state)
    assert other.state_dict() == ours.state_dict() and other.get_epsilon(1e-5) == ours.get_epsilon(1e-5)
    other.step(noise_multiplier=2.0, sample_rate=0.1)
    assert state["history"][-1] == [2.0, 0.1, 1], "the state that was loaded is not the account's own"
    for copied in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), copy.copy(ours)):
        copied.step(noise_multiplier=2.0, sample_rate=0.1)
        assert len(copied) == 5 and len(ours) == 4


@pytest.mark.parametrize(
    "state",
    [None, {}, {"history": []}, {"mechanism": "tightdp"}, {"mechanism": "prv", "history": []},
     {"mechanism": "tightdp", "history": [(1.0, 0.1)]}, {"mechanism": "tightdp", "history": [(-1.0, 0.1, 1)]}],
)  # fmt: skip
def test_states_of_others_change_nothing(state):
    ours = account((1.0, 0.1, 3))
    with pytest.raises(ValueError):
        ours.load_state_dict(state)
    assert ours.history == [(1.0, 0.1, 3)]


@pytest.mark.parametrize(
    "history, excess",
    [
        ([(0.1, 0.01, 1000)], 1e-4),
        ([(0.2, 0.01, 20), (0.1, 0.01, 10)], 1e-4),
        ([(0.05, 0.2, 3)], 1e-4),
        ([(0.24, 0.2, 10**6)], 0.0),
        ([(0.05, 0.01, 1)], 0.0),
        ([(0.4, 0.01, 20), (0.3, 1.0, 2)], 1e-4),
        ([(0.001, 0.01, 100)], 0.01),
        ([(0.01, 0.01, 10**6)], 0.01),
    ],
)
def test_little_noise(history, excess):
    """Above the lower end of the slow bound, and hardly above the upper one; half of delta is no other case."""
    ours = account(*history)
    for delta in (1e-5, 0.5):
        slow = ours.composition.epsilon(delta)
        assert slow.lower <= ours.get_epsilon(delta) <= slow.upper * (1 + excess)


@pytest.mark.parametrize("sigma", [0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4])
def test_work_at_little_noise(sigma, monkeypatch):
    """Of questions that are asked for the first time, in products of nodes and abscissae: a billion take 0.3 s."""
    work, plain = [], contour.run_contour_engine_with_gaussian

    def counted(*question):
        found, products = plain(*question)
        work.append(products)
        return found, products

    monkeypatch.setattr(contour, "run_contour_engine_with_gaussian", counted)
    for q, steps in [(1e-4, 10**5), (1e-3, 10), (1e-3, 1000), (0.01, 10**6), (0.1, 30), (0.5, 10)]:
        for delta in (1e-5, 0.5):
            work.clear()
            assert 0 <= account((sigma, q, steps)).get_epsilon(delta) < math.inf
            assert sum(work) < 2.5e7 and len(work) <= 12, (q, steps, delta, work)


def test_little_noise_in_a_loop():
    """A run that is asked after every step keeps what it computed, as any account does."""
    ours = account()
    for k in range(60):
        ours.step(noise_multiplier=0.35, sample_rate=0.1)
        before = _core.work_spent()
        found = ours.get_epsilon(1e-5)
        spent = _core.work_spent() - before
        if k % 10 == 9:
            whole = ours.composition.epsilon(1e-5)
            assert whole.lower <= found <= whole.upper * (1 + 1e-4)
    assert spent < 1e6


@pytest.mark.parametrize("q, steps", [(0.5, 10), (0.01, 10**6), (1.0, 5)])
def test_little_noise_where_a_record_is_added(q, steps):
    """The quick bound is of "remove" alone: it counts only beyond what "add" can cost, steps ln(1/(1-q))."""
    ours = account((0.2, q, steps))
    for delta in (1e-12, 1e-3, 0.9, 1 - 1e-9):
        assert ours.get_epsilon(delta) >= ours.composition.epsilon(delta, neighbors="add").lower


@pytest.mark.parametrize(
    "epsilon, q, steps", [(2.0, 0.01, 1000), (8.0, 0.04, 2250), (0.1, 1.0, 60), (150.0, 0.2, 10), (1000.0, 0.01, 10)]
)
def test_noise_for_a_target(epsilon, q, steps):
    found = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=1e-5, sample_rate=q, steps=steps, accountant="tightdp",
        epsilon_tolerance=0.001,
    )  # fmt: skip
    assert epsilon - 0.001 <= account((found, q, steps)).get_epsilon(1e-5) <= epsilon
    assert found >= dp.noise_multiplier(epsilon, 1e-5, q, steps)


@pytest.mark.parametrize(
    "settings", [{"sample_rate": 1e-6, "steps": 5}, {"target_delta": 1.0}, {"steps": 0}, {"sample_rate": 0.0}]
)
def test_a_search_that_any_noise_ends_is_told_so(settings):
    """Opacus' search halves the noise multiplier until epsilon is near its target, which 0 never is."""
    settings = {"target_epsilon": 2.0, "target_delta": 1e-5, "sample_rate": 0.01, "steps": 10, **settings}
    with pytest.raises(ValueError, match=r"noise_multiplier must be at least 1e-09"):
        get_noise_multiplier(**settings, accountant="tightdp")


@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 1.0])
def test_a_record_that_is_hardly_ever_in_a_batch(sigma):
    """It is in one with probability at most q T: at that delta epsilon is 0, and at a lower one it is not."""
    assert account((sigma, 1e-6, 3), (2 * sigma, 1e-6, 2)).get_epsilon(5.01e-6) == 0.0
    assert account((1e-3, 1e-6, 5)).get_epsilon(4.9e-6) > 0.0


def test_threads_lose_no_step():
    ours = Accountant()
    together(lambda _: [ours.step(noise_multiplier=1.0, sample_rate=0.1) for _ in range(125)])
    assert ours.history == [(1.0, 0.1, 2000)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_steps_on():
    """As a fork of Opacus' own accountants does."""
    ours = account((1.0, 0.1, 1))
    child = os.fork()
    if child == 0:
        ours.step(noise_multiplier=1.0, sample_rate=0.1)
        os._exit(0 if ours.get_epsilon(1e-5) > 0 and len(ours) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and len(ours) == 1


def test_privacy_spent_as_of_the_renyi_accountant():
    ours, theirs = Accountant(), RDPAccountant()
    assert ours.get_privacy_spent(delta=1e-5) == theirs.get_privacy_spent(delta=1e-5) == (0, 0)
    ours.history = theirs.history = [(1.0, 0.01, 1000)]
    for alphas in (None, [2, 4, 8, 16]):
        epsilon, order = ours.get_privacy_spent(delta=1e-5, alphas=alphas)
        above, best = theirs.get_privacy_spent(delta=1e-5, alphas=alphas)
        assert epsilon == ours.get_epsilon(1e-5) <= above and order == best
    assert ours.get_privacy_spent(delta=1e-5, alphas=[1, 64])[1] == 64
    with pytest.raises(ValueError, match="alphas"):
        ours.get_privacy_spent(delta=1e-5, alphas=[1])
