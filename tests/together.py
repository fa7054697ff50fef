"""Threads that get into each other's way, and scripts in a fresh interpreter."""

import os
import subprocess
import sys
import threading

THREADS = 16


def together(work):
    """work(0), ..., work(15) in threads of their own, which the interpreter switches as often as it can."""
    failures, start = [], threading.Barrier(THREADS)

    def run(k):
        try:
            start.wait()
            work(k)
        except BaseException as error:  # for the test to see
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failures:
        raise failures[0]


def alone(script, *arguments, seconds=120):
    """What a script prints in an interpreter of its own, which may fork: this one has threads of pytest and others."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def every_instruction_set(script):
    """The digests that a script prints, after the instruction set's name, under each of them."""
    digests = set()
    for name in ("baseline", "avx2", "avx512"):
        run = subprocess.run([sys.executable, "-c", script], env={**os.environ, "TIGHTDP_ISA": name},
                             capture_output=True, text=True, check=True)  # fmt: skip
        digests.add(run.stdout.split()[1])
    return digests
