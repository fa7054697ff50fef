"""Computes the gradients of single records by ``torch.func``. Any module is supported, also if parameters are tied or
used outside layers.

Each record goes through the model as a batch of one, and ``torch.func`` vectorises this computation over records. So no
operation of the model on a batch can mix records. For example, a mean over the batch is a mean over a single record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch

from ..batches import collated_batch
from ..model_checks import model_checks
from ..randomness.global_generators import find_device_of_model_generators, fork_torch_generators, seed_torch_generators
from .mixed_precision import WideNorms
from .recurrent_layers import StepByStep
from .vectorized_pass import run_under_vmap

MOST_HELD_BYTES = 1 << 26
"""Largest size, in bytes, of the per-example gradients in memory at once: 64 MB. The gradient of a single record may be
larger."""
MOST_TENSOR_BYTES = (1 << 25) - (1 << 12)
"""Largest size, in bytes, of the gradients with respect to one parameter in memory at once. The C library of Linux
takes memory of 32 MB and more from the system each time it is needed. A step of a perceptron with layers of 1,000 units
took 1.5 times as long with such sizes. The gradient of a single record may be larger."""


class _LossModule(torch.nn.Module):
    """The loss function as a module, so that other values can be put in the place of the model's parameters."""

    def __init__(self, model: Any, loss_fn: Any) -> None:
        super().__init__()
        self.model, self.loss_fn = model, loss_fn

    def forward(self, batch: Any) -> Any:
        return self.loss_fn(self.model, batch)


class PerExampleGradients:
    """The gradients of single records for one model and one loss function.

    ``vectorized`` says whether records go through the model side by side (``torch.func.vmap``). Otherwise the records
    go through the model one after the other, for modules that PyTorch cannot vectorize.
    """

    def __init__(self, model: Any, loss_fn: Any, parameters: dict[str, Any], *, vectorized: bool = True) -> None:
        self._losses, self._parameters, self.vectorized = _LossModule(model, loss_fn), parameters, vectorized
        self._places = _find_paths_for_per_example_gradients(model, parameters)
        self._recurrent = [module for module in model.modules() if isinstance(module, torch.nn.RNNBase)]
        self._steps = any(isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase)) for module in model.modules())

    def yield_per_example_gradients(self, batch: Any, records: int) -> Iterator[list[Any]]:
        """Yields the gradients of some records at a time. Each item has, for each parameter, a tensor of shape
        (records, *shape)."""
        tensors, rebuild = collated_batch.split_collated_batch(batch, records)
        sizes = [p.numel() * p.element_size() for p in self._parameters.values()]
        step = max(1, min(MOST_HELD_BYTES // sum(sizes), MOST_TENSOR_BYTES // max(sizes)))
        for start in range(0, records, step):
            some = [tensor[start : start + step] for tensor in tensors]
            yield (
                self._compute_by_vmap(some, rebuild)
                if self.vectorized
                else self._compute_gradients_one_by_one(some, rebuild)
            )

    def join_per_example_gradients(self, batch: Any, records: int) -> list[Any]:
        """Returns the gradients of all records, as one tensor of shape (records, *shape) for each parameter."""
        return [torch.cat(rows) for rows in zip(*self.yield_per_example_gradients(batch, records), strict=True)]

    def _compute_by_vmap(self, tensors: list[Any], rebuild: collated_batch.Rebuild) -> list[Any]:
        """Returns the gradients of records that go through the model side by side, by ``torch.func.vmap``."""

        def compute_per_example_loss(values: dict[str, Any], *one: Any) -> Any:
            alone = rebuild([tensor.unsqueeze(0) for tensor in one])
            placed = {place: values[name] for place, name in self._places.items()}
            return _check_per_example_loss(
                torch.func.functional_call(self._losses, placed, (alone,), tie_weights=False)
            )

        values = {name: p.detach() for name, p in self._parameters.items()}
        axes = (None, *(0 for _ in tensors))
        try:
            with run_under_vmap(), WideNorms(), StepByStep() if self._steps else nullcontext():
                found = torch.func.vmap(
                    torch.func.grad(compute_per_example_loss), in_dims=axes, randomness="different"
                )(values, *tensors)
        finally:
            for module in self._recurrent:
                module._init_flat_weights()  # resets the module's list of weights, which now has torch.func's tensors
        return [found[name] for name in self._parameters]

    def _compute_gradients_one_by_one(self, tensors: list[Any], rebuild: collated_batch.Rebuild) -> list[Any]:
        """Returns the gradients of records that go through the model one after the other.

        Each record has its own seed, and all seeds are drawn before any code of the user runs. So the draws for a
        record depend neither on the draws for other records nor on seeds that the model sets.
        """
        parameters, device = list(self._parameters.values()), find_device_of_model_generators(self._losses.model)
        rows = [torch.zeros(len(tensors[0]), *p.shape, dtype=p.dtype, device=p.device) for p in parameters]
        seeds = torch.randint(1 << 62, (len(tensors[0]),), device="cpu").tolist()
        with fork_torch_generators(device):
            for i, seed in enumerate(seeds):
                seed_torch_generators(device, seed)
                # The clones share no memory with the batch.
                alone = rebuild([tensor[i : i + 1].clone() for tensor in tensors])
                loss = _check_per_example_loss(self._losses(alone))
                for row, gradient in zip(rows, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
                    if gradient is not None:
                        row[i] = gradient
        return rows


def _find_paths_for_per_example_gradients(model: Any, parameters: dict[str, Any]) -> dict[str, str]:
    """Returns the name of the parameter at each attribute path in ``_LossModule``. A tied parameter has several paths.

    If the model holds one module at several paths, only the first path is listed. With several paths,
    ``functional_call`` would not restore the module's parameter.
    """
    names = {id(p): name for name, p in parameters.items()}
    return {
        f"model.{path}.{own}" if path else f"model.{own}": names[id(p)]
        for path, module in model.named_modules()
        for own, p in module._parameters.items()
        if id(p) in names
    }


def check_vectorized_pass(model: Any, loss_fn: Any, parameters: dict[str, Any], batch: Any, records: int) -> None:
    """Raises ValueError unless ``torch.func`` can take the first records of a batch through the model side by side."""
    few = min(records, 2)
    tensors, rebuild = collated_batch.split_collated_batch(batch, records)
    try:
        for _ in PerExampleGradients(model, loss_fn, parameters).yield_per_example_gradients(
            rebuild([tensor[:few] for tensor in tensors]), few
        ):
            pass
    except (RuntimeError, NotImplementedError) as error:  # operations or control flow that vmap cannot follow
        if not any(sign in str(error) for sign in VMAP_ERROR_SIGNS):
            raise
        raise ValueError(
            f"model must be one that torch.func.vmap can run on each record alone: "
            f"{name_module_failing_vectorized_pass(model, error)} prevents this "
            f"({shorten_vectorized_pass_error(error)}). Write it with "
            f"operations on whole tensors (torch.where for a branch by values), or use arithmetic='one-by-one', which "
            f"takes one record after the other and assumes that the model keeps nothing between records"
        ) from error


VMAP_ERROR_SIGNS = (
    "vmap",
    "functorch",
    "torch.func",
    "BatchedTensor",
    "Batching rule",
    "doesn't have storage",
    "match the broadcast shape",
    "mutate a captured Tensor",
)
"""Parts of PyTorch's error messages. Any of them shows that ``torch.func.vmap`` cannot follow a model."""


def shorten_vectorized_pass_error(error: BaseException) -> str:
    """Returns the first sentence of an error message of PyTorch."""
    return str(error).partition("\n")[0].partition(". ")[0]


def name_module_failing_vectorized_pass(model: Any, error: BaseException) -> str:
    """Returns the name and type of the innermost module of the model that raised an error."""
    names = {id(module): f"{name} ({type(module).__name__})" for name, module in model.named_modules() if name}
    found, frames = "the model or the loss", error.__traceback__
    while frames is not None:
        found = names.get(id(frames.tb_frame.f_locals.get("self")), found)
        frames = frames.tb_next
    return found


def _check_per_example_loss(losses: Any) -> Any:
    if isinstance(losses, torch.Tensor) and losses.shape != (1,):
        losses = losses.new_empty(losses.shape)  # a tensor without a vectorized axis, which an error can show
    return model_checks.check_loss_tensor_of_model(losses, 1)[0]
