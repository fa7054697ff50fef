"""Good or bad film reviews, by the mean of the embeddings of their words; as Opacus' example of the same name.

    python examples/imdb.py              # needs datasets and transformers, which download reviews and a tokenizer
    python examples/imdb.py --made-up 200 --epochs 1

Reviews are cut or padded to ``--max-sequence-length`` words as they are read, each by itself.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tightdp.torch import make_private


class Mean(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = nn.Embedding(words, 16)
        self.hidden, self.out = nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.out(F.relu(self.hidden(self.words(x).mean(1))))


def loss(model, batch):
    reviews, good = batch
    return F.cross_entropy(model(reviews), good, reduction="none")


def data(args):
    """How many words there are, the reviews to train on, and others."""
    if args.made_up:
        good = torch.arange(args.made_up) % 2
        reviews = torch.randint(1, 50, (args.made_up, args.max_sequence_length)) + 50 * good[:, None]
        return 100, TensorDataset(reviews, good), TensorDataset(reviews, good)
    from datasets import load_dataset
    from transformers import AutoTokenizer

    reader = AutoTokenizer.from_pretrained("bert-base-cased")

    def read(part):
        found = load_dataset("imdb", split=part)
        ids = reader(
            found["text"], truncation=True, padding="max_length", max_length=args.max_sequence_length,
            return_tensors="pt",
        )["input_ids"]  # fmt: skip
        return TensorDataset(ids, torch.tensor(found["label"]))

    return len(reader), read("train"), read("test")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--made-up", type=int, help="that many made-up records instead")
    parser.add_argument("--max-sequence-length", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--sigma", type=float, default=0.56, help="noise multiplier")
    parser.add_argument("--max-per-sample-grad_norm", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    args = parser.parse_args()

    words, train, held_out = data(args)
    model = Mean(words)
    run = make_private(
        model, torch.optim.Adam(model.parameters(), lr=args.lr), train, batch_size=args.batch_size, epochs=args.epochs,
        max_norm=args.max_per_sample_grad_norm, noise_multiplier=args.sigma, delta=args.delta, public_size=len(train),
    )  # fmt: skip
    run.fit(loss)

    with torch.no_grad():
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in DataLoader(held_out, 1000))
    print(f"{run.steps_} steps: epsilon <= {run.privacy_:.2f} at delta = {args.delta}")
    print(f"accuracy on other records: {right / len(held_out):.3f}")


if __name__ == "__main__":
    main()
