"""How often a run is repeated (docs/theory/derived.md section 1): the odds that give a mean."""

import math

import mpmath as mp
import pytest

from tightdp.accounting.pairs.selection_repetitions import _solve_log_inverse_gamma_of_repetitions


@pytest.mark.parametrize("eta", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("odds", [1.0, 2.0, 4.0, 8.0, 16.0])
def test_odds_hold_the_truth_where_the_search_doubles(eta, odds):
    """Means a few units in the last place beside those of a power of two, where a bracket begins."""
    with mp.workdps(50):

        def mean_of(l):
            return eta * mp.expm1(l) / -mp.expm1(-eta * l)

        mean = float(mean_of(mp.mpf(odds)))
        for _ in range(4):
            mean = math.nextafter(mean, 0.0)
        for _ in range(9):
            truth = mp.findroot(lambda l, mean=mean: mp.log(mean_of(l)) - mp.log(mean), odds)
            found = _solve_log_inverse_gamma_of_repetitions(eta, mean)
            assert found.lo <= truth <= found.hi and found.hi - found.lo <= 1e-10 * truth
            mean = math.nextafter(mean, math.inf)
