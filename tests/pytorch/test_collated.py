"""What ``collate_fn`` makes of a batch: dense tensors with a row for each record, and nothing that tells of all."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs torch")

import numpy as np
import torch
from small import cross_entropy, private


def test_batches_without_rows():
    run = private(collate_fn=lambda records: [torch.zeros(()), torch.zeros(3)])
    with pytest.raises(ValueError, match=r"^collate_fn must make tensors"):
        run.step(cross_entropy, next(iter(run.loader)))
    run = private(collate_fn=lambda records: ["text"])
    with pytest.raises(ValueError, match=r"^collate_fn must make tensors"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0


class Labelled(torch.utils.data.Dataset):
    """Records whose labels PyTorch's own collation leaves in a tuple."""

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return torch.randn(5), str(i)


COLLATED = {
    "a tuple of str": None,
    "a list of int": lambda records: [torch.stack([x for x, _ in records]), [int(y) for _, y in records]],
    "ndarray": lambda records: {"x": torch.stack([x for x, _ in records]), "y": np.array([int(y) for _, y in records])},
    "SimpleNamespace": lambda records: (torch.stack([x for x, _ in records]), SimpleNamespace(y=records)),
}


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize("made", COLLATED)
def test_what_is_of_all_records_is_not_shown_to_each(made, arithmetic):
    """A loss could compare each record with the labels of all."""
    run = private(dataset=Labelled(), collate_fn=COLLATED[made], arithmetic=arithmetic, batch_size=0.1)
    with pytest.raises(ValueError, match=rf"^collate_fn must make tensors.*{made}, which each record would see whole"):
        run.step(lambda model, batch: model(batch[0]).sum(1), next(iter(run.loader)))
    assert run.steps_ == 0


def test_constants_of_a_batch():
    def collated(records):
        return {"x": torch.stack([x for x, _ in records]), "type": torch.float32, "no": None}

    private(collate_fn=collated).fit(lambda model, batch: model(batch["x"].to(batch["type"])).sum(1))


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
@pytest.mark.parametrize("constant", [2.0, 3, True, "rows", b"rows", np.float32(2.0)], ids=repr)
def test_a_number_of_the_whole_batch(constant, arithmetic):
    """It may be one of all records, such as their largest value."""
    run = private(collate_fn=lambda records: [torch.stack([x for x, _ in records]), constant], arithmetic=arithmetic)
    with pytest.raises(ValueError, match=f"^collate_fn must make tensors.*{type(constant).__name__}, which each"):
        run.step(lambda model, batch: model(batch[0]).sum(1), next(iter(run.loader)))
    assert run.steps_ == 0


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_batches_of_another_make(arithmetic):
    made = []

    def collated(records):
        made.append(1)
        x = torch.stack([x for x, _ in records])
        return {"x": x, **({"more": x} if len(made) > 1 else {})}

    run = private(collate_fn=collated, arithmetic=arithmetic, batch_size=30)
    with pytest.raises(ValueError, match=r"must make the same of"):
        run.fit(lambda model, batch: model(batch["x"]).sum(1) * len(batch))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("of", ["sparse", "nested"])
def test_tensors_that_are_not_dense(of):
    made = {"sparse": lambda x: x.to_sparse(), "nested": lambda x: torch.nested.nested_tensor(list(x))}[of]
    run = private(collate_fn=lambda records: made(torch.stack([x for x, _ in records])))
    with pytest.raises(ValueError, match=f"^collate_fn must make tensors.*a {of} one"):
        run.step(lambda model, batch: model(batch).sum(1), next(iter(run.loader)))
