"""The verdict on a file: each entry was computed again, was compared, or cannot be checked from a file."""

from __future__ import annotations

from typing import NamedTuple

from .._core import __version__
from .statement import WORDS, Statement

RECOMPUTED = {
    "epsilon": "from the account, at delta and under neighbors",
    "epsilon_lower": "from the account, at delta and under neighbors",
    "delta": "epsilon was computed at it",
    "account": "epsilon was computed of it",
}
_SAID_BY_OTHERS = "is what the other entries say, to the last character"
COMPARED = {
    "tightdp_statement": "is the format that this version reads",
    "neighbors": "are those of the account",
    "taken": "are names in public",
    **dict.fromkeys(WORDS, _SAID_BY_OTHERS),
}
UNSEEN = {
    "subject": "that this is what was released",
    "released": "that this is all that was released, and the account all that was charged",
    "public": "that these facts are public, and that no others were used",
    "taken": "that nothing else was read off the data",
    "size": "that there were so many records",
    "settings": "that the run used them",
    "arithmetic": "that sums and noise were computed so",
    "seeded": "how the noise was drawn",
    "outside": "that nothing else is left out",
    "engine": "that this engine computed it first",
    "ledger": "that this ledger was charged",
    "parameters": "which file has this hash",
    "dataset": "that these are the data",
    "date": "that it was made then",
    "version": "that this version made it",
}


class Verdict(NamedTuple):
    """Findings on each entry of a file, by its place in the file.

    An entry may be in two lists: its words were compared with other entries, and its truth cannot be seen from a file.
    """

    recomputed: dict[str, str]
    compared: dict[str, str]
    unseen: dict[str, str]

    def place_under(self, name: str) -> Verdict:
        """Returns the verdict on a file whose entry ``name`` is this statement."""
        return Verdict(*({f"{name}.{entry}": how for entry, how in part.items()} for part in self))

    def record_comparison(self, entry: str, how: str) -> None:
        """Records that an entry, which no file shows by itself, was compared with another file."""
        self.unseen.pop(entry, None)
        self.compared[entry] = how


def build_verdict(statement: Statement) -> Verdict:
    """Returns the checks that reading this statement has made.

    The words of another version are compared with nothing.
    """
    compared, unseen = dict(COMPARED), dict(UNSEEN)
    if statement.version != __version__:
        for name in WORDS:
            unseen[name] = f"whether version {statement.version} wrote it: the first line is this version's"
            del compared[name]
    return Verdict(dict(RECOMPUTED), compared, unseen)
