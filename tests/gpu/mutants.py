# SPDX-License-Identifier: Apache-2.0
"""Deliberate faults in the Hopper kernels, each compiled, run on bench/gpu/check.py's table and to be noticed within 20
runs; and delays alone, which must change nothing.

    python3 mutants.py WORK_DIR [NAME...]

A wrong result, a fault and a hang all count as noticed. Needs nvcc, PyTorch and a GPU of compute capability 9.0."""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
RUNS = 20
SECONDS = 60  # of one run: the table takes about ten

# What a slow warp, a slow copy or a slow block would do, on top of a mutant: (file, text, replacement).
SLOW_CONSUMER = ("consumer.cuh", "  soften<C, kReference, kN>(p, place, 0,",
                 "  if (threadIdx.x / 128 == 1) __nanosleep(3000);\n  soften<C, kReference, kN>(p, place, 0,")
SLOW_STORE = ("producer.cuh", "      ptx::tma_store_commit();", "      __nanosleep(5000);\n      ptx::tma_store_commit();")
DELAYS = {"none": [], "slow consumer": [SLOW_CONSUMER], "slow store": [SLOW_STORE]}

# name: kernel, delay, file, text, replacement. The text occurs once.
MUTANTS = {
    "missing barrier: K is used before it has landed": (
        "fwd_sm90_bf16_d128", "none", "consumer.cuh",
        "    if (!seen) ptx::mbarrier_wait(&s.k_full[slot(block)], parity(block));", ""),
    "missing barrier: V is used before it has landed": (
        "fwd_sm90_bf16_d128", "none", "consumer.cuh",
        "    if (!seen) ptx::mbarrier_wait(&s.v_full[slot(block)], parity(block));", ""),
    "stale stage: the loader does not wait for K's readers": (
        "fwd_sm90_bf16_d128", "slow consumer", "producer.cuh",
        "        ptx::mbarrier_wait_asleep(&s.k_empty[k.slot], k.phase ^ 1);\n", ""),
    "early release: V goes back before its product has ended": (
        "fwd_sm90_bf16_d64", "slow consumer", "consumer.cuh",
        "    soften<C, kReference, kN>(p, place, n, n >= range.all_visible, false, r);\n    pipe.release_v(block + n - 1);",
        "    pipe.release_v(block + n - 1);\n    soften<C, kReference, kN>(p, place, n, n >= range.all_visible, false, r);"),
    "the stored rows are not waited for": (
        "fwd_sm90_bf16_d64", "slow store", "producer.cuh",
        "        ptx::mbarrier_wait_asleep(&s.o_full[q.slot][w], q.phase);\n", ""),
    "lost rescale: O keeps the old reference": (
        "fwd_sm90_bf16_d128", "none", "consumer.cuh",
        "    scale_rows<kCount>(r.scores, factor);\n    scale_rows<kOutCount>(r.out, factor);",
        "    scale_rows<kCount>(r.scores, factor);"),
    "mask off by one": (
        "fwd_sm90_bf16_d64", "none", "mask.cuh", "min(p.n_k, row + p.diagonal + 1)", "min(p.n_k, row + p.diagonal + 2)"),
    "the last block is not masked": (
        "fwd_sm90_bf16_d64", "none", "schedule.cuh", "return {end, least / kBlockN,", "return {end, (least + kBlockN - 1) / kBlockN,"),
    "the redo is left out": (
        "fwd_sm90_bf16_d128", "none", "consumer.cuh",
        "if (out_of_range(r.out, r.rows) && pipe.signals)", "if (false && out_of_range(r.out, r.rows) && pipe.signals)"),
    "the redo keeps the fixed reference": (
        "fwd_sm90_bf16_d128", "none", "consumer.cuh",
        "if (C::kReference == Reference::kRunningMax || work.tile.redo != 0) {", "if (C::kReference == Reference::kRunningMax) {"),
    "the counter is not set back": (
        "fwd_sm90_bf16_d64", "none", "schedule.cuh", "if (drawn == p.total_tiles - 1) *p.tile_counter = 0;", ""),
    "the queries' buffer goes back too early": (
        "fwd_sm90_bf16_d256", "slow consumer", "consumer.cuh",
        "    if (n + 1 == range.end) pipe.release_q();", "    if (n == 1) pipe.release_q();"),
}


def build(work, name, kernel, edits):
    """A cubin of the edited kernel, in a folder of its own with its variants.json."""
    folder = os.path.join(work, "".join(x if x.isalnum() else "_" for x in name))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "backends/cuda/kernels"), folder + "/kernels")
    for file, text, replacement in edits:
        path = f"{folder}/kernels/sm90/{file}"
        source = open(path).read()
        if source.count(text) != 1:
            raise SystemExit(f"{name}: its text occurs {source.count(text)} times in {file}")
        open(path, "w").write(source.replace(text, replacement))
    subprocess.run([sys.executable, f"{ROOT}/bench/gpu/build.py", folder, kernel], check=True, capture_output=True,
                   env={**os.environ, "KERNELS": f"{folder}/kernels/sm90"})
    return folder


def passes(folder, kernel):
    try:
        done = subprocess.run([sys.executable, f"{ROOT}/bench/gpu/check.py", folder, kernel], capture_output=True,
                              timeout=SECONDS)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main():
    work, *names = sys.argv[1:]
    jobs = [(f"delay alone: {name}", "fwd_sm90_bf16_d64", edits) for name, edits in DELAYS.items()]
    for name, (kernel, delay, *edit) in MUTANTS.items():
        jobs.append((name, kernel, DELAYS[delay] + [tuple(edit)]))
    jobs = [x for x in jobs if not names or x[0] in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = list(pool.map(lambda job: build(work, *job), jobs))
    faults = 0
    for (name, kernel, _), folder in zip(jobs, folders):
        if name.startswith("delay alone"):
            good = passes(folder, kernel)
            print(f"{'ok      ' if good else 'FAILED  '} {name}", flush=True)
        else:
            run = next((n for n in range(1, RUNS + 1) if not passes(folder, kernel)), None)
            good = run is not None
            print(f"{f'killed in run {run}' if good else 'survived'}: {name}", flush=True)
        faults += not good
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
