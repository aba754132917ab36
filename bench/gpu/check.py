# SPDX-License-Identifier: Apache-2.0
"""Holds one variant to a float64 oracle on edge shapes. One process a variant, so that a hang or a fault costs one.

    python3 check.py CUBIN_DIR VARIANT
"""

import math
import sys

import torch

import driver

torch.backends.cuda.matmul.allow_tf32 = False
NEGATIVE = float("-inf")


def oracle(q, k, v, causal, diag_offset, scale, dtype):
    """float64 O and LSE, and the error of the reference (f32 scores and softmax, P rounded to dtype, f32 P V)."""
    n_q, n_k = q.shape[1], k.shape[1]
    repeat = q.shape[2] // k.shape[2]
    out = torch.zeros(q.shape, dtype=torch.float64, device="cuda")
    lse = torch.full((q.shape[0], q.shape[2], n_q), NEGATIVE, dtype=torch.float64, device="cuda")
    worst = 0.0
    i = torch.arange(n_q, device="cuda")[:, None]
    j = torch.arange(n_k, device="cuda")[None, :]
    hidden = (j > i + n_k - n_q + diag_offset) if causal else torch.zeros(n_q, n_k, dtype=torch.bool, device="cuda")
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            if n_k == 0:
                continue
            qq, kk, vv = (x.to(torch.float64) for x in (q[b, :, h], k[b, :, h // repeat], v[b, :, h // repeat]))
            s = (qq @ kk.T * scale).masked_fill_(hidden, NEGATIVE)
            lse[b, h] = torch.logsumexp(s, 1)
            empty = lse[b, h] == NEGATIVE
            p = torch.exp(s - lse[b, h].masked_fill(empty, 0)[:, None])
            out[b, :, h] = p @ vv
            s = (qq.float() @ kk.float().T * scale).masked_fill_(hidden, NEGATIVE)
            p = torch.softmax(s, 1).masked_fill_(empty[:, None], 0).to(dtype)
            error = (p.float() @ vv.float()).double() - out[b, :, h]
            if n_q:
                worst = max(worst, error.abs().max().item())
    return out, lse, worst


def strided(shape, dtype, layout, guard=0):
    """A [B, S, H, D] view in the given memory layout, `guard` rows longer than asked."""
    b, s, h, d = shape
    if layout == "bshd":
        return torch.empty(b, s + guard, h, d, dtype=dtype, device="cuda")
    return torch.empty(b, h, s + guard, d, dtype=dtype, device="cuda").transpose(1, 2)


def run(kernel, b, n_q, n_k, h, h_kv, causal, diag_offset=0, gain=1.0, layout="bshd", twist=None, seed=0):
    dtype = torch.bfloat16 if kernel.info["dtype"] == "bfloat16" else torch.float16
    d = kernel.info["head_dim"]
    torch.manual_seed(seed)
    tensors = []
    for rows, heads, mean in ((n_q, h, 0.2), (n_k, h_kv, -0.1), (n_k, h_kv, 0.3)):
        full = strided((b, rows, heads, d), dtype, layout, 3)
        full.copy_(torch.randn(full.shape, device="cuda") + mean)
        full[:, rows:] = float("nan")  # rows past the length
        tensors.append(full[:, :rows])
    q, k, v = tensors
    if gain != 1.0:
        q.mul_(gain)
    if twist:
        twist(q, k, v)
    o_full = strided((b, n_q, h, d), dtype, layout, 3)
    o_full.fill_(float("nan"))
    o = o_full[:, :n_q]
    lse_full = torch.full((b, h, n_q + 5), float("nan"), device="cuda")
    lse = lse_full[:, :, :n_q]
    scale = 1 / math.sqrt(d)
    launch = kernel.prepare(q, k, v, o, lse, causal, diag_offset, scale)
    launch()
    torch.cuda.synchronize()
    first = (o.clone(), lse.clone())
    launch()
    torch.cuda.synchronize()
    same = torch.equal(first[0].view(torch.int16), o.view(torch.int16)) and torch.equal(
        first[1].view(torch.int32), lse.contiguous().view(torch.int32))
    out, want_lse, reference = oracle(q, k, v, causal, diag_offset, scale, dtype)
    guard = bool(o_full[:, n_q:].isnan().all() and lse_full[:, :, n_q:].isnan().all())
    zero = int(kernel.counter.abs().sum().item()) == 0
    error = (o.double() - out).abs().max().item()
    ulp = 2.0 ** (math.floor(math.log2(max(out.abs().max().item(), 1e-30))) - (7 if dtype == torch.bfloat16 else 10))
    empty = want_lse == NEGATIVE
    lse_error = ((lse.double() - want_lse).abs() / want_lse.abs().clamp(min=1))[~empty]
    lse_error = lse_error.max().item() if lse_error.numel() else 0.0
    # f32 sums of products a hundred times larger cancel to a score with that much more absolute error.
    lse_ok = lse_error <= 1e-5 * max(1, gain / 30) and bool((lse[empty] == NEGATIVE).all())
    empty_ok = bool((o.transpose(1, 2)[empty] == 0).all())
    good = error <= 2 * reference + ulp and lse_ok and empty_ok and guard and same and zero
    print(f"{'ok  ' if good else 'FAIL'} b{b} q{n_q} k{n_k} h{h}/{h_kv} causal{int(causal)} diag{diag_offset} gain{gain} {layout}"
          f" {twist.__name__ if twist else ''} err {error:.2e} ref {reference:.2e} ulp {ulp:.1e} lse {lse_error:.1e}"
          f" empty {empty_ok} guard {guard} same {same} counter {zero}", flush=True)
    return good


def poisoned(kernel):
    """A NaN in one query spoils that row alone; a NaN in a visible value spoils its column in the rows that see it."""
    dtype = torch.bfloat16 if kernel.info["dtype"] == "bfloat16" else torch.float16
    d = kernel.info["head_dim"]
    torch.manual_seed(7)
    q, k, v = (torch.randn(1, 1024, 2, d, device="cuda").to(dtype) for _ in range(3))
    clean = torch.empty_like(q)
    kernel.prepare(q, k, v, clean, None, False)()
    q[0, 100, 0, 5] = float("nan")
    v[0, 300, 1, 3] = float("nan")
    o, lse = torch.empty_like(q), torch.empty(1, 2, 1024, device="cuda")
    kernel.prepare(q, k, v, o, lse, False)()
    torch.cuda.synchronize()
    want = torch.zeros_like(o, dtype=torch.bool)
    want[0, 100, 0] = True
    want[0, :, 1, 3] = True
    near = (o.float() - clean.float()).abs()[~want].max().item() < 0.02
    good = torch.equal(o.isnan(), want) and near and bool(lse[0, 0, 100].isnan()) and int(lse.isnan().sum()) == 1
    print(f"{'ok  ' if good else 'FAIL'} NaN in a query and in a value", flush=True)
    return good


def late_peak(q, k, v):
    """A key far down the row whose score is thousands above the first block's."""
    k[:, k.shape[1] * 3 // 4] = q[:, -1:, :: q.shape[2] // k.shape[2]].mean(1) * 200


def late_rise(q, k, v):
    """Scores that climb along the row by tens of log2 units a block: the fixed reference has to follow."""
    n = k.shape[1]
    q[..., 0] = 16
    k[..., 0] = (torch.arange(n, device="cuda") / n * 40).to(k.dtype)[None, :, None]


def huge(q, k, v):
    q[..., 0] = 512
    k[..., 0] = -1024


def main():
    directory, name = sys.argv[1:3]
    kernel = driver.load_variants(directory, [name])[name]
    bm, bn = kernel.info["block_m"], kernel.info["block_n"]
    good = poisoned(kernel)
    for case in [
        dict(b=1, n_q=bm, n_k=bn, h=1, h_kv=1, causal=False),
        dict(b=1, n_q=bm, n_k=4 * bn, h=1, h_kv=1, causal=False),
        dict(b=2, n_q=1024, n_k=1024, h=4, h_kv=4, causal=False),
        dict(b=2, n_q=1024, n_k=1024, h=4, h_kv=4, causal=True),
        dict(b=1, n_q=1, n_k=1, h=2, h_kv=1, causal=True),
        dict(b=1, n_q=5, n_k=0, h=2, h_kv=1, causal=False),
        dict(b=3, n_q=bm + 1, n_k=3 * bn - 1, h=3, h_kv=1, causal=False, layout="bhsd"),
        dict(b=2, n_q=bm - 1, n_k=2 * bn + 1, h=6, h_kv=2, causal=True),
        dict(b=1, n_q=2048, n_k=1024, h=2, h_kv=2, causal=True),
        dict(b=1, n_q=517, n_k=1333, h=2, h_kv=2, causal=True),
        dict(b=1, n_q=777, n_k=1000, h=2, h_kv=1, causal=True, diag_offset=-300),
        dict(b=1, n_q=777, n_k=1000, h=2, h_kv=1, causal=True, diag_offset=200),
        dict(b=1, n_q=1000, n_k=777, h=2, h_kv=1, causal=True, diag_offset=223),
        dict(b=8, n_q=1024, n_k=1024, h=32, h_kv=8, causal=True),
        dict(b=4, n_q=1024, n_k=2048, h=24, h_kv=24, causal=False),
        dict(b=1, n_q=4096, n_k=4096, h=2, h_kv=1, causal=True, layout="bhsd"),
        dict(b=2, n_q=1024, n_k=1024, h=8, h_kv=8, causal=True, gain=10.0),
        dict(b=2, n_q=1024, n_k=1024, h=8, h_kv=8, causal=False, gain=30.0),
        dict(b=2, n_q=1024, n_k=1024, h=8, h_kv=8, causal=True, gain=100.0),
        dict(b=8, n_q=1024, n_k=1024, h=32, h_kv=8, causal=True, gain=30.0),
        dict(b=2, n_q=1024, n_k=1024, h=8, h_kv=8, causal=True, twist=late_rise),
        dict(b=2, n_q=1024, n_k=1024, h=8, h_kv=8, causal=False, twist=late_peak),
        dict(b=1, n_q=300, n_k=1, h=2, h_kv=2, causal=False, twist=huge),
        dict(b=2, n_q=1024, n_k=1024, h=2, h_kv=2, causal=True, twist=huge),
    ]:
        for seed in range(1):
            good &= run(kernel, seed=seed + 1, **case)
    print("PASS" if good else "FAILED", name, flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
