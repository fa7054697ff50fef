"""What a step holds in memory, and what is freed before the step ends (docs/theory/exact-products.md, section 11)."""

import weakref

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private
from torch.multiprocessing.reductions import StorageWeakRef

from tightdp.torch.ghost_clipping.products import ProductSums
from tightdp.torch.ghost_clipping.recorder import CallRecorder
from tightdp.torch.model_checks import self_test


def test_the_outputs_of_layers_are_freed_before_gradients_are_added(monkeypatch):
    outputs, record, add = [], CallRecorder._record_call, ProductSums._add_gradient_factors

    def record_and_note(self, func, output, *rest):
        outputs.append(StorageWeakRef(output.untyped_storage()))
        record(self, func, output, *rest)

    def add_after_outputs_are_freed(self, *arguments, **options):
        assert len(outputs) >= 2 and all(output.expired() for output in outputs)
        add(self, *arguments, **options)

    monkeypatch.setattr(CallRecorder, "_record_call", record_and_note)
    monkeypatch.setattr(ProductSums, "_add_gradient_factors", add_after_outputs_are_freed)
    run = private(mlp(), arithmetic="auto")
    run.step(cross_entropy, next(iter(run.loader)))


@pytest.mark.parametrize("arithmetic", ["auto", "exact", "float"])
def test_old_gradients_are_freed_before_new_ones_are_made(arithmetic):
    run = private(mlp(), arithmetic=arithmetic)
    run.step(cross_entropy, next(iter(run.loader)))
    old, release = [weakref.ref(p.grad) for p in run.model.parameters()], run._release_run_sums

    def release_after_gradients_are_freed(sums):
        assert old and not any(gradient() is not None for gradient in old)
        return release(sums)

    run._release_run_sums = release_after_gradients_are_freed
    run.step(cross_entropy, next(iter(run.loader)))


def test_the_looks_hold_one_gradient_at_a_time():
    held, order = [], [0, 0, 1, 2, 1, 0, 2, 2, 1]

    def find(record):
        assert all(gradient() is None for gradient in held)
        found = torch.full((1, 300, 400), float(record))
        held.append(weakref.ref(found))
        return [found]

    found = self_test.check_self_test_gradients_repeat(find, [1, 2, 3], order)
    assert len(held) == 9 and sum(each.numel() for each in found[0]) < 300 * 400


@pytest.mark.parametrize("shape", [(1,), (1, 7), (1, 1024), (1, 1025), (1, 300, 517), (1, 0, 5)])
def test_projections_are_linear_and_keep_lengths(shape):
    g, h = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    [one], [other], [both] = (self_test._project_self_test_gradient([x]) for x in (g, h, g - 2 * h))
    assert torch.allclose(both, one - 2 * other, rtol=0, atol=1e-12 * float(one.norm() + other.norm() + 1))
    length = float(g.norm())
    assert 0.3 * length <= float(one.norm()) <= 2 * length
    assert self_test._project_self_test_gradient([g, torch.full((1, 3), torch.nan)]) is None


def test_an_entry_that_differs_is_seen():
    for at in (0, 1023, 1024, 70_000, 199_999):
        g = torch.ones(1, 200, 1000)
        g.view(-1)[at] += 1e-2
        gradients = iter([torch.ones(1, 200, 1000), g])
        with pytest.raises(ValueError, match="keep nothing from one record to the next"):
            self_test.check_self_test_gradients_repeat(lambda _: [next(gradients)], [0], [0, 0])  # noqa: B023
