"""The benchmarks' data as arrays: features in float32, labels as integers.

Tables follow the papers: categories one-hot, numbers min-max scaled to [0, 1]. The ranges and categories are taken from
the data and treated as public, as the papers do; a release would take them from the survey's documentation.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import data
import numpy as np

ADULT_NUMBERS = ("age", "fnlwgt", "educational-num", "capital-gain", "capital-loss", "hours-per-week")


def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """train X (60000, 784) in [0, 1], train y, test X, test y of "mnist" or "fashion-mnist"."""
    files = data.get(name)
    prefix, suffix = ("mnist", "") if name == "mnist" else ("fashion", ".gz")
    out = []
    for part in ("train", "test"):
        x = idx(files[f"{prefix}-{part}-images{suffix}"])
        out += [x.reshape(len(x), -1).astype(np.float32) / 255, idx(files[f"{prefix}-{part}-labels{suffix}"])]
    return out[0], out[1], out[2], out[3]


def idx(file: Path) -> np.ndarray:
    """An array of bytes in the IDX format: magic 00 00 08 rank, sizes as big-endian 32-bit, then the bytes."""
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    if raw[:3] != b"\x00\x00\x08":
        raise data.Missing(f"{file} is not an IDX file of bytes")
    rank = raw[3]
    shape = np.frombuffer(raw, ">u4", rank, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) in [0, 1] and y in {0, 1} of "adult" (108 features), "bank" (32) or "ipums-br" (52)."""
    if name == "adult":
        return _adult()
    file = data.get(name)
    with gzip.open(next(iter(file.values())), "rt") as text:
        rows = np.loadtxt(text)
    return _scaled(rows[:, :-1]).astype(np.float32), (rows[:, -1] > 0).astype(np.int64)


def _adult() -> tuple[np.ndarray, np.ndarray]:
    columns = _adult_columns()
    labels = np.array([v.rstrip(".") == ">50K" for v in columns.pop("income")]).astype(np.int64)
    columns.pop("split", None)
    blocks = []
    for column, values in columns.items():
        if column in ADULT_NUMBERS:
            blocks.append(_scaled(np.array(values, dtype=np.float64)[:, None]))
        else:
            text = np.array(values)
            blocks.append(text[:, None] == np.unique(text))
    return np.column_stack(blocks).astype(np.float32), labels


def _adult_columns() -> dict[str, list[str]]:
    if data.have("adult-csv"):
        with gzip.open(data.get("adult-csv")["adult.csv.gz"], "rt", newline="") as text:
            rows = list(csv.DictReader(text))
        return {name: [row[name] for row in rows] for name in rows[0]}
    try:
        import pandas as pd

        frame = pd.read_parquet(data.get("adult")["adult.parquet.brotli"])
    except ImportError:
        raise data.Missing("adult: reading the table takes pandas with pyarrow; install both") from None
    return {name: [str(v) for v in frame[name]] for name in frame.columns}


def _scaled(columns: np.ndarray) -> np.ndarray:
    low, high = columns.min(axis=0), columns.max(axis=0)
    return (columns - low) / np.where(high > low, high - low, 1.0)
