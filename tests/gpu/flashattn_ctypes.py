# SPDX-License-Identifier: Apache-2.0
"""The C interface for the scripts beside this file, as ctypes structures. Field order is flashattn.h's."""
import ctypes as c

DTYPE = {"float32": 1, "float16": 2, "bfloat16": 3}
BACKEND_CUDA = 2


class Problem(c.Structure):
    _fields_ = (
        [("struct_size", c.c_uint32)]
        + [(n, c.c_int32) for n in
           ("op dtype_q dtype_kv dtype_o dtype_bias layout_q layout_kv num_heads_q num_heads_kv head_dim head_dim_v "
            "max_batch max_seqlen_q max_seqlen_kv page_size").split()]
        + [(n, c.c_int64) for n in ("max_total_q", "max_total_kv", "max_pages")]
        + [("features", c.c_uint64), ("flags", c.c_uint64), ("softmax_scale", c.c_float), ("softcap", c.c_float)]
        + [(n, c.c_int32) for n in "causal window_left window_right num_splits precision_f32 reserved0".split()]
        + [("kernel", c.c_char * 64), ("reserved", c.c_uint64 * 8)])


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p)] + [(n, c.c_int64) for n in ("stride_batch", "stride_seq", "stride_head")]


class Bias(c.Structure):
    _fields_ = [("data", c.c_void_p)] + [(n, c.c_int64) for n in ("stride_batch", "stride_head", "stride_q", "stride_kv")]


class PerHead(c.Structure):
    _fields_ = [("data", c.c_void_p), ("stride_batch", c.c_int64), ("stride_head", c.c_int64)]


class Call(c.Structure):
    _fields_ = (
        [("struct_size", c.c_uint32)]
        + [(n, c.c_int32) for n in ("batch", "seqlen_q", "seqlen_kv")]
        + [(n, c.c_int64) for n in ("total_q", "total_kv", "num_pages")]
        + [("diag_offset", c.c_int32), ("reserved0", c.c_int32)]
        + [(n, Tensor) for n in "qkvo"] + [("lse", Tensor)]
        + [(n, c.c_void_p) for n in "cu_seqlens_q cu_seqlens_kv seqused_q seqused_kv diag_offsets page_table".split()]
        + [("page_table_stride", c.c_int64), ("page_table_width", c.c_int32), ("reserved1", c.c_int32)]
        + [("page_indptr", c.c_void_p), ("page_indices", c.c_void_p), ("bias", Bias)]
        + [(n, PerHead) for n in "alibi_slopes sinks descale_q descale_k descale_v".split()]
        + [(n, Tensor) for n in "grad_o grad_q grad_k grad_v".split()]
        + [("grad_bias", Bias), ("grad_sinks", c.c_void_p), ("reserved", c.c_uint64 * 8)])


class Options(c.Structure):
    _fields_ = (
        [("struct_size", c.c_uint32)] + [(n, c.c_int32) for n in ("backend", "device", "num_threads")]
        + [("flags", c.c_uint64)]
        + [(n, c.c_void_p) for n in
           "context log log_user alloc free alloc_user parallel_for parallel_for_user".split()]
        + [("reserved", c.c_uint64 * 4)])


class PlanInfo(c.Structure):
    _fields_ = (
        [("struct_size", c.c_uint32)] + [(n, c.c_int32) for n in ("backend", "device", "num_splits")]
        + [(n, c.c_uint64) for n in ("workspace_size", "workspace_alignment", "materialized_bytes")]
        + [(n, c.c_int32) for n in
           "base_alignment stride_alignment deterministic batch_invariant capturable reason_count".split()]
        + [("kernel", c.c_char * 64), ("generic_kernel", c.c_char * 64)])


class Library:
    """libflashattn with one open CUDA handle."""

    def __init__(self, path, device=0):
        self.so = c.CDLL(path)
        self.so.flashattn_last_error.restype = c.c_char_p
        self.handle = c.c_void_p()
        options = Options(struct_size=c.sizeof(Options), backend=BACKEND_CUDA, device=device)
        self.check(self.so.flashattn_create(c.byref(options), c.byref(self.handle)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"{status}: {self.so.flashattn_last_error().decode()}")

    def plan(self, problem):
        problem.struct_size = c.sizeof(Problem)
        plan = c.c_void_p()
        self.check(self.so.flashattn_plan_create(self.handle, c.byref(problem), c.byref(plan)))
        info = PlanInfo(struct_size=c.sizeof(PlanInfo))
        self.check(self.so.flashattn_plan_info(plan, c.byref(info)))
        return plan, info


    def workspace(self, plan, info, stream=None):
        """A torch buffer for the plan, made ready on the stream."""
        import torch

        size = int(info.workspace_size)
        buffer = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
        on = c.c_void_p((stream or torch.cuda.current_stream()).cuda_stream)
        self.check(self.so.flashattn_workspace_init(plan, c.c_void_p(buffer.data_ptr()), c.c_size_t(size), on))
        return buffer

    def forward(self, plan, call, workspace, stream):
        self.check(self.so.flashattn_forward(plan, c.byref(call), c.c_void_p(workspace.data_ptr()),
                                             c.c_size_t(workspace.numel()), c.c_void_p(stream)))


def tensor(x):
    """[batch, seqlen, heads, dim] torch tensor, any strides but the last."""
    return Tensor(x.data_ptr(), x.stride(0), x.stride(1), x.stride(2))


def dense_call(q, k, v, o, lse=None):
    call = Call(struct_size=c.sizeof(Call), batch=q.shape[0], seqlen_q=q.shape[1], seqlen_kv=k.shape[1])
    call.q, call.k, call.v, call.o = tensor(q), tensor(k), tensor(v), tensor(o)
    if lse is not None:  # [batch, heads, seqlen]
        call.lse = Tensor(lse.data_ptr(), lse.stride(0), lse.stride(2), lse.stride(1))
    return call


def dense_problem(q, k, v, causal, kernel="", num_splits=0):
    name = str(q.dtype).split(".")[1]
    return Problem(dtype_q=DTYPE[name], dtype_kv=DTYPE[str(k.dtype).split(".")[1]], num_heads_q=q.shape[2],
                   num_heads_kv=k.shape[2], head_dim=q.shape[3], head_dim_v=v.shape[3], max_batch=q.shape[0],
                   max_seqlen_q=q.shape[1], max_seqlen_kv=k.shape[1], causal=int(causal), kernel=kernel.encode(),
                   num_splits=num_splits)
