# SPDX-License-Identifier: Apache-2.0
"""What is compared: each class computes one case into its own output, `run` once, `o` as [batch, rows, heads, dim] f32."""

import ctypes as c
import os
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/gpu"))
import flashattn_ctypes as api  # noqa: E402  (beside the GPU tests, where the structures are kept)

BACKEND_CPU = 1
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Ours:
    """flashattn_forward on [batch, rows, heads, dim]."""

    def __init__(self, path, threads):
        self.so = c.CDLL(str(path))
        self.so.flashattn_last_error.restype = c.c_char_p
        self.handle = c.c_void_p()
        options = api.Options(struct_size=c.sizeof(api.Options), backend=BACKEND_CPU, num_threads=threads)
        self.check(self.so.flashattn_create(c.byref(options), c.byref(self.handle)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"{status}: {self.so.flashattn_last_error().decode()}")

    def prepare(self, case, q, k, v):
        o = torch.full(q.shape, float("nan"), dtype=q.dtype)
        problem = api.dense_problem(q, k, v, case["causal"])
        problem.struct_size = c.sizeof(api.Problem)
        plan = c.c_void_p()
        self.check(self.so.flashattn_plan_create(self.handle, c.byref(problem), c.byref(plan)))
        info = api.PlanInfo(struct_size=c.sizeof(api.PlanInfo))
        self.check(self.so.flashattn_plan_info(plan, c.byref(info)))
        workspace = torch.empty(info.workspace_size + 4096, dtype=torch.uint8)
        base = c.c_void_p((workspace.data_ptr() + 4095) // 4096 * 4096)
        size = c.c_size_t(info.workspace_size)
        self.check(self.so.flashattn_workspace_init(plan, base, size, None))
        call = api.dense_call(q, k, v, o)
        keep = (q, k, v, workspace)

        def run():
            self.check(self.so.flashattn_forward(plan, c.byref(call), base, size, None))
            return keep and o

        return run, {"kernel": info.kernel.decode()}


class Torch:
    """PyTorch's scaled_dot_product_attention; its own contiguous order is [batch, heads, rows, dim]."""

    def prepare(self, case, q, k, v):
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        grouped = q.shape[1] != k.shape[1]

        def run():
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=case["causal"] and q.shape[2] > 1,
                                                                 enable_gqa=grouped)
            return o.transpose(1, 2)

        return run, {"version": torch.__version__}


class _InitParams(c.Structure):
    _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool)]


class _Plan(c.Structure):
    # Room behind for what later versions append; it is returned through memory either way.
    _fields_ = [("work_size", c.c_size_t), ("work_data", c.c_void_p), ("n_threads", c.c_int), ("threadpool", c.c_void_p),
                ("abort", c.c_void_p), ("abort_data", c.c_void_p), ("later", c.c_uint64 * 8)]


class Ggml:
    """ggml_flash_attn_ext: q f32 [dim, rows, heads, batch] innermost first, K and V likewise, mask f16."""

    TYPES = {"f32": 0, "f16": 1}
    MASK_PAD = 64  # rows of the mask; older versions ask for it

    def __init__(self, directory, threads):
        directory = pathlib.Path(directory)
        self.base = c.CDLL(str(directory / "libggml-base.so"), mode=c.RTLD_GLOBAL)
        self.cpu = c.CDLL(str(directory / "libggml-cpu.so"), mode=c.RTLD_GLOBAL)
        self.threads = threads
        base, p, i64 = self.base, c.c_void_p, c.c_int64
        for name, result, arguments in (
                ("ggml_init", p, [_InitParams]), ("ggml_new_tensor_4d", p, [p, c.c_int, i64, i64, i64, i64]),
                ("ggml_flash_attn_ext", p, [p, p, p, p, p, c.c_float, c.c_float, c.c_float]),
                ("ggml_new_graph", p, [p]), ("ggml_build_forward_expand", None, [p, p]), ("ggml_get_data", p, [p]),
                ("ggml_nbytes", c.c_size_t, [p])):
            function = getattr(base, name)
            function.restype, function.argtypes = result, arguments
        self.cpu.ggml_graph_plan.restype, self.cpu.ggml_graph_plan.argtypes = _Plan, [p, c.c_int, p]
        self.cpu.ggml_graph_compute.restype, self.cpu.ggml_graph_compute.argtypes = c.c_int, [p, c.POINTER(_Plan)]
        self.cpu.ggml_cpu_init()

    def tensor(self, context, dtype, values):
        """values as torch, outermost first."""
        tensor = self.base.ggml_new_tensor_4d(context, self.TYPES[dtype], *reversed(values.shape))
        values = values.contiguous()
        if self.base.ggml_nbytes(tensor) != values.numel() * values.element_size():
            raise RuntimeError("ggml lays this tensor out otherwise")
        c.memmove(self.base.ggml_get_data(tensor), values.data_ptr(), values.numel() * values.element_size())
        return tensor

    def prepare(self, case, q, k, v):
        batch, rows, heads, dim = q.shape
        size = sum(x.numel() * 4 for x in (q, q, k, v)) + (64 << 20)
        mask = None
        if case["causal"] and rows > 1:
            padded = -(-rows // self.MASK_PAD) * self.MASK_PAD
            mask = torch.full((1, 1, padded, k.shape[1]), float("-inf"), dtype=torch.float16).triu(1)
            size += mask.numel() * 2
        context = self.base.ggml_init(_InitParams(size, None, False))
        # An engine keeps 16-bit caches as f16; its bf16 path is far slower on a processor without AVX512-BF16.
        cache = "f32" if case["dtype"] == "f32" else "f16"
        tensors = [self.tensor(context, "f32", q.float().transpose(1, 2)),
                   *(self.tensor(context, cache, x.to(DTYPES[cache]).transpose(1, 2)) for x in (k, v))]
        mask = self.tensor(context, "f16", mask) if mask is not None else None
        result = self.base.ggml_flash_attn_ext(context, *tensors, mask, dim ** -0.5, 0.0, 0.0)
        graph = self.base.ggml_new_graph(context)
        self.base.ggml_build_forward_expand(graph, result)
        plan = self.cpu.ggml_graph_plan(graph, self.threads, None)
        work = torch.empty(plan.work_size + 64, dtype=torch.uint8)
        plan.work_data = (work.data_ptr() + 63) // 64 * 64
        floats = (c.c_float * q.numel()).from_address(self.base.ggml_get_data(result))
        o = torch.frombuffer(floats, dtype=torch.float32).view(batch, rows, heads, dim)

        def run():
            if self.cpu.ggml_graph_compute(graph, c.byref(plan)) != 0:
                raise RuntimeError("ggml_graph_compute failed")
            return work is not None and o

        return run, {}


def sgemm_torch(n):
    a, b = torch.rand(n, n), torch.rand(n, n)
    out = torch.empty(n, n)
    return lambda: torch.mm(a, b, out=out)


def sgemm_openblas(n, threads):
    """None where libopenblas is not installed."""
    # Its threads spin after a product, for longer than a whole contestant may take, on the core that is the next one's.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # log2 of cycles, read when it is loaded
    try:
        blas = c.CDLL("libopenblas.so.0")
    except OSError:
        return None
    blas.openblas_set_num_threads(threads)
    matrices = torch.rand(3, n, n)
    row_major, no_transpose = 101, 111
    blas.cblas_sgemm.argtypes = ([c.c_int] * 6 + [c.c_float] + [c.c_void_p, c.c_int] * 2 + [c.c_float, c.c_void_p, c.c_int])

    def run():
        a, b, out = (matrices[i].data_ptr() for i in range(3))
        blas.cblas_sgemm(row_major, no_transpose, no_transpose, n, n, n, 1, a, n, b, n, 0, out, n)

    return run


def read_memory(gib=1):
    memory = torch.ones(gib << 28, dtype=torch.float32)
    return memory.sum, memory.numel() * 4
