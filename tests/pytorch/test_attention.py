"""Attention in one pass: its parts are those of PyTorch, and what is refused is named."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from one_pass_models import assert_close, one_pass
from small import clipped_by_hand, cross_entropy, private
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from tightdp.torch import make_run
from tightdp.torch.ghost_clipping.attention import compute_self_attention


@pytest.mark.parametrize("masked", [None, "shared", "own"])
@pytest.mark.parametrize("shape", [(6, 4), (2, 6, 4), (3, 2, 6, 4)])
def test_attention_in_one_call_is_that_of_records_alone(shape, masked):
    """Records have no axis of heads, or several axes before theirs."""

    class Fused(nn.Linear):
        def forward(self, x):
            q = super().forward(x)
            mask = {None: None, "shared": torch.ones(6, 6).tril().bool(), "own": q @ x.transpose(-1, -2)}[masked]
            return F.scaled_dot_product_attention(q, x, x, mask).flatten(1).square()

    batch = [torch.randn(9, *shape), torch.randint(0, 3, (9,))]
    model = Fused(4, 4)
    assert_close(one_pass(model, cross_entropy, batch, 0.1)[0], clipped_by_hand(model, cross_entropy, batch, 0.1))


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": True}, {"enable_gqa": True}], ids=repr
)
def test_attention_with_dropout(options):
    """PyTorch's function draws for a batch, and not for each record: what is taken apart does."""

    class Dropping(nn.Linear):
        def forward(self, x):
            q = super().forward(x).unflatten(-1, (4, 2)).transpose(-2, -3)
            k = q[..., ::2, :, :] if "enable_gqa" in options else q
            keywords = {name: value for name, value in options.items() if name != "mask"}
            mask = torch.ones(6, 6).triu(1).bool() if "mask" in options else None
            return F.scaled_dot_product_attention(q, k, k, mask, self.dropped, **keywords).flatten(1)[:, :3]

    batch, found = [torch.randn(9, 6, 8), torch.randint(0, 3, (9,))], []
    model = Dropping(8, 8)
    for model.dropped in (0.0, 1e-12, 0.5):
        found.append(one_pass(model, cross_entropy, batch, 0.1)[0])
    assert_close(found[1], found[0])
    assert any(not torch.allclose(found[2][name], found[0][name], rtol=0.1) for name in found[0])


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("shape", [(5, 5), (9 * 2, 5, 5)])
def test_attention_taken_apart_is_that_of_pytorch(shape, dropped):
    module, x = nn.MultiheadAttention(4, 2, dropout=0.5 if dropped else 0.0), torch.randn(5, 9, 4)
    mask = torch.randn(shape)
    expected = module.eval()(x, x, x, attn_mask=mask, average_attn_weights=False)
    found = compute_self_attention(
        F.linear, x, x, x, 4, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, module.dropout,
        module.out_proj.weight, module.out_proj.bias, training=False, attn_mask=mask, average_attn_weights=False,
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "settings, other, why",
    [({}, True, "only self-attention"), ({"kdim": 3, "vdim": 3}, False, "only self-attention"),
     ({"add_bias_kv": True}, False, "add_bias_kv"), ({"add_zero_attn": True}, False, "add_zero_attn")],
)  # fmt: skip
def test_attention_that_is_refused(settings, other, why, monkeypatch):
    """By its settings before any record is read, and by what it computes before a step is charged."""

    class Crossed(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True, **settings)

        def forward(self, x):
            y = torch.randn(len(x), 5, 3 if "kdim" in settings else 4) if other or "kdim" in settings else x
            return self.attention(x, y, y)[0].mean(1)

    dataset = TensorDataset(torch.randn(60, 5, 4), torch.randint(0, 3, (60,)))
    options = {"arithmetic": "float", "noise_multiplier": 1.0, "batch_size": 30}
    if settings:
        with pytest.raises(ValueError, match=r"attention \(MultiheadAttention\) is none.*add_bias_kv.*kdim"):
            private(Crossed(), dataset, **options)
        monkeypatch.setattr(make_run, "check_ghost_clipping_layers", lambda model: None)
    run = private(Crossed(), dataset, **options)
    with pytest.raises(ValueError, match=f"attention.*{why}"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0
