"""Figures: their colours can be told apart, and an engine whose budget is spent leaves a band, not an error."""

import itertools

import numpy as np
import pytest
from effort import bounded

import tightdp as dp
from tightdp import cli, plots

pytest.importorskip("matplotlib")

SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopes": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopes": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""Of linear sRGB (Machado, Oliveira and Fernandes 2009, severity 1)."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
FAR = 10.0
"""In CIELAB, where 2.3 is a difference that is just noticed."""


def lab(colour, seen):
    sharp = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(sharp <= 0.04045, sharp / 12.92, ((sharp + 0.055) / 1.055) ** 2.4)
    ratio = XYZ @ np.clip(np.asarray(seen) @ linear, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


EIGHT = {f"run {k}": dp.Gaussian(0.5 * k) for k in range(1, 9)}


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("scheme", [plots._LIGHT, plots._DARK], ids=["light", "dark"])
def test_colours_can_be_told_apart(eyes, scheme):
    for one, other in itertools.combinations(scheme.runs, 2):
        assert np.linalg.norm(lab(one, SEEN_BY[eyes]) - lab(other, SEEN_BY[eyes])) > FAR, (one, other)


def test_eight_runs_can_be_told_apart_without_colour():
    for axes in plots.privacy(EIGHT, points=5).axes:
        lines = [line for line in axes.lines if line.get_label() != "guessing"]
        dashes = [line._dash_pattern for line in lines]  # what is drawn; a name such as "-" is a solid line
        looks = {(str(dash), line.get_marker()) for dash, line in zip(dashes, lines, strict=True)}
        assert len(looks) == len({line.get_marker() for line in lines}) == 8 and len(set(map(str, dashes))) == 4


def test_legends_cover_no_curve_and_shorten_labels():
    """They stand outside the axes, whether of a figure of ours or of the caller's axes."""
    from matplotlib.figure import Figure

    long = {f"run {k}, {dp.PoissonSampled(dp.Gaussian(k), 0.01) * 1000!r}": dp.Gaussian(k) for k in (1.0, 2.0, 3.0)}
    ours = plots.privacy(long, points=5)
    (legend,) = ours.legends
    theirs = Figure(layout="constrained")
    plots.tradeoff(long, theirs.subplots(), points=5)
    for figure, found in ((ours, legend), (theirs, theirs.axes[0].get_legend())):
        figure.canvas.draw()
        for axes in figure.axes:
            assert not axes.bbox.overlaps(found.get_window_extent())
        assert found.get_window_extent().x0 >= 0 and found.get_window_extent().x1 <= figure.bbox.x1
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(set(texts)) == 4 and max(map(len, texts)) <= plots._LONGEST_LABEL


def test_a_figure_for_a_dark_page_has_light_texts_and_no_ground():
    figure = (dp.Gaussian(2.0) * 3).plot(points=5, dark=True)
    assert figure.get_facecolor()[3] == 0 and all(axes.get_facecolor()[3] == 0 for axes in figure.axes)
    texts = [text.get_color() for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
    assert {lab(colour, SEEN_BY["all"])[0] > 80 for colour in texts} == {True}
    with pytest.raises(TypeError, match="dark must be True or False"):
        dp.Gaussian(2.0).plot(dark="yes")


def test_figures_of_grids_ask_for_few_digits():
    """The composition in the help of ``tightdp plot`` takes seconds."""
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000 + dp.Laplace(20.0)
    bounded(run.plot, units=8e9)


@pytest.mark.slow
def test_a_slow_engine_draws_what_is_known(tmp_path, capsys):
    """The curves ask for hundreds of deltas, each a composition of its own with this engine: more than a question's
    budget of work allows."""
    run = ["--noise-multiplier", "1.1", "--sampling-probability", "0.00427", "--steps", "14000", "--points", "20"]
    assert cli.main(["plot", *run, "--engine", "prv", "--out", str(tmp_path / "a.png")]) == 0
    assert capsys.readouterr().err == ""


def test_what_an_engine_knows_when_its_budget_is_spent():
    from tightdp import _core

    runs = [("sampled_remove", 1.1, 0.00427, 14000, 0.0)]
    with _core.Budget(1):
        lower, upper, *_ = _core.prv_delta(runs, 1.0, 0.01, 1e-10, 2.0**30)
        assert (lower, upper) == (0.0, 1.0)
        lower, upper, *_ = _core.prv_epsilon(runs, 1e-5, 0.01, 1e-10, 2.0**30)
        assert lower == 0.0 and upper >= dp.epsilon_batch(1.1, 0.00427, 14000, 1e-5)[0]
