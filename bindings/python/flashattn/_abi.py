# SPDX-License-Identifier: Apache-2.0
"""The C interface of ``include/flashattn.h`` for ctypes: constants, structs, prototypes.

Nothing here is opened or called. ``tests/test_abi.py`` compiles a C program against the header and compares every
constant, offset and size below with what the compiler says.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

VERSION = (0, 1, 0)
"""The version of the header that this file mirrors."""

BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA, BACKEND_HIP = range(4)

DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_FP8_E4M3, DTYPE_I8, DTYPE_U8 = range(1, 7)

LAYOUT_DENSE, LAYOUT_RAGGED, LAYOUT_PAGED, LAYOUT_PAGED_CSR = range(4)

FEATURE_WINDOW = 0x1
FEATURE_ALIBI = 0x2
FEATURE_SINKS = 0x4
FEATURE_SEQUSED_Q = 0x8
FEATURE_SEQUSED_KV = 0x10
FEATURE_DIAG_OFFSETS = 0x20

FLAG_BATCH_INVARIANT = 0x1
FLAG_REQUIRE_FAST = 0x2
FLAG_CU_SEQLENS_INT64 = 0x4

PRECISION_IEEE, PRECISION_TF32, PRECISION_TF32X3 = range(3)

OPTION_VALIDATE = 0x1

STATUS_OK = 0
STATUS_INVALID_ARGUMENT = 100
STATUS_UNSUPPORTED = 200
STATUS_NEWER_STRUCT = 201
STATUS_NOT_BUILT = 202
STATUS_CAPTURING = 203
STATUS_OUT_OF_MEMORY = 300
STATUS_OUT_OF_THREADS = 301
STATUS_NO_DRIVER = 400
STATUS_NO_DEVICE = 402
STATUS_INTERNAL = 500


class BackendInfo(ctypes.Structure):
    """``flashattn_backend_info_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("status", c_int32),
        ("device_count", c_int32),
        ("kernel_count", c_int32),
        ("driver_version", c_int32),
        ("name", c_char * 16),
        ("reason", c_char * 232),
    ]


class DeviceInfo(ctypes.Structure):
    """``flashattn_device_info_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("ordinal", c_int32),
        ("compute_units", c_int32),
        ("capability_major", c_int32),
        ("capability_minor", c_int32),
        ("total_memory_bytes", c_uint64),
        ("name", c_char * 96),
        ("features", c_char * 128),
    ]


class KernelInfo(ctypes.Structure):
    """``flashattn_kernel_info_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("available", c_int32),
        ("reserved", c_int32),
        ("name", c_char * 64),
        ("reason", c_char * 184),
    ]


class Options(ctypes.Structure):
    """``flashattn_options_t``; the callbacks are left to C callers."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("device", c_int32),
        ("num_threads", c_int32),
        ("flags", c_uint64),
        ("context", c_void_p),
        ("log", c_void_p),
        ("log_user", c_void_p),
        ("alloc", c_void_p),
        ("free", c_void_p),
        ("alloc_user", c_void_p),
        ("parallel_for", c_void_p),
        ("parallel_for_user", c_void_p),
        ("reserved", c_uint64 * 4),
    ]


class HandleInfo(ctypes.Structure):
    """``flashattn_handle_info_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("device", c_int32),
        ("num_threads", c_int32),
        ("name", c_char * 96),
    ]


class Problem(ctypes.Structure):
    """``flashattn_problem_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("op", c_int32),
        ("dtype_q", c_int32),
        ("dtype_kv", c_int32),
        ("dtype_o", c_int32),
        ("dtype_bias", c_int32),
        ("layout_q", c_int32),
        ("layout_kv", c_int32),
        ("num_heads_q", c_int32),
        ("num_heads_kv", c_int32),
        ("head_dim", c_int32),
        ("head_dim_v", c_int32),
        ("max_batch", c_int32),
        ("max_seqlen_q", c_int32),
        ("max_seqlen_kv", c_int32),
        ("page_size", c_int32),
        ("max_total_q", c_int64),
        ("max_total_kv", c_int64),
        ("max_pages", c_int64),
        ("features", c_uint64),
        ("flags", c_uint64),
        ("softmax_scale", c_float),
        ("softcap", c_float),
        ("causal", c_int32),
        ("window_left", c_int32),
        ("window_right", c_int32),
        ("num_splits", c_int32),
        ("precision_f32", c_int32),
        ("reserved0", c_int32),
        ("kernel", c_char * 64),
        ("reserved", c_uint64 * 8),
    ]


class PlanInfo(ctypes.Structure):
    """``flashattn_plan_info_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("device", c_int32),
        ("num_splits", c_int32),
        ("workspace_size", c_uint64),
        ("workspace_alignment", c_uint64),
        ("materialized_bytes", c_uint64),
        ("base_alignment", c_int32),
        ("stride_alignment", c_int32),
        ("deterministic", c_int32),
        ("batch_invariant", c_int32),
        ("capturable", c_int32),
        ("reason_count", c_int32),
        ("kernel", c_char * 64),
        ("generic_kernel", c_char * 64),
    ]


class Tensor(ctypes.Structure):
    """``flashattn_tensor_t``."""

    _fields_ = [
        ("data", c_void_p),
        ("stride_batch", c_int64),
        ("stride_seq", c_int64),
        ("stride_head", c_int64),
    ]


class Bias(ctypes.Structure):
    """``flashattn_bias_t``."""

    _fields_ = [
        ("data", c_void_p),
        ("stride_batch", c_int64),
        ("stride_head", c_int64),
        ("stride_q", c_int64),
        ("stride_kv", c_int64),
    ]


class PerHead(ctypes.Structure):
    """``flashattn_per_head_t``."""

    _fields_ = [
        ("data", c_void_p),
        ("stride_batch", c_int64),
        ("stride_head", c_int64),
    ]


class Call(ctypes.Structure):
    """``flashattn_call_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("batch", c_int32),
        ("seqlen_q", c_int32),
        ("seqlen_kv", c_int32),
        ("total_q", c_int64),
        ("total_kv", c_int64),
        ("num_pages", c_int64),
        ("diag_offset", c_int32),
        ("reserved0", c_int32),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("o", Tensor),
        ("lse", Tensor),
        ("cu_seqlens_q", c_void_p),
        ("cu_seqlens_kv", c_void_p),
        ("seqused_q", c_void_p),
        ("seqused_kv", c_void_p),
        ("diag_offsets", c_void_p),
        ("page_table", c_void_p),
        ("page_table_stride", c_int64),
        ("page_table_width", c_int32),
        ("reserved1", c_int32),
        ("page_indptr", c_void_p),
        ("page_indices", c_void_p),
        ("bias", Bias),
        ("alibi_slopes", PerHead),
        ("sinks", PerHead),
        ("descale_q", PerHead),
        ("descale_k", PerHead),
        ("descale_v", PerHead),
        ("grad_o", Tensor),
        ("grad_q", Tensor),
        ("grad_k", Tensor),
        ("grad_v", Tensor),
        ("grad_bias", Bias),
        ("grad_sinks", c_void_p),
        ("reserved", c_uint64 * 8),
    ]


class CombineArgs(ctypes.Structure):
    """``flashattn_combine_args_t``."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("num_parts", c_int32),
        ("batch", c_int32),
        ("seqlen_q", c_int32),
        ("num_heads", c_int32),
        ("head_dim_v", c_int32),
        ("dtype_partial", c_int32),
        ("dtype_o", c_int32),
        ("o_partial", Tensor),
        ("o_partial_stride_part", c_int64),
        ("lse_partial", Tensor),
        ("lse_partial_stride_part", c_int64),
        ("o", Tensor),
        ("lse", Tensor),
        ("reserved", c_uint64 * 4),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "flashattn_backend_info_t": BackendInfo,
    "flashattn_device_info_t": DeviceInfo,
    "flashattn_kernel_info_t": KernelInfo,
    "flashattn_options_t": Options,
    "flashattn_handle_info_t": HandleInfo,
    "flashattn_problem_t": Problem,
    "flashattn_plan_info_t": PlanInfo,
    "flashattn_tensor_t": Tensor,
    "flashattn_bias_t": Bias,
    "flashattn_per_head_t": PerHead,
    "flashattn_call_t": Call,
    "flashattn_combine_args_t": CombineArgs,
}
"""Every struct of the header by its C name."""

PROTOTYPES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "flashattn_version": (c_uint32, ()),
    "flashattn_version_string": (c_char_p, ()),
    "flashattn_status_string": (c_char_p, (c_int32,)),
    "flashattn_last_error": (c_char_p, ()),
    "flashattn_last_driver_error": (c_int32, ()),
    "flashattn_backend_count": (c_int32, ()),
    "flashattn_backend_info": (c_int32, (c_int32, POINTER(BackendInfo))),
    "flashattn_device_count": (c_int32, (c_int32, POINTER(c_int32))),
    "flashattn_device_info": (c_int32, (c_int32, c_int32, POINTER(DeviceInfo))),
    "flashattn_kernel_info": (c_int32, (c_int32, c_int32, POINTER(KernelInfo))),
    "flashattn_create": (c_int32, (POINTER(Options), POINTER(c_void_p))),
    "flashattn_destroy": (None, (c_void_p,)),
    "flashattn_handle_info": (c_int32, (c_void_p, POINTER(HandleInfo))),
    "flashattn_plan_create": (c_int32, (c_void_p, POINTER(Problem), POINTER(c_void_p))),
    "flashattn_plan_destroy": (None, (c_void_p,)),
    "flashattn_plan_info": (c_int32, (c_void_p, POINTER(PlanInfo))),
    "flashattn_plan_reason": (c_int32, (c_void_p, c_int32, POINTER(c_char_p))),
    "flashattn_call_contiguous": (c_int32, (POINTER(Problem), POINTER(Call))),
    "flashattn_workspace_init": (c_int32, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "flashattn_forward": (c_int32, (c_void_p, POINTER(Call), c_void_p, c_size_t, c_void_p)),
    "flashattn_attention": (c_int32, (c_void_p, POINTER(Problem), POINTER(Call), c_void_p)),
    "flashattn_combine": (c_int32, (c_void_p, POINTER(CombineArgs), c_void_p)),
}
"""Result and argument types of the functions that the package calls."""


def new(struct: type[ctypes.Structure]) -> ctypes.Structure:
    """A zero-filled struct whose ``struct_size`` is set: what the header's INIT macros give."""
    value = struct()
    value.struct_size = ctypes.sizeof(struct)
    return value


def declare(library: ctypes.CDLL) -> None:
    """Sets the prototypes of ``library``. AttributeError names the first function that it lacks."""
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
