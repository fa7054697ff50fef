"""Models whose records are clipped in one pass, with their losses and data."""

import pytest
import torch
from small import cross_entropy, mlp, private, table
from torch import nn
from torch.nn import functional as F

from tightdp.torch.ghost_clipping.clipping import OnePassSums


class Block(nn.Module):
    """Attention built of linear layers, and what stands around it."""

    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.shrink(F.gelu(self.grow(self.after(x))))


class Language(nn.Module):
    """Words, learned positions shared by all records, blocks, and an output tied to the words."""

    def __init__(self, words=13, width=8, length=6, tied=True, each=False, padding=0):
        super().__init__()
        self.each = each  # whether every record brings positions of its own
        self.words, self.places = nn.Embedding(words, width, padding_idx=padding), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, words, bias=not tied)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, x):
        places = torch.arange(x.shape[1])
        h = self.words(x) + self.places(places.expand_as(x) if self.each else places)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Bare(nn.Module):
    """Parameters without a module: a token in front, positions, a scale, a matrix, GPT-2's product."""

    def __init__(self, width=4):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 6, width))
        self.scale, self.shift = nn.Parameter(torch.rand(width)), nn.Parameter(torch.randn(()))
        self.matrix, self.bias = nn.Parameter(torch.randn(width, 3)), nn.Parameter(torch.randn(3))
        self.square = nn.Parameter(torch.randn(width, width))

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        x = torch.tanh(x * self.scale - self.shift) @ self.square
        flat = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.matrix)
        return flat.view(len(x), -1, 3).mean(1)


class Shared(nn.Module):
    """One layer used three times, on inputs of different lengths."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = torch.stack([self.layer(x), x], 1)
        return self.out(self.layer(torch.tanh(self.layer(h))).mean(1))


class LoRA(nn.Module):
    def __init__(self, inner, rank=2):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, inner.in_features))
        self.b = nn.Parameter(torch.randn(inner.out_features, rank))

    def forward(self, x):
        return self.inner(x) + F.linear(F.linear(x, self.a), self.b)


class Attends(nn.Module):
    """PyTorch's own attention, with masks: positions first inside, and its weights are used."""

    def __init__(self, width=4):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(width, 2, 6, dropout=0.0, batch_first=True)
        self.attention, self.out = nn.MultiheadAttention(width, 2), nn.Linear(width, 3)

    def forward(self, x):
        x = self.encoder(x, src_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True)
        y = x.transpose(0, 1)
        y, weights = self.attention(y, y, y, key_padding_mask=torch.arange(x.shape[1]).expand(len(x), -1) > 3)
        return self.out(y.mean(0)) + weights.square().sum((1, 2))[:, None]


class Bags(nn.Module):
    """Sums and means of words, some of which are padding, from a table that serves single words too."""

    def __init__(self, words=13, width=4):
        super().__init__()
        self.mean, self.sum = nn.EmbeddingBag(words, width, padding_idx=0), nn.EmbeddingBag(words, width, mode="sum")
        self.one, self.out = nn.Embedding(words, width), nn.Linear(3 * width, words)
        self.one.weight = self.sum.weight

    def forward(self, x):
        found = torch.cat([self.mean(x), self.sum(x), self.one(x[:, 0])], 1)
        return self.out(found)[:, None].expand(-1, x.shape[1], -1)


def convolutions():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=(2, 1), padding=(1, 2), dilation=(1, 2)), nn.GroupNorm(2, 4), nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 2, groups=2), nn.ReLU(inplace=True), nn.Flatten(2), nn.Conv1d(6, 4, 3, stride=2, padding=1),
        nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip


def built(model, *example):
    model(*example)
    return model


def sentences():
    x = torch.randint(0, 13, (9, 6))
    return [x, x.roll(1, 1)]


def words(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).transpose(1, 2), y, reduction="none").mean(1)


def images():
    return [torch.randn(9, 2, 7, 6), torch.randint(0, 3, (9,))]


def rows():
    return list(table(9).tensors)


CASES = {
    "mlp": (mlp, cross_entropy, rows),
    "tied language": (Language, words, sentences),
    "language": (lambda: Language(tied=False), words, sentences),
    "positions of each record": (lambda: Language(tied=False, each=True, padding=None), words, sentences),
    "long sentences": (lambda: Language(words=3, width=2, length=40), words,
                       lambda: [torch.randint(0, 3, (9, 40)), torch.randint(0, 3, (9, 40))]),
    "bags of words": (Bags, words, lambda: [x * (torch.arange(9) > 0)[:, None] for x in sentences()]),
    "bare parameters": (Bare, cross_entropy, lambda: [torch.randn(9, 5, 4), torch.randint(0, 3, (9,))]),
    "attention of PyTorch": (Attends, cross_entropy, lambda: [torch.randn(9, 5, 4), torch.randint(0, 3, (9,))]),
    "shared": (Shared, cross_entropy, rows),
    "lora": (lambda: nn.Sequential(LoRA(nn.Linear(5, 7)), nn.ReLU(), LoRA(nn.Linear(7, 3))), cross_entropy, rows),
    "convolutions": (lambda: built(convolutions(), torch.randn(1, 2, 7, 6)), cross_entropy, images),
}  # fmt: skip


def one_pass(model, loss_fn, batch, max_norm, cuts=1):
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sums = OnePassSums(private(model, max_norm=max_norm, arithmetic="float", noise_multiplier=1.0).plan, parameters)
    size = -(-len(batch[0]) // cuts)
    for start in range(0, len(batch[0]), size):
        part = [tensor[start : start + size] for tensor in batch]
        sums.add(model, loss_fn, part, len(part[0]))
    return dict(zip(parameters, sums.convert_to_floats(), strict=True)), sums.gradient_ways


def assert_close(found, expected, tolerance=2e-5):
    assert found.keys() == expected.keys()
    largest = max(float(each.abs().max()) for each in expected.values())
    for name, each in found.items():
        assert (each - expected[name]).abs().max() <= tolerance * largest, name


def refused(model, loss_fn, batch, match):
    with pytest.raises(ValueError, match=match):
        one_pass(model, loss_fn, batch, 1.0)
