#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tiny call on the CPU costs from Python, beside the C call inside it, in microseconds.

    bindings/python/bench/overhead.py [--limit 15]

The least of many short runs, so that other work on the machine counts little. With --limit the program fails when a
plain call from numpy takes longer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

import flashattn
from flashattn import _core, _library


def least(call: Callable[[], object], seconds: float = 1.0, calls: int = 20) -> float:
    """Microseconds per call in the fastest of the runs that fit into ``seconds``."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter_ns() - began) / calls)
    return best / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=float("inf"), help="microseconds that a plain call may take")
    arguments = parser.parse_args()

    x = np.ones((1, 1, 1, 16), "f4")
    bias = np.zeros((1, 1), "f4")
    handle = _library.default().handle(_library.BACKENDS["cpu"], 0)
    flashattn.attention(x, x, x)
    prepared = next(iter(_core._prepared.values()))
    slot = prepared.take()
    slot.q.data = slot.k.data = slot.v.data = x.ctypes.data
    out = np.empty_like(x)
    slot.o.data = out.ctypes.data
    attention = handle.library.attention
    rows = {
        "the C call alone, by ctypes": lambda: attention(handle.pointer, prepared.problem_ref, slot.ref, 0),
        "numpy": lambda: flashattn.attention(x, x, x),
        "numpy, causal": lambda: flashattn.attention(x, x, x, causal=True),
        "numpy, return_lse": lambda: flashattn.attention(x, x, x, return_lse=True),
        "numpy, out=": lambda: flashattn.attention(x, x, x, out=out),
        "numpy, bias": lambda: flashattn.attention(x, x, x, bias=bias),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        t = torch.ones(1, 1, 1, 16)
        import flashattn.torch as drop_in

        rows["torch"] = lambda: flashattn.attention(t, t, t)
        rows["torch, scaled_dot_product_attention of ours"] = lambda: drop_in.scaled_dot_product_attention(t, t, t)
        rows["torch's own scaled_dot_product_attention"] = lambda: torch.nn.functional.scaled_dot_product_attention(t, t, t)
    found = {}
    for name, call in rows.items():
        call()
        found[name] = least(call)
        print(f"{found[name]:8.2f} us  {name}")
    if found["numpy"] > arguments.limit:
        print(f"overhead: a call from numpy takes {found['numpy']:.2f} us; at most {arguments.limit} was asked for", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
