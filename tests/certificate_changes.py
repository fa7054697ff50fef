"""Changes of a certificate: each entry moved, replaced or left out, and whether the engines allow the result."""

import json

import tightdp as dp


def list_certificate_changes(plain, rng):
    """Yields a copy of a certificate's values for each entry in it, with this entry changed."""

    def change(value):
        match value:
            case bool():
                yield not value
            case int():
                yield from (value + 1, max(value - 1, 0), 2 * value)
            case float():
                yield from (
                    value * (1 + 10.0 ** -rng.integers(1, 12)),
                    value * (1 - 10.0 ** -rng.integers(1, 12)),
                    -value,
                )
            case str():
                yield from ("add", "remove", "replace", value + "x", "Laplace")
            case list():
                for i, each in enumerate(value):
                    yield from ([*value[:i], other, *value[i + 1 :]] for other in change(each))
                    yield value[:i] + value[i + 1 :]
            case dict():
                for name, each in value.items():
                    yield from ({**value, name: other} for other in change(each))
                    yield {other: x for other, x in value.items() if other != name}

    return change(plain)


def is_possible(plain) -> bool:
    """Tells whether the engines allow the statement of a changed certificate."""
    try:
        found = dp.Certificate.from_json(json.dumps(plain))
    except (ValueError, TypeError):
        return False
    run = found.composition
    truth = (
        run.epsilon(found.delta, neighbors=found.neighbors)
        if found.epsilon is None
        else run.delta(found.epsilon, neighbors=found.neighbors)
    )
    return found.upper >= truth.lower and found.lower <= truth.upper
