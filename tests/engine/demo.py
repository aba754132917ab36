#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server on the plug-in, asked one question; tools/serve-demo is the command for it."""

import os
import pathlib
import sys
import tempfile

import engine
import openai
import server
import speed

QUESTION = "Explain in three sentences why the sea is salty."
PLUGIN = engine.ROOT / "build/release/libggml-flashattn.so"


def answer(running, question):
    """Prints the answer as it comes."""
    client = openai.OpenAI(base_url=running.url, api_key="none")
    stream = client.chat.completions.create(model=server.NAME, messages=[{"role": "user", "content": question}],
                                            max_tokens=120, temperature=0, stream=True)
    for chunk in stream:
        for choice in chunk.choices:
            print(choice.delta.content or "", end="", flush=True)
    print()


def main():
    question = " ".join(sys.argv[1:]) or QUESTION
    version = engine.VERSIONS[0]
    threads = min(2, os.cpu_count() or 1)
    print(f"Building llama-server of llama-cpp-python {version} and the plug-in (once) ...", flush=True)
    engine.build(version, "llama-server", jobs=os.cpu_count() or 1)
    if not (engine.ROOT / "build/release/build.ninja").exists():
        engine.call("cmake", "--preset", "release", cwd=engine.ROOT)
    engine.call("cmake", "--build", engine.ROOT / "build/release", "--target", "ggml-flashattn")
    binary = engine.directory(version) / "bin/llama-server"
    rates = {}
    with tempfile.TemporaryDirectory() as logs:
        for name, plugin in (("without", None), ("with", PLUGIN)):
            log = pathlib.Path(logs) / f"{name}.log"
            with server.serve(binary, engine.model(), log, plugin, threads, ("-np", "1")) as running:
                if plugin:
                    print(f"\n> {question}\n")
                    answer(running, question)
                speed.ask(running, 1000, 8, "warm up")
                rates[name] = speed.ask(running, 1000, 64, "demo")
        print(f"\n{running.calls()} attention calls were served by libflashattn.")
    print(f"Tokens per second on {threads} threads, after a prompt of 1000:")
    for name, rate in rates.items():
        print(f"  {name:8} the plug-in: prompt {rate['prompt_per_second']:7.1f}   generation "
              f"{rate['generated_per_second']:6.1f}")


if __name__ == "__main__":
    main()
