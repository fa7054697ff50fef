"""Pooling in one pass: the numbers and the gradients of PyTorch's function, in another layout."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
import torch.nn.functional as F
from small import clipped_by_hand, private
from torch import nn

from tightdp.torch.ghost_clipping import pooling
from tightdp.torch.ghost_clipping.products import ProductSums


class Pooled(nn.Module):
    """Images, or volumes of a record's own that are pooled one by one, with ties among their maxima."""

    def __init__(self, **options):
        super().__init__()
        self.first, self.last, self.options = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(3, 2), options

    def forward(self, x):
        x = F.relu(self.first(x))
        found = F.max_pool2d(x, **self.options)
        if isinstance(found, tuple):
            found = found[0] + 0.0 * found[1]
        return self.last(found.mean((2, 3)))


OPTIONS = {
    "plain": {"kernel_size": 2},
    "small": {"kernel_size": 2, "stride": 1},
    "one row": {"kernel_size": (1, 3), "stride": (2, 1)},
    "one column": {"kernel_size": (2, 1)},
    "large": {"kernel_size": (3, 4), "stride": 2},
    "overlapping": {"kernel_size": 3, "stride": 1, "padding": 1},
    "dilated": {"kernel_size": (2, 1), "dilation": 2, "ceil_mode": True},
    "with places": {"kernel_size": 2, "return_indices": True},
}


@pytest.mark.parametrize("images", [1, 4, 100])
@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_are_those_of_pytorch(name, images, monkeypatch):
    monkeypatch.setattr(pooling, "PIECE_ENTRIES", images * 3 * 7 * 8)  # so many images are pooled at a time
    torch.manual_seed(2)
    model = Pooled(**OPTIONS[name])
    batch = [torch.randn(6, 2, 7, 8).round(), torch.arange(6) % 2]

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1], reduction="none")

    plan = private(model, max_norm=0.2, noise_multiplier=1.0, arithmetic="products").plan
    sums = ProductSums(plan, dict(model.named_parameters()))
    sums.add(model, loss, batch, 6)
    expected = clipped_by_hand(model, loss, batch, 0.2)
    for each, total in zip(expected, sums.convert_to_floats(), strict=True):
        assert (total - expected[each]).abs().max() <= 6 * 0.2 * 2.0**-13, each
