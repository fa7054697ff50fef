"""A run whose model is sharded by FSDP2 (``torch.distributed.fsdp.fully_shard``).

Between steps a rank holds its shards of the parameters and of the optimizer's state. A step gathers the whole
parameters once, and puts them in the places of the sharded ones. Ranks then exchange no parameters while they go
through their records. So ranks may have different numbers of records in a batch, or none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import torch

from ..model_checks.model_checks import is_sharded_model_parameter
from ..randomness.process_group import World
from .ranks import Ranks
from .shared_run import SharedRun

_FSDP = "torch.distributed.fsdp"
"""Name of the module of FSDP2, whose hooks are removed during a step."""


class ShardedRun(SharedRun):
    """A ``SharedRun`` with sharded parameters. It has the same batches, noise and guarantee."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._whole: dict[str, Any] = {}
        """Whole trained parameters by name, during a step. Between steps the dict is empty."""
        self._held: dict[int, Any] = {}
        """Whole parameters, by the identity of the sharded parameter that each replaces. Between steps their memory is
        freed."""
        super().__init__(*arguments, **options)

    def step(self, loss_fn: Any, batch: Any) -> None:
        # A process that was forked after the run was made must not exchange shards.
        self._check_owner_of_private_run()
        with self._gather_parameters():
            super().step(loss_fn, batch)

    def _check_run_parameters(self) -> dict[str, Any]:
        if self._whole:
            return self._whole
        reshard_model(self.model)
        return super()._check_run_parameters()

    @contextmanager
    def _gather_parameters(self) -> Iterator[None]:
        """Puts whole parameters in place of sharded ones, and removes FSDP2's hooks, during the ``with`` body."""
        trained = self._check_run_parameters()
        modules = list(self.model.modules())
        places = [(m, name, p) for m in modules for name, p in m._parameters.items() if is_sharded_model_parameter(p)]
        hooks = [(m, name, getattr(m, name)) for m in modules for name in ("_forward_pre_hooks", "_forward_hooks")]
        whole = {id(p): self._gather_parameter(p) for p in dict.fromkeys(p for _, _, p in places)}
        self._sharded = trained
        self._whole = {name: whole.get(id(p), p) for name, p in trained.items()}
        try:
            for module, name, p in places:
                module._parameters[name] = whole[id(p)]
            for module, name, held in hooks:
                others = ((key, hook) for key, hook in held.items() if not _is_fsdp_hook(hook))
                setattr(module, name, OrderedDict(others))
            yield
        finally:
            for module, name, p in places:
                module._parameters[name] = p
            for module, name, held in hooks:
                setattr(module, name, held)
            self._whole = {}
            for p in whole.values():
                p.untyped_storage().resize_(0)

    @torch.no_grad()
    def _gather_parameter(self, p: Any) -> Any:
        full = p.detach().full_tensor()
        if id(p) not in self._held:
            self._held[id(p)] = torch.nn.Parameter(torch.empty_like(full))
        whole = self._held[id(p)].requires_grad_(p.requires_grad)
        whole.untyped_storage().resize_(full.numel() * full.element_size())
        whole.copy_(full)
        return whole

    def _set_step_gradients(self, parameters: dict[str, Any], released: Iterable[Any]) -> None:
        """Gives the optimizer of each rank the rank's shard of the released gradients."""
        sharded = {name: self._sharded[name] for name in parameters}
        parts = (_take_local_shard(p, each.to(p.dtype)) for p, each in zip(sharded.values(), released, strict=True))
        super()._set_step_gradients(sharded, parts)

    def _collect_run_tensors(self) -> dict[str, Any]:
        """Returns whole tensors, as a run without sharding does. All ranks gather the tensors in the same order."""
        reshard_model(self.model)
        return dict(_gather_sharded_tensors(super()._collect_run_tensors()))

    def _load_run_tensors(self, found: dict[str, Any]) -> None:
        """Gives each rank its own shards of whole tensors."""
        held = [p for group in self.optimizer.param_groups for p in group["params"]]
        of_optimizer = {
            i: {name: _take_local_shard(held[i], value) for name, value in state.items()}
            for i, state in found["optimizer"]["state"].items()
        }
        model = {name: _take_local_shard(p, found["model"].get(name)) for name, p in self.model.state_dict().items()}
        super()._load_run_tensors({**found, "model": model, "optimizer": {**found["optimizer"], "state": of_optimizer}})

    def _restore_run_tensors(self) -> None:
        """Gives each rank its own shards of the tensors that the first rank's checkpoint saved."""
        reshard_model(self.model)
        file = BytesIO()
        with self._world.run_ranks_together("the checkpoint"):
            found = self._read_run_tensors()
            torch.save(found, file)
        found = torch.load(BytesIO(self._ranks.broadcast_bytes(file.getvalue())), map_location="cpu", weights_only=True)
        with self._world.run_ranks_together("the checkpoint"):
            if found is not None:
                self._load_run_tensors(found)
        self._ranks.copy_from_first_rank(
            [t for t in (*self.model.parameters(), *self.model.buffers()) if not is_sharded_model_parameter(t)]
        )


def reshard_model(model: Any) -> None:
    """Puts sharded parameters back in their places, because FSDP2 leaves whole parameters there after a forward
    pass."""
    for module in model.modules():
        if hasattr(module, "reshard") and hasattr(module, "unshard"):
            module.reshard()


def check_model_sharding(model: Any, world: World) -> bool:
    """Tells whether the model is sharded. Raises ValueError if it is sharded over other processes than ``world``."""
    reshard_model(model)
    meshes = {p.device_mesh.size() for p in model.parameters() if is_sharded_model_parameter(p)}
    if meshes and (not isinstance(world, Ranks) or meshes != {world.size}):
        raise ValueError(
            f"model must be sharded over the processes that train it, {world.size} of them, got it sharded over "
            f"{', '.join(map(str, sorted(meshes)))}"
        )
    return bool(meshes)


def _take_local_shard(p: Any, whole: Any) -> Any:
    """Returns this rank's shard of ``whole``, if ``whole`` is a tensor in the shape of a sharded parameter ``p``.

    Any other value is returned unchanged.
    """
    if not is_sharded_model_parameter(p) or not isinstance(whole, torch.Tensor) or whole.shape != p.shape:
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(p.device), p.device_mesh, p.placements, src_data_rank=None)  # nothing is sent


def _gather_sharded_tensors(found: Any) -> Any:
    """Returns a nest of dicts, lists and tuples, with each sharded tensor replaced by a whole one in host memory."""
    if isinstance(found, dict):
        return {key: _gather_sharded_tensors(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return type(found)(map(_gather_sharded_tensors, found))
    return found.detach().full_tensor().cpu() if is_sharded_model_parameter(found) else found


def _is_fsdp_hook(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(_FSDP)
