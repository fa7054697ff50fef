"""Choice of the length of steps along noisy gradients, from public facts alone.

Let each step have noise of standard deviation s in each coordinate. Over T steps of length l, the noise moves a weight
by about l s sqrt(T). If a step divides its sum by the batch size B, s is sigma max_norm / B for the noise multiplier
sigma. The weight then moves by (total length) max_norm / signal, where the total length is l T and

    signal = B sqrt(T) / sigma.

At a given privacy budget, the signal hardly depends on the number of steps. For full batches the signal is the
number of records divided by the noise multiplier of the whole run. So the total length can be chosen such that noise
gives each weight a wanted standard deviation, the spread. A larger total length means less bias and more noise.
"""

from __future__ import annotations

import math

from ...release_gate.oracle import Public
from .optimizers import SGD, Optimizer

FRACTION = 0.02
"""Default sampling probability. With this probability 20 epochs have 1,000 steps, and shorter steps would not change
the result. At noise multipliers of about 1 or more, full batches would not give better privacy."""
SPREAD = 2.3
"""Factor in the default spread, chosen by experiments on the data sets Adult, Bank, IPUMS-BR and MNIST. On
these data sets, half or twice this factor costs .1 to .5% of accuracy."""

STRIDE = 8.0
"""Length of a step, momentum included: the learning rate divided by (1 - momentum). Shorter steps give the same
results. The length is 2 divided by 1/4, the largest curvature of a logistic loss along the intercept."""


def choose_total_step_length(public: Public, signal: float, max_norm: float, spread: float | None) -> float:
    """Returns the sum of all step lengths, momentum included, for gradients clipped to ``max_norm``.

    ``spread`` is the standard deviation that noise alone would give a weight by the last step. If ``spread`` is None,
    the default 2.3 signal^(1/5) / sqrt(features) takes its place. This default grows with the signal because noise
    along curved directions contracts, which makes a larger total length worthwhile. The default falls with the number d
    of features because a score is a sum of about d terms.
    """
    if spread is None:
        outputs = 1 if public.loss is None else public.loss.outputs
        spread = SPREAD * signal**0.2 / math.sqrt(public.size / outputs)
    return spread * signal / max_norm


def bound_curvature_for_step_length(max_norm: float) -> float:
    """Returns the largest curvature of a logistic loss along the intercept if gradients are clipped to ``max_norm``.

    The maximum is over residuals up to ``max_norm`` (docs/theory/training.md, section 7). Other losses are assumed to
    have the same largest curvature."""
    residual = min(max_norm, 0.5)
    return residual * (1 - residual)


def choose_public_step_length(public: Public, stride: float, max_norm: float, momentum: float = 0.0) -> SGD:
    """Returns steps of length ``stride``, momentum included, or shorter steps if steps of this length would diverge.

    Steps with learning rate r along a direction of curvature c converge if r c < 2 (1 + momentum). The returned steps
    are short enough for the intercept. Clipped gradients are bounded, and cannot make weights diverge. The gradient of
    the penalty can make weights diverge, so r times the regularization is kept within half of the limit. The
    curvature of a squared loss counts in the same way, because its gradients grow with the weights. This curvature is
    at most |x|^2, which is at most the number of parameters for features in [0, 1].
    """
    longest = 2 * (1 + momentum) / bound_curvature_for_step_length(max_norm)
    rate, curvature = min(stride * (1 - momentum), longest), public.regularization
    if public.loss is not None and math.isinf(public.loss.lipschitz):
        curvature += public.loss.curvature * public.size
    if curvature > 0:
        rate = min(rate, (1 + momentum) / curvature)
    return SGD(rate, momentum)


def resolve_algorithm_optimizer(
    public: Public, given: Optimizer | None, signal: float, steps: int, max_norm: float, spread: float | None
) -> Optimizer:
    """Returns the optimizer that was ``given``, after a check of its step length. If ``given`` is None, returns plain
    steps whose total length follows from ``signal`` and ``spread``."""
    if given is None:
        return choose_public_step_length(
            public, choose_total_step_length(public, signal, max_norm, spread) / steps, max_norm
        )
    check_stable_step_length("optimizer", public, given)
    return given


def check_stable_step_length(name: str, public: Public, optimizer: Optimizer | None) -> None:
    """Raises ValueError if the optimizer takes plain steps that would diverge because of the penalty alone."""
    if not isinstance(optimizer, SGD):
        return
    limit = 2 * (1 + optimizer.momentum)
    if not optimizer.learning_rate * public.regularization < limit:
        raise ValueError(
            f"{name} must have a learning rate below 2 (1 + momentum) / regularization = "
            f"{limit / public.regularization:g}, past which steps diverge, got {optimizer.learning_rate!r}"
        )
