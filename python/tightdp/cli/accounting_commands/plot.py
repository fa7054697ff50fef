"""tightdp plot: the privacy profile and the trade-off curve, each with its certified band, as an image.

Several runs are drawn over each other: --composition 'Gaussian(1.0)' --and 'Laplace(2.0)'.
"""

from __future__ import annotations

import argparse
import json
import sys

from ... import plots
from .. import command_files
from ..progress import ProgressBar
from . import composition as shared
from .expression import parse_composition_text
from .number import parse_integer_argument, parse_real_argument


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    shared.add_composition_arguments(p)
    p.add_argument(
        "--and",
        dest="others",
        metavar="EXPRESSION",
        action="append",
        default=[],
        help="a further composition, drawn over the first; may be given several times (default: none)",
    )
    p.add_argument("--label", action="append", default=[], help="name of each run, in order (default: its mechanisms)")
    p.add_argument("--progress", action="store_true", help="show a progress bar even where there is no terminal")
    p.add_argument(
        "--out",
        type=command_files.read_output_path,
        required=True,
        help="image file of a kind that matplotlib writes; an older figure is replaced",
    )
    p.add_argument(
        "--least-delta", type=parse_real_argument, default=1e-12, help="least delta drawn (default: %(default)s)"
    )
    p.add_argument(
        "--points",
        type=parse_integer_argument,
        default=plots.POINTS,
        help="points of each curve (default: %(default)s)",
    )
    p.add_argument("--dark", action="store_true", help="draw for a dark page; the background is always transparent")
    shared.add_bound_arguments(p)
    p.set_defaults(width=plots.WIDTH)


def run_command(arguments: argparse.Namespace) -> int:
    """Draws the curves of all runs, and writes the image."""
    runs = [shared.build_composition_from_arguments(arguments), *map(parse_composition_text, arguments.others)]
    labels = arguments.label or ([""] if len(runs) == 1 else [plots.write_caption(run) for run in runs])
    if len(labels) != len(runs) or len(set(labels)) != len(labels):
        raise ValueError(f"--label must be given once for each of the {len(runs)} runs, with different names")
    suffixes = plots.list_suffixes()
    if arguments.out.suffix[1:] not in suffixes:
        raise ValueError(f"--out {arguments.out}: must end in .{', .'.join(suffixes)}")
    command_files.check_command_output(arguments.out, None, writes=command_files.FIGURE)
    progress = ProgressBar(arguments.progress or (sys.stderr.isatty() and not arguments.json), unit="pieces")
    figure = plots.privacy(
        dict(zip(labels, runs, strict=True)),
        least_delta=arguments.least_delta,
        points=arguments.points,
        dark=arguments.dark,
        progress=progress,
        **shared.get_question_arguments(arguments),
    )
    progress.close()
    figure.savefig(arguments.out)
    print(json.dumps({"file": str(arguments.out)}) if arguments.json else f"wrote {arguments.out}")
    return 0
