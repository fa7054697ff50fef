"""The module for a device: whether it was built, loads and says why not, without a device; and that no kernel lacks a
program of the host that runs it, or its formulas."""

import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from tightdp import _core, cuda
from tightdp._support import device_probe

ROOT = Path(__file__).resolve().parents[2]
BUILT = importlib.util.find_spec("tightdp._cuda") is not None


@pytest.fixture
def asked_again():
    """What was found is kept: these tests ask anew, and so do those that follow."""
    device_probe._load_module_of_device_probe.cache_clear(), device_probe._describe_probed_devices.cache_clear()
    yield
    device_probe._load_module_of_device_probe.cache_clear(), device_probe._describe_probed_devices.cache_clear()


@pytest.mark.usefixtures("asked_again")
def test_absent_is_not_broken(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cuda.status() == "not built (docs/cuda.md)" and cuda.devices() == []
    with pytest.raises(RuntimeError, match="CUDA: not built"):
        cuda.require_module()


@pytest.mark.usefixtures("asked_again")
def test_a_module_that_does_not_load_says_why(monkeypatch):
    def fail(name):
        raise ImportError("_cuda.so: undefined symbol: ClipPlan")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(
        device_probe, "importlib", type("stands in", (), {"util": importlib.util, "import_module": fail})
    )
    assert cuda.status().startswith("broken: ") and "undefined symbol: ClipPlan" in cuda.status()
    assert cuda.devices() == []
    with pytest.raises(RuntimeError, match="undefined symbol: ClipPlan"):
        cuda.require_module()


@pytest.mark.skipif(not BUILT, reason="built without TIGHTDP_CUDA")
def test_what_was_built_loads():
    assert not cuda.status().startswith(("not built", "broken")), cuda.status()


CALLS = {
    "device_count": (),
    "describe": (0,),
    "find_cuda_device": (0,),
    "clipped_sum": ([(0, 4, 1, 0, 0)], 1, "float32", "float64", 1.0, 0.0, None, 0, 0.0, 0, 0),
    "release_sums": (0, 1, 0, False, 1.0, 1.0, _core.philox_stream(1, 1), 0, 0),
    "add_integer_product": (0, 0, 0, 2, 3, 4, 0, 0),
    "add_products": ([(0, 0, 3, 2, 0)], 4, True, 1.0, 1.0, 0, 0, 0, 0),
    "epsilon_batch": (*(np.ones(1) for _ in range(4)), 1e-6, 0),
    "prv_cells": (("gaussian", 1.0, 1.0, 1, 0.0), 0.01, 0, 4, 0, 0, 0),
}  # fmt: skip
"""Of every function of the module, arguments that a device would take."""


@pytest.mark.skipif(not BUILT, reason="built without TIGHTDP_CUDA")
def test_every_function_answers_without_a_device():
    from tightdp import _cuda

    functions = {name for name in vars(_cuda) if callable(getattr(_cuda, name)) and not name.startswith("_")}
    assert functions - {"CudaError"} == set(CALLS)
    if _cuda.device_count():
        pytest.skip("a CUDA device is at hand: tests/cuda covers it")
    for name, arguments in CALLS.items():
        if name != "device_count":
            with pytest.raises(_cuda.CudaError, match=r"(?i)CUDA"):
                getattr(_cuda, name)(*arguments)
    assert cuda.status() == "built, no device found"


FORMULAS = {
    "squares_kernel": ["sum_device_clip_piece_squares"],
    "factors_kernel": ["device_clip_factor"],
    "sums_kernel": ["find_device_clip_segment", "transform_clip_entry", "device_clip_product"],
    "finish_kernel": ["finish_clip_lane"],
    "epsilon_kernel": ["contour::batch_epsilon"],
    "cells_kernel": ["prv::cell_mass"],
}
"""Kernels that the host does not run thread by thread: the formulas that they loop over, which it does run."""
PLAIN = {
    "add_partial_kernel": "adds what the kernels before it left, in a fixed order",
    "device_table_kernel": "copies the addresses of arrays",
}
"""Kernels without a formula. tests/cuda runs them where there is a device."""


def kernels():
    """The name and the body of every kernel."""
    for path in sorted((ROOT / "cpp" / "src").rglob("*.cu*")):
        text = path.read_text()
        for found in re.finditer(r"__global__ void(?:\s+__launch_bounds__\([^{;]*?\)\s)?\s*(\w+)\(", text):
            start = text.index("{", found.end())
            end, depth = start, 0
            while True:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
                if not depth:
                    break
            yield found[1], text[start:end]


def test_no_kernel_lacks_an_emulation():
    """Either cpp/testing launches the kernel itself, or it calls each formula that the kernel loops over."""
    emulated = "\n".join(path.read_text() for path in (ROOT / "cpp" / "testing").rglob("*.cpp"))
    found = dict(kernels())
    launched = {name for name in found if re.search(rf"\b{name}\b", emulated)}
    assert len(launched) >= 6 and found.keys() == launched | FORMULAS.keys() | PLAIN.keys()
    for name, formulas in FORMULAS.items():
        for formula in formulas:
            bare = formula.rpartition("::")[2]
            assert re.search(rf"\b{formula}\b[<(]", found[name]), f"{name} does not call {formula}"
            assert re.search(rf"\b{bare}\b[<(]", emulated), f"nothing in cpp/testing calls {bare}"
