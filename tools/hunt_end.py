"""A plugin of pytest that skips the remaining tests, TIGHTDP_HUNT_SECONDS seconds after the start of a hunt."""

import os
import time

import pytest

END = time.monotonic() + float(os.environ["TIGHTDP_HUNT_SECONDS"])


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > END:
        pytest.skip("the time of this hunt is up")
