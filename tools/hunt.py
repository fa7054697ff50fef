"""Looks for failures that ordinary tests cannot find, because ordinary tests draw the same random values every time.

    python3 dev.py hunt [--minutes 30] [--seed N]

Takes turns until the time is up. Each turn runs the tests that draw random values (hypothesis, fuzzing with bad input,
races of threads and forks) with another seed and in another order. Each turn also runs bench/soundness.py, which
compares bounds with ball arithmetic. A hunt of twenty minutes or more begins with the kernels' tests under the address
and undefined-behaviour sanitizers (tools/sanitizers.py). Prints each command that failed, so that it can be repeated.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SANITIZED = 20
"""A hunt of at least this many minutes gives a third of them to the sanitizers, whose build takes some minutes."""
TURN = 180
"""Number of seconds of a turn. The tests get three quarters of it, and soundness.py gets a quarter."""
DRAWS = "hypothesis or hunt"
FILES = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if re.search(r"import .*\bgiven\b|mark\.hunt\b", path.read_text())
]
"""Files with tests that draw random values. Collecting the other files too would take each process ten seconds more,
which is twice as long."""
GRACE = 600
"""Number of extra seconds after which a turn counts as hanging. A turn looks at the clock only between two tests."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="of the first turn (default: drawn)")
    arguments = parser.parse_args()
    start = time.monotonic()
    end = start + 60 * arguments.minutes
    failed = []
    if arguments.minutes >= SANITIZED:
        code = run(["tools/sanitizers.py", "--minutes", str(arguments.minutes / 3)], {}, end - start)
        failed += ["python tools/sanitizers.py"] if code else []
    seed = random.SystemRandom().randrange(1, 2**32) if arguments.seed is None else arguments.seed
    while (left := end - time.monotonic()) > 0:
        print(f"== seed {seed}, {left:.0f} s left", flush=True)
        failed += turn(seed, min(left, TURN))
        seed += 1
    print(f"hunted for {(time.monotonic() - start) / 60:.1f} minutes; " + ("; ".join(failed) or "found nothing"))
    return bool(failed)


def turn(seed: int, seconds: float) -> list[str]:
    """Runs one turn, and returns the commands that failed."""
    environment = {"TIGHTDP_HUNT": str(seed), "TIGHTDP_HUNT_SECONDS": str(round(0.75 * seconds))}
    paths = [str(ROOT / "tools"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    tests = ["-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup", f"--hypothesis-seed={seed}"]
    failed = []
    if run([*tests, "-m", DRAWS, "-p", "hunt_end", *FILES], environment, seconds + GRACE):
        failed.append(f"TIGHTDP_HUNT={seed} python {' '.join(tests)} -m '{DRAWS}'")
    soundness = ["bench/soundness.py", "--settings", "1000000", "--seed", str(seed)]
    if run([*soundness, "--seconds", str(0.25 * seconds)], {}, seconds + GRACE):
        failed.append(f"python {' '.join(soundness)}")
    return failed


def run(command: list[str], environment: dict[str, str], seconds: float) -> int:
    """Runs this interpreter with the arguments ``command``, and returns its exit code, or -1 if it does not end."""
    print("+ python", *command, flush=True)
    try:
        whole = [sys.executable, *command]
        code = subprocess.run(whole, cwd=ROOT, env={**os.environ, **environment}, timeout=seconds).returncode
        if code:
            print(f"ended with {code}" + (", killed by a signal" if code < 0 else ""), flush=True)
        return code
    except subprocess.TimeoutExpired:
        print(f"did not end in {seconds:.0f} seconds")
        return -1


if __name__ == "__main__":
    sys.exit(main())
