"""A plugin of pytest that skips what is left when the time of a hunt is up: TIGHTDP_HUNT_SECONDS after the start."""

import os
import time

import pytest

END = time.monotonic() + float(os.environ["TIGHTDP_HUNT_SECONDS"])


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > END:
        pytest.skip("the time of this hunt is up")
