#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of llama-server with and without the plug-in, by the server's own timings.

    speed.py BINARY MODEL PLUGIN [--threads N] [--rounds N] [--prompts 1000,2000] [--generate N] [--json FILE]

Both servers run; the one that is not asked sleeps. They are asked in turn, the order swapped every round, with prompts
that nothing is cached of. Figures are medians over the rounds; the processor time of the whole process is kept beside
the server's timings, as it hardly moves when the machine is shared.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import tempfile

import httpx
import server


def ask(running, count, generate, seed):
    """One request of count random tokens; the server's timings and the processor seconds of each part."""
    tokens = random.Random(seed).choices(range(1000, 40000), k=count)
    result = {}
    for part, limit in (("prompt", 1), ("generation", generate)):
        before = running.cpu_seconds()
        body = {"prompt": tokens, "n_predict": limit, "temperature": 0, "cache_prompt": part == "generation",
                "ignore_eos": True}
        answer = httpx.post(running.base + "/completion", json=body, timeout=1200)
        answer.raise_for_status()
        timings = answer.json()["timings"]
        seconds = running.cpu_seconds() - before
        if part == "prompt":
            result["prompt_per_second"] = timings["prompt_per_second"]
            result["prompt_cpu_seconds"] = seconds
        else:
            result["generated_per_second"] = timings["predicted_per_second"]
            result["generated_cpu_seconds"] = seconds
    return result


def measure(servers, arguments):
    rows = []
    for count in arguments.prompts:
        samples = {name: [] for name in servers}
        for turn in range(arguments.rounds + 1):
            for name in list(servers) if turn % 2 else reversed(list(servers)):
                sample = ask(servers[name], count, arguments.generate, f"{count} {turn}")
                if turn > 0:  # the first round warms up
                    samples[name].append(sample)
        row = {"prompt_tokens": count, "generated_tokens": arguments.generate}
        for name, values in samples.items():
            row[name] = {key: statistics.median(sample[key] for sample in values) for key in values[0]}
            row[name]["samples"] = values
        row["prompt_speedup"] = row["plugin"]["prompt_per_second"] / row["stock"]["prompt_per_second"]
        row["generation_speedup"] = row["plugin"]["generated_per_second"] / row["stock"]["generated_per_second"]
        row["prompt_cpu_speedup"] = row["stock"]["prompt_cpu_seconds"] / row["plugin"]["prompt_cpu_seconds"]
        row["generation_cpu_speedup"] = row["stock"]["generated_cpu_seconds"] / row["plugin"]["generated_cpu_seconds"]
        print(f"{count:5} tokens: prompt {row['stock']['prompt_per_second']:.1f} -> {row['plugin']['prompt_per_second']:.1f}"
              f" /s ({row['prompt_speedup']:.2f}x; processor time {row['prompt_cpu_speedup']:.2f}x), generation "
              f"{row['stock']['generated_per_second']:.1f} -> {row['plugin']['generated_per_second']:.1f} /s "
              f"({row['generation_speedup']:.2f}x; {row['generation_cpu_speedup']:.2f}x)", flush=True)
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("plugin", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompts", type=lambda text: [int(part) for part in text.split(",")], default=[1000, 2000])
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as logs:
        logs = pathlib.Path(logs)
        one_slot = ("-np", "1")
        with server.serve(arguments.binary, arguments.model, logs / "stock.log", None, arguments.threads, one_slot) as stock, \
                server.serve(arguments.binary, arguments.model, logs / "plugin.log", arguments.plugin.resolve(),
                             arguments.threads, one_slot) as plugin:
            load = os.getloadavg()[0]
            rows = measure({"stock": stock, "plugin": plugin}, arguments)
        if plugin.calls() == 0:
            raise SystemExit("speed: the plug-in served no call")
    if arguments.json:
        result = {"what": "llama-server, its own attention and the plug-in, in turn", "threads": arguments.threads,
                  "rounds": arguments.rounds, "machine": platform.processor() or platform.machine(),
                  "load_before": load, "rows": rows}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
