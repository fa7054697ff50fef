"""Loaders that users hand to our engine for Opacus: public divisors, records that are dicts, samplers, targets."""

import pytest

pytest.importorskip("torch", reason="needs torch and Opacus")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from tightdp.adapters import opacus as ours

pytestmark = pytest.mark.filterwarnings(
    "ignore:Full backward hook:UserWarning",
    "ignore:Secure RNG:UserWarning",
    "ignore:with poisson_sampling=False:UserWarning",
)


def make(loader, engine=None, **options):
    """A linear model in the hands of our engine, with the loader."""
    model = torch.nn.Linear(3, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **options}
    made = (engine or ours.PrivacyEngine()).make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), data_loader=loader, **options
    )
    return made


def zeros(n):
    return TensorDataset(torch.zeros(n, 3))


@pytest.mark.parametrize("poisson", [True, False])
def test_the_divisor_does_not_depend_on_the_number_of_records(poisson):
    """One record more leaves the scale of a release as it is, unless there is one more batch an epoch."""
    divisors = {make(DataLoader(zeros(n), batch_size=50), poisson_sampling=poisson)[1].expected_batch_size
                for n in range(101, 151)}  # fmt: skip
    assert divisors == {50}


def test_the_divisor_is_kept_where_a_loader_is_made_private_again():
    private = make(DataLoader(zeros(130), batch_size=50))[2]
    assert make(private)[1].expected_batch_size == 50


def test_the_divisor_of_a_process_is_its_part(monkeypatch):
    """A sampler that splits records over four processes declares the batch of one of them."""
    sampler = torch.utils.data.distributed.DistributedSampler(zeros(130), num_replicas=4, rank=0)
    engine = ours.PrivacyEngine()
    engine._divisor = ours.batches.read_opacus_batch_size(DataLoader(zeros(130), batch_size=10, sampler=sampler))
    assert engine._divisor == 40
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    inner = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    made = engine._prepare_optimizer(
        optimizer=inner, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=9, clipping="flat"
    )
    assert made.expected_batch_size == 40


@pytest.mark.parametrize("sampler", [
    WeightedRandomSampler([1.0] * 60, 60),
    RandomSampler(range(60), replacement=True),
    RandomSampler(range(60), num_samples=30),
    SubsetRandomSampler(range(30)),
])  # fmt: skip
@pytest.mark.parametrize("poisson", [True, False])
def test_samplers_that_draw_other_batches_are_refused(sampler, poisson):
    with pytest.raises(ValueError, match=rf"^data_loader must .*{type(sampler).__name__}"):
        make(DataLoader(zeros(60), batch_size=10, sampler=sampler), poisson_sampling=poisson)


def test_batch_samplers_of_a_users_own_are_refused():
    class Odd(BatchSampler):
        pass

    batches = Odd(SequentialSampler(range(60)), 10, False)
    with pytest.raises(ValueError, match=r"^data_loader must have a batch_size, got the batch sampler Odd"):
        make(DataLoader(zeros(60), batch_sampler=batches))


@pytest.mark.parametrize("record", [
    lambda i: {"x": torch.full((3,), float(i)), "y": i},
    lambda i: {"x": torch.full((3,), float(i)), "z": {"deep": (torch.zeros(2), 1.0)}},
    lambda i: (torch.full((3,), float(i)), {"y": i}),
    lambda i: torch.full((3,), float(i)),
])  # fmt: skip
def test_an_empty_first_batch_has_the_form_of_the_others(record):
    records = [record(i) for i in range(8)]
    loader = make(DataLoader(records, batch_size=1))[2]
    empty, whole = loader.collate_fn([]), loader.collate_fn(records)

    def same_form(a, b):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == (0, *b.shape[1:])
        elif isinstance(a, dict):
            assert a.keys() == b.keys()
            for key in a:
                same_form(a[key], b[key])
        else:
            for one, other in zip(a, b, strict=True):
                same_form(one, other)

    same_form(empty, whole)


@pytest.mark.parametrize("epsilon, rate, batches", [(100.0, 50, 10), (30.0, 20, 40), (300.0, 100, 2), (3.0, 20, 40)])
def test_what_is_reported_meets_what_was_asked_for(epsilon, rate, batches):
    """The account answers for the planned steps with no more than the target, at any noise."""
    engine = ours.PrivacyEngine()
    model = torch.nn.Linear(3, 1)
    loader = DataLoader(zeros(rate * 10), batch_size=10)
    _, optimizer, _ = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=1e-5,
        epochs=batches / rate,
        max_grad_norm=1.0,
    )
    for _ in range(batches):
        engine.accountant.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=1 / rate)
    assert epsilon * (1 - 1e-3) <= engine.get_epsilon(1e-5) <= epsilon
