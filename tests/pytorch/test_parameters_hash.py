"""The hash that ties a statement to the parameters of a run, from a state_dict and from files of it."""

import hashlib
import json
import struct

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

import tightdp as dp
from tightdp.cli import main
from tightdp.statement.parameters import (
    hash_safetensors_for_statement,
    hash_statement_parameters_of_state_dict,
    hash_statement_torch_file,
)
from tightdp.torch import make_private


def state():
    return {
        "b.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
        "a": torch.tensor(True),
        "steps": torch.tensor([3], dtype=torch.int64),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "none": torch.empty(0, 4),
    }


def safetensors(arrays, gap=0, **more):
    """A file of the format, written by what its page says: arrays are (dtype, shape, bytes) by their names."""
    header, data = {**more}, b""
    for name, (dtype, shape, raw) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data + b"\0" * gap


ARRAYS = {
    "b.weight": ("F32", [3, 2], np.array([[0, 3], [1, 4], [2, 5]], "<f4").tobytes()),
    "a": ("BOOL", [], b"\1"),
    "steps": ("I64", [1], struct.pack("<q", 3)),
    "half": ("BF16", [2], struct.pack("<HH", 0x3FC0, 0xC000)),
    "none": ("F32", [0, 4], b""),
}


def test_the_hash_is_what_its_page_says(tmp_path):
    found = hashlib.sha256()
    for name in sorted(ARRAYS):
        dtype, shape, raw = ARRAYS[name]
        found.update(json.dumps([name, dtype, shape], separators=(",", ":")).encode() + b"\n" + raw)
    expected = f"sha256:{found.hexdigest()}"
    torch.save(state(), tmp_path / "w.pt")
    (tmp_path / "w.safetensors").write_bytes(safetensors(ARRAYS, __metadata__={"format": "pt"}))
    assert hash_statement_parameters_of_state_dict(state()) == hash_statement_torch_file(tmp_path / "w.pt") == expected
    assert hash_safetensors_for_statement(tmp_path / "w.safetensors") == expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 3) + b"NaN",
        safetensors(ARRAYS, gap=1),
        safetensors(ARRAYS)[:-1],
        safetensors({**ARRAYS, "x": ("F32", [2], b"1234")}),
        safetensors({**ARRAYS, "x": ("F33", [1], b"1234")}),
        safetensors({**ARRAYS, "x": ("F32", [-1, -1], b"1234")}),
        safetensors({**ARRAYS, "x": ("F32", [True], b"1234")}),
        safetensors({**ARRAYS, "x": (3, [1], b"1234")}),
        safetensors(ARRAYS, more={"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}),
        safetensors(ARRAYS, more={"dtype": "U8", "shape": [1], "data_offsets": [0, 1], "x": 1}),
        safetensors(ARRAYS, more=7),
    ],
)
def test_files_that_are_no_safetensors(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"w\.safetensors: "):
        hash_safetensors_for_statement(path)


def test_files_that_are_no_state(tmp_path):
    class Code:
        def __reduce__(self):
            return print, ("code of the file",)

    for content in ({"model": {"w": torch.zeros(1)}}, [torch.zeros(1)], {}, {"code": Code()}, {3: torch.zeros(1)}):
        torch.save(content, tmp_path / "w.pt")
        with pytest.raises(ValueError, match=r"w\.pt: (must be a state_dict|cannot be read)"):
            hash_statement_torch_file(tmp_path / "w.pt")
    torch.save({"w": torch.empty(3, device="meta")}, tmp_path / "w.pt")  # a tensor without numbers
    with pytest.raises(ValueError, match=r"w\.pt: "):
        hash_statement_torch_file(tmp_path / "w.pt")
    (tmp_path / "w.pt").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match="cannot be read by torch"):
        hash_statement_torch_file(tmp_path / "w.pt")


def loss(model, batch):
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y, reduction="none")


def test_a_run_states_what_it_released(tmp_path, capsys):
    """The page of a run can be told to be about a file of its parameters."""
    torch.manual_seed(0)
    records = torch.utils.data.TensorDataset(torch.randn(60, 3), torch.randint(0, 2, (60,)))
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings = {"epsilon": 3.0, "delta": 1e-5, "batch_size": 20, "epochs": 1, "max_norm": 1.0, "public_size": 60}
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="people of 2030")
    run = make_private(model, optimizer, records, ledger=ledger, **settings).fit(loss)
    statement = run.statement_
    assert (
        statement.parameters == hash_statement_parameters_of_state_dict(model.state_dict())
        and statement.dataset == "people of 2030"
    )
    assert "Arithmetic is idealised" not in " ".join(statement.warnings)
    assert any("Gradients are idealised" in each for each in statement.warnings)
    statement.save(tmp_path / "s.html")
    torch.save(model.state_dict(), tmp_path / "w.pt")
    arrays = {name: ("F32", list(p.shape), p.detach().numpy().tobytes()) for name, p in model.state_dict().items()}
    (tmp_path / "w.safetensors").write_bytes(safetensors(arrays))
    for name in ("w.pt", "w.safetensors"):
        assert main(["verify", str(tmp_path / "s.html"), "--model", str(tmp_path / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert "parameters" in found["compared"] and "parameters" not in found["no file can show"]
    with torch.no_grad():
        model.bias[0] += 1.0
    torch.save(model.state_dict(), tmp_path / "w.pt")
    assert main(["verify", str(tmp_path / "s.html"), "--model", str(tmp_path / "w.pt")]) == 2
    assert "is about sha256:" in capsys.readouterr().err
