"""What a forked child may do: read every account, add to its own, and ask anything without waiting for ever."""

import os
import pathlib
import re

import pytest
from together import alone

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

IN_CHILD = """
import os, signal, sys, threading, time

def in_child(work, seconds=60):
    '''Runs work in a forked child; whether it came to its end in time.'''
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)  # ends a child that waits for ever
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0
"""

ACCOUNTS = """
import copy
import tightdp as dp

def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert "is a fork" in str(error) and str(os.getpid()) in str(error), error
        assert not isinstance(error, dp.BudgetExceeded)
    else:
        raise AssertionError("not refused")

account, odometer = dp.Accountant(), dp.Odometer(1e-6, [1.0])
filters = [dp.PrivacyFilter(1.0, 1e-6, family=family) for family in ("renyi", "zcdp", "gaussian")]
step = dp.Gaussian(100.0)
account.compose(step)
for each in (odometer, *filters):
    each.spend(step)

def work():
    refused(lambda: account.compose(step))
    assert account.history == ((step, 1),) and account.epsilon(1e-5).upper > 0
    mine = copy.copy(account)
    mine.compose(step)
    assert mine.history == ((step, 2),)
    for each in filters:
        refused(lambda: each.spend(step))
        refused(lambda: each.can_spend(step))
        assert each.history == ((step, 1),) and each.spent > 0
    refused(lambda: odometer.spend(step))
    assert odometer.epsilon == 1.0
    made_here = dp.PrivacyFilter(1.0, 1e-6)
    made_here.spend(step)
    assert in_child(lambda: refused(lambda: made_here.spend(step)))

assert in_child(work)
for each in (account, odometer, *filters):
    (each.compose if each is account else each.spend)(step)
print(len(account), *(len(each.history) for each in filters))
"""


def test_a_child_reads_the_accounts_of_its_parent_and_adds_to_its_own():
    assert alone(IN_CHILD + ACCOUNTS).split() == ["2", "2", "2", "2"]


LOCKED = """
import tightdp as dp
from tightdp.clipping_and_noise import noise
from tightdp.accounting.running_accounts.shared_state import SharedAccountState

held, ledger, source = threading.Event(), SharedAccountState(0, "advice"), dp.Philox(1)

def hold():
    with noise._lock.now:
        ledger.update_state(lambda state: held.set() or time.sleep(60))

threading.Thread(target=hold, daemon=True).start()
held.wait()

def work():
    source.integers(3)
    try:
        ledger.update_state(lambda state: state)
    except RuntimeError:
        return
    raise AssertionError

print(in_child(work))
sys.stdout.flush()
os._exit(0)
"""


def test_a_lock_that_another_thread_held_does_not_stop_the_child():
    assert alone(IN_CHILD + LOCKED).split() == ["True"]


# A thread asks about one run after another, all of laws that nothing is kept of; the child asks what it was at.
GRID = """
import tightdp as dp

asked, stop = None, False

def run(k):
    return sum(dp.PoissonSampled(dp.Laplace(2.0 - (10 * k + j) / 1e5), 0.1) for j in range(10))

def ask():
    asked.epsilon(1e-6, engine="grid", width=0.1)

def keep_asking():
    global asked
    k = 0
    while not stop:
        k += 1
        asked = run(k)
        ask()

thread = threading.Thread(target=keep_asking)
thread.start()
while asked is None:
    pass
came_back = 0
for k in range(30):
    time.sleep(0.001 * (k % 7))
    if not in_child(ask):
        break
    came_back += 1
stop = True
thread.join()
print(came_back)
"""


def test_the_grid_engine_answers_in_a_child_of_a_process_that_was_asking():
    assert alone(IN_CHILD + GRID).split() == ["30"]


POOL = """
os.environ["TIGHTDP_NUM_THREADS"] = "3"
import tightdp as dp

def draw():
    return dp.Philox(5).normal(1 << 18)

def threads():
    return len(os.listdir("/proc/self/task"))

expected = draw()

def work():
    assert threads() == 1
    assert (draw() == expected).all()
    assert threads() == 3

print(threads() >= 3, in_child(work))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux shows them")
def test_a_child_has_a_pool_of_threads_of_its_own():
    assert alone(IN_CHILD + POOL).split() == ["True", "True"]


def test_no_function_has_a_static_that_a_fork_could_find_half_made():
    """A child that is forked while another thread initialises one waits for that thread for ever: such values are
    found when the library is loaded, at the scope of a file. Windows has no fork."""
    made_late = re.compile(r"^[ \t]+static (?!constexpr|constinit|inline)[^(;]*[={].*", re.MULTILINE)
    assert made_late.search("int f() {\n    static const int n = g();\n}")
    folder = pathlib.Path(__file__).parents[2] / "cpp"
    sources = [path for part in ("src", "bindings", "capi") for path in (folder / part).rglob("*.[ch]pp")]
    sources = [path for path in sources if path.parent.name != "windows"]
    assert len(sources) > 100
    found = {str(path.relative_to(folder)): made_late.findall(path.read_text()) for path in sources}
    assert {name: lines for name, lines in found.items() if lines} == {}
