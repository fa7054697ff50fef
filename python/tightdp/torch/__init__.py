"""Private training of PyTorch models in a usual training loop. The package needs PyTorch, and is imported on its first
use.

``make_private`` takes a model, an optimizer and a data set, and returns a run. The run has a loader of Poisson batches,
a method for private steps, and an account. A private step clips gradients, adds them up and adds noise. The model is
not wrapped.
"""

from .adam import DPAdam
from .batches.poisson_loader import Batch, PoissonLoader
from .gradient_sums.released_loss import MeanLoss
from .make_run import make_private
from .model_checks.group_norm import replace_batch_norm
from .model_checks.record_locality import Audit
from .plan.loss_release import LossRelease
from .plan.plan import Plan
from .run.private_run import PrivateRun
from .run.run_options import AfterFailure, Batches

__all__ = [
    "AfterFailure", "Audit", "Batch", "Batches", "DPAdam", "LossRelease", "MeanLoss", "Plan", "PoissonLoader",
    "PrivateRun", "make_private", "replace_batch_norm",
]  # fmt: skip
