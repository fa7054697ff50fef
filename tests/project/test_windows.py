"""What Windows lacks is not needed, and what was built for it there answers as here.

    cmake --preset windows && cmake --build --preset windows

builds the library with MinGW; the tests of the build need it, and Wine.
"""

import os
import re
import shutil
import subprocess

import pages
import pytest
from together import alone

BUILT = pages.ROOT / "build" / "windows"

WITHOUT_POSIX = """
import os, sys
for name in "fork forkpty register_at_fork sched_getaffinity getuid geteuid getpgid killpg setsid fchmod chown".split():
    if hasattr(os, name):
        delattr(os, name)
for name in "fcntl grp pty pwd resource syslog termios tty".split():
    sys.modules[name] = None  # import raises
"""


def test_nothing_needs_posix():
    """Every module but those for other packages, which may need what is missing here, a release, and a ledger."""
    alone(
        WITHOUT_POSIX
        + """
import importlib, pkgutil, tempfile
import numpy as np
import tightdp as dp

others = "tightdp.adapters", "tightdp.torch", "tightdp.ledger.postgresql_database", "tightdp.plots", "tightdp._cuda"
for _, name, _ in pkgutil.walk_packages(dp.__path__, "tightdp.", onerror=print):
    if not name.startswith(others) and not name.endswith("__main__"):
        importlib.import_module(name)
assert (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000).epsilon(1e-5).upper < 2.2
assert dp.clip_and_noise(np.ones((8, 5)), 1.0, 1.0).shape == (5,)
path = os.path.join(tempfile.mkdtemp(), "a.ledger")
dp.Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="a").spend(dp.Gaussian(10.0))
assert not dp.Ledger(path).can_spend(dp.Gaussian(1.0))
"""
    )


def test_a_checkpoint_is_locked_as_windows_locks():
    """Windows has msvcrt.locking, which locks bytes of an open file, and no way to open a folder."""
    pytest.importorskip("torch")
    alone("""
import os, sys, tempfile, types
import torch, tightdp.torch
for name in [n for n in sys.modules if n.startswith(("tightdp.torch.run.checkpoint", "tightdp._support.file_lock"))]:
    del sys.modules[name]
held, opened = [], os.open

def locking(file, mode, count):
    assert (mode, count) == (2, 1)
    if held:
        raise PermissionError(13, "held")
    held.append(file)

def open_file(path, flags, *more):
    assert not os.path.isdir(path), "a folder cannot be opened"
    return opened(path, flags, *more)

sys.modules["fcntl"] = None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.platform, os.open = "win32", open_file
from tightdp.torch.run.checkpoint import Checkpoint
folder = tempfile.mkdtemp()
first = Checkpoint(folder)
assert first.read({}) is None
first.begin_checkpoint({"a": 1}, {})
first.record_checkpoint_charges(types.SimpleNamespace(), "run")
first.charge(3)
assert os.path.getsize(os.path.join(folder, "charged")) == 3 and len(held) == 1
del first
try:
    Checkpoint(folder)
except ValueError as error:
    assert "in use" in str(error)
else:
    raise AssertionError("the folder is held")
""")


def wine():
    """The command that runs a program of the build; skips where there is none, or none of these sources."""
    compiler, found = shutil.which("x86_64-w64-mingw32-gcc-posix"), shutil.which("wine64") or shutil.which("wine")
    if not (compiler and found):
        pytest.skip("needs MinGW and Wine")
    library = BUILT / "tightdp_c.dll"
    newest = max(path.stat().st_mtime for part in ("src", "include", "capi")
                 for path in (pages.ROOT / "cpp" / part).rglob("*.?pp"))  # fmt: skip
    if not library.is_file() or library.stat().st_mtime < newest:
        pytest.skip("needs cmake --preset windows && cmake --build --preset windows")
    return compiler, found, os.environ | {"WINEDEBUG": "-all"}


def test_the_c_tutorial_prints_the_same_under_wine(tmp_path):
    compiler, run, environment = wine()
    page = pages.DOCS / "tutorials" / "c.md"
    (source,) = [block for block in pages.blocks(page) if block.kind == "c"]
    (tmp_path / "main.c").write_text(source.body)
    shutil.copy(BUILT / "tightdp_c.dll", tmp_path)
    command = [compiler, "main.c", f"-I{pages.ROOT / 'cpp' / 'include'}", "tightdp_c.dll", "-o", "privacy.exe"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = tmp_path / "printed"  # a file: Wine's servers, which outlive the program, would hold a pipe open
    with printed.open("w") as out:
        subprocess.run([run, "privacy.exe"], cwd=tmp_path, check=True, stdout=out, env=environment, timeout=120)
    assert pages.matches(pages.expected(page)[source.line], printed.read_text()), printed.read_text()


@pytest.mark.parametrize("name", sorted(p.stem for p in (pages.ROOT / "cpp" / "tests").glob("test_*.cpp")))
def test_unit_under_wine(name, tmp_path):
    _, run, environment = wine()
    with (tmp_path / "printed").open("w") as out:
        done = subprocess.run([run, BUILT / "cpp" / "tests" / f"{name}.exe"], stdout=out, env=environment, timeout=120)
    assert done.returncode == 0, (tmp_path / "printed").read_text()


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_wide_moves_need_no_alignment(isa):
    """Windows aligns a stack to 16 bytes, and GCC takes it to be aligned to a register (cmake/simd.cmake). Wine happens
    to align it further, so that running shows nothing."""
    wine()
    objdump, objects = shutil.which("x86_64-w64-mingw32-objdump"), BUILT / "CMakeFiles" / f"tightdp_cpu_{isa}.dir"
    aligned = re.compile(r"\bv(movaps|movapd|movdqa|movdqa32|movdqa64|movnt\w+)\s[^#\n]*%[yz]mm[^#\n]*\n")
    for path in objects.rglob("*.obj"):
        text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True)
        found = [line[0] for line in aligned.finditer(text.stdout) if "(" in line[0]]
        assert not found, (path.name, found[:3])
