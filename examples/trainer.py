"""A classifier of texts by the Trainer of transformers, with private steps.

python examples/trainer.py --model distilbert-base-uncased    # downloads the model and the reviews "imdb"
python examples/trainer.py --made-up 64 --num_train_epochs 1  # a tiny model, and made-up texts
"""

import argparse

import torch
import transformers
from torch.utils.data import Dataset

from tightdp.adapters.transformers import PrivateTrainer


class Texts(Dataset):
    """Token ids, masks and labels, padded to one length."""

    def __init__(self, ids, mask, labels):
        self.columns = {"input_ids": ids, "attention_mask": mask, "labels": labels}

    def __len__(self):
        return len(self.columns["labels"])

    def __getitem__(self, i):
        return {name: column[i] for name, column in self.columns.items()}


def data(args):
    """A model, texts to train on, and others."""
    if args.made_up:
        config = transformers.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=2, hidden_dim=64)
        labels = torch.arange(args.made_up) % 2
        mask = (torch.arange(16) < 8 + labels[:, None] * 4).long()
        texts = Texts((torch.randint(3, 50, mask.shape) + 50 * labels[:, None]) * mask, mask, labels)
        return transformers.DistilBertForSequenceClassification(config), texts, texts
    from datasets import load_dataset

    reader = transformers.AutoTokenizer.from_pretrained(args.model)

    def read(part):
        found = load_dataset("imdb", split=part)
        made = reader(found["text"], truncation=True, padding="max_length", max_length=128, return_tensors="pt")
        return Texts(made["input_ids"], made["attention_mask"], torch.tensor(found["label"]))

    model = transformers.AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=2)
    return model, read("train"), read("test")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="distilbert-base-uncased")
    parser.add_argument("--made-up", type=int, help="that many made-up records and a tiny model instead")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--num_train_epochs", type=float, default=3)
    parser.add_argument("--output_dir", default="classifier")
    args = parser.parse_args()

    model, train, held_out = data(args)
    arguments = transformers.TrainingArguments(
        args.output_dir, per_device_train_batch_size=32, gradient_accumulation_steps=16 if not args.made_up else 1,
        num_train_epochs=args.num_train_epochs, learning_rate=1e-3, logging_steps=10, eval_strategy="epoch",
        report_to=[],
    )  # fmt: skip
    trainer = PrivateTrainer(
        model, arguments, train_dataset=train, eval_dataset=held_out,
        privacy={"epsilon": args.epsilon, "delta": 1e-5, "max_norm": 1.0, "public_size": len(train)},
    )  # fmt: skip
    trainer.train()
    trainer.save_model(args.output_dir)
    print(trainer.run.statement_)


if __name__ == "__main__":
    main()
