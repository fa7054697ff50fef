"""Settings of batches as an object."""

import dataclasses

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import mlp, table

import tightdp as dp
from tightdp.torch import AfterFailure, Batches, make_private


def made(**settings):
    torch.manual_seed(3)
    model = mlp()
    return make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.5), table(), batch_size=6, epochs=1, max_norm=1.0,
        noise_multiplier=1.0, public_size=60, delta=1e-5, random_state=5, **settings,
    )  # fmt: skip


def test_a_setting_has_one_name():
    for other in ({"physical_batch_size": 4}, {"padded": True}, {"collate_fn": len}, {"num_workers": 0},
                  {"after_failure": True}):  # fmt: skip
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(other))}'"):
            made(**other)


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


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"timeout": 5}, "timeout must be 0 without num_workers, got 5"),
        ({"timeout": -1}, "timeout must be"),
        ({"timeout": None}, "timeout must be"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers"),
    ],
)
def test_options_of_workers_are_refused_before_a_charge(options, match, tmp_path):
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=50.0, delta=1e-3, dataset="records")
    with pytest.raises((ValueError, TypeError), match=match):
        made(batches=Batches(options=options), ledger=book)
    assert not book.history
