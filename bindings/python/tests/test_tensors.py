# SPDX-License-Identifier: Apache-2.0
"""Tensors of other kinds: the buffer protocol, DLPack, __cuda_array_interface__, jax."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import oracle
import pytest

import flashattn
from flashattn import _abi, _dlpack, _library, _tensors


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f4") -> np.ndarray:
    return (rng.standard_normal(shape) + 0.4).astype(dtype)


# ---------------------------------------------------------------------------------------------- buffer protocol --


def test_buffers(rng: np.random.Generator, seen: Any) -> None:
    values = draw(rng, (1, 6, 2, 8))
    memory = array.array("f", values.ravel().tolist())
    view = memoryview(memory).cast("B").cast("f", (1, 6, 2, 8))
    o = flashattn.attention(view, view, view, causal=True)
    assert seen.call.q.data == memory.buffer_info()[0]
    assert isinstance(o, memoryview) and o.shape == (1, 6, 2, 8) and o.format == "f"
    np.testing.assert_allclose(np.asarray(o), oracle.batch(values, values, values, causal=True)[0], atol=2e-5)


def test_read_only_buffers_are_inputs_only(rng: np.random.Generator) -> None:
    values = draw(rng, (1, 6, 2, 8))
    view = memoryview(values.tobytes()).cast("f", (1, 6, 2, 8))
    o = flashattn.attention(view, view, view)
    np.testing.assert_array_equal(np.asarray(o), flashattn.attention(values, values, values))
    with pytest.raises(ValueError, match="out is read-only"):
        flashattn.attention(values, values, values, out=view)


def test_a_buffer_of_another_type_is_named() -> None:
    view = memoryview(bytearray(8 * 16)).cast("d", (1, 1, 2, 8))
    with pytest.raises(ValueError, match="q is buffer format 'd'"):
        flashattn.attention(view, view, view)


def test_kinds_may_be_mixed(rng: np.random.Generator) -> None:
    q, k, v = (draw(rng, (1, 6, 2, 8)) for _ in "qkv")
    o = flashattn.attention(q, memoryview(k), memoryview(v))
    assert isinstance(o, np.ndarray)
    np.testing.assert_array_equal(o, flashattn.attention(q, k, v))


# ------------------------------------------------------------------------------------------------------- DLPack --

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _dlpack.DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Exporter:
    """A producer of DLPack capsules around memory at ``pointer``; remembers what it was asked for."""

    def __init__(self, pointer: int, shape: tuple[int, ...], dtype: tuple[int, int] = (2, 32), device: int = 1,
                 versioned: bool = True, read_only: bool = False, strides: tuple[int, ...] | None = None) -> None:  # fmt: skip
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.device, self.versioned = device, versioned
        managed: Any = (_dlpack.DLManagedTensorVersioned if versioned else _DLManagedTensor)()
        if versioned:
            managed.major, managed.minor, managed.flags = 1, 0, int(read_only)
        tensor = managed.tensor
        tensor.data, tensor.byte_offset = pointer - 16, 16
        tensor.device_type, tensor.device_id, tensor.ndim = device, 0, len(shape)
        tensor.code, tensor.bits, tensor.lanes = *dtype, 1
        tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        if self._strides is not None:
            tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        self._managed = managed
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **named: Any) -> Any:
        self.asked.append(named)
        if not self.versioned and "max_version" in named:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return _new_capsule(ctypes.addressof(self._managed), name, None)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(rng: np.random.Generator, seen: Any, versioned: bool) -> None:
    arrays = [draw(rng, (1, 6, 2, 8)) for _ in "qkv"]
    q, k, v = (Exporter(x.ctypes.data, x.shape, versioned=versioned) for x in arrays)
    out = np.empty((1, 6, 2, 8), "f4")
    target = Exporter(out.ctypes.data, out.shape, versioned=versioned)
    assert flashattn.attention(q, k, v, out=target) is target
    np.testing.assert_array_equal(out, flashattn.attention(*arrays))
    assert q.asked[0] == {"max_version": (1, 1)}
    flashattn.attention(q, k, v, out=target)
    assert [getattr(seen.call, name).data for name in "qkvo"] == [x.ctypes.data for x in (*arrays, out)]


def test_dlpack_strides_and_bfloat16(rng: np.random.Generator) -> None:
    big = draw(rng, (1, 6, 4, 8), ml_dtypes.bfloat16)
    x = Exporter(big.ctypes.data, (1, 6, 2, 8), (4, 16), strides=(192, 32, 16, 1))
    out = np.empty((1, 6, 2, 8), ml_dtypes.bfloat16)
    flashattn.attention(x, x, x, out=out)
    some = big[:, :, ::2]
    np.testing.assert_array_equal(out, flashattn.attention(some, some, some))


def test_dlpack_read_only_and_unknown(rng: np.random.Generator) -> None:
    x = draw(rng, (1, 6, 2, 8))
    tensor = Exporter(x.ctypes.data, x.shape)
    with pytest.raises(ValueError, match="out is read-only"):
        flashattn.attention(x, x, x, out=Exporter(x.ctypes.data, x.shape, read_only=True))
    with pytest.raises(ValueError, match="no output can be made like a test_tensors.Exporter; pass out="):
        flashattn.attention(tensor, tensor, tensor)
    with pytest.raises(ValueError, match="q is DLPack type 2 of 64 bits and 1 lanes"):
        flashattn.attention(Exporter(x.ctypes.data, x.shape, (2, 64)), x, x)
    with pytest.raises(NotImplementedError, match="DLPack device type 8; taken are CPU, CUDA and ROCm"):
        flashattn.attention(Exporter(x.ctypes.data, x.shape, device=8), x, x)


def test_capsules_are_given_back() -> None:
    x = np.ones((1, 64, 2, 8), "f4")

    class Producer:
        __dlpack_device__ = x.__dlpack_device__
        __dlpack__ = x.__dlpack__

    import sys

    flashattn.attention(Producer(), x, x, out=np.empty_like(x))
    before = sys.getrefcount(x)
    for _ in range(50):
        flashattn.attention(Producer(), x, x, out=np.empty_like(x))
    assert sys.getrefcount(x) == before


# ----------------------------------------------------------------- GPU tensors, as far as a machine without one --


class FakeLibrary:
    """Stands where a library with a GPU would: records the call and computes nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[int, int], Any, int]] = []

    def handle(self, backend: int, device: int) -> Any:
        class Handle:
            pointer = (backend, device)

        return Handle()

    def attention(self, handle: Any, problem: Any, call: Any, stream: int) -> int:
        self.calls.append((handle, _abi.Call.from_buffer_copy(call._obj), stream))
        return 0


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    library = FakeLibrary()
    monkeypatch.setattr(_library, "_default", library)
    yield library


class CudaArray:
    """What numba and others are, seen from outside."""

    def __init__(self, pointer: int, shape: tuple[int, ...], typestr: str, stream: int | None) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (pointer, False), "strides": None, "version": 3, "stream": stream,
        }  # fmt: skip


@pytest.mark.parametrize(("stream", "want"), [(None, 0), (1, 0), (2, 2), (0x7F00, 0x7F00)])
def test_cuda_array_interface_passes_pointer_and_stream(gpu: FakeLibrary, stream: int | None, want: int) -> None:
    q, k, v, out = (CudaArray(p << 20, (1, 6, 2, 8), "<f2", stream) for p in range(1, 5))
    assert flashattn.attention(q, k, v, out=out) is out
    ((where, call, used),) = gpu.calls
    assert where == (_abi.BACKEND_CUDA, 0) and used == want
    assert (call.q.data, call.k.data, call.v.data, call.o.data) == (1 << 20, 2 << 20, 3 << 20, 4 << 20)
    assert (call.q.stride_batch, call.q.stride_seq, call.q.stride_head) == (0, 16, 8)


@pytest.mark.parametrize(("device", "backend", "stream"), [(2, "cuda", 1), (13, "cuda", 1), (10, "hip", 0)])
def test_dlpack_on_a_gpu(gpu: FakeLibrary, device: int, backend: str, stream: int) -> None:
    tensors = [Exporter(p << 20, (1, 6, 2, 8), (4, 16), device=device) for p in range(1, 5)]
    flashattn.attention(*tensors[:3], out=tensors[3])
    ((where, call, used),) = gpu.calls
    assert where == (_library.BACKENDS[backend], 0) and used == 0
    assert call.q.data == 1 << 20
    # The protocol's number of the default stream: the producer makes it wait for what fills the tensor.
    assert tensors[0].asked == [{"max_version": (1, 1), "stream": stream}]


def test_tensors_must_be_on_one_device(gpu: FakeLibrary) -> None:
    q = Exporter(1 << 20, (1, 6, 2, 8), device=2)
    x = np.ones((1, 6, 2, 8), "f4")
    with pytest.raises(ValueError, match="k is on cpu and q on cuda:0; all tensors must be on one device"):
        flashattn.attention(q, x, x, out=q)
    assert not gpu.calls


def test_a_gpu_tensor_without_a_gpu_says_why() -> None:
    if any(device.backend == "cuda" for device in flashattn.devices()):
        pytest.skip("there is a GPU here")
    q = Exporter(1 << 20, (1, 6, 2, 8), device=2)
    with pytest.raises(flashattn.Error, match="(?i)cuda") as raised:
        flashattn.attention(q, q, q, out=q)
    assert raised.value.status in (_abi.STATUS_NO_DRIVER, _abi.STATUS_NOT_BUILT, _abi.STATUS_NO_DEVICE)


# ---------------------------------------------------------------------------------------------------------- jax --


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_jax(rng: np.random.Generator, dtype: str, seen: Any) -> None:
    jax = pytest.importorskip("jax")
    values = [draw(rng, (1, 6, 2, 8), np.float32) for _ in "qkv"]
    q, k, v = (jax.numpy.asarray(x, dtype) for x in values)
    o, lse = flashattn.attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(o, jax.Array) and o.dtype == q.dtype and isinstance(lse, jax.Array)
    assert seen.call.q.data == q.unsafe_buffer_pointer() and seen.call.v.data == v.unsafe_buffer_pointer()
    want = oracle.batch(*(np.asarray(x).astype("f4") for x in (q, k, v)), causal=True)[0]
    np.testing.assert_allclose(np.asarray(o).astype("f4"), want, atol={"float32": 2e-5}.get(dtype, 4e-2))


def test_address_of_a_memoryview() -> None:
    memory = np.arange(24, dtype="f4")
    assert _tensors._address(memoryview(memory[4:])) == memory.ctypes.data + 16
