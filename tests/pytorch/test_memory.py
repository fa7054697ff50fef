"""What a model keeps from one record for the next is refused, and what does not come of records is not."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import private, table
from torch import nn

KEPT = {}


class Remembers(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.layer, self.how, self.state, self.more = nn.Linear(5, 3), how, None, {"list": []}

    def forward(self, x):
        y = self.layer(x)
        if self.how == "attribute":
            y, self.state = (y if self.state is None else y + self.state), y.detach()
        elif self.how == "list":
            self.more["list"].append(y.detach())
            y = y + self.more["list"][0]
        elif self.how == "global":
            y, KEPT["y"] = y + KEPT.get("y", 0.0), y.detach().mean(0)
        elif self.how == "counter":
            self.state = 1 if self.state is None else self.state + 1
            y = y * self.state
        elif self.how == "table" and self.state is None:
            self.state = torch.arange(3.0)
        return y if self.how != "table" else y + self.state


def squares(model, batch):
    return model(batch[0]).square().sum(1)


def fitted(model, loss_fn, arithmetic, size):
    run = private(model, noise_multiplier=1.0, batch_size=30, arithmetic=arithmetic, physical_batch_size=size)
    return run.fit(loss_fn)


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize(
    ("how", "where"),
    [("attribute", "model.state"), ("list", "model.more.list"), ("global", "KEPT.y"), ("counter", "model.state")],
)
def test_a_model_that_remembers_is_refused(how, where, size, arithmetic):
    KEPT.clear()
    model = Remembers(how)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match=f"must keep nothing from one record to the next: .*{where}"):
        fitted(model, squares, arithmetic, size)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_a_loss_that_remembers_is_refused(arithmetic):
    last = torch.zeros(())

    def loss(model, batch):
        nonlocal last
        found = squares(model, batch)
        found, last = found * (1 + last), found.detach().mean()
        return found

    with pytest.raises(ValueError, match=r"must keep nothing from one record to the next: loss_fn\.last"):
        fitted(nn.Linear(5, 3), loss, arithmetic, 2)


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_a_table_that_is_made_at_first_use_is_none_of_records(arithmetic):
    model = Remembers("table")
    assert fitted(model, squares, arithmetic, 2).steps_ == 2 and torch.equal(model.state, torch.arange(3.0))


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_a_module_that_the_model_holds_twice_is_trained(arithmetic):
    layer = nn.Linear(5, 5)
    model = nn.Sequential(layer, nn.Tanh(), layer)
    weight, before = layer.weight, layer.weight.detach().clone()
    fitted(model, squares, arithmetic, None)
    assert layer.weight is weight and type(weight) is nn.Parameter and not torch.equal(weight, before)
    assert model(table(2).tensors[0]).shape == (2, 5)


class Slots:
    __slots__ = ("flag",)

    def __init__(self):
        self.flag = False


class Flagged(nn.Module):
    """Writes down whether a record was large, somewhere, and lets the next ones see it."""

    known = False

    def __init__(self, write):
        super().__init__()
        self.layer, self.write = nn.Linear(5, 3), write
        self.flag, self.word, self.maybe, self.items, self.seen = False, "no", None, [], set()
        self.table, self.object, self.inner = {}, Slots(), ([[[[[[[[0]]]]]]]],)
        self.big, self.later = [0] * 100_000, iter([0, 1, 2])
        self.register_buffer("mean", torch.zeros(5))
        self.centre = nn.Parameter(torch.zeros(5), requires_grad=False)

    def forward(self, x, past=[]):  # noqa: B006
        if float(x.detach().abs().max()) > 50:
            self.write(self, x.detach(), past)
        return self.layer(x)


def remembered(model, x, past):
    past.append(1)


def on_the_class(model, x, past):
    Flagged.known = not Flagged.known


def deep_inside(model, x, past):
    items = model.inner[0]
    while isinstance(items[0], list):
        items = items[0]
    items[0] += 1


def far_inside(model, x, past):
    model.big[70_000] += 1


PAST = {
    "a flag": lambda model, x, past: setattr(model, "flag", True),
    "a word": lambda model, x, past: setattr(model, "word", "yes"),
    "a number where none was": lambda model, x, past: setattr(model, "maybe", 1.0),
    "a tensor where none was": lambda model, x, past: setattr(model, "maybe", x),
    "a new attribute": lambda model, x, past: setattr(model, "more", 1),
    "a list that grows": lambda model, x, past: model.items.append(1.0),
    "a set that grows": lambda model, x, past: model.seen.add(1),
    "a new key": lambda model, x, past: model.table.setdefault("a", 1),
    "a slot": lambda model, x, past: setattr(model.object, "flag", True),
    "a default argument": remembered,
    "the class": on_the_class,
    "deep in a list": deep_inside,
    "far in a list": far_inside,
    "an iterator": lambda model, x, past: next(model.later),
    "the mode": lambda model, x, past: model.layer.eval(),
    "a module": lambda model, x, past: model.add_module("other", nn.Identity()),
    "a hook": lambda model, x, past: model.layer.register_forward_hook(lambda module, x, y: -y),
    "a method": lambda model, x, past: setattr(model.layer, "forward", lambda x: x[:, :3]),
}


def with_a_large_record(place):
    x = torch.randn(60, 5)
    x[place] = 100.0
    return torch.utils.data.TensorDataset(x, torch.zeros(60))


def refused_after_a_large_record(model, dataset, match, loss_fn=squares):
    run = private(model, dataset, noise_multiplier=1.0, batch_size=60, max_norm=1.0)
    with pytest.raises(ValueError, match=match):
        run.fit(loss_fn)
    return run


@pytest.mark.parametrize("place", [0, 30])
@pytest.mark.parametrize("how", PAST)
def test_what_one_record_leaves_in_python(how, place):
    refused_after_a_large_record(
        Flagged(PAST[how]), with_a_large_record(place), "must keep nothing from one record to the next"
    )


WRITES = {
    "centre": [
        lambda model, x, past: model.centre.data.copy_(x[0]),
        lambda model, x, past: setattr(model.centre, "data", x[0]),
        lambda model, x, past: model.centre.detach().numpy().__setitem__(0, 1.0),
        lambda model, x, past: setattr(model, "centre", nn.Parameter(x[0])),
    ],
    "layer.bias": [
        lambda model, x, past: model.layer.bias.data.add_(1.0),
        lambda model, x, past: model.layer.bias.untyped_storage().copy_((x[0, :3]).untyped_storage()[:12]),
    ],
    "mean": [
        lambda model, x, past: model.mean.data.mul_(0.5).add_(x[0]),
        lambda model, x, past: model.mean.numpy().__setitem__(0, 1.0),
    ],
}


@pytest.mark.parametrize("place", [0, 30])
@pytest.mark.parametrize(("name", "write"), [(name, write) for name in WRITES for write in WRITES[name]])
def test_what_one_record_writes_into_tensors(name, write, place):
    model = Flagged(write)
    match = "its buffer mean changes" if name == "mean" else f"{name} was changed, .* Do not release this model"
    refused_after_a_large_record(model, with_a_large_record(place), match)
    assert torch.equal(model.mean, torch.zeros(5))


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
def test_a_parameter_that_counts_physical_batches(arithmetic):
    def loss(model, batch):
        model.bias.data.add_(1.0)
        return squares(model, batch)

    model = nn.Linear(5, 3)
    with pytest.raises(ValueError, match="bias was changed"):
        private(model, noise_multiplier=1.0, arithmetic=arithmetic).fit(loss)


def test_a_loss_that_sets_the_learning_rate():
    model = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def loss(model, batch):
        optimizer.param_groups[0]["lr"] = float(batch[0].abs().max())
        return squares(model, batch)

    run = private(model, optimizer=optimizer, noise_multiplier=1.0, batch_size=60)
    with pytest.raises(ValueError, match=r"optimizer\.0\.lr changes"):
        run.fit(loss)


def test_statistics_of_the_first_batch_are_none_of_records():
    """A layer that sets itself up by its first batch does so with zeros, which shows, and no record is looked at."""

    class Set(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.bias, self.ready = nn.Linear(5, 3), nn.Parameter(torch.ones(5)), False

        def forward(self, x):
            if not self.ready:
                self.bias.data.copy_(-x.detach().mean(0))
                self.ready = True
            return self.layer(x + self.bias)

    model = Set()
    with pytest.raises(ValueError, match="bias was changed"):
        private(model, noise_multiplier=1.0).fit(squares)
    assert torch.equal(model.bias, torch.zeros(5))


def test_a_record_alone_has_no_others_behind_it():
    def loss(model, batch):
        x = batch[0]
        assert float(x.detach().abs().max()) < 50, "in turn"
        return squares(model, batch) * (x.untyped_storage().nbytes() == 4 * x.numel()) * (x._base is None)

    model = nn.Linear(5, 3)
    run = private(model, noise_multiplier=1e-9, batch_size=60, max_norm=1e-3)
    run.step(loss, next(iter(run.loader)))
    assert float(model.weight.grad.abs().max()) > 1e-6


def test_a_loss_that_is_a_module_with_names_of_the_model():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Identity()

        def forward(self, model, batch):
            return squares(model, batch)

    model = Flagged(lambda model, x, past: setattr(model.layer, "flag", True))
    match = r"model\.layer\.flag changes"
    refused_after_a_large_record(model, with_a_large_record(30), match, Loss())


def test_arrays_that_cannot_be_written():
    weights = torch.arange(3.0).numpy()
    weights.flags.writeable = False

    def loss(model, batch):
        return (model(batch[0]) * torch.tensor(weights)).square().sum(1)

    assert fitted(nn.Linear(5, 3), loss, "exact", None).steps_ == 2
