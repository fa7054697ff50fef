"""Adam for gradients that carry noise of a known variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .. import _check


class DPAdam(torch.optim.Optimizer):
    """Adam whose second moments are corrected for the noise (Tang, Shpilevskiy and Lecuyer 2023, arXiv:2312.14334).

    Adam divides by the root of the mean square of gradients, v. If gradients are private, v is mostly the variance of
    the noise, the same in every coordinate, so that Adam becomes gradient descent with momentum. Here the variance is
    subtracted: steps are m / (sqrt(max(v - noise, floor)) + damping), with m and v corrected for their start at 0.

    ``floor`` is the standard deviation that v has by the noise alone after so many steps, noise sqrt(2 sum w^2) with w
    the weights in v: a smaller value cannot be told from 0. It falls from sqrt(2) times the noise's variance to
    sqrt(2 (1 - beta2) / (1 + beta2)) times it. In the source it is a constant to be tuned instead.

    The corrections are post-processing of releases and cost nothing. Without noise this is ``torch.optim.AdamW``.

    Parameters
    ----------
    params, lr, betas, weight_decay : as for ``torch.optim.AdamW``; weights decay apart from the gradient
    damping : added to the root; other libraries call it ``eps``
    noise_variance : of every coordinate of the gradients; ``make_private`` sets it

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
        """Takes one step on the gradients of the parameters; one without a gradient stays as it is."""
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
        """Moves one parameter by its gradient, and updates the moments in its ``state``."""
        if not state:
            wide = torch.promote_types(p.dtype, torch.float32)
            state.update(step=0, mean=torch.zeros_like(p, dtype=wide), square=torch.zeros_like(p, dtype=wide))
        state["step"] += 1
        gradient, t, (beta1, beta2) = p.grad.to(state["mean"].dtype), state["step"], group["betas"]
        state["mean"].lerp_(gradient, 1 - beta1)
        state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        noise = group["noise_variance"]
        floor = noise * math.sqrt(2 * sum_squared_weights(beta2, t))
        second = (state["square"] / (1 - beta2**t)).sub_(noise).clamp_(min=floor)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        update = state["mean"] / second.sqrt_().add_(group["damping"])
        p.sub_((update * (group["lr"] / (1 - beta1**t))).to(p.dtype))


def sum_squared_weights(beta: float, t: int) -> float:
    """Sum of w_i^2 over t steps, w_i = (1 - beta) beta^(t - i) / (1 - beta^t)."""
    return (1 - beta) / (1 + beta) * (1 - beta ** (2 * t)) / (1 - beta**t) ** 2


def tell_noise(optimizer: Any, variance: float) -> None:
    """Tells a ``DPAdam`` the variance of the noise on its gradients; other optimizers do not ask for it."""
    if isinstance(optimizer, DPAdam):
        for group in optimizer.param_groups:
            group["noise_variance"] = variance
