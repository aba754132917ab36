# SPDX-License-Identifier: Apache-2.0
"""Runs the sm_90a forward kernels from cubins through the CUDA driver, on torch tensors.

A variant is a cubin and the numbers its launch needs (variants.json beside the cubins, written by build.py). Tensors
are [batch, rows, heads, head_dim] with any strides whose last one is 1.
"""

import ctypes
import json
import math
import os
import struct

import torch

cuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"CUDA driver error {code}: {text.value}")


def tensor_map(tensor, box_rows):
    """CUtensorMap of [batch, rows, heads, columns] seen as (column, row, head, batch), 64-column boxes."""
    batch, rows, heads, columns = tensor.shape
    buffer = (ctypes.c_uint8 * 192)()
    address = (ctypes.addressof(buffer) + 63) // 64 * 64
    dims = (ctypes.c_uint64 * 4)(columns, max(rows, 1), heads, batch)
    size = tensor.element_size()
    strides = (ctypes.c_uint64 * 3)(tensor.stride(1) * size, tensor.stride(2) * size, tensor.stride(0) * size)
    box = (ctypes.c_uint32 * 4)(64, box_rows, 1, 1)
    unit = (ctypes.c_uint32 * 4)(1, 1, 1, 1)
    data_type = {torch.float16: 6, torch.bfloat16: 9}[tensor.dtype]
    # interleave none, swizzle 128 B, L2 promotion 256 B, out of bounds reads as zero
    check(cuda.cuTensorMapEncodeTiled(ctypes.c_void_p(address), data_type, 4, ctypes.c_void_p(tensor.data_ptr()), dims,
                                      strides, box, unit, 0, 3, 3, 0))
    return ctypes.string_at(address, 128)


class Kernel:
    def __init__(self, directory, name, info):
        self.name, self.info = name, info
        with open(os.path.join(directory, name + ".cubin"), "rb") as f:
            self.image = f.read()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(self.module), self.image))
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), self.module, info["symbol"].encode()))
        check(cuda.cuFuncSetAttribute(self.function, 8, info["shared_bytes"]))
        self.counter = torch.zeros(64, dtype=torch.int32, device="cuda")
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    def prepare(self, q, k, v, o, lse=None, causal=False, diag_offset=0, scale=None, group=None):
        """The launch of one problem, as a function of nothing."""
        batch, n_q, heads, dim = q.shape
        n_k, heads_kv = k.shape[1], k.shape[2]
        info = self.info
        assert dim == info["head_dim"] and str(q.dtype).endswith(info["dtype"])
        m_tiles = -(-n_q // info["block_m"])
        total = m_tiles * batch * heads
        per_kv = n_k * dim * 4
        repeat = heads // heads_kv
        if group is None:
            group = repeat * max(1, (info.get("group_mb", 16) << 20) // max(per_kv, 1)) if causal else repeat
        group = min(group, batch * heads)
        diagonal = max(-n_q, min(n_k, n_k - n_q + diag_offset))
        scale = 1 / math.sqrt(dim) if scale is None else scale
        packed = b"".join((tensor_map(q, info["block_m"]), tensor_map(k, info["block_n"]),
                           tensor_map(v, info["block_n"]), tensor_map(o, 64)))
        packed += struct.pack("<Qqqq", lse.data_ptr() if lse is not None else 0,
                              *((lse.stride(0), lse.stride(1), lse.stride(2)) if lse is not None else (0, 0, 0)))
        packed += struct.pack("<Q10if3i", self.counter.data_ptr(), n_q, n_k, heads, repeat, batch * heads, int(causal),
                              diagonal, m_tiles, total, group, scale * math.log2(math.e), 0, 0, 0)
        packed += struct.pack("<Qqqq", o.data_ptr(), o.stride(0), o.stride(2), o.stride(1))
        packed += bytes(-len(packed) % 64)
        params = ctypes.create_string_buffer(packed, len(packed))
        args = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        grid = min(total, self.sms)
        keep = (q, k, v, o, lse, params, args)

        def launch(_keep=keep):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(cuda.cuLaunchKernel(self.function, grid, 1, 1, info["threads"], 1, 1, info["shared_bytes"], stream,
                                      args, None))

        return launch


def load_variants(directory, names=None):
    torch.zeros(1, device="cuda")
    with open(os.path.join(directory, "variants.json")) as f:
        table = json.load(f)
    return {n: Kernel(directory, n, i) for n, i in table.items() if names is None or n in names}
