"""On a CUDA device, in one call: correctness on fresh inputs, then timings. Prints the device's name.

    python bench/cuda.py [--settings 1000000]

Clip and noise against a device-to-device copy of the same array, flat torch, Opacus (if installed); the sweep of
epsilons in certified settings a second. Contenders are interleaved; figures are medians and ratios of medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tightdp as dp
from tightdp import cuda

SHAPES = [(1 << 20, 100), (1 << 16, 4096), (512, 1 << 18), (256, 1 << 20), (64, 10_000_000)]
ROUNDS = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=1_000_000)
    options = parser.parse_args()
    if not cuda.devices():
        print(f"CUDA: {cuda.status()}")
        return 1
    import torch

    print(f"device: {cuda.devices()[0]}; torch {torch.__version__}")
    root = Path(__file__).resolve().parents[1]
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/cuda"], cwd=root, check=False)
    if tests.returncode:
        print("the tests on the device fail: no timings")
        return 1
    for shape in SHAPES:
        clipping(torch, shape)
    sweep(options.settings)
    return 0


def medians(torch, contenders):
    """Milliseconds a call, contenders taking turns."""
    taken = {name: [] for name in contenders}
    for i in range(ROUNDS + 2):
        for name, call in contenders.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            end.synchronize()
            if i >= 2:  # the first rounds warm up
                taken[name].append(start.elapsed_time(end))
    return {name: statistics.median(times) for name, times in taken.items()}


def clipping(torch, shape):
    grads = torch.randn(shape, device="cuda")
    copy = torch.empty_like(grads)
    rng = dp.Philox(1)

    def flat():
        factor = (1.0 / grads.norm(dim=1)).clamp(max=1.0)
        return torch.einsum("b,bd->d", factor, grads) + torch.randn(shape[1], device="cuda")

    contenders = {
        "copy": lambda: copy.copy_(grads),
        "clipped_sum": lambda: dp.clipped_sum(grads, 1.0),
        "clip_and_noise": lambda: dp.clip_and_noise(grads, 1.0, 1.0, rng=rng),
        "flat torch": flat,
    }
    if importlib.util.find_spec("opacus"):
        contenders["Opacus"] = opacus_step(torch, grads)
    # What is timed is right: the sum, to the accuracy of float32 sums.
    total, norms = dp.clipped_sum(grads, 1.0)
    factors = (1.0 / norms.clamp(min=1e-300)).clamp(max=1.0)
    expected = factors @ grads[:, :1000].double()
    assert torch.allclose(total[:1000].double(), expected, rtol=1e-5, atol=1e-5 * shape[0] ** 0.5)
    times = medians(torch, contenders)
    size = grads.numel() * 4
    # A copy reads and writes: clipping at the same bandwidth takes half its time.
    print(f"\n{shape[0]} x {shape[1]} float32, {size / 2**20:.0f} MiB")
    for name, ms in times.items():
        moved = 2 * size if name == "copy" else size
        share = (size / ms) / (2 * size / times["copy"])
        print(f"  {name:15s} {ms:9.3f} ms  {moved / ms / 1e6:7.0f} GB/s  {share:6.1%} of the copy's bandwidth")


def opacus_step(torch, grads):
    from opacus.optimizers import DPOptimizer

    parameter = torch.nn.Parameter(torch.zeros(grads.shape[1], device="cuda"))
    optimizer = DPOptimizer(
        torch.optim.SGD([parameter], lr=0.1),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=grads.shape[0],
    )

    def step():
        parameter.grad_sample, parameter.summed_grad = grads, None
        optimizer.clip_and_accumulate()
        optimizer.add_noise()

    return step


def sweep(n):
    r = np.random.default_rng(1)
    settings = (r.uniform(0.6, 6, n), 10 ** r.uniform(-3, -1, n), np.floor(10 ** r.uniform(3, 5, n)), np.full(n, 1e-6))
    some = slice(0, 500)
    lower, upper = dp.epsilon_batch(*(x[some] for x in settings), device="cuda")
    low, up = dp.epsilon_batch(*(x[some] for x in settings))
    assert (np.maximum(low, lower) <= np.minimum(up, upper)).all()
    kernel = cuda.required()
    for tolerance in (1e-11, 1e-8):
        rates = []
        for _ in range(3):
            start = time.perf_counter()
            found = kernel.epsilon_batch(*settings, tolerance, 0)
            rates.append(n / (time.perf_counter() - start))
        served = found[2].mean()
        width = np.median(((found[1] - found[0]) / np.maximum(found[1], 1e-300))[found[2] > 0])
        print(
            f"\nsweep of {n} settings at tolerance {tolerance:g}, copies included:"
            f" {statistics.median(rates):,.0f} a second,"
            f" {served:.2%} certified on the device, median relative width {width:.1e}"
        )


if __name__ == "__main__":
    sys.exit(main())
