"""The facts on which all ranks (processes) must agree before a run begins, such as the model and the settings."""

from __future__ import annotations

from typing import Any

import torch

from ..._core import __version__
from ..randomness.process_group import Fact


def list_facts_of_ranks(model: Any, optimizer: Any, dataset: Any, seed: Any, settings: Any) -> dict[str, Fact]:
    """Returns the facts that ranks compare. Each fact is a function, to be called after the arguments were checked."""
    return {
        "versions_of_tightdp_and_torch": lambda: (__version__, torch.__version__),
        "settings": lambda: settings,
        "random_state": lambda: seed,
        "number_of_records": lambda: len(dataset),
        "model": lambda: [
            *((name, p.shape, p.dtype, p.requires_grad) for name, p in model.named_parameters()),
            *((name, b.shape, b.dtype) for name, b in model.named_buffers()),
        ],
        "optimizer": lambda: (
            type(optimizer).__name__,
            [sorted((k, v) for k, v in group.items() if k != "params") for group in optimizer.param_groups],
        ),
    }
