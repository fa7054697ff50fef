"""delta(epsilon) of tests/vectors/accounting.json, by whatever "auto" chooses and by the PRV engine."""

import json
from pathlib import Path

import mpmath as mp
import pytest

import tightdp as dp

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "accounting.json").read_text())["delta_of_epsilon"]


def sampled(p, steps):
    return dp.PoissonSampled(dp.Gaussian(float(p["sigma"])), float(p["q"])) * steps


def composition(v):
    p, steps = v["params"], v["steps"]
    match v["mechanism"]:
        case "gaussian":
            return dp.Gaussian(float(p["sigma"])) * steps
        case "laplace":
            return dp.Laplace(float(p["scale_b"]) / float(p["sensitivity"])) * steps
        case "pure_dp_randomized_response" | "approximate_dp":
            return dp.ApproximateDP(float(p["eps0"]), float(p["delta0"])) * steps
        case "poisson_subsampled_gaussian":
            return sampled(p, steps)
        case "poisson_subsampled_gaussian_heterogeneous":
            first, *rest = [sampled(c, c["steps"]) for c in p["components"]]
            return sum(rest, first)
    raise AssertionError(f"unknown mechanism {v['mechanism']}")


def direction(v):
    p = v["params"]
    return p["components"][0]["direction"] if "components" in p else p.get("direction", "add_or_remove")


def named(v):
    return f"{v['mechanism']}-{v['steps']}-{v['eps']}"


def bound(v, **options):
    return composition(v).delta(float(v["eps"]), neighbors=direction(v), **options)


@pytest.mark.parametrize("v", VECTORS, ids=named)
def test_auto(v):
    with mp.workdps(40):
        exact, b = mp.mpf(v["delta"]), bound(v)
        assert b.lower <= exact <= b.upper
        assert b.width <= 1e-5 * exact, "the certificate says little"


@pytest.mark.parametrize("v", VECTORS, ids=named)
def test_prv(v):
    eps_error = 0.01 if v["steps"] < 10**6 else 0.1  # the finer mesh would take 2 GB
    with mp.workdps(40):
        exact, b = mp.mpf(v["delta"]), bound(v, engine="prv", eps_error=eps_error)
        assert b.lower <= exact <= b.upper
        # |delta'| <= 1: a displacement of eps_error in epsilon is worth at most as much in delta
        assert b.width <= 2.5 * eps_error + 1e-9
