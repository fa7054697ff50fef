"""Private training by several processes, on one machine or many: 1,797 handwritten digits, 8 x 8 pixels.

On one machine:

    torchrun --nproc-per-node=2 examples/torchrun_digits.py checkpoint

On two, on each of which this is run with its own rank (0 and 1), and the address of the first:

    torchrun --nnodes=2 --nproc-per-node=1 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 \
        examples/torchrun_digits.py checkpoint

Killed and started again, on as many processes as there are then, it goes on from the folder "checkpoint", which the
first machine alone has.
"""

import datetime
import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from tightdp.torch import Batches, make_private


def loss(model, batch):
    images, labels = batch
    return cross_entropy(model(images), labels, reduction="none")


def main(checkpoint):
    torch.set_num_threads(1)  # a thread for each process
    distributed.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")  # pixels are 0..16 by the data set's definition
    parts = map(torch.as_tensor, train_test_split(images, labels, test_size=0.25, random_state=0))
    images, test_images, labels, test_labels = parts

    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    run = make_private(
        model, optimizer, TensorDataset(images, labels), epsilon=3.0, delta=1e-5, batch_size=256, epochs=20,
        max_norm=1.0, batches=Batches(32), checkpoint=checkpoint,
    )  # fmt: skip
    run.fit(loss)

    if distributed.get_rank() == 0:
        found = (model(test_images).argmax(1) == test_labels).float().mean()
        print(f"{distributed.get_world_size()} processes: test accuracy {found:.3f} at epsilon {run.privacy_:.2f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
