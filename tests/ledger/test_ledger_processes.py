"""Processes that share a ledger: killed at any time, all at once, forked."""

import os

import pytest
from together import alone, together

import tightdp as dp

G = dp.Gaussian(30.0)

KILLED = """
import os, random, signal, sys, time
import tightdp as dp
where, kills, released, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
draw = random.Random(seed)

def release_without_end(log):
    while True:
        ledger = dp.Ledger(where)
        for _ in range(3):
            ledger.spend(dp.Gaussian(1000.0), note=str(os.getpid()))
            os.write(log, b"x")  # what stands for the release

log = os.open(released, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
dp.Ledger(where)  # which imports what it needs
for kill in range(kills):
    before = os.fstat(log).st_size
    child = os.fork()
    if not child:
        try:
            release_without_end(log)
        except dp.BudgetExceeded:
            os._exit(3)
        finally:
            os._exit(1)
    while kill % 2 and os.fstat(log).st_size == before:  # however busy the machine is, every other one releases
        time.sleep(0.001)
    time.sleep(draw.uniform(0.0, 0.04))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
"""


@pytest.mark.parametrize("kills", [15, pytest.param(500, marks=pytest.mark.hunt)])
def test_killed_processes_have_spent_at_least_what_was_released(where, kills, tmp_path):
    ledger = dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test", family="gaussian")
    log = tmp_path / "released"
    alone(KILLED, where, kills, log, os.environ.get("TIGHTDP_HUNT", "0"), seconds=60 + kills)
    released, entries = log.stat().st_size, ledger.history
    assert kills // 2 <= released <= len(entries) <= released + kills
    ledger.spend(G)  # nobody left it locked
    lasting = dp.PrivacyFilter(1.0, 1e-6, family="gaussian")
    for entry in ledger.history:
        for mechanism, count in entry.releases:
            lasting.spend(mechanism, count)  # within the budget
    assert dp.Ledger(where).spent == pytest.approx(lasting.spent / lasting.cap, rel=1e-9)


SPEND_IN_CHILDREN = """\
        try:
            while True:
                ledger.spend(dp.Gaussian(30.0))
                os.write(1, b"x")
        except dp.BudgetExceeded:
            os._exit(0)
        finally:
            os._exit(1)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
"""End of a script whose children spend until the budget is exceeded, and write an x for each spend."""

GREEDY = (
    """
import os, sys
import tightdp as dp
where, processes = sys.argv[1], int(sys.argv[2])
ledger = dp.Ledger(where)
children = []
for _ in range(processes):
    child = os.fork()
    if not child:
"""
    + SPEND_IN_CHILDREN
)


def most(epsilon, delta, mechanism=G):
    """How many releases a budget covers, by bisection."""
    filter = dp.PrivacyFilter(epsilon, delta)
    least, above = 0, 2**20
    while above - least > 1:
        middle = (least + above) // 2
        least, above = (middle, above) if filter.can_spend(mechanism, middle) else (least, middle)
    return least


def test_eight_processes_at_once_spend_the_budget_and_no_more(where):
    ledger = dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    released = alone(GREEDY, where, 8)
    assert len(released) == len(ledger.history) == most(1.0, 1e-6)


ONCE = """
import os, sys
import tightdp as dp
ledger = dp.Ledger(sys.argv[1])
children = []
for _ in range(4):
    child = os.fork()
    if not child:
        for k in range(5):
            try:
                ledger.spend(dp.Gaussian(1000.0), release=f"{k:032x}")
            except ValueError:
                pass
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_processes_at_once_spend_an_identifier_once(where):
    ledger = dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    alone(ONCE, where)
    assert sorted(entry.release for entry in ledger.history) == [f"{k:032x}" for k in range(5)]


CROWD = """
import os, random, signal, sys, time
import tightdp as dp
where, kills, sigma, released, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
draw, log = random.Random(seed), os.open(released, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
dp.Ledger(where)  # which imports what it needs

def started():
    child = os.fork()
    if child:
        return child
    try:
        ledger = dp.Ledger(where)
        while True:
            ledger.spend(dp.Gaussian(sigma))
            os.write(log, b"x")  # what stands for the release
    except dp.BudgetExceeded:
        os._exit(0)
    finally:
        os._exit(1)

children, killed = [started() for _ in range(8)], 0
while children:
    if killed < kills:
        time.sleep(draw.uniform(0.0, 0.04))
        os.kill(draw.choice(children), signal.SIGKILL)  # which may have ended, and waits to be asked for its status
        killed += 1
        child, status = os.wait()
    else:
        child, status = os.wait()
    children.remove(child)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), status
    if os.waitstatus_to_exitcode(status) and killed < kills:
        children.append(started())
    elif not children and os.waitstatus_to_exitcode(status):
        children.append(started())  # so that somebody spends what is left
print(killed)
"""


@pytest.mark.parametrize(("kills", "sigma"), [(20, 60.0), pytest.param(500, 300.0, marks=pytest.mark.hunt)])
def test_eight_processes_that_are_killed_and_replaced_spend_the_budget_and_no_more(where, kills, sigma, tmp_path):
    dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    log, seed = tmp_path / "released", os.environ.get("TIGHTDP_HUNT", "0")
    killed = int(alone(CROWD, where, kills, sigma, log, seed, seconds=120 + 3 * kills))
    entries = len(dp.Ledger(where).history)
    assert entries == most(1.0, 1e-6, dp.Gaussian(sigma))
    assert entries - killed <= log.stat().st_size <= entries


def test_threads_at_once_spend_the_budget_and_no_more(where):
    ledger = dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    released = []

    def work(k):
        try:
            while True:
                (ledger if k % 2 else dp.Ledger(where)).spend(G)
                released.append(k)
        except dp.BudgetExceeded:
            pass

    together(work)
    assert len(released) == len(ledger.history) == most(1.0, 1e-6)


FORKED = """
import os, sys, threading, time
import tightdp as dp
where, stop = sys.argv[1], threading.Event()
ledger, spent = dp.Ledger(where), [0]

def work():
    while not stop.is_set():
        ledger.spend(dp.Gaussian(1000.0))
        spent[0] += 1
        time.sleep(0.005)  # or others would wait for long

thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    child = os.fork()
    if not child:
        ledger.spend(dp.Gaussian(1000.0))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
print(len(ledger.history) - spent[0])
"""


def test_a_child_forked_in_the_middle_of_another_threads_spend(where):
    dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    assert alone(FORKED, where).split() == ["10"]


COPIED = """
import os, sys
import tightdp as dp
from tightdp.ledger import sqlite_database
where = sys.argv[1]
ledger = dp.Ledger(where)

def in_child(work):
    child = os.fork()
    if not child:
        sqlite_database.SECONDS = 0  # which has no reason to wait: the transaction below does not end before
        try:
            work()
            os._exit(1)
        except dp.LedgerError as error:
            os._exit(7 if "others hold the lock" in str(error) else 2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

with ledger._store.open_transaction(write=True) as run:
    before = run("SELECT COUNT(*) FROM tightdp_spent")
    open(where, "rb").close()  # as another thread that copies the file does at its end
    print(in_child(lambda: dp.Ledger(where).spend(dp.Gaussian(30.0))), in_child(lambda: ledger.history))
    assert run("SELECT COUNT(*) FROM tightdp_spent") == before
ledger.spend(dp.Gaussian(30.0))
print(len(ledger.history))
"""


def test_a_process_that_reads_the_file_in_the_middle_of_its_spend_lets_nobody_else_in(tmp_path):
    """SQLite's record locks are gone then; neither a writer nor a reader, which would undo what it takes for a crash,
    may come in."""
    where = tmp_path / "test.ledger"
    dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    assert alone(COPIED, where).split() == ["7", "7", "1"]


COPYING = (
    """
import os, shutil, sys, threading
import tightdp as dp
where, processes = sys.argv[1], int(sys.argv[2])
children = []
for k in range(processes):
    child = os.fork()
    if not child:
        def copy():
            while True:
                shutil.copy(where, f"{where}.copy{k}")
        threading.Thread(target=copy, daemon=True).start()
        ledger = dp.Ledger(where)
"""
    + SPEND_IN_CHILDREN
)


def test_processes_that_copy_the_ledger_all_the_time_spend_the_budget_and_no_more(tmp_path):
    where = tmp_path / "test.ledger"
    ledger = dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    released = alone(COPYING, where, 3)
    assert len(released) == len(ledger.history) == most(1.0, 1e-6)


def test_a_server_that_crashes_has_what_it_confirmed(server):
    where = server.database()
    ledger = dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    for note in "abc":
        ledger.spend(G, note=note)
    server.stop("immediate")
    with pytest.raises(dp.LedgerError, match="nothing was spent"):
        ledger.spend(G)
    server.start()
    assert [entry.note for entry in ledger.history] == ["a", "b", "c"]


def test_users_need_no_right_to_change_anything(server):
    where = server.database()
    dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")
    psql = ("psql", "-h", server.folder, "-U", "tester", "-d", where.partition("?")[0].split("/")[-1], "-c")
    server.run(*psql, f"CREATE ROLE analyst{server.databases} LOGIN")
    grants = "SELECT, INSERT ON tightdp_spent", "SELECT ON tightdp_ledger"
    server.run(*psql, "; ".join(f"GRANT {grant} TO analyst{server.databases}" for grant in grants))
    ledger = dp.Ledger(where.replace("tester@", f"analyst{server.databases}@"))
    ledger.spend(G)
    assert len(ledger.history) == 1
