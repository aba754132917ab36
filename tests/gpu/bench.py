# SPDX-License-Identifier: Apache-2.0
"""Forced sm80 kernels against PyTorch's FLASH_ATTENTION (FlashAttention-2), interleaved A B B A, same layout.

    python3 bench.py LIBFLASHATTN_SO [--rounds 7] [--dims 64,128,256] [--points 16x1024,...] [--decode]

Prints TFLOP/s (4 B H Sq Sk D, halved when causal) and the median of paired ratios (above 1: ours is faster)."""
import argparse
import math
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import flashattn_ctypes as fa


def timed(launch, repeats):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeats * 1e-3


def ours(library, q, k, v, o, causal, kernel):
    plan, info = library.plan(fa.dense_problem(q, k, v, causal, kernel))
    call = fa.dense_call(q, k, v, o)
    workspace = library.workspace(plan, info)
    stream = torch.cuda.current_stream().cuda_stream

    def launch():
        library.forward(plan, call, workspace, stream)

    return launch, info.kernel.decode(), info.num_splits


def sdpa(q, k, v, causal):
    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    gqa = q.shape[2] != k.shape[2]
    return lambda: torch.nn.functional.scaled_dot_product_attention(qt, kt, vt, is_causal=causal, enable_gqa=gqa)


def compare(library, b, n_q, n_k, heads, heads_kv, dim, causal, rounds, dtype=torch.bfloat16, kernel=None):
    q = torch.randn(b, n_q, heads, dim, device="cuda", dtype=dtype)
    k = torch.randn(b, n_k, heads_kv, dim, device="cuda", dtype=dtype)
    v = torch.randn(b, n_k, heads_kv, dim, device="cuda", dtype=dtype)
    o = torch.full_like(q, float("nan"))
    name = kernel or f"fwd_sm80_{'bf16' if dtype == torch.bfloat16 else 'f16'}_d{dim}"
    mine, planned, splits = ours(library, q, k, v, o, causal, name)
    assert planned == name, planned
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        peer = sdpa(q, k, v, causal)
        mine()
        want = peer().transpose(1, 2)
        torch.cuda.synchronize()
        error = (o.float() - want.float()).norm() / want.float().norm()
        repeats = max(3, math.ceil(2e-3 / max(timed(peer, 2), 1e-6)))
        timed(mine, repeats), timed(peer, repeats)
        pairs = []
        for _ in range(rounds):
            a, p, p2, a2 = (timed(f, repeats) for f in (mine, peer, peer, mine))
            pairs += [(a, p), (a2, p2)]
    flops = 4 * b * heads * n_q * n_k * dim * (0.5 if causal and n_q == n_k else 1)
    seconds = [statistics.median(x) for x in zip(*pairs)]
    ratio = statistics.median(p / a for a, p in pairs)
    moved = 2 * b * n_k * heads_kv * dim * q.element_size()
    print(f"{name:22} B{b} q{n_q} k{n_k} H{heads}/{heads_kv} {'causal' if causal else 'full  '} splits<={splits:3} "
          f"ours {flops / seconds[0] * 1e-12:6.1f} FA2 {flops / seconds[1] * 1e-12:6.1f} TFLOP/s "
          f"{moved / seconds[0] * 1e-9:6.0f} GB/s ratio {ratio:.3f} diff {error:.1e}", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--points", default="16x1024,8x2048,4x4096,2x8192,1x16384")
    parser.add_argument("--decode", action="store_true")
    arguments = parser.parse_args()
    library = fa.Library(arguments.library)
    ratios = {}
    for dim in (int(x) for x in arguments.dims.split(",")):
        for causal in (True, False):
            for b, n in (map(int, x.split("x")) for x in arguments.points.split(",")):
                ratios.setdefault((dim, causal), []).append(
                    compare(library, b, n, n, 2048 // dim, 2048 // dim, dim, causal, arguments.rounds))
    for (dim, causal), values in ratios.items():
        print(f"D {dim} {'causal' if causal else 'full'}: geometric mean {statistics.geometric_mean(values):.3f}, "
              f"least {min(values):.3f}")
    if ratios:
        every = [x for values in ratios.values() for x in values]
        print(f"all: geometric mean {statistics.geometric_mean(every):.3f}, least {min(every):.3f}")
    if arguments.decode:
        for b, h, hk, n, d in ((1, 32, 8, 8192, 128), (1, 32, 8, 131072, 128), (16, 32, 8, 8192, 128),
                               (64, 32, 8, 4096, 128), (128, 32, 32, 2048, 128), (16, 64, 8, 16384, 64)):
            compare(library, b, 1, n, h, hk, d, False, arguments.rounds)


if __name__ == "__main__":
    main()
