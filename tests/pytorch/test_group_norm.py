"""Batch norms are replaced by GroupNorm, so that a model can be trained privately."""

import copy

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, private
from torch import nn
from torch.utils.data import TensorDataset

from tightdp.torch import replace_batch_norm


class Block(nn.Module):
    """A residual block, with one batch norm in two places."""

    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.again = self.norm

    def forward(self, x):
        return x + self.again(self.convolution(torch.relu(self.norm(x))))


def network():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), Block(6), nn.Flatten(), nn.Linear(6 * 36, 3))


def test_a_network_trains_and_keeps_its_parameters():
    model = network()
    with torch.no_grad():
        model[1].weight.uniform_(0.5, 2.0)
        model[1].bias.uniform_()
    before = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(60, 1, 8, 8), torch.randint(0, 3, (60,)))
    with pytest.raises(ValueError, match=r"1 \(BatchNorm2d\) mixes .*tightdp\.torch\.replace_batch_norm\(model\)"):
        private(model, data, optimizer)
    assert replace_batch_norm(model) is model
    after = dict(model.named_parameters())
    assert after.keys() == before.keys() and all(after[name] is p for name, p in before.items())
    assert not list(model.buffers()) and model[2].again is model[2].norm
    x = torch.randn(5, 6, 4, 4)
    found = nn.functional.group_norm(x, 2, model[1].weight, model[1].bias)
    torch.testing.assert_close(model[1](x), found)
    run = private(model, data, optimizer, noise_multiplier=1.0).fit(cross_entropy)
    assert run.steps_ == 10


@pytest.mark.parametrize(
    ("channels", "groups", "expected"),
    [
        (64, 32, 32),
        (48, 32, 16),
        (32, 32, 16),
        (16, 32, 8),
        (6, 32, 2),
        (7, 32, 1),
        (2, 32, 1),
        (1, 32, 1),
        (15, 15, 5),
    ],
)
def test_groups_divide_the_channels_and_have_two_of_them(channels, groups, expected):
    layer = replace_batch_norm(nn.BatchNorm1d(channels), groups)
    assert layer.num_groups == expected
    if channels > 1:
        assert float(layer(torch.randn(3, channels)).detach().abs().min()) > 0  # something is left of single numbers


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm])
def test_every_kind(kind):
    old = kind(4, eps=1e-3, affine=kind is not nn.BatchNorm3d).eval()
    new = replace_batch_norm(nn.Sequential(copy.deepcopy(old)))[0]
    assert isinstance(new, nn.GroupNorm) and (new.eps, new.affine, new.training) == (1e-3, old.affine, False)
    assert (new.weight is None) == (old.weight is None)
    assert new(torch.randn(2, 4, 3)).shape == (2, 4, 3)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"^model must be a torch.nn.Module"):
        replace_batch_norm(3)
    with pytest.raises(ValueError, match=r"^groups must"):
        replace_batch_norm(network(), 0)
    with pytest.raises(ValueError, match=r"^model must know its channels: 0 \(LazyBatchNorm1d\)"):
        replace_batch_norm(nn.Sequential(nn.LazyBatchNorm1d()))
