# SPDX-License-Identifier: Apache-2.0
"""flashattn.attention, _ragged, _paged and combine on numpy arrays, against the float64 oracle."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import oracle
import pytest

import flashattn

BF16 = np.dtype(ml_dtypes.bfloat16)
# Several roundings of the output and of P at magnitude 1 .. 4; the C suite holds the tight bound.
TOLERANCE = {np.dtype("f4"): 2e-5, np.dtype("f2"): 1e-2, BF16: 6e-2}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f4") -> np.ndarray:
    return (rng.standard_normal(shape) + 0.4).astype(dtype)


def qkv(rng: np.random.Generator, batch: int = 2, n_q: int = 5, n_k: int = 9, heads: int = 4, heads_kv: int = 2,
        dim: int = 16, dim_v: int = 24, dtype: Any = "f4") -> list[np.ndarray]:  # fmt: skip
    return [
        draw(rng, (batch, n_q, heads, dim), dtype),
        draw(rng, (batch, n_k, heads_kv, dim), dtype),
        draw(rng, (batch, n_k, heads_kv, dim_v), dtype),
    ]


def close(got: Any, want: Any, dtype: Any = "f4") -> None:
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=0, atol=TOLERANCE[np.dtype(dtype)])


def close_lse(got: Any, want: Any) -> None:
    assert got.dtype == np.float32
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["f4", "f2", BF16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("sizes", [(1, 9), (5, 9), (9, 5), (70, 70)], ids=lambda sizes: f"{sizes[0]}x{sizes[1]}")
def test_causal(rng: np.random.Generator, dtype: Any, sizes: tuple[int, int]) -> None:
    q, k, v = qkv(rng, n_q=sizes[0], n_k=sizes[1], dtype=dtype)
    o, lse = flashattn.attention(q, k, v, causal=True, return_lse=True)
    want, want_lse = oracle.batch(q, k, v, causal=True)
    close(o, want, dtype)
    close_lse(lse, want_lse)


def options(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    return {
        "plain": {},
        "scale": {"scale": 0.31},
        "negative scale": {"scale": -0.2},
        "window": {"window": (2, 1)},
        "window left": {"window": (3, None)},
        "causal window": {"causal": True, "window": (2, 0)},
        "softcap": {"softcap": 1.5},
        "alibi": {"alibi": draw(rng, (4,))},
        "alibi per sequence": {"alibi": draw(rng, (2, 4))},
        "sinks": {"sinks": draw(rng, (4,)), "causal": True},
        "bias": {"bias": draw(rng, (2, 4, 5, 9))},
        "bias f16, broadcast": {"bias": draw(rng, (4, 1, 9), "f2")},
        "bias bf16": {"bias": draw(rng, (1, 1, 5, 9), BF16)},
        "mask": {"mask": rng.random((2, 1, 5, 9)) < 0.5},
        "mask of two dimensions": {"mask": rng.random((5, 9)) < 0.5, "causal": True},
        "mask of bytes": {"mask": rng.integers(0, 3, (2, 4, 5, 9), np.uint8)},
        "offset": {"causal": True, "diag_offset": -6},
        "offsets": {"causal": True, "diag_offset": np.array([-2, 3], np.int32)},
        "splits": {"num_splits": 3},
        "all": {"causal": True, "window": (4, 0), "softcap": 2.0, "alibi": draw(rng, (4,)), "sinks": draw(rng, (4,)),
                "bias": draw(rng, (2, 1, 5, 9)), "scale": 0.5, "batch_invariant": True},  # fmt: skip
    }


@pytest.mark.parametrize("name", options(np.random.default_rng(0)))
def test_options(rng: np.random.Generator, name: str) -> None:
    q, k, v = qkv(rng)
    given = options(rng)[name]
    known = {key: x for key, x in given.items() if key not in ("num_splits", "batch_invariant")}
    want, want_lse = oracle.batch(q, k, v, **known)
    o, lse = flashattn.attention(q, k, v, return_lse=True, **given)
    close(o, want)
    close_lse(lse, want_lse)
    # The same call again takes the prepared path, with other values in other memory.
    q2, k2, v2 = qkv(rng)
    close(flashattn.attention(q2, k2, v2, **given), oracle.batch(q2, k2, v2, **known)[0])


def test_used_lengths(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng, batch=3)
    used_q, used_kv = np.array([5, 0, 3], np.int32), np.array([9, 4, 0], np.int32)
    for b in range(3):
        k[b, used_kv[b] :] = np.nan
        v[b, used_kv[b] :] = np.nan
    o, lse = flashattn.attention(q, k, v, causal=True, seqused_q=used_q, seqused_kv=used_kv, return_lse=True)
    for b in range(3):
        want, want_lse = oracle.one(q[b, : used_q[b]], k[b, : used_kv[b]], v[b, : used_kv[b]], causal=True)
        close(o[b, : used_q[b]], want)
        close_lse(lse[b, :, : used_q[b]], want_lse)
        assert not o[b, used_q[b] :].any()


def test_layout_bhsd_is_the_transpose(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng)
    want, want_lse = flashattn.attention(q, k, v, causal=True, return_lse=True)
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    o, lse = flashattn.attention(*turned, causal=True, layout="bhsd", return_lse=True)
    assert o.flags.c_contiguous
    np.testing.assert_array_equal(o.transpose(0, 2, 1, 3), want)
    np.testing.assert_array_equal(lse, want_lse)


def test_element_types_may_differ(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng)
    k, v = k.astype("f2"), v.astype("f2")
    close(flashattn.attention(q, k, v), oracle.batch(q, k, v)[0])
    out = np.full(q.shape[:3] + v.shape[3:], np.nan, BF16)
    assert flashattn.attention(q, k, v, out=out) is out
    close(out, oracle.batch(q, k, v)[0], BF16)


def test_pointers_pass_through(rng: np.random.Generator, seen: Any) -> None:
    """Zero copies: the library gets the arrays' own addresses, also of sliced and broadcast views."""
    big = draw(rng, (2, 20, 8, 40))
    q, k, v = big[:, 3:8, ::2, :16], big[:, 1:10, 1:3, 8:24], big[::-1][::-1][:, 2:11, 4:6, 16:40]
    bias = np.broadcast_to(draw(rng, (5, 1)), (2, 4, 5, 9))
    alibi, sinks, used = draw(rng, (4,)), draw(rng, (4,)), np.array([9, 7], np.int32)
    out, lse = np.empty((2, 5, 4, 24), "f4"), np.empty((2, 4, 5), "f4")
    result = flashattn.attention(
        q, k, v, bias=bias, alibi=alibi, sinks=sinks, seqused_kv=used, out=out, lse_out=lse, return_lse=True
    )
    assert result[0] is out and result[1] is lse
    call = seen.call
    for name, array in {"q": q, "k": k, "v": v, "o": out, "lse": lse, "bias": bias, "alibi_slopes": alibi,
                        "sinks": sinks}.items():  # fmt: skip
        assert getattr(call, name).data == array.ctypes.data, name
    assert call.seqused_kv == used.ctypes.data
    assert (call.q.stride_batch, call.q.stride_seq, call.q.stride_head) == (20 * 8 * 40, 8 * 40, 2 * 40)
    assert (call.bias.stride_batch, call.bias.stride_head, call.bias.stride_q, call.bias.stride_kv) == (0, 0, 1, 0)
    fresh = flashattn.attention(q, k, v)
    assert seen.call.o.data == fresh.ctypes.data and seen.call.lse.data is None


def test_read_only_inputs_are_fine_and_outputs_are_not(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng)
    for x in (q, k, v):
        x.flags.writeable = False
    want = flashattn.attention(q, k, v)
    out = np.zeros_like(want)
    out.flags.writeable = False
    with pytest.raises(flashattn.ArgumentError, match="out is read-only"):
        flashattn.attention(q, k, v, out=out)
    assert not out.any()


def test_empty_calls(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng, batch=0)
    assert flashattn.attention(q, k, v).shape == (0, 5, 4, 24)
    q, k, v = qkv(rng, n_k=0)
    o, lse = flashattn.attention(q, k, v, return_lse=True)
    assert not o.any() and np.isneginf(lse).all()


def cu(lengths: list[int], dtype: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ragged(rng: np.random.Generator, dtype: Any) -> None:
    lengths_q, lengths_kv = [3, 0, 6, 1], [5, 2, 4, 0]
    cu_q, cu_kv = cu(lengths_q, dtype), cu(lengths_kv, dtype)
    q, k, v = draw(rng, (12, 4, 16)), draw(rng, (11, 2, 16)), draw(rng, (11, 2, 8))
    alibi = draw(rng, (4,))
    for bounds in ({}, {"max_seqlen_q": 6, "max_seqlen_kv": 5}):
        o, lse = flashattn.attention_ragged(q, k, v, cu_q, cu_kv, causal=True, alibi=alibi, return_lse=True, **bounds)
        assert o.shape == (12, 4, 8) and lse.shape == (4, 12)
        for b in range(4):
            rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_kv[b], cu_kv[b + 1])
            want, want_lse = oracle.one(q[rows], k[keys], v[keys], causal=True, alibi=alibi)
            close(o[rows], want)
            close_lse(lse[:, rows], want_lse)
        assert not o[10:].any()


def test_paged_equals_the_contiguous_cache(rng: np.random.Generator, seen: Any) -> None:
    page, width, used = 3, 4, np.array([10, 4], np.int32)
    k, v = draw(rng, (2, 12, 2, 16)), draw(rng, (2, 12, 2, 24))
    table = rng.permutation(9)[:8].reshape(2, 4).astype(np.int32)
    pool_k, pool_v = np.full((9, page, 2, 16), np.nan, "f4"), np.full((9, page, 2, 24), np.nan, "f4")
    for b in range(2):
        for j in range(used[b]):
            pool_k[table[b, j // page], j % page] = k[b, j]
            pool_v[table[b, j // page], j % page] = v[b, j]
    table[1, 2:] = -1
    q = draw(rng, (2, 2, 4, 16))
    want = np.stack([oracle.one(q[b], k[b, : used[b]], v[b, : used[b]], causal=True)[0] for b in range(2)])
    o = flashattn.attention_paged(q, pool_k, pool_v, used, table, causal=True)
    assert seen.call.k.data == pool_k.ctypes.data and seen.call.page_table == table.ctypes.data
    close(o, want)
    indptr, indices = np.array([0, 4, 6], np.int32), np.concatenate([table[0], table[1, :2]])
    close(flashattn.attention_paged(q, pool_k, pool_v, used, page_indptr=indptr, page_indices=indices, causal=True), want)
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, pool_k, pool_v)]
    close(flashattn.attention_paged(*turned, used, table, causal=True, layout="bhsd").transpose(0, 2, 1, 3), want)
    ragged = flashattn.attention_paged(
        q.reshape(4, 4, 16), pool_k, pool_v, used, table, cu_seqlens_q=np.array([0, 2, 4], np.int32), causal=True
    )
    close(ragged.reshape(want.shape), want)
    assert width == table.shape[1]


def test_combine_of_two_halves_is_the_whole(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng)
    parts = [flashattn.attention(q, k[:, keys], v[:, keys], return_lse=True) for keys in (slice(0, 4), slice(4, 9))]
    o, lse = flashattn.combine(np.stack([o for o, _ in parts]), np.stack([x for _, x in parts]), return_lse=True)
    want, want_lse = oracle.batch(q, k, v)
    close(o, want)
    close_lse(lse, want_lse)
    out = np.empty(o.shape, BF16)
    flashattn.combine(np.stack([o for o, _ in parts]), np.stack([x for _, x in parts]), out=out)
    close(out, want, BF16)


WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("float64", {"q": np.ones((1, 2, 2, 8))}, ValueError, "q is float64; it must be float32, float16 or bfloat16"),
    ("byte order", {"q": np.ones((1, 2, 2, 8), ">f4")}, ValueError, "q is float32 of the other byte order"),
    ("rank", {"k": np.ones((2, 2, 8), "f4")}, ValueError, "k has 3 dimensions; it must be .batch, seqlen, heads"),
    ("last stride", {"q": np.ones((1, 2, 2, 16), "f4")[..., ::2]}, ValueError, "q's last dimension has stride 2"),
    ("negative", {"k": np.ones((1, 2, 2, 8), "f4")[:, ::-1]}, ValueError, "stride"),
    ("odd stride", {"q": np.ndarray((1, 2, 2, 8), "f4", bytes(200), 0, (0, 66, 33, 4))}, ValueError, "multiple of the 4"),
    ("batch", {"k": np.ones((2, 2, 2, 8), "f4")}, ValueError, "k's batch is 2, q's is 1"),
    ("length", {"v": np.ones((1, 3, 2, 8), "f4")}, ValueError, "v's length is 3, k's is 2"),
    ("heads", {"v": np.ones((1, 2, 1, 8), "f4")}, ValueError, "v's head count is 1, k's is 2"),
    ("dims", {"k": np.ones((1, 2, 2, 16), "f4")}, ValueError, "k's head dimension is 16, q's is 8"),
    ("groups", {"q": np.ones((1, 2, 3, 8), "f4")}, ValueError, "num_heads_kv is 2"),
    ("types", {"v": np.ones((1, 2, 2, 8), "f2")}, ValueError, "v is float16 and k is float32"),
    ("window", {"window": (-2, 0)}, ValueError, "window_left is -2"),
    ("window wide", {"window": (2**31, 0)}, ValueError, "window's left side is 2147483648"),
    ("softcap", {"softcap": -1.0}, ValueError, "softcap is -1"),
    ("scale", {"scale": 0.0}, ValueError, "scale is 0"),
    ("layout", {"layout": "sbhd"}, ValueError, "layout is 'sbhd'"),
    ("precision", {"precision": "f8"}, ValueError, "precision is 'f8'; known are ieee, tf32, tf32x3"),
    ("kernel", {"kernel": "fwd_none"}, NotImplementedError, "fwd_none"),
    ("long kernel", {"kernel": "k" * 64}, ValueError, "at most 63 bytes"),
    ("dim", {"v": np.ones((1, 2, 2, 600), "f4")}, NotImplementedError, "head_dim_v is 600"),
    ("offset", {"diag_offset": 2**31}, ValueError, "diag_offset is 2147483648"),
    ("alibi type", {"alibi": np.ones(2)}, ValueError, "alibi is float64; it must be float32"),
    ("alibi shape", {"alibi": np.ones(3, "f4")}, ValueError, r"alibi has shape \[3\]"),
    ("sinks shape", {"sinks": np.ones((2, 2), "f4")}, ValueError, r"sinks has shape \[2, 2\]"),
    ("mask type", {"mask": np.ones((2, 2), "f4")}, ValueError, "mask is float32; it must be bool or uint8"),
    ("bias type", {"bias": np.ones((2, 2), bool)}, ValueError, "bias is uint8"),
    ("bias shape", {"bias": np.ones((3, 2), "f4")}, ValueError, r"bias has shape \[3, 2\]; it must broadcast"),
    ("both", {"bias": np.ones((2, 2), "f4"), "mask": np.ones((2, 2), bool)}, ValueError, "bias and mask are both set"),
    ("used type", {"seqused_kv": np.ones(1, np.int64)}, ValueError, "seqused_kv is int64; it must be int32"),
    ("used shape", {"seqused_kv": np.ones(2, np.int32)}, ValueError, r"seqused_kv has shape \[2\]"),
    ("used value", {"seqused_kv": np.array([3], np.int32)}, ValueError, "seqused_kv"),
    ("lse", {"lse_out": np.ones((1, 2, 3), "f4")}, ValueError, "lse_out is float32 .1, 2, 3."),
    ("no tensor", {"q": 3}, TypeError, "int is not a tensor"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_a_wrong_argument_is_named_and_nothing_is_written(case: Any) -> None:
    _, given, kind, text = case
    named = {name: np.ones((1, 2, 2, 8), "f4") for name in "qkv"} | given
    out = None
    if all(isinstance(named[n], np.ndarray) and named[n].ndim == 4 for n in "qkv"):
        out = np.full(named["q"].shape[:3] + named["v"].shape[3:], np.nan, "f4")
    with pytest.raises(kind, match=text) as raised:
        flashattn.attention(out=out, **named)
    assert out is None or np.isnan(out).all()
    assert kind is TypeError or isinstance(raised.value, flashattn.Error)


def test_an_error_carries_the_status() -> None:
    x = np.ones((1, 2, 2, 600), "f4")
    with pytest.raises(flashattn.UnsupportedError) as raised:
        flashattn.attention(x, x, x)
    assert raised.value.status == 200 and raised.value.driver_status == 0


def test_paged_needs_one_kind_of_table(rng: np.random.Generator) -> None:
    q, used, table = draw(rng, (1, 1, 2, 8)), np.ones(1, np.int32), np.zeros((1, 1), np.int32)
    pool = draw(rng, (1, 4, 2, 8))
    with pytest.raises(ValueError, match="page_table, or page_indptr"):
        flashattn.attention_paged(q, pool, pool, used)
    with pytest.raises(ValueError, match="page_table, or page_indptr"):
        flashattn.attention_paged(q, pool, pool, used, table, page_indptr=used, page_indices=used)
    with pytest.raises(ValueError, match="go together"):
        flashattn.attention_paged(q, pool, pool, used, page_indptr=used)
    with pytest.raises(ValueError, match="page"):
        flashattn.attention_paged(q, pool, pool, used, np.full((1, 1), 7, np.int32))


def test_a_handle_of_ones_own(rng: np.random.Generator) -> None:
    q, k, v = qkv(rng, n_q=200, n_k=300)
    want = flashattn.attention(q, k, v)
    with flashattn.Handle("cpu", threads=1) as handle:
        assert handle.threads == 1 and handle.backend == "cpu"
        np.testing.assert_array_equal(flashattn.attention(q, k, v, handle=handle), want)
    with pytest.raises(ValueError, match="handle is closed"):
        flashattn.attention(q, k, v, handle=handle)
    with pytest.raises(ValueError, match="backend is 'tpu'; known are auto, cpu, cuda, hip"):
        flashattn.Handle("tpu")


def test_a_growing_cache_stays_in_one_plan(rng: np.random.Generator, seen: Any) -> None:
    k, v = draw(rng, (1, 40, 2, 16)), draw(rng, (1, 40, 2, 16))
    problems = set()
    for n_k in range(33, 41):
        q = draw(rng, (1, 1, 4, 16))
        close(flashattn.attention(q, k[:, :n_k], v[:, :n_k], causal=True), oracle.batch(q, k[:, :n_k], v[:, :n_k])[0])
        problems.add(bytes(seen.problem))
    assert len(problems) == 1


def test_many_layouts_do_not_grow_without_bound(rng: np.random.Generator) -> None:
    from flashattn import _core

    x = draw(rng, (1, 4000, 1, 4))
    for n_k in range(1, _core._KEPT + 50):
        flashattn.attention(x[:, :1], x[:, :n_k], x[:, :n_k])
    assert len(_core._prepared) <= _core._KEPT


def test_what_the_machine_has() -> None:
    (cpu,) = [d for d in flashattn.devices() if d.backend == "cpu"]
    assert cpu.ordinal == 0 and cpu.name and cpu.compute_units >= 1
    assert {b.name for b in flashattn.backends()} == {"cpu", "cuda", "hip"}
    assert all(b.reason or b.device_count for b in flashattn.backends())
    names = [kernel.name for kernel in flashattn.kernels() if kernel.backend == "cpu" and kernel.available]
    assert "fwd_cpu_scalar" in names
    x = np.ones((1, 3, 2, 8), "f4")
    for name in names:
        np.testing.assert_allclose(flashattn.attention(x, x, x, kernel=name), 1.0, rtol=1e-6)
    assert flashattn.version().startswith("0.1.")
