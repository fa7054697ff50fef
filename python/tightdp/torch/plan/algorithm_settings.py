"""The names of algorithms, and the settings of AdaCliP and DPIS, which are dataclasses of ``tightdp.train``."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..._support import _check
from ...algorithms.adaclip import AdaCliP
from ...algorithms.building_blocks.algorithm import AlgorithmReleases, build_algorithm_release
from ...algorithms.dpis import DPIS
from ...release_gate.budget import Target, resolve_noise_from_gate_budget
from ...release_gate.oracle import Public
from ..adam import DPAdam

Settings = AdaCliP | DPIS
"""Type of the settings of an algorithm, for the two algorithms that have settings."""
ALGORITHMS = ("dp-sgd", "dp-adam", "adaclip", "dpis")
"""Names of the algorithms that ``make_private`` accepts."""
# Names of the algorithms in statements and errors, by the type of their settings.
TITLES = {AdaCliP: "AdaCliP", DPIS: "DPIS", type(None): "DP-SGD"}
_ELSEWHERE = ("batch_size", "epochs", "max_norm", "noise_multiplier", "optimizer", "average", "spread")
"""Fields of settings that must keep their defaults. ``make_private`` has arguments for the first four fields. The
caller's training loop decides on the optimizer, on averages and on the length of steps, which ``spread`` determines."""


def choose_algorithm_settings(algorithm: Any) -> tuple[str, Settings | None]:
    """Returns the name and the settings of an algorithm, which is given by its name or by its settings."""
    if isinstance(algorithm, (AdaCliP, DPIS)):
        plain = {field.name: field.default for field in dataclasses.fields(algorithm)}
        for name in _ELSEWHERE:
            if getattr(algorithm, name, None) != plain.get(name):
                raise ValueError(f"algorithm must leave {name} at its default: set it in make_private or in your loop")
        if isinstance(algorithm, DPIS) and algorithm.adapt is not None:
            raise ValueError("algorithm must leave adapt at None: with make_private the norm bound stays at max_norm")
        return ("adaclip" if isinstance(algorithm, AdaCliP) else "dpis"), algorithm
    _check.check_choice_argument("algorithm", algorithm, ALGORITHMS)
    named: dict[str, Settings] = {"adaclip": AdaCliP(), "dpis": DPIS()}
    return algorithm, named.get(algorithm)


def check_torch_algorithm(
    name: str, own: Settings | None, optimizer: Any, arithmetic: str, padded: bool, workers: Any
) -> None:
    """Raises ValueError if the algorithm does not allow the optimizer or another setting."""
    if name == "dp-adam" and not isinstance(optimizer, DPAdam):
        raise ValueError(f"optimizer must be a tightdp.torch.DPAdam for dp-adam, got {type(optimizer).__name__}")
    if name == "adaclip" and isinstance(optimizer, DPAdam):
        raise ValueError("optimizer must not be a DPAdam for adaclip, whose noise differs by coordinate")
    if isinstance(own, DPIS) and own.norm_share is None and isinstance(optimizer, DPAdam):
        raise ValueError(
            "optimizer must not be a DPAdam where norm_share is None: the noise changes from epoch to epoch"
        )
    if padded and arithmetic == "float":
        raise ValueError('padded must be False for arithmetic="float", whose rounding errors depend on all records')
    if name == "adaclip" and arithmetic not in ("exact", "one-by-one"):
        raise ValueError(
            'arithmetic must be "exact" or "one-by-one" for adaclip: each coordinate of a gradient is scaled by itself'
        )
    if name == "dpis" and arithmetic == "products":
        raise ValueError('arithmetic must be "exact", "one-by-one" or "float" for dpis')
    if name == "dpis" and workers:
        raise ValueError(
            f"num_workers must be 0 for dpis, got {workers!r}: each step decides how the next batch is drawn"
        )


MOST_RECORDS = 10**12
"""Number of records with which settings are checked if the true number of records is private.

Settings are refused if a run over this number of records would have more than ``_check.MAX_COUNT`` steps. So the
refusal does not depend on the private number.
"""


def fill_settings_of_plan(
    settings: Settings, batch_size: float, epochs: float, max_norm: tuple[float, ...]
) -> Settings:
    """Returns the settings, completed by the batch size, the epochs and the norm bound of ``make_private``."""
    if len(max_norm) > 1:
        raise ValueError(f"max_norm must be one number for {TITLES[type(settings)]}, got {len(max_norm)}")
    said: dict[str, Any] = {"batch_size": batch_size, "epochs": epochs, "max_norm": max_norm[0]}
    if isinstance(settings, DPIS) and epochs == int(epochs):
        said["epochs"] = int(epochs)
    return dataclasses.replace(settings, **said)


def count_steps_of_plan(records: int, batch_size: float, epochs: float) -> int:
    """Returns the number of steps in ``epochs`` epochs. Raises ValueError for more than ``_check.MAX_COUNT`` steps."""
    turns = epochs * max(1.0, records / batch_size)
    if not turns <= _check.MAX_COUNT:
        raise ValueError(f"epochs must be fewer, or batch_size larger: there would be {turns:g} steps")
    return math.ceil(turns)


def plan_steps_of_run(
    settings: Settings | None,
    batch_size: float,
    epochs: float,
    noise_multiplier: float | None,
    public: Public,
    target: Target,
) -> AlgorithmReleases:
    """Returns the steps of a run. With ``settings`` of AdaCliP or DPIS, ``tightdp.train`` plans the steps."""
    count = count_steps_of_plan(public.records, batch_size, epochs)
    if settings is not None:
        return dataclasses.replace(settings, noise_multiplier=noise_multiplier).compute_steps(public, target)
    q = min(1.0, batch_size / public.records)
    return AlgorithmReleases(
        q,
        resolve_noise_from_gate_budget(
            lambda noise: build_algorithm_release(noise, q) * count, noise_multiplier, target
        ),
        count,
    )
