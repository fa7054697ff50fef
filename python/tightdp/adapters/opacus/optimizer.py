"""Opacus' optimisers with tightdp's clipping, sums and noise."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from opacus import optimizers
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

from ..._support import _check
from ...clipping_and_noise import clipping
from ...clipping_and_noise.gradients import clipped_sum, exact_grid
from ...clipping_and_noise.noise import Philox, RandomSource
from ...clipping_and_noise.noisy_sums import add_noise
from .sampler import CountingOpacusSampler, make_opacus_sampler_count

if TYPE_CHECKING:
    from ...clipping_and_noise.clipping import Arithmetic

_Base: Any = object
"""Base class of ``ExactOpacusOptimizer``. In each subclass, one of Opacus' optimisers comes next in the method
resolution order."""
MOST_NOISE = 32768
"""Largest noise multiplier of the optimisers."""
_check_noise_multiplier = _check.build_argument_check(f"[0, {MOST_NOISE}]")
_check_max_grad_norm = _check.build_argument_check("[1e-30, 1e30]")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(slots=True)
class _OpacusStepSums:
    """The sums of clipped gradients of one step, which may consist of several physical batches.

    A physical batch holds the examples that go through the model together.
    """

    totals: list[Any]
    """The sum for each parameter, without noise: integers in units of ``grid``, or floats if ``grid`` is None.

    These sums are never released.
    """
    bounds: float | tuple[float, ...]
    grid: float | None
    shown: list[Any]
    """The tensors to which ``summed_grad`` of the parameters was set last."""
    batches: int = 0
    """Upper bound on the number of the loader's batches whose examples are in the sums. One record may be in all of
    these batches."""
    last: int | None = None
    """Number of the last batch whose examples are in the sums. The loader's sampler counts batches."""

    @property
    def sensitivity(self) -> float:
        """Bound on the L2 norm of one example's contribution to all sums together, rounded up."""
        bounds = self.bounds if isinstance(self.bounds, tuple) else (self.bounds,)
        return clipping.bound_clipped_sum_sensitivity([([], bound) for bound in bounds])

    def convert_opacus_sum_to_floats(self, i: int, parameter: Any) -> Any:
        """Returns sum ``i`` as a new tensor of floats, with the dtype and shape of ``parameter``."""
        wide = parameter.dtype if parameter.dtype in (torch.float32, torch.float64) else torch.float32
        values = self.totals[i].to(wide, copy=True)
        if self.grid is not None:
            values *= self.grid  # exact, since the grid is a power of two
        return (values if wide is parameter.dtype else values.to(parameter.dtype)).view_as(parameter)


class ExactOpacusOptimizer(_Base):
    """A base class that replaces ``clip_and_accumulate`` and ``add_noise`` of Opacus' optimisers by exact sums and
    noise.

    The other methods, the order in which they are called, and the marks on used gradients are Opacus' own.
    """

    def __init__(
        self, optimizer: Any, *, arithmetic: Arithmetic = "exact", generator: Any = None, **options: Any
    ) -> None:
        clipping.is_clipping_arithmetic_exact(arithmetic)
        self.arithmetic = arithmetic
        self._source: RandomSource | None = None
        self._sums: _OpacusStepSums | None = None
        # The sampler of the loader, and whether worker processes draw batches ahead of their steps.
        self._loader: tuple[CountingOpacusSampler, bool] | None = None
        self._iterations = 0
        self._signalled: list[int | None] = []
        if "max_grad_norm" in options:
            self._check_opacus_bounds(optimizer, options["max_grad_norm"])
        super().__init__(optimizer, generator=generator, **options)
        self._check_opacus_options()

    def _check_opacus_bounds(self, optimizer: Any, max_grad_norm: Any) -> None:
        """Raises ValueError unless ``max_grad_norm`` is one bound or, with per-layer clipping, one bound for each
        parameter.

        Several bounds must be given as a list or a tuple, because Opacus calls ``len``.
        """
        if not isinstance(self, optimizers.DPPerLayerOptimizer):
            _check_max_grad_norm("max_grad_norm", max_grad_norm)
            return
        count = sum(p.requires_grad for group in optimizer.param_groups for p in group["params"])
        if not isinstance(max_grad_norm, (list, tuple)) or len(max_grad_norm) != count:
            raise ValueError(f"max_grad_norm must be a list of {count} bounds, one a parameter, got {max_grad_norm!r}")

    def _check_opacus_options(self) -> None:
        bounds = getattr(self, "max_grad_norms", None)
        check_opacus_noise(self.noise_multiplier, self.max_grad_norm if bounds is None else bounds)
        if self.loss_reduction == "mean":
            _check.positive("expected_batch_size", self.expected_batch_size)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without the loader and without the sums, which have no noise until the step ends."""
        return {**self.__dict__, "_sums": None, "_loader": None}

    def follow_opacus_loader(self, loader: Any) -> None:
        """Makes the optimiser use the batch counter of the loader's sampler from now on.

        If an iteration over the loader is abandoned before a step, the sums of the iteration are dropped when the next
        iteration begins.

        ``loader`` is the data loader of the run. A loader without such a counter changes nothing and raises no
        error.
        """
        sampler = make_opacus_sampler_count(loader)
        if sampler is not None:
            self._loader, self._iterations = (sampler, loader.num_workers > 0), sampler.iterations

    @property
    def accumulated_batches(self) -> int:
        """Upper bound on the number of the loader's batches whose examples are in the current sums."""
        return self._sums.batches if self._sums is not None else 1

    def signal_skip_step(self, do_skip: bool = True) -> None:
        """Says whether the next call of ``step`` only adds the current physical batch to the sums.

        If ``do_skip`` is false, that call ends the step.
        """
        self._drop_abandoned_opacus_sums()
        if self._loader is not None:
            self._loader[0].skips = True
        self._signalled.append(self._count_drawn_batches())
        super().signal_skip_step(do_skip)

    def _check_skip_next_step(self, pop_next: bool = True) -> bool:
        if pop_next and self._signalled:
            self._signalled.pop(0)
        skip: bool = super()._check_skip_next_step(pop_next)
        return skip

    def _count_drawn_batches(self) -> int | None:
        return None if self._loader is None else self._loader[0].drawn

    def _drop_abandoned_opacus_sums(self) -> None:
        """Drops the sums of an abandoned iteration over the loader, if another iteration has begun since.

        The calls of ``signal_skip_step`` of the abandoned iteration are forgotten, too.
        """
        if self._loader is None or self._loader[0].iterations == self._iterations:
            return
        self._iterations = self._loader[0].iterations
        self._step_skip_queue.clear()
        self._signalled.clear()
        self._is_last_step_skipped = False
        for p in self.params:
            if not hasattr(p.summed_grad, "_processed"):  # zero_grad removes sums with this mark
                p.summed_grad = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes a copy start with a new step, because copied parameters have neither per-example gradients nor sums.

        torch's own method would lose the inner optimiser, and would wrap ``step`` of the whole class.
        """
        self.__dict__.update(state)
        for p in self.params:
            p.summed_grad = None

    def _get_norm_bounds(self) -> float | tuple[float, ...]:
        bounds = getattr(self, "max_grad_norms", None)
        return float(self.max_grad_norm) if bounds is None else tuple(map(float, bounds))

    def clip_and_accumulate(self) -> None:
        """Adds the clipped sums of the examples in ``grad_sample`` to ``summed_grad``."""
        self._drop_abandoned_opacus_sums()
        parameters = self.params
        for p in parameters:
            _check_processed_flag(p.grad_sample)
            if p.summed_grad is not None:
                _check_processed_flag(p.summed_grad)
        batches = _collect_opacus_grad_samples(self, parameters)
        sums, begun = self._begin_opacus_step_sums(parameters, batches[0])
        for batch in batches:
            exact = sums.grid is not None
            clipped_sum(batch, sums.bounds, out=sums.totals, accumulate=begun, arithmetic="exact" if exact else "float")
            begun = True
        self._count_batches_of_opacus_step(sums, len(batches))
        self._sums = sums
        sums.shown = [sums.convert_opacus_sum_to_floats(i, p) for i, p in enumerate(parameters)]
        for p, shown in zip(parameters, sums.shown, strict=True):
            p.summed_grad = shown
            _mark_as_processed(p.grad_sample)

    def _count_batches_of_opacus_step(self, sums: _OpacusStepSums, physical: int) -> None:
        """Adds to ``sums.batches`` the number of the loader's batches that were not counted before.

        ``physical`` is the number of physical batches that were added to the sums. Each of them counts as a batch of
        the loader. If the sampler has drawn no batch since the last count, one of the physical batches belongs to a
        batch that was counted already, and is left out.
        """
        now = self._count_drawn_batches()
        if self._loader is not None and self._loader[1] and self._signalled:
            # Workers may have drawn more batches since the skip was signalled, so the number at the time of the signal
            # is used.
            now = self._signalled[0]
        sums.batches += physical - (sums.batches > 0 and sums.last == now)
        sums.last = now

    def _begin_opacus_step_sums(self, parameters: list[Any], batch: list[Any]) -> tuple[_OpacusStepSums, bool]:
        """Returns the sums to which a batch is to be added, and whether these sums already hold a part of this step."""
        _check_noise_multiplier("noise_multiplier", self.noise_multiplier)
        bounds, before = self._get_norm_bounds(), self._sums
        if any(p.summed_grad is not None for p in parameters):
            self._check_unchanged(parameters)
            assert before is not None
            if before.bounds != bounds:
                raise ValueError(
                    f"max_grad_norm must not change between the physical batches of a step: {before.bounds} before, "
                    f"{bounds} now"
                )
            return before, True
        # If there is no noise, the sums are floats, because a grid would make them less accurate and protect nothing.
        exact = self.arithmetic == "exact" and self.noise_multiplier > 0
        grid = exact_grid(bounds) if exact else None
        dtype = torch.int64 if exact else functools.reduce(torch.promote_types, [p.dtype for p in batch], torch.float32)
        fits = before is not None and [(t.shape, t.dtype, t.device) for t in before.totals] == [
            (g.shape[1:], dtype, g.device) for g in batch
        ]
        totals = before.totals if before is not None and fits else [
            torch.empty(g.shape[1:], dtype=dtype, device=g.device) for g in batch
        ]  # fmt: skip
        return _OpacusStepSums(totals, bounds, grid, []), False

    def _check_unchanged(self, parameters: list[Any]) -> _OpacusStepSums:
        sums = self._sums
        if (
            sums is None
            or len(sums.shown) != len(parameters)
            or any(p.summed_grad is not s for p, s in zip(parameters, sums.shown, strict=True))
        ):
            raise ValueError("summed_grad must be what clip_and_accumulate set, because exact sums are kept beside it")
        return sums

    def add_noise(self) -> None:
        """Sets every ``grad`` to the sum with noise. In distributed training only the first process adds noise.

        ``summed_grad`` is set to ``grad`` too, so that the sums without noise are discarded. With a noise multiplier of
        0 ``summed_grad`` does not change, as in Opacus.
        """
        parameters = self.params
        for p in parameters:
            _check_processed_flag(p.summed_grad)
        sums = self._check_unchanged(parameters)
        deviation = _check_noise_multiplier("noise_multiplier", self.noise_multiplier) * sums.sensitivity
        if deviation > 0 and sums.grid is None and self.arithmetic == "exact":
            raise ValueError(
                f"noise_multiplier must not become positive within a step, got {self.noise_multiplier!r}: the sums "
                f"were begun without noise, in floats"
            )
        if deviation > 0 and getattr(self, "rank", 0) == 0:
            if self._source is None and self.generator is not None:  # the first step reads the generator, as in Opacus
                seed = torch.randint(2**63 - 1, (), generator=self.generator, device=self.generator.device)
                self._source = Philox(int(seed))
            add_noise(sums.totals, deviation, grid=sums.grid, rng=self._source)
        for i, p in enumerate(parameters):
            p.grad = sums.convert_opacus_sum_to_floats(i, p)
            if deviation > 0:
                p.summed_grad = p.grad.detach()
            _mark_as_processed(p.summed_grad)
        sums.shown = []


class _ExactDistributedOpacusOptimizer(ExactOpacusOptimizer):
    """An optimiser that adds up the integer sums of all processes.

    Sums of integers have no rounding errors, so the result is exactly the noisy sum of all examples.
    """

    def reduce_gradients(self) -> None:
        """Sets every ``grad`` to the sum over all processes, divided as Opacus divides it."""
        sums = self._sums
        if sums is None or sums.grid is None:
            super().reduce_gradients()
            return
        for i, p in enumerate(self.params):
            torch.distributed.all_reduce(sums.totals[i])
            p.grad = sums.convert_opacus_sum_to_floats(i, p)
        self.scale_grad()
        if self.loss_reduction == "mean":
            for p in self.params:
                p.grad /= self.world_size


class DPOptimizer(ExactOpacusOptimizer, optimizers.DPOptimizer):
    """``opacus.optimizers.DPOptimizer`` with an exact release: each step is charged as ``Gaussian(noise_multiplier)``.

    Each example's gradient is clipped to ``max_grad_norm`` in L2 norm and truncated to integer multiples of a public
    grid. Sums of integers do not depend on their order, on how a batch is split or on the number of threads. The noise
    is normal, sampled exactly and rounded to the grid (docs/theory/clipping.md, section 7). The noise is added once in
    each logical step, also to an empty batch. An example with an infinity or NaN in its gradient contributes zeros.

    The account treats each per-example gradient as a function of its example. PyTorch computes gradients in batched
    products of floats, whose roundings may depend on other examples. The account leaves out what these roundings
    reveal.

    The parameters are as in Opacus, except for these:

    max_grad_norm : float in [1e-30, 1e30]
    expected_batch_size : positive number, if ``loss_reduction`` is "mean"
    noise_multiplier : float in [0, 2^15]. With 0 nothing is protected, and floats are added instead of integers
    generator : torch.Generator, optional. If the generator is repeatable, so is the noise. Use this for experiments,
        not for releases. The generator is read at the first step with noise, and may be seeded until then. By default
        the noise comes from ``SecureRandom``, with a key from the operating system
    arithmetic : "exact" or "float", as for ``tightdp.clip_and_noise``
    secure_mode : ignored, since the noise is secure unless ``generator`` is given

    Raises ValueError for an argument out of its range. ``PrivacyEngine`` makes the optimizer:

    >>> import torch
    >>> from tightdp.adapters.opacus import DPOptimizer
    >>> linear = torch.nn.Linear(1, 1)
    >>> plain = torch.optim.SGD(linear.parameters(), lr=0.1)
    >>> optimizer = DPOptimizer(plain, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=4)
    >>> for p in linear.parameters():
    ...     p.grad_sample = torch.ones(4, *p.shape)
    >>> optimizer.clip_and_accumulate()
    >>> optimizer.add_noise()
    >>> [tuple(p.grad.shape) for p in linear.parameters()]
    [(1, 1), (1,)]
    """


class DPPerLayerOptimizer(ExactOpacusOptimizer, optimizers.DPPerLayerOptimizer):
    """``DPOptimizer`` with a bound for each parameter: ``max_grad_norm`` is a list of bounds.

    The standard deviation of the noise is ``noise_multiplier`` times the root of the sum of the squared bounds.

    The other arguments, such as ``arithmetic`` and ``generator``, are as for ``DPOptimizer``, which has an example and
    raises the same errors.

    >>> from tightdp.adapters.opacus import DPPerLayerOptimizer, optimizer_class
    >>> optimizer_class("per_layer", distributed=False) is DPPerLayerOptimizer
    True
    """


class DistributedDPOptimizer(_ExactDistributedOpacusOptimizer, optimizers.DistributedDPOptimizer):
    """``DPOptimizer`` for distributed data parallel training: the first process adds the noise.

    The processes add up integers, so the sum over all processes is exact. Each process holds the sums of its own
    examples without noise.

    The arguments, such as ``arithmetic`` and ``generator``, are as for ``DPOptimizer``, which has an example and raises
    the same errors.

    >>> from tightdp.adapters.opacus import DistributedDPOptimizer, optimizer_class
    >>> optimizer_class("flat", distributed=True) is DistributedDPOptimizer
    True
    """


class SimpleDistributedPerLayerOptimizer(
    _ExactDistributedOpacusOptimizer, optimizers.SimpleDistributedPerLayerOptimizer
):
    """``DistributedDPOptimizer`` with a bound for each parameter.

    The arguments, such as ``arithmetic`` and ``generator``, are as for ``DPPerLayerOptimizer``, which raises the same
    errors.

    >>> from tightdp.adapters.opacus import SimpleDistributedPerLayerOptimizer, optimizer_class
    >>> optimizer_class("per_layer", distributed=True) is SimpleDistributedPerLayerOptimizer
    True
    """


_OPTIMIZER_CLASSES = {
    ("flat", False): DPOptimizer,
    ("flat", True): DistributedDPOptimizer,
    ("per_layer", False): DPPerLayerOptimizer,
    ("per_layer", True): SimpleDistributedPerLayerOptimizer,
}


def optimizer_class(clipping: str, distributed: bool, grad_sample_mode: str | None = None) -> Any:
    """Returns the optimiser class for these settings of ``PrivacyEngine.make_private``.

    Returns None if only Opacus has a class for the settings.

    ``clipping`` is "flat", "per_layer" or another of Opacus' ways to clip, ``distributed`` says whether training is
    distributed, and ``grad_sample_mode`` is one of Opacus' modes. The function raises no error.

    >>> from tightdp.adapters.opacus import optimizer_class
    >>> optimizer_class("flat", distributed=False).__name__, optimizer_class("adaptive", distributed=False)
    ('DPOptimizer', None)
    """
    materialized = grad_sample_mode is None or "ghost" not in grad_sample_mode
    return _OPTIMIZER_CLASSES.get((clipping, distributed)) if materialized else None


def check_opacus_noise(noise_multiplier: Any, max_grad_norm: Any) -> None:
    """Raises ValueError unless the optimisers of this module accept both values. ``max_grad_norm`` may be a list."""
    _check_noise_multiplier("noise_multiplier", noise_multiplier)
    for bound in max_grad_norm if isinstance(max_grad_norm, (list, tuple)) else [max_grad_norm]:
        _check_max_grad_norm("max_grad_norm", bound)


def _collect_opacus_grad_samples(optimizer: Any, parameters: Sequence[Any]) -> list[list[Any]]:
    """Returns the per-example gradients of each physical batch, as a list of one tensor for each parameter.

    All tensors are converted to one dtype that holds the values of all gradients exactly.
    """
    parts = []
    for i, p in enumerate(parameters):
        found = getattr(p, "grad_sample", None)
        one = [found] if isinstance(found, torch.Tensor) else found
        if not isinstance(one, list) or not one:
            one = [optimizer._get_flat_grad_sample(p)]  # raises an error that says what is missing
        for g in one:
            if g.dtype not in _FLOATS:
                raise TypeError(f"grad_sample of parameter {i} must be of float16, bfloat16, float32 or float64, "
                                f"got {g.dtype}")  # fmt: skip
        parts.append([g.detach() if g.requires_grad else g for g in one])
    if len({len(part) for part in parts}) > 1:
        raise ValueError("every parameter must have accumulated the same number of batches")
    dtype = functools.reduce(torch.promote_types, [g.dtype for part in parts for g in part])
    return [[g if g.dtype is dtype else g.to(dtype) for g in batch] for batch in zip(*parts, strict=True)]
