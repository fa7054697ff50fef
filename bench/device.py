"""Checks results on a CUDA device and then times them. Prints the device's name.

    python bench/device.py [--settings 1000000] [--quick] [--untested] [--products]

First all of tests/cuda is run, and nothing is timed if a test fails; ``--untested`` leaves the tests out. Then clipping
and noise are timed beside a device-to-device copy of the same array, flat torch and Opacus (if installed). Each timed
answer is checked. Then follow integer products beside torch.mm in float32 (alone with ``--products``), the sweep of
epsilons, in settings a second, and the prv engine on the device and on the CPU (with CuPy). Contenders take turns, and
figures are medians and ratios of medians. The last lines show the aims and the figures reached. Exits with 1 without a
device.
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from shared import interleaved, options

import tightdp as dp
from tightdp import cuda
from tightdp.models import dense

# Shapes with short rows, rows of odd length, rows that one or several multiprocessors hold, rows that all of them
# together hold, and rows that are too long for all of them.
SHAPES = [
    ("float32", 1 << 20, 100),
    ("float32", 1 << 16, 1001),
    ("float32", 1 << 16, 4096),
    ("bfloat16", 1 << 15, 8192),
    ("float32", 4096, 50_003),
    ("float32", 512, 1 << 18),
    ("float32", 256, 1 << 20),
    ("float32", 64, 10_000_000),
]
PRODUCTS = [(256, 1024, 784), (4096, 1024, 1024), (4096, 4096, 4096), (100_352, 128, 384), (1 << 16, 768, 3072)]
"""Records (times positions), outputs and inputs of the layers whose weight gradients are added."""
CALLS = 10
"""Products that a graph queues at once, so that the device does not wait for the host to queue a short one."""
ROUNDS = 12
LARGE = 256 << 20
"""Number of bytes of the smallest arrays for which clipping aims at 85% of a copy's bandwidth."""


def main() -> int:
    given = options(__doc__, settings=1_000_000, quick=False, untested=False, products=False)
    if not cuda.devices():
        print(f"no timings: CUDA: {cuda.status()}")
        return 1
    if importlib.util.find_spec("torch") is None:
        print("no timings: the bench needs torch with CUDA")
        return 1
    import torch

    if not torch.cuda.is_available():
        print(f"no timings: torch {torch.__version__} finds no CUDA device, tightdp finds {cuda.status()}")
        return 1
    print(f"device: {cuda.devices()[0]}; torch {torch.__version__}; tightdp {dp.__version__}", flush=True)
    root = Path(__file__).resolve().parents[1]
    if not given.untested and subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/cuda"], cwd=root).returncode:
        print("the tests on the device fail: no timings")
        return 1
    rounds = 3 if given.quick else ROUNDS
    slowest = max(products(torch, *shape, rounds) for shape in PRODUCTS)
    print(f"integer products in <= the time of torch.mm in float32: {slowest:.2f} of it at worst", flush=True)
    if given.products:
        return 0
    shares = [clipping(torch, *shape, rounds) for shape in SHAPES]
    rate = sweep(given.settings // (10 if given.quick else 1))
    composition(rounds)
    large = [(share, shape) for share, shape, size in shares if size >= LARGE]
    worst, shape = min(large)
    print(f"\nclip_and_noise at >= 85% of a copy's bandwidth over 256 MiB: {worst:.1%} at worst, {shape}")
    print(f"sweep at >= 1,000,000 certified epsilons a second: {rate:,.0f}")
    return 0


def medians(torch, contenders, rounds):
    """Returns the median milliseconds a call of each contender. The contenders take turns."""
    taken = {name: [] for name in contenders}
    for i in range(rounds + 2):
        for name, call in contenders.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            end.synchronize()
            if i >= 2:  # the first two rounds warm up
                taken[name].append(start.elapsed_time(end))
    return {name: statistics.median(times) for name, times in taken.items()}


def clipping(torch, dtype, rows, columns, rounds):
    grads = torch.randn(rows, columns, device="cuda").to(getattr(torch, dtype))
    copy = torch.empty_like(grads)
    rng = dp.Philox(1)

    def flat():
        factor = (1.0 / grads.norm(dim=1)).clamp(max=1.0)
        return torch.einsum("b,bd->d", factor, grads) + torch.randn(columns, device="cuda")

    contenders = {
        "copy": lambda: copy.copy_(grads),
        "clipped_sum": lambda: dp.clipped_sum(grads, 1.0),
        "clip_and_noise": lambda: dp.clip_and_noise(grads, 1.0, 1.0, rng=rng, arithmetic="float"),
        "flat torch": flat,
    }
    if importlib.util.find_spec("opacus") and dtype == "float32":
        contenders["Opacus"] = opacus_step(torch, grads)
    # Checks that the timed sum and norms are right, up to the rounding of products.
    out = torch.full((columns,), torch.nan, device="cuda")
    total, norms = dp.clipped_sum(grads, 1.0, out=out)
    factors = (1.0 / norms.clamp(min=1e-300)).clamp(max=1.0)
    assert total is out and torch.isfinite(out).all()
    for part in (slice(0, 1000), slice(-1000, None)):
        expected = factors @ grads[:, part].double()
        assert torch.allclose(total[part].double(), expected, rtol=1e-5, atol=1e-5 * rows**0.5)
    assert torch.allclose(norms[-8:], grads[-8:].double().norm(dim=1), rtol=1e-12)
    noise = dp.clip_and_noise(grads, 1.0, 1.0, rng=rng, arithmetic="float").double() - total.double()
    assert columns < 1000 or abs(noise.std() - 1) < 6 / (2 * columns) ** 0.5 + 1e-3
    times = medians(torch, contenders, rounds)
    size = grads.numel() * grads.element_size()
    # A copy reads and writes, and clipping only reads. So clipping at the same bandwidth takes half of the copy's time.
    print(f"\n{rows} x {columns} {dtype}, {size / 2**20:.0f} MiB")
    for name, ms in times.items():
        moved = 2 * size if name == "copy" else size
        share = (moved / ms) / (2 * size / times["copy"])
        print(
            f"  {name:15s} {ms:9.3f} ms  {moved / ms / 1e6:7.0f} GB/s  {share:6.1%} of the copy's bandwidth", flush=True
        )
    return times["copy"] / 2 / times["clip_and_noise"], f"{rows} x {columns} {dtype}", size


def capture(torch, call):
    """Returns a function that queues ``CALLS`` calls as one graph."""
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph.replay


def products(torch, rows, outputs, columns, rounds):
    """The sum of integer outer products, and the product of as many floats. Returns the ratio of their times."""
    w = torch.randint(-131_071, 131_072, (rows, outputs), dtype=torch.int32, device="cuda")
    q = torch.randint(-32_639, 32_640, (rows, columns), dtype=torch.int16, device="cuda")
    sums = torch.zeros(outputs, columns, dtype=torch.int64, device="cuda")
    floats, entries = w.float().T, q.float()
    kept = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        times = medians(
            torch,
            {
                "integers": capture(
                    torch, lambda: dense.add_integer_dense_product(w, q, sums, largest_product=2.0**32)
                ),
                "torch.mm": capture(torch, lambda: torch.mm(floats, entries)),
            },
            rounds,
        )
        times = {name: ms / CALLS for name, ms in times.items()}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept
    sums.zero_()
    dense.add_integer_dense_product(w, q, sums, largest_product=2.0**32)
    some = sum((w[i : i + 8192, :32].double().T @ q[i : i + 8192].double()).long() for i in range(0, rows, 8192))
    assert torch.equal(sums[:32], some)
    work, ratio = 2e-9 * rows * outputs * columns, times["integers"] / times["torch.mm"]
    read = rows * (4 * outputs + 2 * columns) / 1e9 + 16e-9 * outputs * columns
    print(f"\nproducts of {rows} x {outputs} and {rows} x {columns} integers, {read:.3f} GB read and written")
    for name, ms in times.items():
        print(f"  {name:15s} {ms:9.3f} ms  {work / ms:7.1f} TFLOP/s or as many integer operations", flush=True)
    print(f"  {ratio:.2f} of the time of torch.mm")
    return ratio


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
        # A view, because Opacus marks the tensor that it has clipped, and refuses to clip it again.
        parameter.grad_sample, parameter.summed_grad = grads.view_as(grads), None
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
    kernel, best = cuda.require_module(), 0.0
    for tolerance in (1e-11, 1e-8):
        rates = []
        for _ in range(3):
            start = time.perf_counter()
            found = kernel.epsilon_batch(*settings, tolerance, 0)
            rates.append(n / (time.perf_counter() - start))
            assert (found[0] <= found[1]).all() and np.isfinite(found[1][found[2] > 0]).all()
        served = found[2].mean()
        width = np.median(((found[1] - found[0]) / np.maximum(found[1], 1e-300))[found[2] > 0])
        print(
            f"\nsweep of {n} settings at tolerance {tolerance:g}, copies included:"
            f" {statistics.median(rates):,.0f} a second,"
            f" {served:.2%} certified on the device, median relative width {width:.1e}",
            flush=True,
        )
        best = max(best, statistics.median(rates) * served)
    return best


def composition(rounds):
    """Prints the milliseconds a call of the prv engine on the device and on the CPU, for both directions together."""
    if importlib.util.find_spec("cupy") is None:
        print("\ncomposition: not timed, it needs CuPy")
        return
    for steps, eps_error in ((1000, 0.01), (10_000, 0.001), (100_000, 0.001)):
        run = dp.PoissonSampled(dp.Gaussian(1.0), 0.001) * steps
        asked = {"eps_error": eps_error}
        found, here = cuda.epsilon(run, 1e-5, **asked), run.epsilon(1e-5, engine="prv", **asked)
        assert max(found.lower, here.lower) <= min(found.upper, here.upper)
        calls = (
            lambda run=run, asked=asked: cuda.epsilon(run, 1e-5, **asked),
            lambda run=run, asked=asked: run.epsilon(1e-5, engine="prv", **asked),
        )
        device, cpu = (1e3 * seconds for seconds in interleaved(calls, rounds, least=0.0))
        print(
            f"\ncomposition of {steps} steps at eps_error {eps_error:g}: {device:.1f} ms on the device,"
            f" {cpu:.1f} ms on the CPU ({cpu / device:.1f}x), [{found.lower:.6f}, {found.upper:.6f}]",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
