"""Value iteration over a finite menu: certified above, exact where the answer is known."""

import numpy as np
import pytest
from scipy.integrate import quad

import tightdp as dp
from tightdp.accounting.lattice import compose, pessimistic
from tightdp.accounting.laws.single import Laplace
from tightdp.accounting.menu import worst_case

LEVELS = [dp.PoissonSampled(dp.Gaussian(0.709), 0.004) * 100, dp.PoissonSampled(dp.Gaussian(2.666), 0.04) * 100]


@pytest.mark.parametrize(
    "level", [dp.PoissonSampled(dp.Gaussian(2.0), 0.05) * 20, dp.Gaussian(3.0) * 1, dp.PureDP(0.3) * 2]
)
def test_a_single_level_leaves_nothing_to_choose(level):
    b = worst_case([level], 4, 1.0, points=4096)
    exact = (level * 4).delta(1.0)
    assert exact.upper <= b.upper <= exact.upper * 1.02 + 1e-9 and b.lower == exact.lower


def test_the_worst_adversary_of_two_levels_doubles_delta():
    """2.2054e-5 in the limit of tests/test_filters.py, which is plain NumPy."""
    b = worst_case(LEVELS, 10, 2.0, neighbors="remove", points=1 << 14)
    assert 2.2054e-5 <= b.upper <= 2.22e-5
    assert b.lower == max((level * 10).delta(2.0, neighbors="remove").lower for level in LEVELS)
    fixed = (LEVELS[0] * 4 + LEVELS[1] * 6).delta(2.0, neighbors="remove")
    assert fixed.upper < 0.5 * b.upper


def test_more_choice_and_more_rounds_never_lower_delta():
    one, two = dp.Gaussian(4.0), dp.Laplace(3.0)
    both = worst_case([one, two], 3, 0.5, points=2048).upper
    assert both >= max(worst_case([level], 3, 0.5, points=2048).lower for level in (one, two))
    for mixture in (one * 2 + two, one + two * 2):
        assert both >= mixture.delta(0.5).lower
    assert worst_case([one, two], 4, 0.5, points=2048).upper >= both * (1 - 1e-9)


def test_adaptive_selections_agree_with_the_continuum():
    """A menu of binary steps of range eta is dominated by all of them (tests/test_selection.py)."""
    eta = 0.4
    b = worst_case([dp.PureDP(eta / 2)], 6, 0.5, points=1 << 13)
    assert b.lower <= (dp.BoundedRange(eta) * 6).delta(0.5).upper


def test_a_lattice_dominates_its_law():
    losses = 0.01 * np.arange(-512, 512)
    law = Laplace(0.7)
    found = pessimistic(law, losses)
    for eps in np.linspace(-1.0, 1.0, 41):
        curve = float((found.masses * np.maximum(-np.expm1(eps - losses), 0.0)).sum()) + found.beyond
        exact = law.delta(float(eps))
        assert exact.lo <= curve * (1 + 1e-12) and curve <= exact.hi + 1e-4
    twice = compose([(found, 2)], losses)
    assert twice.masses.sum() + twice.beyond == pytest.approx(1.0, abs=1e-9)
    mu, eps = 0.7, 0.3
    mid = lambda y: (law.delta(eps - y).lo + law.delta(eps - y).hi) / 2  # noqa: E731
    density = quad(lambda y: 0.25 * np.exp((y - mu) / 2) * mid(y), -mu, mu, points=[eps - mu], epsabs=1e-12)[0]
    truth = 0.5 * mid(mu) + 0.5 * np.exp(-mu) * mid(-mu) + density
    assert truth - 1e-10 <= twice.masses @ np.maximum(-np.expm1(eps - losses), 0.0) + twice.beyond <= truth + 1e-4


@pytest.mark.parametrize(
    ("error", "message", "arguments", "options"),
    [
        (ValueError, "^levels must be", ([], 1, 1.0), {}),
        (TypeError, "^levels must be", ([1.0], 1, 1.0), {}),
        (ValueError, "^levels must be", ([dp.ZCDP(0.1)], 1, 1.0), {}),
        (ValueError, "^rounds must be", ([dp.Gaussian(1.0)], 0, 1.0), {}),
        (ValueError, "^epsilon must be", ([dp.Gaussian(1.0)], 1, -1.0), {}),
        (ValueError, "^points must be", ([dp.Gaussian(1.0)], 1, 1.0), {"points": 100}),
        (
            ValueError,
            "^neighbors must be",
            ([dp.PoissonSampled(dp.Laplace(1.0), 0.1)], 1, 1.0),
            {"neighbors": "replace"},
        ),
    ],
)
def test_bad_menus_are_named(error, message, arguments, options):
    with pytest.raises(error, match=message):
        worst_case(*arguments, **options)
