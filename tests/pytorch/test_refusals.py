"""What cannot be trained privately is refused by name, and nothing is charged."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
import torch.utils.checkpoint
from small import Unused, cross_entropy, mlp, private, table
from torch import nn
from torch.nn.utils import prune
from torch.utils.data import DataLoader

import tightdp as dp
from tightdp.torch import make_private


class Keeps(nn.Module):
    """Remembers the mean of what it saw, in eval mode as well."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        self.seen.add_(x.detach().mean(0))
        return self.inner(x)


def batch_norm():
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


def refused(match, **settings):
    with pytest.raises((ValueError, TypeError), match=match):
        private(**settings)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.SyncBatchNorm, nn.LazyBatchNorm1d])
def test_batch_norm_by_name(kind):
    layer = kind() if kind is nn.LazyBatchNorm1d else kind(4)
    refused(rf"1 \({kind.__name__}\) mixes the records.*GroupNorm", model=nn.Sequential(nn.Linear(5, 4), layer))


def test_batch_norm_with_fixed_statistics():
    model = batch_norm().eval()
    run = private(model)
    run.step(cross_entropy, next(iter(run.loader)))
    model.train()
    with pytest.raises(ValueError, match=r"1 \(BatchNorm1d\) mixes"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 1


def test_running_statistics_of_instances():
    refused("keep statistics", model=nn.Sequential(nn.InstanceNorm1d(5, track_running_stats=True), nn.Linear(5, 3)))


def test_modules_that_wait_for_their_first_batch():
    refused(r"0 \(LazyLinear\)", model=nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3)),
            optimizer=torch.optim.SGD(mlp().parameters()))  # fmt: skip


def first_step(run, loss_fn=cross_entropy):
    """The first batch that is not empty."""
    while True:
        batch = next(iter(run.loader))
        if len(batch.rows):
            return run.step(loss_fn, batch)


def test_what_a_buffer_keeps():
    model = Keeps()
    run = private(model)
    with pytest.raises(ValueError, match="its buffer seen changes"):
        first_step(run)
    assert run.steps_ == 0 and torch.equal(model.seen, torch.zeros(5))


class Later(nn.Module):
    """Keeps the largest number it saw: ``how`` in place, in a new tensor, as a new buffer, or in a frozen parameter."""

    def __init__(self, how):
        super().__init__()
        self.how, self.inner = how, nn.Linear(5, 3)
        self.register_buffer("most", torch.full((), -1e9))
        self.frozen = nn.Parameter(torch.full((), -1e9), requires_grad=False)
        self.on = False

    def forward(self, x):
        if self.on:
            seen = x.detach().max()
            with torch.no_grad():
                if self.how == "in place":
                    self.most.copy_(torch.maximum(self.most, seen))
                elif self.how == "rebound":
                    self.most = torch.maximum(self.most, seen)
                elif self.how == "new":
                    self.register_buffer("another", seen.clone())
                else:
                    self.frozen.copy_(torch.maximum(self.frozen, seen))
        return self.inner(x)


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize("how", ["in place", "rebound", "new", "frozen"])
def test_what_a_model_keeps_later(how, arithmetic):
    """Whatever the first records showed."""
    model = Later(how)
    run = private(model, arithmetic=arithmetic)
    batches = iter(run.loader)
    run.step(cross_entropy, next(batches))
    before = {name: p.clone() for name, p in model.inner.named_parameters()}
    model.on = True
    with pytest.raises((ValueError, RuntimeError)) as caught:  # torch.func refuses some by itself
        run.step(cross_entropy, next(batches))
    assert all(torch.equal(p, before[name]) for name, p in model.inner.named_parameters())
    if how == "frozen":
        assert "frozen was changed in place" in str(caught.value) or model.frozen == -1e9
    else:
        assert set(model.state_dict()) == {"most", "frozen", "inner.weight", "inner.bias"} and model.most == -1e9


@pytest.mark.parametrize("options", [{"max_norm": 1.0}, {"sparse": True}], ids=str)
def test_embeddings_that_show_which_words_occur(options):
    refused("max_norm and sparse", model=nn.Sequential(nn.Embedding(10, 3, **options), nn.Flatten(), nn.Linear(15, 3)))


def test_parameters_that_the_loss_does_not_use():
    run = private(Unused())
    with pytest.raises(ValueError, match=r"does not depend on spare\.weight, spare\.bias"):
        first_step(run)
    assert run.steps_ == 0
    model = Unused()
    model.spare.requires_grad_(False)
    first_step(private(model))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reduced_losses(reduction):
    run = private()
    with pytest.raises(ValueError, match=r"one loss for each record, shape \(records,\), got \(\).*reduction='none'"):
        first_step(run, lambda model, b: nn.functional.cross_entropy(model(b[0]), b[1], reduction=reduction))
    assert run.steps_ == 0


@pytest.mark.parametrize(
    "loss", [lambda m, b: m(b[0]), lambda m, b: 1.0, lambda m, b: b[0].sum(1), lambda m, b: m(b[0]).argmax(1)]
)
def test_other_losses(loss):
    run = private()
    with pytest.raises((ValueError, TypeError), match=r"^loss_fn must return"):
        first_step(run, loss)
    assert run.steps_ == 0


@pytest.mark.parametrize(
    "loss_fn", [nn.CrossEntropyLoss(reduction="none"), nn.functional.cross_entropy, torch.tensor(0.5), 3]
)
def test_functions_of_outputs_and_targets(loss_fn):
    run = private()
    with pytest.raises(TypeError, match=r"^loss_fn must be .*, got (CrossEntropyLoss|cross_entropy|Tensor|int): such"):
        run.step(loss_fn, next(iter(run.loader)))
    assert run.steps_ == 0


def test_a_batch_taken_apart():
    run = private()
    with pytest.raises(TypeError, match=r"^batch must be passed to the run as it is"):
        for _x, _y in run.loader:
            pass
    with pytest.raises(TypeError, match=r"^batch must be passed to the run as it is"):
        cross_entropy(run.model, next(iter(run.loader)))


def test_backward_hooks():
    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        model = mlp()
        getattr(model[0], register)(lambda *gradients: None)
        refused(r"no backward hooks: .* of 0 \(Linear\)", model=model)
    model = mlp()
    model[0].weight.register_hook(lambda gradient: -gradient)
    refused("no backward hooks: .* 0.weight", model=model)


@pytest.mark.parametrize("name", ["model", "optimizer", "loader", "plan"])
def test_what_the_account_is_of_stays(name):
    with pytest.raises(AttributeError):
        setattr(private(), name, getattr(private(), name))


def test_optimizers():
    model = mlp()
    refused("LBFGS", model=model, optimizer=torch.optim.LBFGS(model.parameters()))
    refused("dense", model=model, optimizer=torch.optim.SparseAdam(model.parameters()))
    refused("2 of its parameters are not in it", model=model,
            optimizer=torch.optim.SGD([*model.parameters(), *nn.Linear(2, 2).parameters()]))  # fmt: skip
    refused(r"lacks 2\.weight, 2\.bias", model=model, optimizer=torch.optim.SGD(model[0].parameters()))
    refused("DataParallel", model=nn.DataParallel(model))
    refused("^optimizer must be", model=model, optimizer=3)
    refused("^model must be", model=3, optimizer=torch.optim.SGD(model.parameters()))
    model.requires_grad_(False)
    refused("all are frozen", model=model, optimizer=torch.optim.SGD(model.parameters()))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite(value):
    for name in ("0.weight", "2.bias"):
        model = mlp()
        with torch.no_grad():
            model.get_parameter(name).view(-1)[-1] = value
        refused(rf"^model must have finite parameters: {name} has", model=model)
    model = mlp()
    model.mask = nn.Parameter(torch.tensor([0.0, value]), requires_grad=False)
    if value == value:
        private(model)
    else:
        refused("^model must have finite parameters: mask has", model=model)
    for name in ("lr", "weight_decay", "betas"):
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.param_groups[0][name] = (0.9, value) if name == "betas" else torch.tensor(value)
        if name == "betas" and value == value:
            continue
        refused(f"^optimizer must have a finite {name}", model=model, optimizer=optimizer)
        optimizer.param_groups[0][name] = {"lr": 0.1, "weight_decay": 0.0, "betas": (0.9, 0.99)}[name]
        run = private(model, optimizer=optimizer)
        run.optimizer.param_groups[0]["lr"] = value
        with pytest.raises(ValueError, match=f"^optimizer must have a finite lr, got {value}"):
            run.step(cross_entropy, next(iter(run.loader)))
        assert run.steps_ == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_parameters_that_are_no_longer_finite_end_a_run_before_the_next_charge(value):
    run = private()
    run.step(cross_entropy, next(iter(run.loader)))
    with torch.no_grad():
        run.model.get_parameter("2.bias")[0] = value
    with pytest.raises(ValueError, match=r"^model must have finite parameters: 2\.bias has"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 1


@pytest.mark.parametrize(("dtype", "max_norm"), [(torch.float16, 1e6), (torch.float32, 1e30), (torch.bfloat16, 1e30)])
def test_noise_beyond_the_type_of_the_parameters_is_refused_before_the_charge(tmp_path, dtype, max_norm):
    """The optimizer got infinite gradients for steps that were charged."""
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1e6, delta=1e-2, dataset="test")
    settings = {"epsilon": None, "delta": 1e-5, "public_size": 60, "batch_size": 30, "ledger": ledger}
    noise = 1.0 if dtype == torch.float16 else 1e9
    with pytest.raises(ValueError, match=r"^max_norm must be smaller, or the parameters of a wider type"):
        private(mlp().to(dtype), max_norm=max_norm, noise_multiplier=noise, **settings)
    assert ledger.history == ()
    private(mlp().double(), max_norm=max_norm, noise_multiplier=noise, **settings)
    private(mlp().to(dtype), max_norm=1.0, noise_multiplier=1.0, **settings)
    assert len(ledger.history) == 2


def test_an_error_of_the_data_set_on_the_first_records_comes_before_the_charge():
    class Failing(torch.utils.data.Dataset):
        def __len__(self):
            return 60

        def __getitem__(self, k):
            raise OSError("no such record")

    run = private(dataset=Failing(), public_size=60, batch_size=60)
    with pytest.raises(Exception, match="no such record"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0


@pytest.mark.parametrize("public_size", [60, None])
def test_a_delta_that_publishing_records_would_meet(public_size):
    with pytest.warns(UserWarning, match=r"^delta is 0\.1, which is at least 1/\d+") as caught:
        run = private(delta=0.1, public_size=public_size)
    assert caught[0].filename.endswith("small.py") and str(caught[0].message).startswith(run.statement_.warnings[0])


def test_weights_that_hooks_put_in():
    for layer in (
        nn.utils.spectral_norm(nn.Linear(5, 3)),
        prune.random_unstructured(nn.Linear(5, 3), "weight", 2),
    ):
        refused(r"0 \(Linear\) has one that a hook of torch\.nn\.utils", model=nn.Sequential(layer))
    prune.remove(layer, "weight")
    first_step(private(nn.Sequential(layer)))
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3))
    refused(r"weight\.0 \(_SpectralNorm\) improves an estimate", model=model)
    first_step(private(model.eval()))


def test_a_parameter_that_is_added_to_the_model_later():
    run = private()
    run.model.append(nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"lacks 3\.weight"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0
    run.optimizer.add_param_group({"params": list(run.model[3].parameters())})
    first_step(run)
    assert all(p.grad is not None for p in run.model.parameters())


def test_a_loader_in_place_of_a_data_set():
    for shuffle in (True, False):
        refused("run's own loader", dataset=DataLoader(table(), batch_size=6, shuffle=shuffle), public_size=60)


def test_arrays_in_place_of_a_data_set():
    x, y = table().tensors
    refused(r"^dataset must .*TensorDataset", dataset=(x, y), public_size=60)
    refused(r"^dataset must .*TensorDataset", dataset=(x.numpy(), y.numpy()), public_size=60)
    refused(r"^dataset must .*got dict", dataset={"x": x, "y": y}, public_size=60)
    for records in (list(zip(x, y, strict=True)), dict(enumerate(zip(x, y, strict=True)))):
        private(dataset=records, public_size=60).fit(cross_entropy)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", -1.0),
        ("epsilon", 1e7),
        ("delta", None),
        ("delta", 1.0),
        ("batch_size", 0),
        ("batch_size", 1e-12),
        ("epochs", 0),
        ("epochs", 1e300),
        ("batch_size", float("nan")),
        ("epochs", "2"),
        ("max_norm", 0.0),
        ("max_norm", float("inf")),
        ("max_norm", [1.0]),
        ("public_size", 0),
        ("public_size", 2.5),
        ("physical_size", 0),
        ("random_state", -1),
        ("algorithm", "sgd"),
        ("random_state", "a"),
        ("collate_fn", 3),
        ("shuffle", True),
        ("num_workers", "2"),
        ("num_workers", -1),
        ("batch_sampler", None),
        ("algorithm", None),
    ],
)
def test_settings(name, value):
    refused(f"^{name} must", **{name: value})


def test_a_batch_is_at_most_the_public_size():
    refused(r"^batch_size must be at most public_size, in \(0, 600\], got 1000$", batch_size=1000, public_size=600)
    assert private(batch_size=60, public_size=60).plan.sampling_probability == 1.0
    assert private(batch_size=1000, public_size=None, epsilon=4.0).plan.sampling_probability == 1.0


def test_epsilon_and_noise_multiplier():
    refused("epsilon and", epsilon=1.0, noise_multiplier=1.0)
    refused("epsilon must be given, or a noise_multiplier", epsilon=None)
    refused("public_size must be given", noise_multiplier=1.0, public_size=None)
    refused("^noise_multiplier must be smaller", noise_multiplier=1e6, arithmetic="exact")
    refused("^epsilon must be larger", epsilon=1e-12, delta=1e-15, arithmetic="exact")
    refused("unexpected keyword argument 'nonsense'", nonsense=1)
    with pytest.raises(TypeError):
        make_private(mlp(), torch.optim.SGD(mlp().parameters()), table())


class Branches(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


@pytest.mark.parametrize("arithmetic", ["auto", "exact", "float", "products"])
def test_what_vmap_cannot_take_is_told_in_a_line(arithmetic):
    model = nn.Sequential(nn.Linear(5, 5), Branches(5, 3))
    run = private(model, arithmetic=arithmetic)
    with pytest.raises(ValueError, match=r"1 \(Branches\) prevents this") as told:
        run.step(cross_entropy, next(iter(run.loader)))
    assert "\n" not in str(told.value) and len(str(told.value)) < 700


def test_a_loss_without_an_axis_is_told_how_to_get_one():
    run = private()
    with pytest.raises(ValueError, match=r"model\(\*\*batch\)\.loss\[None\]"):
        run.step(lambda model, batch: cross_entropy(model, batch).mean(), next(iter(run.loader)))
    run.step(lambda model, batch: cross_entropy(model, batch).mean()[None], next(iter(run.loader)))


class Recomputed(nn.Module):
    """Computes its activations again on the way back, in the older way of PyTorch."""

    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=True)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("arithmetic", ["auto", "exact", "float", "one-by-one"])
def test_checkpoints_that_enter_again_are_named(arithmetic):
    run = private(Recomputed(), arithmetic=arithmetic)
    with pytest.raises(ValueError, match=r"have no gradient.*give use_reentrant=False"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0


@pytest.mark.parametrize("arithmetic", ["auto", "products", "exact", "float", "one-by-one"])
def test_inputs_that_are_carried_to_the_next_batch_are_named(arithmetic):
    carried = {"x": None}

    def loss(model, batch):
        x, y = batch
        shift = 0.0 if carried["x"] is None else 0.1 * carried["x"].mean()
        carried["x"] = x
        return cross_entropy(model, (x + shift, y))

    run = private(mlp(), arithmetic=arithmetic)
    with pytest.raises(ValueError, match="keep nothing from one record to the next"):
        run.step(loss, next(iter(run.loader)))
    assert run.steps_ == 0


@pytest.mark.parametrize("arithmetic", ["auto", "exact", "float", "one-by-one"])
@pytest.mark.parametrize("kept", ["running mean", "moving average"])
def test_what_the_loss_keeps_is_named(arithmetic, kept):
    """A mean of past losses, and a copy of the parameters that follows them within the loss."""
    model, copy, past = mlp(), mlp(), {"mean": torch.zeros(())}

    def loss(model, batch):
        if kept == "running mean":
            losses = cross_entropy(model, batch)
            past["mean"] = 0.9 * past["mean"] + 0.1 * losses.detach().mean()
            return losses / (1 + past["mean"])
        with torch.no_grad():
            for p in copy.parameters():
                p.mul_(0.9).add_(0.1)
        return cross_entropy(model, batch) + (model(batch[0]) - copy(batch[0])).square().mean(1)

    run = private(model, arithmetic=arithmetic)
    with pytest.raises(ValueError, match=r"keeps? (nothing|from an earlier)|mutate a captured|keep nothing"):
        run.step(loss, next(iter(run.loader)))
    assert run.steps_ == 0
