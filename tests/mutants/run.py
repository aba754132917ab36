#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the conformance suite: applies each mutant of table.py to a copy of the sources and demands that it fails.

    tests/mutants/run.py [--sample N] [--only TEXT] [--seed N] [--build DIR]
    tests/mutants/run.py --match      only looks whether each mutant still finds its text

Copies the tree to a scratch directory, builds it once and runs the tests unchanged (they must pass), then for each
mutant changes one file, rebuilds what depends on it, runs the tests that mutant names and restores the file. Prints
killed or survived for each; exits 1 when one survives, no longer matches its text or does not compile.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from table import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_COPIED = (".git", "build", "dist", ".cache", "__pycache__")
# Compiling is most of the time.
SIMD_LEVEL = ("backends/cpu/CMakeLists.txt", "set(simd_optimisation -O3)", "set(simd_optimisation -O1)")
LONGEST_RUN = 1200  # seconds
TEST_LIST = """# SPDX-License-Identifier: Apache-2.0
add_subdirectory(support)
add_subdirectory(conformance)
"""


def copy_tree(work):
    """The sources, with the list of tests cut down to the conformance suite."""
    shutil.copytree(ROOT, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
    (work / "tests/CMakeLists.txt").write_text(TEST_LIST)
    replace_once(work, *SIMD_LEVEL)


def replace_once(work, file, old, new):
    """Replaces old by new in file and returns the text before; ValueError unless old occurs exactly once."""
    path = work / file
    before = path.read_text()
    if before.count(old) != 1:
        raise ValueError(f"{file} holds {before.count(old)} times: {old}")
    path.write_text(before.replace(old, new))
    return before


def configure(work, build):
    command = ["cmake", "-S", work, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1",
               "-DFLASHATTN_TOOLS=OFF"]
    if shutil.which("ccache"):
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def compile_suite(build):
    """None, or the compiler's complaint."""
    done = subprocess.run(["ninja", "-C", build, "-j2", "flashattn_conformance"], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout[-3000:]


def run_suite(build, tests, seed, limit):
    """Whether the tests pass within so many seconds. A crash or a hang is a failure like any other."""
    command = [build / "flashattn_conformance", f"--test-case={tests}", f"--seed={seed}", "--abort-after=1",
               "--backend=cpu"]
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=limit).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def try_mutant(mutant, work, build, seed, limit):
    """killed, survived, or what is wrong with the mutant itself."""
    try:
        before = replace_once(work, mutant.file, mutant.old, mutant.new)
    except (ValueError, OSError) as error:
        return f"stale: {error}"
    try:
        complaint = compile_suite(build)
        if complaint:
            return f"does not compile: {complaint}"
        return "survived" if run_suite(build, mutant.tests, seed, limit) else "killed"
    finally:
        (work / mutant.file).write_text(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, drawn by --seed")
    parser.add_argument("--only", metavar="TEXT", help="only mutants whose name holds TEXT")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--build", metavar="DIR", help="use and keep DIR for the copy and its build")
    parser.add_argument("--match", action="store_true", help="only look whether each mutant still finds its text")
    options = parser.parse_args()
    if options.match:
        stale = [m for m in MUTANTS if (ROOT / m.file).read_text().count(m.old) != 1]
        for mutant in stale:
            print(f"stale: {mutant.name}: {mutant.file} does not hold its text exactly once")
        print(f"{len(MUTANTS) - len(stale)} of {len(MUTANTS)} mutants match")
        return 1 if stale else 0

    mutants = [m for m in MUTANTS if not options.only or options.only in m.name]
    if options.sample and options.sample < len(mutants):
        # Neighbours in the table share their file: in order, half of the rebuilds are cheap.
        chosen = set(random.Random(options.seed).sample(range(len(mutants)), options.sample))
        mutants = [m for n, m in enumerate(mutants) if n in chosen]

    work = pathlib.Path(options.build or tempfile.mkdtemp(prefix="flashattn-mutants-"))
    begin = time.monotonic()
    os.environ.update(CCACHE_BASEDIR=str(work), CCACHE_NOHASHDIR="1")  # hits whatever the directory is called
    try:
        copy_tree(work)
        build = work / "build"
        configure(work, build)
        complaint = compile_suite(build)
        if complaint:
            print(complaint)
            return 1
        patterns = ",".join(sorted({pattern for m in mutants for pattern in m.tests.split(",")}))
        started = time.monotonic()
        if not run_suite(build, patterns, options.seed, LONGEST_RUN):
            print(f"the tests fail without a mutant (seed {options.seed})")
            return 1
        # What takes so much longer than all tests without a mutant hangs, however busy the machine.
        limit = 60 + 10 * (time.monotonic() - started)
        bad = []
        for number, mutant in enumerate(mutants, 1):
            started = time.monotonic()
            verdict = try_mutant(mutant, work, build, options.seed, limit)
            seconds = time.monotonic() - started
            print(f"[{number}/{len(mutants)}] {verdict:8} {mutant.name} ({seconds:.1f} s)", flush=True)
            if verdict != "killed":
                bad.append(mutant.name)
        print(f"{len(mutants) - len(bad)} of {len(mutants)} mutants killed in {time.monotonic() - begin:.0f} s, "
              f"seed {options.seed}")
        for name in bad:
            print(f"not killed: {name}")
        return 1 if bad else 0
    finally:
        if not options.build:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
