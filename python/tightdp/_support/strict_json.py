"""Reads objects from JSON text of a bounded size. Only constructors of known classes build the objects.

A file may come from anybody. Its text is therefore not trusted. Text that is too long or has too many values is refused
before it is parsed. Each value must have the type in the annotation of the constructor's parameter. An error in the
text raises ValueError with the place of the error. In this module, ``plain`` is a value as Python's JSON parser
returned it, and ``name`` is its place in the text.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

from . import _check
from .files import read_file_text

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 2**25
"""Largest size of a file, in bytes: enough for a model of a million weights."""
MOST_VALUES = 2**21
"""Largest number of commas and opening brackets in a text. A text with n such characters has at most n + 1 values. A
value takes some 100 bytes of memory."""
MOST_DIGITS = 400
"""Largest number of digits of an integer. The integer part of a double has at most 309 digits."""
_NUMBERS = (int, float)
_TYPE_NAMES = {float: "a number", int: "an integer", bool: "true or false", str: "text", types.NoneType: "null",
          tuple: "a list", Mapping: "an object"}  # fmt: skip
_JSON_TYPES = {float: _NUMBERS, int: (int,), bool: (bool,), str: (str,), types.NoneType: (types.NoneType,),
          tuple: (list,), Mapping: (dict,)}  # fmt: skip
Build = Callable[[Any, Any, str], Any]
"""Type of a function that builds a value of a class. Its arguments are the class, an object of JSON, and the place of
this object in the file."""
Built = TypeVar("Built")


def read_strict_json_file(path: Path, build_from: Callable[[Any], Built]) -> Built:
    """Returns the object that ``build_from`` makes of the values in a file of JSON.

    Raises ValueError, which names the file, if the file is not valid JSON or ``build_from`` refuses its values. Raises
    OSError if the file cannot be read.
    """
    try:
        text = read_file_text(path, MOST_BYTES)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not JSON: byte {error.start + 1} is not UTF-8") from None
    try:
        return build_from(parse_json(text))
    except ValueError as error:
        raise ValueError(f"{path}: {str(error)[:4000]}") from None


def parse_json(text: str) -> Any:
    """Returns the values of JSON text.

    Raises ValueError for text that is not JSON, is too long or is nested too deeply. NaN and infinities are refused,
    because JSON does not have them. A name that occurs twice in an object is refused too, because JSON readers differ
    in which of the two values they take.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"text must have at most {MOST_BYTES:,} bytes, got {len(text):,}")
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise ValueError(f"text must have at most {MOST_VALUES:,} values")
    try:
        return json.loads(
            text,
            object_pairs_hook=_refuse_repeated_json_names,
            parse_constant=_refuse_json_constant,
            parse_int=_parse_json_integer,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON from line {error.lineno}, column {error.colno} on") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _refuse_repeated_json_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the entries of an object. Raises ValueError if a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice[:50]!r} must be given once")
    return found


def _refuse_json_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _parse_json_integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"numbers must have at most {MOST_DIGITS} digits, got one of {len(text):,}")
    return int(text)


def check_json_format(plain: Any, entry: str, number: int, writer: str) -> None:
    """Raises ValueError unless ``plain`` is an object whose ``entry`` is ``number``, the number of the format.

    ``writer`` is the name of the function or command that writes this format. The message contains this name.
    """
    found = plain.get(entry) if isinstance(plain, dict) else None
    if type(found) is not int or found != number:
        has = f"has no {entry}" if found is None else f"its {entry} is {_check.describe_argument(found)}"
        raise ValueError(f"text must be what {writer} of format {number} wrote, and {has}")


def read_json_object(cls: Callable[..., Built], plain: Any, name: str, build: Build | None = None) -> Built:
    """Returns ``cls(**plain)``, where each entry of ``plain`` is read as a value of its parameter's type.

    ``plain`` must have an entry for each parameter and no others. The annotation of a parameter is its type.
    """
    return construct_from_strict_json(cls, read_strict_json_arguments(cls, plain, name, build), name)


def read_strict_json_arguments(
    cls: Callable[..., Any], plain: Any, name: str, build: Build | None = None, only: Iterable[str] | None = None
) -> dict[str, Any]:
    """Returns the arguments that ``read_json_object`` calls ``cls`` with.

    With ``only``, returns the arguments for the parameters in ``only``. Then ``plain`` may have further entries.
    """
    hints = _list_json_parameter_types(cls)
    if only is None:
        check_json_entries(name, plain, hints)
    expected = hints if only is None else only
    return {
        entry: read_json_value(hints[entry], plain[entry], f"{name}.{entry}" if name else entry, build)
        for entry in expected
    }


def construct_from_strict_json(cls: Callable[..., Built], arguments: Mapping[str, Any], name: str) -> Built:
    """Returns ``cls(**arguments)``. If the constructor fails, raises ValueError with ``name``, the place in the
    file."""
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as error:
        at = f"{_shorten_json_place(name)}: " if name else ""
        raise ValueError(f"{at}{str(error)[:500]}") from None


def check_json_entries(name: str, plain: Any, expected: Iterable[str]) -> None:
    """Raises ValueError unless ``plain`` is an object with exactly the ``expected`` entries."""
    if not isinstance(plain, dict):
        raise ValueError(f"{_shorten_json_place(name)} must be an object, got {_check.describe_argument(plain)}")
    wanted = set(expected)
    for names, what in ((plain.keys() - wanted, "more"), (wanted - plain.keys(), "fewer")):
        if names:
            listed = ", ".join(_check.describe_argument(each)[1:-1] for each in sorted(names, key=str)[:10])
            raise ValueError(
                f"{_shorten_json_place(name)} must have the entries that tightdp writes, and has {what}: {listed}"
            )


def check_same_json(plain: Any, written: Any, name: str = "") -> None:
    """Raises ValueError if ``plain`` differs from ``written`` in a value. The message names the place of this value."""
    if isinstance(written, dict):
        check_json_entries(name or "text", plain, written)
        for entry in written:
            check_same_json(plain[entry], written[entry], f"{name}.{entry}" if name else entry)
    elif isinstance(written, list) and isinstance(plain, list) and len(plain) == len(written):
        for k, (one, other) in enumerate(zip(plain, written, strict=True)):
            check_same_json(one, other, f"{name}[{k}]")
    elif plain != written or isinstance(plain, bool) != isinstance(written, bool):
        raise ValueError(
            f"{_shorten_json_place(name)} must be what the other entries say, and is {_check.describe_argument(plain)}"
        )


def read_json_value(hint: Any, plain: Any, name: str, build: Build | None = None) -> Any:
    """Returns ``plain`` as a value of the type ``hint``.

    The type is a number, a text, a tuple, a mapping, or a class. ``build`` makes the values of classes from objects of
    JSON. If ``build`` is None, ``build_json_object`` makes them.
    """
    kind = get_origin(hint) or hint
    if kind in (Union, types.UnionType):
        fitting = [each for each in get_args(hint) if _is_json_of_type(each, plain)]
        if not fitting:
            raise _build_json_error(name, " or ".join(dict.fromkeys(map(_describe_json_type, get_args(hint)))), plain)
        if len(fitting) == 1 or build is None:
            return read_json_value(fitting[0], plain, name, build)
        return build(hint, plain, name)  # several classes fit, and ``build`` chooses one
    if not _is_json_of_type(hint, plain):
        raise _build_json_error(name, _describe_json_type(hint), plain)
    if kind is float:
        return _read_json_number(plain, name)
    if kind is str and any("\ud800" <= c <= "\udfff" for c in plain):
        raise _build_json_error(name, "text that UTF-8 can hold", plain)
    if kind is tuple:
        return _read_json_list(get_args(hint), plain, name, build)
    if kind is Mapping:
        return {read_json_value(str, key, name): read_json_value(get_args(hint)[1], value, f"{name}[{key!r}]", build)
                for key, value in plain.items()}  # fmt: skip
    if kind in _JSON_TYPES or kind is Literal:
        return plain
    return (build or build_json_object)(hint, plain, name)


def build_json_object(hint: Any, plain: Any, name: str) -> Any:
    """Returns an object of the class ``hint``. The annotations of its constructor's parameters tell the types of the
    values inside."""
    return read_json_object(hint, plain, name)


def _read_json_list(hints: tuple[Any, ...], plain: list[Any], name: str, build: Build | None) -> tuple[Any, ...]:
    """Returns the values of a list as a tuple. ``hints`` has the type of each value, or (type, ...) for any number of
    values of one type."""
    if hints == (float, ...) and set(map(type, plain)) <= {float}:  # a fast path for a model of a million weights
        if not all(map(float.__le__, map(abs, plain), [_check.LARGEST] * len(plain))):
            raise ValueError(f"{_shorten_json_place(name)} must be finite numbers")
        return tuple(plain)
    each = [hints[0]] * len(plain) if hints[-1] is ... else list(hints)
    if len(each) != len(plain):
        raise _build_json_error(name, f"a list of {len(each)} values", plain)
    pairs = enumerate(zip(each, plain, strict=True))
    return tuple(read_json_value(hint, one, f"{name}[{k}]", build) for k, (hint, one) in pairs)


def _read_json_number(plain: int | float, name: str) -> float:
    try:
        found = float(plain)
    except OverflowError:
        found = float("inf")
    if found != plain or not abs(found) <= _check.LARGEST:
        raise _build_json_error(name, "a finite double", plain)
    return found


def _is_json_of_type(hint: Any, plain: Any) -> bool:
    """Returns whether ``plain`` has the type of JSON in which values of the type ``hint`` are written."""
    kind = get_origin(hint) or hint
    if kind is Literal:
        return any(type(plain) is type(value) and plain == value for value in get_args(hint))
    return type(plain) in _JSON_TYPES.get(kind, (dict,))


def _describe_json_type(hint: Any) -> str:
    kind = get_origin(hint) or hint
    return ", ".join(map(repr, get_args(hint))) if kind is Literal else _TYPE_NAMES.get(kind, "an object")


def _build_json_error(name: str, accepted: str, plain: Any) -> ValueError:
    return ValueError(f"{_shorten_json_place(name)} must be {accepted}, got {_check.describe_argument(plain)}")


def _shorten_json_place(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:100]}...{name[-97:]}"


@lru_cache(None)
def _list_json_parameter_types(cls: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns the parameters of a constructor with their annotations."""
    return {name: each.annotation for name, each in inspect.signature(cls, eval_str=True).parameters.items()}
