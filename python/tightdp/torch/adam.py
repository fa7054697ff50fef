"""Adam for gradients that carry noise of a known variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .._support import _check


class DPAdam(torch.optim.Optimizer):
    """Adam whose second moments are corrected for the noise (Tang, Shpilevskiy and Lecuyer 2023, arXiv:2312.14334).

    Adam divides m, a running mean of gradients, by the square root of v, a running mean of squared gradients. If
    gradients are private, v is mostly the variance of the noise. This variance is the same in every coordinate. Adam
    then divides all coordinates by nearly the same number, and so becomes gradient descent with momentum. ``DPAdam``
    subtracts ``noise``, the variance of the noise, from v. A step of ``DPAdam`` is the learning rate times m /
    (sqrt(max(v - noise, floor)) + damping). Here m and v are corrected for their start at 0.

    ``floor`` is the standard deviation that the noise alone gives to v, after the steps so far. It is
    noise sqrt(2 sum w^2), where w are the weights of the squared gradients in v. A value of v - noise below the floor
    cannot be told from 0. As steps are taken, the floor falls from sqrt(2) times ``noise`` to sqrt(2 (1 - beta2) / (1 +
    beta2)) times ``noise``. Here beta2 is the second of the ``betas``. In the paper the floor is a constant that must
    be tuned.

    The corrections are post-processing of releases and cost no privacy. Without noise the optimizer is
    ``torch.optim.AdamW``.

    Parameters
    ----------
    params, lr, betas, weight_decay : as for ``torch.optim.AdamW``. Weight decay is not part of the gradient.
    damping : number that is added to the square root. Other libraries call it ``eps``.
    noise_variance : variance of the noise on each coordinate of the gradients. ``make_private`` sets it.

    Raises ValueError for a number out of its range.

    >>> weight = torch.nn.Parameter(torch.zeros(3))
    >>> weight.grad = torch.tensor([1.0, -2.0, 0.0])
    >>> DPAdam([weight], lr=0.1).step()
    >>> [round(x, 3) for x in weight.tolist()]
    [-0.1, 0.1, 0.0]
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        damping: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        noise_variance: float = 0.0,
    ) -> None:
        beta1, beta2 = (_check.below_one("betas", beta) for beta in betas)
        settings = {
            "lr": _check.nonnegative("lr", lr),
            "betas": (beta1, beta2),
            "damping": _check.positive("damping", damping),
            "weight_decay": _check.nonnegative("weight_decay", weight_decay),
            "noise_variance": _check.nonnegative("noise_variance", noise_variance),
        }
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes one step on the gradients of the parameters. A parameter without a gradient stays as it is.

        ``closure`` is a function that computes the loss again, or None. Returns its result, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step_parameter(p, self.state[p], group)
        return loss

    def _step_parameter(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Moves the parameter ``p`` by its gradient. Updates the moments of ``p``, which ``state`` holds."""
        if not state:
            wide = torch.promote_types(p.dtype, torch.float32)
            state.update(step=0, mean=torch.zeros_like(p, dtype=wide), square=torch.zeros_like(p, dtype=wide))
        state["step"] += 1
        gradient, t, (beta1, beta2) = p.grad.to(state["mean"].dtype), state["step"], group["betas"]
        state["mean"].lerp_(gradient, 1 - beta1)
        state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        noise = group["noise_variance"]
        floor = noise * math.sqrt(2 * sum_squared_adam_weights(beta2, t))
        second = (state["square"] / (1 - beta2**t)).sub_(noise).clamp_(min=floor)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        update = state["mean"] / second.sqrt_().add_(group["damping"])
        p.sub_((update * (group["lr"] / (1 - beta1**t))).to(p.dtype))


def sum_squared_adam_weights(beta: float, t: int) -> float:
    """Returns the sum of w_i^2 over steps i = 1, ..., t, where w_i = (1 - beta) beta^(t - i) / (1 - beta^t).

    w_i is the weight of step i in a running mean that decays by ``beta`` in each step.
    """
    return (1 - beta) / (1 + beta) * (1 - beta ** (2 * t)) / (1 - beta**t) ** 2


def set_adam_noise_variance(optimizer: Any, variance: float) -> None:
    """Sets the variance of the noise on gradients in a ``DPAdam``. Other optimizers do not use this variance."""
    if isinstance(optimizer, DPAdam):
        for group in optimizer.param_groups:
            group["noise_variance"] = variance
