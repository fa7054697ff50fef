"""Whether the gradients that one pass put together are all there are: looked at where a model is new."""

from __future__ import annotations

from typing import Any

import torch

from .factors import Factors


def check_whole(whole: Any, parameters: dict[str, Any], factors: dict[int, Factors], records: int) -> None:
    """ValueError unless the gradients of all records add up to ``whole``, what PyTorch computes of their sum.

    It shows a use of a parameter that was not seen, such as one by a tensor that was made of it before. A batch with
    gradients that are not finite shows nothing. Privacy does not rest on it: what was not seen is not in the sum.
    """
    for i, ((name, p), expected) in enumerate(zip(parameters.items(), whole, strict=True)):
        found = torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32))
        with torch.no_grad():
            if i in factors:
                factors[i].squares()  # which may decide on the way
                factors[i].add_weighted(torch.ones(records, dtype=found.dtype, device=p.device), found)
        expected = torch.zeros_like(found) if expected is None else expected.to(found.dtype)
        if not bool(torch.isfinite(expected).all()):
            continue
        tolerance = 10 * torch.finfo(p.dtype).eps ** 0.5
        if (found - expected).abs().max() > tolerance * (expected.abs().max() + found.abs().max()):
            raise ValueError(
                f"model must be one that is clipped in one pass: {name} is used in a way that was not seen, such as by "
                f'a tensor that was made of it before, or in compiled code. arithmetic="exact" takes any module'
            )
