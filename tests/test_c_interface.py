"""The C interface: the answers of Python, and a code and a message for everything else."""

import ctypes
import math
import subprocess
import sys
import threading

import pytest

import tightdp as dp

OK, INVALID, ARITHMETIC = 0, 1, 2


class Entry(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("noise_multiplier", "sampling_probability", "steps")]


class Interval(ctypes.Structure):
    _fields_ = [("lower", ctypes.c_double), ("upper", ctypes.c_double)]


@pytest.fixture(scope="module")
def library():
    found = ctypes.CDLL(dp.get_library())
    for function in (found.tightdp_epsilon, found.tightdp_delta):
        function.argtypes = [ctypes.POINTER(Entry), ctypes.c_size_t, ctypes.c_double, ctypes.POINTER(Interval)]
    found.tightdp_last_error.restype = found.tightdp_version.restype = ctypes.c_char_p
    return found


def ask(function, entries, at):
    out = Interval(-7, -7)
    code = function((Entry * len(entries))(*entries), len(entries), at, ctypes.byref(out))
    return code, out


RUNS = [
    [(1.1, 0.01, 10000)],
    [(1.0, 0.01, 1000), (2.0, 0.02, 500), (3.0, 1.0, 4)],
    [(1.0, 1.0, 1)],
    [(0.7, 1e-4, 3)],  # few steps at a small sampling probability: the grid's
]


@pytest.mark.parametrize("entries", RUNS, ids=repr)
def test_answers_are_those_of_python(library, entries):
    run = sum((dp.PoissonSampled(dp.Gaussian(s), q) * int(k) for s, q, k in entries), dp.Composition())
    for at, function, bound in [
        (1e-5, library.tightdp_epsilon, run.epsilon(1e-5)),
        (1.0, library.tightdp_delta, run.delta(1.0)),
        (-1.0, library.tightdp_delta, run.delta(-1.0)),
    ]:
        code, out = ask(function, entries, at)
        assert code == OK and library.tightdp_last_error() == b""
        assert out.lower <= bound.upper and bound.lower <= out.upper  # two intervals around one number
        assert out.upper - out.lower <= 2e-6 * max(out.upper, 1e-9) + 2 * bound.width


@pytest.mark.parametrize(
    ("entries", "at", "names"),
    [
        ([], 1e-5, b"run"),
        ([(0.0, 0.1, 1)], 1e-5, b"noise_multiplier"),
        ([(math.nan, 0.1, 1)], 1e-5, b"noise_multiplier"),
        ([(1.0, 0.0, 1)], 1e-5, b"sampling_probability"),
        ([(1.0, 1.5, 1)], 1e-5, b"sampling_probability"),
        ([(1.0, 0.1, 0.5)], 1e-5, b"steps"),
        ([(1.0, 0.1, math.inf)], 1e-5, b"steps"),
        ([(1.0, 0.1, 1)], 0.0, b"delta"),
        ([(1.0, 0.1, 1)], math.nan, b"delta"),
    ],
    ids=repr,
)
def test_bad_input_is_a_code_and_a_message(library, entries, at, names):
    code, out = ask(library.tightdp_epsilon, entries, at)
    assert code == INVALID and names in library.tightdp_last_error()
    assert (out.lower, out.upper) == (0, math.inf)


def test_bad_input_of_delta(library):
    code, out = ask(library.tightdp_delta, [(1.0, 0.1, 1)], math.inf)
    assert code == INVALID and b"epsilon" in library.tightdp_last_error()
    assert (out.lower, out.upper) == (0, 1)


def test_null_pointers(library):
    out = Interval()
    assert library.tightdp_epsilon(None, 3, 1e-5, ctypes.byref(out)) == INVALID
    assert library.tightdp_epsilon((Entry * 1)((1.0, 0.1, 1)), 1, 1e-5, None) == INVALID


def test_a_message_belongs_to_its_thread(library):
    assert ask(library.tightdp_epsilon, [], 1e-5)[0] == INVALID
    seen = []

    def elsewhere():
        seen.append(library.tightdp_last_error())
        seen.append(ask(library.tightdp_epsilon, RUNS[0], 1e-5)[0])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [b"", OK] and b"run" in library.tightdp_last_error()


def test_equal_entries_are_one(library):
    """Many entries that differ in nothing but their steps, and one that has all steps."""
    code, out = ask(library.tightdp_epsilon, [(1.0, 0.01, 1), (1.0, 1.0, 1)] * 500, 1e-5)
    whole = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 500 + dp.Gaussian(1.0) * 500).epsilon(1e-5)
    assert code == OK and out.upper - out.lower <= 2e-6 * out.upper
    assert out.lower <= whole.upper and whole.lower <= out.upper


@pytest.mark.parametrize("entries", [[(1e-6, 0.1, 1)], [(1e-4, 0.3, 10)], [(1.0, 0.01, 2.0**53 - 1)] * 2000], ids=len)
def test_hard_questions_have_answers(library, entries):
    for function, at in ((library.tightdp_epsilon, 1e-5), (library.tightdp_delta, 1.0)):
        code, out = ask(function, entries, at)
        assert code == OK and 0 <= out.lower <= out.upper


@pytest.mark.parametrize("entries", [[(1e-6, 0.1, 1)], [(1e-5, 0.3, 10), (2.0, 0.01, 100)]], ids=len)
def test_where_all_else_fails_there_is_the_run_without_sampling(library, entries):
    out = ask(library.tightdp_epsilon, entries, 1e-5)[1]
    deviation = math.sqrt(sum(steps / sigma**2 for sigma, _, steps in entries))
    run = dp.Gaussian(1 / deviation).epsilon(1e-5)
    assert run.lower * 0.99 <= out.upper <= run.upper * (1 + 1e-9)
    assert out.lower <= run.upper


def test_floating_point_exceptions_stay_inside():
    """A caller that asked for signals gets none, and still has what it asked for afterwards."""
    program = f"""
import ctypes
class Entry(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in "abc"]
library, c = ctypes.CDLL({dp.get_library()!r}), ctypes.CDLL("libm.so.6")
c.feenableexcept(13)  # invalid, divide by zero, overflow
out = (ctypes.c_double * 2)()
code = library.tightdp_delta(ctypes.byref(Entry(1.0, 0.01, 1000)), 1, ctypes.c_double(750.0), out)
print(code, c.fegetexcept())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "13"]), done.stderr


def test_the_version_is_that_of_the_package(library):
    assert library.tightdp_version().decode() == dp.__version__
