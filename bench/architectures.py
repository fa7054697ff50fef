"""Measures by ``run.audit()`` how far one record moves the sums before noise, on small untrained public architectures.

    python bench/architectures.py [--records 8] [--tried 2] [--names bert gpt2]

The architectures are text classifiers of ``transformers``, with masks of padding, and layers of PyTorch in small
networks. The output for each architecture is the way in which its gradients were computed and the largest distance, or
the reason why it was refused. A distance is in units of the norm bound and must be at most 1, plus 2^-20 for the last
bits. The norm bound is so small that every record is clipped. Writes bench/results/architectures.json.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import torch
from shared import RESULTS, options
from torch import nn
from torch.utils.data import TensorDataset

from tightdp.torch import make_private

NAMES = [
    "albert", "arcee", "bert", "big_bird", "biogpt", "bloom", "camembert", "canine", "convbert", "ctrl",
    "data2vec-text", "deberta", "deberta-v2", "diffllama", "distilbert", "doge", "electra", "ernie", "esm", "eurobert",
    "exaone4", "falcon", "flaubert", "fnet", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt-sw3", "gpt2",
    "gpt_bigcode", "gpt_neox", "gte", "helium", "hunyuan_v1_dense", "ibert", "layoutlm", "llama", "longformer",
    "megatron-bert", "ministral", "ministral3", "mistral", "mixtral", "mobilebert", "modernbert", "modernbert-decoder",
    "mpnet", "mpt", "mra", "nemotron", "nystromformer", "olmo", "olmo2", "olmo3", "openai-gpt", "opt", "persimmon",
    "phi", "phi3", "phimoe", "qwen2", "qwen3",
]  # fmt: skip
SMALL = {
    "hidden_size": 16, "d_model": 16, "n_embd": 16, "dim": 16, "embedding_size": 16, "emb_dim": 16,
    "word_embed_proj_dim": 16, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2,
    "num_attention_heads": 2, "n_head": 2, "n_heads": 2, "num_heads": 2, "num_key_value_heads": 2, "head_dim": 8,
    "intermediate_size": 32, "ffn_dim": 32, "d_ff": 32, "n_inner": 32, "hidden_dim": 32, "vocab_size": 60,
    "max_position_embeddings": 40, "n_positions": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "cls_token_id": 3, "sep_token_id": 2, "num_labels": 3, "num_local_experts": 2, "num_experts": 2,
    "sliding_window": 16, "moe_intermediate_size": 16,
}  # fmt: skip
"""Settings of small models. Each configuration takes the settings that it has."""
WITHOUT = {"falcon": "head_dim"}
OWN: dict[str, Any] = {
    "MLP": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 3)),
    "CNN": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AvgPool2d(3), nn.Flatten(), nn.Linear(16, 3)),
    "CNN with GroupNorm": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(144, 3)
    ),
    "InstanceNorm": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Flatten(),
                                          nn.Linear(144, 3)),
    "transposed convolution": lambda: nn.Sequential(nn.ConvTranspose2d(3, 2, 3), nn.Flatten(), nn.Linear(200, 3)),
    "PReLU": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.PReLU(8), nn.Linear(8, 3)),
    "dropout": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.Dropout(0.5), nn.Linear(32, 3)),
    "BatchNorm in eval mode": lambda: nn.Sequential(nn.BatchNorm2d(3).eval(), nn.Flatten(), nn.Linear(192, 3)),
}  # fmt: skip


def built(name: str) -> Any:
    """Returns a small text classifier of the family with this name."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

    config = transformers.CONFIG_MAPPING[name]
    known = config()
    settings = {key: value for key, value in SMALL.items() if hasattr(known, key)}
    if name in WITHOUT:
        del settings[WITHOUT[name]]
    made = config(**settings)
    return getattr(transformers, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES[name])(made)


def audited(model: Any, records: Any, loss: Any, given: Any) -> dict[str, Any]:
    """Returns the findings of the audit of a model, or the reason why the model was refused."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    settings = {"batch_size": 4, "epochs": 1, "max_norm": 1e-3, "noise_multiplier": 1.0, "delta": 1e-5}
    try:
        run = make_private(model, optimizer, records, public_size=len(records), **settings)  # type: ignore[arg-type]
        run.step(loss, next(iter(run.loader)))
        found = run.audit(loss, records=given.records, tried=given.tried)
    except (ValueError, TypeError, RuntimeError) as error:
        return {"refused": str(error).splitlines()[0][:300]}
    assert found.ok, str(found)
    return {"moved": max(found.moved), "kept": max(found.kept), "ways": sorted(set(run.ways_.values()))}


def of_text(model: Any, batch: Any) -> Any:
    scores = model(input_ids=batch[0], attention_mask=batch[1]).logits
    return nn.functional.cross_entropy(scores, batch[2], reduction="none")


def of_images(model: Any, batch: Any) -> Any:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def main() -> None:
    given = options(__doc__, records=8, tried=2, names=[*OWN, *NAMES])
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    results = {}
    for name in given.names:
        if name in OWN:
            records, loss = TensorDataset(torch.randn(16, 3, 8, 8), torch.arange(16) % 3), of_images
            model = OWN[name]()
        else:
            mask = (torch.arange(8) < torch.arange(16)[:, None] % 5 + 4).long()
            records, loss = TensorDataset(torch.randint(4, 60, (16, 8)) * mask, mask, torch.arange(16) % 3), of_text
            model = built(name)
        results[name] = audited(model, records, loss, given)
        print(f"{name:24}", results[name], flush=True)
    passed = [name for name, found in results.items() if "moved" in found]
    print(
        f"{len(passed)} of {len(results)} audited, at most {max(results[name]['moved'] for name in passed):.7f} moved"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "architectures.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
