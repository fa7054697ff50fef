"""Scattering features of images (Oyallon and Mallat 2015), by kymatio: two scales, eight angles, 81 maps of 7 x 7.

A feature vector is a function of its image alone, so that it costs no privacy: maps are normalised in 27 groups of each
image, as Tramer and Boneh (ICLR 2021) do where nothing is estimated from the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import data
import data_sets
import numpy as np
import torch
from shared import RESULTS
from torch.nn.functional import group_norm

GROUPS, AT_ONCE = 27, 500


def scattered(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As ``data_sets.images``, with 3,969 features of each image in float32; kept in bench/results."""
    X, y, test_X, test_y = data_sets.images(name)
    found = []
    for part, images in (("train", X), ("test", test_X)):
        file = RESULTS / f"scattering-{name}-{part}.npy"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial.npy")
            np.save(partial, features(images))
            partial.replace(file)
        found.append(np.load(file))
    return found[0], y, found[1], test_y


def features(images: np.ndarray) -> np.ndarray:
    try:  # kymatio.torch imports what is no longer in SciPy
        from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D
    except ImportError:
        raise data.Missing("scattering features need kymatio: pip install kymatio") from None
    scattering = ScatteringTorch2D(J=2, shape=(28, 28))
    out = []
    for start in range(0, len(images), AT_ONCE):
        some = torch.from_numpy(images[start : start + AT_ONCE]).view(-1, 1, 28, 28).contiguous()
        maps = scattering(some)[:, 0]
        out.append(group_norm(maps, GROUPS).flatten(1).numpy())
    return np.concatenate(out)
