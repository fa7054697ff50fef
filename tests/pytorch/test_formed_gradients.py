"""Gradients that are formed from factors: those of PyTorch up to rounding, and a function of their own record alone."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from tightdp.torch.ghost_clipping import factors
from tightdp.torch.ghost_clipping.convolutions import ConvolutionFactors, use_convolution

SETTINGS = [
    # weight, image, stride, padding, dilation, groups
    ((4, 3, 5), (20,), 2, 1, 1, 1),
    ((6, 2, 3, 2), (9, 8), (2, 1), (1, 2), (1, 3), 2),
    ((5, 1, 3, 3), (7, 7), 1, 1, 1, 5),
    ((8, 3, 1, 1), (6, 11), 1, 0, 1, 1),
    ((3, 2, 2, 3, 2), (5, 6, 7), (1, 2, 3), (0, 1, 1), 1, 1),
]


def find_convolution_factors(shape, image, stride, padding, dilation, groups, dtype, records=4):
    weight = torch.nn.Parameter(torch.randn(shape, dtype=dtype))
    x = torch.randn(records, shape[1] * groups, *image, dtype=dtype)
    call = use_convolution(x, weight, None, stride, padding, dilation, groups)
    ((_, found),) = call.parts(torch.randn_like(call.output))
    return found


@pytest.mark.parametrize("settings", SETTINGS)
def test_gradients_of_convolutions_are_those_of_pytorch(settings):
    found = find_convolution_factors(*settings, torch.float32)
    wide = ConvolutionFactors(*(x.double() for x in (found.input, found.g, found.weight)), found.settings, found.groups)
    rows, expected = found.expand_gradient_factors(), wide.expand_gradient_factors()
    assert rows.dtype == torch.float32 and expected.dtype == torch.float64
    torch.testing.assert_close(rows.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("settings", [each for each in SETTINGS if each[-1] == 1])
def test_gradients_of_convolutions_have_the_same_bits_beside_others(settings):
    """PyTorch forms those of convolutions with groups, and makes no such promise."""
    found = find_convolution_factors(*settings, torch.float32)
    rows = found.expand_gradient_factors()
    for k in range(len(rows)):
        some = slice(k, k + 1)
        alone = ConvolutionFactors(found.input[some], found.g[some], found.weight, found.settings, found.groups)
        assert torch.equal(alone.expand_gradient_factors(), rows[some])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("positions, left, right", [(1, 3, 7), (70, 300, 8), (5, 8, 40)])
def test_sums_of_products_are_those_of_pytorch(positions, left, right, dtype):
    """Other types than float32 are left to PyTorch, bit for bit."""
    l, r = (torch.randn(4, positions, n).to(dtype) for n in (left, right))
    rows = factors.OuterProducts(l, r, left).expand_gradient_factors()
    assert rows.dtype == dtype
    if dtype == torch.float32:
        torch.testing.assert_close(rows.double(), l.double().transpose(1, 2) @ r.double(), rtol=1e-5, atol=1e-4)
    else:
        assert torch.equal(rows, l.transpose(1, 2) @ r)


def test_sums_of_products_have_the_same_bits_beside_others():
    """Factors may be views of arrays in another order."""
    l, r = torch.randn(5, 40, 70).transpose(1, 2), torch.randn(9, 5, 70).permute(1, 2, 0)
    rows = factors.OuterProducts(l, r, 40).expand_gradient_factors()
    for k in range(5):
        alone = factors.OuterProducts(l[k : k + 1].contiguous(), r[k : k + 1].contiguous(), 40)
        assert torch.equal(alone.expand_gradient_factors()[0], rows[k])
