"""Whether a file has the entries that this version writes, at every level."""

from __future__ import annotations

from typing import Any


def check_entries(plain: Any, written: Any, within: str = "") -> None:
    """ValueError for entries that this version does not write, and for those that it writes and a file lacks."""
    if isinstance(plain, list) and isinstance(written, list):
        for one, other in zip(plain, written, strict=False):
            check_entries(one, other, within)
    if not (isinstance(plain, dict) and isinstance(written, dict)):
        return
    for names, what in ((plain.keys() - written.keys(), "more"), (written.keys() - plain.keys(), "fewer")):
        if names:
            raise ValueError(
                f"must have the entries that tightdp writes, and has {what}{within}: {', '.join(sorted(names))}"
            )
    for name in written:
        check_entries(plain[name], written[name], f" in {name}")
