"""Exact coins and the two laws that are made of them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as dp
from tightdp.release_gate.selection import (
    SelectionCoins,
    select_score_by_exponential_mechanism,
    select_score_by_permute_and_flip,
)


class Script:
    """A source of given words."""

    def __init__(self, *words):
        self.words = list(words)

    def integers(self, size):
        out, self.words = self.words, []
        assert out, "more words were drawn than are needed"
        return np.array(out, dtype=np.uint64)


def test_a_coin_compares_binary_digits_and_goes_on_where_they_agree():
    third = 2**64 // 3  # 0.010101...: all its words are the same
    for words, expected in (((third - 1,), True), ((third + 1,), False), ((third, third, 0), True)):
        assert SelectionCoins(Script(*words)).flip_gate_coin_with_probability(1, 3) == expected
    assert SelectionCoins(Script()).flip_gate_coin_with_probability(5, 5)
    assert not SelectionCoins(Script(0, 1)).flip_gate_coin_with_probability(
        0, 5
    )  # 0 is below no word but 0, which decides nothing


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_a_coin_of_an_exponential(x):
    coins, n = SelectionCoins(dp.Philox(1)), 20_000
    seen, p = sum(coins.flip_exponential_gate_coin(x) for _ in range(n)), math.exp(-x)
    assert abs(seen - n * p) <= 5 * math.sqrt(n * p * (1 - p))


def test_a_uniform_index():
    coins, n = SelectionCoins(dp.Philox(2)), 21_000
    seen = np.bincount([coins.draw_gate_selection_index(7) for _ in range(n)], minlength=7)
    assert (abs(seen - n / 7) < 5 * math.sqrt(n * 6 / 49)).all() and SelectionCoins(
        Script(5)
    ).draw_gate_selection_index(1) == 0


SCORES, RATE = [3, 0, 0, 5, 2], Fraction(3, 10)


def frequencies(choose, n=30_000):
    coins = SelectionCoins(dp.Philox(3))
    return np.bincount([choose(SCORES, RATE, coins) for _ in range(n)], minlength=len(SCORES)), n


def test_the_exponential_mechanism():
    seen, n = frequencies(select_score_by_exponential_mechanism)
    p = np.exp(-float(RATE) * np.array(SCORES))
    p /= p.sum()
    assert (abs(seen - n * p) < 5 * np.sqrt(n * p * (1 - p))).all()


def flipped(scores, epsilon):
    """The law of permute-and-flip, over all sets of coins that come up."""
    up = np.exp(-epsilon * (np.array(scores, float) - min(scores)))
    law = np.zeros(len(scores))
    for coins in itertools.product((0, 1), repeat=len(scores)):
        weight = math.prod(u if c else 1 - u for u, c in zip(up, coins, strict=True))
        if weight:
            law += weight * np.array(coins) / sum(coins)
    return law


def test_permute_and_flip():
    seen, n = frequencies(select_score_by_permute_and_flip)
    p = flipped(SCORES, float(RATE))
    assert p.sum() == pytest.approx(1)
    assert (abs(seen - n * p) < 5 * np.sqrt(n * p * (1 - p))).all()


def test_permute_and_flip_is_private_for_monotone_scores_and_its_range_is_wider():
    """One record adds between 0 and C = 1 to each score: the law's ratio is within e^epsilon, and in two candidates its
    range exceeds epsilon, so that it must not be charged as the exponential mechanism is."""
    epsilon, widest = 0.8, 0.0
    for scores in ([0, 0], [0, 1, 2], [2, 0, 0, 1]):
        for added in itertools.product((0.0, 0.4, 1.0), repeat=len(scores)):
            loss = np.log(flipped(scores, epsilon) / flipped(np.add(scores, added), epsilon))
            assert abs(loss).max() <= epsilon * (1 + 1e-12)
            widest = max(widest, float(np.ptp(loss)))
    assert widest > epsilon * 1.05
