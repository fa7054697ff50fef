"""DPIS in PyTorch: who is taken, what is added, the charge of ``tightdp.train``, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, notes, private, still, table
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp.torch.batches.importance_loader import ImportanceCandidates
from tightdp.torch.randomness.process_group import World
from tightdp.torch.randomness.run_key import RunKey
from tightdp.train import DPIS, CallableModel, fit

CHANCE = 1e-9


def parameters(model):
    return dict(model.named_parameters())


def rows_by_hand(model, records):
    rows = []
    for x, y in records:
        found = torch.autograd.grad(cross_entropy(model, (x[None], y[None])).sum(), list(model.parameters()))
        rows.append(torch.cat([g.reshape(-1) for g in found]).double().numpy())
    return np.array(rows)


def likely(hits, trials, p):
    return stats.binomtest(int(hits), trials, min(p, 1.0)).pvalue > CHANCE


@pytest.mark.parametrize("settings", [{"epsilon": 2.0}, {"noise_multiplier": 1.5}])
@pytest.mark.parametrize(("share", "batch"), [(0.5, 6), (0.1, 7.5), (1.0, 3)])
def test_it_is_charged_what_train_charges(share, batch, settings):
    def gradients(w, X, y):
        return np.zeros((len(X), 1))

    records = table(60)
    run = private(dataset=records, algorithm=DPIS(norm_share=share), batch_size=batch, epochs=2, **settings)
    plain = DPIS(batch, 2, norm_share=share, noise_multiplier=settings.get("noise_multiplier"))
    other = fit(CallableModel(1, gradients), records.tensors[0].numpy(), records.tensors[1].numpy(), plain,
                epsilon=settings.get("epsilon"), delta=1e-5, public_size=60)  # fmt: skip
    assert run.charged_ == other.charged and run.privacy_ == other.privacy
    run.fit(cross_entropy)
    assert run.history_ == other.history


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_sums_are_of_unit_vectors_of_those_that_are_taken(arithmetic):
    model, records = mlp(), table(30)
    run = private(
        model, records, algorithm=DPIS(norm_share=0.5), batch_size=6, max_norm=0.7, noise_multiplier=1.0,
        arithmetic=arithmetic,
    )  # fmt: skip
    rows = rows_by_hand(model, records)
    mask = np.arange(30) % 3 == 0
    candidates = run.loader.candidates
    norms, start = [], iter((0, 20))

    def taken(given):
        norms.extend(given)
        begin = next(start)
        return mask[begin : begin + len(given)]

    candidates.select_importance_loader_rows = taken
    sums = run._begin_step_sums_of_private_run(parameters(model))
    for some in (slice(0, 20), slice(20, 30)):
        part = [t[some] for t in records.tensors]
        sums.add(model, cross_entropy, part, len(part[0]))
    assert np.allclose(norms, np.linalg.norm(rows, axis=1), rtol=1e-4)
    expected = (0.7 * rows / np.linalg.norm(rows, axis=1)[:, None])[mask].sum(0)
    assert np.allclose(torch.cat([v.reshape(-1) for v in sums.convert_to_floats()]).numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("later", [False, True])
def test_records_are_taken_in_proportion_to_their_clipped_norms(later):
    """Where all records were just looked at, and later, when the norms of some grew or shrank meanwhile."""
    plan = private(algorithm=DPIS(norm_share=0.5, reach=2.0), batch_size=6, noise_multiplier=1.0, max_norm=2.0).plan
    q, n, trials = plan.sampling_probability, 7, 20_000
    assert q == pytest.approx(0.2)
    norms = np.array([0.0, 1e-3, 0.5, 1.0, 2.0, 50.0, math.nan])
    before = np.array([1.0, 1e-3, 0.5, 0.6, 1.5, 0.02, 1.0]) if later else norms
    candidates, hits = ImportanceCandidates(plan, RunKey(World(), int(later))), np.zeros(n)
    for number in range(trials):
        candidates.begin_importance_loader_norms(np.arange(n), np.arange(n), everyone=True)
        candidates.note_importance_loader_norms(before)
        candidates.renew_importance_bounds(World())
        rows = candidates.draw_importance_loader_candidates(number)
        candidates.begin_importance_loader_norms(rows, np.arange(len(rows)), everyone=False)
        hits[rows] += candidates.select_importance_loader_rows(norms[rows])
    clipped = np.minimum(np.nan_to_num(norms), 2.0)
    if later:
        clipped = np.minimum(clipped, 2.0 * np.maximum(np.minimum(before, 2.0), 0.05 * 2.0))
    assert all(likely(h, trials, q * c / 2.0) for h, c in zip(hits, clipped, strict=True))
    assert (hits[np.isnan(norms)] == 0).all()


def test_estimates_are_unbiased():
    """The mean over many steps, of a model that stands still, is that of clipped gradients, and noise has its size."""
    model, records = mlp(), table(40)
    stands = torch.optim.SGD(model.parameters(), lr=0.0)
    run = private(
        model, records, stands, algorithm=DPIS(norm_share=0.5), batch_size=2, epochs=20, max_norm=0.8,
        noise_multiplier=0.1,
    )  # fmt: skip
    found = []
    while run.steps_ < run.plan.steps:
        for batch in run.loader:
            run.step(cross_entropy, batch)
            found.append(torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double().numpy())
    rows = rows_by_hand(model, records)
    lengths = np.linalg.norm(rows, axis=1)
    expected = (rows * np.minimum(1, 0.8 / lengths)[:, None]).mean(0)
    q, steps = run.plan.sampling_probability, len(found)
    weights = q * np.minimum(lengths, 0.8) / 0.8
    units = 0.8 * rows / lengths[:, None]
    variance = ((weights * (1 - weights))[:, None] * units**2).sum(0) + (0.1 * 0.8) ** 2
    off = (np.mean(found, 0) - expected) * (q * 40) / np.sqrt(variance / steps)
    assert np.abs(off).max() < 5.5 and off.std() < 1.4


def test_candidates_are_drawn_when_a_step_takes_them():
    run = private(dataset=table(60), algorithm=DPIS(reach=1.5), epochs=2, noise_multiplier=1.0)
    looks, everyone = [], run.loader.share_records_of_importance_batch
    run.loader.share_records_of_importance_batch = lambda: looks.append(run.steps_) or everyone()
    epoch = list(run.loader)
    assert len(epoch) == run.plan.steps_per_epoch == 10 and all(len(batch.rows) == 0 for batch in epoch)
    sizes = []
    for batch in epoch + list(run.loader):
        run.step(cross_entropy, batch)
        sizes.append(len(batch.rows))
        assert batch.is_used
    assert looks == [0, 10] and 0 < max(sizes) < 60
    with pytest.raises(dp.BudgetExceeded):
        next(iter(run.loader))


def test_a_step_that_fails_leaves_no_bounds_behind():
    run = private(dataset=table(60), algorithm="dpis", noise_multiplier=1.0, physical_size=7)
    batches = iter(run.loader)
    notes().clear()

    def fails(model, batch):
        notes().append(len(batch[0]))
        if len(notes()) == 6:
            raise MemoryError
        return cross_entropy(model, batch)

    run.step(cross_entropy, next(batches))
    with pytest.raises(MemoryError):
        while True:
            run.step(fails, next(batches))
    assert run.steps_ < 10
    with pytest.raises(RuntimeError, match="ended by an error"):
        run.step(cross_entropy, next(batches))
    again = private(dataset=table(60), algorithm="dpis", noise_multiplier=1.0)
    again.load_state_dict(run.state_dict(), after_failure=True)
    assert again.fit(cross_entropy).steps_ == 10


def test_noise_on_no_records_at_all():
    records = TensorDataset(torch.zeros(0, 300), torch.zeros(0, dtype=torch.long))
    model = torch.nn.Linear(300, 200, bias=False)
    run = private(model, records, algorithm="dpis", public_size=60, max_norm=0.5, noise_multiplier=1.7)
    run.step(still, next(iter(run.loader)))
    noise = model.weight.grad.double().numpy().ravel() * run.plan.divisor / (1.7 * 0.5)
    assert run.plan.divisor == pytest.approx(12)
    assert abs(noise.mean()) < 5 / 60000**0.5 and abs(noise.var() - 1) < 5 * (2 / 60000) ** 0.5


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"num_workers": 2}, "num_workers must be 0"),
        ({"max_norm": [1.0] * 4}, "max_norm must be one number for DPIS"),
        ({"epochs": 1.5}, "epochs"),
        ({"algorithm": DPIS(max_norm=2.0)}, "algorithm must leave max_norm"),
        ({"algorithm": DPIS(average=0.0)}, "algorithm must leave average"),
    ],
)
def test_what_is_refused(settings, match):
    with pytest.raises((ValueError, TypeError), match=match):
        private(**{"algorithm": "dpis", **settings})


def test_a_resumed_run_looks_at_all_records_first():
    records = table(60)
    run = private(dataset=records, algorithm="dpis", noise_multiplier=1.0)
    run.step(cross_entropy, next(iter(run.loader)))
    other = private(dataset=records, algorithm="dpis", noise_multiplier=1.0)
    other.load_state_dict(run.state_dict())
    assert other.loader.must_look_at_all
    other.step(cross_entropy, next(iter(other.loader)))
    assert other.steps_ == 2 and not other.loader.must_look_at_all
    third = private(dataset=records, algorithm=DPIS(reach=2.0), noise_multiplier=1.0)
    with pytest.raises(ValueError, match="state must be of a run with this plan"):
        third.load_state_dict(run.state_dict())
    outside = " ".join(other.statement_.outside)
    assert "DPIS" in str(other.statement_) and "time and the memory of a step" in outside
