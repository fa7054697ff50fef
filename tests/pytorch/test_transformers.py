"""Models of Hugging Face as they come: masked encoders in one pass, peft's adapters, and the Trainer."""

import json
import math

import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("peft", reason="needs peft")

import peft
import torch
import transformers
from small import clipped_by_hand, private
from torch.utils.data import Dataset, TensorDataset

import tightdp as dp
from tightdp.adapters.transformers import STATEMENT, PrivateTrainer
from tightdp.torch import LossRelease
from tightdp.torch.algorithm_sums.auto_sums import AutoSums
from tightdp.torch.ghost_clipping.products import ProductSums

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
SMALL = {"vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
LENGTH, RECORDS = 9, 20


def bert():
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL, num_labels=3))


def roberta():
    config = transformers.RobertaConfig(**SMALL, max_position_embeddings=20, pad_token_id=1, num_labels=3)
    return transformers.RobertaForSequenceClassification(config)


def distilbert():
    config = transformers.DistilBertConfig(vocab_size=40, dim=8, n_layers=2, n_heads=2, hidden_dim=16, num_labels=3)
    return transformers.DistilBertForSequenceClassification(config)


def gpt2():
    sizes = {"vocab_size": 40, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 20, "num_labels": 3}
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**sizes, **ends))


def adapted(settings):
    return lambda: peft.get_peft_model(bert(), settings())


LINEAR = {"task_type": "SEQ_CLS", "target_modules": ["query", "value"], "r": 2}
MODELS = {
    "bert": bert,
    "roberta": roberta,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "lora": adapted(lambda: peft.LoraConfig(**LINEAR, init_lora_weights=False)),
    "dora": adapted(lambda: peft.LoraConfig(**LINEAR, use_dora=True, init_lora_weights=False)),
    "ia3": adapted(lambda: peft.IA3Config(task_type="SEQ_CLS", target_modules=["key", "output.dense"],
                                          feedforward_modules=["output.dense"], init_ia3_weights=False)),
    "prompt": adapted(lambda: peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=2)),
}  # fmt: skip


def sentences(records=RECORDS):
    """Token ids, masks of different lengths, and labels."""
    mask = (torch.arange(LENGTH) < torch.randint(2, LENGTH + 1, (records, 1))).long()
    return [torch.randint(3, 40, (records, LENGTH)) * mask, mask, torch.randint(0, 3, (records,))]


def loss(model, batch):
    scores = model(input_ids=batch[0], attention_mask=batch[1]).logits
    return torch.nn.functional.cross_entropy(scores, batch[2], reduction="none")


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_records_taken_alone(name, kind):
    """With masks of all lengths; in one pass, with masks that attention may skip and others."""
    torch.manual_seed(3)
    model, batch = MODELS[name]().eval(), sentences()
    model.set_attn_implementation(kind)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    plan = private(model, TensorDataset(*batch), max_norm=0.1, noise_multiplier=1.0, arithmetic="products").plan
    sums = ProductSums(plan, parameters)
    sums.check(model, loss, batch, RECORDS)
    sums.add(model, loss, batch, RECORDS)
    expected = clipped_by_hand(model, loss, batch, 0.1)
    largest = max(float(g.abs().max()) for g in expected.values())
    for each, total in zip(parameters, sums.convert_to_floats(), strict=True):
        assert (total - expected[each]).abs().max() <= 1e-4 * largest + RECORDS * 0.1 * 2.0**-13, each
    assert set(sums.gradient_ways) == set(parameters)


@pytest.mark.parametrize("name", MODELS)
def test_they_train_by_default(name):
    model = MODELS[name]().train()
    run = private(model, TensorDataset(*sentences()), batch_size=5)
    assert run.plan.arithmetic == "auto" and isinstance(
        run._sum_maker.make_plain_step_sums(run._check_run_parameters()), AutoSums
    )
    run.fit(loss)
    assert "vectorised" not in run.ways_.values() and run.privacy_ <= 3.0


def test_outside_of_a_run_masks_are_skipped_as_before():
    """The function that makes masks still leaves out one that hides nothing, and answers for others the same."""
    model, (ids, _, labels) = bert().eval(), sentences(4)
    whole = torch.ones_like(ids)
    private(model, TensorDataset(ids, whole, labels), batch_size=2, noise_multiplier=1.0).fit(loss)
    make = transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]
    asked = {"batch_size": 4, "q_length": LENGTH, "kv_length": LENGTH, "attention_mask": whole.bool()}
    assert make(**asked, allow_is_bidirectional_skip=True, allow_is_causal_skip=False) is None
    assert make(**asked, allow_is_bidirectional_skip=False, allow_is_causal_skip=False).shape == (4, 1, LENGTH, LENGTH)


class Sentences(Dataset):
    def __init__(self, records=40):
        torch.manual_seed(5)
        self.columns = sentences(records)

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, i):
        names = ("input_ids", "attention_mask", "labels")
        return {name: column[i] for name, column in zip(names, self.columns, strict=True)}


def trainer(folder, model=None, privacy=(), **settings):
    chosen = {
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_train_epochs": 2, "report_to": [],
        "logging_steps": 2, "eval_strategy": "epoch", "save_steps": 5, "save_total_limit": 1, "warmup_steps": 2,
        "disable_tqdm": True, "use_cpu": True, **settings,
    }  # fmt: skip
    arguments = transformers.TrainingArguments(str(folder), **chosen)
    promised = {"epsilon": 4.0, "delta": 1e-5, "max_norm": 1.0, "public_size": 40, **dict(privacy)}
    return PrivateTrainer(
        bert() if model is None else model, arguments, train_dataset=Sentences(), eval_dataset=Sentences(8),
        privacy=promised,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "lora"])
def test_a_trainer_trains_privately(name, tmp_path):
    model = MODELS[name]()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    made = trainer(tmp_path, model)
    found = made.train()
    run = made.run
    assert found.global_step == run.steps_ == run.plan.steps == 10
    assert run.plan.batch_size == 8 and run.loader.physical_batch_size == 4
    assert run.charged_.epsilon(1e-5).upper == found.metrics["epsilon"] <= 4.0
    assert math.isnan(found.training_loss)
    logged = [entry for entry in made.state.log_history if "epsilon" in entry]
    assert [entry["step"] for entry in logged] == [2, 4, 6, 8, 10]
    assert all("loss" not in entry for entry in logged) and logged[-1]["epsilon"] <= 4.0
    assert len([entry for entry in made.state.log_history if "eval_loss" in entry]) == 2
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert moved == {n for n, p in model.named_parameters() if p.requires_grad}
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-10"]
    made.save_model(tmp_path / "out")
    statement = dp.Statement.from_json((tmp_path / "out" / STATEMENT).read_text())
    assert statement.privacy.upper <= 4.0
    assert json.loads((tmp_path / "out" / STATEMENT).read_text())


def test_a_training_loss_that_is_released_is_logged(tmp_path):
    made = trainer(tmp_path, privacy={"release_loss": LossRelease(5.0, every=2)}, num_train_epochs=1)
    found = made.train()
    means = [each.mean for each in made.run.losses_]
    assert [entry["loss"] for entry in made.state.log_history if "epsilon" in entry] == means[:2] and len(means) == 3
    assert found.training_loss == means[-1]


def test_steps_may_be_given_and_are_taken_once(tmp_path):
    made = trainer(tmp_path, max_steps=7)
    assert made.train().global_step == 7 == made.run.plan.steps
    with pytest.raises(RuntimeError, match="train was called before"):
        made.train()


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("^fp16 must be", {"fp16": True, "use_cpu": True}),
        ("^load_best_model_at_end must be", {"load_best_model_at_end": True, "save_strategy": "epoch"}),
        ("^max_steps must be", {"max_steps": 7, "privacy": {"public_size": None}}),
        ("^privacy must leave epochs out", {"privacy": {"epochs": 3}}),
        ("^epsilon and noise_multiplier", {"privacy": {"noise_multiplier": 1.0}}),
    ],
)
def test_what_a_trainer_refuses(message, settings, tmp_path):
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **settings).train()


def test_a_trainer_goes_on_from_a_checkpoint_of_the_run(tmp_path):
    settings = {"privacy": {"checkpoint": tmp_path / "run"}}
    first = trainer(tmp_path / "one", **settings)
    first.add_callback(Stop())
    assert first.train().global_step == 5 and first.run.steps_ == 5
    with pytest.raises(ValueError, match=r"^resume_from_checkpoint must be left out"):
        first.train(resume_from_checkpoint=True)
    del first
    second = trainer(tmp_path / "two", **settings)
    assert second.train().global_step == 10 and second.run.history_ == (second.run.plan.mechanism,) * 10


class Stop(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= 5
        return control
