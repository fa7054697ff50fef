"""One mechanism of every type, and two of those whose parameters change what they are."""

import tightdp as dp

EVERY = [
    dp.Gaussian(1.5),
    dp.Laplace(2.0),
    dp.PureDP(0.5),
    dp.ApproximateDP(0.5, 1e-6),
    dp.RandomizedResponse(0.25, 4),
    dp.BoundedRange(0.3),
    dp.ZCDP(0.1),
    dp.ZCDP(0.1, 0.5),
    dp.DiscreteGaussian(3.0),
    dp.DiscreteGaussianVector(3.0, 2.5, 10),
    dp.TreeAggregation(3.0, 100),
    dp.DiscreteLaplace(3.0, 2),
    dp.PoissonSampled(dp.Gaussian(1.0), 0.01),
    dp.PoissonSampled(dp.Laplace(1.0), 0.01),
    dp.FixedSizeSampled(dp.Gaussian(1.0), 10, 1000),
    dp.RandomAllocation(dp.Gaussian(1.0), 100, 3),
    dp.MixtureOfGaussians(1.0, (0.0, 0.5, 2.0), (0.25, 0.5, 0.25)),
    dp.TruncatedPoissonSampled(dp.Gaussian(1.0), 0.01, 20, 1000),
    dp.SampledWithReplacement(dp.Gaussian(1.0), 20, 1000),
    dp.RepeatAndSelect(dp.Laplace(1.0), 5.0, 0.5),
    dp.RepeatAndSelect(dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100 + dp.Laplace(1.0), 5, "poisson"),
    dp.Group(dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100, 3),
]
