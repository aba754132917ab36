#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/mi300x.md from gfx942_model's counts.

    bench/gfx942_model/table.py BUILD

BUILD is a build tree with FLASHATTN_HIP on and gfx942_model built. Replaces what stands between the two marks.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/mi300x.md"
BEGIN, END = "<!-- gfx942_model: begin -->\n", "<!-- gfx942_model: end -->\n"
COLUMNS = [
    ("VALU/MFMA", r"VALU/MFMA ([\d.]+)\n  VALU between"),
    ("the same, causal block", r"all of it: VALU/MFMA ([\d.]+)"),
    ("VALU between MFMAs: mean", r"between MFMAs: mean ([\d.]+)"),
    ("longest", r"between MFMAs: .*longest (\d+)"),
    ("address VALU", r"address VALU (\d+)"),
    ("LDS / MFMA cycles", None),
    ("bank conflicts", r"bank conflict cycles per block and step: ([\d.]+)"),
    ("registers", r"(\d+) VGPRs"),
    ("scratch", r"(\d+) bytes of scratch"),
    ("LDS bytes", r"(\d+) bytes of LDS"),
    ("bound, TFLOP/s", r"(\d+) TFLOP/s with VALU under MFMA"),
]


def row(build, dtype, dim):
    image = build / f"backends/hip/{dtype}_d{dim}.co"
    text = subprocess.run([build / "gfx942_model", image, "fwd_plain", dtype, str(dim)], check=True, text=True,
                          capture_output=True).stdout
    cells = [f"{dtype} {dim}"]
    for _, pattern in COLUMNS:
        if pattern is None:
            lds = float(re.search(r"\((\d+) cycles per block\)", text).group(1))
            # The four SIMDs multiply side by side; they share one LDS.
            cells.append(f"{lds / float(re.search(r'MFMA [0-9]+ .([0-9]+) cycles', text).group(1)):.2f}")
        else:
            cells.append(re.search(pattern, text).group(1))
    return "| " + " | ".join(cells) + " |\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    lines = ["| kernel | " + " | ".join(name for name, _ in COLUMNS) + " |\n", "|---" * (len(COLUMNS) + 1) + "|\n"]
    lines += [row(build, dtype, dim) for dtype in ("bf16", "f16") for dim in (64, 128, 256)]
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(before + BEGIN + "".join(lines) + END + after)


if __name__ == "__main__":
    main()
