"""tightdp plot: the privacy profile and the trade-off curve, each with its certified band, as an image."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from . import composition as shared


def add_arguments(p: argparse.ArgumentParser) -> None:
    shared.add_training(p)
    p.add_argument("--out", type=Path, required=True, help="image file, of a kind that matplotlib writes")
    p.add_argument("--least-delta", type=float, default=1e-12, help="where the profile ends (default: %(default)s)")
    p.add_argument("--points", type=int, default=161, help="of each curve (default: %(default)s)")
    shared.add_options(p)


def run(arguments: argparse.Namespace) -> int:
    """Writes the image."""
    from .. import plots

    run = shared.composition(arguments)
    suffixes = plots.suffixes()
    if arguments.out.suffix[1:] not in suffixes:
        raise ValueError(f"--out {arguments.out}: must end in .{', .'.join(suffixes)}")
    shared.check_writable("--out", arguments.out)
    figure = plots.privacy(run, least_delta=arguments.least_delta, points=arguments.points, **shared.options(arguments))
    figure.savefig(arguments.out)
    print(json.dumps({"file": str(arguments.out)}) if arguments.json else f"wrote {arguments.out}")
    return 0
