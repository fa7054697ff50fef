"""Edits of the plain values of a file: each value of another type or another one, each entry gone, new or repeated."""

import copy
import json
from typing import Any, NamedTuple


class Edit(NamedTuple):
    """One edit of a file's values."""

    place: tuple
    """The names and numbers that lead to what was edited."""
    plain: Any
    """All values, edited."""

    @property
    def entry(self):
        """The first entry on the way there."""
        return str(self.place[0])


def list_leaves(plain, path=()):
    """Yields the places of all values that are no objects and no lists, and of empty ones."""
    if isinstance(plain, (dict, list)) and plain:
        for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield from list_leaves(value, (*path, key))
    else:
        yield path


def list_places(plain, path=()):
    """Yields the places of all values, those that hold others included."""
    yield path
    if isinstance(plain, (dict, list)):
        for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield from list_places(value, (*path, key))


def list_changes(value):
    """Returns values of other types, and another one of its own."""
    others = [None, True, [], {}, [[1.0]], {"type": "Gaussian"}, "x", -3, 10**350]
    moved = {bool: lambda: not value, float: lambda: 2 * value + 1, int: lambda: value + 1, str: lambda: value + "!"}
    return [other for other in others if other != value] + ([moved[type(value)]()] if type(value) in moved else [])


def edited(plain, path, value):
    """Returns the plain values with another one at that place."""
    plain = copy.deepcopy(plain)
    find_holder(plain, path)[path[-1]] = value
    return plain


def find_holder(plain, path):
    """Returns the object or list that holds what is at that place."""
    for name in path[:-1]:
        plain = plain[name]
    return plain


def list_edits(plain):
    """Yields every edit: each value, leaf or not, becomes another, each entry goes, and each object gets one more."""
    for place in list_places(plain):
        if place:
            value = find_holder(plain, place)[place[-1]]
            for other in list_changes(value):
                yield Edit(place, edited(plain, place, other))
            if isinstance(place[-1], str):
                fewer = copy.deepcopy(plain)
                del find_holder(fewer, place)[place[-1]]
                yield Edit(place, fewer)
        if isinstance(value if place else plain, dict):
            yield Edit((*place, "approved"), edited(plain, (*place, "approved"), "by the board"))


def list_texts(plain):
    """Returns texts that no reader may take for JSON of ours, with what is said of them: too much to be parsed, numbers
    that JSON lacks, and an entry that is given twice."""
    text = json.dumps(plain)
    first = json.dumps(next(iter(plain)))
    texts = [
        ("", "JSON"),
        ("[" * 10**6, "nested|values"),
        ("[" + "1," * 2**21 + "1]", "at most 2,097,152 values"),
        ("[" + "9" * 10**6 + "]", "at most 400 digits"),
        ('{"a": NaN}', "NaN is no number"),
        (text.replace(first, f"{first}: 1, {first}", 1), "must be given once"),
    ]
    return [*((each.encode(), words) for each, words in texts), (b"\xff" + text.encode(), "JSON")]


def is_same(one, other):
    """Whether plain values are the same, where a tuple is a list, and a truth value is no number."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return isinstance(other, (list, tuple)) and len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
