# SPDX-License-Identifier: Apache-2.0
"""Capture and replay with other lengths in device memory, two streams, and a second device where there is one; for
decode, and for prefill with the kernel that the device's plan chooses.

    python3 flow.py LIBFLASHATTN_SO"""
import sys

import torch

import flashattn_ctypes as fa

SEQUSED_KV = 0x10


def reference(q, k, v, lengths, causal=False):
    """Attention of each sequence over its first lengths[b] keys, in float64."""
    out = torch.zeros_like(q, dtype=torch.float64)
    group = q.shape[2] // k.shape[2]
    for b, n in enumerate(lengths):
        kb = k[b, :n].double().repeat_interleave(group, dim=1)
        vb = v[b, :n].double().repeat_interleave(group, dim=1)
        scores = torch.einsum("ihd,jhd->hij", q[b].double(), kb) / q.shape[3] ** 0.5
        if causal:
            i, j = torch.arange(q.shape[1], device="cuda")[:, None], torch.arange(n, device="cuda")[None, :]
            scores.masked_fill_(j > i + n - q.shape[1], float("-inf"))
        out[b] = torch.einsum("hij,jhd->ihd", scores.softmax(-1), vb)
    return out


def check(name, got, want):
    error = ((got.double() - want).norm() / want.norm()).item()
    if not error < 1e-2:
        sys.exit(f"{name}: relative error {error}")
    print(f"ok {name}: relative error {error:.1e}")


class Decode:
    """One query per sequence over a cache of 4096 slots, of which the device says how many count."""

    def __init__(self, library):
        draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) + 0.3
        self.q, self.k, self.v = draw(4, 1, 32, 128), draw(4, 4096, 8, 128), draw(4, 4096, 8, 128)
        self.o = torch.full_like(self.q, float("nan"))
        self.lengths = torch.tensor([4096, 100, 2000, 1], dtype=torch.int32, device="cuda")
        problem = fa.dense_problem(self.q, self.k, self.v, False)
        problem.features = SEQUSED_KV
        self.library = library
        self.plan, info = library.plan(problem)
        assert info.num_splits > 1 and info.capturable == 1
        self.workspace = library.workspace(self.plan, info)
        self.call = fa.dense_call(self.q, self.k, self.v, self.o)
        self.call.seqused_kv = self.lengths.data_ptr()

    def launch(self, stream):
        self.library.forward(self.plan, self.call, self.workspace, stream.cuda_stream)

    def want(self):
        return reference(self.q, self.k, self.v, self.lengths.tolist())


class Prefill:
    """Two causal sequences of 1000 queries and keys: several tiles a multiprocessor."""

    def __init__(self, library, dim=128):
        draw = lambda heads: torch.randn(2, 1000, heads, dim, device="cuda", dtype=torch.bfloat16) + 0.3
        self.q, self.k, self.v = draw(32), draw(8), draw(8)
        self.o = torch.full_like(self.q, float("nan"))
        self.library = library
        self.plan, info = library.plan(fa.dense_problem(self.q, self.k, self.v, True))
        self.kernel = info.kernel.decode()
        self.workspace = library.workspace(self.plan, info)
        self.call = fa.dense_call(self.q, self.k, self.v, self.o)

    def launch(self, stream):
        self.library.forward(self.plan, self.call, self.workspace, stream.cuda_stream)

    def want(self):
        return reference(self.q, self.k, self.v, [1000, 1000], True)


def replay_prefill(library, dim):
    prefill = Prefill(library, dim)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        prefill.launch(stream)
        prefill.launch(stream)
    want = prefill.want()
    for turn in range(3):
        prefill.o.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        check(f"{prefill.kernel} in replay {turn}", prefill.o, want)
    replayed = prefill.o.clone()
    prefill.launch(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert torch.equal(replayed, prefill.o), "replay and eager differ"


def capture(library):
    decode = Decode(library)
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        decode.launch(stream)
    for lengths in ([4096, 100, 2000, 1], [7, 4000, 64, 4096]):
        decode.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
        decode.o.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        check(f"replay with lengths {lengths}", decode.o, decode.want())
        replayed = decode.o.clone()
        decode.launch(torch.cuda.current_stream())
        torch.cuda.synchronize()
        assert torch.equal(replayed, decode.o), "replay and eager differ"


def streams(library, make=Decode):
    """Each call reads what a long kernel before it on its own stream writes."""
    pairs = [(make(library), torch.cuda.Stream()) for _ in range(2)]
    fresh = [torch.randn_like(d.k) for d, _ in pairs]
    torch.cuda.synchronize()
    for (decode, stream), k in zip(pairs, fresh):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            decode.k.copy_(k)
            decode.launch(stream)
    torch.cuda.synchronize()
    for n, (decode, _) in enumerate(pairs):
        check(f"stream {n}", decode.o, decode.want())


def main():
    library = fa.Library(sys.argv[1])
    current = torch.cuda.current_device()
    capture(library)
    for dim in (64, 128, 256):
        replay_prefill(library, dim)
    streams(library)
    streams(library, Prefill)
    assert torch.cuda.current_device() == current
    if torch.cuda.device_count() > 1:
        second = fa.Library(sys.argv[1], device=1)
        with torch.cuda.device(1):
            streams(second)


if __name__ == "__main__":
    main()
