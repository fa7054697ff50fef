"""Finds the parts of dp_accounting's composed events without recursion. A shared event is read only once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dp_accounting import UnsupportedEventError, dp_event

from ..._support import _check


class RefusedEventError(UnsupportedEventError, ValueError):
    """Error that is raised for an event that has no bound here.

    The class is a ValueError too, because dp_accounting raises ValueError for parameters out of their range.
    """


class Refused(Exception):
    """Internal error for an event that has no bound here under the given neighbouring relation."""

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__(reason)
        self.event = event
        self.reason = reason


def iterate_event_leaves(event: Any) -> Iterator[tuple[Any, int]]:
    """Yields the events that are not compositions, in order, with their total counts. No object is yielded twice.

    Events may be nested deeply, so the function does not use recursion. An event may occur in more places than could be
    listed, so its counts in all places are added up.
    """
    counts = {id(event): 1}
    for node, children in _order_composed_events(event):
        times = counts[id(node)]
        if children is None:
            yield node, times
            continue
        for child, count in children:
            total = counts[id(child)] = counts.get(id(child), 0) + times * count
            if total > _check.MAX_COUNT:
                raise Refused(node, f"count must be at most {_check.MAX_COUNT} in all, got {total}")


_Children = list[tuple[Any, int]] | None


def _order_composed_events(event: Any) -> list[tuple[Any, _Children]]:
    """Returns every event once, with its parts and their counts. An event comes after all events that contain it."""
    found: list[tuple[Any, _Children]] = []
    known: dict[int, bool] = {}
    """Visited events, by id. The value is True if all parts of the event were found."""
    stack: list[tuple[Any, _Children, bool]] = [(event, None, False)]
    while stack:
        node, children, done = stack.pop()
        if done:
            known[id(node)] = True
            found.append((node, children))
            continue
        if id(node) in known:
            if not known[id(node)]:
                raise Refused(node, "event must not be part of itself")
            continue
        known[id(node)] = False
        children = _list_events_of_composition(node)
        stack.append((node, children, True))
        stack.extend((child, None, False) for child, _ in children or ())
    return found[::-1]


def _list_events_of_composition(node: Any) -> _Children:
    """Returns the parts of a composition with their counts, or None for an event that is not a composition."""
    if isinstance(node, dp_event.SelfComposedDpEvent):
        try:
            count = _check.check_count_argument("count", node.count, least=0)
        except (TypeError, ValueError) as error:
            raise Refused(node, str(error)) from None
        return [(node.event, count)] if count else []
    if isinstance(node, dp_event.ComposedDpEvent):
        if not isinstance(node.events, (list, tuple)):
            raise Refused(node, f"events must be a list of events, got {node.events!r}")
        return [(child, 1) for child in node.events]
    return None


def describe_event(event: Any) -> str:
    """Returns text for a message: the repr of the event if it is short, and otherwise only the type."""
    return repr(event) if is_event_short(event) else f"a {type(event).__name__} of many parts"


def is_event_short(event: Any) -> bool:
    """Returns whether ``repr(event)`` has at most a hundred events, where shared events count at each occurrence."""
    stack, written = [event], 0
    while stack and written <= 100:
        node = stack.pop()
        if isinstance(node, (list, tuple)):
            stack.extend(node[:101])
        elif isinstance(node, dp_event.DpEvent):
            written += 1
            stack.extend(getattr(node, name.name) for name in getattr(type(node), "__attrs_attrs__", ()))
    return written <= 100
