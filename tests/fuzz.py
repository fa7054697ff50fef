"""Bad input to everything public: it gets an answer or an error that says what is wrong, and never a crash or a hang.

    python tests/fuzz.py SEED CALLS

Arguments are good ones with one or two replaced by what nobody should pass. Allowed are an answer, ValueError,
TypeError, BudgetExceeded and MemoryError; anything else, or a call of more than HANG seconds, ends the process with a
message (a hang with the stacks of all threads). Runs in a process of its own, for what it looks for may kill it.
"""

import faulthandler
import random
import sys
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np

import tightdp as dp
from tightdp.audit import one_run, paired
from tightdp.train import DPSGD, AdaCliP, LinearSVC, LogisticRegression, MLPClassifier, NoisyGD

HANG = 60
"""On a busy machine; ten seconds is what a call may take on an idle one."""
ALLOWED = (ValueError, TypeError, dp.BudgetExceeded, MemoryError)

NUMBERS = [0, 1, -1, 2, 3, 2**31, 2**53, 2**64, 10**400, -0.0, 0.5, 1.0, 1e-9, 5e-324, 1e-310, 1e308, 1 - 2**-53,
           float("inf"), float("-inf"), float("nan"), True, np.float32(0.1), np.float64("nan"), np.int64(-3),
           Fraction(1, 3), Decimal("0.1"), 1j]  # fmt: skip
OTHERS = [None, "", "remove", "renyi", b"x", [], [1.0], [[1.0], [1.0, 2.0]], {}, {"a": 1}, object(), range(3), len,
          dp.Gaussian, dp.Gaussian(1.0), dp.PureDP(0.0), dp.ZCDP(1e-3), dp.Composition(), dp.Philox(1)]  # fmt: skip
ARRAYS = [np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 3)), np.ones((4, 5), np.float32)[:, ::-2],
          np.full((2, 3), np.nan), np.full((2, 3), 1e308), np.ones((2, 3), np.float16), np.ones((2, 3), ">f8"),
          np.ones((3, 2), order="F"), np.arange(6).reshape(2, 3), np.zeros((2, 3), object), np.array("text"),
          np.ones((2, 3), complex), np.broadcast_to(1.0, (2, 3)), np.float64(1.0), np.ones((2, 2, 2), np.float32),
          np.zeros(3, bool), np.array([-1.0, 0.5, np.inf])]  # fmt: skip


def good(draw):
    """(name, function, arguments) of calls that are answered as they stand."""
    g = np.random.default_rng(draw.randrange(2**32))
    n, d = draw.randint(1, 12), draw.randint(1, 40)
    rows = g.normal(size=(n, d)).astype(draw.choice([np.float32, np.float64]))
    X, y = g.random((n + 8, 3)), np.arange(n + 8) % 2
    m, delta, epsilon = mechanism(draw), 10 ** draw.uniform(-9, -1), 10 ** draw.uniform(-2, 1)
    rng = dp.Philox(3)
    yield "Gaussian", dp.Gaussian, {"noise_multiplier": 1.0}
    yield "Laplace", dp.Laplace, {"noise_multiplier": 1.0}
    yield "ApproximateDP", dp.ApproximateDP, {"epsilon": 1.0, "delta": 1e-5}
    yield "RandomizedResponse", dp.RandomizedResponse, {"noise_parameter": 0.5, "num_buckets": 3}
    yield "DiscreteGaussian", dp.DiscreteGaussian, {"sigma": 2.0, "sensitivity": 1}
    yield "PoissonSampled", dp.PoissonSampled, {"mechanism": m, "sampling_probability": 0.1}
    yield "FixedSizeSampled", dp.FixedSizeSampled, {"mechanism": m, "sample_size": 2, "dataset_size": 20}
    yield "RandomAllocation", dp.RandomAllocation, {"mechanism": dp.Gaussian(1.0), "steps": 8, "selected": 1}
    yield "PrivacyLoss.from_pmf", dp.PrivacyLoss.from_pmf, {"losses": [-0.5, 0.5], "probabilities": [0.25, 0.75]}
    for name in ("epsilon", "delta", "profile", "tradeoff", "bayes_risk"):
        at = {"epsilon": ("delta", delta), "delta": ("epsilon", epsilon), "profile": ("epsilons", [0.5, 1.0]),
              "tradeoff": ("alphas", [0.1]), "bayes_risk": ("prior", 0.5)}[name]  # fmt: skip
        relation = draw.choice(["add_or_remove", "add", "remove", "replace"])
        engine = draw.choice(["auto", "auto", "closed_form", "contour", "grid", "renyi", "prv"])
        asked = {at[0]: at[1], "neighbors": relation, "engine": engine, "width": 10 ** draw.uniform(-7, -1)}
        yield f"{m!r}.{name}", getattr(m, name), asked
    yield "times", lambda count, m=m: m * count, {"count": 5}
    yield "epsilon_batch", dp.epsilon_batch, {"noise_multiplier": [1.0, 2.0], "sampling_probability": 0.01,
                                              "steps": [[10], [1000]], "delta": delta}  # fmt: skip
    yield "noise_multiplier", dp.noise_multiplier, {"epsilon": epsilon, "delta": delta, "sampling_probability": 0.01,
                                                    "steps": 100}  # fmt: skip
    yield "calibrate", dp.calibrate, {"factory": dp.Gaussian, "epsilon": epsilon, "delta": delta}
    account, odometer = dp.Accountant(), dp.Odometer(1e-5, [1.0, 2.0])
    yield "compose", account.compose, {"mechanism": m, "count": 3}
    yield "from_json", dp.Accountant.from_json, {"text": account.to_json()}
    yield "PrivacyFilter", dp.PrivacyFilter, {"epsilon": 1.0, "delta": 1e-5, "family": "renyi", "order": 5.0}
    yield "spend", dp.PrivacyFilter(1.0, 1e-5).spend, {"mechanism": m, "count": 1}
    yield "Odometer", dp.Odometer, {"delta": 1e-5, "levels": [1.0, 2.0]}
    yield "Odometer.spend", odometer.spend, {"mechanism": m, "count": 2}
    yield (
        "clipped_sum",
        dp.clipped_sum,
        {"grads": rows, "max_norm": 1.0, "weights": None, "center": None, "scale": None},
    )
    yield "clip_and_noise", dp.clip_and_noise, {"grads": [rows, rows[:, :1]], "max_norm": 1.0, "noise_multiplier": 1.0,
                                                "rng": rng, "out": None}  # fmt: skip
    yield "exact_release", dp.exact_release, {"grads": rows, "max_norm": 1.0, "noise_multiplier": 1.0, "rng": rng}
    yield "add_noise", dp.add_noise, {"total": rows[0].copy(), "deviation": 1.0, "rng": rng}
    yield "discrete_gaussian", dp.discrete_gaussian, {"sigma": 2.0, "size": 7, "rng": rng}
    yield "discrete_laplace", dp.discrete_laplace, {"scale": Fraction(7, 3), "size": (2, 3), "rng": rng}
    yield "rounded_gaussian", dp.rounded_gaussian, {"sigma": 2.5, "size": 7, "rng": rng}
    yield "Philox", dp.Philox, {"seed": 1, "first_stream": 2}
    yield "normal", rng.normal, {"size": 5, "dtype": np.float32}
    yield "bernoulli", rng.bernoulli, {"probability": 0.5, "size": 5}
    algorithm = draw.choice([NoisyGD(steps=3), DPSGD(batch_size=4, epochs=1), AdaCliP(batch_size=4, epochs=1)])
    kind = draw.choice([LogisticRegression, LinearSVC, MLPClassifier])
    model = {"algorithm": algorithm, "epsilon": 1.0, "delta": 1e-5, "random_state": 0, "bounds": (0, 1)}
    yield kind.__name__, lambda X, y, **a: kind(**a).fit(X, y).predict(np.zeros((1, 3))), {**model, "X": X, "y": y}
    yield "paired", paired, {"scores_with": [1.0, 2.0, 3.0], "scores_without": [0.0, 1.0, 0.5], "delta": 1e-5}
    yield "one_run", one_run, {"scores": [1.0, -1.0, 0.5, 2.0], "included": [True, False, True, True], "delta": 1e-5}


def mechanism(draw):
    bounded = [dp.PureDP(0.3), dp.BoundedRange(0.2), dp.ApproximateDP(0.1, 1e-6)]
    additive = [
        dp.Gaussian(draw.uniform(0.5, 9)),
        dp.Laplace(3.0),
        dp.DiscreteGaussian(4.0, 1),
        dp.DiscreteLaplace(4.0, 1),
    ]
    base = draw.choice(bounded + additive)
    return draw.choice([base, base, dp.PoissonSampled(base, 0.01), dp.FixedSizeSampled(base, 3, 100)])


def bad(draw):
    return draw.choice(draw.choice([NUMBERS, NUMBERS, OTHERS, ARRAYS]))


def call(name, function, arguments):
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            function(**arguments)
        except ALLOWED as error:
            if not str(error) or "keyword argument" in str(error):  # the latter is a mistake of this file
                raise AssertionError("an error that says nothing") from error
    leaked = [w for w in warned if issubclass(w.category, RuntimeWarning)]
    assert not leaked, leaked[0].message


def main(seed, calls):
    draw = random.Random(seed)
    for i in range(calls):
        name, function, arguments = draw.choice(list(good(draw)))
        for key in draw.sample(sorted(arguments), draw.choice([0, 1, 1, 1, 2]) if len(arguments) > 1 else 1):
            arguments[key] = bad(draw)
        if type(size := arguments.get("size")) is int and size == 2**31:
            arguments["size"] = 2**41  # 16 GB would be drawn, as asked: no slip, but more than a test may take
        faulthandler.dump_traceback_later(HANG, exit=True)
        print(
            f"call {i}: {name} {arguments!r}"[:500], file=sys.stderr, flush=True
        )  # the last one is that which crashed
        try:
            call(name, function, arguments)
        except BaseException as error:
            print(f"seed {seed}, call {i}: {name}({arguments!r}) gave {type(error).__name__}: {error}")
            raise
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
