"""The tests are collected where a library of the extra [test] is missing: the files that need it skip (conftest.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_only_files_that_need_a_missing_library_skip(tmp_path):
    for name, library in (("needs", "scipy.stats"), ("misspelt", "scypi")):
        (tmp_path / f"test_{name}.py").write_text(f'raise ModuleNotFoundError("No module named {library!r}")\n')
    (tmp_path / "test_whole.py").write_text("def test_nothing(): pass\n")
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "conftest", "--collect-only", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert "SKIPPED [1] test_needs.py:0: needs scipy" in said
    assert "ERROR test_misspelt.py" in said and "1 test collected, 1 error" in said
