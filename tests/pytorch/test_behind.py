"""Another PyTorch, whose inner functions are missing or mean something else: refused, and never used."""

import runpy

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, private

from tightdp.torch import behind
from tightdp.torch.onepass.tried import check_torch


@pytest.mark.parametrize(
    "where, name",
    [(torch._C._functorch, "get_unwrapped"), (torch._C._functorch, "maybe_get_bdim"),
     (torch.autograd.graph, "_engine_run_backward")],
)  # fmt: skip
def test_a_function_that_is_missing(where, name, monkeypatch):
    monkeypatch.delattr(where, name)
    with pytest.raises(ImportError, match=rf"^tightdp.torch needs torch 2.13.* got {torch.__version__[:4]}.*{name}"):
        runpy.run_path(behind.__file__)


@pytest.mark.parametrize(
    "name, other",
    [
        ("maybe_get_bdim", lambda x: 1),
        ("get_unwrapped", lambda x: torch.zeros(3, 2, dtype=torch.float64)),
        ("maybe_current_level", lambda: 2),
        ("is_batchedtensor", lambda x: False),
        ("engine_run_backward", lambda outputs, ones, *rest, **options: ones),
    ],
)
def test_a_function_that_means_something_else(name, other, monkeypatch):
    check_torch()
    monkeypatch.setattr(behind, name, other)
    check_torch.cache_clear()
    for arithmetic in ("float", "products"):
        with pytest.raises(RuntimeError, match=r'^arithmetic must be "exact" with torch .* went wrong'):
            private(arithmetic=arithmetic)
    run = private()
    run.step(cross_entropy, next(iter(run.loader)))
    monkeypatch.undo()
    check_torch()


def test_it_is_tried_in_whatever_mode_the_caller_is():
    check_torch.cache_clear()
    state = torch.get_rng_state()
    with torch.no_grad(), torch.device("meta"):
        check_torch()
    check_torch.cache_clear()
    with torch.inference_mode():
        check_torch()
    assert torch.equal(state, torch.get_rng_state())
