"""Reads the benchmarks' data as arrays, with features in float32 and labels as integers.

Tables are encoded as in the papers: categories are one-hot, and numbers are scaled from their range to [0, 1]. The
ranges and categories are taken from the data and treated as public, as the papers do. A release would take them from
the survey's documentation.
"""

from __future__ import annotations

import csv
import functools
import gzip
import re
import tarfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path

import data
import numpy as np

ADULT_NUMBERS = ("age", "fnlwgt", "educational-num", "capital-gain", "capital-loss", "hours-per-week")


def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns X (60000, 784) in [0, 1] and y for training, and X and y for testing, of "mnist" or "fashion-mnist"."""
    files = data.get(name)
    prefix, suffix = ("mnist", "") if name == "mnist" else ("fashion", ".gz")
    out = []
    for part in ("train", "test"):
        x = idx(files[f"{prefix}-{part}-images{suffix}"])
        out += [x.reshape(len(x), -1).astype(np.float32) / 255, idx(files[f"{prefix}-{part}-labels{suffix}"])]
    return out[0], out[1], out[2], out[3]


def cifar10(archive: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns X (50000, 3072) in [0, 1] and y for training, and X and y for testing, of CIFAR-10.

    ``archive`` is cifar-10-binary.tar.gz, the binary version by the data's authors. Each record of it has a byte for
    the label and three planes of 32 x 32 bytes.
    """
    if not archive.is_file():
        raise data.Missing(f"cifar-10: put cifar-10-binary.tar.gz, of its authors' page, at {archive}")
    out = []
    with tarfile.open(archive) as tar:
        for names in ([f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]):
            raw = b"".join(_member(tar, f"cifar-10-batches-bin/{name}") for name in names)
            if not raw or len(raw) % 3073:
                raise data.Missing(f"{archive} holds no records of 3073 bytes in {names[0]}")
            rows = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
            if rows[:, 0].max() > 9:
                raise data.Missing(f"{archive} holds labels beyond 9 in {names[0]}")
            out += [rows[:, 1:].astype(np.float32) / 255, rows[:, 0]]
    return out[0], out[1], out[2], out[3]


def reviews(buckets: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns words (4000, length) and sentiments in {0, 1} for training, and the same of 1,000 reviews for testing.

    The data are 5,000 reviews of IMDb, in the order of the file. A word is represented by its CRC-32 modulo
    ``buckets``, plus 1, so that no vocabulary has to be learned. Words beyond ``length`` are left out. A shorter review
    is filled up with 0.
    """
    try:
        import rdata
    except ImportError:
        raise data.Missing("reviews of IMDb need rdata: pip install rdata") from None
    table = rdata.read_rda(data.get("imdb")["imdb-5000.RData"])["movie_review"]
    words = np.zeros((len(table), length), np.int64)
    for row, text in zip(words, table["review"], strict=True):
        found = re.findall("[a-z]+", text.lower())[:length]
        row[: len(found)] = [zlib.crc32(word.encode()) % buckets + 1 for word in found]
    labels = np.array(table["sentiment"], np.int64)
    return words[:4000], labels[:4000], words[4000:], labels[4000:]


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        found = tar.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise data.Missing(f"{tar.name} holds no {name}")
    return found.read()


def idx(file: Path) -> np.ndarray:
    """Returns an array of bytes from a file in the IDX format.

    The file has the bytes 00 00 08 and the number of axes, then the lengths of the axes as big-endian 32-bit integers,
    then the entries.
    """
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    if raw[:3] != b"\x00\x00\x08":
        raise data.Missing(f"{file} is not an IDX file of bytes")
    rank = raw[3]
    shape = np.frombuffer(raw, ">u4", rank, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


@functools.lru_cache(maxsize=1)  # cells of one table follow one another
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns X (n, d) in [0, 1] and y in {0, 1} of a table.

    The tables are "adult" (d = 108), "bank" (32), "ipums-br" (52), "kddcup99" (118) and "kddcup99-50k". The last has
    50,000 random records of "kddcup99".
    """
    if name == "kddcup99-50k":
        X, y = table("kddcup99")
        rows = np.random.default_rng(0).permutation(len(y))[:50_000]
        return X[rows], y[rows]
    if name == "adult":
        return _mixed(adult_columns(), "income", lambda v: v.rstrip(".") == ">50K", ADULT_NUMBERS)
    if name == "kddcup99":
        columns = _columns(data.get(name)["kddcup99-10percent.csv.gz"], header=False)
        texts = {"1", "2", "3"}  # the columns protocol, service and flag
        return _mixed(columns, "41", lambda v: v != "normal.", set(columns) - texts)
    X, y = raw(name)
    return _scaled(X).astype(np.float32), y


def raw(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns X (n, d), as it is in the file, and y in {0, 1} of "bank" or "ipums-br"."""
    with gzip.open(next(iter(data.get(name).values())), "rt") as text:
        rows = np.loadtxt(text)
    return rows[:, :-1], (rows[:, -1] > 0).astype(np.int64)


def _mixed(
    columns: dict[str, list[str]], label: str, positive: Callable[[str], bool], numbers: Collection[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the columns as features: the named columns scaled to [0, 1], and all others one-hot."""
    labels = np.array([positive(v) for v in columns.pop(label)]).astype(np.int64)
    columns.pop("split", None)
    blocks = []
    for column, values in columns.items():
        if column in numbers:
            blocks.append(_scaled(np.array(values, dtype=np.float64)[:, None]).astype(np.float32))
        else:
            text = np.array(values)
            blocks.append((text[:, None] == np.unique(text)).astype(np.float32))
    return np.column_stack(blocks), labels


def _columns(file: Path, header: bool = True) -> dict[str, list[str]]:
    """Returns the columns of a gzipped CSV file, by the names in the header, or without header by "0", "1", ..."""
    with gzip.open(file, "rt", newline="") as text:
        columns = [list(cells) for cells in zip(*csv.reader(text), strict=True)]
    names = [cells.pop(0) for cells in columns] if header else [str(i) for i in range(len(columns))]
    return dict(zip(names, columns, strict=True))


def adult_columns() -> dict[str, list[str]]:
    """Returns the columns of Adult as text, by name."""
    if data.have("adult-csv"):
        return _columns(data.get("adult-csv")["adult.csv.gz"])
    try:
        import pandas as pd

        frame = pd.read_parquet(data.get("adult")["adult.parquet.brotli"])
    except ImportError:
        raise data.Missing("adult: reading the table takes pandas with pyarrow; install both") from None
    return {name: [str(v) for v in frame[name]] for name in frame.columns}


def _scaled(columns: np.ndarray) -> np.ndarray:
    low, high = columns.min(axis=0), columns.max(axis=0)
    return (columns - low) / np.where(high > low, high - low, 1.0)
