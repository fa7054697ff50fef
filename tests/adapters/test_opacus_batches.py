"""Which batches one step of Opacus' loop releases, and what it is charged for them."""

import math

import pytest

import tightdp as dp

pytest.importorskip("torch", reason="needs torch and Opacus")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader, TensorDataset

from tightdp.adapters import opacus as ours

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook:UserWarning", "ignore:Secure RNG:UserWarning"),
    pytest.mark.filterwarnings("ignore:with poisson_sampling=False:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


class Run:
    """200 equal records, each of which adds (1, 0, ...) to a sum: the norm of a sum is the number of records in it."""

    def __init__(self, *, poisson=True, batch_size=100, workers=0, noise=1e-6):
        self.engine = ours.PrivacyEngine()
        model = torch.nn.Linear(5, 1, bias=False)
        x = torch.zeros(200, 5)
        x[:, 0] = 10
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=DataLoader(TensorDataset(x), batch_size=batch_size, num_workers=workers),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            loss_reduction="sum",
            poisson_sampling=poisson,
        )

    def step(self, x):
        """A physical batch: what the step released, or None where it was skipped."""
        self.model(x).sum().backward()
        self.optimizer.step()
        skipped = self.optimizer._is_last_step_skipped
        released = None if skipped else self.model._module.weight.grad.norm().item()
        self.optimizer.zero_grad()
        return released

    def split(self, physical=30):
        return BatchMemoryManager(data_loader=self.loader, max_physical_batch_size=physical, optimizer=self.optimizer)

    @property
    def history(self):
        return self.engine.accountant.history


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("left", [1, 2])
def test_what_a_left_loop_summed_is_dropped(workers, left):
    """After ``break`` within a logical batch the next one is released alone, also where batches were loaded ahead."""
    run = Run(workers=workers)
    with run.split() as loader:
        for i, (x,) in enumerate(loader, 1):
            assert run.step(x) is None
            if i == left:
                break
    with run.split() as loader:
        records = 0
        for (x,) in loader:
            records += len(x)
            released = run.step(x)
            if released is not None:
                assert released == pytest.approx(records, abs=0.01)
                records = 0
    assert run.history == [(1e-6, 0.5, 2)]


def test_a_batch_left_before_its_step_is_dropped():
    """By hand, and on the loader itself."""
    run = Run()
    for (x,) in run.loader:
        run.optimizer.signal_skip_step(True)
        run.step(x)
        run.optimizer.signal_skip_step(True)  # whose step an error prevents
        break
    for (x,) in run.loader:
        assert run.step(x) == pytest.approx(len(x), abs=0.01)
    assert run.history == [(1e-6, 0.5, 2)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_split_by_hand_is_one_batch(workers):
    run = Run(workers=workers)
    for (x,) in run.loader:
        for i, part in enumerate(parts := x.split(30), 1):
            run.optimizer.signal_skip_step(i < len(parts))
            released = run.step(part)
        assert released == pytest.approx(len(x), abs=0.01)
    assert run.history == [(1e-6, 0.5, 2)]


@pytest.mark.parametrize("k", [2, 4])
def test_poisson_batches_in_one_step_are_charged_as_so_many(k):
    """A record may be in each of them: k steps with noise of 1/sqrt(k) (docs/theory/training.md, section 5)."""
    run = Run(batch_size=50, noise=2.0)
    for i, (x,) in enumerate(run.loader, 1):
        run.optimizer.signal_skip_step(i % k != 0)
        run.step(x)
    [(sigma, q, steps)] = run.history
    assert (q, steps) == (0.25, 4)
    assert sigma <= 2 / math.sqrt(k) and sigma == pytest.approx(2 / math.sqrt(k), rel=1e-15)


@pytest.mark.parametrize("q, k, sigma", [(0.5, 2, 1.0), (0.1, 5, 2.0), (0.9, 3, 1.0)])
def test_the_charge_for_several_batches_covers_them(q, k, sigma):
    """The truth is a mixture: a record is in j of the k batches with a binomial probability."""
    shares = [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
    truth = dp.MixtureOfGaussians(sigma, tuple(map(float, range(k + 1))), tuple(shares))
    charged = dp.PoissonSampled(dp.Gaussian(sigma / math.sqrt(k)), q) * k
    for epsilon in (0.1, 1.0, 3.0):
        assert truth.delta(epsilon).lower <= charged.delta(epsilon).upper * (1 + 1e-12)
    if q == 0.5:  # while the sum of the rates would be too little
        assert truth.delta(3.0).lower > dp.Gaussian(sigma).delta(3.0).upper


def test_gradients_of_several_poisson_batches_that_are_kept():
    """Opacus forbids it where batches are Poisson's; who allows it is charged for each."""
    run = Run(batch_size=50, noise=2.0)
    run.model.allow_grad_accumulation()
    batches = iter(run.loader)
    run.model(next(batches)[0]).sum().backward()
    run.step(next(batches)[0])
    [(sigma, q, steps)] = run.history
    assert (q, steps) == (0.25, 2) and sigma == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("kept", [True, False])
def test_disjoint_batches_are_charged_by_the_sum_of_their_rates(kept):
    run = Run(poisson=False, batch_size=50, noise=2.0)
    for i, (x,) in enumerate(run.loader, 1):
        if kept and i % 2:
            run.model(x).sum().backward()
        else:
            run.optimizer.signal_skip_step(i % 2 != 0)
            run.step(x)
    assert run.history == [(2.0, 0.5, 2)]


def test_a_loader_within_its_own_loop():
    """While batches are split the outer loop does not go on, for its batches could no longer be told apart."""
    run = Run(batch_size=20)
    with run.split(8) as loader, pytest.raises(RuntimeError, match="anew"):
        for (x,) in loader:
            run.step(x)
            next(iter(run.loader))
    run = Run()
    for (x,) in run.loader:  # nothing is split: any loop may stand in the other
        next(iter(run.loader))
        assert run.step(x) == pytest.approx(len(x), abs=0.01)
    assert run.history == [(1e-6, 0.5, 2)]


@pytest.mark.parametrize(
    "options, named",
    [({"sample_rate": 2}, "sample_rate"), ({"sample_rate": 0.0}, "sample_rate"), ({"sample_rate": math.nan},
     "sample_rate"), ({"sample_rate": "a"}, "sample_rate"), ({"steps": -1}, "steps"), ({"steps": 2.5}, "steps"),
     ({"num_samples": 0}, "num_samples"), ({"num_samples": 2.5}, "num_samples")],
)  # fmt: skip
def test_bad_samplers(options, named):
    with pytest.raises((ValueError, TypeError), match=f"^{named} must be"):
        ours.PoissonSampler(**{"num_samples": 10, "sample_rate": 0.1, **options})


def test_samplers_of_no_batch():
    assert list(ours.PoissonSampler(num_samples=10, sample_rate=0.1, steps=0)) == []
