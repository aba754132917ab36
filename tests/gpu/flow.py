# SPDX-License-Identifier: Apache-2.0
"""Capture and replay with other lengths in device memory, two streams, and a second device where there is one.

    python3 flow.py LIBFLASHATTN_SO"""
import ctypes
import sys

import torch

import flashattn_ctypes as fa

SEQUSED_KV = 0x10


def reference(q, k, v, lengths):
    """Full attention of each sequence over its first lengths[b] keys, in float64."""
    out = torch.zeros_like(q, dtype=torch.float64)
    group = q.shape[2] // k.shape[2]
    for b, n in enumerate(lengths):
        kb = k[b, :n].double().repeat_interleave(group, dim=1)
        vb = v[b, :n].double().repeat_interleave(group, dim=1)
        scores = torch.einsum("ihd,jhd->hij", q[b].double(), kb) / q.shape[3] ** 0.5
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
        self.workspace = torch.empty(int(info.workspace_size), dtype=torch.uint8, device="cuda")
        self.call = fa.dense_call(self.q, self.k, self.v, self.o)
        self.call.seqused_kv = self.lengths.data_ptr()

    def launch(self, stream):
        self.library.check(self.library.so.flashattn_forward(
            self.plan, ctypes.byref(self.call), ctypes.c_void_p(self.workspace.data_ptr()),
            ctypes.c_size_t(self.workspace.numel()), ctypes.c_void_p(stream.cuda_stream)))

    def want(self):
        return reference(self.q, self.k, self.v, self.lengths.tolist())


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


def streams(library):
    """Each call reads what a long kernel before it on its own stream writes."""
    pairs = [(Decode(library), torch.cuda.Stream()) for _ in range(2)]
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
    streams(library)
    assert torch.cuda.current_device() == current
    if torch.cuda.device_count() > 1:
        second = fa.Library(sys.argv[1], device=1)
        with torch.cuda.device(1):
            streams(second)


if __name__ == "__main__":
    main()
