"""A lock that no reading of its file drops, and that a forked child leaves to its parent."""

import os
import shutil

import pytest
from together import alone

from tightdp._support.file_lock import FileLock
from tightdp._support.process_owner import ProcessOwner

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FORKED = """
import os, sys
from pathlib import Path
from tightdp._support.file_lock import FileLock

def in_child(work):
    '''The number with which a forked child ends: what work returns.'''
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = int(work())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def is_free(path=Path(sys.argv[1])):
    try:
        FileLock(path)
    except BlockingIOError:
        return 0
    return 1

"""

HELD = """
lock = FileLock(Path(sys.argv[1]))
print(is_free(), in_child(is_free))  # not even this process has it twice
if Path(sys.argv[1]).is_file():
    open(sys.argv[1]).close()
else:
    os.close(os.open(sys.argv[1], os.O_RDONLY))
print(in_child(is_free), in_child(lambda: lock.is_held), lock.is_held)
in_child(lambda: lock.release_lock() or 0)
print(in_child(is_free), lock.is_held)
lock.release_lock()
print(lock.is_held, in_child(is_free))
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_is_kept_until_it_is_released(tmp_path, kind):
    path = tmp_path if kind == "folder" else tmp_path / "lock"
    assert alone(FORKED + HELD, path).split() == ["0", "0", "0", "0", "True", "0", "True", "False", "1"]


LEFT = """
(read, write), (ready, tell) = os.pipe(), os.pipe()
holder = os.fork()
if holder == 0:
    lock = FileLock(Path(sys.argv[1]))
    if os.fork() == 0:  # a child that outlives the holder, as a worker of a loader may
        os.write(tell, b"x")
        os.read(read, 1)
        os._exit(0)
    os.read(ready, 1)
    os.kill(os.getpid(), 9)
os.waitpid(holder, 0)
print(is_free())
os.write(write, b"x")
"""


def test_a_child_that_outlives_a_killed_holder_keeps_no_lock(tmp_path):
    assert alone(FORKED + LEFT, tmp_path / "lock").split() == ["1"]


def test_a_file_that_was_replaced_has_another_lock(tmp_path):
    lock = FileLock(tmp_path / "lock")
    (tmp_path / "other").touch()
    assert lock.is_held
    os.replace(tmp_path / "other", tmp_path / "lock")
    assert not lock.is_held and FileLock(tmp_path / "lock").is_held
    os.unlink(tmp_path / "lock")
    assert not lock.is_held


def test_a_folder_that_was_copied_has_a_lock_of_its_own(tmp_path):
    (tmp_path / "run").mkdir()
    lock = FileLock(tmp_path / "run" / "lock")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert FileLock(tmp_path / "copy" / "lock").is_held and lock.is_held
    with pytest.raises(BlockingIOError):
        FileLock(tmp_path / "run" / "lock")


def test_what_belongs_to_another_process_says_which(monkeypatch):
    owner, here = ProcessOwner(), os.getpid()
    owner.check_process("this budget", "make another")
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(
        RuntimeError, match=f"^this budget belongs to process {here}, of which {here + 1} is a fork: make another$"
    ):
        owner.check_process("this budget", "make another")
