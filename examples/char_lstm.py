"""The language of a name, from its letters, by an LSTM or a GRU; as Opacus' char-lstm-classification.py.

    python examples/char_lstm.py --data-root ~/data/names      # a file of names for each language, such as Dutch.txt
    python examples/char_lstm.py --made-up 200 --epochs 1 --batch-size 40 --mode gru

PyTorch's own layers: no others are needed. Names of equal length go through the model together, so none is padded.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, random_split

from tightdp.torch import make_private

START, END, LETTERS = 256, 257, 258
"""Names are the bytes of UTF-8, between two marks."""


class Names(Dataset):
    """A name and the number of its language; ``languages`` are public."""

    def __init__(self, names):
        self.languages = sorted(names)
        self.records = [(name, i) for i, language in enumerate(self.languages) for name in names[language]]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        name, language = self.records[i]
        return torch.tensor([START, *name.encode(), END]), torch.tensor(language)


class Reader(nn.Module):
    def __init__(self, mode, languages, embedding=64, hidden=128):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, embedding)
        self.reader = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[mode](embedding, hidden, batch_first=True)
        self.out = nn.Linear(hidden, languages)

    def forward(self, x):
        return self.out(self.reader(self.letters(x))[0][:, -1])


def loss(model, batch):
    names, languages = batch
    return F.cross_entropy(model(names), languages, reduction="none")


def data(args):
    if args.made_up:
        endings = {"Dutch": "sen", "Italian": "ini", "Russian": "ov"}
        stem = "abcdefghij"
        return Names({
            language: [stem[i % 7 : 2 + i % 7 + i % 3] + ending for i in range(args.made_up // 3)]
            for language, ending in endings.items()
        })  # fmt: skip
    return Names({file.stem: file.read_text().split("\n")[:-1] for file in Path(args.data_root).iterdir()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="names")
    parser.add_argument("--made-up", type=int, help="that many made-up records instead")
    parser.add_argument("--mode", choices=["lstm", "gru", "rnn"], default="lstm")
    parser.add_argument("--batch-size", type=int, default=800)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=2.0)
    parser.add_argument("--sigma", type=float, default=1.0, help="noise multiplier")
    parser.add_argument("--max-per-sample-grad-norm", type=float, default=1.5)
    parser.add_argument("--delta", type=float, default=8e-5)
    args = parser.parse_args()

    names = data(args)
    train, held_out = random_split(names, [0.8, 0.2])
    model = Reader(args.mode, len(names.languages))
    run = make_private(
        model, torch.optim.SGD(model.parameters(), lr=args.learning_rate), train, batch_size=args.batch_size,
        epochs=args.epochs, max_norm=args.max_per_sample_grad_norm, noise_multiplier=args.sigma, delta=args.delta,
        public_size=len(train),
    )  # fmt: skip
    run.fit(loss)

    model.eval()
    with torch.no_grad():
        right = sum(int(model(name[None]).argmax() == language) for name, language in held_out)
    print(f"{run.steps_} steps: epsilon <= {run.privacy_:.2f} at delta = {args.delta}")
    print(f"accuracy on other records: {right / len(held_out):.3f}")


if __name__ == "__main__":
    main()
