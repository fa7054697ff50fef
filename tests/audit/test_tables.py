"""Bounds, categories, ridge regression and the private search under attack: they keep to their accounts, and a planted
bug in each is caught by the same attack."""

from __future__ import annotations

import os

import pytest
from harness import DELTA, evidence
from tables_cases import KINDS

SEED = int(os.environ.get("TIGHTDP_HUNT", "0"))


def attacked(name, planted, times=1):
    build, least_mu, trials, thresholds = KINDS[name]
    run, claim = build(planted)(SEED + sum(map(ord, name)))
    return evidence(run, int(times * trials), thresholds=thresholds), claim, least_mu


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "PrivateSearchCV")) for name in KINDS]
)
def test_lower_stays_below_upper(name):
    found, claim, least_mu = attacked(name, False)
    assert found.mu() > least_mu, "an audit that sees nothing tests nothing"
    assert not found.excludes(claim) and found.epsilon(DELTA) <= claim.epsilon(DELTA).upper


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_bug_is_caught(name):
    found, claim, _ = attacked(name, True, 0.5)
    assert found.excludes(claim)


@pytest.mark.hunt
@pytest.mark.parametrize("name", KINDS)
def test_a_long_attack(name):
    found, claim, _ = attacked(name, False, 20)
    assert not found.excludes(claim)
