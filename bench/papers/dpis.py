"""DPIS (Wei et al., CCS 2022) against DP-SGD at equal, honestly charged (epsilon, delta = 1e-5).

--curve prints the noise multiplier that each asks for; the tables print accuracies on MNIST or Fashion-MNIST with
logistic regression or a perceptron: means with 95% confidence intervals, and of the differences from DP-SGD, paired
by seed. Four arms: DP-SGD with batch b; DPIS with batch b and a released share of norms (the paper's, corrected); DPIS
with a public share (all releases known in advance); DP-SGD with batch b / share, which has the guarantee and the noise
of the latter and computes more gradients.

    python bench/papers/dpis.py --curve --data mnist fashion-mnist --model logistic mlp --epsilons 1 --seeds 5
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets

import tightdp as dp
from tightdp.train import DPIS, DPSGD, SGD, LogisticRegression, MLPClassifier

DELTA = 1e-5
SHARE = 0.4
T975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5% quantiles of Student's t with one degree of freedom less."""
RATE = {"logistic": 1.0, "mlp": 0.5}
EPOCHS = {0.5: 5, 1.0: 10, 2.0: 15, 3.0: 20, 4.0: 20}


def arms(batch: int, epochs: int, rate: float) -> dict[str, object]:
    common = {"optimizer": SGD(rate), "average": 0.5}
    importance = {"epochs": epochs, "max_norm": 1.0, **common}
    return {
        f"DP-SGD {batch}": DPSGD(batch, epochs, **common),
        "DPIS, released share": DPIS(batch, norm_share=None, **importance),
        f"DPIS, share {SHARE}": DPIS(batch, norm_share=SHARE, **importance),
        f"DP-SGD {batch / SHARE:g}": DPSGD(batch / SHARE, epochs / SHARE, **common),
    }


def curve(batch: int, records: int = 60000) -> None:
    print(f"sigma / C of the noise on the sum over b = {batch} records, delta {DELTA:g}: noise multiplier times share")
    print("epsilon  epochs  " + "  ".join(f"share {s:<5g}" for s in (1.0, 0.7, 0.4, 0.2, 0.1)))
    for epsilon, epochs in EPOCHS.items():
        steps = epochs * -(-records // batch)
        row = [
            share
            * float(
                dp.noise_multiplier(
                    epsilon=epsilon, delta=DELTA, sampling_probability=batch / (share * records), steps=steps
                )
            )
            for share in (1.0, 0.7, 0.4, 0.2, 0.1)
        ]
        print(f"{epsilon:7g}  {epochs:6d}  " + "  ".join(f"{s:11.4f}" for s in row), flush=True)


def compare(name: str, model: str, epsilon: float, batch: int, seeds: int) -> None:
    X, y, X_test, y_test = datasets.images(name)
    kind = {"logistic": LogisticRegression, "mlp": MLPClassifier}[model]
    print(f"{name}, {model}, epsilon {epsilon:g}, {EPOCHS[epsilon]} epochs, {seeds} seeds", flush=True)
    base = None
    for label, algorithm in arms(batch, EPOCHS[epsilon], RATE[model]).items():
        scores, start = [], time.perf_counter()
        for seed in range(seeds):
            clf = kind(algorithm, epsilon, DELTA, random_state=seed).fit(X, y)
            assert clf.privacy_.upper <= epsilon
            scores.append(100 * clf.score(X_test, y_test))
        base = scores if base is None else base
        print(
            f"  {label:22s} {interval(scores)}  difference {interval(np.subtract(scores, base))}"
            f"  {(time.perf_counter() - start) / seeds:6.1f} s/fit",
            flush=True,
        )


def interval(values: object) -> str:
    v = np.asarray(values, dtype=float)
    half = T975[len(v)] * v.std(ddof=1) / len(v) ** 0.5 if len(v) in T975 else float("nan")
    return f"{v.mean():6.2f} +- {half:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--data", nargs="*", choices=["mnist", "fashion-mnist"], default=[])
    parser.add_argument("--model", nargs="+", choices=list(RATE), default=["logistic"])
    parser.add_argument("--epsilons", nargs="+", type=float, choices=list(EPOCHS), default=[1.0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if not (options.curve or options.data):
        parser.error("nothing to do: give --curve or --data")
    if options.curve:
        curve(options.batch)
    for name in options.data:
        for model in options.model:
            for epsilon in options.epsilons:
                compare(name, model, epsilon, options.batch, options.seeds)


if __name__ == "__main__":
    main()
