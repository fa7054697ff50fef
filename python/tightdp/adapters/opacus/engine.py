"""Opacus' PrivacyEngine with tightdp's account, batches, sums and noise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import opacus
import torch

from ..._support import _check
from ..._support.number_texts import format_up
from ...accounting.numerics.outward import Range, sqrt
from ...accounting.questions.calibration import calibrate, noise_multiplier
from ...mechanisms import Gaussian, PoissonSampled
from .accountant import Accountant
from .batches import (
    prepare_empty_opacus_batches,
    read_opacus_batch_size,
    remember_opacus_batch_size,
    require_replaceable_opacus_batches,
)
from .optimizer import MOST_NOISE, ExactOpacusOptimizer, check_opacus_noise, optimizer_class
from .sampler import PoissonSampler, set_opacus_batch_sampler
from .samples import keep_opacus_grad_samples


class PrivacyEngine(opacus.PrivacyEngine):
    """``opacus.PrivacyEngine`` with the same methods and parameters, but with tightdp's account, batches and noise.

    - The account is ``Accountant``. ``make_private_with_epsilon`` finds the smallest noise multiplier whose certified
      bound meets the target. Earlier steps in the account count towards the target.
    - The optimisers are ``DPOptimizer`` and its variants, with exact sums and noise. With
      ``make_private(arithmetic="float")`` they add floats, and the account leaves out what roundings reveal. Ghost and
      adaptive clipping, which also add floats, run in Opacus' own optimisers, with a warning.
    - Poisson batches come from the operating system's randomness. Each record is drawn with the probability that is
      charged. Opacus draws the batches if the data loader has its own generator or training is distributed.
    - Sums are divided by the data loader's ``batch_size``, which is public. Opacus divides by a number that depends on
      the number of records. The number of batches of an epoch, ``len(data_loader)``, is taken to be public.

    Noise is secure without further packages. With ``secure_mode=True``, parts that are not secure are refused. These
    are a ``noise_generator``, which makes the noise repeatable, a data loader's own generator, and the optimisers of
    Opacus.

    ``accountant`` is "tightdp", or the name of one of Opacus' accountants. Methods raise ValueError or TypeError,
    which names the argument.

    >>> import torch
    >>> from tightdp.adapters.opacus import PrivacyEngine
    >>> linear = torch.nn.Linear(1, 1)
    >>> loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(100, 1)), batch_size=10)
    >>> engine = PrivacyEngine()
    >>> model, optimizer, loader = engine.make_private_with_epsilon(
    ...     module=linear, optimizer=torch.optim.SGD(linear.parameters(), lr=0.1), data_loader=loader,
    ...     target_epsilon=3.0, target_delta=1e-4, epochs=1, max_grad_norm=1.0)
    >>> for (batch,) in loader:
    ...     optimizer.zero_grad()
    ...     model(batch).square().mean().backward()
    ...     optimizer.step()
    >>> 2.9 < engine.get_epsilon(delta=1e-4) <= 3.0
    True
    """

    def __init__(self, *, accountant: str = Accountant.mechanism(), secure_mode: bool = False) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Secure RNG turned off")
            super().__init__(accountant=accountant)
        self.secure_mode = secure_mode
        self._divisor: int | None = None
        """Public batch size by which sums are divided in the run that is being made. None if the loader declares no
        batch size."""

    def _prepare_model(self, module: Any, *, grad_sample_mode: str = "hooks", **options: Any) -> Any:
        hooks = super()._prepare_model(module, grad_sample_mode=grad_sample_mode, **options)
        if grad_sample_mode == "hooks":
            keep_opacus_grad_samples(hooks)
        return hooks

    def _prepare_optimizer(
        self,
        *,
        optimizer: Any,
        distributed: bool = False,
        clipping: str = "flat",
        noise_generator: Any = None,
        grad_sample_mode: str = "hooks",
        **options: Any,
    ) -> Any:
        """Returns tightdp's optimiser for these settings.

        If tightdp has no optimiser for them, gives a warning and returns Opacus' own optimiser. In secure mode,
        ValueError is raised instead.
        """
        if self._divisor is not None:  # Opacus would divide by records / batches
            processes = torch.distributed.get_world_size() if distributed else 1
            options["expected_batch_size"] = self._divisor / processes
        made = optimizer_class(clipping, distributed, grad_sample_mode)
        if made is None:
            if self.secure_mode:
                raise ValueError(
                    f"clipping and grad_sample_mode must be of flat or per-layer clipping of per-example gradients in "
                    f"secure mode, got {clipping!r} and {grad_sample_mode!r}"
                )
            warnings.warn(
                f"clipping={clipping!r} with grad_sample_mode={grad_sample_mode!r} runs in Opacus' own optimizer: the "
                f"account idealises its arithmetic, whose sums and noise are floats",
                stacklevel=4,
            )
            return super()._prepare_optimizer(
                optimizer=optimizer,
                distributed=distributed,
                clipping=clipping,
                noise_generator=noise_generator,
                grad_sample_mode=grad_sample_mode,
                **options,
            )
        inner = optimizer.original_optimizer if isinstance(optimizer, opacus.optimizers.DPOptimizer) else optimizer
        return made(inner, generator=noise_generator, secure_mode=self.secure_mode, **options)

    def _prepare_data_loader(
        self, data_loader: Any, *, poisson_sampling: bool, distributed: bool, **options: Any
    ) -> Any:
        """Returns Opacus' loader with tightdp's Poisson batches.

        Opacus' batches are kept for a loader with its own generator, and in distributed training.
        """
        if not len(data_loader.dataset):
            raise ValueError("data_loader must have a data set with at least one record")
        own = data_loader.generator is not None
        if self.secure_mode and (own or distributed or not poisson_sampling):
            raise ValueError(
                "data_loader must leave batches to secure Poisson sampling in secure mode: without a generator of its "
                "own, with poisson_sampling=True, and not distributed"
            )
        loader = super()._prepare_data_loader(
            data_loader, poisson_sampling=poisson_sampling, distributed=distributed, **options
        )
        if poisson_sampling and not (own or distributed):
            sampler = PoissonSampler(num_samples=len(loader.dataset), sample_rate=loader.sample_rate)
            set_opacus_batch_sampler(loader, sampler)
        if poisson_sampling:
            prepare_empty_opacus_batches(loader)
        remember_opacus_batch_size(loader, data_loader)
        return loader

    def make_private(self, *, data_loader: Any, poisson_sampling: bool = True, **options: Any) -> Any:
        """Makes model, optimiser and data loader private, as Opacus' method does.

        A step may add up several Poisson batches, in any way that Opacus allows. Such a step is charged as if a record
        may be in all of its batches. If an iteration over the loader is abandoned before a step, the sums of this
        iteration are dropped when the next iteration begins.

        Raises ValueError for a data loader whose sampler does not visit each record once in an epoch. Poisson batches
        would hold other records than such a loader draws, or with other probabilities. Without Poisson sampling, the
        loader's own batches would differ from the charged batches.

        ``poisson_sampling`` says whether batches are Poisson samples. The charge assumes that they are, so False gives
        a UserWarning.
        """
        if {"noise_multiplier", "max_grad_norm"} <= options.keys():
            check_opacus_noise(options["noise_multiplier"], options["max_grad_norm"])  # before the model gets hooks
        require_replaceable_opacus_batches(data_loader)
        if not poisson_sampling:
            warnings.warn(
                "with poisson_sampling=False the account is that of Poisson samples, as in Opacus, and no bound for "
                "the batches that the loader draws",
                stacklevel=2,
            )
        self._divisor = read_opacus_batch_size(data_loader)
        try:
            made = super().make_private(data_loader=data_loader, poisson_sampling=poisson_sampling, **options)
        finally:
            self._divisor = None
        optimizer, loader = made[1], made[-1]
        if isinstance(optimizer, ExactOpacusOptimizer):
            optimizer.follow_opacus_loader(loader)
            optimizer.attach_step_hook(_build_opacus_step_hook(self.accountant, 1 / len(loader), poisson_sampling))
        return made

    def make_private_with_epsilon(
        self, *, data_loader: Any, target_epsilon: float, target_delta: float, epochs: float, **options: Any
    ) -> Any:
        """Returns the result of ``make_private`` with the smallest noise multiplier that meets the target.

        The target is met after ``epochs`` epochs. Earlier steps in the account count towards the target.
        ``target_epsilon`` is >= 0, in nats, and ``target_delta`` is in [0, 1]. The other parameters are as in Opacus.
        """
        if not isinstance(self.accountant, Accountant):
            return super().make_private_with_epsilon(
                data_loader=data_loader,
                target_epsilon=target_epsilon,
                target_delta=target_delta,
                epochs=epochs,
                **options,
            )
        target_epsilon = _check.nonnegative("target_epsilon", target_epsilon)
        target_delta = _check.closed_unit("target_delta", target_delta)
        rate = 1 / len(data_loader)
        steps = math.ceil(_check.positive("epochs", epochs) * len(data_loader))
        spent = self.accountant.composition
        if spent.parts:
            used = self.accountant.get_epsilon(target_delta)
            least = _predict_opacus_report(self.accountant, MOST_NOISE, rate, steps, target_delta)
            if least > target_epsilon:
                raise ValueError(
                    f"target_epsilon must leave room beside what is spent: the account's {len(self.accountant)} steps "
                    f"have spent {format_up(used, '.6g')} at delta={target_delta!r}, and {steps} more steps with the "
                    f"largest noise make it {format_up(least, '.6g')}, got {target_epsilon!r}"
                )
            multiplier = calibrate(
                lambda sigma: spent + PoissonSampled(Gaussian(sigma), rate) * steps,
                epsilon=target_epsilon,
                delta=target_delta,
                high=MOST_NOISE,
            )
        else:
            multiplier = noise_multiplier(target_epsilon, target_delta, rate, steps)
        multiplier = _raise_noise_for_opacus_report(
            self.accountant, multiplier, rate, steps, target_epsilon, target_delta
        )
        return self.make_private(data_loader=data_loader, noise_multiplier=multiplier, **options)


def _raise_noise_for_opacus_report(
    accountant: Accountant, noise_multiplier: float, rate: float, steps: int, epsilon: float, delta: float
) -> float:
    """Returns ``noise_multiplier``, raised until the account will report at most ``epsilon``.

    If there is little noise, the account reports a bound that takes less time to compute, and is a little higher than
    the bound for which the noise was calibrated. The noise is raised until the reported bound meets the target too.
    """
    while noise_multiplier > 0:
        reported = _predict_opacus_report(accountant, noise_multiplier, rate, steps, delta)
        if reported <= epsilon:
            break
        noise_multiplier *= 1 + max(reported / epsilon - 1, 1e-9) if epsilon > 0 else 2.0
    return noise_multiplier


def _predict_opacus_report(
    accountant: Accountant, noise_multiplier: float, rate: float, steps: int, delta: float
) -> float:
    """Returns the epsilon that the account will report after ``steps`` further steps."""
    planned = Accountant()
    planned.history = [*accountant.history, (noise_multiplier, rate, steps)]
    return planned.get_epsilon(delta)


def _build_opacus_step_hook(accountant: Any, rate: float, poisson: bool) -> Callable[[Any], None]:
    """Returns the hook that charges a step of an optimiser. The sums of a step may hold examples of several batches.

    The sum of k Poisson batches with noise s has the same distribution as the total of k sums with noise s/sqrt(k)
    each. So the step is charged as k such sums (docs/theory/training.md, section 5). Batches that are not Poisson
    samples are disjoint within an epoch. Therefore the rates of several batches add up, as in Opacus.
    """

    def charge_opacus_step(optimizer: Any) -> None:
        sigma, batches = optimizer.noise_multiplier, optimizer.accumulated_batches
        if batches == 1 or not poisson:
            accountant.step(noise_multiplier=sigma, sample_rate=rate * batches)
            return
        each = (sigma / sqrt(Range(float(batches)))).lo if sigma else 0.0
        for _ in range(batches):
            accountant.step(noise_multiplier=each, sample_rate=rate)

    return charge_opacus_step
