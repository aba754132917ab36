#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that needs a real engine; tools/test-engine is the command for it."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

import engine

ROOT = engine.ROOT
HERE = engine.HERE
PLUGINS = ROOT / "build/release"
PLUGIN = PLUGINS / "libggml-flashattn.so"
F64 = PLUGINS / "libggml-flashattn-f64.so"
BROKEN = PLUGINS / "libggml-flashattn-no_rescale.so"
OUT = engine.BUILD / "out"
LAYERS = 30  # of the model


class Report:
    """Counts checks and prints each."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def add(self, name, fault):
        if fault:
            self.failed += 1
        else:
            self.passed += 1
        print(f"{'FAIL' if fault else 'pass'}  {name}" + (f": {fault}" if fault else ""), flush=True)


def build_plugins(jobs):
    if not (PLUGINS / "build.ninja").exists():
        engine.call("cmake", "--preset", "release", cwd=ROOT)
    engine.call("cmake", "--build", PLUGINS, "--parallel", jobs, "--target", "ggml-flashattn", "ggml-flashattn-f64",
                "ggml-flashattn-no_rescale")


def with_plugin(plugin):
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    if plugin:
        environment["GGML_BACKEND_PATH"] = str(plugin)
    return environment


def check_interface(report, version):
    """Our declarations against the engine's headers."""
    ggml = engine.sources(version) / "ggml"
    done = subprocess.run(["c++", "-std=c++17", "-fsyntax-only", f"-I{ROOT}", f"-I{ggml / 'include'}", f"-I{ggml / 'src'}",
                           str(HERE / "abi_check.cpp")], capture_output=True, text=True, check=False)
    report.add(f"{version}: the interface is as declared", done.stderr[-500:] if done.returncode else "")


def check_operations(report, version, quick):
    """ggml's own cases of the op, computed by the plug-in and by the engine."""
    program = engine.build_op_test(version)
    cases = ["-p", "hsk=64,hsv=64"] if quick else []
    done = subprocess.run([str(program), "test", "-o", "FLASH_ATTN_EXT", "-b", "FlashAttn", *cases], check=False,
                          env=with_plugin(PLUGIN), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (OUT / f"operations-{version}.log").write_text(done.stdout, encoding="utf-8")
    found = re.search(r"(\d+)/(\d+) tests passed", done.stdout)
    good = done.returncode == 0 and found and found[1] == found[2] and int(found[1]) > 0
    served = re.search(r"flashattn: (\d+) attention calls served", done.stdout)
    name = f"{version}: ggml's own cases of attention" + (f", {found[0]}" if found else "")
    report.add(name, "" if good and served else f"see {OUT / f'operations-{version}.log'}")


@contextlib.contextmanager
def start_server(name, plugin, threads):
    import server  # pylint: disable=import-outside-toplevel

    binary = engine.directory(engine.VERSIONS[0]) / "bin/llama-server"
    with server.serve(binary, engine.model(), OUT / f"server-{name}.log", plugin, threads) as running:
        yield running


def check_probe(report, threads):
    """The same checks pass with the engine's attention, ours and the broken one, which the probe cannot tell apart."""
    import probe  # pylint: disable=import-outside-toplevel
    import server  # pylint: disable=import-outside-toplevel

    results = {}
    for name, plugin in (("stock", None), ("plugin", PLUGIN), ("broken", BROKEN)):
        print(f"-- probe of llama-server, {name}", flush=True)
        with start_server(name, plugin, threads) as running:
            results[name] = probe.run(running.url, server.NAME)
        (OUT / f"probe-{name}.json").write_text(json.dumps(results[name], indent=1), encoding="utf-8")
        if plugin:
            calls = running.calls()
            report.add(f"probe, {name}: {calls} calls are a multiple of the {LAYERS} layers",
                       "" if calls > 0 and calls % LAYERS == 0 else "they are not")
    own = [check for check, reason in results["stock"].items() if reason]
    print(f"-- the engine itself fails {len(own)} checks: {', '.join(own)}")
    for name in ("plugin", "broken"):
        other = [check for check in results["stock"] if bool(results["stock"][check]) != bool(results[name][check])]
        report.add(f"probe, {name}: passes {len(results[name]) - len(own)} and fails {len(own)} as the engine does",
                   f"not the same: {', '.join(other)}" if other else "")


def check_numbers(report, quick, threads):
    """Log-probabilities of forced tokens against attention in f64, and the count of calls."""
    import compare  # pylint: disable=import-outside-toplevel

    tokens, prompts = (40, 2) if quick else (300, 10)
    version = engine.VERSIONS[0]
    for name, plugin in (("stock", None), ("f64", F64), ("plugin", PLUGIN), ("broken", BROKEN)):
        began = time.monotonic()
        forced = [] if name == "stock" else ["--forced", OUT / "stock"]
        engine.call(engine.PYTHON, HERE / "logprobs.py", engine.package(version), engine.model(), OUT / name, *forced,
                    "--tokens", tokens, "--prompts", prompts, "--threads", threads, env=with_plugin(plugin))
        print(f"-- {name}: {prompts} prompts, {tokens} tokens each, {time.monotonic() - began:.0f} s", flush=True)
    faults = compare.compare(OUT / "stock", OUT / "f64", OUT / "plugin", prompts)
    report.add("log-probabilities, greedy choices and calls", "; ".join(faults))
    faults = compare.compare(OUT / "stock", OUT / "f64", OUT / "broken", prompts)
    report.add(f"the broken kernel is caught, by {len(faults)} faults", "" if faults else "it is not")


STEPS = ("interface", "operations", "probe", "numbers")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=STEPS)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    for step in arguments.only:
        if step not in STEPS:
            parser.error(f"unknown step '{step}'; known are {', '.join(STEPS)}")
    OUT.mkdir(parents=True, exist_ok=True)
    versions = engine.VERSIONS[:1] if arguments.quick else engine.VERSIONS
    report = Report()
    build_plugins(arguments.jobs)
    for version in versions:
        engine.download(version)
        if "interface" in arguments.only:
            check_interface(report, version)
        if "operations" in arguments.only:
            engine.build(version, "ggml", jobs=arguments.jobs)
            check_operations(report, version, arguments.quick)
    if "probe" in arguments.only or "numbers" in arguments.only:
        engine.build(engine.VERSIONS[0], "llama-server", jobs=arguments.jobs)
    if "probe" in arguments.only:
        check_probe(report, arguments.threads)
    if "numbers" in arguments.only:
        check_numbers(report, arguments.quick, arguments.threads)
    print(f"{report.passed} passed, {report.failed} failed")
    raise SystemExit(report.failed != 0)


if __name__ == "__main__":
    main()
