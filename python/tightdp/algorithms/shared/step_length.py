"""Total length of a run's steps when every step is noisy; it follows from public facts alone.

Noise of standard deviation s per step and coordinate, added up over T steps of length l, moves a weight by about
l s sqrt(T). For a sum over B records s is sigma max_norm / B, and the weight moves by (total length) max_norm / signal,
where the total length is l T and

    signal = B sqrt(T) / sigma.

The signal does not depend on the number of steps: for full batches it is N over the noise multiplier of the whole run.
So the length can be chosen to give each weight a wanted spread. Longer runs are less biased and noisier.
"""

from __future__ import annotations

import math

from ...gate.oracle import Public
from .optimizers import SGD, Optimizer

FRACTION = 0.02
"""Default sampling probability. With it 20 epochs are 1,000 steps, which are short enough for step lengths not to
matter, and amplification by sampling loses nothing against full batches down to a noise multiplier of about 1."""
SPREAD = 2.3
"""Factor of the default spread. Measured on Adult, Bank, IPUMS-BR and MNIST, where halving or doubling it costs .1 to
.5% of accuracy."""

STRIDE = 8.0
"""Length of a step, momentum included, that is short enough: with finer steps nothing changes, so no more are taken. It
is 2 over 1/4, the curvature of a logistic loss along the intercept."""


def choose_total_length(public: Public, signal: float, max_norm: float, spread: float | None) -> float:
    """Returns the sum of all step lengths, momentum included, for gradients clipped to ``max_norm``.

    ``spread`` is the standard deviation that noise alone would give a weight by the last step. None for
    2.3 signal^(1/5) / sqrt(features): noise along curved directions contracts, so more signal pays for longer runs; and
    weights of d features in [0, 1] act through sums of about d terms.
    """
    if spread is None:
        outputs = 1 if public.loss is None else public.loss.outputs
        spread = SPREAD * signal**0.2 / math.sqrt(public.size / outputs)
    return spread * signal / max_norm


def bound_intercept_curvature(max_norm: float) -> float:
    """Returns the largest curvature of a logistic loss along the intercept if gradients are clipped to ``max_norm``:
    that of residuals below it (docs/theory/training.md, section 7). Other losses are taken to have the same one."""
    residual = min(max_norm, 0.5)
    return residual * (1 - residual)


def choose_plain_steps(public: Public, stride: float, max_norm: float, momentum: float = 0.0) -> SGD:
    """Returns steps of length ``stride``, momentum included, or shorter ones if these would diverge.

    Along a curvature c steps of rate r converge if r c < 2 (1 + momentum). Every step is short enough for the
    intercept: otherwise probabilities end further from the minimum with a larger budget. Clipped gradients carry no
    weight away for good, but the penalty can feed on itself, so r times the penalty is kept within half of that limit.
    A squared loss, whose slope has no bound, can do so too. Its curvature is at most |x|^2, which the number of
    parameters replaces, because features are in [0, 1].
    """
    longest = 2 * (1 + momentum) / bound_intercept_curvature(max_norm)
    rate, curvature = min(stride * (1 - momentum), longest), public.regularization
    if public.loss is not None and math.isinf(public.loss.lipschitz):
        curvature += public.loss.curvature * public.size
    if curvature > 0:
        rate = min(rate, (1 + momentum) / curvature)
    return SGD(rate, momentum)


def resolve_optimizer(
    public: Public, given: Optimizer | None, signal: float, steps: int, max_norm: float, spread: float | None
) -> Optimizer:
    """Returns the optimizer that was ``given``, if it is stable, or plain steps that together have ``total_length``."""
    if given is None:
        return choose_plain_steps(public, choose_total_length(public, signal, max_norm, spread) / steps, max_norm)
    check_stable("optimizer", public, given)
    return given


def check_stable(name: str, public: Public, optimizer: Optimizer | None) -> None:
    """Raises ValueError if plain steps given by the caller would diverge for the penalty alone."""
    if not isinstance(optimizer, SGD):
        return
    limit = 2 * (1 + optimizer.momentum)
    if not optimizer.learning_rate * public.regularization < limit:
        raise ValueError(
            f"{name} must have a learning rate below 2 (1 + momentum) / regularization = "
            f"{limit / public.regularization:g}, past which steps diverge, got {optimizer.learning_rate!r}"
        )
