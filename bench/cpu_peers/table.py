#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of a bench/cpu_peers result, into the pages that have a place for it.

  table.py RESULT.json [PAGE.md...]      without pages: to standard output

The place is what stands between the lines `<!-- cpu_peers -->` and `<!-- /cpu_peers -->`.
"""

import json
import math
import pathlib
import re
import sys

PLACE = re.compile(r"^<!-- cpu_peers -->\n.*?^<!-- /cpu_peers -->$", re.M | re.S)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def with_range(ratio, form):
    return f"{form(ratio['median'])} ({form(ratio['lower_quartile'])} to {form(ratio['upper_quartile'])})"


def rows_of(result):
    peers = list(dict.fromkeys(run["name"] for case in result["cases"] for run in case["runs"] if run["name"] != "ours"))
    yield ["", "ours", *peers, "ours : best of them", "sgemm / read", "share of it"]
    for case in result["cases"]:
        rate = {run["name"]: run["rate"] * 1e-9 for run in case["runs"] + case["limits"]}
        unit = "GFLOP/s" if case["kind"] == "prefill" else "GB/s"
        yield [f"{case['case']}, {unit}", *(f"{rate[name]:.1f}" if name in rate else "" for name in ("ours", *peers)),
               with_range(case["to_best_peer"], "{:.2f}".format), f"{rate[case['limit']]:.1f}",
               with_range(case["to_limit"], "{:.0%}".format)]


def table(result, source):
    lines = ["| " + " | ".join(row) + " |" for row in rows_of(result)]
    lines.insert(1, "|" + "---|" * (lines[0].count("|") - 1))
    means = []
    for kind, dtype in (("prefill", "f32"), ("prefill", "bf16"), ("decode", "f32"), ("decode", "bf16")):
        ratios = [case["to_best_peer"]["median"] for case in result["cases"] if (case["kind"], case["dtype"]) == (kind, dtype)]
        if ratios:
            means.append(f"{dtype} {kind} {geometric_mean(ratios):.2f} (lowest {min(ratios):.2f})")
    kernel = result["contestants"]["ours"]["kernel"]
    lines += ["", f"{result['device_name']}, {result['threads']} threads, {kernel}, {result['rounds']} rounds, {result['date']}, load "
              f"{result['load_before']:.1f} before and {result['load_after']:.1f} after (`{source}`). Medians, of ratios with "
              f"their quartiles. Geometric means against the better peer: {', '.join(means)}."]
    return "\n".join(lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1])
    text = table(json.loads(source.read_text(encoding="utf-8")), source.as_posix())
    if len(sys.argv) == 2:
        print(text)
    for name in sys.argv[2:]:
        page = pathlib.Path(name)
        before = page.read_text(encoding="utf-8")
        if len(PLACE.findall(before)) != 1:
            sys.exit(f"table.py: {name} has {len(PLACE.findall(before))} places for the table; it must have one")
        page.write_text(PLACE.sub(lambda _: f"<!-- cpu_peers -->\n{text}\n<!-- /cpu_peers -->", before), encoding="utf-8")


if __name__ == "__main__":
    main()
