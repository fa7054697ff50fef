"""Mechanisms. They are frozen and hashable, and evaluating the repr of a mechanism builds an equal one.

Each mechanism stands for a pair of distributions of its output, P with the record and Q without it. This pair dominates
the pair of any two neighbouring data sets. A sensitivity bounds the contribution of one record, so under "replace" the
contributions of two records may differ by twice as much (``accounting/pairs/neighbors.py``). A parameter out of its
range raises ValueError or TypeError, which names the parameter and its range.

The modules ``noise_mechanisms`` and ``stated_guarantees`` hold mechanisms that contain no other mechanism. The
mechanisms of ``samplers`` run another mechanism on a part of the records. The mechanisms of ``selections_and_groups``
contain whole compositions. ``privacy_losses`` holds the mechanism that users define by a table of losses, and
``loss_tables`` turns such a table into a lower and an upper bound. ``mechanism_json`` writes mechanisms to files.
"""

from ..composition import Mechanism as Mechanism
from .noise_mechanisms import DiscreteGaussian as DiscreteGaussian
from .noise_mechanisms import DiscreteGaussianVector as DiscreteGaussianVector
from .noise_mechanisms import DiscreteLaplace as DiscreteLaplace
from .noise_mechanisms import Gaussian as Gaussian
from .noise_mechanisms import Laplace as Laplace
from .noise_mechanisms import MixtureOfGaussians as MixtureOfGaussians
from .noise_mechanisms import TreeAggregation as TreeAggregation
from .privacy_losses import PrivacyLoss as PrivacyLoss
from .samplers import FixedSizeSampled as FixedSizeSampled
from .samplers import PoissonSampled as PoissonSampled
from .samplers import RandomAllocation as RandomAllocation
from .samplers import SampledWithReplacement as SampledWithReplacement
from .samplers import TruncatedPoissonSampled as TruncatedPoissonSampled
from .samplers import banded_factorization as banded_factorization
from .selections_and_groups import Group as Group
from .selections_and_groups import RepeatAndSelect as RepeatAndSelect
from .stated_guarantees import ZCDP as ZCDP
from .stated_guarantees import ApproximateDP as ApproximateDP
from .stated_guarantees import BoundedRange as BoundedRange
from .stated_guarantees import PureDP as PureDP
from .stated_guarantees import RandomizedResponse as RandomizedResponse
