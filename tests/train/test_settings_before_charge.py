"""An error that no data can mend comes before the ledger is charged: every estimator, algorithm and setting."""

import dataclasses
import itertools

import numpy as np
import pytest

import tightdp as dp
from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler, OneHotEncoder, SimpleImputer, StandardScaler
from tightdp.train import (
    DPAGD,
    DPIS,
    DPPCA,
    DPSGD,
    AdaCliP,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    ObjectivePerturbation,
    OutputPerturbation,
    Ridge,
    SGDRegressor,
)

N = 400
X = np.random.default_rng(1).uniform(0, 1, (N, 2))
Y = (X[:, 0] > 0.5).astype(int)
SETTINGS = {"epsilon": 0.5, "delta": 1e-5, "random_state": 0}
BAD = [-1, 0, 1e-300, 1e300, float("nan"), "x", None, (), (1, 0), object(), 1.5, [0, 1, 2]]
"""Some of these are accepted here and there; then the run must end well."""
QUICK = {
    NoisyGD: {"steps": 2},
    DPSGD: {"epochs": 0.1},
    DPAGD: {"selections": 2},
    AdaCliP: {"epochs": 0.1},
    DPIS: {"epochs": 1},
    OutputPerturbation: {},
    ObjectivePerturbation: {},
}
ESTIMATORS = {
    LogisticRegression: {"classes": [0, 1]},
    LinearSVC: {"classes": [0, 1]},
    MLPClassifier: {"classes": [0, 1], "hidden_layer_sizes": (3,)},
    SGDRegressor: {"target_bounds": (0, 1)},
}
GRID = {"fit_intercept": [True, False]}
OTHERS = {
    Ridge: {"target_bounds": (0, 1)},
    DPPCA: {"n_components": 1},
    MinMaxScaler: {},
    StandardScaler: {},
    SimpleImputer: {},
    OneHotEncoder: {},
    PrivatePipeline: {"steps": [("s", MinMaxScaler()), ("m", LogisticRegression(NoisyGD(steps=2), classes=[0, 1]))]},
    PrivateSearchCV: {
        "estimator": LogisticRegression(NoisyGD(steps=2), classes=[0, 1]), "param_grid": GRID, "mean": 1.0,
    },
}  # fmt: skip
SLOW = {("epsilon", 1e-300), ("delta", 1e-300), ("mean", 1e300), ("epochs", 1e300)}
"""Calibrations beyond what anybody asks, and runs without an end."""


class Book(dp.Ledger):
    """A ledger that covers everything, and counts."""

    dataset, epsilon, delta, identity = "test", 1.0, 1e-5, "0" * 32

    def __init__(self):
        self.spends = 0

    def spend(self, mechanism, count=1, *, note="", release=None):
        self.spends += 1


def attempt(make):
    """ValueError and TypeError alone are raised, and none after a charge."""
    book = Book()
    try:
        made = make()
        made.set_params(ledger=book)
        made.fit(X, Y)
    except (TypeError, ValueError) as error:
        assert not book.spends, error
    else:
        assert book.spends == bool(made.charged_)


def settings_of(kind):
    return [f.name for f in dataclasses.fields(kind) if f.init and f.name not in ("ledger", "callback", "warm_start")]


def values(name):
    return [value for value in BAD if not any((name, value) == slow for slow in SLOW)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "algorithm", [pytest.param(kind, marks=[pytest.mark.slow] * (kind is DPAGD)) for kind in QUICK]
)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("regularization", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
@pytest.mark.parametrize("public_size", [None, pytest.param(N, marks=pytest.mark.slow)])
def test_every_estimator_with_every_algorithm(estimator, algorithm, regularization, public_size):
    given = {**SETTINGS, **ESTIMATORS[estimator], "regularization": regularization, "public_size": public_size}
    attempt(lambda: estimator(algorithm(**QUICK[algorithm]), **given))
    if "classes" in given:
        attempt(lambda: estimator(algorithm(**QUICK[algorithm]), **{**given, "classes": "learn", "epsilon": 8.0}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        pytest.param(kind, name, marks=[pytest.mark.slow] * (kind is DPAGD or name == "batch_size"))
        for kind in QUICK
        for name in settings_of(kind)
    ],
)
def test_every_setting_of_an_algorithm(algorithm, name):
    for value in values(name):
        if algorithm is DPIS and name == "norm_share" and value is None:
            continue  # more records would mend it: they set the noise of what it releases in their stead
        given = {**SETTINGS, "classes": [0, 1], "regularization": 0.1}
        attempt(lambda value=value, given=given: LogisticRegression(
            algorithm(**{**QUICK[algorithm], name: value}), **given))  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", [NoisyGD, pytest.param(DPSGD, marks=pytest.mark.slow), ObjectivePerturbation])
@pytest.mark.parametrize(("estimator", "name"), [(e, name) for e in ESTIMATORS for name in settings_of(e)[1:]])
def test_every_setting_of_an_estimator(estimator, algorithm, name):
    for value in values(name):
        given = {**SETTINGS, **ESTIMATORS[estimator], name: value}
        attempt(lambda given=given: estimator(algorithm(**QUICK[algorithm]), **given))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in OTHERS for name in settings_of(k)])
def test_every_setting_of_the_others(kind, name):
    for value in values(name):
        attempt(lambda value=value: kind(**{**SETTINGS, **OTHERS[kind], name: value}))


def refusal(call, *given):
    try:
        call(*given)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[pytest.mark.slow] * (kind is MLPClassifier))
        for kind in (*ESTIMATORS, *OTHERS)
        if kind is not OneHotEncoder  # it refuses no categories for no columns when it knows that there are columns
        for name in (*settings_of(kind), "callback")
        if hasattr(kind, name) or name == "n_components"
    ],
)
def test_a_charge_is_refused_for_the_settings_that_a_fit_refuses(kind, name):
    """``charge_for`` took bounds, weights and callbacks of which ``fit`` then said that they are none."""
    weights = [{0: 1.0}, {7: 1.0}, {0: 0, 1: 0}, {0: -1}] if name == "class_weight" else []
    if kind in (*ESTIMATORS, Ridge, DPPCA):  # ``charge_for`` of the others takes no heed of the number of features
        weights.append(((0, 0, 0), (1, 1, 1)))
    for value in [*values(name), (0, 1), ((0, 0), (1, 1)), *weights]:
        given = {**SETTINGS, **{**ESTIMATORS, **OTHERS}[kind], **({"public_size": N} if kind in ESTIMATORS else {})}
        made = kind(**{**given, name: value})
        assert refusal(made.charge_for, 2) == refusal(made.fit, X, Y), value


WRONG = {
    "callback": 1, "epsilon": -1.0, "delta": 2.0, "random_state": "x", "bounds": (1, 0), "regularization": -1.0,
    "noise_multiplier": 0.0, "max_norm": -1.0, "public_size": 0, "max_sample_weight": -1.0, "fit_intercept": "x",
    "class_weight": {0: -1.0}, "classes": [], "huber": -1.0, "hidden_layer_sizes": 0, "target_bounds": None,
    "n_components": 9, "center": "x", "algorithm": NoisyGD, "quantiles": (1, 0), "domain": (1, 0),
    "strategy": "x", "missing": "x", "share": 2.0, "holdout": 2.0, "mean": 0.0, "param_grid": {}, "steps": [],
    "estimator": None,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*ESTIMATORS, *OTHERS])
def test_a_charge_and_a_fit_name_the_same_setting_of_two_wrong_ones(kind):
    """Each of them had an order of its own, in which it looked at the settings."""
    wrong = [field.name for field in dataclasses.fields(kind) if field.init and field.name in WRONG]
    for pair in itertools.combinations(wrong, 2):
        made = kind(**{**SETTINGS, **{**ESTIMATORS, **OTHERS}[kind], **{name: WRONG[name] for name in pair}})
        assert refusal(made.charge_for, 2) == refusal(made.fit, X, Y), pair


@pytest.mark.parametrize("kind", [MinMaxScaler, StandardScaler, SimpleImputer, OneHotEncoder, PrivateSearchCV])
@pytest.mark.parametrize("seed", ["x", -1, 1.5, 2**64, True])
def test_a_charge_is_refused_for_a_seed_that_a_fit_refuses(kind, seed):
    made = kind(**{**SETTINGS, **OTHERS[kind], "random_state": seed})
    said = refusal(made.charge_for, 2)
    assert "random_state must be" in said and said == refusal(made.fit, X, Y)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC, MLPClassifier, SGDRegressor, Ridge, DPPCA])
def test_a_charge_for_too_many_numbers_is_refused_before_memory_is_taken(kind):
    """A charge for 10^9 features ended in a MemoryError, or took all memory."""
    given = {name: value for name, value in {**ESTIMATORS, **OTHERS}[kind].items() if name != "classes"}
    made = kind(**given, **SETTINGS)
    for size in ((10**9,), (2**53,), *([(3, 10**9)] if "Classifier" in kind.__mro__[1].__name__ else [])):
        with pytest.raises(ValueError, match="must have at most 268,435,456 numbers, got"):
            made.charge_for(*size)


WRONG_CALLBACKS = [lambda: None, lambda done: None, lambda done, total, more: None, lambda *, done, total: None]


@pytest.mark.parametrize("callback", [int, dict, ValueError])
def test_a_callback_that_is_a_class_must_tell_its_parameters(callback):
    """``int`` does not: it was accepted, and ended the run at its first release, after the charge."""
    book = Book()
    with pytest.raises(TypeError, match=r"of \(done, total\) or None, got <class .* does not tell its parameters"):
        LogisticRegression(classes=[0, 1], ledger=book, callback=callback, **SETTINGS).fit(X, Y)
    assert not book.spends
    for good in (complex, max):  # one tells that it takes two numbers, and the other is a function
        LogisticRegression(NoisyGD(steps=2), classes=[0, 1], callback=good, public_size=N, **SETTINGS).fit(X, Y)


def test_a_callback_that_is_a_coroutine_function_is_refused():
    """It was called and never awaited, so that it did nothing."""

    async def callback(done, total):
        pass

    with pytest.raises(TypeError, match="got a coroutine function"):
        LogisticRegression(classes=[0, 1], callback=callback, **SETTINGS).charge_for(2)


@pytest.mark.parametrize("callback", WRONG_CALLBACKS)
@pytest.mark.parametrize("public_size", [None, N])
def test_a_callback_of_other_arguments_is_refused_before_a_charge(callback, public_size):
    book = Book()
    made = LogisticRegression(NoisyGD(steps=2), classes=[0, 1], ledger=book, public_size=public_size,
                              callback=callback, **SETTINGS)  # fmt: skip
    with pytest.raises(
        TypeError, match=r"callback must be a function of \(done, total\) or None, got a function of \("
    ):
        made.fit(X, Y)
    assert not book.spends
    seen = []
    for good in (lambda *both: seen.append(both), lambda done, total, more=1: seen.append(done), print):
        made.set_params(callback=good).fit(X, Y)
    assert seen and book.spends == 3


def test_functions_of_a_model_have_the_arguments_that_they_are_called_with():
    from tightdp.train import CallableModel

    with pytest.raises(TypeError, match=r"gradients must be a function of \(w, X, y\), got a function of \(w\)"):
        CallableModel(1, lambda w: w)
    with pytest.raises(TypeError, match=r"losses must be a function of \(w, X, y\) or None"):
        CallableModel(1, lambda w, X, y: X, lambda w, X: X)
    with pytest.raises(TypeError, match=r"factory must be a function of \(parameter\)"):
        dp.calibrate(lambda: dp.Gaussian(1.0), epsilon=1.0, delta=1e-5)


def test_a_charge_is_for_no_more_labels_than_are_declared():
    declared = LogisticRegression(classes=[0, 1], **SETTINGS)
    for labels in (3, 1, 0):
        with pytest.raises(ValueError, match=r"n_classes must be an integer (in \[2, 2\]|>= 2), got"):
            declared.charge_for(2, labels)
    for classes in ([0, 1], None, "learn"):
        with pytest.raises(TypeError, match="n_classes must be an integer"):
            LogisticRegression(classes=classes, **{**SETTINGS, "epsilon": 8.0}).charge_for(2, "many")


@pytest.mark.parametrize("last", [LogisticRegression(classes=[0, 1]), SGDRegressor(target_bounds=(0, 1)), Ridge(
    target_bounds=(0, 1))])  # fmt: skip
def test_bounds_of_a_last_step_are_refused_before_a_pipeline_pays(last):
    """A step before it may change the number of features, so bounds for another number of them are no error here."""
    for bounds, refused in (((1, 0), True), ((0, np.inf), True), (((0, 0), (1, 0)), True), (([0] * 6, [1] * 6), False)):
        book = Book()
        steps = [("c", OneHotEncoder(categories=[[0, 1, 2], [0, 1, 2]])), ("m", last.set_params(bounds=bounds))]
        made = PrivatePipeline(steps, ledger=book, **SETTINGS)
        first = refusal(made.charge_for, 2)
        assert first == refusal(made.fit, np.round(2 * X), Y) and bool(first) is refused
        assert book.spends == (not refused)


@pytest.mark.parametrize("estimator", [LogisticRegression, LinearSVC])
def test_a_step_without_a_plan_stops_pipelines_and_searches_before_they_pay(estimator):
    """Its cost depends on the number of records, which is counted first, and it needs a penalty."""
    last = estimator(ObjectivePerturbation(), classes=[0, 1])
    given = {**SETTINGS, "epsilon": 4.0}
    for made in (
        PrivatePipeline([("s", MinMaxScaler()), ("m", last)], **given),
        PrivateSearchCV(last, GRID, mean=1.0, **given),
        estimator(ObjectivePerturbation(), classes="learn", **given),
        estimator(ObjectivePerturbation(), classes=[0, 1], **given),
    ):
        book = Book()
        made.ledger = book
        with pytest.raises(ValueError, match=r"regularization must be > 0|needs a linear model"):
            made.fit(X, Y)
        assert not book.spends


def test_an_error_of_a_plan_says_nothing_of_the_number_of_records():
    """The plans that are tried are for public numbers."""
    told = []
    for n in (20, N):
        with pytest.raises(ValueError) as error:
            LogisticRegression(DPSGD(epochs=1e11), classes=[0, 1], **SETTINGS).fit(X[:n], Y[:n])
        told.append(str(error.value))
    assert told[0] == told[1]


def test_the_ledger_is_charged_before_a_record_is_looked_at():
    """The gate pays when the first release has passed all checks, and evaluates after that."""
    order = []

    class Noted(Book):
        def spend(self, *given, **named):
            order.append("paid")

    clf = LogisticRegression(NoisyGD(steps=2), classes=[0, 1], ledger=Noted(), **SETTINGS)
    clf.callback = lambda done, total: order.append("released")
    clf.fit(X, Y)
    assert order[0] == "paid" and order.count("paid") == 1 and len(order) > 2
