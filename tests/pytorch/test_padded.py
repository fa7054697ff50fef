"""Physical batches of one shape: a record's bits follow from it and its place, and places say nothing of the others."""

import itertools

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from scipy import stats
from small import cross_entropy, mlp, private, table
from test_one_pass import CASES

import tightdp as dp
from tightdp.torch.algorithm_sums.importance_sums import ExactUnitSums
from tightdp.torch.batches.batch_places import BatchPlaces, choose_number_of_batch_places, draw_batch_places
from tightdp.torch.gradient_sums.exact_sums import ExactSums
from tightdp.torch.gradient_sums.per_example_gradients import PerExampleGradients


def places_of(found, rows, size):
    return tuple(int(np.flatnonzero(found == row)[0]) % size for row in rows)


@pytest.mark.parametrize("rows", [[11, 22], [11, 15, 22], [3, 11, 15, 16, 22, 40, 41]])
def test_a_record_draws_its_place_whatever_others_are_there(rows):
    """Places of two records are independent and uniform, however many records there are, more than places as well."""
    counts, source = dict.fromkeys(itertools.product(range(4), range(4)), 0), dp.Philox(3)
    for _ in range(6000):
        found = draw_batch_places(np.array(rows), 4, source)
        counts[places_of(found, [11, 22], 4)] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6


@pytest.mark.parametrize("size", [1, 8, 64])
@pytest.mark.parametrize("records", [0, 1, 7, 500])
def test_records_fill_the_first_physical_batch_that_has_their_place(records, size):
    rows = np.arange(records) * 3
    found = draw_batch_places(rows, size, dp.Philox(5)).reshape(-1, size)
    assert sorted(found[found >= 0]) == list(rows)
    for place in found.T:
        taken = (place >= 0).sum()
        assert (place[:taken] >= 0).all() and (np.diff(place[:taken]) > 0).all()
    assert (found >= 0).any(axis=1).all()  # no physical batch is all empty


def test_the_price_is_what_the_page_says():
    """docs/theory/training.md, section 8"""

    def rows(records, size):
        return np.mean([len(draw_batch_places(np.arange(records), size, dp.Philox(k))) for k in range(200)]) / records

    assert all(1.25 < rows(32 * size, size) < 1.5 for size in (16, 32)) and 1.8 < rows(8 * 64, 64) < 2.2
    assert [choose_number_of_batch_places(expected) for expected in (1e-6, 60, 512, 2500, 1e6)] == [8, 8, 64, 64, 64]


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # attention is taken record by record there
@pytest.mark.parametrize("case", ["mlp", "language", "attention of PyTorch", "convolutions"])
def test_integers_of_a_record_follow_from_it_and_its_place(case):
    """Sums of records in their places are sums of the sums of each of them alone in its place, bit for bit."""
    build, loss_fn, data = CASES[case]
    model, batch = build(), data()
    parameters = dict(model.named_parameters())
    plan = private(model, noise_multiplier=1.0, max_norm=0.1).plan

    def integers(chosen, where):
        sums = ExactSums(plan, parameters)
        sums.add(
            model, loss_fn, [tensor[list(chosen)] for tensor in batch], len(chosen), BatchPlaces(np.array(where), 16)
        )
        return sums.integers()[0]

    chosen, where = [4, 0, 7, 8, 2], [1, 2, 7, 11, 15]
    together = integers(chosen, where)
    alone = sum(integers([record], [place]) for record, place in zip(chosen, where, strict=True))
    assert torch.equal(together, alone) and together.any()
    plain = ExactSums(plan, parameters)
    plain.add(model, loss_fn, [tensor[chosen] for tensor in batch], len(chosen))
    assert (together - plain.integers()[0]).abs().max() < 2e-5 * together.abs().max()


@pytest.mark.parametrize("size", [None, 4])
def test_all_physical_batches_have_one_shape(size, monkeypatch):
    seen, taken, of = set(), [], PerExampleGradients.yield_per_example_gradients
    monkeypatch.setattr(
        PerExampleGradients,
        "yield_per_example_gradients",
        lambda self, batch, n: (seen.add((n, *batch[0].shape)), of(self, batch, n))[1],
    )
    run = private(mlp(), table(400), batch_size=12, noise_multiplier=1.0, padded=True, physical_size=size,
                  arithmetic="exact")  # fmt: skip
    for batch in run.loader:
        taken.append(len(batch.rows))
        run.step(cross_entropy, batch)
    seen -= {(2, 2, 5), (1, 1, 5)}  # a look at the first records
    places = run.loader.physical_batch_size
    assert seen == {(places, places, 5)} and places == (size or 8)
    assert len(set(taken)) > 5 and max(taken) > places
    assert "place in a physical batch" in " ".join(run.statement_.outside)


@pytest.mark.parametrize("algorithm", ["dp-sgd", "adaclip", "dpis"])
def test_a_padded_run_takes_the_same_batches(algorithm):
    """The sums are those without, up to the rounding of floats: with a seed batches and noise are the same too."""
    found = []
    for padded in (False, True):
        torch.manual_seed(1)
        run = private(mlp(), table(60), noise_multiplier=1.0, random_state=5, padded=padded, physical_size=4,
                      algorithm=algorithm)  # fmt: skip
        found.append((run.fit(cross_entropy), [p.detach() for p in run.model.parameters()]))
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert found[0][0].history_ == found[1][0].history_


def test_a_batch_without_records_and_a_model_that_is_taken_one_by_one():
    run = private(mlp(), table(60), batch_size=1e-6, epochs=1e-7, noise_multiplier=1.0, padded=True)
    run.fit(cross_entropy)
    assert run.steps_ == run.plan.steps

    class Branches(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else -super().forward(x)

    run = private(Branches(5, 3), table(60), batch_size=30, noise_multiplier=1.0, padded=True, arithmetic="one-by-one")
    run.step(cross_entropy, next(iter(run.loader)))
    assert set(run.ways_.values()) == {"one record after the other"}


@pytest.mark.parametrize("size", [None, 5])
def test_dpis_finds_the_norm_of_a_record_from_it_and_its_place(size, monkeypatch):
    """Candidates, and all records before an epoch: norms that are compared and remembered, bit for bit."""
    noted, norms = [], ExactUnitSums.find_importance_norms
    records = table(30)
    model = mlp()
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    run = private(model, records, still, algorithm="dpis", noise_multiplier=1.0, padded=True, physical_size=size)

    def kept(self, model, loss_fn, batch, records, places=None):
        found = norms(self, model, loss_fn, batch, records, places)
        noted.append((batch, places, found))
        return found

    monkeypatch.setattr(ExactUnitSums, "find_importance_norms", kept)
    run.step(cross_entropy, next(iter(run.loader)))
    assert sum(len(found) for _, _, found in noted) == 30
    assert len(np.unique(np.concatenate([found for _, _, found in noted]))) == 30
    sums = run._sums
    for batch, places, found in noted:
        assert places.size == (size or 8)
        for i, place in enumerate(places.where):
            one = [tensor[i : i + 1] for tensor in batch]
            assert norms(sums, model, cross_entropy, one, 1, BatchPlaces(np.array([place]), places.size)) == found[i]


def test_what_is_refused():
    with pytest.raises(TypeError, match="padded must be True or False, got 1"):
        private(padded=1)
    with pytest.raises(ValueError, match="padded must be False for"):
        private(padded=True, arithmetic="float")
