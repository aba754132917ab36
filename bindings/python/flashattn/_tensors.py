# SPDX-License-Identifier: Apache-2.0
"""Tensors of any framework: where their memory is, and how to make an output like them. Nothing is ever copied.

An adapter serves one kind of tensor:

    describe(x)          (pointer, layout, owner). ``layout`` is a hashable value, the cheapest that the framework has
                         for shape, strides, element type and device; ``owner`` keeps the memory alive
    view(layout)         the same, spelled out as a :class:`View`; asked once per layout
    empty(shape, dtype)  an output next to ``like``: memory to write to
    pointer(out)         where that memory is
    finish(out)          what the caller gets for it
    stream(x)            the stream that is current for the caller, as flashattn takes it; 0 on the CPU
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from . import _abi, _dlpack, _errors

DTYPE_NAMES = {
    _abi.DTYPE_F32: "float32",
    _abi.DTYPE_F16: "float16",
    _abi.DTYPE_BF16: "bfloat16",
    _abi.DTYPE_U8: "uint8",
}
I32, I64 = "int32", "int64"

_CPU = (_abi.BACKEND_CPU, 0)


class View(NamedTuple):
    """A tensor's layout. Strides in elements; dtype is a ``FLASHATTN_DTYPE_*``, "int32", "int64", or the name of a
    type that the library does not have."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int | str
    device: tuple[int, int]
    writable: bool


_NAMED: dict[str, int | str] = {
    "float32": _abi.DTYPE_F32,
    "float16": _abi.DTYPE_F16,
    "bfloat16": _abi.DTYPE_BF16,
    "bool": _abi.DTYPE_U8,
    "uint8": _abi.DTYPE_U8,
    "int32": I32,
    "int64": I64,
}


def _element_strides(strides: tuple[int, ...], shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    for dim, stride in enumerate(strides):
        if stride % size and shape[dim] > 1:
            raise _errors.ArgumentError(
                f"the stride of dimension {dim} is {stride} bytes; it must be a multiple of the {size}-byte element"
            )
    return tuple(stride // size for stride in strides)


def _interface_pointer(x: Any) -> int:
    return x.__array_interface__["data"][0]


_OBJECT_HEAD = object.__basicsize__


def _field_pointer(x: Any) -> int:
    # PyArrayObject_fields of numpy's C API: data is the first field after the object's head. A sixth of the time that
    # __array_interface__ takes, which asks for everything.
    return ctypes.c_void_p.from_address(id(x) + _OBJECT_HEAD).value or 0


def _field_is_data(numpy: Any) -> bool:
    """Whether this interpreter and numpy lay arrays out so."""
    base = numpy.zeros((4, 6), "f4")
    probes = (base, base[1:, 2:], base[::2].T, numpy.zeros(3, "u1"), base[0, 1:].view(type("Sub", (numpy.ndarray,), {})))
    return sys.implementation.name == "cpython" and all(_field_pointer(x) == _interface_pointer(x) for x in probes)


class NumpyAdapter:
    """numpy.ndarray, with ml_dtypes' bfloat16."""

    name = "numpy"

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy
        self._dtypes: dict[int, Any] = {_abi.DTYPE_F32: numpy.dtype("f4"), _abi.DTYPE_F16: numpy.dtype("f2")}

        self.pointer = _field_pointer if _field_is_data(numpy) else _interface_pointer

    def describe(self, x: Any) -> tuple[int, Any, Any]:
        return self.pointer(x), (x.shape, x.strides, x.dtype, x.flags.writeable), x

    def view(self, layout: Any) -> View:
        shape, strides, dtype, writable = layout
        kind: int | str = _NAMED.get(dtype.name, dtype.name)
        if not dtype.isnative:
            kind = f"{dtype.name} of the other byte order"
        if kind == _abi.DTYPE_BF16:
            self._dtypes[_abi.DTYPE_BF16] = dtype
        return View(shape, _element_strides(strides, shape, dtype.itemsize), kind, _CPU, writable)

    def _dtype(self, dtype: int) -> Any:
        found = self._dtypes.get(dtype)
        if found is None:
            import ml_dtypes  # what numpy users have bfloat16 from

            found = self._dtypes[dtype] = self._numpy.dtype(ml_dtypes.bfloat16)
        return found

    def empty(self, shape: tuple[int, ...], dtype: int, like: Any, zeros: bool) -> Any:
        make = self._numpy.zeros if zeros else self._numpy.empty
        return make(shape, self._dtypes.get(dtype) or self._dtype(dtype))

    def finish(self, out: Any) -> Any:
        return out

    def stream(self, x: Any) -> int:
        return 0


class JaxAdapter:
    """jax.Array on the CPU. Arrays are read through DLPack; results are computed into numpy memory and handed to
    jax, since jax arrays are immutable."""

    name = "jax"

    def __init__(self, numpy: NumpyAdapter) -> None:
        self._numpy = numpy

    def describe(self, x: Any) -> tuple[int, Any, Any]:
        if x.__dlpack_device__()[0] != _dlpack.CPU:
            raise _errors.UnsupportedError(
                "a jax array on a GPU is not taken: jax arrays are immutable and have no stream of the caller; compute "
                "inside jax, or hand the memory to torch or cupy through DLPack"
            )
        export = _dlpack.export(x, None)
        return export.pointer, (export.shape, export.strides, export.dtype, export.device, True), export

    view = staticmethod(lambda layout: _dlpack_view(layout))

    def empty(self, shape: tuple[int, ...], dtype: int, like: Any, zeros: bool) -> Any:
        return self._numpy.empty(shape, dtype, like, zeros)

    def pointer(self, out: Any) -> int:
        return self._numpy.pointer(out)

    def finish(self, out: Any) -> Any:
        return sys.modules["jax"].numpy.asarray(out)

    def stream(self, x: Any) -> int:
        return 0


class TorchAdapter:
    """torch.Tensor on the CPU, CUDA or ROCm."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._dtypes = {
            _abi.DTYPE_F32: torch.float32,
            _abi.DTYPE_F16: torch.float16,
            _abi.DTYPE_BF16: torch.bfloat16,
        }
        self._codes: dict[Any, int | str] = {getattr(torch, name): code for name, code in _NAMED.items()}
        self._gpu = _abi.BACKEND_HIP if torch.version.hip else _abi.BACKEND_CUDA

    def describe(self, x: Any) -> tuple[int, Any, Any]:
        if x.requires_grad and self._torch.is_grad_enabled():
            raise _errors.UnsupportedError(
                "gradients: an input requires grad, and there is no backward pass yet; call under torch.no_grad() or "
                "torch.inference_mode(), or detach() the tensor"
            )
        return x.data_ptr(), (x.shape, x.stride(), x.dtype, x.device), x

    def view(self, layout: Any) -> View:
        shape, strides, dtype, device = layout
        if device.type == "cpu":
            where = _CPU
        elif device.type == "cuda":
            where = (self._gpu, device.index)
        else:
            raise _errors.UnsupportedError(f"a torch tensor is on '{device}'; taken are cpu and cuda (ROCm included)")
        return View(tuple(shape), tuple(strides), self._codes.get(dtype, str(dtype)), where, True)

    def empty(self, shape: tuple[int, ...], dtype: int, like: Any, zeros: bool) -> Any:
        make = self._torch.zeros if zeros else self._torch.empty
        return make(shape, dtype=self._dtypes[dtype], device=like.device)

    def pointer(self, out: Any) -> int:
        return out.data_ptr()

    def finish(self, out: Any) -> Any:
        return out

    def stream(self, x: Any) -> int:
        if x.device.type == "cpu":
            return 0
        return self._torch.cuda.current_stream(x.device).cuda_stream


_DLPACK_DTYPES: dict[tuple[int, int, int], int | str] = {
    (2, 32, 1): _abi.DTYPE_F32,
    (2, 16, 1): _abi.DTYPE_F16,
    (4, 16, 1): _abi.DTYPE_BF16,
    (1, 8, 1): _abi.DTYPE_U8,
    (6, 8, 1): _abi.DTYPE_U8,
    (0, 32, 1): I32,
    (0, 64, 1): I64,
}
_DLPACK_BACKENDS = {
    _dlpack.CPU: _abi.BACKEND_CPU,
    _dlpack.CUDA_HOST: _abi.BACKEND_CPU,
    _dlpack.ROCM_HOST: _abi.BACKEND_CPU,
    _dlpack.CUDA: _abi.BACKEND_CUDA,
    _dlpack.CUDA_MANAGED: _abi.BACKEND_CUDA,
    _dlpack.ROCM: _abi.BACKEND_HIP,
}
# The protocol's spelling of CUDA's legacy default stream is 1, flashattn's (and CUDA's own) is 0.
_LEGACY_STREAM = 1


def _dlpack_view(layout: Any) -> View:
    shape, strides, (code, bits, lanes), (device_type, device_id), read_only = layout
    backend = _DLPACK_BACKENDS.get(device_type)
    if backend is None:
        raise _errors.UnsupportedError(f"a tensor is on DLPack device type {device_type}; taken are CPU, CUDA and ROCm")
    dtype = _DLPACK_DTYPES.get((code, bits, lanes), f"DLPack type {code} of {bits} bits and {lanes} lanes")
    return View(shape, strides, dtype, (backend, device_id if backend != _abi.BACKEND_CPU else 0), not read_only)


class DlpackAdapter:
    """Anything with ``__dlpack__``; makes outputs for cupy, others must pass ``out=``."""

    name = "DLPack"

    def _cupy(self, x: Any) -> Any:
        return sys.modules.get("cupy") if type(x).__module__.partition(".")[0] == "cupy" else None

    def describe(self, x: Any) -> tuple[int, Any, Any]:
        device_type = x.__dlpack_device__()[0]
        stream: int | None = None
        if _DLPACK_BACKENDS.get(device_type) == _abi.BACKEND_CUDA:
            stream = self.stream(x) or _LEGACY_STREAM
        elif _DLPACK_BACKENDS.get(device_type) == _abi.BACKEND_HIP:
            stream = self.stream(x)
        export = _dlpack.export(x, stream)
        return export.pointer, (export.shape, export.strides, export.dtype, export.device, export.read_only), export

    view = staticmethod(_dlpack_view)

    def empty(self, shape: tuple[int, ...], dtype: int, like: Any, zeros: bool) -> Any:
        cupy = self._cupy(like)
        if cupy is None:
            raise _errors.ArgumentError(
                f"no output can be made like a {type(like).__module__}.{type(like).__qualname__}; pass out= (and lse_out= "
                "when return_lse is set)"
            )
        kind: Any = DTYPE_NAMES[dtype]
        if dtype == _abi.DTYPE_BF16:
            import ml_dtypes  # what cupy has bfloat16 from

            kind = ml_dtypes.bfloat16
        return (cupy.zeros if zeros else cupy.empty)(shape, kind)

    def pointer(self, out: Any) -> int:
        return out.data.ptr

    def finish(self, out: Any) -> Any:
        return out

    def stream(self, x: Any) -> int:
        cupy = self._cupy(x)
        return 0 if cupy is None else cupy.cuda.get_current_stream().ptr


class CudaArrayAdapter(DlpackAdapter):
    """Anything with ``__cuda_array_interface__`` (version 3) and no DLPack. Work goes to the stream that the
    interface names, so that it comes after what fills the tensor."""

    name = "__cuda_array_interface__"

    def describe(self, x: Any) -> tuple[int, Any, Any]:
        interface = x.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise _errors.UnsupportedError("__cuda_array_interface__ has a mask; masked arrays are not taken")
        pointer, read_only = interface["data"]
        strides = interface.get("strides")
        return pointer or 0, (interface["shape"], strides, interface["typestr"], read_only), x

    def view(self, layout: Any) -> View:
        shape, strides, typestr, read_only = layout
        dtype: int | str = _TYPESTR.get(typestr, typestr)
        size = int(typestr[2:])
        steps = _dlpack.contiguous_strides(shape) if strides is None else _element_strides(strides, shape, size)
        # The interface does not say which device: the driver's first, unless the caller gives a handle.
        return View(shape, steps, dtype, (_abi.BACKEND_CUDA, 0), not read_only)

    def stream(self, x: Any) -> int:
        stream = x.__cuda_array_interface__.get("stream")
        return 0 if stream in (None, _LEGACY_STREAM) else stream


_TYPESTR: dict[str, int | str] = {
    "<f4": _abi.DTYPE_F32,
    "<f2": _abi.DTYPE_F16,
    "|b1": _abi.DTYPE_U8,
    "|u1": _abi.DTYPE_U8,
    "<i4": I32,
    "<i8": I64,
}

_FORMATS: dict[str, int | str] = {
    "f": _abi.DTYPE_F32,
    "e": _abi.DTYPE_F16,
    "?": _abi.DTYPE_U8,
    "B": _abi.DTYPE_U8,
    "i": I32,
    "q": I64,
    "l": I64 if ctypes.sizeof(ctypes.c_long) == 8 else I32,
}


class _PyBuffer(ctypes.Structure):
    """``Py_buffer``, of which the address is read: memoryview does not tell it."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.restype = ctypes.c_int
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.restype = None
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_PYBUF_STRIDES = 0x10 | 0x8


def _address(memory: memoryview) -> int:
    buffer = _PyBuffer()
    _get_buffer(memory, ctypes.byref(buffer), _PYBUF_STRIDES)
    try:
        return buffer.buf or 0
    finally:
        _release_buffer(ctypes.byref(buffer))


class BufferAdapter:
    """Anything with the buffer protocol: memoryview, array.array, mmap. Outputs are memoryviews."""

    name = "buffer"

    def describe(self, x: Any) -> tuple[int, Any, Any]:
        memory = memoryview(x)
        if memory.suboffsets:
            raise _errors.UnsupportedError("a buffer has suboffsets; taken is memory of one piece")
        return _address(memory), (memory.shape, memory.strides, memory.format, memory.readonly), memory

    def view(self, layout: Any) -> View:
        shape, strides, form, read_only = layout
        kind = form[1:] if form[:1] in "@=" else form
        dtype: int | str = _FORMATS.get(kind, f"buffer format {form!r}")
        size = _SIZES.get(dtype, 1)
        return View(shape, _element_strides(strides, shape, size), dtype, _CPU, not read_only)

    def empty(self, shape: tuple[int, ...], dtype: int, like: Any, zeros: bool) -> Any:
        count = 1
        for extent in shape:
            count *= extent
        if dtype != _abi.DTYPE_F32 or count == 0:
            raise _errors.ArgumentError("no output can be made like a buffer that is empty or not float32; pass out=")
        return memoryview(bytearray(4 * count)).cast("B").cast("f", shape)

    def pointer(self, out: Any) -> int:
        return _address(out)

    def finish(self, out: Any) -> Any:
        return out

    def stream(self, x: Any) -> int:
        return 0


_SIZES: dict[int | str, int] = {
    _abi.DTYPE_F32: 4,
    _abi.DTYPE_F16: 2,
    _abi.DTYPE_BF16: 2,
    _abi.DTYPE_U8: 1,
    I32: 4,
    I64: 8,
}

_adapters: dict[type, Any] = {}
_shared: dict[str, Any] = {}


def _one(name: str, make: Any) -> Any:
    if name not in _shared:
        _shared[name] = make()
    return _shared[name]


def _choose(x: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _one("torch", lambda: TorchAdapter(torch))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return _one("numpy", lambda: NumpyAdapter(numpy))
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array):
        import numpy  # which jax needs itself

        return _one("jax", lambda: JaxAdapter(_one("numpy", lambda: NumpyAdapter(numpy))))
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _one("dlpack", DlpackAdapter)
    if hasattr(x, "__cuda_array_interface__"):
        return _one("cuda", CudaArrayAdapter)
    try:
        memoryview(x)
    except TypeError:
        raise TypeError(
            f"{type(x).__module__}.{type(x).__qualname__} is not a tensor: it has none of __dlpack__, "
            "__cuda_array_interface__ and the buffer protocol"
        ) from None
    return _one("buffer", BufferAdapter)


def adapter_of(x: Any) -> Any:
    """The adapter for ``x``; TypeError when it is no tensor."""
    adapter = _adapters.get(type(x))
    if adapter is None:
        adapter = _adapters[type(x)] = _choose(x)
    return adapter
