# SPDX-License-Identifier: Apache-2.0
"""The functions of the package: dense, ragged and paged attention, and merging of partial results."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from ._core import (
    _FLOATS,
    Handle,
    _check_handle,
    _rows,
    argument,
    dtype_name,
    fill_dense,
    fill_paged,
    fill_ragged,
    int32,
    run,
)
from ._dlpack import contiguous_strides
from ._library import default
from ._tensors import adapter_of

# Any object with __dlpack__, __cuda_array_interface__ or the buffer protocol.
Tensor = Any


def _window(window: tuple[int | None, int | None] | None) -> tuple[int | None, int | None] | None:
    if window is None:
        return None
    left, right = window
    return (left, right)


def _optional(diag_offset: int | Tensor, named: dict[str, Tensor | None]) -> tuple[int, dict[str, Tensor] | None]:
    """The diagonal's number, and the optional tensors that are there."""
    present = {name: x for name, x in named.items() if x is not None}
    if isinstance(diag_offset, int):
        return int32("diag_offset", diag_offset), present
    present["diag_offsets"] = diag_offset
    return 0, present


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
    out: Tensor | None = None,
    lse_out: Tensor | None = None,
    handle: Handle | None = None,
    num_splits: int = 0,
    batch_invariant: bool = False,
    precision: str = "ieee",
    kernel: str = "",
    require_fast: bool = False,
) -> Any:
    """Exact attention, ``softmax(scale * q k^T + bias) v`` under a mask, of a batch of sequences of one length.

    Args:
        q: ``[batch, seqlen_q, heads_q, head_dim]``; float32, float16 or bfloat16. Any strides, the last one 1.
        k: ``[batch, seqlen_kv, heads_kv, head_dim]``. heads_kv divides heads_q: query head h reads KV head
            ``h // (heads_q // heads_kv)``.
        v: ``[batch, seqlen_kv, heads_kv, head_dim_v]``, of k's element type, which may differ from q's.
        causal: query i sees key j when ``j <= i + d``, ``d = seqlen_kv - seqlen_q + diag_offset``: the last query
            stands at the last key. Top-left alignment is ``diag_offset = seqlen_q - seqlen_kv``.
        scale: None is ``1 / sqrt(head_dim)``.
        window: (left, right): query i sees ``i + d - left <= j <= i + d + right``, both ends included; None or -1
            leaves a side open. With causal, right is 0.
        softcap: ``softcap * tanh(score / softcap)``, before alibi, bias and mask.
        alibi: slopes, float32 ``[heads_q]`` or ``[batch, heads_q]``: ``score - slope * |i + d - j|``.
        sinks: float32 ``[heads_q]`` or ``[batch, heads_q]``: exp(sink) joins the head's denominator.
        bias: added to the score; float32, float16 or bfloat16, broadcasts to ``[batch, heads_q, seqlen_q,
            seqlen_kv]``. -inf hides a key.
        mask: bool or uint8, broadcasts likewise; true is visible. Not together with bias.
        diag_offset: int, or int32 ``[batch]``.
        seqused_q, seqused_kv: int32 ``[batch]``: how many rows of each sequence are there. Later rows are not read;
            of an output made here they are 0.
        layout: order of the dimensions of q, k, v and out: "bshd" as above, or "bhsd", ``[batch, heads, seqlen, dim]``.
        return_lse: also return the logarithm of the softmax's denominator, float32 ``[batch, heads_q, seqlen_q]``.
        out, lse_out: tensors to write to instead of new ones. out's element type may differ from q's.
        handle: a :class:`flashattn.Handle`; None is a shared one of the tensors' device.
        num_splits: parts that the keys are cut into; 0 chooses.
        batch_invariant: a row's bits do not depend on the batch, its place in it or other lengths.
        precision: of float32 products: "ieee", or on a GPU "tf32", "tf32x3".
        kernel: force one by name (:func:`flashattn.kernels`).
        require_fast: an error rather than the slower kernel for odd alignments.

    Returns:
        ``[batch, seqlen_q, heads_q, head_dim_v]`` like q: same framework, device and element type; with return_lse
        the pair (out, lse). A row that sees no key is 0, its lse -inf. On a GPU the work is enqueued on the
        framework's current stream.

    Raises:
        flashattn.ArgumentError (a ValueError), flashattn.UnsupportedError (a NotImplementedError) or another
        :class:`flashattn.Error`, with the argument, its value and the rule. Nothing is written then.
    """
    if (
        alibi is None
        and sinks is None
        and bias is None
        and mask is None
        and seqused_q is None
        and seqused_kv is None
        and type(diag_offset) is int
        and diag_offset == 0
    ):
        offset, extras = 0, None
    else:
        if bias is not None and mask is not None:
            raise argument("bias and mask are both set; one of them at most: write the mask into bias as -inf")
        offset, extras = _optional(
            diag_offset,
            {
                "alibi": alibi,
                "sinks": sinks,
                "bias": bias,
                "mask": mask,
                "seqused_q": seqused_q,
                "seqused_kv": seqused_kv,
            },
        )
    options = (
        layout,
        causal,
        scale,
        window if window is None else _window(window),
        softcap,
        num_splits,
        batch_invariant,
        precision,
        kernel,
        require_fast,
    )
    return run(fill_dense, q, k, v, extras, options, offset, return_lse, out, lse_out, handle)


def attention_ragged(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_kv: int | None = None,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    alibi: Tensor | None = None,
    sinks: Tensor | None = None,
    diag_offset: int | Tensor = 0,
    seqused_q: Tensor | None = None,
    seqused_kv: Tensor | None = None,
    return_lse: bool = False,
    out: Tensor | None = None,
    lse_out: Tensor | None = None,
    handle: Handle | None = None,
    num_splits: int = 0,
    batch_invariant: bool = False,
    precision: str = "ieee",
    kernel: str = "",
    require_fast: bool = False,
) -> Any:
    """Attention of sequences of different lengths, packed one after the other (varlen).

    Args:
        q: ``[total_q, heads_q, head_dim]``; sequence b is rows ``cu_seqlens_q[b] : cu_seqlens_q[b + 1]``.
        k, v: ``[total_kv, heads_kv, head_dim]`` and ``[total_kv, heads_kv, head_dim_v]``, by cu_seqlens_kv.
        cu_seqlens_q, cu_seqlens_kv: ``[batch + 1]``, int32 or both int64, where the tensors are.
        max_seqlen_q, max_seqlen_kv: bounds on the lengths; None is the total. Tight bounds help on a GPU.
        Others: as in :func:`attention`, which also has bias and mask.

    Returns:
        ``[total_q, heads_q, head_dim_v]``; with return_lse also float32 ``[heads_q, total_q]``. Rows that belong to
        no sequence are 0 in an output made here, and untouched in ``out``.
    """
    offset, extras = _optional(
        diag_offset,
        {
            "cu_seqlens_q": cu_seqlens_q,
            "cu_seqlens_kv": cu_seqlens_kv,
            "alibi": alibi,
            "sinks": sinks,
            "seqused_q": seqused_q,
            "seqused_kv": seqused_kv,
        },
    )
    options = (
        "bshd",
        causal,
        scale,
        _window(window),
        softcap,
        num_splits,
        batch_invariant,
        precision,
        kernel,
        require_fast,
        max_seqlen_q,
        max_seqlen_kv,
    )
    return run(fill_ragged, q, k, v, extras, options, offset, return_lse, out, lse_out, handle)


def attention_paged(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    seqused_kv: Tensor,
    page_table: Tensor | None = None,
    *,
    page_indptr: Tensor | None = None,
    page_indices: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_kv: int | None = None,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    alibi: Tensor | None = None,
    sinks: Tensor | None = None,
    diag_offset: int | Tensor = 0,
    seqused_q: Tensor | None = None,
    layout: str = "bshd",
    return_lse: bool = False,
    out: Tensor | None = None,
    lse_out: Tensor | None = None,
    handle: Handle | None = None,
    num_splits: int = 0,
    batch_invariant: bool = False,
    precision: str = "ieee",
    kernel: str = "",
    require_fast: bool = False,
) -> Any:
    """Attention over a paged KV cache.

    Args:
        q: ``[batch, seqlen_q, heads_q, head_dim]``, or with cu_seqlens_q ``[total_q, heads_q, head_dim]``.
        k_pages, v_pages: ``[pages, page_size, heads_kv, dim]``, or with layout "bhsd" ``[pages, heads_kv, page_size,
            dim]``. Any page size.
        seqused_kv: int32 ``[batch]``, the keys of each sequence.
        page_table: int32 ``[batch, width]``: the pages of each sequence, in order. Entries past its end are not read.
        page_indptr, page_indices: int32 ``[batch + 1]`` and ``[entries]``, instead of page_table: sequence b has
            pages ``page_indices[page_indptr[b] : page_indptr[b + 1]]``.
        max_seqlen_q, max_seqlen_kv: bounds on the lengths; None is what the tensors can hold.
        Others: as in :func:`attention`, which also has bias and mask.

    Returns:
        As :func:`attention`, or with cu_seqlens_q as :func:`attention_ragged`.
    """
    if (page_table is None) == (page_indptr is None and page_indices is None):
        raise argument("a paged cache takes page_table, or page_indptr with page_indices; one of the two")
    if (page_indptr is None) != (page_indices is None):
        raise argument("page_indptr and page_indices go together; one of them is None")
    offset, extras = _optional(
        diag_offset,
        {
            "cu_seqlens_q": cu_seqlens_q,
            "seqused_kv": seqused_kv,
            "page_table": page_table,
            "page_indptr": page_indptr,
            "page_indices": page_indices,
            "alibi": alibi,
            "sinks": sinks,
            "seqused_q": seqused_q,
        },
    )
    options = (
        layout,
        causal,
        scale,
        _window(window),
        softcap,
        num_splits,
        batch_invariant,
        precision,
        kernel,
        require_fast,
        max_seqlen_q,
        max_seqlen_kv,
    )
    return run(fill_paged, q, k_pages, v_pages, extras, options, offset, return_lse, out, lse_out, handle)


def combine(
    o_parts: Tensor,
    lse_parts: Tensor,
    *,
    return_lse: bool = False,
    out: Tensor | None = None,
    handle: Handle | None = None,
) -> Any:
    """Merges results over disjoint sets of keys: ``lse = ln sum exp(lse_p)``, ``o = sum exp(lse_p - lse) o_p``.

    Args:
        o_parts: ``[parts, batch, seqlen_q, heads, head_dim_v]``; float32, float16 or bfloat16.
        lse_parts: float32 ``[parts, batch, heads, seqlen_q]``, as :func:`attention` returns it. A part of -inf counts
            nothing. One part, at most, may have counted a sink.
        out: a tensor to write to, ``[batch, seqlen_q, heads, head_dim_v]``.

    Returns:
        ``[batch, seqlen_q, heads, head_dim_v]`` of o_parts' element type; with return_lse also float32 ``[batch,
        heads, seqlen_q]``.
    """
    adapter = adapter_of(o_parts)
    pointer_o, layout_o, owner_o = adapter.describe(o_parts)
    o = adapter.view(layout_o)
    adapter_lse = adapter_of(lse_parts)
    pointer_lse, layout_lse, owner_lse = adapter_lse.describe(lse_parts)
    lse = adapter_lse.view(layout_lse)
    if len(o.shape) != 5:
        raise argument(f"o_parts has {len(o.shape)} dimensions; it must be [parts, batch, seqlen_q, heads, head_dim_v]")
    parts, batch, seqlen_q, heads, dim = o.shape
    if lse.shape != (parts, batch, heads, seqlen_q) or lse.dtype != _abi.DTYPE_F32:
        raise argument(
            f"lse_parts is {dtype_name(lse.dtype)} {list(lse.shape)}; it must be float32 [parts, batch, heads, seqlen_q], "
            f"here {[parts, batch, heads, seqlen_q]}"
        )
    if o.dtype not in _FLOATS:
        raise argument(f"o_parts is {dtype_name(o.dtype)}; it must be float32, float16 or bfloat16")
    if lse.device != o.device:
        raise argument("o_parts and lse_parts are on different devices")
    what = "[parts, batch, seqlen_q, heads, head_dim_v]"
    row = _rows("o_parts", o._replace(shape=o.shape[1:], strides=o.strides[1:]), "bshd", 4, what)
    made = adapter.empty((batch, seqlen_q, heads, dim), o.dtype, o_parts, False) if out is None else out
    if out is None:
        pointer_out, out_dtype = adapter.pointer(made), o.dtype
        out_row = _rows("out", o._replace(shape=(batch, seqlen_q, heads, dim), strides=contiguous_strides(o.shape[1:])),
                        "bshd", 4, what)
    else:
        its = adapter_of(out)
        pointer_out, layout_out, owner_out = its.describe(out)
        view = its.view(layout_out)
        if view.shape != (batch, seqlen_q, heads, dim) or not view.writable or view.device != o.device:
            raise argument(f"out has shape {list(view.shape)}; it must be writable {[batch, seqlen_q, heads, dim]}")
        out_dtype, out_row = view.dtype, _rows("out", view, "bshd", 4, what)
    merged = adapter.empty((batch, heads, seqlen_q), _abi.DTYPE_F32, o_parts, False) if return_lse else None

    args: Any = _abi.new(_abi.CombineArgs)
    args.num_parts, args.batch, args.seqlen_q, args.num_heads, args.head_dim_v = parts, batch, seqlen_q, heads, dim
    args.dtype_partial, args.dtype_o = o.dtype, out_dtype
    for target, pointer, its_row in ((args.o_partial, pointer_o, row), (args.o, pointer_out, out_row)):
        target.data = pointer
        target.stride_batch, target.stride_seq, target.stride_head = its_row[4:]
    args.o_partial_stride_part = o.strides[0] if parts > 1 else 0
    args.lse_partial_stride_part = lse.strides[0] if parts > 1 else 0
    for target, shape, strides, pointer in (
        (args.lse_partial, lse.shape[1:], lse.strides[1:], pointer_lse),
        (args.lse, lse.shape[1:], contiguous_strides(lse.shape[1:]), merged if merged is None else adapter.pointer(merged)),
    ):
        target.data = pointer
        steps = [stride if extent > 1 else 0 for extent, stride in zip(shape, strides)]
        target.stride_batch, target.stride_head, target.stride_seq = steps
    if handle is None:
        handle = default().handle(*o.device)
    else:
        _check_handle(handle, o.device)
    library = handle.library
    library.check(library.c.flashattn_combine(handle.pointer, ctypes.byref(args), adapter.stream(o_parts)))
    result = out if out is not None else adapter.finish(made)
    return (result, adapter.finish(merged)) if return_lse else result
