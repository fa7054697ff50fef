"""The page of what the four papers contain: where each piece is here, their numbers and ours.

    python bench/papers/coverage.py          # writes docs/algorithms/coverage.md from the raw results

Numbers come from the lines that the scripts wrote, and from nowhere else. The page says what was not run.
Contents and published numbers are in bench/papers/contents.py.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells
from contents import PAPERS, Grid, Item, Number, Paper, split_label

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "algorithms" / "coverage.md"
NOT_RUN = "not run"
HEAD = """# The four papers, piece by piece

`python bench/papers/coverage.py` makes this page from the raw results, the lines of `bench/papers/*.jsonl`. A number of
ours is a mean with its standard error. Brackets hold the number of seeds, or of folds where one partition of a table
was run. "Not run" means that there is a script and that no result of it was kept. "Refused" means that the method has
no answer at that setting.

**Settings.** Algorithms have the library's defaults, which follow from public facts, or one round setting for all data
sets and epsilons. Other settings were chosen on rows that were held out from training; that choice is not charged. Test
accuracy chose nothing, with two exceptions that are older than this rule: the first network's learning rate of 2, and
the network for reviews, were chosen after a look at test parts ([networks](networks.md)).
"""
COMPARED = """Where several of our rows stand beside a published one, the last of them that has a result is compared:
NoisyGD after DPIS, and the network with settings chosen on held-out images after the first settings."""


class Results:
    """The finished cells of all scripts."""

    def __init__(self, folder: Path = HERE) -> None:
        self.cells: dict[str, list[dict]] = {}
        for file in sorted(folder.glob("*.jsonl")):
            self.cells[file.stem] = [{"part": "accuracy", **cell} for cell in cells.kept(file).values()]

    def matching(self, number: Number) -> list[dict]:
        """Returns the cells that a number selects."""
        own = self.cells.get(number.script, [])
        return [cell for cell in own if all(cell.get(key) == value for key, value in number.select.items())]

    def samples(self, number: Number) -> tuple[list[float], str]:
        """Returns the values whose mean a number is, and what they are values of: seeds or folds."""
        found = []
        for cell in self.matching(number):
            value = number.what(cell) if callable(number.what) else cell.get(number.what)
            if value is not None:
                found.append(value if number.index is None else value[number.index])
        if len(found) == 1 and isinstance(found[0], list):
            return found[0], "folds"
        return [sum(value) / len(value) if isinstance(value, list) else value for value in found], "seeds"


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns the mean and its standard error, or None for a single value."""
    n, mean = len(values), sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / (n - 1) / n) ** 0.5 if n > 1 else None


def write_ours(number: Number, results: Results) -> str:
    """Returns the cell of a table."""
    values, of = results.samples(number)
    if not values:
        return "refused" if any("refused" in cell for cell in results.matching(number)) else NOT_RUN
    mean, error = mean_and_error(values)
    if number.once:
        return f"{mean:{number.form}}"
    spread = "" if error is None else f" &plusmn; {error:{number.form}}"
    counted = f" fold{'s' * (len(values) > 1)}" if of == "folds" else ""
    return f"{mean:{number.form}}{spread} ({len(values)}{counted})"


def write_grid(grid: Grid, results: Results) -> Iterator[str]:
    """Yields the lines of a table; rows and columns of which nothing is known are named below it."""
    missing, lines, shown = [], [], set()
    kept = [i for i in range(len(grid.columns)) if any(is_known(row[i], results) for _, row in grid.rows)]
    columns = [grid.columns[i] for i in kept]
    beside = any(number.theirs is not None for _, numbers in grid.rows for number in numbers)
    for label, numbers in grid.rows:
        published, own = split_label(label)
        ours = [write_ours(numbers[i], results) for i in kept]
        theirs = ["" if numbers[i].theirs is None else f"{numbers[i].theirs:g}" for i in kept]
        if any(theirs) and published not in shown:
            shown.add(published)
            lines.append(f"| {published}, published | {' | '.join(theirs)} |")
        if all(text == NOT_RUN for text in ours):
            missing.append(own)
        else:
            lines.append(f"| {own}{', ours' * beside} | {' | '.join(ours)} |")
    if lines:
        yield f"| {grid.corner} | {' | '.join(columns)} |"
        yield "|---" * (len(columns) + 1) + "|"
        yield from lines
        yield ""
    if len(missing) < len(grid.rows):
        missing += [column for column in grid.columns if column not in columns]
    if missing:
        yield wrap(f"Not run: {'; '.join(missing)}.")
        yield ""


def is_known(number: Number, results: Results) -> bool:
    """Whether a number has something to show: the published one, or a result of ours."""
    return number.theirs is not None or write_ours(number, results) != NOT_RUN


def wrap(text: str) -> str:
    """Returns a paragraph in lines of 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def write_state(item: Item, results: Results) -> str:
    """Returns what stands beside a piece in the list: its note, and how many of its cells were run."""
    numbers = [number for grid in item.grids for _, row in grid.rows for number in row]
    done = sum(write_ours(number, results) != NOT_RUN for number in numbers)
    runs = "" if not numbers else NOT_RUN if not done else f"{done} of {len(numbers)} numbers, below"
    return "; ".join(text for text in (item.note, runs) if text)


def write_paper(paper: Paper, results: Results) -> Iterator[str]:
    """Yields the section of a paper: the list of its pieces, and its tables."""
    yield f"## {paper.title}\n"
    yield wrap(f"**What we found.** {paper.found}") + "\n"
    yield wrap(f"Script: `bench/papers/{paper.script}.py`. {paper.note}") + "\n"
    yield "| piece | here | command | state |"
    yield "|---|---|---|---|"
    for item in paper.items:
        yield f"| {item.name} | {item.place} | {item.command and f'`{item.command}`'} | {write_state(item, results)} |"
    yield ""
    if paper.figures:
        command = f"python bench/papers/{paper.script}.py --table --draw-into docs/figures"
        yield wrap(f"Figures, drawn from the raw results by `{command}`:") + "\n"
        yield from (f"![{shown}](../figures/{name}.png)\n" for name, shown in paper.figures.items())
    for item in paper.items:
        for grid in item.grids:
            yield wrap(f"**{item.name}{grid.title and ', ' + grid.title}.** {grid.note}") + "\n"
            yield from write_grid(grid, results)


def find_compared(grid: Grid, results: Results) -> Iterator[tuple[str, str, Number]]:
    """Yields, for each published number, the label, the column and the number that it is compared with."""
    last: dict[tuple[str, str], tuple[str, Number]] = {}
    for label, numbers in grid.rows:
        for column, number in zip(grid.columns, numbers, strict=True):
            if number.theirs is not None and number.compared and results.samples(number)[0]:
                last[split_label(label)[0], column] = label, number
    yield from ((label, column, number) for (_, column), (label, number) in last.items())


def write_comparison(results: Results) -> Iterator[str]:
    """Yields the list of numbers that are worse than the published ones, and how many are not."""
    behind, ahead = [], 0
    grids = [(paper, item, grid) for paper in PAPERS for item in paper.items for grid in item.grids]
    for paper, item, grid in grids:
        for label, column, number in find_compared(grid, results):
            values, _ = results.samples(number)
            mean, error = mean_and_error(values)
            if mean >= number.theirs:
                ahead += 1
                continue
            gap, seeds = number.theirs - mean, f"{len(values)} seed{'s' * (len(values) > 1)}"
            sure = f"{gap / error:.1f}, {seeds}" if error else "not known from one seed"
            published, own = split_label(label)
            where = f"{paper.name}, {item.name.lower()}{grid.title and ', ' + grid.title}"
            names = own if own == published else f"{published}; ours: {own}"
            behind.append(f"| {where}: {names} | {column} | {number.theirs:g} | {mean:.2f} | {gap:.2f} | {sure} |")
    yield "## Where we are behind\n"
    total = ahead + len(behind)
    counted = f"Of {total} published accuracies with a result beside them, ours is at or above {ahead}."
    yield wrap(f"{counted} {COMPARED} The others:") + "\n"
    yield "| where | setting | published | ours | behind by | in standard errors of ours |"
    yield "|---|---|---|---|---|---|"
    yield from behind
    yield ""


def page(results: Results) -> str:
    """Returns the page."""
    lines = [HEAD, *write_comparison(results)]
    for paper in PAPERS:
        lines += write_paper(paper, results)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(Results()))
    print(f"written: {PAGE}")
