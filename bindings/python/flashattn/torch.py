# SPDX-License-Identifier: Apache-2.0
"""Attention for PyTorch: drop-ins for the functions that models call, and operators that ``torch.compile`` takes.

In eager mode a call goes straight to the library. Under ``torch.compile`` and ``torch.export`` it becomes one of the
operators ``flashattn::dense`` and ``flashattn::ragged``, whose fake kernels give shapes without computing.
There is no backward pass yet: an input that requires grad is refused by name.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _attention
from ._errors import ArgumentError, UnsupportedError

_EAGER = (torch.Tensor, torch.nn.Parameter)


def _refuse(name: str, value: Any, why: str) -> UnsupportedError:
    return UnsupportedError(f"{name} is {value}; {why}")


def _no_dropout(name: str, p: float) -> None:
    if p != 0.0:
        raise _refuse(name, p, "dropout is not available, it must be 0")


# --------------------------------------------------------------------------------------------------- operators --


@torch.library.custom_op("flashattn::dense", mutates_args=())
def _dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: Optional[float],
    window_left: int,
    window_right: int,
    softcap: float,
    alibi: Optional[Tensor],
    sinks: Optional[Tensor],
    bias: Optional[Tensor],
    diag_offset: int,
    diag_offsets: Optional[Tensor],
    seqused_q: Optional[Tensor],
    seqused_kv: Optional[Tensor],
    layout: str,
) -> tuple[Tensor, Tensor]:
    boolean = bias is not None and bias.dtype in (torch.bool, torch.uint8)
    out, lse = _attention.attention(
        q.detach(),
        k.detach(),
        v.detach(),
        causal=causal,
        scale=scale,
        window=None if window_left == window_right == -1 else (window_left, window_right),
        softcap=softcap or None,
        alibi=alibi,
        sinks=sinks,
        mask=bias if boolean else None,
        bias=None if boolean else bias,
        diag_offset=diag_offset if diag_offsets is None else diag_offsets,
        seqused_q=seqused_q,
        seqused_kv=seqused_kv,
        layout=layout,
        return_lse=True,
    )
    return out, lse


@_dense.register_fake
def _dense_fake(q, k, v, causal, scale, window_left, window_right, softcap, alibi, sinks, bias, diag_offset,
                diag_offsets, seqused_q, seqused_kv, layout):  # fmt: skip
    batch, first, second, _ = q.shape
    out = q.new_empty((batch, first, second, v.shape[-1]))
    heads, seqlen = (second, first) if layout == "bshd" else (first, second)
    return out, q.new_empty((batch, heads, seqlen), dtype=torch.float32)


@torch.library.custom_op("flashattn::ragged", mutates_args=())
def _ragged(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    max_seqlen_q: int,
    max_seqlen_kv: int,
    causal: bool,
    scale: Optional[float],
    window_left: int,
    window_right: int,
    softcap: float,
    alibi: Optional[Tensor],
    page_table: Optional[Tensor],
) -> tuple[Tensor, Tensor]:
    named: dict[str, Any] = {
        "max_seqlen_q": max_seqlen_q,
        "max_seqlen_kv": max_seqlen_kv,
        "causal": causal,
        "scale": scale,
        "window": None if window_left == window_right == -1 else (window_left, window_right),
        "softcap": softcap or None,
        "alibi": alibi,
        "return_lse": True,
    }
    q, k, v = q.detach(), k.detach(), v.detach()
    if page_table is None:
        return _attention.attention_ragged(q, k, v, cu_seqlens_q, cu_seqlens_kv, **named)
    used = (cu_seqlens_kv[1:] - cu_seqlens_kv[:-1]).to(torch.int32)
    return _attention.attention_paged(q, k, v, used, page_table, cu_seqlens_q=cu_seqlens_q, **named)


@_ragged.register_fake
def _ragged_fake(q, k, v, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, causal, scale, window_left,
                 window_right, softcap, alibi, page_table):  # fmt: skip
    out = q.new_empty((q.shape[0], q.shape[1], v.shape[-1]))
    return out, q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


def _no_backward(ctx: Any, *grads: Any) -> Any:
    raise UnsupportedError(
        "gradients: an input requires grad, and there is no backward pass yet; call under torch.no_grad() or "
        "torch.inference_mode(), or detach() the tensor"
    )


_dense.register_autograd(_no_backward)
_ragged.register_autograd(_no_backward)


def _traced(*tensors: Tensor) -> bool:
    """Whether this call is being traced rather than run."""
    return torch.compiler.is_compiling() or any(type(t) not in _EAGER for t in tensors)


def _sides(window: Any) -> tuple[int, int]:
    if window is None:
        return -1, -1
    left, right = window
    return -1 if left is None else left, -1 if right is None else right


# ----------------------------------------------------------------------------------------------------- functions --


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    alibi: Tensor | None = None,
    sinks: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    diag_offset: int | Tensor = 0,
    seqused_q: Tensor | None = None,
    seqused_kv: Tensor | None = None,
    layout: str = "bshd",
    return_lse: bool = False,
) -> Any:
    """:func:`flashattn.attention` for torch tensors, which ``torch.compile`` takes without a graph break.

    Arguments and results as there: q ``[batch, seqlen_q, heads_q, head_dim]``, or by ``layout``.
    """
    if not _traced(q, k, v):
        return _attention.attention(
            q,
            k,
            v,
            causal=causal,
            scale=scale,
            window=window,
            softcap=softcap,
            alibi=alibi,
            sinks=sinks,
            bias=bias,
            mask=mask,
            diag_offset=diag_offset,
            seqused_q=seqused_q,
            seqused_kv=seqused_kv,
            layout=layout,
            return_lse=return_lse,
        )
    if bias is not None and mask is not None:
        raise ArgumentError("bias and mask are both set; one of them at most: write the mask into bias as -inf")
    left, right = _sides(window)
    per_sequence = isinstance(diag_offset, Tensor)
    out, lse = _dense(
        q,
        k,
        v,
        causal,
        scale,
        left,
        right,
        softcap or 0.0,
        alibi,
        sinks,
        bias if bias is not None else mask,
        0 if per_sequence else diag_offset,
        diag_offset if per_sequence else None,
        seqused_q,
        seqused_kv,
        layout,
    )
    return (out, lse) if return_lse else out


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Drop-in for ``torch.nn.functional.scaled_dot_product_attention``.

    Args:
        query: ``[batch, heads, seqlen_q, head_dim]``, or ``[batch, seqlen_q, head_dim]`` for one head.
        key, value: ``[batch, heads_kv, seqlen_kv, head_dim or head_dim_v]``.
        attn_mask: boolean (true takes part) or added to the score; broadcasts to ``[batch, heads, seqlen_q,
            seqlen_kv]``. Not together with is_causal.
        is_causal: query i sees key j when ``j <= i``, aligned top-left as in PyTorch.
        enable_gqa: key and value may have fewer heads, which divide the query's.

    Returns:
        ``[batch, heads, seqlen_q, head_dim_v]`` of query's element type. A row that sees no key is 0.
    """
    _no_dropout("dropout_p", dropout_p)
    if query.dim() == 3 and key.dim() == 3 and value.dim() == 3:
        mask = attn_mask.unsqueeze(-3) if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        return scaled_dot_product_attention(
            query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mask, 0.0, is_causal, scale, enable_gqa
        ).squeeze(1)
    if query.dim() != 4:
        raise ArgumentError(f"query has {query.dim()} dimensions; it must be [batch, heads, seqlen_q, head_dim]")
    if is_causal and attn_mask is not None:
        raise ArgumentError("attn_mask and is_causal are both set; one of them at most")
    heads = query.shape[1]
    if key.dim() == 4 and not enable_gqa and key.shape[1] != heads:
        if key.shape[1] != 1:
            raise ArgumentError(
                f"key has {key.shape[1]} heads and query {heads}; they must be the same unless enable_gqa is set"
            )
    boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    return attention(
        query,
        key,
        value,
        causal=is_causal,
        scale=scale,
        mask=attn_mask if boolean else None,
        bias=None if boolean else attn_mask,
        diag_offset=query.shape[-2] - key.shape[-2] if is_causal else 0,
        layout="bhsd",
    )


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Drop-in for the forward pass of ``flash_attn.flash_attn_func``.

    Args:
        q: ``[batch, seqlen_q, heads, head_dim]``; k, v: ``[batch, seqlen_kv, heads_kv, head_dim]``.
        causal, window_size: aligned at the last key.  alibi_slopes: float32 ``[heads]`` or ``[batch, heads]``.
        deterministic: results always are.

    Returns:
        ``[batch, seqlen_q, heads, head_dim]``; with return_attn_probs (out, lse, None), lse float32 ``[batch, heads,
        seqlen_q]``: probabilities are never stored. The lse of a row without keys is -inf.
    """
    _no_dropout("dropout_p", dropout_p)
    out = attention(
        q,
        k,
        v,
        causal=causal,
        scale=softmax_scale,
        window=None if tuple(window_size) == (-1, -1) else tuple(window_size),  # type: ignore[arg-type]
        softcap=softcap or None,
        alibi=alibi_slopes,
        return_lse=return_attn_probs,
    )
    return (*out, None) if return_attn_probs else out


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    """Drop-in for the forward pass of ``flash_attn.flash_attn_varlen_func``.

    Args:
        q: ``[total_q, heads, head_dim]``; k, v: ``[total_kv, heads_kv, head_dim]``, or with block_table
            ``[pages, page_size, heads_kv, head_dim]``.
        cu_seqlens_q, cu_seqlens_k: int32 ``[batch + 1]``.  block_table: int32 ``[batch, pages per sequence]``.

    Returns:
        ``[total_q, heads, head_dim]``; with return_attn_probs (out, lse, None), lse float32 ``[heads, total_q]``.
    """
    _no_dropout("dropout_p", dropout_p)
    left, right = _sides(window_size)
    traced = _traced(q, k, v)
    if not traced:
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            if tensor.requires_grad and torch.is_grad_enabled():
                raise UnsupportedError(f"gradients: {name} requires grad, and there is no backward pass yet")
    run = _ragged if traced else _ragged._init_fn
    out, lse = run(
        q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k), causal, softmax_scale, left, right,
        softcap, alibi_slopes, block_table,
    )  # fmt: skip
    return (out, lse, None) if return_attn_probs else out


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """Drop-in for ``flash_attn.flash_attn_with_kvcache`` where the cache already holds the new keys.

    Args:
        q: ``[batch, seqlen_q, heads, head_dim]``.
        k_cache, v_cache: ``[batch, seqlen_cache, heads_kv, head_dim]``, or with block_table ``[pages, page_size,
            heads_kv, head_dim]``.
        cache_seqlens: int or int32 ``[batch]``: the keys of each sequence, the new ones included.
        k, v, rotary_cos, rotary_sin, cache_batch_idx, cache_leftpad: must be None: the cache is never updated here.

    Returns:
        ``[batch, seqlen_q, heads, head_dim]``; with return_softmax_lse (out, lse).
    """
    for name, value in (("k", k), ("v", v)):
        if value is not None:
            raise UnsupportedError(f"{name} is set; kv-cache update is not available: append to the cache first")
    for name, value in (
        ("rotary_cos", rotary_cos),
        ("rotary_sin", rotary_sin),
        ("cache_batch_idx", cache_batch_idx),
        ("cache_leftpad", cache_leftpad),
    ):
        if value is not None:
            raise UnsupportedError(f"{name} is set; it is not available and must be None")
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    named: dict[str, Any] = {
        "causal": causal,
        "scale": softmax_scale,
        "window": None if tuple(window_size) == (-1, -1) else tuple(window_size),
        "softcap": softcap or None,
        "alibi": alibi_slopes,
        "num_splits": num_splits,
        "return_lse": return_softmax_lse,
    }
    if block_table is None:
        return _attention.attention(q, k_cache, v_cache, seqused_kv=cache_seqlens, **named)
    if cache_seqlens is None:
        raise ArgumentError("cache_seqlens is None; a paged cache needs it")
    return _attention.attention_paged(q, k_cache, v_cache, cache_seqlens, block_table, **named)
