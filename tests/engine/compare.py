#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the log-probabilities that logprobs.py wrote against those of a run with attention in f64.

    compare.py STOCK F64 RUN [PROMPTS]    directories of one engine and the same tokens; exits 1 when RUN breaks a rule

For each prompt, RUN may be at most twice as far from F64 as STOCK is, in the root mean square over the tokens and in the
largest distance. Where the most likely token differs between RUN and STOCK, the two best of STOCK must lie closer
together than that largest distance allows. RUN's attention calls must number its layers times its steps.
"""

import json
import math
import pathlib
import sys


def read(directory, count):
    files = [pathlib.Path(directory) / f"{index}.json" for index in range(count)]
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def distances(run, yardstick):
    """Root mean square and largest distance of the log-probabilities of the same tokens."""
    apart = [a["logprob"] - b["logprob"] for a, b in zip(run["rows"], yardstick["rows"])]
    return math.sqrt(sum(value * value for value in apart) / len(apart)), max(abs(value) for value in apart)


def faults_of(stock, f64, run):
    """What RUN breaks on one prompt, and a line of figures."""
    faults = []
    assert [row["token"] for row in stock["rows"]] == [row["token"] for row in run["rows"]], "not the same tokens"
    stock_rms, stock_max = distances(stock, f64)
    rms, largest = distances(run, f64)
    if rms > 2 * stock_rms:
        faults.append(f"rms {rms:.2g} from f64; twice the engine's is {2 * stock_rms:.2g}")
    if largest > 2 * stock_max:
        faults.append(f"{largest:.2g} from f64 at most; twice the engine's is {2 * stock_max:.2g}")
    other = [a["gap"] for a, b in zip(stock["rows"], run["rows"]) if a["best"] != b["best"]]
    if other and max(other) > 2 * stock_max:
        faults.append(f"another token although the two best are {max(other):.2g} apart; allowed is {2 * stock_max:.2g}")
    if run["calls"] != run["layers"] * run["steps"]:
        faults.append(f"{run['calls']} calls, not {run['layers']} layers * {run['steps']} steps")
    line = (f"{run['name']:24} {run['prompt_tokens']:5} + {len(run['rows'])} tokens  engine {stock_rms:.1e} {stock_max:.1e}  "
            f"run {rms:.1e} {largest:.1e}  {len(other)} other tokens, gap {max(other, default=0):.1e}  {run['calls']} calls")
    return faults, line


def compare(stock, f64, run, count=10):
    """All faults, printing a line of figures (root mean square and largest distance) for each of count prompts."""
    runs = list(zip(read(stock, count), read(f64, count), read(run, count)))
    faults = []
    for triple in runs:
        found, line = faults_of(*triple)
        print(line)
        faults += [f"{triple[0]['name']}: {fault}" for fault in found]
    return faults


if __name__ == "__main__":
    problems = compare(*sys.argv[1:4], *map(int, sys.argv[4:]))
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
