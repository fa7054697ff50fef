"""A CNN on CIFAR-10, trained privately with augmentation; as Opacus' example of the same name.

    python examples/cifar10.py --data-root ~/data                 # needs torchvision, which downloads CIFAR-10
    torchrun --nproc-per-node=2 examples/cifar10.py --data-root ~/data
    python examples/cifar10.py --made-up 200 --epochs 1 --batch-size 50

A record is cropped and flipped as it is read. The coins are the run's own, and nobody knows them.
"""

import argparse
import math

import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tightdp.torch import Batches, make_private

MEAN, DEVIATION = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])


class Images(Dataset):
    """Images of three channels, 32 x 32, scaled; ``augmented``: cropped and flipped."""

    def __init__(self, images, classes, augmented):
        self.images = (images - MEAN.view(3, 1, 1)) / DEVIATION.view(3, 1, 1)
        self.classes, self.augmented = classes, augmented

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        if self.augmented:
            down, right, flip = torch.randint(9, (3,)).tolist()
            image = F.pad(image, (4, 4, 4, 4))[:, down : down + 32, right : right + 32]
            image = image.flip(2) if flip > 4 else image
        return image, self.classes[i]


def convnet():
    layers, channels = [], 3
    for width in (32, 64, 64, 128):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)]
        channels = width
    return nn.Sequential(*layers[:-1], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def loss(model, batch):
    images, classes = batch
    return F.cross_entropy(model(images), classes, reduction="none")


def data(args):
    if args.made_up:
        classes = torch.arange(args.made_up) % 10
        images = torch.rand(args.made_up, 3, 32, 32) * (1 + classes.view(-1, 1, 1, 1)) / 10
        return Images(images, classes, True), Images(images, classes, False)
    from torchvision.datasets import CIFAR10

    whole = [CIFAR10(args.data_root, train=train, download=True) for train in (True, False)]
    return [
        Images(torch.from_numpy(one.data).permute(0, 3, 1, 2) / 255, torch.tensor(one.targets), one.train)
        for one in whole
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="cifar10")
    parser.add_argument("--made-up", type=int, help="that many made-up records instead")
    parser.add_argument("--batch-size", type=int, default=2000)
    parser.add_argument("--physical-batch-size", type=int, default=250)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--sigma", type=float, default=1.5, help="noise multiplier")
    parser.add_argument("--max-per-sample-grad_norm", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if distributed.is_torchelastic_launched():
        distributed.init_process_group()

    train, held_out = data(args)
    model = convnet().to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    batches = Batches(args.physical_batch_size, options={"num_workers": args.workers})
    run = make_private(
        model, optimizer, train, batch_size=args.batch_size, epochs=args.epochs, batches=batches,
        max_norm=args.max_per_sample_grad_norm, noise_multiplier=args.sigma, delta=args.delta, public_size=len(train),
    )  # fmt: skip
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / run.plan.steps))
    )
    run.fit(loss, lambda done, total: rates.step())

    model.eval().cpu()
    with torch.no_grad():
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in DataLoader(held_out, 1000))
    print(f"{run.steps_} steps: epsilon <= {run.privacy_:.2f} at delta = {args.delta}")
    print(f"accuracy on other records: {right / len(held_out):.3f}")


if __name__ == "__main__":
    main()
