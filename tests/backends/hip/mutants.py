#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the tests of the HIP kernels: plants faults and demands that the interpreter or float64 notices.

    tests/backends/hip/mutants.py BUILD [--only TEXT] [--sample N] [--instructions N]

BUILD is a build tree with FLASHATTN_HIP on and hip_mutants built. Two kinds of faults:

 - in the sources of the kernel (MUTANTS below: mask, rescaling, swizzle, bounds), each compiled anew and judged by
   `hip_mutants check`;
 - in its machine code, every barrier and every wait and a sample of other instructions taken out: `hip_mutants sweep`.

--sample N: N of the source mutants, by chance, instead of all. --instructions N: other instructions to take out (150).
Exits 1 when fewer than 95 % of either kind are noticed, or a mutant does not compile or no longer matches its text.
"""

import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
KERNELS = "backends/hip/kernels/gfx942/"
GOAL = 0.95
ENTRY = """
#include "backends/hip/kernels/gfx942/fwd.h"
namespace flashattn::hip {
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(256, 256))) void fwd_plain(ForwardArgs args, int64_t) {
  forward<Bf16, 64, false>(args);
}
}
"""

# What it breaks, file, text, its replacement.
MUTANTS = [
    ("mask: one key too many at the end", "backends/gpu/ranges.h",
     "clamp64(position + right + 1, 0, n_k)", "clamp64(position + right + 2, 0, n_k)"),
    ("mask: one key too few at the begin", "backends/gpu/ranges.h",
     "clamp64(position - left, 0, n_k)", "clamp64(position - left + 1, 0, n_k)"),
    ("mask: the end is taken for the other lane half", KERNELS + "fwd.h",
     "row.visible.end - first_key - 8 * h", "row.visible.end - first_key - 8 * (1 - h)"),
    ("mask: a key at the end is let through", KERNELS + "fwd.h", "key < begin || key >= end", "key < begin || key > end"),
    ("mask: a key at the begin is hidden", KERNELS + "fwd.h", "key < begin || key >= end", "key <= begin || key >= end"),
    ("mask: left out in steps that hide only early keys", KERNELS + "fwd.h",
     "first_key < open.begin || first_key + T::kKeys > open.end", "first_key + T::kKeys > open.end"),
    ("mask: left out in steps that hide only late keys", KERNELS + "fwd.h",
     "first_key < open.begin || first_key + T::kKeys > open.end", "first_key < open.begin"),
    ("mask: a step the wave needs is skipped", KERNELS + "fwd.h",
     "first_key + T::kKeys > seen.begin", "first_key > seen.begin"),
    ("rescaling: O is not rescaled", KERNELS + "fwd.h", "o[t] *= rescale", "o[t] *= 1.0F"),
    ("rescaling: the sum is not rescaled", KERNELS + "softmax.h", "sum = sum * rescale + added", "sum = sum + added"),
    ("rescaling: by the new maximum only", KERNELS + "softmax.h",
     "exp2_fast((maximum - reference) * factor)", "exp2_fast(-reference * factor)"),
    ("softmax: the maximum ignores the other lane half", KERNELS + "softmax.h",
     "max_of(max_of(top, other_half(top)), maximum)", "max_of(top, maximum)"),
    ("softmax: the sum ignores the other lane half", KERNELS + "softmax.h", "return sum + other_half(sum)", "return sum"),
    ("softmax: the maximum of earlier steps is forgotten", KERNELS + "softmax.h",
     "max_of(max_of(top, other_half(top)), maximum)", "max_of(top, other_half(top))"),
    ("swizzle: K is not swizzled", KERNELS + "tiles.h",
     "(chunk ^ ((row & 3) | (row >> 1 & 4)))", "chunk"),
    ("swizzle: K is swizzled by too few bits", KERNELS + "tiles.h",
     "(chunk ^ ((row & 3) | (row >> 1 & 4)))", "(chunk ^ (row & 3))"),
    ("swizzle: V is not swizzled", KERNELS + "tiles.h", "(chunk ^ ((d ^ d >> 3) & 7))", "chunk"),
    ("swizzle: two chunks of V share a place", KERNELS + "tiles.h",
     "(chunk ^ ((d ^ d >> 3) & 7))", "(chunk & ~1)"),
    ("layout: the keys of S^T are not permuted", KERNELS + "fwd.h",
     "(j & 16) | (j >> 2 & 1) << 3 | (j >> 3 & 1) << 2 | (j & 3)", "j"),
    ("bounds: a key past the sequence is read", KERNELS + "tiles.h", "j < s.n_k ? j : s.n_k - 1", "j"),
    ("bounds: a row past the last is read", KERNELS + "fwd.h", "row < rows ? row : rows - 1", "row"),
    ("padding: dimensions past Q's are not cleared", KERNELS + "tiles.h",
     "return inside ? loaded : Dwords4{0, 0, 0, 0};", "return loaded;"),
    ("barrier: the next step overwrites what is being read", KERNELS + "fwd.h",
     "block_barrier();  // all have read", "// all have read"),
]


def cached(build, name):
    """The value of a CMake cache variable."""
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"mutants: {build} has no {name}; is FLASHATTN_HIP on there?")
    return found.group(1)


def flags():
    """FLASHATTN_AMDGPU_FLAGS, where the build has them from."""
    text = (ROOT / "cmake/amdgpu_tools.cmake").read_text()
    return re.search(r"set\(FLASHATTN_AMDGPU_FLAGS ([^)]*)\)", text).group(1).split()


def compile_kernel(tree, clang, image):
    """fwd_plain alone: compiling is nearly all of the time, and both entry points share what the mutants change."""
    source = tree / "mutant.hip"
    source.write_text(ENTRY)
    command = [clang, *flags(), "--offload-arch=gfx942", f"-I{tree}", f"-I{tree}/include", "-include",
               tree / "backends/hip/kernels/common/device.h", source, "-o", image]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)


def run_source_mutant(mutant, work, clang, checker):
    """noticed and how, survived, or what is wrong with the mutant itself."""
    _, file, old, new = mutant
    path = work / file
    before = path.read_text()
    if before.count(old) != 1:
        return "broken", f"{file} holds {before.count(old)} times: {old}"
    path.write_text(before.replace(old, new))
    try:
        image = work / "mutant.co"
        compiled = compile_kernel(work, clang, image)
        if compiled.returncode != 0:
            return "broken", compiled.stderr[-2000:]
        done = subprocess.run([checker, "check", image, "fwd_plain"], capture_output=True, text=True, check=False)
    finally:
        path.write_text(before)
    if done.returncode == 0:
        return "survived", ""
    if done.returncode == 3:
        return "noticed", done.stdout.strip().splitlines()[-1]
    return "broken", done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--instructions", type=int, default=150)
    parser.add_argument("--only", default="", help="source mutants whose name holds this")
    arguments = parser.parse_args()
    clang = cached(arguments.build, "FLASHATTN_AMDGPU_CLANG")
    checker = arguments.build.resolve() / "hip_mutants"
    mutants = [mutant for mutant in MUTANTS if arguments.only in mutant[0]]
    if arguments.sample is not None:
        mutants = random.sample(mutants, min(arguments.sample, len(mutants)))

    bad = False
    counts = {"noticed": 0, "survived": 0, "broken": 0}
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        for part in ("backends/hip/kernels", "backends/gpu", "include"):
            shutil.copytree(ROOT / part, work / part)
        for mutant in mutants:
            outcome, detail = run_source_mutant(mutant, work, clang, checker)
            counts[outcome] += 1
            print(f"{outcome:9} {mutant[0]}{': ' + detail if detail else ''}", flush=True)
    print(f"sources   {counts['noticed']} of {len(mutants)} noticed")
    bad = counts["broken"] > 0 or counts["noticed"] < GOAL * len(mutants)

    image = arguments.build / "backends/hip/bf16_d64.co"
    swept = subprocess.run([checker, "sweep", image, str(arguments.instructions)], check=False)
    return 1 if bad or swept.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
