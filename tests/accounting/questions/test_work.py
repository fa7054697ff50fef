"""No question hangs: work has a budget, answers do not depend on what was kept, and Ctrl-C is heard."""

import math
import sys

import numpy as np
import pytest
from effort import UNITS, bounded
from together import alone

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.engine_interface import Request
from tightdp.accounting.engines.grid import ENGINE
from tightdp.accounting.questions import question


def sampled(sigma, q, steps):
    return dp.PoissonSampled(dp.Gaussian(sigma), q) * steps


def test_a_tiny_noise_beside_a_pure_mechanism():
    alone = dp.Gaussian(1e-7).epsilon(1e-6)
    found = bounded(lambda: (dp.Gaussian(1e-7) + dp.PureDP(1.0)).epsilon(1e-6))
    assert alone.lower <= found.upper and found.lower <= alone.upper + 1 and found.width <= 1e-7 * found.upper


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1e-4, 1e-3, 1000), (2e-4, 0.01, 100), (0.02, 1e-9, 10**9)])
def test_samples_with_tiny_noise(sigma, q, steps):
    found = bounded(lambda: sampled(sigma, q, steps).epsilon(1e-6))
    # More noise per step reveals less: as often as the record is there, with probability 1e-6 or more.
    assert 0 < found.width <= 0.02 * found.upper
    k = round(2 * found.upper * sigma * sigma)
    assert 8 <= k <= 10


def test_a_grid_for_tiny_noise_alone():
    truth = (dp.Gaussian(3e-7) * 2).epsilon(1e-6)
    found = bounded(lambda: (dp.Gaussian(3e-7) * 2).epsilon(1e-6, engine="grid"))
    assert found.lower <= truth.upper and truth.lower <= found.upper <= 1.01 * truth.upper


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 100])
def test_fixed_size_with_tiny_noise(count):
    run = dp.FixedSizeSampled(dp.Gaussian(1e-3), 10, 1000) * count
    found = bounded(lambda: run.epsilon(1e-6, neighbors="replace"))
    assert found.lower > 1.9e6 and found.width <= 1e-5 * found.upper


def test_the_trade_off_of_next_to_no_privacy():
    run = dp.DiscreteGaussian(0.11, 2) * 1000 + dp.DiscreteGaussian(110.8, 1000) * 2**52
    found = bounded(lambda: run.tradeoff([0.01, 0.1, 0.5]))
    assert np.all(found.lower >= 0) and np.all(found.upper < 1e-9)


@pytest.mark.slow
def test_many_distinct_parts_that_only_moments_serve():
    """An eighth of the parts, eight times each, is nearly the same run, and is searched over more orders."""

    def run(parts, count):
        found = [dp.PoissonSampled(dp.BoundedRange(1 + i / parts), 0.01) * count for i in range(parts)]
        return sum(found[1:], found[0])

    many = bounded(lambda: run(64, 1).epsilon(1e-5, neighbors="remove"), units=6.1e9, calls=8e6)  # all of its budget
    few = run(8, 8).epsilon(1e-5, neighbors="remove")
    assert few.upper < many.upper < 1.2 * few.upper


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.98])
def test_a_mixture_that_no_grid_serves_is_bounded_by_moments(share):
    """Only moments bound shifts of 2e5 deviations. Grids take the rest of the budget, half for each direction."""
    run = dp.MixtureOfGaussians(2.83e-4, [1, 48], [share, 1 - share])
    found = bounded(lambda: run.epsilon(1e-5, neighbors="replace"), units=6.1e9)
    assert 0 < found.lower <= found.upper < math.inf


@pytest.mark.slow
def test_work_that_no_budget_is_charged_for_is_bounded():
    """The curve of a sample of fixed size asks for 10,901 deltas at once, and its budget ends before the last."""
    run = dp.FixedSizeSampled(dp.ZCDP(1.162), 10, 60000) * 100
    before = _core.work_passed_by_all(), _core.work_spent()
    assert run.epsilon(1e-8, neighbors="replace").lower > 0
    passed, spent = _core.work_passed_by_all() - before[0], _core.work_spent() - before[1]
    assert passed <= UNITS and passed - spent <= UNITS / 20


@pytest.mark.slow
def test_a_trade_off_whose_deltas_take_long():
    """A group of 300, of which about thirty are drawn: an attacker hardly errs."""
    run = (sampled(1.0, 0.01, 10)).group(300)
    assert run.tradeoff([0.1, 0.5], neighbors="remove").upper.max() < 1e-2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("least", [5e-324, 1e-160, 1e-60])
def test_the_least_discrete_noise(least):
    for one in (dp.DiscreteGaussian(least), dp.DiscreteLaplace(least, 1), dp.DiscreteLaplace(least, 3)):
        for run in (one, one * 3 + dp.Laplace(1.0), dp.PoissonSampled(one, 0.5)):
            found = bounded(lambda run=run: run.epsilon(1e-6))
            assert found.upper > 1e50
            assert run.delta(1.0).upper > 0.1


WORK_OF_EXHAUSTED = """
import sys
import tightdp as dp
from tightdp import _core
one = dp.Laplace(3.0) * 7 + dp.PoissonSampled(dp.Laplace(1.0), .01) * 1000
if sys.argv[1] == "warm":
    one.epsilon(1e-6)
elif sys.argv[1] == "other":
    (one + dp.Laplace(3.0)).epsilon(1e-6)
for budget in (10, 10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7):
    before = _core.work_spent()
    with _core.Budget(budget):
        one.epsilon(1e-6)
    print(_core.work_spent() - before)
"""


def test_processes_that_kept_different_things_spend_the_same_on_a_question_that_ran_out():
    """The budget ends in the middle of a piece of work, or at once where what it makes was kept."""
    cold, *others = [alone(WORK_OF_EXHAUSTED, which).split() for which in ("cold", "warm", "other")]
    assert others == [cold, cold]
    assert cold[0] == "11"


@pytest.mark.parametrize("budget", [1, 10**4, 10**6, 5 * 10**6, 2 * 10**7])
def test_answers_out_of_work_are_sound_and_always_the_same(budget):
    runs = [
        sum((dp.Laplace(3 + 0.1 * i) for i in range(20)), dp.Composition()),
        dp.PoissonSampled(dp.Laplace(1.0), 0.01) * 1000,
        dp.PureDP(0.3) * 4 + dp.RandomizedResponse(0.5, 3) * 7,
        sampled(1.0, 0.001, 3),
    ]
    for run in runs:
        truth = run.epsilon(1e-6)

        def ask(run=run):
            with _core.Budget(budget):
                found = run.epsilon(1e-6)
                return found.lower, found.upper, run.delta(0.5).upper

        _core.grid_keep(0)
        cold = ask()
        _core.grid_keep(_core.GRID_STORE_BYTES)
        first, warm = ask(), ask()
        assert cold == first == warm
        assert cold[0] <= truth.upper and truth.lower <= cold[1]


def test_a_budget_ends_with_its_scope():
    run = dp.PoissonSampled(dp.Laplace(1.0), 0.01) * 999
    with _core.Budget(10):
        out = run.epsilon(1e-6)
    assert run.epsilon(1e-6).width < 1e-5 < out.width


def test_what_is_kept_is_charged():
    run = dp.Laplace(2.0) * 100 + dp.PureDP(0.1) * 30
    run.epsilon(1e-6)
    before = _core.work_spent()
    run.epsilon(1e-6)
    between = _core.work_spent()
    _core.grid_keep(0)
    _core.grid_keep(_core.GRID_STORE_BYTES)
    run.epsilon(1e-6)
    assert _core.work_spent() - between == between - before > 10**5


@pytest.mark.slow
def test_a_question_that_takes_more_than_the_grid_engine_may_spend():
    """A thousand distinct distributions. The answer is what was known when the work was spent: sound, and wider than
    what was asked for."""
    run = sum((dp.Laplace(3 + i / 100) for i in range(1000)), dp.Composition())
    before = _core.work_spent()
    found = ENGINE.epsilon(run.parts, "remove", 1e-6, Request())
    assert 5.9e9 < _core.work_spent() - before < 6.1e9
    assert 1e-6 * found.upper < found.upper - found.lower < 0.1 * found.upper
    assert found.lower <= run.epsilon(1e-6, engine="renyi").upper


@pytest.mark.parametrize("units", [10**7, 10**8])
def test_both_directions_of_a_question_share_one_budget(units, monkeypatch):
    monkeypatch.setattr(question, "_UNITS", units)
    run = sum((dp.PoissonSampled(dp.Laplace(3 + i / 100), 0.1) for i in range(100)), dp.Composition())
    truth, before = run.epsilon(1e-6, engine="renyi"), _core.work_spent()
    found = run.epsilon(1e-6)
    assert 0.5 * units < _core.work_spent() - before < 1.1 * units + 1e6
    assert 0 <= found.lower <= truth.upper and truth.lower <= found.upper


LONG = {
    "calibration": "dp.calibrate(lambda s: sum((dp.PoissonSampled(dp.Laplace(s + i / 100), .01) for i in range(200)), "
    "dp.Composition()), epsilon=1.0, delta=1e-5)",
    "one call": "sum((dp.Laplace(3 + i / 100) for i in range(1000)), dp.Composition()).epsilon(1e-6)",
    "a batch on threads": "dp.epsilon_batch(np.linspace(.5, 5, 10**6), .01, 1000, 1e-5, threads=2)",
    "a batch that is declined": "dp.epsilon_batch(np.linspace(.5, .6, 10**5), 1e-4, 2, 1e-5, threads=2)",
    "rounded normals": "dp.rounded_gaussian(2.0**38, 20_000_000)",
    "a deviation for each": "dp.rounded_gaussian(np.repeat([1.0, 2.0**39], 5_000_000), 10_000_000)",
    "discrete normals": "dp.discrete_gaussian(1e6, 40_000_000)",
    "discrete Laplace": "dp.discrete_laplace(1e6, 40_000_000)",
    "noise on integers": "dp.add_noise(np.zeros(40_000_000, np.int64), 2.0**39, grid=1.0)",
    "clipping, rows": "dp.clip_and_noise(np.broadcast_to(np.ones(4000), (10**7, 4000)), 1.0, 1.0)",
    "clipping, columns": "dp.clip_and_noise(np.broadcast_to(np.ones(40_000), (10**6, 40_000)), 1.0, 1.0)",
    "allocations": "[dp.RandomAllocation(dp.Gaussian(1 + i / 1000), 10000, 3).epsilon(1e-6) for i in range(1000)]",
}


HEARD = 4e8
"""Units of work after a signal, by all threads. Signals are asked for every 50 milliseconds, an eighth of this."""
OF_KERNELS = {"discrete normals", "discrete Laplace", "noise on integers", "clipping, rows", "clipping, columns"}
KERNELS = 2e10
"""The same of kernels, which count each draw and each sum at its worst: half of the least that is begun here."""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to its own process")
@pytest.mark.parametrize("name", LONG)
def test_an_interrupt_is_heard(name):
    """The signal is sent once work is under way, and heard before much more of it is done."""
    code = f"""
import os, signal, threading
import numpy as np
import tightdp as dp
from tightdp import _core

_core.set_max_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell is born deaf to it
sent = []

def interrupt():
    before = _core.work_passed_by_all()
    while _core.work_passed_by_all() - before < 2e7:
        pause.wait(0.01)
    sent.append(_core.work_passed_by_all())
    os.kill(os.getpid(), signal.SIGINT)

pause = threading.Event()
threading.Thread(target=interrupt, daemon=True).start()
try:
    {LONG[name]}
    print("was not heard")
except KeyboardInterrupt:
    print(_core.work_passed_by_all() - sent[0])
"""
    assert int(alone(code)) < (KERNELS if name in OF_KERNELS else HEARD)


@pytest.mark.slow
def test_bounds_in_a_sample_of_the_box():
    rng = np.random.default_rng(11)
    for _ in range(12):
        run = dp.Composition()
        for _ in range(rng.integers(1, 4)):
            sigma, q, steps = 10 ** rng.uniform(-3, 6), 10 ** rng.uniform(-9, 0), int(10 ** rng.uniform(0, 9))
            run = run + sampled(float(sigma), float(q), steps)
        found = bounded(lambda run=run: run.epsilon(float(10 ** rng.uniform(-300, -1))))
        assert 0 <= found.lower <= found.upper and not math.isnan(found.upper)


def test_epsilon_passes_few_files():
    """Between ``Composition.epsilon`` and the contour engine of the core are at most ten files of Python."""
    run, files = dp.PoissonSampled(dp.Gaussian(1.01), 0.0123) * 77, set()
    (dp.PoissonSampled(dp.Gaussian(1.0), 0.0123) * 77).epsilon(1e-5)  # what is imported when first needed

    def note_file(frame, event, argument):
        if event == "call" and "tightdp" in frame.f_code.co_filename:
            files.add(frame.f_code.co_filename)
        elif event == "c_call" and argument.__name__ == "contour_epsilon":
            sys.setprofile(None)

    sys.setprofile(note_file)
    try:
        run.epsilon(1e-5)
    finally:
        reached, _ = sys.getprofile() is None, sys.setprofile(None)
    assert reached
    asked = {"composition.py", "options.py"}  # the method itself, and its keyword arguments
    assert 3 <= len(files) - len(asked) <= 10, sorted(files)
