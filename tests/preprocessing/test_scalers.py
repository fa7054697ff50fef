"""Scalers, imputers and encoders: what they learn, what they are charged, and scikit-learn's checks."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import tightdp as dp
from tightdp.preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder, SimpleImputer, StandardScaler
from tightdp.preprocessing.scalers import build_scaler_query
from tightdp.train import DPPCA, LogisticRegression, Ridge

LOUD = {"delta": 1e-5, "noise_multiplier": 1e-3}
SPARSE = "check_estimator_sparse_array", "check_estimator_sparse_matrix"
EXCEPTIONS = dict.fromkeys(SPARSE, "scikit-learn sets with_mean of whatever is called StandardScaler")
LEARNING = [MinMaxScaler, StandardScaler, SimpleImputer, OneHotEncoder]


@pytest.mark.parametrize("kind", LEARNING)
def test_scikit_learn_accepts_it(kind):
    failing = EXCEPTIONS if kind is StandardScaler else {}
    checks = check_estimator(kind(**LOUD), expected_failed_checks=failing, on_skip=None)
    assert {c["check_name"] for c in checks if c["status"] == "xfail"} == set(failing)


@pytest.mark.parametrize("member", [Chain([("a", MinMaxScaler()), ("b", SimpleImputer())]), OneHotEncoder()])
def test_scikit_learn_accepts_columns(member):
    check_estimator(ColumnTransformer([("a", member, [0])], **LOUD), on_skip=None)


def test_scikit_learn_accepts_chains():
    check_estimator(Chain([("a", MinMaxScaler(bounds=(-9, 9))), ("b", StandardScaler())], **LOUD), on_skip=None)


@pytest.mark.parametrize("kind", LEARNING)
def test_targets_are_met_and_used_up(people, kind):
    made = kind(epsilon=0.7, delta=1e-5, random_state=0)
    charge = made.charge_for(2)
    made.fit(people)
    assert made.charged_ == charge and made.privacy_ == charge.epsilon(1e-5)
    assert 0.69 < made.privacy_.lower <= made.privacy_.upper <= 0.7
    assert dp.Composition((m, 1) for m in made.history_) == charge
    assert made.statement_.seeded and made.statement_.released


@pytest.mark.parametrize(
    "declared",
    [
        MinMaxScaler(bounds=(0, 1e5)),
        SimpleImputer(strategy="constant", fill_value=[40, 20_000]),
        OneHotEncoder(categories=[["20", "30"], ["x"]]),
    ],
)
def test_what_is_declared_is_free(people, declared):
    made = clone(declared).fit(people)
    assert made.charged_ == dp.Composition() and made.privacy_.upper == 0 and made.history_ == ()
    assert made.statement_.released == () and any("declared" in how for how in made.statement_.public.values())


def test_without_noise_bounds_are_quantiles(people, still):
    made = MinMaxScaler(quantiles=(0.05, 0.95), **LOUD).fit(people)
    low, high = made.bounds_
    wanted = np.nanquantile(people, [0.05, 0.95], axis=0)
    assert (low <= wanted[0] * 1.04).all() and (low >= wanted[0]).all()
    np.testing.assert_allclose(high, wanted[1], rtol=0.04)
    out = made.transform(people)
    assert np.isnan(out).sum() == 500 and np.nanmin(out) == 0 and np.nanmax(out) == 1


@pytest.mark.parametrize("value", [0.0, -3.5, 7e12, 1e300, -1e300, np.inf, np.nan])
def test_a_column_of_one_value_has_bounds_with_a_width(value):
    made = MinMaxScaler(**LOUD, random_state=0).fit(np.full((100, 1), value))
    low, high = made.bounds_
    assert low < high and np.isfinite([low, high]).all()
    assert np.isfinite(made.transform([[0.0], [1e9], [np.inf]])).all()


def test_moments_of_declared_bounds(people):
    made = StandardScaler(bounds=([0, 0], [120, 1e5]), delta=1e-6, noise_multiplier=2.0, random_state=0).fit(people)
    clipped = np.clip(people, 0, [120, 1e5])
    np.testing.assert_allclose(made.mean_, np.nanmean(clipped, axis=0), rtol=0.01)
    np.testing.assert_allclose(made.scale_, np.nanstd(clipped, axis=0), rtol=0.02)
    np.testing.assert_allclose(made.transform(people), (clipped - made.mean_) / made.scale_)
    assert made.charged_ == dp.Gaussian(2.0) * 1


def test_one_record_moves_moments_by_at_most_the_sensitivity():
    g = np.random.default_rng(0)
    rows = g.uniform(-1, 1, (20, 3))
    for record in ([1.0, -1.0, 1.0], [np.nan, 1.0, 0.3], [1 + 1e-15, -1 - 1e-15, 0.999999]):
        query, larger = build_scaler_query(rows, -1.0, 1.0), build_scaler_query(np.vstack([rows, record]), -1.0, 1.0)
        moved = larger.evaluate(None) - query.evaluate(None)
        assert sum((int(m) * Fraction(query.grid)) ** 2 for m in moved) <= Fraction(query.sensitivity) ** 2


def test_noise_alone_gives_a_scale(still):
    made = StandardScaler(bounds=(-1, 1), **LOUD).fit(np.full((5, 2), np.nan))
    assert (made.scale_ > 0).all() and np.isfinite(made.mean_).all()


def test_medians_stand_for_what_is_missing(people, still):
    made = SimpleImputer(domain=(0, 1e5), **LOUD).fit(people)
    np.testing.assert_allclose(made.statistics_, np.nanmedian(people, axis=0), atol=100)
    filled = made.transform(people)
    assert (filled[::10, 1] == made.statistics_[1]).all() and not np.isnan(filled).any()


def test_categories_are_frequent_and_canaries_are_not(people):
    texts = np.array([["north", "1"]] * 3000 + [["south", "2"]] * 1990 + [["Jane Doe", "61739"]] * 10, dtype=object)
    texts[5:500, 0] = None
    made = OneHotEncoder(epsilon=1.0, delta=1e-6).fit(texts)
    assert made.categories_ == [("north", "south"), ("1", "2")]
    assert list(made.get_feature_names_out()) == ["x0=north", "x0=south", "x1=1", "x1=2"]
    assert made.transform([["south", 1], ["Jane Doe", None]]).tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    assert "Jane" not in str(made.statement_) and "61739" not in made.statement_.to_json()


def test_whole_floats_are_the_categories_that_integers_are():
    codes = np.repeat([1, 2, 30], 300)[:, None]
    learned = OneHotEncoder(epsilon=5.0, delta=1e-6)
    for made in (OneHotEncoder(categories=[[1, 2, 30]]), OneHotEncoder(categories=[[1.0, 2.0, 30.0]]), learned):
        expected = (codes == [1, 2, 30]).astype(float)
        for fitted_on in (codes, codes.astype(np.float64), codes.astype(np.float32), codes.astype(object)):
            encoder = clone(made).fit(fitted_on)
            assert sorted(encoder.categories_[0]) == ["1", "2", "30"]
            assert (encoder.transform(codes) == expected).all() and (encoder.transform(codes * 1.0) == expected).all()
        with_none = np.append(codes, [[None]], axis=0)
        assert (encoder.transform(with_none.astype(float)) == np.append(expected, [[0] * 3], axis=0)).all()
        assert not encoder.transform([[1.5], [np.inf], [-1.0], [1e300]]).any()
    assert dp.frequent_values(codes[:, 0] * 1.0, epsilon=5.0, delta=1e-6).values == ("1", "2", "30")


def test_missing_cells_of_data_frames_are_missing_in_arrays():
    pandas = pytest.importorskip("pandas")
    encoder = OneHotEncoder(categories=[["x"]])
    for cells in ({"a": ["x", pandas.NA]}, np.array([["x"], [pandas.NA]], dtype=object)):
        assert encoder.fit_transform(cells).tolist() == [[1.0], [0.0]]
    with pytest.raises(TypeError, match="X must hold texts or numbers: a cell is a ndarray"):
        encoder.fit({"a": ["x", np.zeros(2)]})
    twice = pandas.DataFrame(np.ones((3, 2)), columns=["a", "a"])
    learned = MinMaxScaler(bounds=(0, 1)), DPPCA(1, **LOUD)
    for each in (OneHotEncoder(categories=[[1], [1]]), ColumnTransformer([("p", "passthrough", [0])]), *learned):
        with pytest.raises(ValueError, match=r"X must have columns of different names, .* more than once: a$"):
            each.fit(twice)


def test_columns_share_equally(people):
    table = {"age": people[:, 0], "income": people[:, 1], "sex": ["f", "m"] * 2500}
    parts = [("n", MinMaxScaler(), ["age", "income"]), ("t", OneHotEncoder(), ["sex"])]
    declared = ("d", SimpleImputer(strategy="constant"), ["income"])
    made = ColumnTransformer([*parts, declared, ("p", "passthrough", [0])], epsilon=1.0, delta=1e-6).fit(table)
    assert 0.99 < made.privacy_.lower <= made.privacy_.upper <= 1
    assert made.transform(table).shape == (5000, 2 + 2 + 1 + 1)
    names = ["n__age", "n__income", "t__sex=f", "t__sex=m", "d__income", "p__age"]
    assert list(made.get_feature_names_out()) == names
    squares = [sum(k / m.noise_multiplier**2 for m, k in t.charged_.parts if isinstance(m, dp.Gaussian))
               for _, t, _ in made.transformers_[:2]]  # fmt: skip
    assert squares[0] == pytest.approx(squares[1])
    made.set_params(n__quantiles=(0.1, 0.9))
    assert made.get_params()["n__quantiles"] == (0.1, 0.9)


@pytest.mark.parametrize("kind", LEARNING)
def test_a_ledger_is_charged_first(tmp_path, people, kind):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-5, dataset="test", failure=5e-6)
    made = kind(epsilon=0.5, delta=1e-6, ledger=ledger).fit(people)
    assert ledger.account.composition == made.charged_
    with pytest.raises(dp.BudgetExceeded):
        kind(epsilon=5.0, delta=1e-6, ledger=ledger).fit(people)
    assert len(ledger.history) == 1


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (MinMaxScaler(), "delta must be given"),
        (MinMaxScaler(delta=1e-6), "epsilon must be given"),
        (MinMaxScaler(epsilon=1.0, delta=1e-6, noise_multiplier=1.0), "exclude each other"),
        (MinMaxScaler(**LOUD, quantiles=(0.9, 0.1)), "quantiles must be"),
        (MinMaxScaler(**LOUD, quantiles=(0.0, 0.5)), "quantiles must be"),
        (MinMaxScaler(**LOUD, quantiles=0.5), "quantiles must be"),
        (MinMaxScaler(**LOUD, domain=(3, 2)), "domain must"),
        (MinMaxScaler(bounds=(1, 1)), "bounds must"),
        (MinMaxScaler(bounds=([1, 2, 3], 9)), "bounds must"),
        (StandardScaler(**LOUD, bounds="ab"), "bounds must"),
        (SimpleImputer(**LOUD, strategy="mean"), "strategy must be"),
        (SimpleImputer(strategy="constant", fill_value=np.nan), "fill_value must be"),
        (OneHotEncoder(categories=[["a"]]), "categories must be one list for each of 2"),
        (OneHotEncoder(categories=["ab", "cd"]), "categories must be"),
        (OneHotEncoder(categories=[[], ["a"]]), "categories must be"),
        (OneHotEncoder(epsilon=1.0, delta=1e-300), "delta must be larger"),
        (OneHotEncoder(epsilon=1e-12, delta=1e-12), "epsilon must be larger"),
        (ColumnTransformer([("a", MinMaxScaler(**LOUD), [0])], **LOUD), "noise_multiplier of 'a' must be None"),
        (ColumnTransformer([("a", MinMaxScaler(), [7])], **LOUD), "columns must be"),
        (ColumnTransformer([("a", MinMaxScaler(), ["age"])], **LOUD), "columns must be"),
        (ColumnTransformer([("a", MinMaxScaler(), [])], **LOUD), "columns must be"),
        (ColumnTransformer([("a", MinMaxScaler(), [True, False])], **LOUD), "columns must be names or numbers"),
        (ColumnTransformer([("a", MinMaxScaler(), True)], **LOUD), "columns must be names or numbers"),
        (ColumnTransformer([("a", MinMaxScaler(), np.array([True, False]))], **LOUD), "columns must be names or"),
        (ColumnTransformer([("a", MinMaxScaler(), slice(0, 1))], **LOUD), "columns must be names or numbers"),
        (ColumnTransformer([("a", MinMaxScaler(), None)], **LOUD), "columns must be names or numbers"),
        (ColumnTransformer([("a", MinMaxScaler(), [0]), ("a", MinMaxScaler(), [1])], **LOUD), "different names"),
    ],
)
def test_bad_settings_are_refused_by_name(people, made, message):
    with pytest.raises(ValueError, match=message):
        made.fit(people)


def test_cells_are_not_quoted():
    table = np.array([["1", "Clinic of Jane Doe"], ["2", "x"]], dtype=object)
    for made in (MinMaxScaler(**LOUD), SimpleImputer(**LOUD), ColumnTransformer([("a", "passthrough", [1])])):
        with pytest.raises(ValueError, match="X must") as error:
            made.fit(table)
        assert "Jane" not in str(error.value)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int64])
def test_numbers_of_any_type_are_spelled_alike(kind):
    rows = np.array([[1], [2]] * 300, dtype=kind)
    assert OneHotEncoder(epsilon=2.0, delta=1e-6).fit(rows).categories_ == [("1", "2")]


PAIRS = [(0, 120), (40, 200)]


@pytest.mark.parametrize("given", [PAIRS, tuple(PAIRS), [[0, 120], [40, 200]]])
@pytest.mark.parametrize(
    "fit",
    [
        lambda given, X, y: MinMaxScaler(bounds=given).fit(X),
        lambda given, X, y: MinMaxScaler(domain=given, noise_multiplier=1.0, delta=1e-6).fit(X),
        lambda given, X, y: LogisticRegression(epsilon=1.0, delta=1e-6, bounds=given).fit(X, y),
        lambda given, X, y: Ridge(1.0, 1e-6, bounds=given, target_bounds=(0, 1)).fit(X, y),
    ],
)
def test_two_pairs_for_two_columns_are_no_bounds(people, fit, given):
    """They are (low, high) of each column to whoever writes them, and were read as the lows and the highs."""
    y = (people[:, 0] > 50).astype(int)
    with pytest.raises(ValueError, match=r"must be \(low, high\), .*could be two pairs as well: write \(\[LOW, LOW\]"):
        fit(given, people, y)
    for meant in (([0, 40], [120, 200]), np.array(PAIRS), (np.array([0, 40]), (120, 200)), [[40, 0], [120, 200]]):
        fit(meant, people, y)
