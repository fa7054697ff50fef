"""Checks of arguments. Each error names the argument and the accepted range."""

from __future__ import annotations

import inspect
import math
import operator
import reprlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST = float(np.finfo(np.float64).max)
"""Largest finite double."""
MAX_COUNT = 2**53
"""Largest accepted count. Every integer up to 2^53 is a double, so no count is rounded when it becomes a double."""


def check_real_argument(name: str, value: Any, accepted: str = "a real number") -> float:
    """Returns ``value`` as a finite float. Raises TypeError or ValueError for booleans, strings, infinities and NaN."""
    if type(value) is not float:
        refused = isinstance(value, (bool, np.bool_, str, bytes, bytearray, complex, np.complexfloating))
        if (
            refused
            or str(getattr(value, "dtype", "")).endswith("bool")
            or (isinstance(value, np.ndarray) and value.ndim)
        ):
            raise TypeError(f"{name} must be {accepted}, got {value!r}")
        try:
            value = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be {accepted}, got {value!r}") from None
        except OverflowError:
            raise ValueError(f"{name} must be {accepted} and finite, got a number beyond 1.8e308") from None
    x: float = value
    if not math.isfinite(x):
        raise ValueError(f"{name} must be {accepted} and finite, got {value!r}")
    return x + 0.0  # -0.0 becomes 0.0, so that equal values have one repr


def check_single_argument(name: str, value: Any, advice: str) -> Any:
    """Returns ``value``. Raises TypeError, with ``advice`` in its message, if ``value`` is an array or a list."""
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        raise TypeError(f"{name} must be one number, got {describe_argument(value)}: {advice}")
    return value


def check_array_argument(name: str, values: Any, accepted: str = "real numbers") -> npt.NDArray[np.float64]:
    """Returns real numbers, in an array of any shape, as doubles. Infinities and NaN are accepted."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and not any(isinstance(x, (bool, str, bytes, type(None))) for x in array.flat):
            return np.array([float(x) for x in array.flat]).reshape(array.shape)
        if array.dtype.kind in "iuf":
            with np.errstate(over="ignore"):  # a float of more than 64 bits may become infinite
                return array.astype(np.float64, copy=False)
    except OverflowError:
        raise ValueError(f"{name} must be {accepted} and finite, got a number beyond 1.8e308") from None
    except (TypeError, ValueError, RuntimeError):  # PyTorch raises RuntimeError
        pass
    raise TypeError(f"{name} must be {accepted}, got {describe_argument(values)}")


def check_bounded_array_argument(
    name: str, values: Any, least: float = -LARGEST, most: float = LARGEST
) -> npt.NDArray[np.float64]:
    """Returns ``values`` of any shape as finite doubles within [least, most]."""
    accepted = f"real numbers in [{least:.17g}, {most:.17g}]"
    array = check_array_argument(name, values, accepted)
    if not np.all(np.isfinite(array) & (array >= least) & (array <= most)):
        raise ValueError(f"{name} must be finite {accepted}")
    return array


def check_count_array_argument(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Returns ``values`` of any shape as doubles. Raises ValueError unless all are whole numbers in [1, 2^53]."""
    accepted = f"whole numbers in [1, {MAX_COUNT}]"
    array = check_array_argument(name, values, accepted)
    # NumPy rounds large integers in a list that also holds floats. So the array is compared with the given values.
    given = np.asarray(values, object if isinstance(values, (list, tuple)) else None)
    exact = array if given.dtype.kind == "f" and given.itemsize <= 8 else given.astype(object)
    if not np.all((array >= 1) & (array <= MAX_COUNT) & (array == np.floor(array)) & (array == exact)):
        raise ValueError(f"{name} must be {accepted}")
    return array


def build_argument_check(text: str) -> Callable[[str, Any], float]:
    """Returns a function that checks that a value is a finite float in the interval that ``text`` states, such as
    "(0, 1]"."""
    low, high = map(float, text[1:-1].split(","))
    ends = [low] * (text[0] == "[") + [high] * (text[-1] == "]")
    accepted = f"a number in {text}"

    def check_argument_in_interval(name: str, value: Any) -> float:
        x = check_real_argument(name, value, accepted)
        if not (low < x < high or x in ends):
            raise ValueError(f"{name} must be {accepted}, got {value!r}")
        return x

    return check_argument_in_interval


positive, nonnegative = build_argument_check("(0, inf)"), build_argument_check("[0, inf)")
probability, open_unit, closed_unit = (
    build_argument_check("(0, 1]"),
    build_argument_check("(0, 1)"),
    build_argument_check("[0, 1]"),
)
below_one, at_least_one = build_argument_check("[0, 1)"), build_argument_check("[1, inf)")


def check_bounds_argument(name: str, given: Any, columns: int) -> None:
    """Raises ValueError if it is not clear which of the numbers in ``given`` are lower bounds.

    For two columns, ((0, 1), (2, 3)) has two meanings: (low, high) of each column, or two lower bounds and then two
    upper bounds. An array or a tuple of lists always means lower bounds, then upper bounds, and is accepted.
    """
    meant = isinstance(given, tuple) and not any(isinstance(each, tuple) for each in given)
    if columns != 2 or meant or not isinstance(given, (list, tuple)):
        return
    if not all(isinstance(each, (list, tuple)) and len(each) == 2 for each in given):
        return
    ends = check_array_argument(name, given)
    if (np.diff(ends, axis=0) > 0).all() and (np.diff(ends, axis=1) > 0).all():
        raise ValueError(
            f"{name} must be (low, high), each one number for each column, and these could be two pairs as well: write "
            "([LOW, LOW], [HIGH, HIGH]), a tuple of lists"
        )


def check_count_argument(name: str, value: Any, least: int = 1, most: int = MAX_COUNT) -> int:
    """Returns ``value`` as an integer in [least, most]."""
    if type(value) is int and least <= value <= most:
        return value
    accepted = f"an integer >= {least}" if most == MAX_COUNT else f"an integer in [{least}, {most}]"
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {accepted}, got {value!r}") from None
    if n < least:
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    if n > most:
        raise ValueError(
            f"{name} must be {accepted}{f' and at most {most}' if most == MAX_COUNT else ''}, got {value!r}"
        )
    return n


def check_flag_argument(name: str, value: Any) -> bool:
    """Returns ``value`` as a bool. Raises TypeError unless ``value`` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {describe_argument(value)}")
    return bool(value)


def check_function_argument(name: str, value: Any, parameters: str, optional: bool = False) -> Any:
    """Returns ``value``, a function that can be called with these ``parameters``, such as "done, total".

    With ``optional`` the value may be None. A class is accepted if it tells that it can be called with the parameters.
    Some functions that are written in C do not tell their parameters, and are accepted. Raises TypeError for anything
    else, before a run calls the function.
    """
    if value is None and optional:
        return value
    accepted = f"{name} must be a function of ({parameters}){' or None' if optional else ''}"
    if not callable(value):
        raise TypeError(f"{accepted}, got {describe_argument(value)}")
    if any(map(inspect.iscoroutinefunction, (value, value.__call__))):
        raise TypeError(f"{accepted}, got a coroutine function, which does nothing when it is called")
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        if isinstance(value, type):  # such as int, which cannot be called with two numbers
            raise TypeError(f"{accepted}, got {value!r}, a class that does not tell its parameters") from None
        return value
    try:
        found.bind(*parameters.split(", "))
    except TypeError:
        raise TypeError(f"{accepted}, got a function of {found}") from None
    return value


def refuse_masked_array(name: str, values: Any) -> None:
    """Raises TypeError for an array with a mask, because masked cells would be read like all others."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask: fill the masked cells, for example with NaN")


def check_choice_argument(name: str, value: Any, accepted: Collection[str]) -> str:
    """Returns ``value``, which must be one of the ``accepted`` strings."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, accepted))}, got {value!r}")
    if value not in accepted:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, accepted))}, got {value!r}")
    return value


def check_dataclass_arguments(settings: object, check: Callable[[str, Any], Any], *names: str) -> None:
    """Replaces each named field of a frozen dataclass by the value that ``check`` returns for it.

    A field whose default is None may be None.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None or getattr(type(settings), name, ...) is not None:
            object.__setattr__(settings, name, check(name, value))


_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxlevel, _SHORT_REPR.maxstring, _SHORT_REPR.maxother, _SHORT_REPR.maxlong = 3, 97, 97, 97


def describe_argument(value: Any) -> str:
    """Returns at most a hundred characters of a value's repr, for an error message.

    A large list or text is cut first, because its whole repr would take long."""
    text = _SHORT_REPR.repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
