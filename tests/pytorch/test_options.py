"""Settings of batches as an object, and the names that they had before."""

import dataclasses

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, table

from tightdp.torch import AfterFailure, Batches, make_private


def made(**settings):
    torch.manual_seed(3)
    model = mlp()
    return make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.5), table(), batch_size=6, epochs=1, max_norm=1.0,
        noise_multiplier=1.0, public_size=60, delta=1e-5, random_state=5, **settings,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"physical_batch_size": 4}, Batches(4)),
        ({"padded": True, "physical_batch_size": 4}, Batches(4, padded=True)),
        ({"collate_fn": torch.utils.data.default_collate}, Batches(collate_fn=torch.utils.data.default_collate)),
        ({"num_workers": 0, "timeout": 0}, Batches(options={"num_workers": 0, "timeout": 0})),
    ],
)
def test_the_names_of_before_warn_and_do_the_same(before, now):
    with pytest.warns(DeprecationWarning, match=f"make_private takes {', '.join(before)} within batches=Batches"):
        old = made(**before)
    new = made(batches=now)
    for run in (old, new):
        run.fit(cross_entropy)
    assert all(map(torch.equal, old.model.parameters(), new.model.parameters()))


def test_settings_are_frozen_and_checked_where_they_are_made():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Batches().padded = True
    for wrong in ({"physical_size": 0}, {"physical_size": 2.5}, {"padded": 1}, {"collate_fn": 3}, {"options": [1]},
                  {"options": {"collate_fn": len}}):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"^{next(iter(wrong))} must"):
            Batches(**wrong)
    for wrong in ({"physical_size": 4}, 4, Batches):
        with pytest.raises(TypeError, match=r"^batches must be a Batches"):
            made(batches=wrong)
    with pytest.raises(TypeError, match=r"^checkpoint must be"):
        made(checkpoint=AfterFailure(3))
