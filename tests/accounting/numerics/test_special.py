"""Each special function against 50-digit arithmetic, within the error that its header states."""

import math

import mpmath as mp
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import normal
from reference.normal import UNIT, error_in_units

from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

DIGITS = 60
many = settings(max_examples=200, deadline=None)

moderate = st.floats(0, 40)
decades = st.floats(-12, 8).map(lambda p: 10.0**p)
nonnegative = st.one_of(moderate, decades)


@many
@given(nonnegative)
def test_mills_ratio_and_slope(x):
    with mp.workdps(2 * DIGITS):
        ratio = normal.mills_ratio(min(x, 1e4))  # mpmath's erfc underflows beyond; the next test goes there
        if x <= 1e4:
            assert error_in_units(_testing.mills_ratio(x), ratio) <= 6
            assert error_in_units(_testing.mills_slope(x), 1 - mp.mpf(x) * ratio) <= 8


@pytest.mark.parametrize("x", [1e5, 1e8, 1e20, 1e100, 1e150])
def test_mills_far_out_follows_its_asymptotic_series(x):
    t = mp.mpf(x)
    with mp.workdps(DIGITS):
        assert error_in_units(_testing.mills_ratio(x), 1 / t - 1 / t**3 + 3 / t**5) <= 6
        assert error_in_units(_testing.mills_slope(x), 1 / t**2 - 3 / t**4 + 15 / t**6) <= 8


@many
@given(st.floats(0, 37), st.floats(-(2.0**-52), 2.0**-52))
def test_exp_half_square(x, relative):
    rest = x * relative
    with mp.workdps(DIGITS):
        exact = mp.exp(-((mp.mpf(x) + mp.mpf(rest)) ** 2) / 2)
        assert error_in_units(_testing.exp_half_square(x, rest), exact) <= 6
        assert _testing.exp_half_square(-x, -rest) == _testing.exp_half_square(x, rest)


@many
@given(st.floats(-37.5, 1e6))
def test_ndtr(x):
    with mp.workdps(DIGITS):
        assert error_in_units(_core.ndtr(x), normal.cdf(x)) <= 16


@many
@given(st.one_of(st.floats(-1e4, 37), decades.map(lambda x: -x), decades))
def test_log_ndtr(x):
    assume(-1e4 < x < 37)
    with mp.workdps(DIGITS):
        assert error_in_units(_testing.log_ndtr(x), normal.log_cdf(x)) <= 20


@many
@given(st.one_of(st.floats(-1e4, -1e-3), st.floats(-300, 3).map(lambda p: -(10.0**p))))
def test_log_ndtri_inverts_log_ndtr(log_p):
    x = _core.log_ndtri(log_p)
    slack = 16 * float(UNIT) * abs(x) + 4 * float(UNIT)
    with mp.workdps(320):
        assert normal.log_cdf(x - slack) <= mp.mpf(log_p) <= normal.log_cdf(x + slack)


@many
@given(st.one_of(st.floats(-3, -1e-6), st.floats(-300, 2.8).map(lambda p: -(10.0**p))))
def test_log1mexp(x):
    with mp.workdps(400):
        assert error_in_units(_testing.log1mexp(x), mp.log(-mp.expm1(mp.mpf(x)))) <= 6


@many
@given(st.floats(-700, 700), st.floats(-700, 700))
def test_log_sums(a, b):
    with mp.workdps(700):
        exact = mp.log(mp.exp(mp.mpf(a)) + mp.exp(mp.mpf(b)))
        assert abs(mp.mpf(_testing.logaddexp(a, b)) - exact) <= 3 * UNIT * (abs(exact) + 1)


@pytest.mark.parametrize("log_p", [-1e99, -1.1e100, -4.9e299, -5.1e299, -1e305, -1.7e308])
def test_quantiles_of_the_least_probabilities(log_p):
    with mp.workdps(DIGITS):  # ln Phi(x) = -x^2/2 - ln|x| - ..., which is -x^2/2 to 90 digits
        assert error_in_units(_core.log_ndtri(log_p), -mp.sqrt(-2 * mp.mpf(log_p))) <= 16


def test_edges():
    inf = math.inf
    assert (_core.ndtr(-inf), _core.ndtr(inf)) == (0, 1) and _core.ndtr(0) == pytest.approx(0.5, rel=2e-15)
    assert (_testing.log_ndtr(-inf), _testing.log_ndtr(inf)) == (-inf, 0)
    assert (_core.log_ndtri(-inf), _core.log_ndtri(0)) == (-inf, inf)
    assert math.isnan(_core.log_ndtri(0.5)) and math.isnan(_core.ndtr(math.nan))
    assert (_testing.log1mexp(0), _testing.log1mexp(-inf)) == (-inf, 0)
    assert (_testing.logaddexp(-inf, -inf), _testing.logaddexp(-inf, 3)) == (-inf, 3)


sampling = st.one_of(st.floats(-9, 0).map(lambda p: 10.0**p), st.floats(-10, -0.5).map(lambda p: 1 - 10.0**p))
exponents = st.one_of(st.floats(-40, 40), st.floats(-800, 1500), st.floats(-1e-6, 1e-6)).filter(
    lambda t: abs(t) > 1e-290
)


def exact_loss(t, q):
    return mp.log(1 - mp.mpf(q) + mp.mpf(q) * mp.exp(t))


@many
@given(exponents, sampling)
def test_sampled_loss(t, q):
    with mp.workdps(400):
        assert error_in_units(_testing.sampled_loss(t, q), exact_loss(mp.mpf(t), q)) <= 8


@pytest.mark.parametrize("q", [1e-250, 1e-280, 1e-288, 1e-304, 2.4e-310, 5e-324])
@pytest.mark.parametrize("v", [-20.0, -1.0, 0.0, 1.0, 5.0, 30.0, 60.0, 300.0])
def test_sampled_loss_of_the_least_probabilities(q, v):
    t = v - math.log(q)
    with mp.workdps(400):
        loss = exact_loss(mp.mpf(t), q)
        assert error_in_units(_testing.sampled_loss(t, q), loss) <= 8
        for y in (1e-9, 0.05, 0.9, 1.1):
            back = mp.log1p(mp.expm1(y) / mp.mpf(q))
            assert abs(_testing.sampled_loss_inverse(y, q) - back) <= 8 * UNIT * abs(back) + 16 * UNIT


@many
@given(exponents, sampling)
def test_sampled_loss_inverse(t, q):
    y = _testing.sampled_loss(t, q)
    assume(q == 1 or y > math.log1p(-q))
    computed = mp.mpf(_testing.sampled_loss_inverse(y, q))
    if computed == -mp.inf:
        assert y <= math.log1p(-q) * (1 - 1e-15)
        return
    with mp.workdps(400):
        spread = 8 * UNIT * abs(computed)
        low, high = exact_loss(computed - spread, q), exact_loss(computed + spread, q)
        assert low - 8 * UNIT * abs(y) <= y <= high + 8 * UNIT * abs(y)
