"""Adam whose second moments are corrected for noise: without noise it is Adam, with noise its estimate has no bias."""

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private

from tightdp.torch import DPAdam
from tightdp.torch.adam import sum_squared_adam_weights


def after(optimizer_of, gradients, start):
    p = torch.nn.Parameter(start.clone())
    optimizer = optimizer_of([p])
    for g in gradients:
        p.grad = g.clone()
        optimizer.step()
    return p.detach()


def test_without_noise_it_is_adamw():
    gradients, start = torch.randn(20, 50, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    settings = {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}
    ours = after(lambda p: DPAdam(p, damping=1e-6, **settings), gradients, start)
    theirs = after(lambda p: torch.optim.AdamW(p, eps=1e-6, **settings), gradients, start)
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=0)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.999])
def test_weights_of_the_second_moment(beta):
    for t in (1, 2, 7, 3000):
        w = (1 - beta) * beta ** np.arange(t)[::-1] / (1 - beta**t)
        assert w.sum() == pytest.approx(1) and sum_squared_adam_weights(beta, t) == pytest.approx((w**2).sum())


def test_steps_by_hand():
    gradients, noise, lr, (b1, b2) = torch.randn(30, 6, dtype=torch.float64), 0.7, 0.1, (0.9, 0.99)
    p = torch.zeros(6, dtype=torch.float64)
    ours = after(lambda q: DPAdam(q, lr=lr, betas=(b1, b2), noise_variance=noise), gradients, p)
    g, w = gradients.numpy(), np.zeros(6)
    for t in range(1, 31):
        w1, w2 = (np.array([(1 - b) * b ** (t - i) / (1 - b**t) for i in range(1, t + 1)]) for b in (b1, b2))
        floor = noise * math.sqrt(2 * (w2**2).sum())
        w -= lr * (w1 @ g[:t]) / (np.sqrt(np.maximum(w2 @ g[:t] ** 2 - noise, floor)) + 1e-8)
    assert np.allclose(ours.numpy(), w, rtol=1e-9)


def test_the_correction_takes_the_noise_out():
    """The mean of the corrected second moments is that of the signal, under noise of four times its variance."""
    n, noise, beta = 20000, 1.0, 0.999
    optimizer = DPAdam([torch.nn.Parameter(torch.zeros(n))], betas=(0.9, beta), noise_variance=noise)
    (p,), signal = optimizer.param_groups[0]["params"], 0.5
    for _ in range(3000):
        p.grad = math.sqrt(noise) * torch.randn(n) + signal
        optimizer.step()
    second = optimizer.state[p]["square"].double() / (1 - beta**3000) - noise
    deviation = math.sqrt((2 * noise**2 + 4 * noise * signal**2) * sum_squared_adam_weights(beta, 3000) / n)
    assert abs(float(second.mean()) - signal**2) < 5 * deviation


def test_a_run_tells_it_the_variance_of_its_noise():
    model = mlp()
    optimizer = DPAdam(model.parameters(), lr=0.05)
    run = private(model, optimizer=optimizer, algorithm="dp-adam")
    assert optimizer.param_groups[0]["noise_variance"] == (run.plan.noise_multiplier / 6) ** 2
    run.fit(cross_entropy)
    assert run.charged_ == run.plan.mechanism * 10
    with pytest.raises(ValueError, match=r"^optimizer must be .*DPAdam"):
        private(model, algorithm="dp-adam")


def test_it_is_saved_and_loaded():
    p = torch.nn.Parameter(torch.zeros(4))
    optimizer = DPAdam([p], noise_variance=0.5)
    p.grad = torch.ones(4)
    optimizer.step()
    other = DPAdam([torch.nn.Parameter(torch.zeros(4))])
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["noise_variance"] == 0.5 and len(other.state) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", -1.0), ("betas", (1.0, 0.9)), ("betas", (0.9, 1.0)), ("damping", 0.0), ("weight_decay", -0.1)],
)
def test_settings(name, value):
    with pytest.raises(ValueError, match=f"^{name} must"):
        DPAdam([torch.nn.Parameter(torch.zeros(1))], **{name: value})
