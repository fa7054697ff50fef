import numpy as np
from numpy.typing import NDArray

from ._core import RandomStream

class CudaError(RuntimeError): ...

def device_count() -> int: ...
def describe(device: int) -> tuple[str, int, int, int]: ...
def find_cuda_device(address: int) -> int: ...
def clipped_sum(
    arrays: list[tuple[int, int, int, int, int]],
    rows: int,
    dtype: str,
    out_dtype: str,
    max_norm: float,
    deviation: float,
    noise: RandomStream | None,
    norms: int,
    grid: float,
    device: int,
    stream: int,
    normalize: bool = False,
    stability: float = 0.01,
    weights: int = 0,
    center: int = 0,
    inverse_scale: int = 0,
    accumulate: bool = False,
) -> None: ...
def release_sums(
    sums: int,
    count: int,
    out: int,
    full: bool,
    scale: float,
    deviation: float,
    noise: RandomStream,
    device: int,
    stream: int,
) -> None: ...
def add_integer_product(
    w: int, q: int, sums: int, rows: int, outputs: int, columns: int, device: int, stream: int
) -> None: ...
def add_products(
    layers: list[tuple[int, int, int, int, int]],
    rows: int,
    full: bool,
    bound: float,
    inverse_grid: float,
    taken: int,
    bounds: int,
    device: int,
    stream: int,
) -> None: ...
def epsilon_batch(
    sigma: NDArray[np.float64],
    q: NDArray[np.float64],
    steps: NDArray[np.float64],
    delta: NDArray[np.float64],
    tolerance: float,
    device: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint8]]: ...
def prv_cells(
    run: tuple[str, float, float, int, float], h: float, first: int, count: int, out: int, device: int, stream: int
) -> None: ...
