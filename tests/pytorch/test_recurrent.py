"""Recurrent layers, which PyTorch computes by functions that torch.func.vmap does not take."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import clipped_by_hand, cross_entropy, private
from torch import nn
from torch.utils.data import TensorDataset

from tightdp.torch.gradient_sums.per_example_gradients import PerExampleGradients


class Reads(nn.Module):
    """A sequence goes through a recurrent layer, and its last output is classified."""

    def __init__(self, layer, directions=1):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(4 * directions, 3)

    def forward(self, x):
        if isinstance(self.layer, nn.RNNCellBase):
            state = None
            for t in range(x.shape[1]):
                state = self.layer(x[:, t], state)
            return self.head(state[0] if isinstance(state, tuple) else state)
        x = x if self.layer.batch_first else x.transpose(0, 1)
        found, last = self.layer(x)
        last = last[0] if isinstance(last, tuple) else last
        found = found if self.layer.batch_first else found.transpose(0, 1)
        return self.head(found.mean(1)) + self.head(found[:, -1]) * last.sum((0, 2))[:, None]


LAYERS = {
    "gru": lambda: Reads(nn.GRU(2, 4)),
    "deep gru": lambda: Reads(nn.GRU(2, 4, num_layers=2, bidirectional=True, batch_first=True), 2),
    "gru without biases": lambda: Reads(nn.GRU(2, 4, bias=False, batch_first=True)),
    "tanh": lambda: Reads(nn.RNN(2, 4, batch_first=True, bidirectional=True), 2),
    "relu": lambda: Reads(nn.RNN(2, 4, nonlinearity="relu", num_layers=2)),
    "lstm": lambda: Reads(nn.LSTM(2, 4, num_layers=2, batch_first=True)),
    "projected lstm": lambda: Reads(nn.LSTM(2, 8, proj_size=4, batch_first=True)),
    "gru cell": lambda: Reads(nn.GRUCell(2, 4)),
    "cell": lambda: Reads(nn.RNNCell(2, 4)),
    "relu cell": lambda: Reads(nn.RNNCell(2, 4, nonlinearity="relu")),
    "lstm cell": lambda: Reads(nn.LSTMCell(2, 4, bias=False)),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_pytorch(name):
    torch.manual_seed(1)
    model, batch = LAYERS[name](), [torch.randn(6, 5, 2), torch.randint(0, 3, (6,))]
    parameters = dict(model.named_parameters())
    (rows,) = PerExampleGradients(model, cross_entropy, parameters).yield_per_example_gradients(batch, 6)
    expected = clipped_by_hand(model, cross_entropy, batch, 1e30)
    for each, g in zip(rows, expected.values(), strict=True):
        assert torch.allclose(each.sum(0).double(), g, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_they_train_by_default(name):
    data = TensorDataset(torch.randn(40, 5, 2), torch.randint(0, 3, (40,)))
    run = private(LAYERS[name](), data, batch_size=10).fit(cross_entropy)
    assert run.privacy_ <= 3.0 and set(run.ways_.values()) == {"vectorised"}


def test_dropout_between_layers_is_drawn_for_each_record():
    torch.manual_seed(1)
    model = Reads(nn.GRU(2, 4, num_layers=2, dropout=0.5, batch_first=True))
    batch = [torch.randn(1, 5, 2).expand(20, 5, 2), torch.zeros(20, dtype=torch.int64)]
    (rows,) = PerExampleGradients(model, cross_entropy, dict(model.named_parameters())).yield_per_example_gradients(
        batch, 20
    )
    assert len(torch.unique(rows[0].flatten(1), dim=0)) > 10
    model.eval()
    (rows,) = PerExampleGradients(model, cross_entropy, dict(model.named_parameters())).yield_per_example_gradients(
        batch, 20
    )
    assert torch.allclose(rows[0][0], rows[0][1], atol=1e-6)
