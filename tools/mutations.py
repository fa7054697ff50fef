"""Shows that tests see errors: puts one at a time into a copy of the package and runs the test that has to fail.

    python tools/mutations.py [number ...]

Every row is a file below python/tightdp, a text that occurs there once, what it becomes, the test file, and a pytest
expression that selects the tests. The same tests must pass without the error. Ends with 1 if an error stayed unseen.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAIRS, ORACLE = "accounting/pairs", "tests/oracle/test_oracle.py"
ABOVE = "above_an_upper"


class Mutation(NamedTuple):
    """An error, and who has to see it."""

    what: str
    file: str
    old: str
    new: str
    tests: str
    selected: str


MUTATIONS = (
    Mutation("the gain of a selection lacks a power", f"{PAIRS}/repetitions.py",
             "(Range(self.eta) + 1)).hi", "Range(self.eta)).hi", ORACLE, f"{ABOVE} and RepeatAndSelect"),
    Mutation("a zeroed record of a sample of fixed size has no pair of its own", f"{PAIRS}/neighbors.py",
             "kinds = m.FixedSizeSampled, m.", "kinds = m.", ORACLE, "much_wider and FixedSizeSampled and Gaussian"),
    Mutation("a member of BoundedRange is out of its class", f"{PAIRS}/members.py",
             "half = eta / 2\n", "half = 0.6 * eta\n", ORACLE, f"{ABOVE} and BoundedRange and Laplace"),
    Mutation("a quotient rounds down where it has to round up", "accounting/numerics/outward.py",
             "up(1 / other.lo) if", "down(1 / other.lo) if", "tests/test_outward.py", ""),
    Mutation("noise a unit of sensitivity rounds up", "adapters/dp_accounting/pld.py",
             "found = math.nextafter(found, 0.0)", "found = math.nextafter(found, math.inf)",
             "tests/adapters/test_pld.py", "largest_that_is_no_more"),
    Mutation("a replaced record moves discrete noise once, not twice", f"{PAIRS}/neighbors.py",
             "m.DiscreteLaplace(scale, 2 * sensitivity)", "m.DiscreteLaplace(scale, sensitivity)",
             ORACLE, f"{ABOVE} and DiscreteLaplace"),
    Mutation("a cut sample forgets that another record leaves", "accounting/engines/grid/laws.py",
             'fixed = law(replaced(inner), "remove").upper.poisson', 'fixed = law(inner, "remove").upper.poisson',
             ORACLE, f"{ABOVE} and TruncatedPoissonSampled and Gaussian"),
    Mutation("the Gaussian member of zCDP has too little noise", f"{PAIRS}/members.py",
             "sqrt(1 / (2 * Range(mechanism.rho)))", "sqrt(1 / (3 * Range(mechanism.rho)))",
             ORACLE, f"{ABOVE} and ZCDP"),
    Mutation("fixed bins count one epoch", "mechanisms.py",
             "return cls(Gaussian(max(shared, math.ulp(0.0))), steps, selected)",
             "return cls(mechanism, steps, selected)", ORACLE, "fixed_bins"),
    Mutation("a Poisson number of runs forgets its mean", f"{PAIRS}/repetitions.py",
             "return (self.mean * delta(0.0)).hi", "return delta(0.0)",
             ORACLE, f"{ABOVE} and RepeatAndSelect and poisson"),
)  # fmt: skip


def fails(package: Path, mutation: Mutation) -> bool:
    """Whether a test fails with the package in this folder; none may be missing."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.tests]
    command += ["-k", mutation.selected] if mutation.selected else []
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}
    code = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL).returncode
    if code not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return code == 1


def seen(mutation: Mutation, package: Path) -> bool:
    """Whether the tests pass without the error and fail with it."""
    file = package / "tightdp" / mutation.file
    text = file.read_text()
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.file} must hold {mutation.old!r} once")
    if fails(package, mutation):
        return False
    file.write_text(text.replace(mutation.old, mutation.new))
    try:
        return fails(package, mutation)
    finally:
        file.write_text(text)


def main() -> int:
    wanted = [int(number) for number in sys.argv[1:]] or range(1, len(MUTATIONS) + 1)
    import tightdp

    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder)
        shutil.copytree(Path(tightdp.__file__).parent, package / "tightdp")
        for number in wanted:
            mutation = MUTATIONS[number - 1]
            found = seen(mutation, package)
            unseen += not found
            verdict = "seen" if found else "NOT SEEN"
            print(f"{number:2} {verdict}: {mutation.what} ({mutation.tests} -k '{mutation.selected}')", flush=True)
    return bool(unseen)


if __name__ == "__main__":
    sys.exit(main())
