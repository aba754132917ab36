#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `flashattn bench --json`, `flashattn ladder --json` and bench/cpu_peers printed, as SVG.

  plot.py RESULT.json PICTURE.svg

Needs matplotlib (Debian: python3-matplotlib). The same numbers give the same bytes.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.hashsalt": "flashattn",  # names of clip paths, otherwise random
    "svg.fonttype": "none",  # text stays text: small, and searchable
    "font.family": "sans-serif",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "legend.frameon": False,
})
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first)

COLOURS = {"naive": "#b2182b", "blocked": "#ef8a62", "fused": "#e6ab02", "flash": "#67a9cf",
           "tiled": "#ef8a62", "tensor": "#67a9cf", "library": "#2166ac"}


def size_axis(axis, sizes):
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{n // 1024}k" if n % 1024 == 0 else str(n) for n in sizes])
    axis.minorticks_off()


def draw_ladder(result, figure):
    times, memory = figure.subplots(1, 2)
    sizes = [size["n"] for size in result["sizes"]]
    for rung in [step["rung"] for step in result["sizes"][0]["rungs"]]:
        steps = [(size["n"], step) for size in result["sizes"] for step in size["rungs"] if step["rung"] == rung]
        style = {"marker": "o", "color": COLOURS[rung], "label": rung}
        ran = [(n, step["seconds"]["median"]) for n, step in steps if "seconds" in step]
        times.plot(*zip(*ran), **style)
        memory.plot([n for n, _ in steps], [step["intermediate_bytes"] / 2**20 for _, step in steps], **style)
    memory.plot(sizes, [size["o_bytes"] / 2**20 for size in result["sizes"]], color="grey", linestyle=":", label="O itself")
    for axis, title, unit in ((times, "time of one head", "seconds"), (memory, "intermediates beside O", "MiB")):
        size_axis(axis, sizes)
        axis.set_yscale("log")
        axis.set_title(title)
        axis.set_xlabel("rows n")
        axis.set_ylabel(unit)
    times.legend()
    memory.legend()
    mask = "causal" if result["causal"] else "full"
    where = result["device_name"] + (f", {result['threads']} threads" if result["threads"] else "")
    figure.suptitle(f"{result.get('dtype', 'float32')}, D = {result['head_dim']}, {mask}, {where}")


def draw_bench(result, figure):
    """FLOP/s over the number of keys, a panel for each mask and head dimension."""
    rows = [row for row in result["rows"] if "seconds" in row]
    panels = sorted({(row["head_dim"], row["causal"]) for row in rows})
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (dim, causal) in zip(axes, panels):
        mine = [row for row in rows if (row["head_dim"], row["causal"]) == (dim, causal)]
        sizes = sorted({row["seqlen_kv"] for row in mine})
        for dtype, kernel, threads in sorted({(row["dtype"], row["kernel"], row["threads"]) for row in mine}):
            line = [row for row in mine if (row["dtype"], row["kernel"], row["threads"]) == (dtype, kernel, threads)]
            line.sort(key=lambda row: row["seqlen_kv"])
            median = [row["flop_per_second"] * 1e-9 for row in line]
            spread = [[rate - rate * row["seconds"]["median"] / row["seconds"]["upper_quartile"]
                       for rate, row in zip(median, line)],
                      [rate * row["seconds"]["median"] / row["seconds"]["lower_quartile"] - rate
                       for rate, row in zip(median, line)]]
            label = f"{dtype}, {kernel}" + (f", {threads} threads" if threads else "")
            axis.errorbar([row["seqlen_kv"] for row in line], median, spread, marker="o", capsize=3, label=label)
        size_axis(axis, sizes)
        axis.set_title(f"D = {dim}, {'causal' if causal else 'full'}")
        axis.set_xlabel("keys")
    axes[0].set_ylabel("GFLOP/s")
    axes[0].set_ylim(bottom=0)
    axes[0].legend()
    figure.suptitle(f"libflashattn {result['version']}, {result['device_name']}")


def draw_peers(result, figure):
    """One group of bars for each case, one bar for each contestant."""
    kinds = (("prefill", "GFLOP/s", 1e-9), ("decode", "GB/s", 1e-9))
    panels = [(kind, unit, factor) for kind, unit, factor in kinds if any(c["kind"] == kind for c in result["cases"])]
    axes = figure.subplots(1, len(panels), squeeze=False,
                           width_ratios=[sum(c["kind"] == kind for c in result["cases"]) + 1 for kind, *_ in panels])[0]
    names = list(dict.fromkeys(run["name"] for case in result["cases"] for run in case["runs"]))
    for axis, (kind, unit, factor) in zip(axes, panels):
        cases = [case for case in result["cases"] if case["kind"] == kind]
        for i, name in enumerate(names):
            bars = [(x, run["rate"] * factor) for x, case in enumerate(cases) for run in case["runs"] if run["name"] == name]
            if bars:
                width = 0.8 / len(names)
                axis.bar([x + (i + 0.5) * width - 0.4 for x, _ in bars], [rate for _, rate in bars], width, label=name)
        axis.set_xticks(range(len(cases)), [case["case"] for case in cases], rotation=30, ha="right")
        axis.set_ylabel(unit)
        axis.legend()
    figure.suptitle(f"{result['device_name']}, {result['threads']} threads")


DRAW = {"ladder": (draw_ladder, (10, 4)), "bench": (draw_bench, (12, 4)), "cpu_peers": (draw_peers, (13, 5))}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    result = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    if result.get("command") not in DRAW:
        sys.exit(f"plot.py: {sys.argv[1]}: command is {result.get('command')!r}; known are {', '.join(DRAW)}")
    draw, size = DRAW[result["command"]]
    figure = pyplot.figure(figsize=size, layout="constrained")
    draw(result, figure)
    figure.savefig(sys.argv[2], metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
