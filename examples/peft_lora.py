"""Adapters of peft (LoRA) in a causal language model, trained privately.

python examples/peft_lora.py --model Qwen/Qwen2.5-0.5B --texts private.txt    # a record is a line of the file
python examples/peft_lora.py --made-up 40 --epochs 1 --batch-size 8           # a tiny model, and made-up lines
"""

import argparse

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from tightdp.torch import Batches, DPAdam, make_private


def loss(model, batch):
    """The mean loss of a record's words; those of the padding do not count."""
    ids, mask = batch
    scores = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    each = F.cross_entropy(scores.transpose(1, 2), ids[:, 1:], reduction="none") * mask[:, 1:]
    return each.sum(1) / mask[:, 1:].sum(1).clamp(min=1)


def data(args):
    """A model, and token ids with their masks, padded to one length."""
    if args.made_up:
        config = transformers.Qwen2Config(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2,
        )  # fmt: skip
        lengths = torch.arange(args.made_up)[:, None] % 8 + 4
        mask = (torch.arange(args.length) < lengths).long()
        ids = (torch.arange(args.made_up)[:, None] + torch.arange(args.length)) % 60 + 1
        return transformers.Qwen2ForCausalLM(config), TensorDataset(ids * mask, mask)
    reader = transformers.AutoTokenizer.from_pretrained(args.model)
    reader.pad_token = reader.pad_token or reader.eos_token
    with open(args.texts, encoding="utf-8") as lines:
        found = reader(
            lines.read().splitlines(), truncation=True, padding="max_length", max_length=args.length,
            return_tensors="pt",
        )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model)
    return model, TensorDataset(found["input_ids"], found["attention_mask"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
    parser.add_argument("--texts", default="private.txt")
    parser.add_argument("--made-up", type=int, help="that many made-up records and a tiny model instead")
    parser.add_argument("--length", type=int, default=64, help="words of a record")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--physical-batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    args = parser.parse_args()

    base, records = data(args)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=args.rank, target_modules=["q_proj", "v_proj"]))
    model.print_trainable_parameters()
    trained = [p for p in model.parameters() if p.requires_grad]
    run = make_private(
        model, DPAdam(trained, lr=args.lr), records, algorithm="dp-adam", epsilon=args.epsilon, delta=args.delta,
        batch_size=args.batch_size, batches=Batches(args.physical_batch_size), epochs=args.epochs, max_norm=1.0,
        public_size=len(records),
    )  # fmt: skip
    run.fit(loss, lambda done, total: print(f"step {done} of {total}", end="\r"))
    print(f"\nepsilon <= {run.privacy_:.2f} at delta = {args.delta}")
    model.save_pretrained("adapters")


if __name__ == "__main__":
    main()
