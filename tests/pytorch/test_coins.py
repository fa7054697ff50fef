"""Records are read and collated alone, and pass the model, with coins that depend on no other record
(docs/theory/training.md section 9)."""

import random

import pytest

pytest.importorskip("torch", reason="needs torch")

import numpy as np
import torch
from small import private
from torch.utils.data import Dataset, TensorDataset

ARITHMETIC = ["exact", "float", "products"]
MAX_NORM = 1.0


class Records(Dataset):
    """Rows, and what is made of each."""

    def __init__(self, rows, change=lambda row: row):
        self.rows, self.change = rows, change

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.change(self.rows[i])


def rows(n, seed=1):
    return list(torch.randn(n, 5, generator=torch.Generator().manual_seed(seed)))


def sums(dataset, loss, *, arithmetic="exact", model=None, seed=7, **given):
    """Sums before noise of the first step, which takes all records, of a run with that seed."""
    torch.manual_seed(0)
    options = {"batch_size": 10**6, "epochs": 1.0, "public_size": 10**6, "delta": 1e-9}
    options |= {"random_state": seed, **given}
    model = torch.nn.Linear(5, 2) if model is None else model()
    run = private(model, dataset=dataset, arithmetic=arithmetic, max_norm=MAX_NORM, **options)
    found, released = [], run._release_run_sums

    def seen(sums):
        found.extend(total.flatten().clone() for total in sums.convert_to_floats())
        return released(sums)

    run._release_run_sums = seen
    run.step(loss, next(iter(run.loader)))
    return torch.cat(found)


def moved(dataset, more, loss, **options):
    """By how much, in norm bounds, one more record at the front moves the sum."""
    return float((sums(more, loss, **options) - sums(dataset, loss, **options)).norm()) / MAX_NORM


def linear(model, batch):
    return model(batch).square().sum(1) + 3 * model(batch).sum(1)


def dropped():
    return torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(5, 2))


@pytest.mark.parametrize("change", [
    lambda row: row + torch.randn(5),
    lambda row: row * (random.random() < 0.5),
    lambda row: row + float(np.random.standard_normal()),  # noqa: NPY002 (the global generator)

], ids=["torch", "random", "numpy"])  # fmt: skip
def test_augmentation_draws_for_each_record(change):
    """The same index has the same coins in both worlds: one more record at the end shifts nobody's."""
    there = rows(20)
    more = [*there, rows(1, seed=5)[0]]
    assert 0 < moved(Records(there, change), Records(more, change), linear) <= 1 + 1e-6


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_dropout_does_not_follow_a_seed_that_others_know(arithmetic):
    """Two runs with secret coins and one public seed of PyTorch's generator have different masks."""
    data = TensorDataset(torch.stack(rows(20)))
    loss = lambda model, batch: linear(model, batch[0])  # noqa: E731
    one, other = (sums(data, loss, arithmetic=arithmetic, model=dropped, seed=None) for _ in range(2))
    assert (one - other).norm() > 0.1
    one, other = (sums(data, loss, arithmetic=arithmetic, model=dropped, seed=3) for _ in range(2))
    assert (one == other).all()


def seeded(model, batch):
    torch.manual_seed(0)
    return linear(model, batch)


def seeded_in_a_fork(model, batch):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return linear(model, batch)


def put_back_to_known(model, batch):
    torch.set_rng_state(torch.Generator().manual_seed(0).get_state())
    return linear(model, batch)


def seeded_at_the_end(model, batch):
    found = linear(model, batch)
    torch.default_generator.manual_seed(0)
    return found


class OwnMask(torch.nn.Linear):
    def forward(self, x):
        mask = torch.empty_like(x).bernoulli_(0.5, generator=torch.Generator().manual_seed(0))
        return super().forward(x * mask)


KNOWN = {
    "a seed in the loss": (dropped, seeded, "had another seed"),
    "a seed in fork_rng": (dropped, seeded_in_a_fork, "had another seed"),
    "a known state": (dropped, put_back_to_known, "had another seed"),
    "a seed for the next pass": (dropped, seeded_at_the_end, "had another seed"),
    "a generator of its own": (lambda: OwnMask(5, 2), linear, "generator of its own"),
}


@pytest.mark.parametrize("arithmetic", ["auto", *ARITHMETIC])
@pytest.mark.parametrize("known", KNOWN)
def test_coins_that_others_know_are_refused(known, arithmetic):
    """Masks go by the place of a record: one more in front would give each the mask of its neighbour."""
    build, loss, match = KNOWN[known]
    run = private(build(), dataset=Records(rows(20)), arithmetic=arithmetic)
    with pytest.raises(ValueError, match=rf"^model and loss_fn must .*{match}"):
        run.step(loss, next(iter(run.loader)))
    assert run.steps_ == 0


@pytest.mark.parametrize("arithmetic", ["auto", "one-by-one"])
def test_seeds_of_numpy_and_random_are_one_for_all_records(arithmetic):
    """What they draw is common to all records of a step, known or not: one more record changes it for nobody."""

    def loss(model, batch):
        np.random.seed(0)  # noqa: NPY002 (the global generator)
        random.seed(0)
        return linear(model, batch * float(np.random.standard_normal())) * random.random()  # noqa: NPY002

    there = rows(20)
    assert moved(Records(there), Records([5 * there[3], *there]), loss, arithmetic=arithmetic) <= 1 + 1e-6


@pytest.mark.parametrize("seed_inside", [False, True])
def test_one_by_one_every_record_has_coins_of_its_own(seed_inside):
    """However often one record draws, and whatever it seeds, the next one's coins stay what they are."""
    drawn = []

    def loss(model, batch):
        drawn.append(float(torch.rand(())))
        if seed_inside:
            torch.manual_seed(0)
        torch.rand(1 + int(batch.abs().sum()))
        return linear(model, batch)

    def coins(first):
        drawn.clear()
        sums(Records([first, *rows(9)]), loss, arithmetic="one-by-one")
        return drawn[-9:]

    one = coins(torch.zeros(5))
    assert one == coins(50 * torch.ones(5)) and len(set(one)) == 9


def test_generators_are_as_before():
    data = Records(rows(20), lambda row: row + torch.randn(5) + random.random() + np.random.random())  # noqa: NPY002

    def loss(model, batch):
        random.random(), np.random.random()  # noqa: NPY002
        return linear(model, batch)

    for generator in (torch.get_rng_state, random.getstate, np.random.get_state):
        before = repr(generator())
        sums(data, loss, model=dropped, seed=None)
        torch.manual_seed(0)
        assert repr(generator()) == before or generator is torch.get_rng_state
    torch.manual_seed(0)
    fresh = torch.get_rng_state()
    private(dropped(), dataset=data)  # seeds nothing by itself, though a model draws its parameters
    torch.manual_seed(0)
    assert (torch.get_rng_state() == fresh).all()


def padded(records):
    return torch.nn.utils.rnn.pad_sequence(records, batch_first=True)


@pytest.mark.parametrize("collate", [
    padded,
    lambda records: torch.stack([r - torch.stack(records).mean(0) for r in records]),
    lambda records: torch.stack([0.5 * (a + b) for a, b in zip(records, [*records[1:], records[0]], strict=True)]),
    lambda records: torch.stack([r * len(records) for r in records]),
], ids=["padded", "batch mean", "mixup", "batch size as a feature"])  # fmt: skip
def test_a_collation_sees_one_record(collate):
    there = rows(20)
    more = [*there, 100 * rows(1, seed=5)[0]]
    assert moved(Records(there), Records(more), linear, collate_fn=collate) <= 1 + 1e-6


def test_records_of_other_lengths_are_not_padded():
    """A model that sees the padding: one long record would move everybody's mean."""

    def loss(model, batch):
        return model(batch.mean(1)).sum(1)

    there = [torch.ones(i % 3 + 1, 5) * i for i in range(20)]
    assert moved(Records(there), Records([*there, torch.ones(500, 5)]), loss, collate_fn=padded) <= 1 + 1e-6


class Counting(Records):
    def __getitem__(self, i):
        self.reads = getattr(self, "reads", 0) + 1
        return self.rows[i] * self.reads


PLACES = iter(range(10**6))
GENERATOR = torch.Generator().manual_seed(0)
NUMBERS = np.random.default_rng(0)
KEPT = {
    "a count": Counting(rows(20)),
    "an iterator": Records(rows(20), lambda row: row * next(PLACES)),
    "a generator of PyTorch": Records(rows(20), lambda row: row + torch.randn(5, generator=GENERATOR)),
    "a generator of NumPy": Records(rows(20), lambda row: row + float(NUMBERS.standard_normal())),
}


@pytest.mark.parametrize("kept", KEPT)
def test_reading_keeps_nothing(kept):
    run = private(dataset=KEPT[kept])
    with pytest.raises(ValueError, match=r"^dataset and collate_fn must make the same of a record"):
        next(iter(run.loader))
    assert run.steps_ == 0


def test_an_odd_record_does_not_change_the_type_of_others():
    """PyTorch's collation makes floats of all numbers, and float64 of all arrays, if one of them is so."""
    from tightdp.torch import PoissonLoader

    for usual, odd in ((3, 2.5), (np.float32([1.0]), np.float64([1.0])), (torch.zeros(2), torch.zeros(3))):
        parts = [part for batch in PoissonLoader([usual, usual, odd, usual], 1.0, 1) for part in batch.parts()]
        assert [records for _, records in parts] == [3, 1]
        alone = torch.utils.data.default_collate([usual])
        assert parts[0][0].dtype == alone.dtype and parts[0][0].shape[1:] == alone.shape[1:]
