"""CSV files as they come: compressed, with other delimiters, in other encodings."""

import csv
import gzip
import io

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.records.sources.rows import Rows, TextFormat

CELLS = [["name", "größe"], ["Ana", "1"], ["Zoë, junior", "2"], ['"quoted"', " 3 "]]


def text(delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(CELLS)
    return out.getvalue()


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "cp1252"])
def test_however_it_is_written(tmp_path, encoding, delimiter, compress):
    file = tmp_path / "data.any"
    file.write_bytes(compress(text(delimiter).encode(encoding)))
    read = Rows.read(file, TextFormat(delimiter, encoding))
    assert read.columns == {"name": ["Ana", "Zoë, junior", '"quoted"'], "größe": ["1", "2", "3"]} and len(read) == 3
    assert read.read_source_numbers("größe", allow_missing=False).tolist() == [1, 2, 3]


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", " ", "é"])
def test_delimiters(delimiter):
    if delimiter == "é":
        TextFormat(delimiter)
    else:
        with pytest.raises(ValueError, match=r"^--delimiter .* must be one character"):
            TextFormat(delimiter)


@pytest.mark.parametrize("encoding", ["", "klingon", "base64", "hex", "a\0b", "é"])
def test_encodings(encoding):
    with pytest.raises(ValueError, match=r"^--encoding .*: must name an encoding"):
        TextFormat(encoding=encoding)


@pytest.mark.parametrize("keep", [3, 12, 40, -1, -6])
def test_a_compressed_file_that_is_cut_short(tmp_path, keep):
    file = tmp_path / "data.csv.gz"
    file.write_bytes(gzip.compress(text(",").encode() * 20)[:keep])
    with pytest.raises(ValueError, match=r"is compressed and damaged|the file is empty") as seen:
        Rows.read(file)
    assert str(file) in str(seen.value)


def test_a_compressed_file_with_a_wrong_byte(tmp_path):
    whole = bytearray(gzip.compress(text(",").encode() * 20))
    whole[30] ^= 0x55
    file = tmp_path / "data.csv.gz"
    file.write_bytes(whole)
    with pytest.raises(ValueError, match=r"data\.csv\.gz"):
        Rows.read(file)


def test_another_encoding_is_said(tmp_path):
    file = tmp_path / "data.csv"
    file.write_bytes(text(",").encode("latin-1"))
    with pytest.raises(ValueError, match=r"must be a text file in UTF-8, and is not \(--encoding\)"):
        Rows.read(file)


@pytest.mark.parametrize("first", ["39, Jane Doe,Private", "39,5,Jane Doe,5", "39 5 Jane 1 ", "Jane;39", "39"])
def test_a_file_without_names_is_said_and_no_record_is_quoted(tmp_path, first, capsys):
    file = tmp_path / "data.csv"
    file.write_text(f"{first}\n{first}\n")
    ask = ["--label", "income", "--classes", "a,b", "--epsilon", "1", "--delta", "1e-6"]
    assert main(["train", str(file), *ask]) == 2
    err = capsys.readouterr().err.replace(str(file), "")
    assert "as the first line holds numbers: it must hold the names" in err and "39" not in err and "Jane" not in err


def test_another_delimiter_is_hinted_at(tmp_path, capsys):
    file = tmp_path / "data.csv"
    ask = ["--label", "c", "--classes", "u,v", "--epsilon", "1", "--delta", "1e-6"]
    for text in ("a;b;c\n1;2;u\n", "a;b;c\n1,5;2;u\n"):
        file.write_text(text)
        assert main(["train", str(file), *ask]) == 2
        assert "(see --delimiter)" in capsys.readouterr().err


def test_a_mapping_is_a_table():
    read = Rows.from_source_table({"x": [1, 2.5, None], "y": np.array(["a", " b ", ""]), "z": [0]}, ["x", "y"])
    assert read.columns == {"x": ["1", "2.5", ""], "y": ["a", "b", ""]}
    with pytest.raises(ValueError, match=r"^table must have the columns x, y: it lacks y"):
        Rows.from_source_table({"x": [1]}, ["x", "y"])
    with pytest.raises(ValueError, match="columns of one length"):
        Rows.from_source_table({"x": [1], "y": [1, 2]}, ["x", "y"])


def test_all_problems_of_a_table_at_once(tmp_path, capsys):
    file = tmp_path / "data.csv"
    file.write_text("a,b,c,d,y\n1,x,9,2,p\n?,0.5,0.5,z,q\n")
    train = ["train", str(file), "--label", "y", "--classes", "p,q", "--delta", "1e-5", "--epsilon", "1"]
    assert main(train) == 2
    err = capsys.readouterr().err
    assert "record 1, column b: not a number" in err and "record 2, column d: not a number" in err
    assert "column 'c' goes beyond [0, 1]" in err and len(err.splitlines()) == 1
    assert main([*train, "--drop", "b,d", "--drop", "c"]) == 2
    assert "record 2 has no a; see --allow-missing" in capsys.readouterr().err
    assert main([*train, "--drop", "k,l", "--categories", "m=u", "--bounds", "b=0:1", "--drop", "b"]) == 2
    err = capsys.readouterr().err
    assert all(f"no column '{name}'" in err for name in "klm")
    assert main([*train, "--drop", "b,c,d", "--bounds", "b=0:1"]) == 2
    assert "column 'b' is both bounded and dropped" in capsys.readouterr().err


def test_an_error_lists_twenty_problems_and_counts_the_others(tmp_path, capsys):
    file = tmp_path / "data.csv"
    names = [f"c{k}" for k in range(60)]
    file.write_text(",".join([*names, "y"]) + "\n" + ",".join(["7"] * 60 + ["p"]) + "\n")
    assert main(["train", str(file), "--label", "y", "--classes", "p,q", "--delta", "1e-5", "--epsilon", "1"]) == 2
    err = capsys.readouterr().err
    assert err.count("goes beyond") == 20 and "and 40 more" in err


def test_markers_of_missing_numbers(tmp_path):
    file = tmp_path / "data.csv"
    cells = ["7", "", "?", "NA", "N/A", "#N/A", "n/a", "-", ".", "<NA>", "null", "NaN", "-3", ".5"]
    file.write_text("x,y\n" + "\n".join(f"{cell},0" for cell in cells))
    numbers = Rows.read(file).read_source_numbers("x", allow_missing=True)
    np.testing.assert_array_equal(numbers, [7, *[np.nan] * 11, -3, 0.5])


def test_further_markers_are_named(tmp_path, capsys):
    file = tmp_path / "data.csv"
    file.write_text("x,sex,y\n" + "".join(f"{(-999, k)[k % 3 > 0]},{'fmx'[k % 3]},{'ab'[k % 2]}\n" for k in range(60)))
    ask = ["--label", "y", "--classes", "a,b", "--categories", "sex=f,m", "--bounds", "x=0:60", "--delta", "1e-5"]
    ask += ["--epsilon", "1", "--missing", "-999", "--missing", "x,z"]
    assert main(["train", str(file), *ask]) == 2
    assert "record 1 has no x; see --allow-missing, and train --fill" in capsys.readouterr().err
    read = Rows.read(file, TextFormat(missing=frozenset(["-999", "x"])))
    assert read.columns["sex"][:3] == ["f", "m", ""]
    assert np.isnan(read.read_source_numbers("x", allow_missing=True)).sum() == 20
    assert main(["train", str(file), *ask, "--fill", "x=30"]) == 0
    model = str(file.with_suffix(".model.json"))
    assert main(["predict", model, str(file), "--missing", "-999"]) == 0
    capsys.readouterr()


def test_decimal_commas(tmp_path, capsys):
    file = tmp_path / "data.csv"
    lines = [f"{k % 9},{k % 10}5;{'1,5' if k % 2 else '2,5'};{'ab'[k % 2]}" for k in range(60)]
    file.write_text("\n".join(["x;size;y", *lines]))
    written = ["--delimiter", ";", "--decimal", ","]
    ask = ["--label", "y", "--classes", "a,b", "--bounds", "x=0:9.95", "--categories", 'size="1,5","2,5"']
    assert main(["train", str(file), *ask, "--epsilon", "1", "--delta", "1e-5", *written, "--seed", "1"]) == 0
    model = file.with_suffix(".model.json")
    capsys.readouterr()
    assert main(["predict", str(model), str(file), *written, "--probabilities"]) == 0
    with_commas = capsys.readouterr().out
    assert model.read_text().count('"1,5"') == 1  # a category stays what it is
    file.write_text("\n".join(["x|size|y", *(f"{k % 9}.{k % 10}5|{'21'[k % 2]},5|{'ab'[k % 2]}" for k in range(60))]))
    assert main(["predict", str(model), str(file), "--delimiter", "|", "--probabilities"]) == 0
    assert capsys.readouterr().out == with_commas
    assert main(["train", str(file), *ask, "--epsilon", "1", "--delta", "1e-5", "--force", "--decimal", "x"]) == 2
    assert "--decimal 'x': must be a point or a comma" in capsys.readouterr().err


@pytest.mark.parametrize("cell", ["1.234,5", "1.5", "1,2,3", "1_0,5"])
def test_a_point_beside_decimal_commas_is_no_number(cell):
    with pytest.raises(ValueError, match=r"record 1, column x: not a number .*--decimal"):
        Rows("data.csv", {"x": [cell]}, ",").read_source_numbers("x", allow_missing=False)


def test_a_column_without_a_name_is_left_out_or_declared(tmp_path, capsys):
    """pandas writes its index so."""
    file = tmp_path / "data.csv"
    file.write_text(",x,y\n" + "".join(f"{k},0.{k % 10},{'ab'[k % 2]}\n" for k in range(60)))
    train = ["train", str(file), "--label", "y", "--classes", "a,b", "--delta", "1e-5", "--epsilon", "1", "--force"]
    assert main(train) == 2
    assert 'a column has no name, as the index that pandas writes: leave it out, --drop ""' in capsys.readouterr().err
    model = file.with_suffix(".model.json")
    for declared, features in ((["--drop", ""], ["x"]), (["--bounds", "=0:60"], ["", "x"])):
        assert main([*train, *declared]) == 0
        assert dp.load(model).features == features
    capsys.readouterr()


def test_a_folder_is_no_file_of_records(tmp_path, capsys):
    train = ["train", str(tmp_path), "--label", "y", "--classes", "a,b", "--delta", "1e-5", "--epsilon", "1"]
    assert main([*train, "--out", str(tmp_path / "m.json")]) == 2
    assert "must be one file of records, and is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("decimal", [".", ","])
def test_a_number_is_missing_with_zeros_after_its_decimal_mark(tmp_path, decimal):
    cells = [
        f"-999{decimal}0",
        "-999",
        f"-999{decimal}00",
        f"-999{decimal}",
        f"-999{decimal}5",
        f"v{decimal}0",
        "-9990",
    ]
    (tmp_path / "t.csv").write_text("\n".join(["x", *cells]))
    found = Rows.read(tmp_path / "t.csv", TextFormat(";", decimal=decimal, missing=frozenset({"-999", "v"})))
    assert found.get_source_column("x") == ["", "", "", *cells[3:]]
