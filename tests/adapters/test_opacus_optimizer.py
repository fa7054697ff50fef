"""Opacus' optimisers with our sums and noise: what they release, when, and what they refuse."""

import copy
import math
import pickle

import numpy as np
import pytest

import tightdp as dp

pytest.importorskip("torch", reason="needs torch and Opacus")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

import opacus
import torch
from torch.utils.data import DataLoader
from training_with_opacus import C, data, network, private, train

from tightdp.adapters import opacus as ours

pytestmark = pytest.mark.filterwarnings(
    "ignore:Full backward hook:UserWarning",
    "ignore:Secure RNG:UserWarning",
    "ignore:with poisson_sampling=False:UserWarning",
)


def parameters(shapes, dtype=torch.float32):
    return [torch.nn.Parameter(torch.zeros(s, dtype=dtype)) for s in shapes]


def optimizer_of(given, noise_multiplier=1.0, cls=ours.DPOptimizer, **options):
    options = {"max_grad_norm": C, "expected_batch_size": 4, **options}
    return cls(torch.optim.SGD(given, lr=1.0), noise_multiplier=noise_multiplier, **options)


def samples(given, batch, scale=1.0, seed=3):
    generator = torch.Generator().manual_seed(seed)
    for p in given:
        p.grad_sample = scale * torch.randn(batch, *p.shape, generator=generator, dtype=torch.float64).to(p.dtype)


def clipped(given, bounds=None):
    """The sums in float64."""
    arrays = [p.grad_sample.double().numpy() for p in given]
    squares = [np.square(a.reshape(len(a), -1)).sum(1) for a in arrays]
    if bounds is None:
        squares, bounds = [sum(squares)] * len(arrays), [C] * len(arrays)
    return [
        np.einsum("i,i...", np.minimum(1, bound / np.sqrt(square)), a)
        for a, square, bound in zip(arrays, squares, bounds, strict=True)
    ]


SHAPES = [(3, 4), (5,), ()]


@pytest.mark.parametrize("clipping, max_norm", [("flat", C), ("per_layer", [0.1, 0.2, 0.3, 0.4])])
def test_trains_as_opacus_does_without_noise(clipping, max_norm):
    runs = [
        train(*private(engine(), 0.0, clipping=clipping, max_grad_norm=max_norm))
        for engine in (opacus.PrivacyEngine, ours.PrivacyEngine)
    ]
    torch.testing.assert_close(*runs, rtol=1e-5, atol=1e-6)


class Tied(torch.nn.Module):
    """One matrix in two layers, and an embedding of sequences."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6, bias=False), torch.nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.norm = torch.nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(self.second(torch.tanh(self.first(x))))


def test_batches_that_are_no_poisson_samples_are_warned_of():
    made = network()
    with pytest.warns(UserWarning, match="^with poisson_sampling=False the account is that of Poisson samples"):
        ours.PrivacyEngine().make_private(
            module=made, optimizer=torch.optim.SGD(made.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=C,
            data_loader=DataLoader(data(), batch_size=16), poisson_sampling=False,
        )  # fmt: skip


@pytest.mark.parametrize("model", [network, Tied], ids=["network", "tied"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_that_are_kept_are_those_that_opacus_copies(model, reduction):
    found = []
    for engine in (opacus.PrivacyEngine, ours.PrivacyEngine):
        torch.manual_seed(1)
        made = model()
        wrapped, _, _ = engine().make_private(
            module=made,
            optimizer=torch.optim.SGD(made.parameters(), lr=0.1),
            data_loader=DataLoader(data(), batch_size=16),
            noise_multiplier=1.0,
            max_grad_norm=C,
            poisson_sampling=False,
            loss_reduction=reduction,
        )
        for x, y in (data()[:16], data()[16:20], data()[20:36]):
            torch.nn.functional.cross_entropy(wrapped(x), y, reduction=reduction).backward()
        found.append([p.grad_sample for p in made.parameters()])
    for theirs, mine in zip(*found, strict=True):
        assert len(theirs) == len(mine) == 3 and all(torch.equal(a, b) for a, b in zip(theirs, mine, strict=True))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sums_and_scaling(reduction, arithmetic, dtype):
    """With noise of a millionth of the bound, what is released is the sum of the clipped examples."""
    given = parameters(SHAPES, dtype)
    optimizer = optimizer_of(given, 1e-6, loss_reduction=reduction, arithmetic=arithmetic)
    samples(given, 9)
    expected = clipped(given)
    optimizer.clip_and_accumulate()
    seen = [p.summed_grad for p in given]
    optimizer.add_noise()
    optimizer.scale_grad()
    for p, total, before in zip(given, expected, seen, strict=True):
        assert p.grad.dtype == dtype and p.grad.shape == p.shape
        tolerance = 2.0**-8 * np.abs(total).max() if dtype == torch.bfloat16 else 1e-5
        np.testing.assert_allclose(before.double(), total, rtol=0, atol=tolerance)
        divisor = 4 if reduction == "mean" else 1
        np.testing.assert_allclose(p.grad.double(), total / divisor, rtol=0, atol=2 * tolerance)


@pytest.mark.parametrize("cls, norms", [(ours.DPOptimizer, None), (ours.DPPerLayerOptimizer, [0.3, 0.4, 1.2])])
def test_the_release_is_that_of_clip_and_noise(cls, norms):
    """Integers of the public grid, and the same bits as the function's from the same stream."""
    given = parameters(SHAPES)
    optimizer = optimizer_of(given, cls=cls, max_grad_norm=norms or C, generator=torch.Generator().manual_seed(4))
    seed = int(torch.randint(2**63 - 1, (), generator=torch.Generator().manual_seed(4)))
    samples(given, 7)
    expected = dp.clip_and_noise([p.grad_sample for p in given], norms or C, 1.0, rng=dp.Philox(seed))
    optimizer.clip_and_accumulate()
    optimizer.add_noise()
    for p, e in zip(given, expected, strict=True):
        assert torch.equal(p.grad, e)


def test_splitting_a_batch_changes_no_bit():
    """However a logical batch is split, and by whichever of the two ways."""
    grads = []
    for physical in ([16], [4, 4, 8], [1] * 16, [0, 16], "list"):
        given = parameters(SHAPES)
        optimizer = optimizer_of(given, generator=torch.Generator().manual_seed(4), loss_reduction="sum")
        samples(given, 16)
        whole = [p.grad_sample for p in given]
        if physical == "list":
            for p, g in zip(given, whole, strict=True):
                p.grad_sample = list(g.split(4))
            assert optimizer.accumulated_iterations == 4
            optimizer.step()
        else:
            start = 0
            for i, size in enumerate(physical):
                for p, g in zip(given, whole, strict=True):
                    p.grad_sample = g[start : start + size]
                start += size
                optimizer.signal_skip_step(do_skip=i + 1 < len(physical))
                optimizer.step()
                if i + 1 < len(physical):
                    assert all((p == 0).all() for p in given), "no step before the batch is complete"
                    optimizer.zero_grad()
        grads.append([p.grad.clone() for p in given])
    for other in grads[1:]:
        assert all(torch.equal(a, b) for a, b in zip(grads[0], other, strict=True))


def test_noise_once_a_step_and_of_the_right_size():
    given = parameters([(400, 250)])
    optimizer = optimizer_of(given, 2.0, loss_reduction="sum")
    releases = []
    for physical in (1, 5):
        for i in range(physical):
            given[0].grad_sample = torch.zeros(2, 400, 250)
            optimizer.signal_skip_step(do_skip=i + 1 < physical)
            optimizer.step()
            if i + 1 < physical:
                optimizer.zero_grad()
        releases.append(given[0].grad.clone())
        optimizer.zero_grad()
    for release in releases:  # six deviations of the estimate
        assert abs(release.std().item() / (2.0 * C) - 1) < 6 / math.sqrt(2 * release.numel())
    assert not torch.equal(*releases)


def test_empty_batches_release_noise_and_are_charged():
    given, charged = parameters(SHAPES), []
    optimizer = optimizer_of(given)
    optimizer.attach_step_hook(lambda o: charged.append(o.accumulated_iterations))
    samples(given, 0)
    optimizer.step()
    assert charged == [1] and all((p != 0).all() for p in given)


def test_the_order_of_a_step():
    """The hook sees the gradient as the inner optimiser will, and before it; skipped steps do not call it."""
    given, seen = parameters(SHAPES), []
    optimizer = optimizer_of(given)
    optimizer.attach_step_hook(lambda o: seen.append([(p.grad.clone(), p.detach().clone()) for p in given]))
    optimizer.signal_skip_step()
    samples(given, 3)
    optimizer.step()
    assert not seen and all(p.grad is None for p in given)
    optimizer.zero_grad()
    samples(given, 3)
    optimizer.step()
    for p, (grad, before) in zip(given, seen[0], strict=True):
        assert torch.equal(p.grad, grad) and (before == 0).all() and torch.equal(p.detach(), -grad)


def test_no_gradient_is_used_twice():
    given = parameters(SHAPES)
    optimizer = optimizer_of(given)
    samples(given, 3)
    optimizer.step()
    with pytest.raises(ValueError, match="cleared"):
        optimizer.step()
    with pytest.raises(ValueError, match="cleared"):
        optimizer.add_noise()
    samples(given, 3)  # fresh gradients, while the sums were released already
    with pytest.raises(ValueError, match="cleared"):
        optimizer.step()
    optimizer.zero_grad()
    samples(given, 3)
    optimizer.step()


def test_examples_that_are_not_finite_add_zeros():
    given = parameters(SHAPES)
    optimizer = optimizer_of(given, 1e-6, loss_reduction="sum")
    samples(given, 5)
    good = [p.grad_sample[2:].clone() for p in given]
    given[0].grad_sample[0, 0, 0], given[1].grad_sample[1, 0] = math.nan, math.inf
    optimizer.step()
    for p, g in zip(given, good, strict=True):
        p.grad_sample = g
    for p, total in zip(given, clipped(given), strict=True):
        np.testing.assert_allclose(p.grad, total, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64, torch.bool])
def test_gradients_of_other_dtypes(dtype):
    given = parameters(SHAPES)
    optimizer = optimizer_of(given)
    samples(given, 2)
    given[1].grad_sample = given[1].grad_sample.to(dtype)
    with pytest.raises(TypeError, match="grad_sample of parameter 1"):
        optimizer.step()


def test_gradients_of_mixed_precision_and_strides():
    given = parameters(SHAPES)
    optimizer = optimizer_of(given, 1e-6, loss_reduction="sum")
    samples(given, 6)
    given[0].grad_sample = given[0].grad_sample.to(torch.bfloat16)
    given[1].grad_sample = given[1].grad_sample[:, :1].expand(6, 5)
    expected = clipped(given)
    optimizer.step()
    for p, total in zip(given, expected, strict=True):
        np.testing.assert_allclose(p.grad, total, rtol=0, atol=1e-5)


def test_frozen_and_unused_parameters():
    frozen, used, unused = parameters([(2,)] * 3)
    frozen.requires_grad = False
    optimizer = optimizer_of([frozen, used])
    used.grad_sample = torch.ones(4, 2)
    optimizer.step()
    assert (frozen == 0).all() and frozen.grad is None and (used != 0).all()
    optimizer = optimizer_of([used, unused])
    used.grad_sample, unused.grad_sample = torch.ones(4, 2), None
    with pytest.raises(ValueError, match="not initialized"):
        optimizer.step()
    assert optimizer_of([frozen]).step() is None  # nothing to train, nothing to release


def test_what_must_not_change_within_a_step():
    given = parameters(SHAPES)
    optimizer = optimizer_of(given)
    optimizer.signal_skip_step()
    samples(given, 3)
    optimizer.step()
    optimizer.zero_grad()
    samples(given, 3)
    optimizer.max_grad_norm = 2 * C
    with pytest.raises(ValueError, match="max_grad_norm"):
        optimizer.step()
    optimizer.max_grad_norm = C
    given[0].summed_grad = given[0].summed_grad + 1
    with pytest.raises(ValueError, match="summed_grad"):
        optimizer.step()

    optimizer = optimizer_of(given := parameters(SHAPES), 0.0)
    samples(given, 3)
    optimizer.clip_and_accumulate()
    optimizer.noise_multiplier = 1.0
    with pytest.raises(ValueError, match="noise_multiplier"):
        optimizer.add_noise()


@pytest.mark.parametrize(
    "options, named", [({"arithmetic": "fast"}, "arithmetic"), ({"loss_reduction": "max"}, "loss")]
)
def test_bad_options(options, named):
    with pytest.raises(ValueError, match=named):
        optimizer_of(parameters(SHAPES), **options)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1"])
def test_bad_noise_multipliers_release_nothing(value):
    optimizer = optimizer_of(given := parameters(SHAPES))
    samples(given, 2)
    optimizer.noise_multiplier = value
    with pytest.raises((ValueError, TypeError), match="noise_multiplier"):
        optimizer.step()
    assert all(p.grad is None and (p == 0).all() for p in given)


def test_schedulers_and_states():
    given = parameters(SHAPES)
    optimizer = optimizer_of(given)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    samples(given, 2)
    optimizer.step()
    other = optimizer_of(parameters(SHAPES))
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.state_dict() == optimizer.state_dict()


def test_copies_step_on_their_own():
    optimizer = optimizer_of(parameters(SHAPES))
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        samples(copied.params, 3)
        copied.step()
        assert all((p != 0).all() for p in copied.params) and all((p == 0).all() for p in optimizer.params)


def test_noise_repeats_with_its_generator_alone():
    def run(seed):
        torch.manual_seed(5)
        given = None if seed is None else torch.Generator().manual_seed(seed)
        return train(*private(ours.PrivacyEngine(), 1.0, noise_generator=given))

    assert torch.equal(run(1), run(1)) and not torch.equal(run(1), run(2))
    assert not torch.equal(run(None), run(None))


def in_process(rank, world, folder):
    """One of several processes: its share of the examples, and what it released."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    found = []
    for cls, norms in ((ours.DistributedDPOptimizer, C), (ours.SimpleDistributedPerLayerOptimizer, [0.3, 0.4, 1.2])):
        for noise in (1.0, 0.0):
            given = parameters(SHAPES)
            optimizer = optimizer_of(
                given, noise, cls=cls, max_grad_norm=norms, generator=torch.Generator().manual_seed(4)
            )
            samples(given, 10)
            for p in given:
                p.grad_sample = p.grad_sample[rank::world]
            optimizer.step()
            found.append([p.grad for p in given])
    torch.save(found, f"{folder}/{rank}")
    torch.distributed.destroy_process_group()


def test_processes_release_one_sum(tmp_path):
    """Two processes release the bits that one does with all the examples, and noise once."""
    torch.multiprocessing.start_processes(in_process, (2, str(tmp_path)), nprocs=2, start_method="fork")
    found = [torch.load(tmp_path / str(rank)) for rank in range(2)]
    for i, (cls, norms, noise) in enumerate(
        (cls, norms, noise)
        for cls, norms in ((ours.DPOptimizer, C), (ours.DPPerLayerOptimizer, [0.3, 0.4, 1.2]))
        for noise in (1.0, 0.0)
    ):
        given = parameters(SHAPES)
        optimizer = optimizer_of(given, noise, cls=cls, max_grad_norm=norms, generator=torch.Generator().manual_seed(4))
        samples(given, 10)
        optimizer.step()
        for j, p in enumerate(given):
            assert torch.equal(found[0][i][j], found[1][i][j])
            if noise:
                assert torch.equal(2 * found[0][i][j], p.grad)  # each process divides by its own expected batch
            else:
                torch.testing.assert_close(2 * found[0][i][j], p.grad)


@pytest.mark.parametrize(
    "options, named",
    [({"noise_multiplier": v}, "noise_multiplier") for v in (-1.0, math.nan, math.inf, 1e30, "1")]
    + [({"max_grad_norm": v}, "max_grad_norm") for v in (0.0, -1.0, math.nan, math.inf, 1e-40, 1e40)]
    + [({"expected_batch_size": v}, "expected_batch_size") for v in (0, -5, math.nan)],
)
def test_bad_settings_are_refused_when_an_optimizer_is_made(options, named):
    with pytest.raises((ValueError, TypeError), match=f"^{named} must be a number in"):
        optimizer_of(parameters(SHAPES), **options)


def test_bad_bounds_of_layers():
    with pytest.raises(ValueError, match=r"^max_grad_norm must be a number in"):
        optimizer_of(parameters(SHAPES), cls=ours.DPPerLayerOptimizer, max_grad_norm=[0.3, 0.0, 1.2])
    for bad in (1.0, [1.0]):
        with pytest.raises(ValueError, match=r"^max_grad_norm must be a list of 3 bounds"):
            optimizer_of(parameters(SHAPES), cls=ours.DPPerLayerOptimizer, max_grad_norm=bad)
    with pytest.raises(TypeError, match=r"^max_grad_norm must be a number in"):
        optimizer_of(parameters(SHAPES), max_grad_norm=[1.0] * 3)


def test_a_sum_needs_no_expected_batch_size():
    optimizer_of(parameters(SHAPES), loss_reduction="sum", expected_batch_size=None)
