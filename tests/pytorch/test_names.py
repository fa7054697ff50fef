"""The public names of tightdp.torch and their signatures, as other code calls them."""

from pathlib import Path

import pytest
from signatures import shape

pytest.importorskip("torch", reason="needs torch")

import tightdp.torch

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "torch.md"
READING = "physical_batch_size=None, collate_fn=None"
SIGNATURES = {
    "make_private": "(model, optimizer, dataset, *, algorithm='dp-sgd', epsilon=None, delta=None, batch_size, epochs, "
    "max_norm, noise_multiplier=None, public_size=None, arithmetic='auto', batches=None, "
    "release_loss=None, random_state=None, ledger=None, checkpoint=None, distributed=None)",
    "Batches": "(physical_size=None, padded=False, collate_fn=None, options=<factory>)",
    "AfterFailure": "(folder)",
    "LossRelease": "(bound, share=0.02, every=None)",
    "replace_batch_norm": "(model, groups=32)",
    "PoissonLoader": f"(dataset, sampling_probability, steps=None, *, {READING}, rng=None, **options)",
    "PrivateRun.step": "(self, loss_fn, batch)",
    "PrivateRun.fit": "(self, loss_fn, callback=None)",
    "PrivateRun.audit": "(self, loss_fn, records=16, tried=4)",
    "PrivateRun.epsilon": "(self, delta=None, **options)",
    "PrivateRun.state_dict": "(self)",
    "PrivateRun.load_state_dict": "(self, state, *, after_failure=False)",
    "DPAdam": "(params, lr=0.001, betas=(0.9, 0.999), damping=1e-08, weight_decay=0.0, *, noise_variance=0.0)",
    "Batch.parts": "(self)",
}
PROPERTIES = {"losses_", "privacy_", "charged_", "history_", "steps_", "ways_", "plan", "statement_", "delta"}


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(path):
    found = tightdp.torch
    for name in path.split("."):
        found = getattr(found, name)
    assert shape(found) == SIGNATURES[path]


def test_properties():
    assert all(isinstance(getattr(tightdp.torch.PrivateRun, name), property) for name in PROPERTIES)


def test_the_reference_names_them_all():
    text = REFERENCE.read_text()
    assert all(f"`{name}" in text or f"`.{name}" in text for name in [*tightdp.torch.__all__, *PROPERTIES])
    said = " ".join(text.split())
    for name in ("make_private", "PoissonLoader", "DPAdam"):
        assert f"{name}{SIGNATURES[name]}".replace("'", '"') in said
