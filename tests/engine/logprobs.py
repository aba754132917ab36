# SPDX-License-Identifier: Apache-2.0
"""Runs prompts through llama-cpp-python in this process and writes what the model made of each token.

    logprobs.py ENGINE MODEL OUT [--forced REFERENCE] [--tokens N] [--prompts N] [--threads N]

OUT and REFERENCE are directories with a file for each prompt. Without --forced the continuation is greedy; with it, the
tokens are those of REFERENCE, whose files are waited for: the run that writes them may be at work. For each token: its
log-probability, the token with the largest one, and how far the second lies behind it. GGML_BACKEND_PATH says which
attention runs; its calls are counted.
"""

import argparse
import ctypes
import json
import os
import pathlib
import sys
import time

import numpy
from prompts import prompts


def log_softmax(logits):
    shifted = logits.astype(numpy.float64)
    shifted -= shifted.max()
    return shifted - numpy.log(numpy.exp(shifted).sum())


def look(logits, forced):
    """What is kept of one position; the token is forced unless that is None."""
    values = log_softmax(logits)
    second, first = numpy.argpartition(values, -2)[-2:]
    if values[second] > values[first]:
        first, second = second, first
    token = int(first) if forced is None else forced
    return {"token": token, "logprob": values[token], "best": int(first), "gap": values[first] - values[second]}


def read_when_there(path, seconds=3600):
    """The JSON of a file that another process will have renamed into place."""
    until = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.5)
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, value):
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(value), encoding="utf-8")
    unfinished.replace(path)


class Model:
    """The engine with one context, stepped token by token."""

    BATCH = 512

    def __init__(self, engine, model, threads):
        sys.path.insert(0, engine)
        import llama_cpp  # pylint: disable=import-outside-toplevel
        import llama_cpp._ggml  # pylint: disable=import-outside-toplevel

        self.api = llama_cpp
        plugin = os.environ.get("GGML_BACKEND_PATH")
        if plugin:
            llama_cpp._ggml.libggml.ggml_backend_load_all()  # pylint: disable=protected-access
        self.llama = llama_cpp.Llama(model, n_ctx=4096, n_batch=self.BATCH, n_ubatch=self.BATCH, n_threads=threads,
                                     n_threads_batch=threads, flash_attn=True, verbose=False)
        self.layers = int(self.llama.metadata["llama.block_count"])
        self.calls = None
        if plugin:
            self.calls = ctypes.CDLL(plugin).flashattn_ggml_calls
            self.calls.restype = ctypes.c_uint64

    def run(self, text, count, forced):
        """count tokens after text; forced gives them, else they are greedy."""
        tokens = self.llama.tokenize(text.encode(), add_bos=True, special=True)
        before = self.calls() if self.calls else 0
        self.llama.reset()
        self.llama.eval(tokens)
        steps = -(-len(tokens) // self.BATCH)
        rows = []
        for index in range(count):
            logits = self.api.llama_get_logits_ith(self.llama.ctx, -1)
            logits = numpy.ctypeslib.as_array(logits, shape=(self.llama.n_vocab(),))
            rows.append(look(logits, forced[index]["token"] if forced else None))
            if index + 1 < count:
                self.llama.eval([rows[-1]["token"]])
                steps += 1
        calls = int(self.calls() - before) if self.calls else None
        return {"prompt_tokens": len(tokens), "layers": self.layers, "steps": steps, "calls": calls, "rows": rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("model")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--forced", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    model = Model(arguments.engine, arguments.model, arguments.threads)
    for index, (name, text) in enumerate(prompts(arguments.prompts).items()):
        file = f"{index}.json"
        forced = read_when_there(arguments.forced / file)["rows"] if arguments.forced else None
        result = model.run(text, arguments.tokens, forced)
        write(arguments.out / file, {"name": name, **result})
        print(f"{name}: {result['prompt_tokens']} + {len(result['rows'])} tokens", flush=True)
    model.llama.close()


if __name__ == "__main__":
    main()
