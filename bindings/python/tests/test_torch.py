# SPDX-License-Identifier: Apache-2.0
"""flashattn.torch on the CPU: pointers, operators under torch.compile, drop-ins against PyTorch and the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")

import flashattn  # noqa: E402
import flashattn.torch as ft  # noqa: E402

functional = torch.nn.functional
DTYPES = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(autouse=True)
def fresh(rng: np.random.Generator) -> None:
    torch.manual_seed(int(rng.integers(2**31)))


def draw(*shape: int, dtype: Any = torch.float32) -> Any:
    return (torch.randn(shape) + 0.4).to(dtype)


def wide(x: Any) -> np.ndarray:
    return x.detach().to(torch.float64).numpy()


def close(got: Any, want: Any, dtype: str = "float32") -> None:
    want = wide(want) if isinstance(want, torch.Tensor) else want
    np.testing.assert_allclose(wide(got), want, rtol=0, atol=DTYPES[dtype])


@pytest.mark.parametrize("name", DTYPES)
def test_outputs_are_like_the_input(name: str) -> None:
    dtype = getattr(torch, name)
    q, k, v = draw(2, 5, 4, 16, dtype=dtype), draw(2, 9, 2, 16, dtype=dtype), draw(2, 9, 2, 24, dtype=dtype)
    o, lse = flashattn.attention(q, k, v, causal=True, return_lse=True)
    assert o.dtype == dtype and o.device == q.device and o.is_contiguous() and lse.dtype == torch.float32
    want, want_lse = oracle.batch(wide(q), wide(k), wide(v), causal=True)
    close(o, want, name)
    np.testing.assert_allclose(lse, want_lse, rtol=2e-5, atol=2e-5)


def test_pointers_pass_through(seen: Any) -> None:
    big = draw(2, 8, 20, 40)
    q, k, v = big[:, ::2, 3:8, :16], big[:, 1:3, 1:10, 8:24], big[:, 4:6, 2:11, 16:40]
    mask = torch.rand(2, 1, 5, 9) < 0.6
    o = ft.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    call = seen.call
    for name, tensor in (("q", q), ("k", k), ("v", v), ("bias", mask), ("o", o)):
        assert getattr(call, name).data == tensor.data_ptr(), name
    assert (call.q.stride_batch, call.q.stride_head, call.q.stride_seq) == (q.stride(0), q.stride(1), q.stride(2))
    assert (call.bias.stride_batch, call.bias.stride_head) == (mask.stride(0), 0)
    close(o, functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True))


def test_ragged_and_paged() -> None:
    lengths = torch.tensor([0, 3, 3, 10], dtype=torch.int32)
    q, k, v = draw(10, 4, 16), draw(10, 2, 16), draw(10, 2, 16)
    o = flashattn.attention_ragged(q, k, v, lengths, lengths, causal=True)
    for begin, end in ((0, 3), (3, 10)):
        close(o[begin:end], oracle.one(*(wide(x[begin:end]) for x in (q, k, v)), causal=True)[0])
    close(ft.flash_attn_varlen_func(q, k, v, lengths, lengths, 7, 7, causal=True), o)


# --------------------------------------------------------------------------------------------- torch.compile --


def compiled(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def test_compile_has_no_graph_break() -> None:
    def layer(q: Any, k: Any, v: Any) -> Any:
        o, lse = ft.attention(q * 2, k, v, causal=True, window=(3, 0), softcap=5.0, return_lse=True)
        return o + 1, lse

    run = compiled(layer)
    for n_k in (9, 12, 13):
        q, k, v = draw(2, 5, 4, 16), draw(2, n_k, 2, 16), draw(2, n_k, 2, 8)
        for got, want in zip(run(q, k, v), layer(q, k, v)):
            assert got.shape == want.shape and got.dtype == want.dtype
            torch.testing.assert_close(got, want)


def test_compile_drop_ins() -> None:
    q, k, v = draw(2, 4, 5, 16), draw(2, 4, 9, 16), draw(2, 4, 9, 16)
    run = compiled(ft.scaled_dot_product_attention)
    close(run(q, k, v, is_causal=True), functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    mask = torch.rand(5, 9) < 0.7
    close(run(q, k, v, mask), functional.scaled_dot_product_attention(q, k, v, mask))
    starts = torch.tensor([0, 4, 10], dtype=torch.int32)
    q, k, v = draw(10, 4, 16), draw(10, 4, 16), draw(10, 4, 16)
    varlen = compiled(ft.flash_attn_varlen_func)
    close(varlen(q, k, v, starts, starts, 6, 6, causal=True), ft.flash_attn_varlen_func(q, k, v, starts, starts, 6, 6, causal=True))


@pytest.mark.parametrize("name", ["dense", "dense bhsd", "ragged"])
def test_operators_pass_torchs_own_checks(name: str) -> None:
    if name == "ragged":
        starts = torch.tensor([0, 4, 10], dtype=torch.int32)
        x = draw(10, 4, 16)
        arguments = (x, draw(10, 2, 16), draw(10, 2, 8), starts, starts, 6, 6, True, None, -1, -1, 0.0, None, None)
        operator = torch.ops.flashattn.ragged.default
    else:
        layout = "bhsd" if "bhsd" in name else "bshd"
        shapes = ((2, 4, 5, 16), (2, 2, 9, 16), (2, 2, 9, 8)) if layout == "bhsd" else ((2, 5, 4, 16), (2, 9, 2, 16), (2, 9, 2, 8))
        q, k, v = (draw(*shape) for shape in shapes)
        mask = torch.rand(5, 9) < 0.7
        arguments = (q, k, v, True, 0.3, 3, 0, 2.0, draw(4), draw(4), mask, 0, None, None, None, layout)
        operator = torch.ops.flashattn.dense.default
    torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


# --------------------------------------------------------------------------------------------------- drop-ins --


@pytest.mark.parametrize("sizes", [(5, 9), (9, 5), (6, 6), (1, 4)])
def test_sdpa_is_causal_from_the_top_left(sizes: tuple[int, int]) -> None:
    q, k, v = draw(2, 4, sizes[0], 16), draw(2, 4, sizes[1], 16), draw(2, 4, sizes[1], 16)
    close(ft.scaled_dot_product_attention(q, k, v, is_causal=True), functional.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("shape", [(2, 4, 5, 9), (2, 1, 5, 9), (1, 1, 5, 9), (5, 9), (4, 1, 9)])
@pytest.mark.parametrize("kind", ["boolean", "additive"])
def test_sdpa_masks(shape: tuple[int, ...], kind: str) -> None:
    q, k, v = draw(2, 4, 5, 16), draw(2, 4, 9, 16), draw(2, 4, 9, 16)
    mask = draw(*shape)
    if kind == "boolean":
        mask = mask > 0.0
        mask[..., 0] = True  # PyTorch differs between its kernels on rows without keys
    close(ft.scaled_dot_product_attention(q, k, v, mask), functional.scaled_dot_product_attention(q, k, v, mask))


def test_sdpa_heads_scale_and_three_dimensions() -> None:
    q, k, v = draw(2, 6, 5, 16), draw(2, 2, 9, 16), draw(2, 2, 9, 16)
    close(
        ft.scaled_dot_product_attention(q, k, v, scale=0.4, enable_gqa=True),
        functional.scaled_dot_product_attention(q, k, v, scale=0.4, enable_gqa=True),
    )
    with pytest.raises(ValueError, match="key has 2 heads and query 6"):
        ft.scaled_dot_product_attention(q, k, v)
    q, k, v = draw(3, 5, 16), draw(3, 9, 16), draw(3, 9, 16)
    mask = draw(3, 5, 9)
    close(ft.scaled_dot_product_attention(q, k, v, mask), functional.scaled_dot_product_attention(q, k, v, mask))


def test_flash_attn_func() -> None:
    q, k, v, slopes = draw(2, 5, 4, 16), draw(2, 9, 2, 16), draw(2, 9, 2, 16), draw(4)
    out, lse, probabilities = ft.flash_attn_func(
        q, k, v, softmax_scale=0.3, causal=True, window_size=(4, 0), softcap=3.0, alibi_slopes=slopes, return_attn_probs=True
    )
    want, want_lse = oracle.batch(
        wide(q), wide(k), wide(v), scale=0.3, causal=True, window=(4, 0), softcap=3.0, alibi=wide(slopes)
    )
    close(out, want)
    np.testing.assert_allclose(lse, want_lse, rtol=2e-5, atol=2e-5)
    assert probabilities is None


def test_flash_attn_varlen_func_with_pages() -> None:
    starts_q = torch.tensor([0, 2, 5], dtype=torch.int32)
    starts_k = torch.tensor([0, 7, 11], dtype=torch.int32)
    pool_k, pool_v = draw(6, 4, 2, 16), draw(6, 4, 2, 16)
    table = torch.tensor([[3, 1], [5, -1]], dtype=torch.int32)
    q = draw(5, 4, 16)
    o, lse, _ = ft.flash_attn_varlen_func(
        q, pool_k, pool_v, starts_q, starts_k, 3, 7, causal=True, block_table=table, return_attn_probs=True
    )
    assert lse.shape == (4, 5)
    for rows, pages, n_k in ((slice(0, 2), [3, 1], 7), (slice(2, 5), [5], 4)):
        k, v = (wide(pool[pages].flatten(0, 1)[:n_k]) for pool in (pool_k, pool_v))
        close(o[rows], oracle.one(wide(q[rows]), k, v, causal=True)[0])


def test_flash_attn_with_kvcache() -> None:
    q, k, v = draw(2, 1, 4, 16), draw(2, 12, 2, 16), draw(2, 12, 2, 16)
    used = torch.tensor([7, 12], dtype=torch.int32)
    o = ft.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, causal=True)
    for b, n_k in enumerate((7, 12)):
        close(o[b], oracle.one(wide(q[b]), wide(k[b, :n_k]), wide(v[b, :n_k]), causal=True)[0])
    paged = ft.flash_attn_with_kvcache(
        q, k.reshape(8, 3, 2, 16), v.reshape(8, 3, 2, 16), cache_seqlens=used,
        block_table=torch.arange(8, dtype=torch.int32).reshape(2, 4), causal=True,
    )  # fmt: skip
    close(paged, o)


# ------------------------------------------------------------------------------------- what does not exist yet --


def test_what_is_missing_is_refused_by_name() -> None:
    x = draw(1, 4, 4, 16)
    starts = torch.tensor([0, 4], dtype=torch.int32)
    flat = draw(4, 4, 16)
    with pytest.raises(NotImplementedError, match="dropout_p is 0.1; dropout is not available"):
        ft.scaled_dot_product_attention(x, x, x, dropout_p=0.1)
    with pytest.raises(NotImplementedError, match="dropout_p is 0.1"):
        ft.flash_attn_func(x, x, x, 0.1)
    with pytest.raises(NotImplementedError, match="dropout_p is 0.1"):
        ft.flash_attn_varlen_func(flat, flat, flat, starts, starts, 4, 4, 0.1)
    with pytest.raises(NotImplementedError, match="k is set; kv-cache update is not available"):
        ft.flash_attn_with_kvcache(x, x, x, k=x, v=x)
    with pytest.raises(NotImplementedError, match="rotary_cos is set"):
        ft.flash_attn_with_kvcache(x, x, x, rotary_cos=x)
    with pytest.raises(ValueError, match="attn_mask and is_causal are both set"):
        ft.scaled_dot_product_attention(x, x, x, torch.ones(4, 4, dtype=torch.bool), is_causal=True)
    with pytest.raises(NotImplementedError, match="'meta'"):
        flashattn.attention(*(x.to("meta") for _ in "qkv"))


def test_gradients_are_refused_by_name() -> None:
    x = draw(1, 4, 4, 16).requires_grad_()
    flat = draw(4, 4, 16).requires_grad_()
    starts = torch.tensor([0, 4], dtype=torch.int32)
    for call in (
        lambda: flashattn.attention(x, x, x),
        lambda: ft.scaled_dot_product_attention(x, x, x),
        lambda: ft.flash_attn_func(x, x, x),
        lambda: ft.flash_attn_varlen_func(flat, flat, flat, starts, starts, 4, 4),
    ):
        with pytest.raises(NotImplementedError, match="gradients: .*no backward pass"):
            call()
    with torch.no_grad():
        assert not ft.scaled_dot_product_attention(x, x, x).requires_grad
    with torch.inference_mode():
        ft.flash_attn_func(x, x, x)
    with pytest.raises(Exception, match="gradients: .*no backward pass"):
        compiled(ft.scaled_dot_product_attention)(x, x, x).sum().backward()
