"""Private training of a PyTorch model on a CUDA device, beside the same run on the CPU. Skipped where there is none."""

import pytest

from tightdp import cuda

torch = pytest.importorskip("torch")
tightdp_torch = pytest.importorskip("tightdp.torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not cuda.devices() or not torch.cuda.is_available(), reason=f"CUDA: {cuda.status()}"),
]

RECORDS = 256


def compute_losses(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 4, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 13 * 13, 10)
    )


def make_run(model, data, arithmetic="auto", checkpoint=None, **algorithm):
    return tightdp_torch.make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), data, batch_size=64, epochs=2, max_norm=1.0,
        noise_multiplier=1.0, delta=1e-6, public_size=RECORDS, arithmetic=arithmetic, random_state=3,
        checkpoint=checkpoint, **algorithm,
    )  # fmt: skip


def make_data(device):
    images = torch.randn(RECORDS, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(RECORDS) % 10
    return torch.utils.data.TensorDataset(images.to(device), labels.to(device))


@pytest.mark.parametrize("records_on", ["cpu", "cuda"])
@pytest.mark.parametrize("arithmetic", ["float", "auto", "exact"])
def test_a_run_on_the_device_is_that_of_the_cpu(arithmetic, records_on):
    """Batches and noise come from the same seed. The gradients differ by the roundings of the device's products."""
    here, there = make_model(), make_model().to("cuda")
    make_run(here, make_data("cpu"), arithmetic).fit(compute_losses)
    make_run(there, make_data(records_on), arithmetic).fit(compute_losses)
    for a, b in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("arithmetic", ["auto", "exact"])
def test_one_record_moves_the_sums_within_the_bound(arithmetic):
    model = make_model().to("cuda")
    assert make_run(model, make_data("cpu"), arithmetic).audit(compute_losses).ok


@pytest.mark.parametrize("algorithm", ["adaclip", "dpis"])
def test_the_other_algorithms_train_on_the_device(algorithm):
    model = make_model().to("cuda")
    before = [p.detach().clone() for p in model.parameters()]
    make_run(model, make_data("cpu"), algorithm=algorithm).fit(compute_losses)
    for old, new in zip(before, model.parameters(), strict=True):
        assert new.isfinite().all() and not torch.equal(old, new)


def test_a_checkpoint_continues_on_the_device(tmp_path):
    data, whole, parts = make_data("cpu"), make_model().to("cuda"), make_model().to("cuda")
    make_run(whole, data).fit(compute_losses)
    first = make_run(parts, data, checkpoint=tmp_path / "run")
    for batch in first.loader:
        first.step(compute_losses, batch)
        if first.steps_ == 3:
            break
    first.save()
    del first
    continued = make_model().to("cuda")
    make_run(continued, data, checkpoint=tmp_path / "run").fit(compute_losses)
    for a, b in zip(whole.parameters(), continued.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)
