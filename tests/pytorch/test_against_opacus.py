"""Our sums are those of Opacus at noise 0, up to the rounding of floats."""

import warnings

import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

import torch
from opacus import GradSampleModule
from small import private
from test_one_pass import CASES, one_pass

from tightdp.torch.gradient_sums.exact_sums import ExactSums

SUPPORTED = ["mlp", "positions of each record", "convolutions", "shared"]


def sums_of_opacus(model, loss_fn, batch, max_norm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = GradSampleModule(model, loss_reduction="sum")
        loss_fn(wrapped, batch).sum().backward()
    samples = {name.removeprefix("_module."): p.grad_sample for name, p in wrapped.named_parameters()}
    norms = torch.stack([g.double().flatten(1).norm(dim=1) for g in samples.values()]).norm(dim=0)
    factors = (max_norm / norms).clamp(max=1.0)
    return {name: torch.einsum("k,k...->...", factors, g.double()) for name, g in samples.items()}


@pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:There is a performance drop")
@pytest.mark.parametrize("case", SUPPORTED)
def test_sums_without_noise(case):
    build, loss_fn, data = CASES[case]
    model, batch = build(), data()
    names = [name for name, _ in model.named_parameters()]
    fast, _ = one_pass(model, loss_fn, batch, 0.1)
    exact = ExactSums(
        private(model, max_norm=0.1, noise_multiplier=1.0, arithmetic="exact").plan, dict(model.named_parameters())
    )
    exact.add(model, loss_fn, batch, len(batch[0]))
    if case in ("convolutions",):  # hooks cannot see through what changes in place
        for module in model.modules():
            if isinstance(module, torch.nn.ReLU):
                module.inplace = False
    theirs = sums_of_opacus(model, loss_fn, batch, 0.1)
    largest = max(float(each.abs().max()) for each in theirs.values())
    for name, ours in zip(names, exact.convert_to_floats(), strict=True):
        assert (ours - theirs[name]).abs().max() <= 1e-5 * largest, name
        assert (fast[name] - theirs[name]).abs().max() <= 2e-5 * largest, name
