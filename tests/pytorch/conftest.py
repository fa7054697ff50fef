"""What is small runs on one thread: several would wait for each other."""

import sys

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items):
    """Where losses stand ``still`` on purpose, the warning of it is no error."""
    for item in items:
        if hasattr(getattr(item, "module", None), "still"):
            item.add_marker(pytest.mark.filterwarnings("ignore:the gradients of all records that were looked at"))
