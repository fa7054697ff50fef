import math
import pickle

import numpy as np
import pytest
from every_mechanism import EVERY

import tightdp as dp

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda m: type(m).__name__)
def test_a_mechanism_is_a_value(mechanism):
    rebuilt = eval(repr(mechanism), vars(dp))
    assert rebuilt == mechanism and hash(rebuilt) == hash(mechanism)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    with pytest.raises(AttributeError):
        setattr(mechanism, next(iter(type(mechanism).__match_args__)), 2.0)


def test_numbers_are_kept_as_plain_floats_and_integers():
    m = dp.PoissonSampled(dp.Gaussian(np.float32(0.5)), np.float64(0.25))
    assert repr(m) == "PoissonSampled(mechanism=Gaussian(noise_multiplier=0.5), sampling_probability=0.25)"
    assert dp.Gaussian(2) == dp.Gaussian(2.0)
    assert type(dp.FixedSizeSampled(dp.Gaussian(1), np.int64(3), np.int32(9)).sample_size) is int
    assert math.copysign(1.0, dp.PureDP(-0.0).nominal_epsilon) == 1.0


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("own_steps", lambda flag: dp.TreeAggregation(1.0, 4, own_steps=flag)),
        ("mirrored", lambda flag: dp.PrivacyLoss.from_distributions([0.75, 0.25], [0.25, 0.75], mirrored=flag)),
    ],
)
def test_flags_are_kept_as_plain_ones(name, make):
    assert repr(make(np.True_)) == repr(make(True))
    with pytest.raises(TypeError, match=f"^{name} must be True or False, got 1$"):
        make(1)


REFUSED = [
    *((ValueError, "mean", lambda x=x: dp.RepeatAndSelect(dp.Gaussian(1.0), x)) for x in (0.5, 0, -1.0, NAN, INF)),
    *((ValueError, "mean", lambda x=x: dp.RepeatAndSelect(dp.Gaussian(1.0), x, "poisson")) for x in (0, NAN)),
    *((ValueError, "shape", lambda x=x: dp.RepeatAndSelect(dp.Gaussian(1.0), 2, x)) for x in (-1, NAN, -INF, "x")),
    *((TypeError, "shape", lambda x=x: dp.RepeatAndSelect(dp.Gaussian(1.0), 2, x)) for x in (None, True, [1.0])),
    *((TypeError, "mechanism", lambda x=x: dp.RepeatAndSelect(x, 2)) for x in (None, 1.0, "Gaussian(1.0)")),
    *((TypeError, "mechanism", lambda x=x: dp.Group(x, 2)) for x in (None, 1.0)),
    *((ValueError, "size", lambda x=x: dp.Group(dp.Gaussian(1.0), x)) for x in (0, -1, 1001)),
    (ValueError, "mechanism", lambda: dp.PoissonSampled(dp.Group(dp.PureDP(1.0), 2), 0.5)),
    *((ValueError, "noise_multiplier", lambda x=x: dp.Gaussian(x)) for x in (0, -1.0, NAN, INF, 10**400)),
    *((TypeError, "noise_multiplier", lambda x=x: dp.Gaussian(x)) for x in ("1", True, None, 1j, [1.0], np.ones(2))),
    *((ValueError, "noise_multiplier", lambda x=x: dp.Laplace(x)) for x in (0, -1.0, NAN, INF)),
    *((ValueError, "epsilon", lambda x=x: dp.PureDP(x)) for x in (-1e-9, NAN, INF)),
    (ValueError, "epsilon", lambda: dp.ApproximateDP(-1.0, 0.1)),
    *((ValueError, "delta", lambda x=x: dp.ApproximateDP(1.0, x)) for x in (-0.1, 1.1, NAN)),
    *((ValueError, "noise_parameter", lambda x=x: dp.RandomizedResponse(x, 2)) for x in (0, 1.1, NAN)),
    (ValueError, "num_buckets", lambda: dp.RandomizedResponse(0.5, 1)),
    (TypeError, "num_buckets", lambda: dp.RandomizedResponse(0.5, 2.0)),
    (ValueError, "eta", lambda: dp.BoundedRange(-1.0)),
    (ValueError, "rho", lambda: dp.ZCDP(-1.0)),
    *(
        (ValueError, "sensitivities", lambda c=c: dp.MixtureOfGaussians(1.0, c, (0.5, 0.5)))
        for c in ((1.0, 1.0), (0.0, NAN), (-1.0, 1.0), (0.0,) * 2, ())
    ),
    (TypeError, "sensitivities", lambda: dp.MixtureOfGaussians(1.0, "12", (0.5, 0.5))),
    *(
        (ValueError, "probabilities", lambda p=p: dp.MixtureOfGaussians(1.0, (0.0, 1.0), p))
        for p in ((0.5,), (0.5, 0.6), (0.0, 1.0), (0.5, NAN))
    ),
    (ValueError, "mechanism", lambda: dp.FixedSizeSampled(dp.MixtureOfGaussians(1.0, (1.0,), (1.0,)), 1, 2)),
    (TypeError, "mechanism", lambda: dp.SampledWithReplacement(dp.Laplace(1.0), 1, 2)),
    (ValueError, "batch_size", lambda: dp.TruncatedPoissonSampled(dp.Gaussian(1.0), 0.1, 0, 2)),
    (ValueError, "xi", lambda: dp.ZCDP(1.0, -1.0)),
    (ValueError, "sigma", lambda: dp.DiscreteGaussian(0.0)),
    (ValueError, "sensitivity", lambda: dp.DiscreteGaussianVector(1.0, 0.5, 3)),
    (ValueError, "sensitivity", lambda: dp.DiscreteGaussianVector(1.0, NAN, 3)),
    (ValueError, "dimensions", lambda: dp.DiscreteGaussianVector(1.0, 1.0, 0)),
    (ValueError, "steps", lambda: dp.TreeAggregation(1.0, 0)),
    (ValueError, "mechanism", lambda: dp.PoissonSampled(dp.TreeAggregation(1.0, 5), 0.1)),
    (ValueError, "bands", lambda: dp.banded_factorization(1.0, bands=0, steps=5, sampling_probability=0.1)),
    (TypeError, "steps", lambda: dp.banded_factorization(1.0, bands=2, steps=5.5, sampling_probability=0.1)),
    (ValueError, "sensitivity", lambda: dp.DiscreteGaussian(1.0, 0)),
    (TypeError, "sensitivity", lambda: dp.DiscreteLaplace(1.0, 1.5)),
    (ValueError, "scale", lambda: dp.DiscreteLaplace(0.0)),
    *(
        (ValueError, "sampling_probability", lambda q=q: dp.PoissonSampled(dp.Gaussian(1.0), q))
        for q in (0, -0.1, 1.01, NAN)
    ),
    (TypeError, "mechanism", lambda: dp.PoissonSampled(1.0, 0.1)),
    (TypeError, "mechanism", lambda: dp.PoissonSampled(dp.Gaussian(1.0) * 2, 0.1)),
    (ValueError, "mechanism", lambda: dp.PoissonSampled(dp.PoissonSampled(dp.Gaussian(1.0), 0.1), 0.1)),
    (ValueError, "mechanism", lambda: dp.PoissonSampled(dp.RandomizedResponse(0.5, 2), 0.1)),
    (ValueError, "sample_size", lambda: dp.FixedSizeSampled(dp.Gaussian(1.0), 11, 10)),
    (ValueError, "sample_size", lambda: dp.FixedSizeSampled(dp.Gaussian(1.0), 0, 10)),
    (ValueError, "dataset_size", lambda: dp.FixedSizeSampled(dp.Gaussian(1.0), 1, 0)),
    (ValueError, "steps", lambda: dp.RandomAllocation(dp.Gaussian(1.0), 0)),
    (ValueError, "selected", lambda: dp.RandomAllocation(dp.Gaussian(1.0), 3, 4)),
]


@pytest.mark.parametrize(("error", "name", "build"), REFUSED)
def test_bad_parameters_name_the_argument_and_its_range(error, name, build):
    with pytest.raises(error, match=rf"^{name} must (be (a|an|one)|not be|have)\b"):
        build()


def test_odd_arguments_are_named():
    with pytest.raises(TypeError, match=r"^engine must be one of "):
        dp.Gaussian(1.0).epsilon(1e-5, engine=np.array([]))
    with pytest.raises(ValueError, match=r"^what cdf returns must be numbers in \[0, 1\] and finite"):
        dp.PrivacyLoss.from_cdf(lambda y: [10**400] * len(y), low=-1.0, high=1.0, points=4)
