"""Checks, made before any record is read, that a model and an optimizer can be trained privately."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import torch

from ..._support import _check
from ..batches import collated_batch

_BATCH_NORMS = torch.nn.modules.batchnorm._BatchNorm
"""Base class of all batch norms, including synchronised and lazy ones."""
_LAZY: Any = torch.nn.modules.lazy.LazyModuleMixin
"""Base class of modules that create their parameters when they get their first batch."""
_SPECTRAL: Any = torch.nn.utils.parametrizations._SpectralNorm
"""Class of the parametrization by a spectral norm, which improves its estimate of the norm with every batch."""
_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of parameters that can be trained."""


def check_types_of_torch_model(model: Any, optimizer: Any) -> None:
    """Raises TypeError or ValueError for a model or an optimizer of a type that cannot be trained privately."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if type(model).__name__ in ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"):
        raise ValueError(
            f"model must be the module itself, got it in {type(model).__name__}: every process would add noise of its "
            "own. Pass the module: the processes of torch.distributed.init_process_group train together without this, "
            "and fully_shard (FSDP2) shards it"
        )
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("optimizer must take one gradient a step: LBFGS asks for the loss again and again, uncharged")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise ValueError("optimizer must take dense gradients, because every coordinate gets noise: use Adam")
    if hasattr(optimizer, "grad_samples") or hasattr(model, "_forbid_grad_accumulation"):
        raise ValueError("model and optimizer must be those of PyTorch, got ones that Opacus has wrapped")


def check_model_modules(model: Any) -> None:
    """Raises ValueError for a module that mixes the records of a batch, or keeps information about them."""
    for name, module in model.named_modules():
        kind, label = type(module).__name__, name or "the model itself"
        if isinstance(module, _BATCH_NORMS) and module.training:
            raise ValueError(
                f"model must treat each record apart: {label} ({kind}) mixes the records of a batch. Use GroupNorm, "
                f"which tightdp.torch.replace_batch_norm(model) puts in its place, or LayerNorm, or keep it in eval "
                f"mode, where it uses the statistics it has"
            )
        if isinstance(module, torch.nn.modules.instancenorm._InstanceNorm):
            if module.track_running_stats and module.training:
                raise ValueError(
                    f"model must not keep statistics of records: {label} ({kind}) does. Use track_running_stats=False"
                )
        elif isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and (module.max_norm or module.sparse):
            raise ValueError(
                f"model must have embeddings without max_norm and sparse: {label} ({kind}) would change the rows of "
                f"the words it sees without noise, or have gradients for those rows alone. Leave both settings out"
            )
        elif isinstance(module, _SPECTRAL) and module.training:
            raise ValueError(
                f"model must keep nothing from one batch to the next: {label} ({kind}) improves an estimate with each "
                f"batch. Call remove_parametrizations of torch.nn.utils.parametrize, or keep it in eval mode"
            )
        elif any(type(hook).__module__.startswith("torch.nn.utils.") for hook in module._forward_pre_hooks.values()):
            raise ValueError(
                f"model must have weights that are parameters: {label} ({kind}) has one that a hook of torch.nn.utils "
                f"(weight_norm, spectral_norm or prune) puts into it before each batch. Remove it (remove_weight_norm, "
                f"remove_spectral_norm, prune.remove), or use torch.nn.utils.parametrizations.weight_norm"
            )
        elif any(
            _is_model_hook_from_outside_torch(hook)
            for hook in (*module._backward_hooks.values(), *module._backward_pre_hooks.values())
        ):
            raise ValueError(
                f"model must have no backward hooks: gradients of single records do not go through the hook of {label} "
                f"({kind}). Remove it, and change the gradients after a step, where they have noise"
            )
        elif isinstance(module, _LAZY) and module.has_uninitialized_params():
            raise ValueError(
                f"model must have all its parameters: {label} ({kind}) makes them at its first batch. Run one batch "
                f"through it before"
            )


def is_sharded_model_parameter(p: Any) -> bool:
    """Tells whether FSDP2 shards a parameter."""
    return hasattr(p, "full_tensor") and hasattr(p, "device_mesh")


def find_trained_parameters(model: Any, optimizer: Any) -> dict[str, Any]:
    """Returns the trained parameters by name.

    Raises ValueError if the optimizer lacks one of them, or holds parameters that are not in the model. A trained
    parameter that the optimizer lacks would add to the norms of gradients and get noise, but would never change. The
    optimizer may hold frozen parameters of the model too.
    """
    known = {id(p): name for name, p in model.named_parameters(remove_duplicate=False)}
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    strangers = len(held - known.keys())
    if strangers:
        raise ValueError(
            f"optimizer must hold parameters of the model alone: {strangers} of its parameters are not in it. Make the "
            f"optimizer of model.parameters(), after the model has its last form"
        )
    found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    missing = [name for name, p in found.items() if id(p) not in held]
    if missing:
        raise ValueError(
            f"optimizer must hold every parameter that requires a gradient: it lacks "
            f"{_join_names_of_model_parameters(missing)}. Give them to it, or freeze them: requires_grad_(False)"
        )
    if not found:
        raise ValueError("model must have a parameter that requires a gradient: all are frozen")
    for name, p in found.items():
        if p.dtype not in _REAL:
            raise TypeError(f"model must have real parameters to train: {name} is of {p.dtype}")
        if any(map(_is_model_hook_from_outside_torch, (p._backward_hooks or {}).values())):
            raise ValueError(
                f"model must have no backward hooks: gradients of single records do not go through the hooks of {name}"
            )
        if p.is_meta or p.numel() == 0:
            raise ValueError(f"model must have parameters in memory: {name} is empty or on the meta device")
    return found


def _is_model_hook_from_outside_torch(hook: Any) -> bool:
    return not (getattr(hook, "__module__", None) or "").startswith("torch.")


def check_optimizer_of_torch_model(optimizer: Any) -> None:
    """Raises ValueError for a setting of the optimizer that would make parameters NaN or infinite."""
    for group in optimizer.param_groups:
        for name, value in group.items():
            for each in value if isinstance(value, tuple) else (value,):
                x = each.item() if isinstance(each, torch.Tensor) and each.numel() == 1 else each
                if isinstance(x, Real) and (x != x or (name in ("lr", "weight_decay") and math.isinf(x))):
                    raise ValueError(
                        f"optimizer must have a finite {name}, got {x}: parameters would become infinite or NaN"
                    )


def check_model_parameters_finite(parameters: Iterable[tuple[str, Any]]) -> None:
    """Raises ValueError for a parameter that is not finite, since no record would then have a finite gradient.

    A frozen parameter may have infinite values, as masks do, but no NaN.
    """
    for name, p in parameters:
        held = p.detach().to_local() if is_sharded_model_parameter(p) else p.detach()
        if held.dtype not in _REAL or held.is_meta or not held.numel():
            continue
        # aminmax takes a tenth of the time of isfinite over all numbers; a NaN makes both ends NaN
        ends = [end.item() for end in torch.aminmax(held)]
        if any(not math.isfinite(end) if p.requires_grad else math.isnan(end) for end in ends):
            raise ValueError(
                f"model must have finite parameters: {name} has a NaN or an infinity, and no record would have a "
                f"finite gradient. Initialise it again, or load finite values"
            )


def check_model_parameters_used(unused: Iterable[str]) -> None:
    """Raises ValueError unless ``unused`` is empty.

    ``unused`` holds the names of the parameters on which the loss does not depend.
    """
    names = list(unused)
    if names:
        raise ValueError(
            f"model must use every parameter that requires a gradient: the loss does not depend on "
            f"{_join_names_of_model_parameters(names)}, which would be trained by noise alone. Freeze what is not used "
            "by "
            f"requires_grad_(False)"
        )


def check_model_loss_fn(loss_fn: Any) -> None:
    """Raises TypeError unless ``loss_fn`` is a function of a model and a batch.

    PyTorch's losses are refused, because they are functions of outputs and targets.
    """
    of_torch = getattr(loss_fn, "__module__", "") in ("torch.nn.functional", "torch.nn.modules.loss")
    if not callable(loss_fn) or of_torch:
        kind = getattr(loss_fn, "__name__", type(loss_fn).__name__)
        raise TypeError(
            f"loss_fn must be a function of the model and a batch, got {kind}: such as `lambda model, batch: "
            f"cross_entropy(model(batch[0]), batch[1], reduction='none')`"
        )
    _check.check_function_argument("loss_fn", loss_fn, "model, batch")


def check_loss_tensor_of_model(losses: Any, records: int) -> Any:
    """Returns the losses. Raises ValueError or TypeError unless there is one real loss for each record."""
    if not isinstance(losses, torch.Tensor):
        raise TypeError(f"loss_fn must return a tensor of one loss for each record, got {type(losses).__name__}")
    if losses.shape != (records,):
        raise ValueError(
            f"loss_fn must return one loss for each record, shape (records,), got "
            f"{collated_batch.format_batch_tensor_shape(losses)}: a "
            f"loss that is reduced over the batch mixes records. Use reduction='none', and average only within a "
            f"record. loss_fn sees one record at a time, so a model's own loss may be model(**batch).loss[None]. A "
            f"tensor that it keeps from an earlier call, such as a running mean, has the shape of that call's batch"
        )
    if not losses.is_floating_point():
        raise TypeError(f"loss_fn must return real losses, got {losses.dtype}")
    if not losses.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "loss_fn must return losses that depend on the parameters: these have no gradient. What was computed under "
            "torch.no_grad(), was detached, or passed torch.utils.checkpoint with use_reentrant=True has none: give "
            "use_reentrant=False there"
        )
    return losses


def _join_names_of_model_parameters(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
