"""What other libraries mean by a noise multiplier, which relations they accept, and how their classes are called."""

import inspect

import numpy as np
import pytest

import tightdp as dp

dpa = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
from dp_accounting import dp_event  # noqa: E402

import tightdp.adapters.dp_accounting as ours  # noqa: E402
from tightdp.adapters.dp_accounting import RdpAccountant, TightDPAccountant, from_event, to_event  # noqa: E402

ADD, ONE, SPECIAL = (dpa.NeighboringRelation(i) for i in (1, 2, 3))
RELATIONS = ADD, ONE, SPECIAL
G, L, Fixed = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent, dp_event.SampledWithoutReplacementDpEvent
EVENTS = {
    "Gaussian": G(2.0),
    "Laplace": L(2.0),
    "discrete Laplace": dp_event.DiscreteLaplaceDpEvent(0.5, 1),
    "Poisson Gaussian": dp_event.PoissonSampledDpEvent(0.1, G(2.0)),
    "Poisson Laplace": dp_event.PoissonSampledDpEvent(0.1, L(2.0)),
    "fixed size": Fixed(100, 10, G(2.0)),
    "with replacement": dp_event.SampledWithReplacementDpEvent(100, 10, G(2.0)),
    "truncated": dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 2.0),
    "mixture": dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.5, 0.5]),
    "randomised response": dp_event.RandomizedResponseDpEvent(0.5, 3),
    "zCDP": dp_event.ZCDpEvent(0.1),
    "tree": dp_event.SingleEpochTreeAggregationDpEvent(3.0, 10),
    "repeat and select": dp_event.RepeatAndSelectDpEvent(G(4.0), 10, 1),
}
BEYOND = {
    # Kinds of events, or relations, that theirs have not implemented, and why ours may.
    ("with replacement", ONE): "no accountant of theirs knows the event: docs/theory/mixtures.md section 6",
    ("with replacement", SPECIAL): "no accountant of theirs knows the event: docs/theory/mixtures.md section 6",
    ("fixed size", SPECIAL): "a record in place is exchanged for one that contributes nothing: mixtures.md section 4",
    ("discrete Laplace", ONE): "two contributions of the stated sensitivity: conversions.md section 1",
    ("Poisson Laplace", ONE): "docs/theory/grid.md section 6.2",
    ("mixture", ONE): "docs/theory/mixtures.md section 2",
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", EVENTS)
def test_what_both_originals_refuse_is_refused_or_has_a_reason(kind, relation):
    served = [theirs.supports(EVENTS[kind]) for theirs in (dpa.pld.PLDAccountant(relation), renyi(relation))]
    expected = any(served) or (kind, relation) in BEYOND
    assert TightDPAccountant(relation).supports(EVENTS[kind]) == expected
    assert not (any(served) and (kind, relation) in BEYOND)


def renyi(relation, orders=None):
    return dpa.rdp.RdpAccountant(orders, relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", EVENTS)
def test_in_the_place_of_the_renyi_accountant(kind, relation):
    """What theirs bounds ours bounds below that, and reads alike: a Gaussian is about as private to both. What theirs
    refuses because of the relation, ours does."""
    event, theirs, found = EVENTS[kind], renyi(relation), RdpAccountant(None, relation)
    known = any(renyi(other).supports(event) for other in RELATIONS)
    if theirs.supports(event):
        epsilon, above = found.compose(event).get_epsilon(1e-5), theirs.compose(event).get_epsilon(1e-5)
        assert above * 0.4 <= epsilon <= above * (1 + 1e-12)
    elif known and (kind, relation) not in BEYOND:
        assert not found.supports(event)


@pytest.mark.parametrize("kind", ["Gaussian", "Poisson Gaussian", "truncated"])
def test_in_the_place_of_the_accountant_of_distributions(kind):
    """Under REPLACE_ONE theirs doubles what a contribution may be, and so does ours. Half the noise would be another
    epsilon altogether. Of truncated samples theirs bounds more than the pair."""
    ours_, theirs = (kind_(ONE).compose(EVENTS[kind]) for kind_ in (TightDPAccountant, dpa.pld.PLDAccountant))
    above = theirs.get_epsilon(1e-5)
    assert above * (0.95 if kind == "truncated" else 1 - 1e-3) <= ours_.get_epsilon(1e-5) <= above


def test_fixed_size_by_the_sensitivity():
    """The sensitivity under the relation is all that the pair of a sample of fixed size needs. 256 of 60,000, 14,000
    times: theirs is 5.23."""
    event = Fixed(60_000, 256, G(1.1))
    above = renyi(ONE).compose(event, 14_000).get_epsilon(1e-5)
    run = dp.FixedSizeSampled(dp.Gaussian(2.2), 256, 60_000) * 14_000
    for found in (RdpAccountant(None, ONE), TightDPAccountant(ONE), RdpAccountant(neighboring_relation=ONE)):
        found.compose(event, 14_000)
        assert found.composition == run
    assert 2.4 < found.get_epsilon(1e-5) < 2.5 < above
    strict = TightDPAccountant(ONE, noise_relative_to="contribution").compose(event)
    assert strict.composition == dp.FixedSizeSampled(dp.Gaussian(1.1), 256, 60_000) * 1


def test_noise_relative_to_the_sensitivity_is_that_of_the_pair():
    """N(0, s^2) on a query of sensitivity 1 under REPLACE_ONE is the pair N(1, s^2), N(0, s^2), as closed forms say."""
    for event, run in ((G(1.5), dp.Gaussian(1.5)), (L(1.5), dp.Laplace(1.5))):
        for unit in ("sensitivity", "clipped_sum"):
            found = TightDPAccountant(ONE, noise_relative_to=unit).compose(event, 3)
            assert found.get_epsilon(1e-6) == (run * 3).epsilon(1e-6).upper
        twice = type(run)(0.75) * 3
        assert TightDPAccountant(ONE).compose(event, 3).get_epsilon(1e-6) == twice.epsilon(1e-6).upper
        for relation in (ADD, SPECIAL):
            found = TightDPAccountant(relation, noise_relative_to="sensitivity").compose(event, 3)
            assert found.get_epsilon(1e-6) == (run * 3).epsilon(1e-6).upper


def test_integers_of_an_odd_sensitivity():
    """An integer query of sensitivity 1 under REPLACE_ONE, which is no sum of contributions of 1/2."""
    event = dp_event.DiscreteLaplaceDpEvent(0.5, 1)
    assert RdpAccountant(None, ONE).compose(event).get_epsilon(0) == pytest.approx(0.5, rel=1e-12)
    assert TightDPAccountant(ONE).compose(event).get_epsilon(0) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("kind", ["Poisson Gaussian", "truncated", "with replacement", "mixture"])
def test_a_sensitivity_alone_says_nothing_of_a_record_that_is_not_drawn(kind):
    """The record's two values may both be 1 from nothing, and 1 apart: nothing holds but for sums that are clipped."""
    found = TightDPAccountant(ONE, noise_relative_to="sensitivity")
    assert not found.supports(EVENTS[kind])
    with pytest.raises(dpa.UnsupportedEventError, match="where noise is relative to the sensitivity"):
        found.compose(EVENTS[kind])
    assert TightDPAccountant(ONE, noise_relative_to="clipped_sum").supports(EVENTS[kind])


def test_guarantees_of_replacement_on_a_sample_that_varies():
    """However deep they are: a record that is not drawn is no replacement."""
    once = dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(0.1), 1)
    for inner in (dp_event.ZCDpEvent(0.1), once, dp_event.ComposedDpEvent([once])):
        assert not TightDPAccountant(ONE).supports(dp_event.PoissonSampledDpEvent(0.5, inner))
        assert TightDPAccountant(SPECIAL).supports(dp_event.PoissonSampledDpEvent(0.5, inner))


def test_batches_by_position_are_refused_where_a_record_that_leaves_shifts_the_rest():
    """Steps of +1, -1, ... without the first record all change sign: N(2, s^2) at every one of 99 steps."""
    tree = dp_event.SingleEpochTreeAggregationDpEvent(3.0, 100)
    for relation in (ADD, ONE):
        for found in (TightDPAccountant(relation), RdpAccountant(None, relation)):
            with pytest.raises(dpa.UnsupportedEventError, match="REPLACE_SPECIAL"):
                found.compose(tree)
    assert TightDPAccountant(SPECIAL).compose(tree).get_epsilon(1e-5) == (dp.Gaussian(3.0) * 7).epsilon(1e-5).upper


def test_usual_calls_of_the_renyi_accountant():
    orders = [1, 1.5, 2, 8, 64]
    for found in (RdpAccountant(orders), RdpAccountant(orders, ONE), RdpAccountant(np.array(orders))):
        assert found.orders.tolist() == orders
        theirs = renyi(found.neighboring_relation, orders).compose(G(4.0), 10)
        epsilon, order = found.compose(G(4.0), 10).get_epsilon_and_optimal_order(1e-5)
        above, best = theirs.get_epsilon_and_optimal_order(1e-5)
        assert epsilon <= above and order == best
        delta, order = found.get_delta_and_optimal_order(1.0)
        assert 0 < delta <= theirs.get_delta(1.0) and order in orders
        assert np.allclose(found.rdp, theirs.rdp, rtol=1e-5)
    as_theirs = TightDPAccountant(orders, ONE)
    assert as_theirs.neighboring_relation == ONE and as_theirs.orders.tolist() == orders
    assert as_theirs.compose(G(2.0)).get_epsilon(1e-5) == dp.Gaussian(2.0).epsilon(1e-5).upper
    assert TightDPAccountant(orders).neighboring_relation == ADD
    assert RdpAccountant([1.0]).get_epsilon_and_optimal_order(1e-5) == (0.0, 1.0)
    for bad in ([0.5], [], "x", [[2.0]]):
        with pytest.raises((TypeError, ValueError), match=r"orders|neighboring_relation"):
            TightDPAccountant(bad)
    with pytest.raises(TypeError, match="orders"):
        TightDPAccountant([2.0], orders=[2.0])
    with pytest.raises(ValueError, match="noise_relative_to"):
        TightDPAccountant(ONE, noise_relative_to="record")


def is_callable_as(ours_, theirs):
    """Each positional call of theirs binds to ours, by the same names in the same places."""
    mine = inspect.signature(ours_).parameters
    if any(p.kind is p.VAR_POSITIONAL for p in mine.values()):
        return True
    places = [p.name for p in mine.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in mine.values())
    for i, p in enumerate(inspect.signature(theirs).parameters.values()):
        if p.kind is p.POSITIONAL_OR_KEYWORD and places[i : i + 1] != [p.name]:
            return False
        if p.kind is p.KEYWORD_ONLY and p.name not in mine and not takes_all:
            return False
    return True


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")} | {"__init__"}


@pytest.mark.parametrize(
    ("ours_", "theirs"),
    [(RdpAccountant, dpa.rdp.RdpAccountant), (TightDPAccountant, dpa.pld.PLDAccountant)],
)
def test_signatures_are_those_of_the_originals(ours_, theirs):
    assert not public(theirs) - public(ours_)
    for name in public(theirs):
        if inspect.isfunction(getattr(theirs, name)):
            assert is_callable_as(getattr(ours_, name), getattr(theirs, name)), name


def test_round_trips_say_what_noise_is_relative_to():
    run = dp.FixedSizeSampled(dp.Gaussian(2.0), 10, 100) * 3
    assert from_event(to_event(run), ONE, "contribution") == run
    assert from_event(to_event(run), ONE) == dp.FixedSizeSampled(dp.Gaussian(4.0), 10, 100) * 3
    assert ours.from_event(G(2.0), ONE, "sensitivity") == dp.Gaussian(4.0) * 1


def test_guarantees_beside_samples_of_a_replacement():
    """What is stated for a replacement composes with the pair of a replaced record in a Poisson sample."""
    sample = dp_event.PoissonSampledDpEvent(0.1, G(1.0))
    alone = TightDPAccountant(ONE).compose(sample, 10)
    both = TightDPAccountant(ONE).compose(sample, 10).compose(dp_event.ZCDpEvent(1e-4))
    assert both.get_epsilon(1e-5) >= alone.get_epsilon(1e-5)
    renyi_alone = alone.composition.epsilon(1e-5, neighbors="replace", engine="renyi").upper
    assert both.get_epsilon(1e-5) <= renyi_alone * 1.1


def test_divergences_are_exact():
    """Of order 1.5, where theirs is 3 % above, by quadrature; and of infinite order."""
    event = dp_event.PoissonSampledDpEvent(0.01, G(2.5))
    found = RdpAccountant([1.5, np.inf]).compose(event, 50)
    z = np.linspace(-60.0, 60.0, 400_001)
    ratio = 0.99 + 0.01 * np.exp((2 * z - 1) / (2 * 2.5**2))
    density = np.exp(-((z / 2.5) ** 2) / 2) / (2.5 * np.sqrt(2 * np.pi))
    above = ratio**1.5 - 1 - 1.5 * (ratio - 1)  # what is subtracted has the mean 0
    truth = 50 * np.log1p(np.sum(above * density) * (z[1] - z[0])) / 0.5
    assert found.rdp[0] == pytest.approx(truth, rel=1e-6) and found.rdp[1] == np.inf
    assert RdpAccountant([np.inf]).compose(L(2.0), 3).rdp[0] == pytest.approx(1.5, rel=1e-12)
