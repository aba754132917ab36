# SPDX-License-Identifier: Apache-2.0
"""Times variants beside FlashAttention-3 and cuDNN (through torch SDPA), interleaved in random order.

    python3 bench.py CUBIN_DIR OUT.json [--fa3 DIR] [--variants a,b] [--dims 64,128] [--rounds 9] [--points 16x1024,...]
    python3 bench.py --library LIBFLASHATTN_SO OUT.json ...     what the library's own plans launch

FA3 is looked for as DIR/libfa3_d<head_dim>.so exporting fa3_fwd_d<head_dim> (see fa3_shim in README.md).
"""

import argparse
import ctypes
import json
import math
import os
import random
import statistics
import sys
import time

import torch

import driver


class Fa3:
    name = "fa3"

    def __init__(self, directory, dim):
        self.call = getattr(ctypes.CDLL(f"{directory}/libfa3_d{dim}.so"), f"fa3_fwd_d{dim}")
        self.counter = torch.zeros(64, dtype=torch.int32, device="cuda")
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    def prepare(self, q, k, v, o, lse, causal):
        b, n_q, h, d = q.shape
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o, lse, self.counter)]
        sizes = [ctypes.c_int(x) for x in (b, n_q, k.shape[1], h, k.shape[2])]
        tail = [ctypes.c_float(1 / math.sqrt(d)), ctypes.c_int(int(causal)), ctypes.c_int(self.sms)]

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            driver.check(self.call(*pointers, *sizes, *tail, stream))

        return launch


class Planned:
    """What the library chooses for a problem, called as a user would: one flashattn_forward."""

    def __init__(self, library, dtype, dim):
        self.library, self.info = library, {"dtype": dtype, "head_dim": dim}

    def prepare(self, q, k, v, o, lse, causal):
        import flashattn_ctypes as fa

        plan, info = self.library.plan(fa.dense_problem(q, k, v, causal))
        self.kernel = info.kernel.decode()
        call = fa.dense_call(q, k, v, o, lse)
        workspace = self.library.workspace(plan, info)
        keep = (q, k, v, o, lse)

        def launch(_keep=keep):
            self.library.forward(plan, call, workspace, torch.cuda.current_stream().cuda_stream)

        return launch


def planned(path, dim):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/gpu"))
    import flashattn_ctypes as fa

    library = fa.Library(path)
    return {f"planned_{short}": Planned(library, dtype, dim)
            for short, dtype in (("bf16", "bfloat16"), ("f16", "float16"))}


def cudnn(q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    gqa = q.shape[2] != k.shape[2]

    def launch():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(qt, kt, vt, is_causal=causal, enable_gqa=gqa)

    return launch


def clock():
    try:
        import pynvml

        if not hasattr(clock, "handle"):
            pynvml.nvmlInit()
            clock.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return (pynvml.nvmlDeviceGetClockInfo(clock.handle, pynvml.NVML_CLOCK_SM),
                pynvml.nvmlDeviceGetPowerUsage(clock.handle) / 1000)
    except Exception:
        return (0, 0)


def measure(launch, count):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    launch()
    start.record()
    for _ in range(count):
        launch()
    stop.record()
    mhz, watts = clock()
    stop.synchronize()
    return start.elapsed_time(stop) / count, mhz, watts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cubins", nargs="?")
    parser.add_argument("--library")
    parser.add_argument("out")
    parser.add_argument("--fa3")
    parser.add_argument("--variants")
    parser.add_argument("--dims", default="64,128")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--points", default="16x1024,8x2048,4x4096,2x8192,1x16384")
    parser.add_argument("--causal", default="1,0")
    parser.add_argument("--budget-ms", type=float, default=6.0, help="device time of one measurement")
    parser.add_argument("--heads", help="heads/kv_heads instead of 2048/head_dim")
    args = parser.parse_args()
    torch.manual_seed(int(time.time()))
    results = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
               "date": time.strftime("%Y-%m-%d %H:%M"), "rounds": args.rounds, "points": []}
    for dim in map(int, args.dims.split(",")):
        names = args.variants.split(",") if args.variants else None
        if args.library:
            kernels = planned(args.library, dim)
        else:
            kernels = {n: k for n, k in driver.load_variants(args.cubins, names).items() if k.info["head_dim"] == dim}
        fa3 = None
        if args.fa3:
            try:
                fa3 = Fa3(args.fa3, dim)
            except OSError as error:
                print("no FA3:", error)
        for causal in (bool(int(c)) for c in args.causal.split(",")):
            for point in args.points.split(","):
                b, s = map(int, point.split("x"))
                h, h_kv = map(int, args.heads.split("/")) if args.heads else (2048 // dim, 2048 // dim)
                flops = 4 * b * h * s * s * dim / (2 if causal else 1)
                contestants = {}
                for dtype in sorted({k.info["dtype"] for k in kernels.values()} | {"bfloat16"}):
                    torch_type = getattr(torch, dtype)
                    q, k, v = (torch.randn(b, s, n, dim, device="cuda").to(torch_type) for n in (h, h_kv, h_kv))
                    o = torch.empty_like(q)
                    lse = torch.empty(b, h, s, device="cuda")
                    for name, kernel in kernels.items():
                        if kernel.info["dtype"] == dtype:
                            contestants[name] = kernel.prepare(q, k, v, o, lse, causal)
                    if dtype == "bfloat16":
                        if fa3:
                            contestants["fa3"] = fa3.prepare(q, k, v, o, lse, causal)
                        contestants["cudnn"] = cudnn(q, k, v, causal)
                times = {n: [] for n in contestants}
                clocks = {n: [] for n in contestants}
                end = time.time() + 0.05
                while time.time() < end:
                    for launch in contestants.values():
                        launch()
                    torch.cuda.synchronize()
                counts = {n: max(1, int(args.budget_ms / measure(f, 2)[0])) for n, f in contestants.items()}
                for _ in range(args.rounds):
                    order = list(contestants)
                    random.shuffle(order)
                    for n in order:
                        ms, mhz, watts = measure(contestants[n], counts[n])
                        times[n].append(ms)
                        clocks[n].append((mhz, watts))
                peers = [n for n in ("fa3", "cudnn") if n in times]
                line = {"dim": dim, "causal": causal, "point": point, "heads": f"{h}/{h_kv}", "contestants": {}}
                best = min(peers, key=lambda n: statistics.median(times[n]))
                text = []
                for n in sorted(times):
                    ratio = statistics.median(p / t for p, t in zip(times[best], times[n]))
                    ms = statistics.median(times[n])
                    line["contestants"][n] = {
                        "tflops": round(flops / ms / 1e9, 1), "ms": ms, "against_best_peer": round(ratio, 4),
                        "mhz": statistics.median(c[0] for c in clocks[n]),
                        "watts": statistics.median(c[1] for c in clocks[n])}
                    if isinstance(kernels.get(n), Planned):
                        line["contestants"][n]["kernel"] = kernels[n].kernel
                    text.append(f"{n} {flops / ms / 1e9:.0f} ({ratio:.3f}, {line['contestants'][n]['mhz']:.0f})")
                results["points"].append(line)
                print(f"d{dim} {'causal' if causal else 'full  '} {point:8s}", "; ".join(text), flush=True)
    with open(args.out, "w") as f:
        json.dump(results, f, indent=1)
    for dim in {x["dim"] for x in results["points"]}:
        for n in sorted({n for x in results["points"] if x["dim"] == dim for n in x["contestants"]}):
            r = [x["contestants"][n]["against_best_peer"] for x in results["points"] if x["dim"] == dim and n in x["contestants"]]
            print(f"d{dim} {n}: geometric mean {math.exp(sum(map(math.log, r)) / len(r)):.3f}, worst {min(r):.3f}")


if __name__ == "__main__":
    main()
