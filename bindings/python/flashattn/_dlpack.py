# SPDX-License-Identifier: Apache-2.0
"""Reading a DLPack capsule with ctypes.

Source: the DLPack C header, version 1.1 (``DLTensor``, ``DLManagedTensor``, ``DLManagedTensorVersioned``) and the
Python protocol of the array API standard, 2023.12. A capsule is only read and never renamed: its own destructor frees
the tensor when the last reference to the capsule goes.
"""

from __future__ import annotations

import ctypes
from typing import Any

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13

_VERSION = (1, 1)
_READ_ONLY = 0x1

_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.restype = ctypes.c_int
_capsule_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class DLTensor(ctypes.Structure):
    """``DLTensor``: strides in elements, NULL for a C-contiguous tensor; byte_offset is added to data."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``; the older ``DLManagedTensor`` begins with the tensor itself."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a C-contiguous tensor."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class Export:
    """A tensor as its DLPack capsule describes it; the capsule, and with it the memory, lives as long as this."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule
        if _capsule_is_valid(capsule, b"dltensor_versioned"):
            managed = DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
            if managed.major != _VERSION[0]:
                raise BufferError(f"the DLPack capsule has version {managed.major}.{managed.minor}; 1.x is understood")
            tensor = managed.tensor
            self.read_only = bool(managed.flags & _READ_ONLY)
        elif _capsule_is_valid(capsule, b"dltensor"):
            tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
            self.read_only = False
        else:
            raise BufferError(f"{capsule!r} is not an unused DLPack capsule")
        self.device = (tensor.device_type, tensor.device_id)
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else contiguous_strides(self.shape)
        self.pointer = (tensor.data or 0) + tensor.byte_offset


def export(array: Any, stream: int | None) -> Export:
    """Asks ``array`` for a capsule, the versioned kind where it can. ``stream``: what the protocol calls so; None on
    the CPU."""
    arguments = {} if stream is None else {"stream": stream}
    try:
        capsule = array.__dlpack__(max_version=_VERSION, **arguments)
    except TypeError:  # a producer from before DLPack 1.0
        capsule = array.__dlpack__(**arguments)
    return Export(capsule)
