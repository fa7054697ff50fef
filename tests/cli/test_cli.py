import argparse
import csv
import io
import json
import math
import shlex
import subprocess
import sys

import pytest

import tightdp as dp
from tightdp import cli
from tightdp.cli.accounting_commands.composition import print_bound_of_command
from tightdp.cli.accounting_commands.expression import parse_composition_text
from tightdp.cli.accounting_commands.number import parse_integer_argument

TRAINING = ["--noise-multiplier", "1.1", "--sampling-probability", "0.0042666666666666667", "--steps", "14000"]
RUN = dp.PoissonSampled(dp.Gaussian(1.1), 256 / 60000) * 14000


def output(capsys, *arguments):
    assert cli.main([str(a) for a in arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_epsilon_of_mnist_training(capsys):
    plain = json.loads(output(capsys, "epsilon", *TRAINING, "--delta", 1e-5, "--json"))
    assert plain["lower"] <= 2.3758376269734 <= plain["upper"]
    assert plain["delta"] == 1e-5 and plain["engine"] == "contour" and plain["error_budget"]
    assert parse_composition_text(plain["composition"]) == RUN


@pytest.mark.parametrize("module", ["tightdp", "tightdp.cli"])
def test_the_command_of_a_module(module):
    command = [sys.executable, "-m", module, "epsilon", *TRAINING, "--delta", "1e-5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["upper"] == RUN.epsilon(1e-5).upper


def test_printed_digits_are_rounded_outward(capsys):
    lines = output(capsys, "epsilon", *TRAINING, "--delta", 1e-5).splitlines()
    b = RUN.epsilon(1e-5)
    assert float(lines[0].split()[2]) >= b.upper and float(lines[1].split()[2]) <= b.lower
    assert "aliasing" in "".join(lines)
    lines = output(capsys, "delta", *TRAINING, "--epsilon", 8.0).splitlines()
    assert 0 < float(lines[1].split()[2]) <= float(lines[0].split()[2]) < 1e-20


def test_delta_and_neighbors(capsys):
    plain = json.loads(output(capsys, "delta", *TRAINING, "--epsilon", 2, "--json", "--neighbors", "add"))
    assert plain["upper"] == RUN.delta(2.0, neighbors="add").upper and plain["epsilon"] == 2.0


def test_any_composition(capsys):
    text = "PoissonSampled(Gaussian(1.0), sampling_probability=0.01) * 1000 + 2 * ApproximateDP(0.1, delta=1e-9)"
    plain = json.loads(output(capsys, "epsilon", "--composition", text, "--delta", 1e-5, "--json", "--engine", "renyi"))
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000 + dp.ApproximateDP(0.1, 1e-9) * 2
    assert plain["upper"] == run.epsilon(1e-5, engine="renyi").upper


def test_an_infinite_bound_is_said_and_null_in_json(capsys):
    arguments = ["epsilon", "--composition", "ApproximateDP(1.0, 1e-3)", "--delta", 1e-5]
    assert json.loads(output(capsys, *arguments, "--json"))["upper"] is None
    assert "epsilon is infinite" in output(capsys, *arguments)


def test_an_upper_end_that_is_not_known_is_said(capsys):
    arguments = argparse.Namespace(json=False, neighbors="add")
    print_bound_of_command(arguments, dp.Bound(1.0, math.inf, "grid", {}), "epsilon", {"delta": 0.1}, RUN)
    assert "No finite upper bound" in capsys.readouterr().out


def test_a_number_that_is_too_small_for_a_double_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["epsilon", "--noise-multiplier", "1", "--delta", "1e-400"])
    assert "--delta: expected a number" in capsys.readouterr().err
    assert "epsilon is infinite" in output(capsys, "epsilon", "--noise-multiplier", 1, "--delta", "0e0")


def test_calibrate(capsys):
    arguments = ["calibrate", "--epsilon", 2, "--delta", 1e-5, "--sampling-probability", 0.01, "--steps", 1000]
    plain = json.loads(output(capsys, *arguments, "--json"))
    assert plain["noise_multiplier"] == dp.noise_multiplier(2.0, 1e-5, 0.01, 1000)
    assert 2 - 1e-6 <= plain["lower"] <= plain["upper"] <= 2 == plain["target_epsilon"]
    assert output(capsys, *arguments).startswith(f"noise multiplier = {dp.format_up(plain['noise_multiplier'])}\n")


def test_info(capsys):
    plain = json.loads(output(capsys, "info", "--json"))
    assert plain["version"] == dp.__version__ and "contour" in plain["engines"] and plain["cuda_devices"] >= 0
    shown = output(capsys, "info")
    assert (
        dp.__version__ in shown and f"cuda            {dp.cuda.status()}" in shown and plain["cuda"] == dp.cuda.status()
    )


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(capsys, tmp_path, suffix):
    file = tmp_path / f"curve.{suffix}"
    arguments = ["plot", "--noise-multiplier", 2.0, "--out", file, "--points", 21]
    assert str(file) in output(capsys, *arguments)
    assert file.stat().st_size > 5000


@pytest.mark.slow
def test_plot_of_a_wide_band(tmp_path, capsys):
    file = tmp_path / "wide.png"
    output(capsys, "plot", "--composition", "ZCDP(0.01)", "--out", file, "--points", 11, "--json")
    assert file.exists()


@pytest.mark.slow
def test_plot_of_several_runs(tmp_path, capsys):
    from tightdp import plots

    file, runs = tmp_path / "two.svg", {"one": dp.Gaussian(2.0), "two": dp.ZCDP(0.1)}
    output(capsys, "plot", "--noise-multiplier", 2, "--and", "ZCDP(0.1)", "--label", "one", "--label", "two", "--out",
           file, "--points", 11)  # fmt: skip
    assert file.stat().st_size > 5000
    seen = []
    figure = plots.privacy(runs, points=11, progress=lambda done, total: seen.append((done, total)))
    left, right = figure.axes
    assert seen == [(i, len(seen)) for i in range(1, len(seen) + 1)]
    # Both runs have their line in each panel: that of the bound which protects.
    for axes in (left, right):
        labels = [line.get_label() for line in axes.lines if line.get_label() != "guessing"]
        assert labels == ["one", "two (shaded: up to the other bound)"]
    line = left.lines[1]
    epsilon, delta = line.get_data()
    assert delta[5] == pytest.approx(dp.ZCDP(0.1).delta(float(epsilon[5])).upper)


def test_fractions(capsys):
    fraction = ["--noise-multiplier", "11/10", "--sampling-probability", "256/60000", "--steps", "14000"]
    plain = json.loads(output(capsys, "epsilon", *fraction, "--delta", "1/100000", "--json"))
    assert plain["upper"] == RUN.epsilon(1e-5).upper
    assert parse_composition_text("PoissonSampled(Gaussian(1.1), 256/60000) * 14000") == RUN


def test_compositions_of_lists_and_of_runs():
    assert (
        parse_composition_text("MixtureOfGaussians(1.0, (0.0, 1.0), [.5, .5])")
        == dp.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)) * 1
    )
    assert (
        parse_composition_text("RepeatAndSelect(Gaussian(2.0) * 3, 5, 'poisson')")
        == dp.RepeatAndSelect(dp.Gaussian(2.0) * 3, 5, "poisson") * 1
    )
    banded = parse_composition_text("banded_factorization(1.0, bands=2, steps=10, sampling_probability=1/10)")
    assert banded == dp.banded_factorization(1.0, bands=2, steps=10, sampling_probability=0.1)


def test_whole_numbers():
    assert (
        parse_integer_argument("20/2"),
        parse_integer_argument("1e4"),
        parse_integer_argument("9007199254740993"),
    ) == (
        10,
        10000,
        9007199254740993,
    )


def test_output_that_is_closed():
    command = [sys.executable, "-m", "tightdp.cli", "epsilon", "--noise-multiplier", "1", "--delta", "1e-5"]
    done = subprocess.run(f"{shlex.join(command)} >&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_sweep(capsys, tmp_path):
    arguments = [
        "sweep",
        "--noise-multiplier",
        ".6:.8:.1",
        "--sampling-probability",
        "256/60000",
        "--steps",
        "100,1000",
    ]
    found = rows(output(capsys, *arguments, "--delta", "1e-9:1e-5:x100"))
    assert [float(row["noise_multiplier"]) for row in found[::6]] == [0.6, 0.7, 0.8] and len(found) == 18
    for row in found[::5]:
        run = dp.PoissonSampled(dp.Gaussian(float(row["noise_multiplier"])), 256 / 60000) * int(row["steps"])
        bound = run.epsilon(float(row["delta"]))
        assert (float(row["epsilon_lower"]), float(row["epsilon_upper"])) == (bound.lower, bound.upper)
    file = tmp_path / "table.csv"
    assert output(capsys, "sweep", "--noise-multiplier", 2, "--epsilon", "0.5,1", "--out", file) == ""
    assert [float(row["delta_upper"]) for row in rows(file.read_text())] == [
        dp.Gaussian(2.0).delta(epsilon).upper for epsilon in (0.5, 1.0)
    ]


def test_sweep_shows_how_far_it_is(capsys):
    assert cli.main(["sweep", "--noise-multiplier", "1:3:1", "--delta", "1e-5", "--progress"]) == 0
    out, err = capsys.readouterr()
    assert len(rows(out)) == 3 and "3/3 rows" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_every_command_and_option(capsys, shell):
    script = output(capsys, "completion", shell)
    assert all(command in script for command in cli.COMMANDS) and "sampling-probability" in script


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_help(capsys, command):
    with pytest.raises(SystemExit) as stop:
        cli.main([*command.split(), "--help"])
    assert stop.value.code == 0 and "usage: tightdp" in capsys.readouterr().out


BAD = [
    [],
    ["nonsense"],
    ["epsilon", "--delta", "1e-5"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "x"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "nan"],
    ["epsilon", "--noise-multiplier", "-1", "--delta", "1e-5"],
    ["epsilon", "--noise-multiplier", "inf", "--delta", "1e-5"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--sampling-probability", "1.5"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "0"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "1.5"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--engine", "exact"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--width", "0"],
    ["epsilon", "--composition", "Gaussian(1.0)", "--steps", "3", "--delta", "1e-5"],
    ["epsilon", "--composition", "__import__('os').getcwd()", "--delta", "1e-5"],
    ["epsilon", "--composition", "Gaussian(1.0", "--delta", "1e-5"],
    ["epsilon", "--composition", "3", "--delta", "1e-5"],
    ["epsilon", "--composition", "Gaussian(sigma=1.0)", "--delta", "1e-5"],
    ["epsilon", "--composition", "Gaussian(1.0) * 0", "--delta", "1e-5"],
    ["epsilon", "--composition", "FixedSizeSampled(Gaussian(1.0), 1, 10)", "--delta", "1e-5"],
    ["epsilon", "--composition", " + ".join(["Gaussian(1.0)"] * 3000), "--delta", "1e-5"],
    ["delta", "--noise-multiplier", "1", "--epsilon", "inf"],
    ["calibrate", "--epsilon", "0", "--delta", "1e-5"],
    ["epsilon", "--noise-multiplier", "1", "--delta", "1/0"],
    ["epsilon", "--noise-multiplier", "1/2/3", "--delta", "1e-5"],
    ["epsilon", "--composition", "Gaussian(1.0) / 2", "--delta", "1e-5"],
    ["epsilon", "--composition", "Gaussian(1/0)", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1:2", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1:2:0", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "2:1:0.1", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1:2:1e-9", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1:1e999999:x2", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "nan:2:1", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1:2:x1", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "0:2:1", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1", "--steps", "1.5", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1:1000:1", "--steps", "1:1001:1", "--delta", "1e-5"],
    ["sweep", "--noise-multiplier", "1"],
    ["completion", "powershell"],
    ["plot", "--noise-multiplier", "1", "--out", "curve.png", "--and", "ZCDP(1.0)", "--label", "one"],
    ["epsilon", "--composition", "RepeatAndSelect(Gaussian(1.0), 5, 'word')", "--delta", "1e-5"],
    ["epsilon", "--composition", "(Gaussian(1.0), Gaussian(2.0))", "--delta", "1e-5"],
    ["train", ".", "--delta", "1e-5", "--label", "y", "--classes", "0,1"],
    ["plot", "--noise-multiplier", "1", "--out", "curve.unknown"],
    ["plot", "--noise-multiplier", "1", "--out", "/nonexistent/curve.png", "--points", "3"],
    ["plot", "--noise-multiplier", "1", "--out", "curve.png", "--points", "1000000000"],
]


@pytest.mark.parametrize("arguments", BAD, ids=lambda a: " ".join(a)[:80])
def test_bad_input_is_one_clear_line_and_exit_code_2(capsys, arguments):
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and err.count("\n") == 1 and err.startswith("tightdp") and "error: " in err


def test_steps_are_called_steps(capsys):
    assert cli.main(["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "0"]) == 2
    assert "steps must be an integer >= 1" in capsys.readouterr().err


def test_plot_of_what_has_no_finite_epsilon(tmp_path, capsys):
    assert cli.main(["plot", "--composition", "ApproximateDP(1.0, 1.0)", "--out", str(tmp_path / "a.png")]) == 0
    assert capsys.readouterr().err == ""
