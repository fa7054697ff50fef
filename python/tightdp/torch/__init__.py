"""Private training of PyTorch models, in a loop that stays as it is. Needs torch; imported by name.

``make_private`` takes a model, an optimizer and a data set, and returns a run: Poisson batches to loop over, a step
that clips, adds up and adds noise, and an account. The model is not wrapped.
"""

from .adam import DPAdam
from .group_norm import replace_batch_norm
from .loader import Batch, PoissonLoader
from .loss_release import LossRelease
from .make import make_private
from .options import AfterFailure, Batches
from .plan import Plan
from .record_locality import Audit
from .released_loss import MeanLoss
from .run import PrivateRun

__all__ = [
    "AfterFailure", "Audit", "Batch", "Batches", "DPAdam", "LossRelease", "MeanLoss", "Plan", "PoissonLoader",
    "PrivateRun", "make_private", "replace_batch_norm",
]  # fmt: skip
