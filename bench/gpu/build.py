# SPDX-License-Identifier: Apache-2.0
"""Compiles kernel variants to cubins and writes the table the harness launches them by.

    python3 build.py OUT_DIR fwd_sm90 ...       the kernels of the tree whose names begin so
    python3 build.py OUT_DIR NAME=dtype,head_dim,block_m,block_n,stages,query_buffers,reference[,-Dflag...] ...

dtype bf16 | f16; reference max | fixed. Prints registers and spills of each.
"""

import glob
import json
import os
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.environ.get("KERNELS", os.path.join(HERE, "../../backends/cuda/kernels/sm90"))


COMMON = ["nvcc", "-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", "-cubin"]
DTYPES = {"bf16": "bfloat16", "f16": "float16"}


def run(name, command):
    done = subprocess.run(command, capture_output=True, text=True)
    log = done.stdout + done.stderr
    if done.returncode:
        raise SystemExit(log)
    notes = re.findall(r"(\d+ bytes spill stores)|(Used \d+ registers)|(Potential Performance Loss.*)", log)
    print(name, "; ".join("".join(n) for n in notes), flush=True)


def build(out, spec):
    """An experiment: variant.cu with its configuration on the command line."""
    name, fields = spec.split("=", 1)
    dtype, dim, bm, bn, stages, query_buffers, reference, *flags = fields.split(",")
    element = {"bf16": "__nv_bfloat16", "f16": "__half"}[dtype]
    reference = {"max": "kRunningMax", "fixed": "kFixed"}[reference]
    target = os.path.join(out, name + ".cubin")
    run(name, COMMON + ["-o", target, f"-I{KERNELS}", f"-DELEMENT={element}", f"-DHEAD_DIM={dim}", f"-DBLOCK_M={bm}",
                        f"-DBLOCK_N={bn}", f"-DSTAGES={stages}", f"-DQUERY_BUFFERS={query_buffers}",
                        f"-DREFERENCE={reference}", *flags, os.path.join(HERE, "variant.cu")])
    shared = symbol_value(open(target, "rb").read(), b"variant_shared_bytes")
    return name, {"symbol": "variant", "dtype": DTYPES[dtype], "head_dim": int(dim), "block_m": int(bm),
                  "block_n": int(bn), "threads": 128 * (int(bm) // 64 + 1), "shared_bytes": shared}


def build_shipped(out, source):
    """A kernel that ships; its launch numbers come from geometry.h, which the kernel itself asserts."""
    name = os.path.basename(source)[:-3]
    run(name, COMMON + ["-o", os.path.join(out, name + ".cubin"), source])
    _, _, dtype, dim = name.split("_")
    table = open(os.path.join(KERNELS, "geometry.h")).read()
    rows = [list(map(int, r.split(","))) for r in re.findall(r"\{(\d+(?:, \d+){4})\}", table)]
    dim, bm, bn, threads, shared = next(r for r in rows if r[0] == int(dim[1:]))
    return name, {"symbol": name, "dtype": DTYPES[dtype], "head_dim": dim, "block_m": bm, "block_n": bn,
                  "threads": threads, "shared_bytes": shared}


def symbol_value(elf, wanted):
    shoff, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + i * size) for i in range(count)]
    for section in sections:
        if section[1] != 2:
            continue
        strings = sections[section[6]]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
            start = strings[4] + name
            if elf[start:elf.index(b"\0", start)] == wanted:
                return struct.unpack_from("<i", elf, sections[index][4] + value)[0]
    raise KeyError(wanted)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    table_path = os.path.join(out, "variants.json")
    table = json.load(open(table_path)) if os.path.exists(table_path) else {}
    with ThreadPoolExecutor(2) as pool:
        jobs = []
        for spec in sys.argv[2:]:
            if "=" in spec:
                jobs.append(pool.submit(build, out, spec))
            else:
                jobs += [pool.submit(build_shipped, out, f) for f in sorted(glob.glob(f"{KERNELS}/{spec}*.cu"))]
        table.update(job.result() for job in jobs)
    json.dump(table, open(table_path, "w"), indent=1)


if __name__ == "__main__":
    main()
