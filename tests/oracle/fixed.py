"""Runs that the ordinary tests compare with enumeration, one or more of each public mechanism."""

from __future__ import annotations

from itertools import product

import numpy as np

import tightdp as dp

from .check import Case

G = dp.Gaussian
LOSS = dp.PrivacyLoss.from_distributions([0.9, 0.1], [0.5, 0.5])
EITHER = dp.PrivacyLoss.from_distributions([0.9, 0.1], [0.5, 0.5], relation="any")
EVEN = dp.PrivacyLoss.from_distributions([0.8, 0.2], [0.2, 0.8], relation="any", mirrored=True)
RELATIONS = ("add_or_remove", "replace", "replace_special")
"""With both directions in one."""
RUNS: list[dp.Mechanism | dp.Composition] = [
    G(1.0) + dp.Laplace(1.0) * 2,
    dp.PureDP(0.7) * 2,
    dp.ApproximateDP(1.0, 0.02),
    dp.BoundedRange(1.0),
    dp.BoundedRange(1.0) + dp.Laplace(2.0),
    dp.ZCDP(0.5),
    dp.ZCDP(0.2, 0.3),
    dp.DiscreteGaussian(1.0, 2) + dp.DiscreteLaplace(1.0),
    dp.DiscreteGaussianVector(1.0, 1.5, 2),
    dp.MixtureOfGaussians(1.0, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)),
    dp.RandomizedResponse(0.4, 3) * 2,
    dp.TreeAggregation(1.0, 5),
    EITHER,
    EVEN,
    LOSS * 2,
    dp.PoissonSampled(G(0.8), 0.3) * 3,
    dp.PoissonSampled(dp.Laplace(0.5), 0.6) * 2,
    dp.PoissonSampled(dp.ApproximateDP(1.0, 0.1), 0.3),
    dp.PoissonSampled(LOSS, 0.3),
    dp.TruncatedPoissonSampled(G(0.5), 0.5, 1, 3),
    dp.TruncatedPoissonSampled(dp.PureDP(1.0), 0.5, 1, 3),
    dp.FixedSizeSampled(G(0.7), 2, 4),
    dp.FixedSizeSampled(dp.PureDP(1.0), 2, 5),
    dp.SampledWithReplacement(G(0.7), 2, 3),
    dp.TreeAggregation(1.0, 6, own_steps=True),
    dp.RandomAllocation(G(0.8), 2),
    dp.RandomAllocation(dp.BoundedRange(1.0), 2),
    dp.RandomAllocation.fixed_bins(G(1.2), 2, 2),
    dp.RandomAllocation(G(0.9), 2, 2),
    dp.RandomAllocation(dp.Laplace(1.5), 3, 3),
    dp.Group(dp.RandomAllocation(G(3.0), 2, 2), 3),
    dp.RandomAllocation(dp.PureDP(1.0), 3),
    dp.RepeatAndSelect(G(1.0), 3.0),
    dp.RepeatAndSelect(dp.PureDP(1.0), 3.0, "poisson"),
    dp.RepeatAndSelect(dp.PureDP(1.2), 300.0),
    dp.RepeatAndSelect(dp.Laplace(1.0), 100.0, 0.0),
    dp.Group(dp.PureDP(1.0), 2),
    dp.Group(dp.RandomizedResponse(0.4, 3), 3),
    dp.Group(dp.Group(dp.Laplace(2.0), 2), 2),
]
GROUPED: list[dp.Mechanism | dp.Composition] = [
    G(1.0) + dp.Laplace(1.0),
    dp.PoissonSampled(G(0.8), 0.3) * 2,
    dp.PoissonSampled(dp.Laplace(0.5), 0.6),
    dp.TreeAggregation(1.0, 3),
    dp.FixedSizeSampled(dp.PureDP(1.0), 2, 5),
    dp.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)),
    dp.PoissonSampled(dp.ApproximateDP(1.0, 0.1), 0.3),
]
CASES = [Case(run, relation) for run, relation in product(RUNS, RELATIONS)]
CASES += [Case(run, relation, k) for run, relation, k in product(GROUPED, RELATIONS, (2, 3))]
SLOW = (Case(dp.ZCDP(0.2, 0.3), "replace"),)
"""Cases whose width takes seconds to compare."""

ONE_BY_ONE = dp.TruncatedPoissonSampled(G(0.2), 0.5, 1, 3)
COMBINED = [
    Case(ONE_BY_ONE, "add", 3),
    Case(ONE_BY_ONE, "remove", 3),
    Case(dp.TruncatedPoissonSampled(G(0.2), 0.9, 1, 2), "remove", 2),
    Case(dp.TruncatedPoissonSampled(dp.ApproximateDP(4.0, 1e-3), 0.1, 1, 3), "remove", 2),
    Case(EITHER, "replace"),
    Case(dp.PoissonSampled(G(0.1), 0.5) * 2, "replace"),
    Case(dp.PoissonSampled(G(0.1), 0.1) * 2, "replace"),
]
"""Right part by part, and easily wrong together: link j of a group of a truncated sample has n - j records; a pair may
not be its own reverse; losses below 0 of participations."""
WIDE = [
    (Case(dp.PoissonSampled(dp.DiscreteGaussian(1.0), 1e-4), "add_or_remove"), np.array([0.0, 0.01, 0.1, 1.0])),
    (Case(dp.PoissonSampled(dp.DiscreteGaussian(0.152, 8), 7e-9) * 2, "remove"), np.array([0.0, 0.1, 5.0, 100.0])),
    (Case(dp.PoissonSampled(dp.Laplace(0.005), 1e-8) * 2, "add_or_remove"), np.array([0.0, 5.0])),
]
"""Where one answer shows another to be needlessly wide."""
REFUSED = {
    (dp.FixedSizeSampled, "add_or_remove"),
    (dp.SampledWithReplacement, "add_or_remove"),
    (dp.RandomAllocation, "replace"),
}
"""What the documentation does not claim, whatever the mechanism on the sample; a user-defined loss names its own
relation, and a tree says whether records keep their steps."""
