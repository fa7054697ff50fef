"""A small CNN on MNIST, trained privately; as Opacus' example of the same name, whose options it has.

python examples/mnist.py --data-root ~/data          # needs torchvision, which downloads MNIST
python examples/mnist.py --made-up 200 --epochs 1    # made-up images: to try it
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tightdp.torch import make_private


class ConvNet(nn.Module):
    """26,010 numbers; images of one channel, 28 x 28."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 8, 2, padding=3), nn.Conv2d(16, 32, 4, 2)
        self.hidden, self.out = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2, 1)
        x = F.max_pool2d(F.relu(self.second(x)), 2, 1)
        return self.out(F.relu(self.hidden(x.flatten(1))))


def loss(model, batch):
    images, digits = batch
    return F.cross_entropy(model(images), digits, reduction="none")


def test(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum(int((model(images).argmax(1) == digits).sum()) for images, digits in loader)
    model.train()
    return right / len(loader.dataset)


def data(args):
    if args.made_up:
        digits = torch.arange(args.made_up) % 10
        images = torch.randn(args.made_up, 1, 28, 28) + digits.view(-1, 1, 1, 1) / 5
        return TensorDataset(images, digits), TensorDataset(images, digits)
    from torchvision import datasets, transforms

    scale = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    return [datasets.MNIST(args.data_root, train=train, download=True, transform=scale) for train in (True, False)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="mnist")
    parser.add_argument("--made-up", type=int, help="that many made-up records instead")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--sigma", type=float, default=1.0, help="noise multiplier")
    parser.add_argument("--max-per-sample-grad_norm", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    train, held_out = data(args)
    model = ConvNet().to(args.device)
    run = make_private(
        model, torch.optim.SGD(model.parameters(), lr=args.lr), train, batch_size=args.batch_size, epochs=args.epochs,
        max_norm=args.max_per_sample_grad_norm, noise_multiplier=args.sigma, delta=args.delta, public_size=len(train),
    )  # fmt: skip
    while run.steps_ < run.plan.steps:
        for batch in run.loader:
            run.step(loss, batch)
        print(f"{run.steps_} steps: epsilon <= {run.epsilon():.2f} at delta = {args.delta}")
    print(f"accuracy on other records: {test(model.cpu(), DataLoader(held_out, 1024)):.3f}")


if __name__ == "__main__":
    main()
