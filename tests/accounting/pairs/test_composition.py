import math
import pickle

import mpmath as mp
import numpy as np
import pytest

import tightdp as dp
from tightdp.accounting.engines import auto
from tightdp.bound import Bound

G, H, S = dp.Gaussian(3.0), dp.Laplace(2.0), dp.PoissonSampled(dp.Gaussian(1.0), 0.01)


def test_composition_is_a_multiset():
    assert G + H == H + G
    assert 2 * G == G + G == G * 2
    assert (G + H) * 3 == H * 3 + G + 2 * G
    assert hash((G + H) * 3) == hash(3 * G + 3 * H)
    assert sum([G, H, G]) == G * 2 + H
    assert G + H != G * 2
    assert len(S * 1000 + G) == 1001


def test_repr_and_pickle_round_trip():
    for c in (G * 1, S * 1000 + G + H * 2, dp.Composition()):
        assert eval(repr(c), vars(dp)) == c
        assert pickle.loads(pickle.dumps(c)) == c


def test_equal_mechanisms_in_other_words_are_merged():
    assert dp.PoissonSampled(G, 1.0) * 3 + G == G * 4
    assert dp.FixedSizeSampled(G, 7, 7) + G == G * 2
    assert dp.RandomAllocation(G, 5, 5) * 2 == G * 10
    assert dp.ApproximateDP(1.0, 0.0) * 2 == dp.PureDP(1.0) * 2


def test_a_long_run_composes_in_constant_time_a_step():
    run = dp.Composition()
    for _ in range(20_000):  # a recursive merge would overflow the stack
        run = run + S
    assert run == S * 20_000
    deep = G * 1
    for _ in range(50):
        deep = deep * 2
    assert deep.parts == ((G, 2**50),)


@pytest.mark.parametrize(
    ("error", "count"), [(ValueError, 0), (ValueError, -1), (TypeError, 2.0), (TypeError, True), (TypeError, "2")]
)
def test_a_count_is_a_positive_integer(error, count):
    with pytest.raises(error, match=r"^count must be an integer >= 1"):
        G * count


def test_counts_stay_exact_in_doubles():
    most = G * 2**53
    for over in (
        lambda: most * 2,
        lambda: most + G,
        lambda: G * 2 * 2**53,
        lambda: dp.Composition([(G, 2**53), (G, 1)]),
    ):
        with pytest.raises(ValueError, match=r"count must be an integer >= 1 and at most"):
            over()
    assert (most + S * 2**53 + dp.Laplace(1.0)).parts  # none of the counts is too large
    account = dp.Accountant()
    account.compose(most)
    with pytest.raises(ValueError, match=r"count must be an integer >= 1 and at most"):
        account.compose(G)
    assert account.composition == most


def test_threads_share_compositions():
    from concurrent.futures import ThreadPoolExecutor

    for _ in range(20):
        shared = sum((dp.Gaussian(1.0 + i) * 3 + S for i in range(100)), dp.Composition())
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda i, c=shared: ((c + G) if i % 2 else c).epsilon(1e-5).upper, range(16)))
        assert len(set(found[::2])) == len(set(found[1::2])) == 1 and found[0] < found[1]


@pytest.mark.parametrize("other", [1, "x", None, 0.0])
def test_only_mechanisms_add(other):
    with pytest.raises(TypeError):
        G + other


def test_a_composition_lists_pairs_of_mechanism_and_count():
    assert list(H + G * 2) == [(G, 2), (H, 1)]
    with pytest.raises(TypeError, match=r"^parts must be"):
        dp.Composition([("x", 1)])


def test_nothing_released_is_perfectly_private():
    nothing = dp.Composition()
    assert nothing.epsilon(1e-9).upper == 0 and nothing.delta(0.0).upper == 0 and not nothing


@pytest.mark.parametrize(
    ("error", "name", "options"),
    [
        (ValueError, "neighbors", {"neighbors": "swap"}),
        (TypeError, "neighbors", {"neighbors": 1}),
        (ValueError, "engine", {"engine": "exact"}),
        (ValueError, "width", {"width": 0.0}),
        (ValueError, "eps_error", {"eps_error": -1.0}),
        (ValueError, "delta_error", {"delta_error": 1.0}),
    ],
)
def test_bad_options_are_named(error, name, options):
    with pytest.raises(error, match=f"^{name} must be"):
        G.epsilon(1e-5, **options)
    with pytest.raises(error, match=f"^{name} must be"):
        G.delta(1.0, **options)


@pytest.mark.parametrize(
    ("error", "delta"), [(ValueError, -0.1), (ValueError, 1), (ValueError, float("nan")), (TypeError, "x")]
)
def test_delta_lies_in_the_half_open_unit_interval(error, delta):
    with pytest.raises(error, match=r"^delta must be a number in \[0, 1\)"):
        G.epsilon(delta)


@pytest.mark.parametrize(
    ("error", "epsilon"), [(ValueError, float("inf")), (ValueError, float("nan")), (TypeError, None)]
)
def test_epsilon_is_any_finite_number(error, epsilon):
    with pytest.raises(error, match=r"^epsilon must be"):
        G.delta(epsilon)


def test_unsound_pairs_of_sampler_and_relation_are_refused_with_the_reason():
    with pytest.raises(
        ValueError, match=r"neighbors must be 'replace' or 'replace_special' for FixedSizeSampled.*size"
    ):
        dp.FixedSizeSampled(G, 1, 10).epsilon(1e-5)
    with pytest.raises(ValueError, match=r"no dominating pair"):
        dp.RandomAllocation(G, 10, 1).epsilon(1e-5, neighbors="replace")
    given = dp.PrivacyLoss.from_distributions([0.75, 0.25], [0.25, 0.75], relation="any")
    with pytest.raises(ValueError, match=r"no dominating pair"):
        dp.PoissonSampled(given, 0.1).epsilon(1e-5, neighbors="replace")


def test_replacing_a_record_that_is_sampled_costs_more_than_removing_it_and_less_than_without_sampling():
    found = S.epsilon(1e-5, neighbors="replace")
    assert S.epsilon(1e-5).lower <= found.upper
    assert found.upper < S.mechanism.epsilon(1e-5, neighbors="replace").lower
    sampled = dp.PoissonSampled(dp.Laplace(1.0), 0.1)
    by_moments = sampled.epsilon(1e-5, neighbors="replace", engine="renyi")
    assert sampled.epsilon(1e-5, neighbors="replace").lower <= by_moments.upper < math.inf


def test_two_records_at_opposite_ends_of_a_poisson_sample():
    """(1 - q) N(0, 1) + q N(1, 1) against (1 - q) N(0, 1) + q N(-1, 1): the loss rises with the output."""
    q = 0.1

    def at(z, ahead):
        return (1 - q) * mp.npdf(z) + q * mp.npdf(z - ahead)

    def above(z, ahead):
        return (1 - q) * mp.ncdf(-z) + q * mp.ncdf(ahead - z)

    with mp.workdps(30):
        for eps in (0.05, 0.3, 1.0):
            z = mp.findroot(lambda z: mp.log(at(z, 1) / at(z, -1)) - eps, (-1, 8), solver="anderson")  # noqa: B023
            true = above(z, 1) - mp.exp(eps) * above(z, -1)
            found = dp.PoissonSampled(dp.Gaussian(1.0), q).delta(eps, neighbors="replace")
            assert 0 < found.lower <= true <= found.upper <= found.lower * (1 + 1e-12)


def test_replacing_a_record_doubles_the_sensitivity():
    assert dp.Gaussian(3.0).epsilon(1e-5, neighbors="replace") == dp.Gaussian(1.5).epsilon(1e-5)


def test_a_bound_converts_to_its_safe_side():
    b = G.epsilon(1e-5)
    assert b.lower <= float(b) == b.upper and b.width == b.upper - b.lower and b.engine == "closed_form"
    for lower, upper in ((1.0, 0.5), (math.nan, 0.5)):
        with pytest.raises(dp.ContradictionError, match=r"crossed"):
            dp.Bound(lower, upper, "none")


def test_engines_that_contradict_each_other_are_an_error(monkeypatch):
    """Also under python -O: no assert."""

    def wrong(parts, direction, delta, request=None):
        return Bound(3.0, 3.1, "wrong")

    monkeypatch.setattr(auto.renyi.ENGINE, "epsilon", wrong)
    run = dp.PoissonSampled(dp.Laplace(1.0), 0.1) * 3
    with pytest.raises(dp.ContradictionError, match=r"epsilon\(1e-05\) of PoissonSampled.*'remove'.*renyi"):
        run.epsilon(1e-5, width=1e-300)
    with pytest.raises(dp.ContradictionError, match="a member of the class"):
        known = Bound(0.0, 1.0, "none")
        auto._raise_engine_bound_to_member(known, 1.5, auto._EngineQuestion((), "add", "epsilon", 1e-5, auto.Request()))


@pytest.mark.parametrize(
    "nothing",
    [
        dp.PureDP(0.0),
        dp.ApproximateDP(0.0, 0.0),
        dp.BoundedRange(0.0),
        dp.ZCDP(0.0),
        dp.RandomizedResponse(1.0, 4),
        dp.PoissonSampled(dp.ApproximateDP(0.0, 0.0), 0.1),
        dp.RandomAllocation(dp.PureDP(0.0), 3),
    ],
    ids=repr,
)
def test_what_reveals_nothing_changes_no_answer(nothing):
    for run in (S * 1000, dp.PureDP(0.1) * 7, dp.Laplace(2.0) * 3 + dp.Gaussian(3.0)):
        for ask in (lambda r: r.epsilon(1e-6), lambda r: r.delta(0.3), lambda r: r.advantage()):
            assert ask(run) == ask(run + nothing * 5)
    assert nothing.epsilon(1e-6).upper == 0 and nothing.delta(0.0).upper == 0


def test_errors_name_what_to_do_instead():
    run = dp.Gaussian(1.0) * 3
    for given in ([dp.Gaussian(1.0), dp.Gaussian(2.0)], [(dp.Gaussian(1.0), 2, 3)], [None]):
        with pytest.raises(TypeError, match=r"pairs \(Mechanism, count\)"):
            dp.Composition(given)
    with pytest.raises(TypeError, match="epsilon_batch"):
        run.epsilon(np.array([1e-5, 1e-6]))
    with pytest.raises(TypeError, match="profile"):
        run.delta([1.0, 2.0])
    with pytest.raises(TypeError, match=r"noise_multiplier\(\) has no argument 'sample_rate'.*sampling_probability"):
        dp.noise_multiplier(2.0, 1e-5, sample_rate=0.01, steps=10)
    with pytest.raises(TypeError, match=r"epsilon\(\) has no argument 'relation'.*neighbors"):
        run.epsilon(1e-5, relation="add")
