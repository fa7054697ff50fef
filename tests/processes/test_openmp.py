"""Our loops in the threads of PyTorch's OpenMP runtime: the same bits, no further threads, safe where that is not."""

import importlib.util
import platform
import shutil
import sys

import pytest
from together import alone

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
    pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc"),
]

START = """
import ctypes, os, signal, threading, time
os.environ["TIGHTDP_NUM_THREADS"] = "3"
{environment}
import numpy as np
import tightdp as dp
from tightdp import _core

grads = np.random.default_rng(0).normal(size=(64, 50_000)).astype(np.float32)

def release():
    return dp.clip_and_noise(grads, 1.0, 1.0, rng=dp.Philox(1))

def threads():
    return len(os.listdir("/proc/self/task"))

_core.set_max_threads(1)
alone = release()
_core.set_max_threads(3)
{before}
import torch

torch.set_num_threads(3)

def operate():
    a = torch.ones(400, 400)
    return float((a @ a).sum()) + float(torch.exp(torch.ones(1_000_000)).sum())

{settled}
"""


def script(body, environment="", before="", settled="operate(); settled = threads()"):
    return START.format(environment=environment, before=before, settled=settled) + body


def test_no_threads_of_our_own_and_the_same_bits():
    body = """
for _ in range(20):
    operate()
    assert (release() == alone).all()
print(threads() - settled)
"""
    assert int(alone(script(body))) == 0
    assert int(alone(script(body, environment='os.environ["TIGHTDP_OPENMP"] = "0"'))) == 2


def test_a_pool_that_was_there_before_torch_is_left():
    body = """
operate()
assert (release() == alone).all() and threads() == settled
print("done")
"""
    assert alone(script(body, before="assert (release() == alone).all()")) == "done\n"


def test_another_number_of_threads_than_torch_uses():
    """Fewer of ours take part of its team, which keeps its size; where it has fewer, our own pool works."""
    body = """
_core.set_max_threads(2)
assert (release() == alone).all() and threads() == settled
operate()
assert threads() == settled
torch.set_num_threads(1)
_core.set_max_threads(3)
assert (release() == alone).all() and threads() == settled + 2
print("done")
"""
    assert alone(script(body)) == "done\n"


FORKS = """
def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that waits for ever
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

def both():
    for _ in range(3):
        operate()
        assert (release() == alone).all()
"""


def test_a_fork_works_in_a_pool_of_its_own():
    body = """
both()
for _ in range(3):
    assert in_child(both)
    both()
print("done")
"""
    assert alone(script(FORKS + body)) == "done\n"


@pytest.mark.parametrize("before", ["release()", "operate(); release()", "release(); operate(); release()"])
def test_torch_works_in_a_fork(before):
    """Its runtime would wait for threads that the child lacks. After a loop of its own alone it does; after one of ours
    the forking thread has none."""
    body = f"""
{before}
assert in_child(operate) and in_child(both)
both()
print("done")
"""
    assert alone(script(FORKS + body, settled="")) == "done\n"


def test_workers_of_a_data_loader():
    """They are forks, which ask for batches while the parent trains."""
    body = """
from torch.utils.data import DataLoader, Dataset

class Released(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        operate()
        return torch.from_numpy(release())

both()
for epoch in range(2):
    for batch in DataLoader(Released(), batch_size=2, num_workers=2, multiprocessing_context="fork"):
        assert (batch.numpy() == alone).all()
        both()
print("done")
"""
    assert alone(script(FORKS + body)) == "done\n"


def test_callers_in_several_threads():
    body = """
failures = []

def work():
    for _ in range(10):
        operate()
        if not (release() == alone).all():
            failures.append("bits")

workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(failures)
"""
    assert alone(script(body)) == "[]\n"


def test_inside_a_loop_of_the_runtime_the_caller_works_alone():
    body = """
path = next(line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "omp.so" in line)
runtime, right = ctypes.CDLL(path), []

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def loop(_):
    right.append((release() == alone).all())

runtime.GOMP_parallel(loop, None, 3, 0)
assert right == [True] * 3 and threads() == settled, (right, threads(), settled)
print("done")
"""
    assert alone(script(body)) == "done\n"


def test_helpers_do_not_inherit_that_torch_flushes_subnormal_numbers():
    """Every thread of its team is set to, but for ours: sums of subnormal numbers keep them."""
    body = """
import subprocess, tempfile
source = '''#include <stdint.h>
void flush(void *given) { uint32_t mode; __asm__ volatile("stmxcsr %0" : "=m"(mode)); mode |= *(uint32_t *)given;
                          __asm__ volatile("ldmxcsr %0" : : "m"(mode)); }
void keep(void *given) { uint32_t mode; __asm__ volatile("stmxcsr %0" : "=m"(mode)); mode &= ~0x8040u;
                         __asm__ volatile("ldmxcsr %0" : : "m"(mode)); }'''
folder = tempfile.mkdtemp()
open(folder + "/mode.c", "w").write(source)
subprocess.run(["cc", "-shared", "-fPIC", "-o", folder + "/mode.so", folder + "/mode.c"], check=True)
mode = ctypes.CDLL(folder + "/mode.so")
path = next(line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "omp.so" in line)
flushes = ctypes.c_uint32(0x8040)
ctypes.CDLL(path).GOMP_parallel(mode.flush, ctypes.byref(flushes), 0, 0)
mode.keep(None)  # the caller keeps its own
small = np.full((64, 50_000), 1e-40, np.float32)
total, norms = dp.clipped_sum(small, 1.0)
expected = 64 * np.float64(np.float32(1e-40))
assert (np.abs(total - expected) < 1e-44).all() and (norms > 0).all()
print("done")
"""
    if platform.machine() != "x86_64" or shutil.which("cc") is None:
        pytest.skip("needs a C compiler for x86-64")
    assert alone(script(body)) == "done\n"
