"""Arrays on a device as the kernels see them: DLPack capsules and the CUDA array interface, with the host's memory in
the place of a device's."""

import gc
import weakref

import numpy as np
import pytest
from pretender import Pretender

import tightdp as dp
from tightdp import _core, cuda
from tightdp.clipping_and_noise.cuda import arrays, clipping

torch = pytest.importorskip("torch")


class OnDevice:
    """An array that has DLPack alone, and says that it lives on a device."""

    def __init__(self, array, device=(2, 0), versioned=True):
        self.array, self.device, self.versioned, self.asked = array, device, versioned, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        if max_version is not None and not self.versioned:
            raise TypeError("unexpected keyword max_version")
        self.asked.append((stream, max_version))
        if isinstance(self.array, np.ndarray) and max_version is not None:
            return self.array.__dlpack__(max_version=max_version)
        return self.array.__dlpack__()


@pytest.fixture
def host_is_device(monkeypatch):
    """Capsules of the host's memory (kDLCPU, 1) pass for a device's."""
    monkeypatch.setattr(arrays, "_DLPACK_CUDA", (1, 2))
    monkeypatch.setattr(clipping, "get_cuda_stream", lambda x: 0)


DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_is_described(host_is_device, dtype, versioned):
    x = torch.zeros(5, 2, 3, dtype=getattr(torch, dtype))
    seen = cuda.view("x", OnDevice(x, versioned=versioned))
    size = x.element_size()
    assert seen == cuda.DeviceArray(x.data_ptr(), (5, 2, 3), dtype, (6 * size, 3 * size, size), 0, seen.writable)
    assert seen.rows_contiguous and seen.row_size == 6


def test_strides_and_offsets(host_is_device):
    x = np.zeros((6, 8), np.float32)
    assert cuda.view("x", OnDevice(x[:, 2:5])).address == x.ctypes.data + 8
    assert cuda.view("x", OnDevice(x[:, 2:5])).strides == (32, 4)
    assert cuda.view("x", OnDevice(x[::2])).rows_contiguous
    assert not cuda.view("x", OnDevice(x[:, ::2])).rows_contiguous
    assert not cuda.view("x", OnDevice(x.T)).rows_contiguous
    # A stride of one element that no step goes along is no gap.
    assert cuda.view("x", OnDevice(x[:, :1])).rows_contiguous


def test_rows_at_addresses_that_their_dtype_does_not_allow_are_not_taken_as_they_are():
    bytes_ = cuda.DeviceArray(4098, (5, 3), "float32", (12, 4), 0)
    assert not bytes_.rows_contiguous
    assert not cuda.DeviceArray(4096, (5, 3), "float32", (14, 4), 0).rows_contiguous
    assert cuda.DeviceArray(4098, (5, 3), "float16", (6, 2), 0).rows_contiguous


def test_the_producer_is_told_the_stream(host_is_device):
    for stream, told in [(0, 1), (2, 2), (140_000, 140_000)]:
        x = OnDevice(np.zeros((2, 2)))
        cuda.view("x", x, lambda stream=stream: stream)
        assert x.asked == [(told, (1, 0))]
    old = OnDevice(torch.zeros(2, 2), versioned=False)
    cuda.view("x", old)
    assert old.asked == [(1, None)]


def test_memory_is_given_back_once_and_not_before(host_is_device):
    array = np.zeros((4, 4))
    gone = weakref.ref(array)
    seen = cuda.view("x", OnDevice(array))
    del array
    gc.collect()
    assert gone() is not None  # the view alone holds it
    del seen
    gc.collect()
    assert gone() is None


def test_a_capsule_is_consumed_once():
    capsule = np.zeros(3).__dlpack__()
    _core.dlpack_array(capsule)
    with pytest.raises(TypeError, match="consumed"):
        _core.dlpack_array(capsule)
    with pytest.raises(TypeError):
        _core.dlpack_array(object())


def test_refusals(host_is_device):
    with pytest.raises(TypeError, match="dtype"):
        cuda.view("x", OnDevice(np.zeros((2, 2), np.int32)))
    with pytest.raises(TypeError, match="dtype"):
        cuda.view("x", OnDevice(np.zeros((2, 2), np.complex64)))
    with pytest.raises(ValueError, match="batch axis"):
        dp.clipped_sum(OnDevice(np.zeros(5, np.float32)), 1.0)
    with pytest.raises(TypeError, match="dtype"):
        dp.clipped_sum([OnDevice(np.zeros((2, 2), np.float32)), OnDevice(np.zeros((2, 2)))], 1.0)


def test_a_capsule_of_another_device_is_refused():
    # It says that it is on a device, and its capsule is not.
    x = OnDevice(np.zeros((2, 2), np.float32))
    assert cuda.on_device(x)
    with pytest.raises(TypeError, match="device type 1"):
        cuda.view("x", x)
    # Another maker's devices are none of ours.
    assert not cuda.on_device(OnDevice(np.zeros((2, 2)), device=(10, 0)))
    assert not cuda.on_device(OnDevice(np.zeros((2, 2)), device=(1, 0)))
    with pytest.raises(TypeError, match="memory of the device"):
        cuda.view("x", OnDevice(np.zeros((2, 2)), device=(10, 0)))


def test_outputs_that_must_not_be_written_are_refused(host_is_device):
    writable = np.zeros(3, np.float32)
    shapes = [(3,)]
    constant = writable.copy()
    constant.flags.writeable = False
    assert cuda.view("x", OnDevice(writable)).writable and not cuda.view("x", OnDevice(constant)).writable
    with pytest.raises(ValueError, match="written"):
        clipping._check_cuda_outputs(OnDevice(constant), shapes, False, 0, lambda: 0)
    # The first version of the standard does not say.
    with pytest.raises(ValueError, match="written"):
        clipping._check_cuda_outputs(OnDevice(torch.zeros(3), versioned=False), shapes, False, 0, lambda: 0)
    with pytest.raises(ValueError, match="written"):
        clipping._check_cuda_outputs(Pretender((3,), read_only=True), shapes, False, 0, lambda: 0)
    assert clipping._check_cuda_outputs(Pretender((3,)), shapes, False, 0, lambda: 0)


def test_the_interface_says_its_stream_and_whether_it_may_be_written():
    assert cuda.view("x", Pretender((2, 2), stream=7)).stream == 7
    assert cuda.view("x", Pretender((2, 2))).stream is None
    assert not cuda.view("x", Pretender((2, 2), read_only=True)).writable
    with pytest.raises(TypeError, match="byte order"):
        cuda.view("x", Pretender((2, 2), ">f4"))


def test_dlpack_serves_where_the_interface_has_no_word_for_the_dtype(host_is_device):
    x = OnDevice(torch.zeros(2, 2, dtype=torch.bfloat16))
    x.__cuda_array_interface__ = {"shape": (2, 2), "typestr": "<V2", "data": (1, False), "version": 3}
    assert cuda.view("x", x).dtype == "bfloat16"
    with pytest.raises(TypeError, match="dtype"):
        cuda.view("x", Pretender((2, 2), "<V2"))


def test_an_interface_that_raises_is_none():
    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("on the host")

        def __dlpack_device__(self):
            raise NotImplementedError

    assert not cuda.on_device(Raises())
