#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU kernels beside PyTorch's, llama.cpp's and the machine's own limits, in one run. README.md tells how.

  peers.py --library build/release/libflashattn.so [--ggml DIRECTORY] [--threads 2] [--rounds 9] [--only TEXT] --output FILE
"""

import argparse
import json
import pathlib
import platform
import random
import statistics
import sys
import time

import torch

import contestants

SGEMM = 2048
TURN = 0.05  # seconds of work a turn has at least
PAUSE = 0.03  # seconds; a thread pool that spins for work has given up by then


def make_cases():
    for dtype in ("f32", "bf16"):
        for dim in (64, 128):
            for causal in (False, True):
                for rows in (1024, 4096):
                    yield {"kind": "prefill", "dtype": dtype, "batch": 1, "heads": 4, "heads_kv": 4, "rows": rows,
                           "keys": rows, "dim": dim, "causal": causal,
                           "case": f"{dtype} D={dim} {'causal' if causal else 'full'} {rows // 1024}k"}
    for dtype in ("f32", "bf16"):
        yield {"kind": "decode", "dtype": dtype, "batch": 1, "heads": 32, "heads_kv": 8, "rows": 1, "keys": 32768, "dim": 128,
               "causal": True, "case": f"{dtype} decode 32k, 32/8 heads"}


def work_of(case):
    """FLOP of the visible pairs for prefill, bytes of K and V for decode."""
    if case["kind"] == "decode":
        return 2 * case["batch"] * case["heads_kv"] * case["keys"] * case["dim"] * (4 if case["dtype"] == "f32" else 2)
    rows = case["rows"]
    pairs = rows * (rows + 1) / 2 if case["causal"] else rows * rows
    return 4 * case["batch"] * case["heads"] * case["dim"] * pairs


def inputs(case):
    dtype = contestants.DTYPES[case["dtype"]]

    def tensor(rows, heads):
        return (torch.randn(case["batch"], rows, heads, case["dim"]) + 0.1).to(dtype)

    return tensor(case["rows"], case["heads"]), *(tensor(case["keys"], case["heads_kv"]) for _ in range(2))


def oracle(case, q, k, v):
    """A few query rows in float64, [rows picked], [their O]."""
    picked = sorted({0, case["rows"] // 3, case["rows"] - 1})
    group = case["heads"] // case["heads_kv"]
    q, k, v = (x.double() for x in (q[:, picked], k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * case["dim"] ** -0.5
    if case["causal"] and case["rows"] > 1:
        for i, row in enumerate(picked):
            scores[:, :, i, row + 1:] = float("-inf")
    return picked, torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def summary(seconds, work):
    lower, median, upper = statistics.quantiles(seconds, n=4)
    return {"rate": work / median, "seconds": {"median": median, "lower_quartile": lower, "upper_quartile": upper,
                                               "samples": len(seconds)}}


def ratio(above, below):
    """Of rates, round by round, from times."""
    lower, median, upper = statistics.quantiles([b / a for a, b in zip(above, below)], n=4)
    return {"median": median, "lower_quartile": lower, "upper_quartile": upper}


def measure(case, attention, limits, rounds):
    """attention and limits: name -> (run, work)."""
    everyone = {**attention, **limits}
    seconds = {name: [] for name in everyone}
    repeats = {}
    for name, (run, _) in everyone.items():
        run()  # pays for page faults
        begin = time.perf_counter()
        run()
        repeats[name] = max(1, round(TURN / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name in random.sample(sorted(everyone), len(everyone)):
            run = everyone[name][0]
            time.sleep(PAUSE)
            run()  # wakes the threads and warms the caches
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((time.perf_counter() - begin) / repeats[name])
    result = dict(case)
    result["runs"] = [{"name": name, **summary(seconds[name], everyone[name][1])} for name in attention]
    result["limits"] = [{"name": name, **summary(seconds[name], everyone[name][1])} for name in limits]
    peers = [name for name in attention if name != "ours"]
    best = min(peers, key=lambda name: statistics.median(seconds[name]))
    result["best_peer"] = best
    result["to_best_peer"] = ratio(seconds["ours"], seconds[best])
    limit = min(limits, key=lambda name: statistics.median(seconds[name]))
    factor = everyone["ours"][1] / everyone[limit][1]
    result["to_limit"] = {key: value * factor for key, value in ratio(seconds["ours"], seconds[limit]).items()}
    result["limit"] = limit
    return result


def load():
    """Runnable threads over the last minute: above 1 or so the figures are those of a busy machine."""
    return float(pathlib.Path("/proc/loadavg").read_text().split()[0])


def main():
    before = load()
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--ggml")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)

    players = {"ours": contestants.Ours(arguments.library, arguments.threads), "torch": contestants.Torch()}
    if arguments.ggml:
        players["ggml"] = contestants.Ggml(arguments.ggml, arguments.threads)
    sgemm = {"torch sgemm": contestants.sgemm_torch(SGEMM), "openblas sgemm": contestants.sgemm_openblas(SGEMM, arguments.threads)}
    sgemm = {name: (run, 2 * SGEMM**3) for name, run in sgemm.items() if run is not None}
    results, about = [], {}
    cases = [case for case in make_cases() if arguments.only in case["case"]]
    for number, case in enumerate(cases, 1):
        print(f"[{number}/{len(cases)}] {case['case']}", file=sys.stderr, flush=True)
        q, k, v = inputs(case)
        picked, expected = oracle(case, q, k, v)
        attention = {}
        for name, player in players.items():
            run, words = player.prepare(case, q, k, v)
            about.setdefault(name, {}).update(words)
            error = (run()[:, picked].double() - expected).abs().max().item()
            # Whoever computes something else is not compared; bf16 has 8 bits.
            if not error < (1e-2 if case["dtype"] == "bf16" or name == "ggml" else 1e-4):
                sys.exit(f"{name}, {case['case']}: the error is {error}")
            attention[name] = (run, work_of(case))
        limits = {"read": contestants.read_memory()} if case["kind"] == "decode" else sgemm
        results.append(measure(case, attention, limits, arguments.rounds))
    names = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    root = {"command": "cpu_peers", "device_name": names[0] if names else platform.processor(), "threads": arguments.threads,
            "rounds": arguments.rounds, "date": time.strftime("%Y-%m-%d"), "load_before": before, "load_after": load(),
            "contestants": about, "cases": results}
    pathlib.Path(arguments.output).write_text(json.dumps(root, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
