#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ladder on an NVIDIA GPU: compiles the rungs, checks them, times them beside the library, writes JSON for bench/plot.

  run.py --library build/release/libflashattn.so --output FILE [--seqlen 1024,2048,...] [--heads 16] [--full]
"""

import argparse
import ctypes as c
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path[:0] = [str(SOURCE / "bench/gpu"), str(SOURCE / "tests/gpu")]
import flashattn_ctypes as api  # noqa: E402
from driver import check, cuda  # noqa: E402

DIM, TILE = 64, 64
RUNGS = ("naive", "tiled", "tensor")
STORES = {"naive": "scores and probabilities", "tiled": "tiles of the blocks that run at once",
          "tensor": "tiles of the blocks that run at once", "library": "workspace of the plan"}
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Module:
    """One .cu file, compiled for this device."""

    def __init__(self, name, directory):
        major, minor = torch.cuda.get_device_capability()
        image = pathlib.Path(directory) / f"{name}.cubin"
        subprocess.run(["nvcc", "-std=c++17", "-O3", f"-I{SOURCE}", f"-arch=sm_{major}{minor}", "-cubin", "-o", image,
                        HERE / f"{name}.cu"], check=True)
        self.module = c.c_void_p()
        check(cuda.cuModuleLoadData(c.byref(self.module), image.read_bytes()))

    def function(self, name):
        function = c.c_void_p()
        check(cuda.cuModuleGetFunction(c.byref(function), self.module, name.encode()))
        return function


def launch(function, grid, block, shared, *arguments):
    """arguments: torch tensors, ints and floats, in the order of the kernel."""
    boxes = [c.c_void_p(x.data_ptr()) if isinstance(x, torch.Tensor) else c.c_float(x) if isinstance(x, float) else c.c_int(x)
             for x in arguments]
    pointers = (c.c_void_p * len(boxes))(*(c.addressof(box) for box in boxes))
    stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
    check(cuda.cuLaunchKernel(function, *grid, *block, shared, stream, pointers, None))


def naive(module, q, k, v, o, causal):
    heads, n, _ = q.shape
    s, p = (torch.empty(heads, n, n, dtype=torch.float32, device="cuda") for _ in range(2))
    scores, softmax, values = map(module.function, ("naive_scores", "naive_softmax", "naive_values"))
    blocks = -(-n // 16)

    def run():
        launch(scores, (blocks, blocks, heads), (16, 16, 1), 0, q, k, s, n, DIM ** -0.5, int(causal))
        launch(softmax, (n, heads, 1), (256, 1, 1), 0, s, p, n)
        launch(values, (-(-n // 4), heads, 1), (DIM, 4, 1), 0, p, v, o, n)

    return run, 2 * s.numel() * 4


def one_kernel(name, threads, shared):
    def prepare(module, q, k, v, o, causal):
        heads, n, _ = q.shape
        function = module.function(name)
        check(cuda.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared))
        resident = c.c_int()
        check(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(c.byref(resident), function, threads, c.c_size_t(shared)))
        blocks = -(-n // TILE)
        at_once = min(blocks * heads, resident.value * torch.cuda.get_device_properties(0).multi_processor_count)
        return (lambda: launch(function, (blocks, heads, 1), (threads, 1, 1), shared, q, k, v, o, n, DIM ** -0.5, int(causal)),
                at_once * shared)

    return prepare


PREPARE = {"naive": naive, "tiled": one_kernel("tiled", 256, 50432), "tensor": one_kernel("tensor", 128, 65536)}


def library(handle, q, k, v, o, causal):
    # [heads, n, dim] as [batch 1, n, heads, dim] by strides.
    q, k, v, o = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v, o))
    plan, info = handle.plan(api.dense_problem(q, k, v, causal))
    call = api.dense_call(q, k, v, o)
    workspace = torch.zeros(max(int(info.workspace_size), 1), dtype=torch.uint8, device="cuda")
    base, size = c.c_void_p(workspace.data_ptr()), c.c_size_t(int(info.workspace_size))
    handle.check(handle.so.flashattn_workspace_init(plan, base, size, None))
    torch.cuda.synchronize()

    def run():
        stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
        handle.check(handle.so.flashattn_forward(plan, c.byref(call), base, size, stream))
        return workspace

    return run, int(info.workspace_size), info.kernel.decode()


def expected(q, k, v, causal, rows):
    """The last rows of each head in float64."""
    n = q.shape[1]
    scores = q[:, n - rows:].double() @ k.double().transpose(1, 2) * DIM ** -0.5
    if causal:
        scores += torch.full((rows, n), -math.inf, dtype=torch.float64, device="cuda").triu(n - rows + 1)
    return scores.softmax(-1) @ v.double()


def seconds_of(run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def climb(modules, handle, heads, n, causal):
    q, k, v = (torch.randn(heads, n, DIM, device="cuda", dtype=torch.bfloat16) + 0.1 for _ in range(3))
    rows = min(n, 64)
    want = expected(q, k, v, causal, rows)
    steps, kernel = [], None
    for rung in (*RUNGS, "library"):
        step = {"rung": rung, "stores": STORES[rung]}
        steps.append(step)
        if rung == "naive":
            step["intermediate_bytes"] = 2 * heads * n * n * 4
            free, _ = torch.cuda.mem_get_info()
            if step["intermediate_bytes"] > free:
                step["refused"] = f"{STORES[rung]} take {step['intermediate_bytes'] >> 20} MiB; {free >> 20} MiB are free"
                continue
        o = torch.full_like(q, math.nan)
        if rung == "library":
            run, step["intermediate_bytes"], kernel = library(handle, q, k, v, o, causal)
        else:
            run, step["intermediate_bytes"] = PREPARE[rung](modules[rung], q, k, v, o, causal)
        samples = [seconds_of(run) for _ in range(7)]
        error = (o[:, n - rows:].double() - want).abs().max().item()
        if not error < 2e-2 or not torch.isfinite(o).all():
            sys.exit(f"{rung}, n = {n}: the error is {error}")
        lower, median, upper = statistics.quantiles(samples, n=4)
        step["seconds"] = {"median": median, "lower_quartile": lower, "upper_quartile": upper, "samples": len(samples)}
        step["error"] = error
        print(f"n = {n:6d}  {rung:8s} {median * 1e3:10.3f} ms  {step['intermediate_bytes'] / 2**20:10.2f} MiB", file=sys.stderr)
        del run
    return {"n": n, "o_bytes": 2 * heads * n * DIM, "rungs": steps}, kernel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--seqlen", default="1024,2048,4096,8192,16384,32768")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")  # opens the primary context
    handle = api.Library(arguments.library)
    with tempfile.TemporaryDirectory() as directory:
        modules = {name: Module(name, directory) for name in RUNGS}
    sizes = [climb(modules, handle, arguments.heads, n, not arguments.full) for n in map(int, arguments.seqlen.split(","))]
    root = {"command": "ladder", "dtype": f"bfloat16, {arguments.heads} heads", "device_name": torch.cuda.get_device_name(),
            "threads": 0, "head_dim": DIM, "causal": not arguments.full, "kernel": sizes[-1][1],
            "sizes": [size for size, _ in sizes]}
    pathlib.Path(arguments.output).write_text(json.dumps(root, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
