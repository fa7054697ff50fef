"""What one pass cannot clip is refused by name: layers before any record is read, other uses before any charge."""

import copy
import warnings

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import Unused, clipped_by_hand, cross_entropy, mlp, notes, private, table
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.data import Dataset, TensorDataset

import tightdp as dp
from tightdp.torch import make_run


def sequence(x):
    return x[:, None].expand(-1, 4, -1)


def first(found):
    return found[0] if isinstance(found, tuple) else found


REFUSED = {
    "PReLU": (nn.PReLU(), None),
    "BatchNorm1d": (nn.BatchNorm1d(5).eval(), None),
    "InstanceNorm1d": (nn.InstanceNorm1d(1, affine=True), lambda m, x: m(x[:, None])[:, 0]),
    "ConvTranspose2d": (nn.ConvTranspose2d(1, 2, 2), lambda m, x: m(x[:, None, None]).flatten(1)),
    "Bilinear": (nn.Bilinear(5, 5, 3), lambda m, x: m(x, x)),
    "GRU": (nn.GRU(5, 3, batch_first=True), lambda m, x: m(sequence(x))[0][:, -1]),
    "LSTMCell": (nn.LSTMCell(5, 3), lambda m, x: first(m(x))),
    "_WeightNorm": (parametrizations.weight_norm(nn.Linear(5, 3)), None),
    "_Orthogonal": (parametrizations.orthogonal(nn.Linear(5, 3)), None),
}
"""By the name in the error: the layer, and how it is called."""


class Around(nn.Module):
    def __init__(self, layer, call):
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x):
        return self.layer(x) if self.call is None else self.call(self.layer, x)


def around(name):
    return Around(*copy.deepcopy(REFUSED[name]))


class Unread(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, i):
        raise AssertionError("a record was read")


def loss(model, batch):
    return model(batch[0]).square().sum(1)


@pytest.mark.parametrize("arithmetic", ["float", "products"])
@pytest.mark.parametrize("name", REFUSED)
def test_layers_before_any_record_is_read(name, arithmetic, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-4, failure=5e-5, dataset="records")
    with pytest.raises(ValueError, match=rf'layer.* \({name}\) is none.*arithmetic="exact"'):
        private(around(name), Unread(), arithmetic=arithmetic, public_size=None, ledger=ledger)
    assert ledger.account.composition == dp.Composition()


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of PyTorch, for some of them
@pytest.mark.parametrize("name", REFUSED)
def test_the_layers_that_are_refused_are_those_that_one_pass_cannot_clip(name, monkeypatch):
    """Frozen ones are taken, and the pass itself, which does not know types, refuses the others."""
    model = around(name)
    monkeypatch.setattr(make_run, "check_ghost_clipping_layers", lambda model: None)
    run = private(model, arithmetic="float")
    with pytest.raises(ValueError, match="one-by-one"):
        run.step(loss, next(iter(run.loader)))
    assert run.steps_ == 0
    monkeypatch.undo()
    model.requires_grad_(False).more = nn.Linear(5, 1)
    private(model, arithmetic="float")


def test_scripted_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it is no longer developed
        model = torch.jit.script(mlp())
    with pytest.raises(ValueError, match=r"the model itself .*is none\. Use it without torch\.jit\.script"):
        private(model, arithmetic="float")
    private(model).fit(cross_entropy)


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
def test_compiled_models_run_as_they_were_written(arithmetic):
    def compiler(graph, inputs):
        raise AssertionError("something was compiled")

    model = mlp()
    compiled = torch.compile(model, backend=compiler)
    records = table(40).tensors
    by_hand = clipped_by_hand(model, cross_entropy, records, 0.5)
    run = private(compiled, TensorDataset(*records), arithmetic=arithmetic, batch_size=40, epochs=2, max_norm=0.5,
                  noise_multiplier=1e-9, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))  # fmt: skip
    run.fit(torch.compile(cross_entropy, backend=compiler))
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad.double() * 40, by_hand[name], rtol=1e-3, atol=1e-3)


def test_a_model_that_changes_its_type():
    records = table(60).tensors
    run = private(mlp(), TensorDataset(*records), arithmetic="float")
    batches = iter(run.loader)

    def loss(model, batch):
        return cross_entropy(model, [batch[0].to(model[0].weight.dtype), batch[1]])

    run.step(loss, next(batches))
    run.model.double()
    run.step(loss, next(batches))
    assert all(p.grad.dtype == torch.float64 for p in run.model.parameters())


def test_layers_of_ones_own_are_looked_at_by_what_they_compute():
    class Linear(nn.PReLU):
        def forward(self, x):
            return x * self.weight

    class Low(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(2, 5))

        def forward(self, weight):
            return weight + self.a @ self.b

    tuned = nn.Linear(5, 3).requires_grad_(False)
    parametrize.register_parametrization(tuned, "weight", Low())
    run = private(nn.Sequential(Linear(), tuned), arithmetic="float").fit(cross_entropy)
    assert len(run.ways_) == 3


class Transposed(nn.Module):
    """LoRA by hand, with matrices that one pass does not know the way they stand."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(2, 5)), nn.Parameter(torch.randn(3, 2))

    def forward(self, x):
        return x @ self.a.T @ self.b.T


@pytest.mark.parametrize(("algorithm", "batch_size"), [("dp-sgd", 6), ("dp-sgd", 1e-2), ("dpis", 6)])
def test_the_first_step_is_refused_whatever_was_drawn(algorithm, batch_size):
    for model, arithmetic, match in (
        (Transposed(), "float", r"a goes through torch\.Tensor\.T.*F\.linear"),
        (Unused(), "exact", r"does not depend on spare\.weight"),
    ):
        run = private(model, arithmetic=arithmetic, batch_size=batch_size, algorithm=algorithm, noise_multiplier=1.0)
        batch = next(iter(run.loader))
        if batch_size < 1:
            assert len(batch.rows) == 0
        state = torch.get_rng_state()
        with pytest.raises(ValueError, match=match):
            run.step(cross_entropy, batch)
        assert run.steps_ == 0 and run.history_ == () and torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_first_record_stands_for_an_empty_batch_alone(workers):
    """Nothing is added for it, and what PyTorch draws next does not tell that it was looked at."""
    seen, states = notes(), []
    seen.clear()

    def noted(model, batch):
        notes().append(len(batch[0]))
        return cross_entropy(model, batch)

    for records in (table(60), table(0)):
        run = private(mlp(), records, batch_size=1e-2, noise_multiplier=1e-9, public_size=60,
                      num_workers=workers)  # fmt: skip
        batch = next(iter(run.loader))
        torch.manual_seed(3)
        run.step(noted, batch)
        states.append(torch.get_rng_state())
        assert not seen or run.steps_ == 1
        assert max(float(p.grad.abs().max()) for p in run.model.parameters()) < 1e-4
    assert seen and torch.equal(*states)


def test_a_parameter_that_is_unfrozen_later_and_unused():
    model = Unused()
    model.spare.requires_grad_(False)
    run = private(model)
    batches = iter(run.loader)
    run.step(cross_entropy, next(batches))
    model.spare.requires_grad_(True)
    run.optimizer.add_param_group({"params": list(model.spare.parameters())})
    with pytest.raises(ValueError, match=r"does not depend on spare\.weight"):
        run.step(cross_entropy, next(batches))
    assert run.steps_ == 1
