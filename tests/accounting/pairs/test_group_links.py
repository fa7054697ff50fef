"""Groups whose links differ: samples that are cut have one record fewer at each, against enumerated samples."""

import itertools
import math

import numpy as np
import pytest

import tightdp as dp
from tightdp.composition import sort_composition_parts

ndtr = np.vectorize(lambda t: 0.5 * math.erfc(-t / math.sqrt(2)))


def batches(records, q, most):
    """The law of a Poisson sample that is cut to ``most`` records: probabilities of sets."""
    found = {}
    for k in range(len(records) + 1):
        for drawn in itertools.combinations(records, k):
            share = q**k * (1 - q) ** (len(records) - k)
            kept = list(itertools.combinations(drawn, min(k, most)))
            for batch in kept:
                found[batch] = found.get(batch, 0.0) + share / len(kept)
    return found


def hockey(p, q, epsilon):
    return math.fsum(max(p.get(y, 0.0) - math.exp(epsilon) * q.get(y, 0.0), 0.0) for y in {*p, *q})


def gaussian_delta(p, q, sigma, epsilon):
    """At least that of the mixtures with the given masses of means: of the best union of small intervals."""
    edges = np.concatenate(([-np.inf], np.linspace(-12, 12, 4001), [np.inf]))
    one, other = (
        sum(mass * np.diff(ndtr((edges - mean) / sigma)) for mean, mass in law.items() if mass > 0) for law in (p, q)
    )
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


def sums(law, contribution):
    found = {}
    for batch, mass in law.items():
        total = sum(contribution[record] for record in batch)
        found[total] = found.get(total, 0.0) + mass
    return found


# Of the group's records and of the others, what they contribute.
ALIKE = 1.0, 0.0
OPPOSED = 1.0, -1.0
FAINT = 1e-300
"""More than tails that are no normal doubles round by."""


@pytest.mark.parametrize(
    ("sigma", "q", "most", "n", "size"),
    [
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.2, 0.5, 1, 3, 3), (0.3, 1.0, 5, 10, 5))),
        (0.2, 0.9, 1, 2, 2),
        (1.0, 0.7, 2, 4, 2),
    ],
)
def test_a_cut_sample_of_gaussian_noise(sigma, q, most, n, size):
    run = dp.TruncatedPoissonSampled(dp.Gaussian(sigma), q, most, n).group(size)
    records = tuple(range(n))
    there, gone = batches(records, q, most), batches(records[size:], q, most)
    for epsilon in (0.0, 3.0):
        removed, added = (run.delta(epsilon, neighbors=relation) for relation in ("remove", "add"))
        for inside, outside in (ALIKE, OPPOSED):
            contribution = [inside if record < size else outside for record in records]
            p, without = sums(there, contribution), sums(gone, contribution)
            assert removed.upper >= gaussian_delta(p, without, sigma, epsilon) * (1 - 1e-12) - FAINT
            assert added.upper >= gaussian_delta(without, p, sigma, epsilon) * (1 - 1e-12) - FAINT


def product(law, times):
    found = {(): 1.0}
    for _ in range(times):
        found = {(*y, one): mass * share for y, mass in found.items() for one, share in law.items()}
    return found


def selected(law, order, mean):
    """The best of a geometric number of runs: f(F) over the steps of F, f(x) = x / (mean - (mean - 1) x)."""
    found, below, reached = {}, 0.0, 0.0
    for y in order:
        below = min(below + law.get(y, 0.0), 1.0)
        step = below / (mean - (mean - 1) * below)
        found[y], reached = step - reached, step
    return found


@pytest.mark.parametrize(
    ("q", "most", "n", "size"),
    [
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.5, 1, 3, 2), (0.9, 1, 2, 2), (1.0, 2, 4, 2))),
        (0.3, 2, 4, 3),
    ],
)
def test_a_cut_sample_that_is_shown(q, most, n, size):
    """(0, 1)-DP tells the batch. Alone, composed, repeated and as groups of groups, at both directions."""
    step = dp.TruncatedPoissonSampled(dp.ApproximateDP(0.0, 1.0), q, most, n)
    records = tuple(range(n))
    there, gone = batches(records, q, most), batches(records[size:], q, most)
    search = dp.RepeatAndSelect(step, 3.0)
    runs = [(step.group(size), there, gone), ((step * 2).group(size), product(there, 2), product(gone, 2))]
    order = sorted({*there, *gone}, key=lambda batch: there.get(batch, 0.0) / (gone.get(batch, 0.0) or 1e-9))
    runs.append((search.group(size), selected(there, order, 3.0), selected(gone, order, 3.0)))
    if size == 2:
        runs.append((dp.RepeatAndSelect(step.group(2), 3.0), *runs[-1][1:]))
        runs.append((dp.Group(dp.Group(search, 2), 1), *runs[2][1:]))
    for run, p, without in runs:
        for epsilon in (0.0, 0.7, 2.0):
            assert run.delta(epsilon, neighbors="remove").upper >= hockey(p, without, epsilon) * (1 - 1e-12)
            assert run.delta(epsilon, neighbors="add").upper >= hockey(without, p, epsilon) * (1 - 1e-12)


def test_a_group_of_groups_is_a_group():
    """Of two and then two again: the second link has two records fewer."""
    step = dp.TruncatedPoissonSampled(dp.ApproximateDP(0.0, 1.0), 0.8, 1, 4)
    records = tuple(range(4))
    there, gone = batches(records, 0.8, 1), batches((), 0.8, 1)
    for nested in (dp.Group(dp.Group(step, 2), 2), dp.Group(dp.RepeatAndSelect(dp.Group(step, 2), 1.0, 2.0), 2)):
        for relation, truth in (("remove", hockey(there, gone, 1.0)), ("add", hockey(gone, there, 1.0))):
            assert nested.delta(1.0, neighbors=relation).upper >= truth * (1 - 1e-12)
    with pytest.raises(ValueError, match=r"^size must be at most the number of records of the data set, 2"):
        dp.Group(dp.Group(step, 2), 3)


def test_others_of_a_cut_sample_may_be_far_from_the_group():
    """An event whose probabilities are a with a record of the group, b with none and c with another, of (4, .001)-DP.

    Of three records one is kept; two of them are the group. With a, b, c for the batches the truth is .1465.
    """
    epsilon, delta, q = 4.0, 1e-3, 0.1
    grown = math.exp(epsilon)
    b = (1 - delta) / (1 + grown)
    a, c = min(grown * b + delta, 1 - (1 - delta - b) / grown) * (1 - 1e-12), (b - delta) / grown * (1 + 1e-12)
    for one, other in ((a, b), (b, a), (b, c), (c, b)):
        assert one <= grown * other + delta and 1 - one <= grown * (1 - other) + delta
    event = {(): b, (0,): a, (1,): a, (2,): c}
    there, gone = batches((0, 1, 2), q, 1), batches((2,), q, 1)
    p, without = (math.fsum(mass * event[batch] for batch, mass in law.items()) for law in (there, gone))
    run = dp.TruncatedPoissonSampled(dp.ApproximateDP(epsilon, delta), q, 1, 3).group(2)
    assert run.delta(1.0).upper >= p - math.e * without > 0.1465


def test_a_group_has_at_most_all_records():
    step = dp.TruncatedPoissonSampled(dp.Gaussian(1.0), 0.5, 1, 3)
    fixed = dp.FixedSizeSampled(dp.Gaussian(1.0), 1, 3)
    drawn = dp.SampledWithReplacement(dp.Gaussian(1.0), 1, 3)
    for run in (step, fixed, drawn, step * 5 + dp.Laplace(1.0), dp.RepeatAndSelect(fixed, 2.0)):
        run.group(3)
        with pytest.raises(ValueError, match=r"^size must be at most the number of records of the data set, 3, got 4"):
            run.group(4)
    assert dp.PoissonSampled(dp.Gaussian(1.0), 0.5).group(4)


@pytest.mark.parametrize("relation", ["replace", "replace_special"])
def test_relations_that_keep_the_number_of_records_have_one_pair_at_every_link(relation):
    """A record of n is in the batch with a probability that all links share."""
    q, most, n = 0.5, 1, 3
    for step in (
        dp.TruncatedPoissonSampled(dp.ApproximateDP(0.0, 1.0), q, most, n),
        dp.FixedSizeSampled(dp.ApproximateDP(0.0, 1.0), 1, n),
    ):
        law = (
            batches((0, 1, 2), q, most) if isinstance(step, dp.TruncatedPoissonSampled) else batches((0, 1, 2), 1.0, 1)
        )
        for size in (1, 2, 3):
            # Under "replace" the new records are told from the old; one that contributes nothing is not there.
            new = {}
            for batch, mass in law.items():
                shown = tuple(r if r >= size else r + 10 for r in batch)
                shown = tuple(r for r in shown if r < 10) if relation == "replace_special" else shown
                new[shown] = new.get(shown, 0.0) + mass
            for epsilon in (0.0, 1.0):
                truth = max(hockey(law, new, epsilon), hockey(new, law, epsilon))
                assert step.group(size).delta(epsilon, neighbors=relation).upper >= truth * (1 - 1e-12)


def test_parts_of_links_are_in_their_order():
    """What engines remember is asked for by its canonical parts."""
    from tightdp.accounting.pairs.neighbors import translate_parts_to_fewer_records

    run = (dp.TruncatedPoissonSampled(dp.Gaussian(1.0), 0.5, 2, 4) + dp.Laplace(2.0) * 3).parts
    for gone, count in ((0, 4), (1, 3)):
        found = translate_parts_to_fewer_records(run, gone)
        assert found == sort_composition_parts(found)
        assert (dp.TruncatedPoissonSampled(dp.Gaussian(1.0), 0.5, 2, count), 1) in found
    # Two records are never cut to two.
    assert (dp.PoissonSampled(dp.Gaussian(1.0), 0.5), 1) in translate_parts_to_fewer_records(run, 2)
