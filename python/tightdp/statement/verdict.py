"""The verdict on a file. It says for each entry whether the entry was recomputed, compared, or cannot be checked."""

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
    "certificate": "is about the account, delta, neighbors and both ends of epsilon, or is null",
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


class StatementVerdict(NamedTuple):
    """The findings on the entries of a file, by an entry's place in the file.

    An entry may be in ``compared`` and in ``unseen``. It then agrees with the other entries, but no file can show that
    it is true.
    """

    recomputed: dict[str, str]
    """Entries that were computed again or proved, and entries from which epsilon was computed. The text of an entry
    says which of these holds."""
    compared: dict[str, str]
    """Entries that were compared, and the result of the comparison."""
    unseen: dict[str, str]
    """Entries about which no file can show everything, and the thing that cannot be checked."""

    def place_under(self, name: str) -> StatementVerdict:
        """Returns this verdict with ``name`` before each entry, for a file that holds the statement under this name."""
        return StatementVerdict(*({f"{name}.{entry}": how for entry, how in part.items()} for part in self))

    def record_comparison(self, entry: str, how: str) -> None:
        """Moves an entry from ``unseen`` to ``compared``. ``how`` is the result of the comparison."""
        self.unseen.pop(entry, None)
        self.compared[entry] = how


def build_statement_verdict(statement: Statement) -> StatementVerdict:
    """Returns the verdict on a statement that was read without an error, which means that all checks succeeded.

    If another version wrote the statement, the entries ``WORDS``, which repeat values in words, count as unseen. They
    were not compared, because another version may use other words.
    """
    compared, unseen = dict(COMPARED), dict(UNSEEN)
    if statement.version != __version__:
        for name in WORDS:
            unseen[name] = f"whether version {statement.version} wrote it: the first line is this version's"
            del compared[name]
    return StatementVerdict(dict(RECOMPUTED), compared, unseen)
