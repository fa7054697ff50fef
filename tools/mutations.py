"""Shows that tests see errors: puts one error at a time into a copy of the package and runs a test that has to fail.

    python tools/mutations.py [number ...]

Every row has a text that occurs once in the package, the text that replaces it, a test file, and a pytest expression
that selects tests. Of the selected tests, only those of `python3 dev.py test` are run. The tests of the last row need
dp_accounting as well. The same tests must pass without the error. Ends with 1 if there is an error that no test saw.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ORACLE, GATE = "tests/oracle/test_oracle.py", "tests/train/test_gate.py"
ABOVE = "above_an_upper"


class Mutation(NamedTuple):
    """An error, and the tests that have to see it."""

    what: str
    old: str
    new: str
    tests: str
    selected: str


MUTATIONS = (
    Mutation("the gain of a selection lacks a power", "(Range(self.eta) + 1)).hi", "Range(self.eta)).hi",
             ORACLE, f"{ABOVE} and RepeatAndSelect"),
    Mutation("a zeroed record of a sample of fixed size has no pair of its own", "kinds = m.FixedSizeSampled, m.",
             "kinds = m.", ORACLE, "much_wider and FixedSizeSampled and Gaussian"),
    Mutation("a member of BoundedRange is out of its class", "half = eta / 2\n", "half = 0.6 * eta\n",
             ORACLE, f"{ABOVE} and BoundedRange and Laplace"),
    Mutation("a quotient rounds down where it has to round up", "widen_up(1 / other.lo) if",
             "widen_down(1 / other.lo) if", "tests/accounting/numerics/test_outward.py", ""),
    Mutation("a Poisson batch takes every record", "return None if probability >= 1.0 else",
             "return None if probability >= 0.0 else", GATE, "with_probability_q"),
    Mutation("a replaced record moves discrete noise once, not twice", "m.DiscreteLaplace(scale, 2 * sensitivity)",
             "m.DiscreteLaplace(scale, sensitivity)", ORACLE, f"{ABOVE} and DiscreteLaplace"),
    Mutation("a cut sample forgets that another record leaves",
             'fixed = grid_loss_distribution(translate_to_replacement(inner), "remove").upper.poisson',
             'fixed = grid_loss_distribution(inner, "remove").upper.poisson',
             ORACLE, f"{ABOVE} and TruncatedPoissonSampled and Gaussian"),
    Mutation("the Gaussian member of zCDP has too little noise", "sqrt(1 / (2 * Range(mechanism.rho)))",
             "sqrt(1 / (3 * Range(mechanism.rho)))", ORACLE, f"{ABOVE} and ZCDP"),
    Mutation("fixed bins count one epoch", "return cls(Gaussian(max(shared, math.ulp(0.0))), steps, selected)",
             "return cls(mechanism, steps, selected)", ORACLE, "fixed_bins"),
    Mutation("a Poisson number of runs forgets its mean", "return (self.mean * delta(0.0)).hi", "return delta(0.0)",
             ORACLE, f"{ABOVE} and RepeatAndSelect and poisson"),
    Mutation("a sum is released without its noise", "self._add_noise(deviation, value)\n", "pass\n",
             GATE, "noise_has_the_deviation"),
    Mutation("the sensitivity of a gradient sum is halved", "part, (size,), max_norm, grid",
             "part, (size,), max_norm / 2, grid", GATE, "at_most_its_sensitivity"),
    Mutation("features are summed without their bound",
             "clipped = rows * compute_model_contribution_clip_factors(rows, max_norm)",
             "clipped = rows * 1.0", "tests/train/test_centering.py", "at_most_the_bound"),
    Mutation("a run does not charge its ledger", "                self._pay()\n", "",
             "tests/train/test_ledger_spent.py", "spends_what_it_is_charged"),
    Mutation("a filter does not count the failures of approximate mechanisms",
             "failed += self._failure_loss_of_filter(price)", "failed += Range(0.0)",
             "tests/accounting/running_accounts/test_filters.py", "need_a_part_of_delta"),
    Mutation("a seeded source repeats its noise", "(self._next + 1) % 2**64", "self._next % 2**64",
             "tests/release/test_random.py", "moves_on"),
    Mutation("an upper end is printed rounded down", "format_rounded_number_text(x, spec, ROUND_CEILING)",
             "format_rounded_number_text(x, spec, ROUND_FLOOR)", "tests/accounting/questions/test_printed.py",
             "was_false"),
    Mutation("an epsilon of sampled Gaussians is too low by one part in a million",
             "return Bound(lower, upper, self.name, name_contour_errors(terms))\n\n    def delta",
             "return Bound(lower, upper * (1 - 1e-6), self.name, name_contour_errors(terms))\n\n    def delta",
             "tests/accounting/pairs/test_composition.py", ""),
    Mutation("a replaced record in a sample of fixed size has half its Gaussian privacy",
             "total += 4 * count / (Range(sigma) * sigma)", "total += count / (Range(sigma) * sigma)",
             "tests/accounting/questions/test_gaussian_dp.py", "sample_of_fixed_size"),
    Mutation("errors of losses do not reach what P lacks",
             "most = 1 - (found - rounding) * math.exp(-error)", "most = 1 - (found - rounding)",
             "tests/accounting/pairs/test_complete_pairs.py", "only_q_has"),
    Mutation("noise a unit of sensitivity rounds up",
             "* Fraction(sensitivity) > Fraction(noise):\n        found = math.nextafter(found, 0.0)",
             "* Fraction(sensitivity) > Fraction(noise):\n        found = math.nextafter(found, math.inf)",
             "tests/adapters/test_pld.py", "largest_that_is_no_more"),
)  # fmt: skip


def home_of(mutation: Mutation, package: Path) -> Path:
    """Returns the only file of the package that holds the text to replace."""
    counts = {file: file.read_text().count(mutation.old) for file in package.rglob("*.py")}
    if sum(counts.values()) != 1:
        raise ValueError(f"the package must hold {mutation.old!r} once")
    return max(counts, key=counts.__getitem__)


def fails(package: Path, mutation: Mutation) -> bool:
    """Returns whether a test fails with the package in this folder. Raises RuntimeError if none was selected."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.tests]
    command += ["-m", "not hunt and not slow"]
    command += ["-k", mutation.selected] if mutation.selected else []
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}
    code = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL).returncode
    if code not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return code == 1


def seen(mutation: Mutation, package: Path) -> bool:
    """Returns whether the tests pass without the error and fail with it."""
    file = home_of(mutation, package)
    text = file.read_text()
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
