# SPDX-License-Identifier: Apache-2.0
"""Runs prompts through llama-cpp-python in this process and writes what the model made of each token.

    logprobs.py ENGINE MODEL OUT.json [--forced REFERENCE.json] [--tokens N] [--prompts N] [--threads N]

Without --forced the continuation is greedy; with it, the tokens are those of an earlier OUT.json. For each token: its
log-probability, the token with the largest one, and how far the second lies behind it. GGML_BACKEND_PATH says which
attention runs; its calls are counted.
"""

import argparse
import ctypes
import json
import os
import sys

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--forced")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.engine)
    import llama_cpp  # pylint: disable=import-outside-toplevel

    plugin = os.environ.get("GGML_BACKEND_PATH")
    if plugin:
        llama_cpp._ggml.libggml.ggml_backend_load_all()  # pylint: disable=protected-access
    forced = {}
    if arguments.forced:
        with open(arguments.forced, encoding="utf-8") as file:
            forced = {name: [row["token"] for row in rows] for name, rows in json.load(file)["prompts"].items()}
    llama = llama_cpp.Llama(arguments.model, n_ctx=4096, n_batch=512, n_ubatch=512, n_threads=arguments.threads,
                            n_threads_batch=arguments.threads, flash_attn=True, verbose=False)
    layers = int(llama.metadata["llama.block_count"])
    vocabulary = llama.n_vocab()
    calls = ctypes.CDLL(plugin).flashattn_ggml_calls if plugin else None
    if calls:
        calls.restype = ctypes.c_uint64
    before = calls() if calls else 0
    steps = 0
    result = {"prompts": {}, "prompt_tokens": {}}
    for name, text in list(prompts().items())[:arguments.prompts]:
        tokens = llama.tokenize(text.encode(), add_bos=True, special=True)
        llama.reset()
        llama.eval(tokens)
        steps += -(-len(tokens) // 512)
        rows = []
        for index in range(arguments.tokens):
            logits = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
            logits = numpy.ctypeslib.as_array(logits, shape=(vocabulary,))
            rows.append(look(logits, forced[name][index] if forced else None))
            if index + 1 < arguments.tokens:
                llama.eval([rows[-1]["token"]])
                steps += 1
        result["prompts"][name] = rows
        result["prompt_tokens"][name] = len(tokens)
        print(f"{name}: {len(tokens)} + {len(rows)} tokens", file=sys.stderr, flush=True)
    result["layers"] = layers
    result["steps"] = steps
    result["calls"] = int(calls() - before) if calls else None
    llama.close()
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
