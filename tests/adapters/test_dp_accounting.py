"""The accountant behind dp_accounting's interface: their conformance class, their expected values, and what theirs gets
wrong."""

import copy
import math
import pickle
import threading
import unittest

import numpy as np
import pytest

import tightdp as dp

dpa = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
from absl.testing import absltest  # noqa: E402
from dp_accounting import dp_event, privacy_accountant_test  # noqa: E402

from tightdp.adapters.dp_accounting import TightDPAccountant, from_event  # noqa: E402

ADD, ONE, SPECIAL = (dpa.NeighboringRelation(i) for i in (1, 2, 3))
RELATIONS = ADD, ONE, SPECIAL
G, L = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent
Poisson, Times, All = dp_event.PoissonSampledDpEvent, dp_event.SelfComposedDpEvent, dp_event.ComposedDpEvent
Response, Discrete = dp_event.RandomizedResponseDpEvent, dp_event.DiscreteLaplaceDpEvent


class Conformance(privacy_accountant_test.PrivacyAccountantTest):
    """Their suite for accountants, on ours."""

    def _make_test_accountants(self):
        return [TightDPAccountant(relation) for relation in RELATIONS]


def test_their_conformance_class_runs_whole():
    suite = absltest.TestLoader().loadTestsFromTestCase(Conformance)
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun >= 13 and result.wasSuccessful() and not result.skipped, (result.errors, result.failures)


def account(event, relation=ADD, count=1):
    return TightDPAccountant(relation).compose(event, count)


@pytest.mark.parametrize(
    ("event", "relation", "epsilon", "delta", "digits"),
    [
        (Times(G(math.sqrt(3)), 3), ADD, 1.0, 0.126936, 1e-6),  # one Gaussian of multiplier 1
        (Times(Poisson(0.2, G(0.5)), 3), ADD, 1.0, 0.15594, 1e-5),
        (
            Times(G(1.0), 1),
            ONE,
            2.0,
            0.5 + 0.5 * math.erf(0.0) - math.exp(2) * 0.5 * math.erfc(2 / math.sqrt(2)),
            1e-12,
        ),
    ],
)
def test_their_expected_values(event, relation, epsilon, delta, digits):
    """Values of pld_privacy_accountant_test, and of a closed form, to the digits they are given with."""
    found = account(event, relation)
    assert abs(found.get_delta(epsilon) - delta) <= digits
    assert abs(found.get_epsilon(delta) - epsilon) <= 30 * digits


MIXTURES = All(
    [
        Times(dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]), 3),
        Times(dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 2.0, 3.0], [0.33, 0.34, 0.33]), 2),
    ]
)
TRUNCATED = All(
    [
        Times(dp_event.TruncatedSubsampledGaussianDpEvent(4, 0.5, 2, 1.0), 3),
        Times(dp_event.TruncatedSubsampledGaussianDpEvent(3, 0.5, 2, 1.0), 2),
    ]
)


@pytest.mark.parametrize(("event", "expected", "below"), [(MIXTURES, 17.193115, 1e-4), (TRUNCATED, 17.904330, 0.5)])
def test_their_expected_values_on_a_grid(event, expected, below):
    """At delta 1e-6, where their grid is above the truth. Of a truncated sample our pair is another, and smaller."""
    assert expected * (1 - below) <= account(event).get_epsilon(1e-6) <= expected * (1 + 1e-6)


@pytest.mark.parametrize(
    ("event", "relation", "largest"),
    [
        (All([Times(L(1.0), 3), Times(L(2.0), 2)]), ADD, 4.0),
        (All([Times(L(1.0), 3), Times(L(2.0), 2)]), ONE, 8.0),
        (All([Times(Discrete(1.0, 1), 3), Times(Discrete(0.5, 1), 2)]), ADD, 4.0),
        (Times(Poisson(0.2, L(0.5)), 3), ADD, 3 * math.log1p(0.2 * math.expm1(2.0))),
        (Response(4 / (3 + math.e), 4), ONE, 1.0),
        (Response((4 - math.e) / 3, 4), SPECIAL, 1.0),
        (Response(math.exp(-1), 2), SPECIAL, 1.0),
        (Times(Response(0.5, 2), 5), ONE, 5 * math.log(3)),
        # Corollary 3 of Papernot and Steinke: shape + 2 times the loss of one run.
        (dp_event.RepeatAndSelectDpEvent(L(1.0), 1000, 0), ADD, 2.0),
        (dp_event.RepeatAndSelectDpEvent(L(1.0), 1000, 1), ADD, 3.0),
        (dp_event.RepeatAndSelectDpEvent(L(1.0), 1000, 0.5), ADD, 2.5),
        (dp_event.RepeatAndSelectDpEvent(L(1.0), 1000, 5), ADD, 7.0),
        # Noise relative to the sensitivity, as their Renyi accountant reads samples of a fixed size.
        (dp_event.SampledWithoutReplacementDpEvent(100, 10, L(2.0)), ONE, math.log1p(0.1 * math.expm1(0.5))),
    ],
)
def test_the_largest_loss_is_epsilon_at_delta_zero(event, relation, largest):
    """They quote these for the pure mechanisms; no answer at delta > 0 is above it."""
    found = account(event, relation)
    assert largest * (1 - 1e-12) <= found.get_epsilon(0.0) <= largest * (1 + 1e-12)
    assert found.get_epsilon(1e-300) <= found.get_epsilon(0.0)
    assert found.get_delta(largest * (1 + 1e-12)) <= 1e-9
    assert found.get_delta(math.inf) == 0.0


def test_what_an_infinite_epsilon_leaves():
    """Nothing of finite losses; for mechanisms that may fail, that they do."""
    assert account(L(1.0)).get_delta(math.inf) == 0.0
    assert account(G(1.0)).get_delta(math.inf) <= 1e-300
    assert account(G(1.0)).get_delta(-math.inf) == 1.0
    found = TightDPAccountant()
    found._spent = found._spent._replace(own=dp.ApproximateDP(1.0, 1e-3) * 2)
    assert 1 - (1 - 1e-3) ** 2 <= found.get_delta(math.inf) <= (1 - (1 - 1e-3) ** 2) * (1 + 1e-12)


def test_a_count_is_not_ignored_for_randomised_response():
    """Theirs answers 1.099 = log 3 for five calls, of which five reveal 5 log 3."""
    once, five = account(Response(0.5, 2), ONE), account(Response(0.5, 2), ONE, 5)
    assert once.get_epsilon(1e-9) < math.log(3) < 5.4 < five.get_epsilon(1e-9) <= 5 * math.log(3) * (1 + 1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "event",
    [
        G(1.0),
        Times(G(1.0), 6),
        All([G(1.0), G(2.0)]),
        Poisson(0.1, G(1.0)),
        All([Poisson(0.1, G(1.0)), G(2.0)]),
        Times(Poisson(0.01, G(0.8)), 300),
    ],
)
def test_at_most_what_theirs_says_and_nearly_that(event, relation):
    """Their pessimistic grid is above the truth, by about 1e-4 in epsilon."""
    ours, theirs = (kind(relation).compose(event) for kind in (TightDPAccountant, dpa.pld.PLDAccountant))
    for delta in (1e-2, 1e-5, 1e-8):
        above = theirs.get_epsilon(delta)
        assert above - 1e-3 <= ours.get_epsilon(delta) <= above + 1e-9


def test_ours_answers_below_their_floor():
    event = Times(Poisson(0.01, G(1.0)), 1000)
    assert dpa.pld.PLDAccountant().compose(event).get_epsilon(1e-16) == math.inf
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
    for delta in (1e-16, 1e-100, 1e-300):
        assert account(event).get_epsilon(delta) == run.epsilon(delta).upper < math.inf


@pytest.mark.parametrize(
    "event", [G(0), L(0), Discrete(0, 1), Poisson(0.1, G(0)), Poisson(0.1, L(0)), G(-0.0), Response(0.0, 3)]
)
def test_without_noise_everything_is_revealed(event):
    found = account(event, SPECIAL)
    assert found.get_delta(1.0) == 1 and found.get_epsilon(0.01) == math.inf == found.get_epsilon(1)
    assert found.compose(G(3.0), 10).get_epsilon(0.5) == math.inf


@pytest.mark.parametrize(
    "event",
    [
        Poisson(0, G(1)),
        Poisson(0, G(0)),
        Poisson(-0.0, L(0)),
        G(math.inf),
        Response(0.0, 1),
        Response(1.0, 7),
        Discrete(1.0, 0),
        dp_event.ZCDpEvent(0.0),
        All([Times(G(1.0), 0)]),
        All([]),
        All([All([]), dp_event.NoOpDpEvent()]),
        dp_event.SampledWithoutReplacementDpEvent(10, 0, G(0.0)),
        dp_event.SampledWithReplacementDpEvent(10, 0, G(0.0)),
    ],
)
def test_what_reveals_nothing_costs_nothing(event):
    found = account(event, SPECIAL)
    assert [found.get_epsilon(delta) for delta in (0, 1e-300, 0.5, 1)] == [0, 0, 0, 0]
    assert [found.get_delta(epsilon) for epsilon in (0, 1.0, math.inf)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("event", "relation", "says"),
    [
        (Response(0.1, 3), ADD, "`REPLACE_ONE` or `REPLACE_SPECIAL`"),
        (dp_event.SampledWithoutReplacementDpEvent(10, 5, G(1.0)), ADD, "`REPLACE_ONE` or `REPLACE_SPECIAL`"),
        (dp_event.SampledWithReplacementDpEvent(10, 5, G(1.0)), ADD, "`REPLACE_ONE` or `REPLACE_SPECIAL`"),
        (dp_event.SampledWithReplacementDpEvent(10, 5, L(1.0)), ONE, "must be a Gaussian"),
        (G(-1.0), ADD, "noise_multiplier must be a non-negative number"),
        (G(math.nan), ADD, "noise_multiplier must be a non-negative number"),
        (G("1"), ADD, "noise_multiplier must be"),
        (Poisson(1.5, G(1.0)), ADD, r"sampling_probability must be a number in \[0, 1\]"),
        (Poisson(0.5, "x"), ADD, "Unsupported event"),
        (Poisson(0.5, All([G(1.0), L(1.0)])), ADD, "one mechanism, or Gaussians alone"),
        (Poisson(0.5, dp_event.ZCDpEvent(0.1)), ONE, "neighbours of the same size"),
        (dp_event.ZCDpEvent(-1.0), ADD, "rho must be"),
        (dp_event.UnsupportedDpEvent(), ADD, "Unsupported event"),
        (Times(G(1.0), -1), ADD, "count must be"),
        (Times(G(1.0), 2.5), ADD, "count must be"),
        (Times(Times(G(1.0), 2**40), 2**40), ADD, "count must be at most"),
        (All(5), ADD, "events must be a list"),
        (All([None]), ADD, "Unsupported event"),
    ],
)
def test_refusals_name_the_reason_and_change_nothing(event, relation, says):
    found = TightDPAccountant(relation)
    assert not found.supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match=says) as raised:
        found.compose(event)
    assert isinstance(raised.value, ValueError)  # as theirs is for parameters out of their range
    assert found.get_epsilon(0) == 0 and isinstance(found.ledger, dp_event.NoOpDpEvent)


@pytest.mark.parametrize("count", [0, -1])
def test_counts_are_positive(count):
    with pytest.raises(ValueError, match="count"):
        TightDPAccountant().compose(G(1.0), count)
    for other in (1.5, "2", None):
        with pytest.raises(TypeError, match="count"):
            TightDPAccountant().compose(G(1.0), other)


@pytest.mark.parametrize("bad", [-1e-9, 1.1, math.nan, "1e-5"])
def test_bad_delta(bad):
    with pytest.raises((ValueError, TypeError), match="target_delta"):
        account(G(1.0)).get_epsilon(bad)


def test_bad_arguments():
    with pytest.raises(ValueError, match="target_epsilon"):
        account(G(1.0)).get_delta(math.nan)
    with pytest.raises(ValueError, match="neighboring_relation"):
        TightDPAccountant("replace")
    with pytest.raises(ValueError, match="value_discretization_interval"):
        TightDPAccountant(ADD, 0.0)
    with pytest.raises(ValueError, match="orders"):
        TightDPAccountant(ADD, orders=[0.9, 2.0])
    with pytest.raises(TypeError, match="event"):
        TightDPAccountant().compose("G")


def test_sampled_events_combine():
    twice = Poisson(0.1, Times(G(math.sqrt(2)), 2))
    assert account(twice).get_epsilon(1e-5) == pytest.approx(account(Poisson(0.1, G(1.0))).get_epsilon(1e-5), rel=1e-9)
    assert account(twice).get_epsilon(1e-5) >= account(Poisson(0.1, G(1.0))).get_epsilon(1e-5) * (1 - 1e-12)
    nested = account(Poisson(0.5, Poisson(0.2, G(1.0)))).get_epsilon(1e-5)
    assert nested == pytest.approx(account(Poisson(0.1, G(1.0))).get_epsilon(1e-5), rel=1e-9)
    assert account(Poisson(1.0, L(2.0)), ONE).get_epsilon(0) == account(L(2.0), ONE).get_epsilon(0)


def test_a_special_record_costs_what_adding_or_removing_does():
    for event in (G(1.5), Times(Poisson(0.1, L(1.0)), 3)):
        assert account(event, SPECIAL).get_epsilon(1e-5) == account(event, ADD).get_epsilon(1e-5)
    for kind in (dp_event.SampledWithoutReplacementDpEvent, dp_event.SampledWithReplacementDpEvent):
        sample = kind(1000, 10, G(1.0))
        both = TightDPAccountant(ONE, noise_relative_to="contribution").compose(sample)
        assert 0 < account(sample, SPECIAL).get_epsilon(1e-5) <= both.get_epsilon(1e-5)


def test_zcdp_is_stated_for_the_relation():
    """1/2-zCDP of data sets that differ by a replacement is that, and not the 2-zCDP of two changes."""
    expected = dp.ZCDP(0.5).epsilon(1e-6).upper
    for relation in RELATIONS:
        assert account(dp_event.ZCDpEvent(0.5), relation).get_epsilon(1e-6) == pytest.approx(expected, rel=1e-9)
    both = account(All([dp_event.ZCDpEvent(0.5), G(2.0)]), ONE).get_epsilon(1e-6)
    assert both == pytest.approx((dp.ZCDP(0.5) + dp.Gaussian(1.0)).epsilon(1e-6).upper, rel=1e-9)
    assert both <= rdp_epsilon(All([dp_event.ZCDpEvent(0.5), G(2.0)]), 4 * 0.5)


def rdp_epsilon(event, rho_of_gaussian):
    """Renyi's bound with the Gaussian under replacement, whose rho is four times as much."""
    found = dpa.rdp.RdpAccountant().compose(dp_event.ZCDpEvent(0.5)).compose(dp_event.ZCDpEvent(rho_of_gaussian / 4))
    return found.get_epsilon(1e-6)


def test_calibration_meets_the_target_and_no_more():
    def event(sigma):
        return Times(Poisson(0.01, G(sigma)), 1000)

    sigma = dpa.calibrate_dp_mechanism(TightDPAccountant, event, 2.0, 1e-5)
    assert account(event(sigma)).get_epsilon(1e-5) <= 2.0 < account(event(sigma - 3e-6)).get_epsilon(1e-5)
    steps = dpa.calibrate_dp_mechanism(
        TightDPAccountant,
        lambda n: Times(Poisson(0.01, G(1.0)), n),
        2.0,
        1e-5,
        bracket_interval=dpa.LowerEndpointAndGuess(1, 128),
        discrete=True,
    )
    assert account(event(1.0), count=1).get_epsilon(1e-5) < 2.0 and steps > 1000
    one = Poisson(0.01, G(1.0))
    assert account(one, count=steps).get_epsilon(1e-5) <= 2.0 < account(one, count=steps + 1).get_epsilon(1e-5)


@pytest.mark.parametrize("relation", RELATIONS)
def test_orders_as_of_the_renyi_accountant(relation):
    event = Times(G(4.0), 10)
    ours, theirs = TightDPAccountant(relation).compose(event), dpa.rdp.RdpAccountant(neighboring_relation=relation)
    epsilon, order = ours.get_epsilon_and_optimal_order(1e-5)
    if relation == ONE:  # which their Renyi accountant charges as adding or removing: half the multiplier is right
        theirs.compose(Times(G(2.0), 10))
    else:
        theirs.compose(event)
    renyi, best = theirs.get_epsilon_and_optimal_order(1e-5)
    assert epsilon == ours.get_epsilon(1e-5) <= renyi
    assert np.array_equal(ours.orders, theirs.orders) and order == best
    chosen = TightDPAccountant(relation, orders=[64, 2, 8]).compose(event)
    assert chosen.get_epsilon_and_optimal_order(1e-5)[1] in (2, 8, 64)
    assert chosen.get_epsilon_and_optimal_order(0)[0] == math.inf


def test_the_order_for_many_distinct_mechanisms_is_near_the_best():
    event = All([Poisson(0.01, G(1.0 + i / 1000)) for i in range(70)])
    (epsilon, order), theirs = (
        kind().compose(event).get_epsilon_and_optimal_order(1e-5) for kind in (TightDPAccountant, dpa.rdp.RdpAccountant)
    )
    assert epsilon <= theirs[0] and theirs[1] / 2 <= order <= 2 * theirs[1]


def test_copies_are_accounts_of_their_own():
    found = account(G(2.0), count=3)
    for made in (copy.deepcopy(found), pickle.loads(pickle.dumps(found)), copy.copy(found)):
        assert made.get_epsilon(1e-5) == found.get_epsilon(1e-5) and made.neighboring_relation == ADD
    for made in (copy.deepcopy(found), pickle.loads(pickle.dumps(found)), copy.copy(found)):
        made.compose(G(2.0))
        assert made.ledger == Times(G(2.0), 4) and found.ledger == Times(G(2.0), 3)
        assert found.get_epsilon(1e-5) < made.get_epsilon(1e-5)


def failed(work):
    try:
        work()
    except BaseException as error:
        return [error]
    return []


def test_threads_lose_nothing():
    found = TightDPAccountant()

    def work():
        for i in range(200):
            found.compose(Poisson(0.01, G(1.0)))
            if i % 50 == 0:
                made = copy.deepcopy(found)
                assert from_event(made.ledger) == made.composition
                assert made.get_epsilon(1e-5) <= found.get_epsilon(1e-5)

    failures = []
    threads = [threading.Thread(target=lambda: failures.extend(failed(work))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures
    assert found.composition == dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 800
    assert found.ledger == Times(Poisson(0.01, G(1.0)), 800)


def test_long_and_deep_events():
    event = All([G(1.0 + i / 1000) for i in range(10_000)])
    found = account(event)
    exact = 1 / math.sqrt(math.fsum((1.0 + i / 1000) ** -2 for i in range(10_000)))
    assert found.get_epsilon(1e-5) == pytest.approx(dp.Gaussian(exact).epsilon(1e-5).upper, rel=1e-9)
    deep = G(1e6)
    for _ in range(5000):
        deep = All([deep])
    assert TightDPAccountant().supports(deep)
    for _ in range(5000):
        deep = dp_event.SampledWithoutReplacementDpEvent(5, 5, deep)
    assert not TightDPAccountant(ONE).supports(deep)
    assert account(G(1.0), count=2**53).get_epsilon(1e-5) < math.inf
    assert not account(G(1.0), count=2**53).supports(G(1.0))
