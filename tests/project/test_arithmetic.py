"""What bounds assume of the machine is checked where it runs (docs/theory/closed-forms.md section 1)."""

import ctypes
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import mpmath as mp
import pytest

import tightdp as dp
from tightdp import _core

ROOT = Path(__file__).parents[2]
UPWARD = 0x800  # FE_UPWARD of x86
linux_x86 = pytest.mark.skipif(
    sys.platform != "linux" or __import__("platform").machine() != "x86_64",
    reason="modes as numbers of Linux on x86-64",
)
FLUSH = """
#include <stdint.h>
void flush(void) { uint32_t mode; __asm__ volatile("stmxcsr %0" : "=m"(mode)); mode |= 0x8040;
                   __asm__ volatile("ldmxcsr %0" : : "m"(mode)); }
"""


def run(code, **environment):
    """Keeps no compiled files: their constants would be read under the mode that the code sets."""
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)


def compiled(tmp_path, source, name):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / f"{name}.so"
    (tmp_path / f"{name}.c").write_text(source)
    subprocess.run(
        [compiler, "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, tmp_path / f"{name}.c"], check=True
    )
    return library


def test_here_all_is_well():
    _core.check_arithmetic()


@linux_x86
def test_another_rounding_mode_is_seen():
    code = f"import ctypes; libm = ctypes.CDLL('libm.so.6'); assert libm.fesetround({UPWARD}) == 0; import tightdp"
    done = run(code)
    assert done.returncode and re.search("ImportError: .*does not round to nearest", done.stderr)
    later = f"""
import ctypes, tightdp as dp
before = dp.Gaussian(1.0).epsilon(1e-5)
libm = ctypes.CDLL("libm.so.6")
for ask in (lambda: dp.Gaussian(1.0).epsilon(1e-5), lambda: dp.PureDP(1.0).tradeoff(0.1),
            lambda: dp.epsilon_batch(1.0, 0.1, 10, 1e-5), lambda: dp.PureDP(0.1).delta(0.0, neighbors="replace")):
    libm.fesetround({UPWARD})
    try:
        ask()
    except RuntimeError as error:
        assert "does not round to nearest" in str(error)
    else:
        raise SystemExit("answered")
    libm.fesetround(0)
assert dp.Gaussian(1.0).epsilon(1e-5) == before
"""
    done = run(later)
    assert done.returncode == 0, done.stderr


@linux_x86
def test_flushing_to_zero_is_seen(tmp_path):
    library = compiled(tmp_path, FLUSH, "flush")
    done = run(f"import ctypes; ctypes.CDLL({str(library)!r}).flush(); import tightdp")
    assert done.returncode and re.search("ImportError: .*subnormal numbers for zero", done.stderr)
    done = run(f"import ctypes, tightdp as dp; ctypes.CDLL({str(library)!r}).flush(); dp.Gaussian(1.0).epsilon(1e-5)")
    assert done.returncode and re.search("RuntimeError: .*subnormal numbers for zero", done.stderr)


@linux_x86
def test_what_is_built_and_spent_under_flushing_loses_nothing(tmp_path):
    """A delta of 1e-308 would be kept as 0, and 400 of them pass a budget of 1e-307."""
    library = compiled(tmp_path, FLUSH.replace("mode |= 0x8040", "mode ^= 0x8040"), "turn")
    done = run(f"""
import ctypes, copy, numpy as np, tightdp as dp
turn = ctypes.CDLL({str(library)!r}).flush
tiny = dp.ApproximateDP(0.01, 1e-308)
f, odometer, account = dp.PrivacyFilter(10.0, 2e-307, failure=1e-307), dp.Odometer(1e-5, [1.0]), dp.Accountant()
attempts = {{
    "spend": lambda: f.spend(tiny), "can_spend": lambda: f.can_spend(tiny), "cost": lambda: f.cost(tiny),
    "filter": lambda: dp.PrivacyFilter(10.0, 1e-307), "tiny filter": lambda: dp.PrivacyFilter(10.0, 1e-310),
    "odometer": lambda: dp.Odometer(1e-310, [1.0]), "record": lambda: odometer.spend(tiny),
    "account": lambda: dp.Accountant(), "compose": lambda: account.compose(tiny),
    "mechanism": lambda: dp.ApproximateDP(0.01, 1e-308), "Gaussian": lambda: dp.Gaussian(1.0),
    "distributions": lambda: dp.PrivacyLoss.from_distributions([1e-310, 1 - 1e-310], [0.0, 1.0]),
    "pmf": lambda: dp.PrivacyLoss.from_pmf([0.0, 1.0], [1 - 1e-310, 1e-310]),
    "table": lambda: dp.PrivacyLoss((0.0, 1.0), (1 - 1e-310, 1e-310)),
    "cdf": lambda: dp.PrivacyLoss.from_cdf(lambda y: 1.0 * (y >= 0), low=-1.0, high=1.0, points=9),
}}
for name, attempt in attempts.items():
    turn()
    try:
        attempt()
        found = "accepted"
    except Exception as error:
        found = type(error).__name__ + ": " + str(error)
    turn()
    if not (found.startswith("RuntimeError") and "subnormal numbers for zero" in found):
        raise SystemExit(name + ": " + found)
assert not f.spent and not f.history and not account.history
assert dp.PrivacyLoss.from_distributions([1e-310, 1 - 1e-310], [0.0, 1.0]).infinity == 1e-310
""")
    assert done.returncode == 0, done.stderr


@linux_x86
def test_each_thread_is_looked_at_for_itself():
    libm, found = ctypes.CDLL("libm.so.6"), []

    def other():
        libm.fesetround(UPWARD)
        try:
            _core.check_arithmetic()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(found) == 1
    assert dp.PureDP(1.0).epsilon(1e-5).upper <= 1.0


@linux_x86
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "erfc", "asinh", "cos"])
def test_a_library_that_is_off_by_three_parts_in_1e15_is_seen(tmp_path, name):
    """An interposed function, wrong at every argument."""
    source = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
double {name}(double x) {{
    static double (*right)(double);
    if (!right) right = (double (*)(double))dlsym(RTLD_NEXT, "{name}");
    const double y = right(x);
    return y * (1 + 3e-15 * (y == y));
}}
"""
    library = compiled(tmp_path, source, "off")
    done = run("from tightdp import _core", LD_PRELOAD=str(library))
    assert done.returncode and re.search(rf"ImportError: .*C library's {name}\(", done.stderr)


def test_the_table_is_right():
    """Written by mpmath; read back and found again, a part of it."""
    lines = re.findall(
        r"HARD\((\w+), \(([^)]*)\), ([^,]*), ([^,]*), ", (ROOT / "cpp/src/runtime/hard_arguments.hpp").read_text()
    )
    assert len(lines) > 200 and len({name for name, *_ in lines}) == 16
    special = {"exp2": lambda x: mp.mpf(2) ** x, "log2": lambda x: mp.log(x, 2), "pow": lambda x, y: x**y}
    with mp.workdps(50):
        for name, given, value, rest in lines[::7]:
            arguments = [mp.mpf(float.fromhex(x)) for x in given.split(",")]
            truth = special.get(name, getattr(mp, name, None))(*arguments)
            left = truth - mp.mpf(float.fromhex(value)) - mp.mpf(float.fromhex(rest))
            assert abs(left) <= abs(truth) * mp.mpf(2) ** -104 + mp.mpf(2) ** -1074
