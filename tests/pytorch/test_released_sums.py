"""The release in the pass that adds the last records: the bits of a release in two passes, and nothing is kept."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table
from torch import nn

from tightdp.torch.algorithm_sums.auto_sums import AutoSums
from tightdp.torch.ghost_clipping import products


def release_in_two_passes(monkeypatch):
    """Makes sums add all records before they are released."""
    add = AutoSums.add

    def add_at_once(self, *arguments, last=False):
        add(self, *arguments)

    monkeypatch.setattr(AutoSums, "add", add_at_once)


class Spare(nn.Module):
    """A layer takes part in what it computes only at first. Its parameters come between those of the others."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.first, self.spare = nn.Linear(5, 7, dtype=dtype), nn.Linear(3, 4)
        self.last, self.uses_all = nn.Linear(7, 3, dtype=dtype), True

    def forward(self, x):
        found = self.last(torch.tanh(self.first(x.to(self.first.weight.dtype))))
        return found + self.spare(x[:, :3]).sum(1, keepdim=True) if self.uses_all else found


class Words(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.words, self.out = nn.Embedding(9, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.out(self.words(x.abs().long() % 9).mean(1))


MODELS = {
    "mlp": mlp, "spare": Spare, "double": lambda: Spare(torch.float64), "sparse": lambda: Words(16),
    "formed words": lambda: Words(10), "half": lambda: mlp().to(torch.bfloat16),
}  # fmt: skip


def train(case, **settings):
    torch.manual_seed(1)
    model = MODELS[case]()
    dtype = next(model.parameters()).dtype
    data = table(60)
    if dtype == torch.bfloat16:
        data = torch.utils.data.TensorDataset(data.tensors[0].to(dtype), data.tensors[1])
    run = private(model, data, batch_size=12, noise_multiplier=0.3, random_state=5, **settings)
    for batch in run.loader:
        run.step(lambda model, batch: cross_entropy(model, batch).float(), batch)
        model.uses_all = False
    return run, [p.detach() for p in run.model.parameters()]


CUTS = {"whole": {}, "cut": {"physical_size": 4}, "padded": {"physical_size": 8, "padded": True}}


@pytest.mark.parametrize("case, cut", [*((case, "whole") for case in MODELS), ("spare", "cut"), ("mlp", "padded")])
def test_the_bits_are_those_of_two_passes(case, cut, monkeypatch):
    run, found = train(case, **CUTS[cut])
    assert run.plan.arithmetic == "auto"
    release_in_two_passes(monkeypatch)
    _, expected = train(case, **CUTS[cut])
    assert all(map(torch.equal, found, expected))


def test_the_pieces_of_a_physical_batch_have_the_same_bits(monkeypatch):
    monkeypatch.setattr(products, "MOST_HELD_ENTRIES", 1)
    monkeypatch.setattr(products, "CACHED_ENTRIES", 1)
    _, found = train("mlp")
    release_in_two_passes(monkeypatch)
    _, expected = train("mlp")
    assert all(map(torch.equal, found, expected))


def test_more_records_than_are_released_without_totals(monkeypatch):
    monkeypatch.setattr(products, "MOST_RECORDS_WITHOUT_TOTALS", 3)
    run, found = train("mlp")
    monkeypatch.undo()
    assert all(map(torch.equal, found, train("mlp")[1])) and len(run._sums.integers()[0])


def test_totals_have_no_memory_if_one_pass_adds_and_releases():
    run = private(batch_size=20, noise_multiplier=1.0)
    steps = iter(run.loader)
    run.step(cross_entropy, next(steps))
    assert run._sums._totals == [] and run._sums._last is None
    run = private(batch_size=30, noise_multiplier=1.0, physical_size=5)
    run.step(cross_entropy, next(iter(run.loader)))
    assert run._sums._totals and not run._sums.integers()[0].any()  # no record can be released twice


def test_a_step_that_fails_leaves_no_records_to_the_next_one(tmp_path, monkeypatch):
    """The last records wait for their release when the step fails."""
    made = lambda **options: private(batch_size=40, noise_multiplier=1.0, checkpoint=tmp_path, epochs=2, **options)  # noqa: E731
    run = made()
    monkeypatch.setattr(run, "_make_private_run_noise_source", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 1 and run._sums._last is not None
    sums = run._begin_step_sums_of_private_run(run._check_run_parameters())
    assert sums is run._sums and sums._last is None and not sums.integers()[0].any()
    with pytest.raises(RuntimeError, match="ended by an error"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert made(after_failure=True).steps_ == 1


def test_records_that_share_memory_with_the_next_ones_are_added_before_those_are_read():
    """A data set may use one buffer for all records: what waits for a release must not be overwritten."""
    buffer, inputs = torch.zeros(5), torch.randn(60, 5)

    class Reused(torch.utils.data.Dataset):
        def __len__(self):
            return len(inputs)

        def __getitem__(self, i):
            return buffer.copy_(inputs[i]), i % 3

    found = []
    for data in (Reused(), torch.utils.data.TensorDataset(inputs, torch.arange(60) % 3)):
        torch.manual_seed(1)
        run = private(mlp(), data, batch_size=12, physical_size=1, noise_multiplier=0.3, random_state=5)
        run.fit(cross_entropy)
        found.append([p.detach() for p in run.model.parameters()])
    assert all(map(torch.equal, *found))
