#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention over what layers of a real model handed to it, from a .safetensors file.

    python3 examples/python/smollm2.py tests/data/smollm2/layer09.safetensors

Reads q [tokens, heads, dim], k and v [tokens, heads_kv, dim] without copying them, computes causal attention, then the
same as a decoder would: the prompt at once and the last tokens one by one from the cache. Prints both and how far they
are apart. Needs numpy and flashattn.
"""

from __future__ import annotations

import json
import mmap
import sys
import time
from pathlib import Path

import numpy as np

import flashattn

DTYPES = {"F16": np.float16, "F32": np.float32}


def load(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a .safetensors file, as views of the mapped file."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    header_size = int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8 : 8 + header_size])
    header.pop("__metadata__", None)
    return {
        name: np.ndarray(entry["shape"], DTYPES[entry["dtype"]], mapped, 8 + header_size + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    tensors = load(Path(sys.argv[1]))
    q, k, v = (tensors[name][None] for name in "qkv")  # [1, tokens, heads, dim]
    tokens = q.shape[1]
    device = flashattn.devices()[-1]
    print(f"{tokens} tokens, {q.shape[2]} query heads, {k.shape[2]} KV heads, head_dim {q.shape[3]}, {q.dtype}, {device.name}")

    try:
        flashattn.attention(q, k, v, causal=True)  # the first call starts the threads
        began = time.perf_counter()
        whole, lse = flashattn.attention(q, k, v, causal=True, return_lse=True)
        took = time.perf_counter() - began
        decoded = [flashattn.attention(q[:, : tokens - 8], k[:, : tokens - 8], v[:, : tokens - 8], causal=True)]
        for seen in range(tokens - 7, tokens + 1):
            decoded.append(flashattn.attention(q[:, seen - 1 : seen], k[:, :seen], v[:, :seen], causal=True))
    except flashattn.Error as error:
        print(f"smollm2: {error}", file=sys.stderr)
        return 1

    difference = np.abs(np.concatenate(decoded, axis=1).astype("f4") - whole.astype("f4")).max()
    print(f"whole in {took * 1e3:.2f} ms, last row's LSE of head 0 is {lse[0, 0, -1]:.3f}")
    print(f"prompt and 8 decoded tokens differ from it by at most {difference:.1e}")
    return 0 if difference < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
