"""The loaders of Poisson batches. They draw the index of each record of a data set independently of the others."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count, islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from ..._support import _check
from ...accounting.running_accounts.filters import BudgetExceeded
from ...clipping_and_noise.noise import RandomSource, resolve_random_source
from ...clipping_and_noise.sampling import draw_poisson_sample
from ..plan.run_account import RunAccount
from ..randomness.global_generators import (
    RunCoins,
    draw_check_order_from_generator,
    restore_numpy_and_random,
    yield_parts_with_restored_generators,
)
from ..randomness.process_group import World
from ..randomness.run_key import RunKey
from .batch_places import PLACE_STREAMS, BatchPlaces, RecordIndices, choose_number_of_batch_places, draw_batch_places
from .record_reader import AloneRead, DatasetReader, Part, RecordCollator, check_record_reader_repeats

SAFE_OPTIONS = (
    "multiprocessing_context", "num_workers", "persistent_workers", "pin_memory", "pin_memory_device",
    "prefetch_factor", "timeout",
)  # fmt: skip
"""Accepted options of ``DataLoader``. They decide where and when records are read, and change neither which records are
read nor their order. ``worker_init_fn`` is not accepted, because it could make workers differ. Which worker reads
a record depends on the other records of the draw, and the content of a record must not depend on them."""


FIRST_READ, LOOK_READS, AUDIT_READS = -1, -2, -(2**62)
"""Numbers used in place of a draw's number when records are read without a draw. ``FIRST_READ`` is for reading the
first record of the data set. ``LOOK_READS`` is for the first check that reading one record does not change
the next one, and ``AUDIT_READS`` for the first trial of an audit (``PrivateRun.audit``). Later checks and trials
count down from these numbers."""

REPEATED_RECORDS = 8
"""Number of records that are read three times each, to check that reading one record does not change the next."""


class Batch:
    """A Poisson sample of records from a ``PoissonLoader``. Each sample can be used once.

    ``parts()`` collates the records, that is stacks them to tensors, and yields parts of at most
    ``physical_batch_size`` records of one shape. An empty sample has no parts. The number of records is private.

    ``loader`` is the loader that drew the sample, and ``rows`` has the records' indices in the data set. ``parts``
    raises RuntimeError if it was called before.

    >>> import torch
    >>> from tightdp.torch import PoissonLoader
    >>> loader = PoissonLoader(torch.utils.data.TensorDataset(torch.arange(6.0)), sampling_probability=1.0)
    >>> batch = next(iter(loader))
    >>> [count for _, count in batch.parts()], batch.is_used
    ([6], True)
    """

    def __init__(self, loader: PoissonLoader, rows: RecordIndices, parts: Iterator[Any]) -> None:
        self.loader, self._rows = loader, rows[rows >= 0]
        self._placed = rows
        self._parts: Iterable[Any] | None = parts
        self._places: Iterator[BatchPlaces | None] = iter(
            [loader._make_batch_places(cut) for cut in loader._cut_physical_places(rows)]
        )

    @property
    def rows(self) -> RecordIndices:
        """The records' indices in the data set. The array is a copy, so changes to it change no step."""
        return np.array(self._rows)

    @property
    def is_used(self) -> bool:
        """Whether ``parts`` was called."""
        return self._parts is None

    @property
    def _digest_rows(self) -> bytes:
        """Digest of the sample. The processes of a run compare it, to check that they drew the same records."""
        return hashlib.blake2b(self._placed.tobytes()).digest()

    def _read_batch_before_draw(self) -> Iterator[Part] | None:
        """Returns the parts whose gradient norms are computed before the records of this step are drawn.

        Returns None for a Poisson sample, which is drawn without norms.
        """
        return None

    def parts(self) -> Iterator[Part]:
        """Returns an iterator over parts. A part is a pair of collated records and their number.

        Raises RuntimeError if the batch was used before.
        """
        if self._parts is None:
            raise RuntimeError("batch must be a fresh one: this one was used before, and each step needs its own draw")
        parts, self._parts = self._parts, None
        return iter(parts)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "batch must be passed to the run as it is, `run.step(loss_fn, batch)`: a step collates its records, and "
            "loss_fn(model, records) gets them, as in `x, y = records`"
        )

    def _hold_batch_parts(self) -> None:
        """Reads the remaining parts into memory, because the loader goes on to the next batch."""
        if self._parts is not None:
            self._parts = list(self._parts)

    def __reduce__(self) -> Any:
        raise TypeError("Batch cannot be copied or pickled: each draw is used once")


class PoissonLoader:
    """The loader of Poisson batches of ``dataset``.

    Each record is in each batch with probability ``sampling_probability``, independently of all other draws. The draws
    use the operating system's random numbers unless ``rng`` is given. The process that iterates over the loader makes
    the draws, never a worker. Each draw is over all indices of the data set. A batch may be empty. A private step must
    be taken on an empty batch too, because leaving the step out would reveal that no record was drawn.

    Parameters
    ----------
    dataset : a data set that has ``len`` and integer indices. Its length is read at every draw.
    sampling_probability : a number in (0, 1], which is rounded down to a multiple of 2^-64.
    steps : number of batches in an iteration. The default is an epoch, ceil(1 / sampling_probability).
    physical_batch_size : the largest number of records that are collated at once. None collates the whole batch.
    collate_fn : function that makes a batch from a list of one record. None takes PyTorch's own function. Records of
        different shapes go through the model in groups of equal shape.
    rng : source of random numbers. None draws securely. ``Philox`` makes the draws repeatable, for experiments.
    options : options of ``torch.utils.data.DataLoader`` that are in ``SAFE_OPTIONS``, such as ``num_workers`` and
        ``pin_memory``. Options that may choose records or their order, such as ``shuffle``, ``sampler`` and
        ``in_order``, are refused.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> loader = PoissonLoader(TensorDataset(torch.arange(100.0)), 0.1)
    >>> len(loader), sum(1 for batch in loader)
    (10, 10)
    """

    def __init__(
        self,
        dataset: Any,
        sampling_probability: float,
        steps: int | None = None,
        *,
        physical_batch_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        rng: RandomSource | None = None,
        **options: Any,
    ) -> None:
        self.dataset = check_torch_dataset(dataset)
        self._probability = _check.probability("sampling_probability", sampling_probability)
        self._steps = math.ceil(1 / self._probability) if steps is None else _check.check_count_argument("steps", steps)
        self.physical_batch_size = (
            None
            if physical_batch_size is None
            else _check.check_count_argument("physical_batch_size", physical_batch_size)
        )
        _check.check_function_argument("collate_fn", collate_fn, "records", optional=True)
        for name in sorted(options.keys() - set(SAFE_OPTIONS)):
            raise TypeError(
                f"{name} must be left out: Poisson sampling decides which records are in a batch, and in what order. "
                f"These options of DataLoader change neither and may be given: {', '.join(SAFE_OPTIONS)}"
            )
        workers = _check.check_count_argument("num_workers", options.get("num_workers", 0), least=0)
        wait = _check.nonnegative("timeout", options.get("timeout", 0))
        if wait and not workers:
            raise ValueError(
                f"timeout must be 0 without num_workers, got {wait:g}: it is how long workers are waited for"
            )
        self._source = resolve_random_source(rng)
        self._collate, self._options = collate_fn, options
        self._coins, self._draws = RunCoins(), count()
        self._make_torch_batch_loader([])  # PyTorch refuses bad options before any record is read

    @property
    def sampling_probability(self) -> float:
        """Probability with which each record is in each batch. It cannot be set, because the account relies on it."""
        return self._probability

    @property
    def steps(self) -> int:
        """Number of batches in an iteration."""
        return self._steps

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        return self._yield_step_batches(self._steps)

    def _yield_step_batches(self, steps: int) -> Iterator[Batch]:
        """Yields ``steps`` batches. PyTorch's loader may read ahead. Later batches are then drawn early."""
        drawn: deque[RecordIndices] = deque()

        def draw_pieces_of_batches() -> Iterator[tuple[int, RecordIndices]]:
            for rows in self._draw_poisson_loader_rows(steps):
                drawn.append(rows)
                number = next(self._draws)
                yield from ((number, piece) for piece in self._cut_poisson_loader_batches(rows))

        parts, ahead = iter(self._read_batch_parts(draw_pieces_of_batches())), deque[Any]()
        for _ in range(steps):
            # Reading the next part draws batches until one of them has records, or until the last batch is drawn.
            if not drawn:
                ahead.extend(islice(parts, 1))
            rows = drawn.popleft()
            batch = Batch(self, rows, self._take_batch_parts(rows, ahead, parts))
            yield batch
            batch._hold_batch_parts()

    def _take_batch_parts(self, rows: RecordIndices, ahead: deque[Any], parts: Iterator[Any]) -> Iterator[Any]:
        """Yields the parts of one batch. Parts that were read ahead come first."""
        for _ in self._cut_poisson_loader_batches(rows):
            yield from self._check_batch_parts(ahead.popleft() if ahead else next(parts))

    def _draw_poisson_loader_rows(self, steps: int) -> Iterator[RecordIndices]:
        return (self._draw_rows_of_batch(self._source) for _ in range(steps))

    def _draw_rows_of_batch(self, source: RandomSource) -> RecordIndices:
        records = len(self.dataset)
        rows = draw_poisson_sample(source, records, self._probability) if records else np.zeros(0, np.intp)
        return np.arange(records) if rows is None else rows

    def _cut_poisson_loader_batches(self, rows: RecordIndices) -> list[RecordIndices]:
        """Returns the records of each physical batch, which go through the model together."""
        return [cut[cut >= 0] for cut in self._cut_physical_places(rows)]

    def _cut_physical_places(self, rows: RecordIndices) -> list[RecordIndices]:
        """Returns the places of each physical batch that is not empty. ``rows`` has the places of the whole batch.

        A place is the index of its record, or -1 if it holds no record.
        """
        size = self.physical_batch_size or max(1, len(rows))
        cuts = (rows[start : start + size] for start in range(0, len(rows), size))
        return [cut for cut in cuts if (cut >= 0).any()]

    def _make_batch_places(self, cut: RecordIndices) -> BatchPlaces | None:
        """Returns the places of the records in a physical batch, or None without padding."""
        return None

    def _read_batch_parts(self, pieces: Iterable[tuple[int, RecordIndices]]) -> Iterator[list[Part]]:
        """Yields the collated parts of each piece. A piece is a pair of a draw's number and some records' indices."""
        if self._is_plain_tensors:
            tensors = self.dataset.tensors  # rows of these tensors equal the records that PyTorch reads and collates
            return ([([tensor[piece] for tensor in tensors], len(piece))] for _, piece in pieces)
        return yield_parts_with_restored_generators(
            iter(self._make_torch_batch_loader(self._seed_records_of_batch(pieces)))
        )

    @property
    def _is_plain_tensors(self) -> bool:
        """Whether records are rows of tensors, which need not be read one by one."""
        return type(self.dataset) is TensorDataset and self._collate is None and not self._options

    def _seed_records_of_batch(self, pieces: Iterable[tuple[int, RecordIndices]]) -> Iterator[list[tuple[int, int]]]:
        """Yields, for each piece, pairs of a record's index and the seed for reading this record."""
        for number, piece in pieces:
            yield [(int(i), self._coins.make_record_generator_seed(number, int(i))) for i in piece]

    def _check_batch_parts(self, parts: list[Part]) -> list[Part]:
        return parts

    def _make_torch_batch_loader(self, pieces: Any) -> Any:
        together = RecordCollator(alone=self._collate is not None, in_order=self._in_order)
        return DataLoader(
            DatasetReader(self.dataset, self._collate), batch_sampler=pieces, collate_fn=together, **self._options
        )

    _in_order = False
    """Whether records stay in the order in which they were drawn, instead of being grouped by shape."""


class RunLoader(PoissonLoader):
    """The loader of the Poisson batches of a run.

    One iteration is an epoch. The last iteration ends after the last step of the plan.

    Every process draws batch k of a run from stream k of the run's key, in the order of record indices. With
    ``physical_batch_size`` a batch is cut into the same physical batches on any number of processes, and the processes
    take the physical batches in turn. Without ``physical_batch_size`` a batch is cut into one piece for each process,
    and the pieces have about equal sizes.
    """

    def __init__(
        self, account: RunAccount, dataset: Any, key: RunKey, world: World, *, padded: bool = False, **options: Any
    ) -> None:
        plan = account.plan
        super().__init__(dataset, plan.sampling_probability, plan.steps_per_epoch, **options)
        self._account, self._key, self._world, self._coins = account, key, world, key.make_random_coins_of_key()
        self.padded, self._next, self._look_at = padded, 0, 0
        if padded and self.physical_batch_size is None:
            self.physical_batch_size = choose_number_of_batch_places(self._expected_batch_records)

    def read_first_record(self) -> Iterator[Part]:
        """Yields the first record of the data set, collated, and the number 1. Yields nothing if the data set is
        empty."""
        alone = [(FIRST_READ, np.zeros(1, np.intp))] if len(self.dataset) else []
        return chain.from_iterable(self._read_batch_parts(iter(alone)))

    def _read_batch_parts(self, pieces: Iterable[tuple[int, RecordIndices]]) -> Iterator[list[Part]]:
        with self._account.end_plan_on_error():
            yield from super()._read_batch_parts(pieces)

    def read_single_record_batches(self, rows: RecordIndices, number: int) -> list[AloneRead]:
        """Reads some records, each collated to a batch of one, with the seeds of draw ``number``."""
        reader = DatasetReader(self.dataset, self._collate or default_collate)
        with torch.random.fork_rng(devices=[]), restore_numpy_and_random():
            return [
                reader.read_record_content_for_batch((int(i), self._coins.make_record_generator_seed(number, int(i))))
                for i in rows
            ]

    def _check_dataset_reading(self) -> None:
        """Reads some random records repeatedly. Raises ValueError if a record depends on records read before it."""
        number = LOOK_READS - self._account.charged_steps
        rows = [
            self._coins.make_record_generator_seed(number, -1 - place) % len(self.dataset)
            for place in range(REPEATED_RECORDS)
        ]
        drawn = [(i, self._coins.make_record_generator_seed(number, i)) for i in rows]
        order = draw_check_order_from_generator(REPEATED_RECORDS, self._coins.make_common_seed(number))
        with torch.random.fork_rng(devices=[]), restore_numpy_and_random():
            check_record_reader_repeats(DatasetReader(self.dataset, self._collate or default_collate), drawn, order)

    def _draw_poisson_loader_rows(self, steps: int) -> Iterator[RecordIndices]:
        first = max(self._next, self._account.charged_steps)  # a resumed run skips the streams of its charged steps
        self._next = first + steps
        for number in range(first, first + steps):
            yield self._place_batch_rows(self._draw_rows_of_batch(self._key.make_run_key_source(number)), 2 * number)

    @property
    def _expected_batch_records(self) -> float:
        """Expected number of records that go through the model in a step."""
        return self._account.plan.batch_size

    def _place_batch_rows(self, rows: RecordIndices, number: int) -> RecordIndices:
        """Returns the rows in random places. Without padding, returns ``rows`` unchanged.

        ``number`` is the number of the stream for the draws, counted from ``PLACE_STREAMS``.
        """
        if not self.padded or self.physical_batch_size is None:
            return rows
        return draw_batch_places(rows, self.physical_batch_size, self._key.make_run_key_source(PLACE_STREAMS + number))

    def _cut_physical_places(self, rows: RecordIndices) -> list[RecordIndices]:
        rank, size = self._world.rank, self._world.size
        if self.physical_batch_size is not None:
            return super()._cut_physical_places(rows)[rank::size]
        share = rows[len(rows) * rank // size : len(rows) * (rank + 1) // size]
        return [share] if len(share) else []

    def _check_batch_parts(self, parts: list[Part]) -> list[Part]:
        if self.padded and len(parts) > 1:
            raise ValueError(
                "padded must be False for records of different shapes, or collate_fn must pad each to one fixed length"
            )
        return parts

    def _make_batch_places(self, cut: RecordIndices) -> BatchPlaces | None:
        return BatchPlaces(np.flatnonzero(cut >= 0), len(cut)) if self.padded else None

    def __iter__(self) -> Iterator[Batch]:
        left = self._account.remaining_steps
        if left == 0:
            raise BudgetExceeded(
                f"all {self._account.plan.steps} steps of the plan were taken: make another run, which is charged anew"
            )
        if len(self.dataset) and not self._is_plain_tensors and self._account.charged_steps >= self._look_at:
            self._look_at = self._account.charged_steps + self._account.plan.steps_between_looks
            with self._account.end_plan_on_error():
                self._check_dataset_reading()
        return self._yield_step_batches(min(self.steps, left))


def check_torch_dataset(dataset: Any) -> Any:
    """Returns the data set. Raises TypeError unless it gives records by index, which loaders and streams do not."""
    if isinstance(dataset, DataLoader):
        raise TypeError(
            "dataset must be the data set itself, got a DataLoader: its batches are shuffled or in order, and the "
            "account is that of Poisson batches. Pass loader.dataset, and take batches from the run's own loader"
        )
    if isinstance(dataset, tuple) and dataset and isinstance(dataset[0], (torch.Tensor, np.ndarray)):
        raise TypeError(
            "dataset must have records by index, got a tuple of arrays: pass TensorDataset(x, y) of torch.utils.data, "
            "of tensors whose first axis is that of the records"
        )
    if isinstance(dataset, Mapping) and len(dataset) and 0 not in dataset:
        raise TypeError(
            f"dataset must have records by index, got {type(dataset).__name__}, a mapping by other keys: pass the part "
            "that has the records, or TensorDataset(x, y) of torch.utils.data"
        )
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise TypeError(
            f"dataset must have a length and records by index, got {type(dataset).__name__}: Poisson sampling draws "
            "each record by its index"
        )
    return dataset
