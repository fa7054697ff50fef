"""``run.audit()``: no record moves the sums by more than the bound, and what would is flagged."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import numpy as np
import torch
from one_pass_models import CASES
from small import cross_entropy, private, table
from test_coins import Counting, Records, dropped, linear, padded, rows
from torch import nn
from torch.utils.data import TensorDataset

ARITHMETIC = ["exact", "products", "one-by-one", "float"]


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_one_record_moves_the_sums_by_its_gradient(arithmetic):
    """A small bound is reached: all of it, and no more; a large one is not."""
    for max_norm, least in ((1e-3, 0.99), (1e6, 0.0)):
        found = private(arithmetic=arithmetic, max_norm=max_norm).audit(cross_entropy)
        assert found.ok and least <= max(found.moved) <= 1 + 2**-10 and len(found.moved) == 4
        assert "as it should be" in str(found)


@pytest.mark.parametrize("arithmetic", ["auto", *ARITHMETIC])
def test_coins_are_those_of_each_record(arithmetic):
    def change(row):
        return row + torch.randn(5) + float(np.random.standard_normal())  # noqa: NPY002

    run = private(dropped(), Records(rows(40), change), arithmetic=arithmetic, max_norm=1e-3)
    found = run.audit(linear, records=30, tried=5)
    assert found.ok and max(found.moved) > 0.99
    assert run.steps_ == 0


def test_lengths_of_their_own():
    records = Records([torch.ones(i % 5 + 1, 5) * (i + 1) for i in range(20)])
    run = private(nn.Linear(5, 2), records, collate_fn=padded, max_norm=1e-3)
    assert run.audit(lambda model, batch: model(batch.mean(1)).sum(1)).ok


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("arithmetic", ["exact", "products", "float"])
@pytest.mark.parametrize("case", CASES)
def test_architectures(case, arithmetic):
    build, loss_fn, data = CASES[case]
    run = private(build(), TensorDataset(*data()), arithmetic=arithmetic, max_norm=0.01)
    found = run.audit(loss_fn, records=9, tried=3)
    assert found.ok and max(found.moved) > 0.9, str(found)


class Remembers(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        y, self.last = y + getattr(self, "last", 0.0), y.detach()
        return y


class Forgets(nn.Linear):
    """Once it has seen a large record, all others look small to it."""

    def forward(self, x):
        self.seen = getattr(self, "seen", False) or bool((x > 50).any())
        return super().forward(x) * (0.01 if self.seen else 1.0)


def test_planted_leaks_are_flagged():
    found = private(nn.Linear(5, 2), Counting(rows(20)), max_norm=1.0).audit(linear)
    assert not found.ok and "the guarantee does not hold" in str(found)
    large = [*rows(15), 100 * torch.ones(5)]
    run = private(Forgets(5, 2), Records(large), arithmetic="one-by-one", max_norm=1e6)
    assert not run.audit(linear).ok
    assert not private(Remembers(5, 3), table(20), max_norm=10.0).audit(cross_entropy).ok


class Follows(Records):
    """Each record gets some of the one before, from its first record on: so only what stands in between shows it."""

    def __getitem__(self, i):
        before = 0.0 if i == 0 else self.before
        self.before = self.rows[i]
        return self.rows[i] + before


class PadsToLongest:
    """A collation that pads to the longest record that it has seen so far."""

    def __init__(self):
        self.longest = 0

    def __call__(self, records):
        self.longest = max(self.longest, *map(len, records))
        return torch.stack([torch.nn.functional.pad(r, (0, 0, 0, self.longest - len(r))) for r in records])


class LossThatCounts:
    def __init__(self):
        self.calls = 0

    def __call__(self, model, batch):
        self.calls += 1
        return linear(model, batch) * (-1.0) ** self.calls


LARGE = [*rows(15), 100 * torch.ones(5)]
LENGTHS = [torch.ones(1 + i, 5) for i in range(16)]


@pytest.mark.parametrize(
    ("arose", "model", "dataset", "loss", "settings"),
    [
        ("dataset", nn.Linear(5, 2), lambda: Follows(LARGE), linear, {}),
        ("dataset", nn.Linear(5, 2), lambda: Follows(LARGE), linear, {"collate_fn": torch.stack}),
        ("collate_fn", nn.Linear(5, 2), lambda: Records(LENGTHS), lambda model, batch: model(batch).mean(1).sum(1),
         {"collate_fn": PadsToLongest(), "max_norm": 0.3}),
        ("model", Forgets(5, 2), lambda: Records(LARGE), linear, {"arithmetic": "one-by-one", "max_norm": 1e6}),
        ("loss_fn", nn.Linear(5, 2), lambda: Records(rows(16)), LossThatCounts(), {"arithmetic": "one-by-one"}),
    ],
    ids=["data set", "data set, collated", "longest seen", "model", "loss"],
)  # fmt: skip
def test_it_says_where_the_movement_arose(arose, model, dataset, loss, settings):
    """Also where only a record in front or in the middle shows it, and where records have other shapes afterwards."""
    found = private(model, dataset(), **{"max_norm": 0.1, **settings}).audit(loss)
    assert not found.ok and found.arose == arose, str(found)
    assert str(found).endswith(f"the guarantee does not hold, and the error arose in {arose}")


@pytest.mark.parametrize("arithmetic", ["auto", *ARITHMETIC])
def test_gradients_that_are_all_zero_are_told(arithmetic):
    def centred(model, batch):
        found = model(batch).sum(1)
        return found - found.mean()

    run = private(nn.Linear(5, 2), Records(rows(16)), arithmetic=arithmetic)
    found = run.audit(centred)
    assert found.ok and found.no_gradient and "all gradients are zero" in str(found)
    assert not run.audit(linear).no_gradient


def test_bad_arguments():
    run = private()
    for wrong, match in (({"records": 1}, "records"), ({"tried": 0}, "tried"), ({"records": 4, "tried": 4}, "tried")):
        with pytest.raises(ValueError, match=match):
            run.audit(cross_entropy, **wrong)
