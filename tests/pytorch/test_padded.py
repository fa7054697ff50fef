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
from tightdp.torch.exact_sums import ExactSums
from tightdp.torch.materialized import Gradients
from tightdp.torch.padded import Places, placed, places_for


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize(
    "records, probability", [(60, 0.1), (1000, 0.5), (60_000, 512 / 60_000), (10**6, 1e-6), (5, 1)]
)
def test_a_batch_overflows_its_places_by_a_chance_below_2_to_the_minus_64(records, probability, size):
    places = places_for(records, probability, size)
    assert places % size == 0 and places <= -(-records // size) * size
    assert stats.binom.logsf(places, records, probability) <= -64 * np.log(2)
    if probability < 1 and size == 1:  # and with a fifth fewer it would be by more
        assert stats.binom.logsf(int(places * 0.8), records, probability) > -64 * np.log(2)


def test_places_are_those_of_a_random_order():
    """Every way to place two rows in four is as likely as any other."""
    counts = dict.fromkeys(itertools.permutations(range(4), 2), 0)
    source = dp.Philox(3)
    for _ in range(6000):
        found = placed(np.array([11, 22]), 4, 2, source)
        assert sorted(found) == [-1, -1, 11, 22]
        counts[tuple(int(np.flatnonzero(found == row)[0]) for row in (11, 22))] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6
    assert len(placed(np.arange(9), 4, 2, source)) == 10  # further physical batches, where they are too few
    assert len(placed(np.arange(0), 4, 2, source)) == 4


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
        sums.add(model, loss_fn, [tensor[list(chosen)] for tensor in batch], len(chosen), Places(np.array(where), 16))
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
    seen, taken, of = set(), [], Gradients.of
    monkeypatch.setattr(Gradients, "of", lambda self, batch, n: (seen.add((n, *batch[0].shape)), of(self, batch, n))[1])
    run = private(mlp(), table(400), batch_size=12, noise_multiplier=1.0, padded=True, physical_batch_size=size)
    for batch in run.loader:
        taken.append(len(batch.rows))
        run.step(cross_entropy, batch)
    seen.discard((2, 2, 5))  # a look at the first records
    places = run.loader.physical_batch_size
    assert seen == {(places, places, 5)} and places == (size or places_for(400, 0.03, 1))
    assert len(set(taken)) > 5
    assert "place in a physical batch" in " ".join(run.statement_.outside)


@pytest.mark.parametrize("algorithm", ["dp-sgd", "adaclip"])
def test_a_padded_run_takes_the_same_batches(algorithm):
    """The sums are those without, up to the rounding of floats: with a seed batches and noise are the same too."""
    found = []
    for padded in (False, True):
        torch.manual_seed(1)
        run = private(mlp(), table(60), noise_multiplier=1.0, random_state=5, padded=padded, physical_batch_size=4,
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

    run = private(Branches(5, 3), table(60), batch_size=30, noise_multiplier=1.0, padded=True)
    run.step(cross_entropy, next(iter(run.loader)))
    assert set(run.ways_.values()) == {"one record after the other"}


def test_what_is_refused():
    with pytest.raises(TypeError, match="padded must be True or False, got 1"):
        private(padded=1)
    for settings in ({"arithmetic": "float"}, {"algorithm": "dpis"}):
        with pytest.raises(ValueError, match="padded must be False for"):
            private(padded=True, **settings)
