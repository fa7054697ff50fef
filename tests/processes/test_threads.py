"""Accounts under threads, signals and interrupts: nothing is lost and nothing overspent."""

import contextlib
import copy
import itertools
import pickle
import signal
import sysconfig
import threading

import pytest
from together import THREADS, alone, together

import tightdp as dp
from tightdp.accounting.running_accounts.shared_state import SharedAccountState
from tightdp.clipping_and_noise.noise import Philox

STEP = dp.Gaussian(100.0)
OTHER = dp.Laplace(100.0)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has a global lock")
def test_an_interpreter_without_a_global_lock_stays_without():
    assert alone("import sys, tightdp; print(sys._is_gil_enabled())").split() == ["False"]


def test_an_account_loses_nothing():
    account = dp.Accountant()

    def work(k):
        for _ in range(200):
            account.compose(STEP)
            account.compose(STEP * 2 + OTHER, count=3)

    together(work)
    assert account.composition == STEP * (7 * 200 * THREADS) + OTHER * (3 * 200 * THREADS)
    assert sum(n for mechanism, n in account.history if mechanism == STEP) == 7 * 200 * THREADS
    assert len(account) == 10 * 200 * THREADS
    assert dp.Accountant.from_json(account.to_json()) == account


def test_what_is_read_was_recorded_at_one_moment():
    """The second half of each release never shows without the first, whichever way one looks."""
    account, asked = dp.Accountant(), []

    def look():
        asked.append(account.composition)
        asked.append(copy.copy(account).composition)
        asked.append(dp.Accountant.from_json(account.to_json()).composition)
        history = account.history
        asked.append(sum((each * n for each, n in history), dp.Composition()))

    def work(k):
        for _ in range(10):
            account.compose(STEP * 2 + OTHER) if k % 4 else look()

    together(work)
    for composition in asked:
        counts = dict(composition.parts)
        assert counts.get(STEP, 0) == 2 * counts.get(OTHER, 0)


@pytest.mark.parametrize(
    ("make", "mechanism"),
    [
        (lambda: dp.PrivacyFilter(1.0, 1e-6, order=20.0), dp.Gaussian(60.0)),
        (lambda: dp.PrivacyFilter(1.0, 1e-6, family="zcdp"), dp.Gaussian(60.0)),
        (lambda: dp.PrivacyFilter(1.0, 1e-6, family="gaussian"), dp.Gaussian(60.0)),
        (lambda: dp.PrivacyFilter(1.0, 1e-6, family="gaussian", others=OTHER * 500), OTHER),
        (lambda: dp.PrivacyFilter(1.0, 1e-6, order=20.0, failure=1e-7), dp.ApproximateDP(1e-6, 2e-10)),
    ],
    ids=["renyi", "zcdp", "gaussian", "others", "failure"],
)
def test_a_filter_is_spent_to_the_last_release_and_no_further(make, mechanism):
    one = make()
    most = next(n for n in itertools.count(1) if not one.can_spend(mechanism, n)) - 1
    assert 100 < most < 2000
    shared, spent = make(), [0] * THREADS

    def work(k):
        for _ in range(most):  # enough for one thread alone
            try:
                shared.spend(mechanism)
            except dp.BudgetExceeded:
                return
            spent[k] += 1

    together(work)
    one_by_one = make()
    for _ in range(sum(spent)):
        one_by_one.spend(mechanism)  # raises where too much was let through
    assert not one_by_one.can_spend(mechanism) and not shared.can_spend(mechanism)
    assert shared.spent == one_by_one.spent and shared.history == one_by_one.history
    assert sum(n for _, n in shared.history) == sum(spent)


def test_an_odometer_misses_nothing():
    shared, one = dp.Odometer(1e-6, [0.5, 1.0, 2.0]), dp.Odometer(1e-6, [0.5, 1.0, 2.0])
    steps = next(n for n in itertools.count() if one.spend(dp.Gaussian(100.0)) or one.epsilon > 0.5)
    each = steps // THREADS
    together(lambda k: [shared.spend(dp.Gaussian(100.0)) for _ in range(each)])
    for _ in range(steps - each * THREADS):
        shared.spend(dp.Gaussian(100.0))
    assert shared.epsilon == 0.5
    shared.spend(dp.Gaussian(100.0))
    assert shared.epsilon == 1.0


def test_one_thread_at_a_time_is_inside_a_step():
    """Held up within a step, a thread holds the others up: deterministic, where races are likely."""
    ledger, inside, go_on, entered = SharedAccountState(0, ""), threading.Event(), threading.Event(), threading.Event()

    def first(state):
        inside.set()
        assert go_on.wait(60)
        return state + 1

    def second(state):
        entered.set()
        return state + 10

    threads = [threading.Thread(target=ledger.update_state, args=(step,)) for step in (first, second)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    assert not entered.wait(0.3)
    go_on.set()
    for thread in threads:
        thread.join()
    assert ledger.state == 11


def test_a_step_within_a_step_loses_neither():
    """As when a signal handler or a finaliser records something."""
    ledger, calls = SharedAccountState((), ""), []

    def outer(state):
        calls.append(state)
        if len(calls) == 1:
            ledger.update_state(lambda inner: (*inner, "inner"))
        return (*state, "outer")

    ledger.update_state(outer)
    assert ledger.state == ("inner", "outer")


@pytest.mark.parametrize("error", [KeyboardInterrupt, dp.BudgetExceeded])
def test_an_interrupted_step_changes_nothing_and_holds_nobody_up(error):
    ledger = SharedAccountState(0, "")

    def step(state):
        raise error

    with pytest.raises(error):
        ledger.update_state(step)
    thread = threading.Thread(target=ledger.update_state, args=(lambda state: state + 1,))
    thread.start()
    thread.join(60)
    assert ledger.state == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt within a finaliser
def test_signals_at_any_moment_leave_nothing_out():
    """A handler spends from the same filter and then interrupts: what was let through is what was recorded."""
    shared, allowed, handled = dp.PrivacyFilter(1.0, 1e-6, family="zcdp"), 0, []

    def handler(number, frame):
        shared.spend(dp.Gaussian(1e4))
        handled.append(frame)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for turn in range(50):
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + turn))
                while len(handled) == turn:  # Python swallows an error that is raised within a finaliser
                    shared.spend(dp.Gaussian(1e6))
                    allowed += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    recorded = sum(mechanism == dp.Gaussian(1e6) for mechanism, _ in shared.history)
    assert len(shared.history) == recorded + len(handled)
    assert allowed <= recorded <= allowed + len(handled)  # one spend a signal may be recorded and not have returned


def test_a_composition_may_be_read_while_it_is_merged():
    for _ in range(10):
        run = dp.Composition()
        for k in range(30):
            run = run + dp.Gaussian(1.0 + k % 7) * (k + 1)
        seen = []
        together(lambda k, run=run, seen=seen: seen.append((run.parts, len(run), hash(run))))
        assert len(set(seen)) == 1 and seen[0][1] == sum(range(31))


def test_every_call_of_a_philox_has_a_stream_of_its_own():
    source, drawn = Philox(1), [[] for _ in range(THREADS)]
    together(lambda k: drawn[k].extend(int(source.integers(1)[0]) for _ in range(300)))
    expected = {int(Philox(1, k).integers(1)[0]) for k in range(300 * THREADS)}
    assert sorted(itertools.chain(*drawn)) == sorted(expected)


@pytest.mark.parametrize("make", [lambda: dp.PrivacyFilter(1.0, 1e-6), lambda: dp.Odometer(1e-6, [1.0])])
@pytest.mark.parametrize("double", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_budget_is_not_doubled(make, double):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        double(make())


def test_a_copied_account_is_one_of_its_own():
    account = dp.Accountant(neighbors="remove")
    for k in range(5000):
        account.compose((STEP, OTHER)[k % 2])
    for double in (copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))):
        again = double(account)
        assert again == account and again.neighbors == "remove" and again.composition == account.composition
        again.compose(STEP)
        assert len(again) == len(account) + 1 == 5001
