"""The public names and their signatures, as other code calls them. A change here is a change of the contract."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from signatures import shape
from together import alone

import tightdp as dp
from tightdp import cli, train

OPTIONS = "neighbors='add_or_remove', engine='auto', width=1e-06, eps_error=0.01, delta_error=1e-10"
CLIPPING = "weights=None, center=None, scale=None, groups=None, normalize=False, stability=0.01"

FUNCTIONS = {
    "add_noise": "(total, deviation, *, grid=None, rng=None)",
    "banded_factorization": "(noise_multiplier, *, bands, steps, sampling_probability)",
    "calibrate": f"(factory, *, epsilon, delta, low=1e-09, high=1000000000000000.0, integer=False, {OPTIONS})",
    "clip_and_noise": f"(grads, max_norm, noise_multiplier, *, {CLIPPING}, rng=None, out=None, arithmetic='exact')",
    "clipped_sum": f"(grads, max_norm, *, {CLIPPING}, out=None, accumulate=False, arithmetic='float')",
    "discrete_gaussian": "(sigma, size, *, rng=None)",
    "discrete_laplace": "(scale, size, *, rng=None)",
    "load": "(path, *, patient=False)",
    "frequent_values": "(values, *, epsilon, delta, missing=('',), rng=None, ledger=None, note='frequent_values')",
    "epsilon_batch": "(noise_multiplier, sampling_probability, steps, delta, *, width=0.0001, threads=None, "
    "device='cpu')",
    "exact_grid": "(max_norm)",
    "exact_release": "(grads, max_norm, noise_multiplier, *, noise='gaussian', grid=None, rng=None)",
    "format_down": "(x, spec='')",
    "format_up": "(x, spec='')",
    "get_cmake_dir": "()",
    "get_include": "()",
    "get_library": "()",
    "noise_multiplier": f"(epsilon, delta, sampling_probability=1.0, steps=1, *, {OPTIONS})",
    "rounded_gaussian": "(sigma, size, *, rng=None)",
}
MECHANISMS = {
    "ApproximateDP": "(epsilon, delta)",
    "BoundedRange": "(eta)",
    "DiscreteGaussian": "(sigma, sensitivity=1)",
    "DiscreteGaussianVector": "(sigma, sensitivity, dimensions)",
    "DiscreteLaplace": "(scale, sensitivity=1)",
    "FixedSizeSampled": "(mechanism, sample_size, dataset_size)",
    "Gaussian": "(noise_multiplier)",
    "Group": "(mechanism, size)",
    "Laplace": "(noise_multiplier)",
    "MixtureOfGaussians": "(noise_multiplier, sensitivities, probabilities)",
    "PoissonSampled": "(mechanism, sampling_probability)",
    "PureDP": "(epsilon)",
    "RandomAllocation": "(mechanism, steps, selected=1)",
    "RandomizedResponse": "(noise_parameter, num_buckets)",
    "RepeatAndSelect": "(mechanism, mean, shape=1.0)",
    "SampledWithReplacement": "(mechanism, sample_size, dataset_size)",
    "TreeAggregation": "(noise_multiplier, steps, own_steps=False)",
    "TruncatedPoissonSampled": "(mechanism, sampling_probability, batch_size, dataset_size)",
    "ZCDP": "(rho, xi=0.0)",
}
OTHERS = {
    "Accountant": "(*, neighbors='add_or_remove', keep=True)",
    "Composition": "(parts=())",
    "Ledger": "(where)",
    "Odometer": "(delta, levels, *, neighbors='add_or_remove')",
    "Philox": "(seed, first_stream=0)",
    "PrivacyFilter": "(epsilon, delta, *, family='renyi', order=None, expected=None, others=None, failure=0.0, "
    "neighbors='add_or_remove')",
    "SecureRandom": "()",
    "Statement": "(subject, privacy, delta, charged, neighbors='add_or_remove', released=(), public=<factory>, "
    f"size=None, taken=(), arithmetic='exact', seeded=False, outside=(), ledger=None, version={dp.__version__!r}, "
    "settings=<factory>, parameters=None, dataset=None, date=<factory>, certified=False)",
}
UNCALLED = {
    "Bound",
    "BudgetExceeded",
    "Certificate",
    "ContradictionError",
    "Curve",
    "ExactRelease",
    "Mechanism",
    "PrivacyLoss",
}
UNCALLED |= {"FrequentValues", "LedgerError", "RandomSource", "TableModel", "__version__"}

FOLDERS = {"audit", "cuda", "metrics", "model_selection", "pipeline", "plots", "preprocessing", "tables", "torch"}
FOLDERS |= {"train", "verify"}

QUESTIONS = {
    "advantage": f"(self, *, {OPTIONS})",
    "bayes_risk": f"(self, prior, *, {OPTIONS})",
    "delta": f"(self, epsilon, *, {OPTIONS})",
    "epsilon": f"(self, delta, *, {OPTIONS})",
    "gdp": "(self, delta=0.0, *, neighbors='add_or_remove')",
    "group": "(self, size)",
    "renyi": "(self, orders, *, neighbors='add_or_remove')",
    "profile": f"(self, epsilons, *, {OPTIONS})",
    "tradeoff": f"(self, alphas, *, {OPTIONS})",
}
THOSE_OF_AN_ACCOUNT = OPTIONS.replace("'add_or_remove'", "None")
METHODS = {
    "Accountant.compose": "(self, mechanism, count=1)",
    "Accountant.delta": f"(self, epsilon, *, {THOSE_OF_AN_ACCOUNT})",
    "Accountant.epsilon": f"(self, delta, *, {THOSE_OF_AN_ACCOUNT})",
    "Accountant.from_json": "(text)",
    "Accountant.to_json": "(self)",
    "Bound.to_dict": "(self)",
    "Ledger.can_spend": "(self, mechanism, count=1)",
    "Ledger.create": "(where, *, epsilon, delta, dataset, neighbors='add_or_remove', family='renyi', order=None, "
    "expected=None, others=None, failure=0.0)",
    "Ledger.read_parameters": "(self, release)",
    "Ledger.record_parameters": "(self, release, parameters)",
    "Ledger.spend": "(self, mechanism, count=1, *, note='', release=None)",
    "Odometer.spend": "(self, mechanism, count=1)",
    "PrivacyFilter.can_spend": "(self, mechanism, count=1)",
    "PrivacyFilter.cost": "(self, mechanism)",
    "PrivacyFilter.spend": "(self, mechanism, count=1)",
    "TableModel.predict": "(self, table)",
    "TableModel.predict_proba": "(self, table)",
    "TableModel.to_onnx": "(self)",
    "TableModel.to_sklearn": "(self)",
    "Statement.from_json": "(text, *, patient=False)",
    "Statement.save": "(self, path)",
    "Statement.to_html": "(self)",
    "Statement.to_json": "(self)",
    "PrivacyLoss.from_cdf": "(cdf, *, low, high, infinity=0.0, points=65536, error=8.881784197001252e-16, "
    "relation='add_or_remove', mirrored=False)",
    "PrivacyLoss.from_pmf": "(losses, probabilities, *, infinity=0.0, minus_infinity=None, relation='add_or_remove', "
    "mirrored=False, loss_error=0.0)",
}
FIT = "public_size=None, bounds=None, regularization=0.0"
RUN = "random_state=None, callback=None, ledger=None, warm_start=False, max_sample_weight=None"
LABELS = "classes=None, class_weight=None"
ESTIMATORS = {
    "LinearSVC": f"{FIT}, fit_intercept=True, {RUN}, {LABELS}, huber=0.0",
    "LogisticRegression": f"{FIT}, fit_intercept=True, {RUN}, {LABELS}",
    "SGDRegressor": f"{FIT}, fit_intercept=True, {RUN}, target_bounds=None",
    "MLPClassifier": f"{FIT}, {RUN}, {LABELS}, hidden_layer_sizes=(100,), activation='relu'",
}
COMMANDS = {
    "calibrate": ["--epsilon", "--delta", "--sampling-probability", "--steps", "--json"],
    "delta": ["--noise-multiplier", "--sampling-probability", "--steps", "--epsilon", "--json"],
    "epsilon": ["--noise-multiplier", "--sampling-probability", "--steps", "--delta", "--json"],
    "info": ["--json"],
    "frequent": ["--column", "--epsilon", "--delta", "--ledger"],
    "ledger": ["create", "spend", "show", "report"],
    "predict": ["--probabilities", "--out", "--delimiter", "--encoding"],
    "schema": ["--label", "--out"],
    "statement": ["--out", "--json"],
    "plot": ["--noise-multiplier", "--sampling-probability", "--steps", "--out"],
    "train": ["--label", "--schema", "--drop", "--model", "--algorithm", "--epsilon", "--delta", "--ledger"],
}


def test_the_package_holds_these_names():
    assert set(dp.__all__) == set(FUNCTIONS) | set(MECHANISMS) | set(OTHERS) | UNCALLED


def test_what_is_imported_later_is_there_all_the_same():
    script = """
import sys, numpy
before = set(sys.modules)
import tightdp
names = "cuda", "frequent", "ledger", "clipping_and_noise.gradients", "statement", "tables"
later = {"tightdp." + name for name in names}
assert not (later | {"concurrent.futures", "pathlib"}) & set(sys.modules) - before
assert set(tightdp.__all__) <= set(dir(tightdp))
from tightdp import *
assert later - {"tightdp.cuda"} <= set(sys.modules) and Ledger is tightdp.Ledger
assert tightdp.cuda is sys.modules["tightdp.cuda"]
"""
    alone(script)
    with pytest.raises(AttributeError, match=r"has no attribute 'Legder'"):
        dp.Legder  # noqa: B018


WITHOUT_LIBRARIES = """
import inspect, pydoc, sys

for name in ("matplotlib", "torch", "sklearn", "scipy", "pyarrow", "dask", "cupy", "onnx", "flint"):
    sys.modules[name] = None  # as if it were not installed
import tightdp

assert hasattr(tightdp, "plots") and hasattr(tightdp, "train") and not hasattr(tightdp, "torch")
assert {name for name in dir(tightdp) if not hasattr(tightdp, name)} == {"torch", "verify"} & set(dir(tightdp))
try:
    tightdp.torch
except AttributeError as error:
    assert "torch" in str(error) and isinstance(error.__cause__, ImportError), error
try:
    tightdp.plots.privacy(tightdp.Gaussian(1.0))
except ImportError as error:
    assert "pip install matplotlib" in str(error), error
else:
    raise AssertionError("a figure without matplotlib")
"""


def test_the_package_can_be_looked_over_without_other_libraries():
    alone(
        WITHOUT_LIBRARIES
        + "assert len(inspect.getmembers(tightdp)) > 70\nassert 'Gaussian' in pydoc.render_doc(tightdp)"
    )


def test_dir_lists_public_names_alone():
    shown = {name for name in alone("import tightdp\nprint(*dir(tightdp))").split() if not name.startswith("__")}
    assert shown == {*dp.__all__, *FOLDERS} - {"__version__"}


TYPED = """
import numpy as np
from numpy.typing import NDArray

import tightdp as dp

total: NDArray[np.float64] = dp.clip_and_noise(np.ones((2, 3)), 1.0, 1.0)
layers: list[NDArray[np.float64]] = dp.clip_and_noise([np.ones((2, 3))], 1.0, 1.0)
reveal_type(dp.plots.privacy)
reveal_type(dp.load)
reveal_type(total)
dp.clip_and_noise(np.ones((2, 3)), 1.0, 1.0).no_such_method()  # E: no_such_method
dp.plots.no_such_figure()  # E: no_such_figure
dp.Gausian(1.0)  # E: Gausian
dp.nonexistent  # E: nonexistent
"""


@pytest.mark.slow
def test_type_checkers_tell_a_name_that_does_not_exist(tmp_path):
    """Each line of the snippet that names what is expected of it is an error, and no other line is."""
    pytest.importorskip("mypy", reason="needs mypy")
    (tmp_path / "snippet.py").write_text(TYPED)
    package = Path(dp.__file__).parents[1]
    found_by = {} if package.name == "site-packages" else {"MYPYPATH": str(package)}
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--config-file=", "snippet.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **found_by}, capture_output=True, text=True)
    found = dict(re.findall(r"snippet\.py:(\d+): error: (.*)", done.stdout))
    expected = {
        str(number): line.split("# E: ")[1] for number, line in enumerate(TYPED.splitlines(), 1) if "# E: " in line
    }
    assert found.keys() == expected.keys() and all(expected[at] in found[at] for at in found), done.stdout + done.stderr
    assert not re.search(r'Revealed type is "(builtins\.)?Any"', done.stdout), done.stdout


def test_only_what_type_checkers_do_not_read_finds_names_at_run_time():
    """Without mypy: a ``__getattr__`` that they read would let any name pass."""
    tree = ast.parse(Path(dp.__file__).read_text())
    assert "__getattr__" not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("name", "expected"), [*FUNCTIONS.items(), *MECHANISMS.items(), *OTHERS.items()])
def test_signatures(name, expected):
    assert shape(getattr(dp, name)) == expected


@pytest.mark.parametrize("of", [*MECHANISMS, "Composition", "PrivacyLoss"])
def test_everything_that_composes_answers_the_questions(of):
    for name, expected in QUESTIONS.items():
        assert shape(getattr(getattr(dp, of), name)) == expected


@pytest.mark.parametrize(("path", "expected"), METHODS.items())
def test_methods(path, expected):
    of, name = path.split(".")
    assert shape(getattr(getattr(dp, of), name)) == expected


@pytest.mark.parametrize(("name", "own"), ESTIMATORS.items())
def test_estimators(name, own):
    guarantee = "algorithm=None, epsilon=None, delta=None"
    assert shape(getattr(train, name)) == f"({guarantee}, *, {own})"
    for method in ("fit", "predict", "score", "get_params", "set_params"):
        assert callable(getattr(getattr(train, name), method))


def test_algorithms_are_built_without_arguments():
    for name in ("AdaCliP", "DPAGD", "DPIS", "DPSGD"):
        assert callable(getattr(train, name)().plan)


@pytest.mark.parametrize(("command", "options"), COMMANDS.items())
def test_commands(command, options, capsys):
    with pytest.raises(SystemExit) as done:
        cli.main([command, "--help"])
    assert done.value.code == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in options)


def test_an_unknown_option_of_a_question_is_refused():
    for ask in (dp.Gaussian(1.0).epsilon, dp.Accountant().epsilon, (dp.Gaussian(1.0) * 2).delta):
        with pytest.raises(TypeError, match="neighbours"):
            ask(0.5, neighbours="add")
    with pytest.raises(TypeError, match="accuracy"):
        dp.noise_multiplier(1.0, 1e-5, accuracy=0.1)


def test_answers_have_the_fields_that_are_read():
    b = dp.Gaussian(1.0).epsilon(1e-5)
    assert float(b) == b.upper >= b.lower and b.width >= 0 and b.engine and dict(b.error_budget)
    for curve in (
        dp.Gaussian(1.0).profile([0.0, 1.0]),
        dp.Gaussian(1.0).tradeoff([0.1, 0.5]),
        dp.Gaussian(1.0).bayes_risk([0.1, 0.5]),
        dp.epsilon_batch([1.0, 2.0], 0.1, 10, 1e-5),
    ):
        lower, upper = curve
        assert lower.shape == upper.shape == (2,) and np.all(curve.lower <= curve.upper)
