"""Private choice of one of several integer scores, with exactly the probabilities that are accounted for.

All arithmetic is rational, on Python's integers. A choice among some twenty candidates takes less time than the
computation of their scores. Distributions and proofs are in docs/theory/selection.md. The number of flipped coins is
random and depends on the scores, and the running time reveals this number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ..clipping_and_noise.noise import RandomSource

BATCH = 128
"""Number of 64-bit words that are drawn together. An ordinary choice needs fewer words."""


class SelectionCoins:
    """A generator of coins that have exact probabilities, from the bits of a random source."""

    def __init__(self, source: RandomSource) -> None:
        self._words = self._stream_words(source)

    @staticmethod
    def _stream_words(source: RandomSource) -> Iterator[int]:
        """Yields random words of 64 bits."""
        while True:
            yield from source.integers(BATCH).tolist()

    def flip_gate_coin_with_probability(self, a: int, c: int) -> bool:
        """Returns True with probability a/c, for 0 <= a <= c. A uniform number is compared with a/c, 64 binary digits
        at a time."""
        while a < c:
            digits, a = divmod(a << 64, c)
            word = next(self._words)
            if word != digits:
                return word < digits
        return True

    def flip_exponential_gate_coin(self, x: Fraction) -> bool:
        """Returns True with probability exp(-x), for x >= 0.

        For each whole unit of x, one coin of probability exp(-1) is flipped. One more coin is flipped for the
        fractional part of x. The result is True if all coins succeed."""
        return all(
            self._flip_small_exponential_gate_coin(1, 1) for _ in range(x.numerator // x.denominator)
        ) and self._flip_small_exponential_gate_coin(x.numerator % x.denominator, x.denominator)

    def _flip_small_exponential_gate_coin(self, a: int, c: int) -> bool:
        """Returns True with probability exp(-a/c), for a <= c.

        Coins of probabilities a/c, a/2c, a/3c, ... are flipped until a coin fails. The first m coins all succeed with
        probability (a/c)^m / m!. The alternating sum of these probabilities is exp(-a/c). So the number of successes is
        even with probability exp(-a/c)."""
        k = 1
        while self.flip_gate_coin_with_probability(a, c * k):
            k += 1
        return k % 2 == 1

    def draw_gate_selection_index(self, n: int) -> int:
        """Returns a uniform number among 0, ..., n - 1."""
        bits = (n - 1).bit_length()
        while True:
            found = next(self._words) >> (64 - bits) if bits else 0
            if found < n:
                return found


def select_score_by_exponential_mechanism(scores: Sequence[int], rate: Fraction, coins: SelectionCoins) -> int:
    """Returns an index j with probability proportional to exp(-rate * scores[j]).

    An index is proposed uniformly and accepted with probability exp(-rate * (scores[j] - least)). The index of the
    least score is always accepted, so a proposal is accepted with probability at least 1/len(scores)."""
    least = min(scores)
    while True:
        j = coins.draw_gate_selection_index(len(scores))
        if coins.flip_exponential_gate_coin(rate * (scores[j] - least)):
            return j


def select_score_by_permute_and_flip(scores: Sequence[int], rate: Fraction, coins: SelectionCoins) -> int:
    """Returns an index with the same distribution as the index of the smallest noisy score.

    A noisy score is a score minus exponential noise of mean 1/rate. The function draws no such noise, and flips coins
    instead (McKenna and Sheldon 2020, Ding et al. 2021). For each score, a coin of probability
    exp(-rate * (score - least)) is flipped. The choice is uniform among the scores whose coins succeeded."""
    least = min(scores)
    up = [j for j, score in enumerate(scores) if coins.flip_exponential_gate_coin(rate * (score - least))]
    return up[coins.draw_gate_selection_index(len(up))]
