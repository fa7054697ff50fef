"""Poisson batches: who is in them, how they come, and what is refused."""

import copy
import inspect
import pickle

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import private
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

import tightdp as dp
from tightdp.torch import PoissonLoader
from tightdp.torch.batches.poisson_loader import SAFE_OPTIONS
from tightdp.torch.batches.record_reader import DatasetReader, RecordCollator


class Squares(Dataset):
    """Records that are no tensors."""

    def __len__(self):
        return 50

    def __getitem__(self, index):
        return {"index": index, "square": float(index**2)}


def indices(batch):
    return [int(i) for part, _ in batch.parts() for i in part[0]]


def numbers(n):
    return TensorDataset(torch.arange(n))


def test_each_record_is_drawn_with_the_probability_that_is_charged():
    n, q, steps = 400, 0.03, 500
    counts = np.zeros(n)
    sizes = []
    for batch in PoissonLoader(numbers(n), q, steps):
        rows = indices(batch)
        assert rows == sorted(set(rows))
        counts[rows] += 1
        sizes.append(len(rows))
    total = counts.sum()
    assert abs(total - n * steps * q) < 5 * np.sqrt(n * steps * q * (1 - q))
    assert abs(np.var(sizes) / (n * q * (1 - q)) - 1) < 5 * np.sqrt(2 / steps)
    assert (counts > 0).all()


def test_draws_of_two_batches_are_independent():
    q, steps = 0.5, 4000
    drawn = np.array([[i in rows for i in range(2)] for rows in map(indices, PoissonLoader(numbers(2), q, steps))])
    for a, b in [(drawn[:, 0], drawn[:, 1]), (drawn[:-1, 0], drawn[1:, 0])]:
        assert abs(np.mean(a & b) - q * q) < 5 * np.sqrt(q * q * (1 - q * q) / steps)


def test_an_epoch_is_the_smallest_number_of_batches_that_sees_a_record_once_on_average():
    assert [len(PoissonLoader(numbers(10), q)) for q in (1.0, 0.5, 0.3, 0.1, 1 / 3, 1 / 64)] == [1, 2, 4, 10, 3, 64]


def test_with_probability_one_a_batch_is_everything():
    assert [indices(batch) for batch in PoissonLoader(numbers(7), 1.0, 2)] == [list(range(7))] * 2


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_physical_batches_are_pieces_of_the_same_draw(size):
    whole = [indices(batch) for batch in PoissonLoader(numbers(90), 0.1, rng=dp.Philox(1))]
    loader = PoissonLoader(numbers(90), 0.1, rng=dp.Philox(1), physical_batch_size=size)
    found = []
    for batch in loader:
        parts = [(part[0].tolist(), records) for part, records in batch.parts()]
        assert all(len(rows) == records <= size for rows, records in parts)
        found.append([i for rows, _ in parts for i in rows])
    assert found == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_empty_batches_are_batches(workers):
    q, steps = 0.02, 60
    loader = PoissonLoader(Squares(), q, steps, rng=dp.Philox(3), num_workers=workers)
    sizes = [sum(records for _, records in batch.parts()) for batch in loader]
    assert len(sizes) == steps and sizes.count(0) > steps * (1 - q) ** 50 / 2 and max(sizes) > 1
    assert sizes == [len(rows) for rows in map(indices, PoissonLoader(numbers(50), q, steps, rng=dp.Philox(3)))]


def test_a_data_set_without_records():
    assert [indices(batch) for batch in PoissonLoader(numbers(0), 0.5, 3)] == [[]] * 3


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_and_ways_of_collating(workers):
    loader = PoissonLoader(Squares(), 0.3, 5, physical_batch_size=4, num_workers=workers, rng=dp.Philox(2))
    plain = PoissonLoader(numbers(50), 0.3, 5, rng=dp.Philox(2))
    for batch, other in zip(loader, plain, strict=True):
        rows = [int(i) for part, _ in batch.parts() for i in part["index"]]
        assert rows == indices(other)
    strings = PoissonLoader(Squares(), 0.3, 2, collate_fn=lambda records: [str(r["index"]) for r in records])
    with pytest.raises(ValueError, match="a list of str"):
        [list(batch.parts()) for batch in strings]


def test_batches_may_be_kept_and_skipped():
    a = [indices(batch) for batch in list(PoissonLoader(Squares(), 0.2, 8, rng=dp.Philox(5), collate_fn=by_index))]
    b = [indices(batch) for batch in PoissonLoader(Squares(), 0.2, 8, rng=dp.Philox(5), collate_fn=by_index)]
    assert a == b
    skipped = []
    for k, batch in enumerate(PoissonLoader(Squares(), 0.2, 8, rng=dp.Philox(5), collate_fn=by_index)):
        if k % 2:
            skipped.append(indices(batch))
    assert skipped == a[1::2]


def by_index(records):
    return [torch.tensor([record["index"] for record in records])]


def test_a_batch_is_used_once():
    batch = next(iter(PoissonLoader(numbers(10), 0.5)))
    list(batch.parts())
    assert batch.is_used
    with pytest.raises(RuntimeError, match="used before"):
        batch.parts()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="used once"):
            copied(batch)


def test_a_growing_data_set_is_drawn_from_as_it_is():
    records = [torch.tensor(0)]
    loader = PoissonLoader(records, 1.0, 3)
    sizes = []
    for batch in loader:
        sizes.append(sum(n for _, n in batch.parts()))
        records.append(torch.tensor(0))
    assert sizes == [1, 2, 3]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


@pytest.mark.parametrize(
    "wrong", [DataLoader(numbers(3)), DataLoader(numbers(3), shuffle=True), Stream(), iter([1]), 3]
)
def test_what_has_no_records_by_index_is_refused(wrong):
    with pytest.raises(TypeError, match=r"^dataset must"):
        PoissonLoader(wrong, 0.1)


def test_options_that_are_not_known_to_be_safe_are_refused():
    """Whatever ``DataLoader`` takes, of any version."""
    known = set(inspect.signature(DataLoader).parameters) - {"dataset", "collate_fn"}
    assert {"in_order", "shuffle", "sampler", "generator", "worker_init_fn"} <= known - set(SAFE_OPTIONS)
    for name in (known | {"nonsense"}) - set(SAFE_OPTIONS):
        with pytest.raises(TypeError, match=rf"^{name} must be left out.*num_workers, .*timeout"):
            PoissonLoader(numbers(3), 0.1, **{name: False})
    with pytest.raises(TypeError, match=r"^in_order must be left out"):
        private(in_order=False, num_workers=2)


def test_options_that_are_safe_change_no_batch():
    options = {"num_workers": 2, "prefetch_factor": 3, "persistent_workers": True, "timeout": 100,
               "multiprocessing_context": "fork", "pin_memory": False}  # fmt: skip
    assert options.keys() | {"pin_memory_device"} == set(SAFE_OPTIONS)
    found, plain = (PoissonLoader(Squares(), 0.3, 6, physical_batch_size=4, rng=dp.Philox(2), **given)
                    for given in (options, {}))  # fmt: skip
    for batch, other in zip(found, plain, strict=True):
        rows, expected = ([part["index"].tolist() for part, _ in each.parts()] for each in (batch, other))
        assert rows == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sampling_probability", 0.0),
        ("sampling_probability", 1.5),
        ("sampling_probability", float("nan")),
        ("steps", 0),
        ("steps", 1.5),
        ("physical_batch_size", 0),
        ("collate_fn", 3),
        ("rng", 3),
    ],
)
def test_bad_settings(name, value):
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must"):
        PoissonLoader(**{"dataset": numbers(3), "sampling_probability": 0.5, name: value})


class Refilled(Dataset):
    """Returns its one buffer, filled anew with each record, as a tensor, an array or within a dict."""

    def __init__(self, kind):
        self.kind, self.buffer = kind, torch.zeros(3)

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.buffer[:] = index
        x = self.buffer.numpy() if self.kind == "array" else self.buffer
        return {"x": x} if self.kind == "dict" else (x, index)


@pytest.mark.parametrize("collate", [None, default_collate])
@pytest.mark.parametrize("kind", ["tensor", "array", "dict"])
def test_a_buffer_that_is_filled_again_holds_no_other_record(kind, collate):
    """What a record was when it was read stays, whatever the data set writes into its memory afterwards."""
    reader = DatasetReader(Refilled(kind), collate)
    records = [reader[index, 0] for index in range(12)]
    (found, count) = RecordCollator(alone=collate is not None, in_order=False)(records)[0]
    x = found["x"] if kind == "dict" else found[0]
    assert count == 12 and x.tolist() == [[float(index)] * 3 for index in range(12)]


class ReadOneByOne(TensorDataset):
    """Another type than ``TensorDataset``, whose records are read one after the other."""


def test_tensors_read_by_block_have_the_bits_of_records_read_one_by_one():
    drawn = np.random.default_rng(4)
    bits = torch.from_numpy(drawn.integers(0, 2**32, (50, 3, 2), dtype=np.uint32)).view(torch.float32)  # NaN among them
    tensors = bits, torch.arange(50), torch.from_numpy(drawn.random((50, 2))).to(torch.bfloat16), bits.mT
    one, other = (
        [part for batch in PoissonLoader(kind(*tensors), 0.3, 20, rng=dp.Philox(7)) for part in batch.parts()]
        for kind in (TensorDataset, ReadOneByOne)
    )
    assert [records for _, records in one] == [records for _, records in other]
    for (found, _), (expected, _) in zip(one, other, strict=True):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
            assert all(a.data_ptr() != x.data_ptr() for x in tensors)


def test_the_rows_of_a_batch_cannot_be_changed():
    batch = next(iter(PoissonLoader(TensorDataset(torch.arange(6.0)), sampling_probability=1.0)))
    with pytest.raises(AttributeError):
        batch.rows = batch.rows[:1]
    batch.rows[:] = 0
    assert batch.rows.tolist() == [0, 1, 2, 3, 4, 5]
