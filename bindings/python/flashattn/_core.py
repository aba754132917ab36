# SPDX-License-Identifier: Apache-2.0
"""From tensors to ``flashattn_attention``.

What a call needs beyond its pointers depends only on the tensors' layouts and the options. It is checked and filled
into a problem and a call once, kept under those as key (:class:`Prepared`), and later calls write pointers into it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _abi, _errors
from ._dlpack import contiguous_strides
from ._library import BACKEND_NAMES, BACKENDS, Handle, default
from ._tensors import DTYPE_NAMES, I32, I64, View, adapter_of

_INT32_MAX = 2**31 - 1
_KEPT = 2048  # prepared calls; the oldest goes first
_PRECISIONS = {"ieee": _abi.PRECISION_IEEE, "tf32": _abi.PRECISION_TF32, "tf32x3": _abi.PRECISION_TF32X3}
_FLOATS = (_abi.DTYPE_F32, _abi.DTYPE_F16, _abi.DTYPE_BF16)


class Options(NamedTuple):
    """What is computed and how, apart from the tensors. ``window``, ``scale`` and ``softcap`` are None when off."""

    layout: str
    causal: bool
    scale: float | None
    window: tuple[int | None, int | None] | None
    softcap: float | None
    num_splits: int
    batch_invariant: bool
    precision: str
    kernel: str
    require_fast: bool
    max_seqlen_q: int | None = None
    max_seqlen_kv: int | None = None


class Row(NamedTuple):
    """The dimensions of a dense tensor by role, each with its stride."""

    batch: int
    seq: int
    heads: int
    dim: int
    stride_batch: int
    stride_seq: int
    stride_head: int


def argument(message: str) -> _errors.ArgumentError:
    return _errors.ArgumentError(message)


def int32(name: str, value: int) -> int:
    """``value``, which C holds in an int32."""
    if not -_INT32_MAX - 1 <= value <= _INT32_MAX:
        raise argument(f"{name} is {value}; it must fit an int32")
    return value


def _roomy(value: int) -> int:
    """A maximum for problems: the next power of two, so that a growing cache needs few plans."""
    return min(1 << max(value - 1, 0).bit_length(), _INT32_MAX)


def dtype_name(dtype: int | str) -> str:
    return dtype if isinstance(dtype, str) else DTYPE_NAMES[dtype]


def _float_dtype(name: str, view: View) -> int:
    if view.dtype not in _FLOATS:
        raise argument(f"{name} is {dtype_name(view.dtype)}; it must be float32, float16 or bfloat16")
    return int(view.dtype)


def _rows(name: str, view: View, layout: str, rank: int, what: str) -> Row:
    if len(view.shape) != rank:
        raise argument(f"{name} has {len(view.shape)} dimensions; it must be {what}")
    if 0 in view.shape:  # nothing to step over, and frameworks leave odd strides
        view = view._replace(strides=contiguous_strides(view.shape))
    if view.shape[-1] > 1 and view.strides[-1] != 1:
        raise argument(f"{name}'s last dimension has stride {view.strides[-1]}; it must be contiguous (stride 1)")
    # A dimension of extent 1 is never stepped along; frameworks leave odd strides there.
    strides = [stride if extent > 1 else 0 for extent, stride in zip(view.shape, view.strides)]
    sizes = [int32(f"dimension {i} of {name}", extent) for i, extent in enumerate(view.shape)]
    if rank == 3:
        sizes, strides = [1, *sizes], [0, *strides]
    if layout == "bhsd" and rank == 4:
        sizes[1], sizes[2] = sizes[2], sizes[1]
        strides[1], strides[2] = strides[2], strides[1]
    return Row(*sizes, *strides[:3])


def _same(rule: str, first: tuple[str, int], second: tuple[str, int]) -> None:
    if first[1] != second[1]:
        raise argument(f"{second[0]} is {second[1]}, {first[0]} is {first[1]}; {rule} must be the same")


def _set(target: Any, row: Row) -> None:
    target.stride_batch, target.stride_seq, target.stride_head = row.stride_batch, row.stride_seq, row.stride_head


class Prepared:
    """A checked problem and call, waiting for pointers.

    device: (backend, ordinal) of the tensors.  out_shape, out_dtype: of the output to make.  lse_shape: or None.
    zeros: rows exist that no sequence owns, so a new output starts as zeros.
    """

    def __init__(self, options: Options, extras: dict[str, View], views: dict[str, View]) -> None:
        self.options = options
        self.extras = extras
        self.views = views
        self.problem: Any = _abi.new(_abi.Problem)
        self.problem_ref = ctypes.byref(self.problem)
        self.call: Any = _abi.new(_abi.Call)
        self.device = views["q"].device
        self.out_shape: tuple[int, ...] = ()
        self.out_dtype = 0
        self.lse_shape: tuple[int, ...] = ()
        self.zeros = "seqused_q" in extras
        self.fields: list[tuple[str, str]] = []
        self._free: list[Slot] = []

    def take(self) -> Slot:
        """A call of its own for one thread, until :meth:`give`."""
        try:
            return self._free.pop()
        except IndexError:
            return Slot(self)

    def give(self, slot: Slot) -> None:
        self._free.append(slot)


class Slot:
    """A call that one thread at a time writes pointers into."""

    __slots__ = ("call", "extras", "k", "lse", "o", "q", "ref", "v")

    def __init__(self, prepared: Prepared) -> None:
        call: Any = _abi.Call.from_buffer_copy(prepared.call)
        self.call = call
        self.ref = ctypes.byref(call)
        self.q, self.k, self.v, self.o, self.lse = call.q, call.k, call.v, call.o, call.lse
        self.extras = [(getattr(call, part) if part else call, name) for part, name in prepared.fields]


# ------------------------------------------------------------------------------------------ filling a problem --


def _common(p: Prepared) -> None:
    """Everything that does not depend on how sequences are laid out."""
    options, problem = p.options, p.problem
    for name, view in (*p.views.items(), *p.extras.items()):
        if view.device != p.device:
            first, second = _place(p.device), _place(view.device)
            raise argument(f"{name} is on {second} and q on {first}; all tensors must be on one device")
    problem.dtype_q = p.out_dtype = _float_dtype("q", p.views["q"])
    problem.dtype_kv = _float_dtype("k", p.views["k"])
    if p.views["v"].dtype != p.views["k"].dtype:
        raise argument(
            f"v is {dtype_name(p.views['v'].dtype)} and k is {dtype_name(p.views['k'].dtype)}; they must be the same"
        )
    if "out" in p.views:
        p.out_dtype = _float_dtype("out", p.views["out"])
    problem.dtype_o = p.out_dtype
    problem.causal = 1 if options.causal else 0
    if options.scale is not None:
        if options.scale == 0:
            raise argument("scale is 0; it must not be, None is 1 / sqrt(head_dim)")
        problem.softmax_scale = options.scale
    if options.softcap is not None:
        problem.softcap = options.softcap
    if options.window is not None:
        left, right = options.window
        problem.features |= _abi.FEATURE_WINDOW
        problem.window_left = -1 if left is None else int32("window's left side", left)
        problem.window_right = -1 if right is None else int32("window's right side", right)
    if options.batch_invariant:
        problem.flags |= _abi.FLAG_BATCH_INVARIANT
    if options.require_fast:
        problem.flags |= _abi.FLAG_REQUIRE_FAST
    problem.num_splits = int32("num_splits", options.num_splits)
    if options.precision not in _PRECISIONS:
        raise argument(f"precision is {options.precision!r}; known are {', '.join(_PRECISIONS)}")
    problem.precision_f32 = _PRECISIONS[options.precision]
    kernel = options.kernel.encode()
    if len(kernel) > 63:
        raise argument(f"kernel is {options.kernel!r}; a kernel's name has at most 63 bytes")
    problem.kernel = kernel
    if options.layout not in ("bshd", "bhsd"):
        raise argument(f"layout is {options.layout!r}; it must be 'bshd' or 'bhsd'")


def _place(device: tuple[int, int]) -> str:
    return BACKEND_NAMES[device[0]] if device[0] == _abi.BACKEND_CPU else f"{BACKEND_NAMES[device[0]]}:{device[1]}"


def _heads(p: Prepared, q: Row, k: Row, v: Row) -> None:
    _same("head counts of k and v", ("k's", k.heads), ("v's head count", v.heads))
    _same("head dimensions of q and k", ("q's", q.dim), ("k's head dimension", k.dim))
    problem = p.problem
    problem.num_heads_q, problem.num_heads_kv = q.heads, k.heads
    problem.head_dim, problem.head_dim_v = q.dim, v.dim
    if v.dim == 0:
        raise argument("v's head dimension is 0; it must be at least 1")


def _maxima(p: Prepared, batch: int, seqlen_q: int, seqlen_kv: int) -> None:
    """The call's batch and bounds, and room above them in the problem."""
    problem, call = p.problem, p.call
    call.batch, call.seqlen_q, call.seqlen_kv = batch, seqlen_q, seqlen_kv
    problem.max_batch, problem.max_seqlen_q, problem.max_seqlen_kv = map(_roomy, (batch, seqlen_q, seqlen_kv))


def _per_sequence(p: Prepared, name: str, batch: int, feature: int) -> None:
    _indices(p, name, (batch,), "[batch]", (I32,))
    p.problem.features |= feature
    p.fields.append(("", name))


def _indices(p: Prepared, name: str, shape: tuple[int | None, ...], what: str, dtypes: tuple[str, ...]) -> View:
    """Checks a tensor of integers; None in ``shape`` takes any extent."""
    view = p.extras[name]
    if len(view.shape) != len(shape) or any(w is not None and w != s for w, s in zip(shape, view.shape)):
        raise argument(f"{name} has shape {list(view.shape)}; it must be {what}, here {list(shape)}".replace("None", "any"))
    if view.dtype not in dtypes:
        raise argument(f"{name} is {dtype_name(view.dtype)}; it must be {' or '.join(dtypes)}")
    if view.shape[-1] > 1 and view.strides[-1] != 1:
        raise argument(f"{name} has stride {view.strides[-1]}; it must be contiguous")
    return view


def _per_head(p: Prepared, name: str, field: str, batch: int, heads: int, feature: int) -> None:
    view = p.extras[name]
    if view.dtype != _abi.DTYPE_F32:
        raise argument(f"{name} is {dtype_name(view.dtype)}; it must be float32")
    if view.shape not in ((heads,), (1, heads), (batch, heads)):
        raise argument(f"{name} has shape {list(view.shape)}; it must be [heads_q] or [batch, heads_q], here {heads} heads")
    target = getattr(p.call, field)
    target.stride_head = view.strides[-1] if heads > 1 else 0
    target.stride_batch = view.strides[0] if len(view.shape) == 2 and view.shape[0] > 1 else 0
    p.problem.features |= feature
    p.fields.append((field, "data"))


def _bias(p: Prepared, name: str, batch: int, heads: int, seqlen_q: int, seqlen_kv: int) -> None:
    view = p.extras[name]
    if name == "mask" and view.dtype != _abi.DTYPE_U8:
        raise argument(f"mask is {dtype_name(view.dtype)}; it must be bool or uint8, an additive mask goes into bias")
    if name == "bias" and view.dtype not in _FLOATS:
        raise argument(
            f"bias is {dtype_name(view.dtype)}; it must be float32, float16 or bfloat16, a boolean mask goes into mask"
        )
    full = (batch, heads, seqlen_q, seqlen_kv)
    missing = 4 - len(view.shape)
    shape = (1,) * missing + tuple(view.shape)
    strides = (0,) * missing + tuple(view.strides)
    if missing < 0 or any(have not in (1, want) for have, want in zip(shape, full)):
        raise argument(
            f"{name} has shape {list(view.shape)}; it must broadcast to [batch, heads_q, seqlen_q, seqlen_kv], here "
            f"{list(full)}"
        )
    steps = [stride if extent > 1 else 0 for extent, stride in zip(shape, strides)]
    target = p.call.bias
    target.stride_batch, target.stride_head, target.stride_q, target.stride_kv = steps
    p.problem.dtype_bias = view.dtype
    p.fields.append(("bias", "data"))


def _extras(p: Prepared, batch: int, heads: int, seqlen_q: int, seqlen_kv: int) -> None:
    """Optional tensors, in the order that the caller listed them."""
    for name in p.extras:
        if name in ("bias", "mask"):
            _bias(p, name, batch, heads, seqlen_q, seqlen_kv)
        elif name == "alibi":
            _per_head(p, name, "alibi_slopes", batch, heads, _abi.FEATURE_ALIBI)
        elif name == "sinks":
            _per_head(p, name, "sinks", batch, heads, _abi.FEATURE_SINKS)
        elif name == "seqused_q":
            _per_sequence(p, name, batch, _abi.FEATURE_SEQUSED_Q)
        elif name == "seqused_kv":
            _per_sequence(p, name, batch, _abi.FEATURE_SEQUSED_KV)
        elif name == "diag_offsets":
            _per_sequence(p, name, batch, _abi.FEATURE_DIAG_OFFSETS)
        elif name in ("cu_seqlens_q", "cu_seqlens_kv"):
            view = _indices(p, name, (batch + 1,), "[batch + 1]", (I32, I64))
            first = p.extras["cu_seqlens_q"]
            if view.dtype != first.dtype:
                raise argument(f"{name} is {view.dtype} and cu_seqlens_q is {dtype_name(first.dtype)}; they must be the same")
            if view.dtype == I64:
                p.problem.flags |= _abi.FLAG_CU_SEQLENS_INT64
            p.fields.append(("", name))
        elif name == "page_table":
            view = _indices(p, name, (batch, None), "[batch, pages per sequence]", (I32,))
            p.call.page_table_stride = view.strides[0] if batch > 1 else 0
            p.call.page_table_width = view.shape[1]
            p.fields.append(("", name))
        elif name == "page_indptr":
            _indices(p, name, (batch + 1,), "[batch + 1]", (I32,))
            p.fields.append(("", name))
        elif name == "page_indices":
            _indices(p, name, (None,), "[page entries]", (I32,))
            p.fields.append(("", name))
        else:
            raise AssertionError(name)


def _outputs(p: Prepared, out: tuple[int, ...], row_of: Callable[[View], Row], lse: tuple[int, ...]) -> None:
    """Shapes and strides of O and LSE; ``lse`` is [batch, heads, seqlen_q] or, ragged, [heads, total_q]."""
    p.out_shape = out
    given = p.views.get("out")
    if given is not None:
        if given.shape != out:
            raise argument(f"out has shape {list(given.shape)}; it must be {list(out)}")
        if not given.writable:
            raise argument("out is read-only; it must be writable")
    _set(p.call.o, row_of(given or View(out, contiguous_strides(out), p.out_dtype, p.device, True)))
    p.lse_shape = lse
    given = p.views.get("lse_out")
    if given is not None:
        if given.shape != lse or given.dtype != _abi.DTYPE_F32 or not given.writable:
            raise argument(
                f"lse_out is {dtype_name(given.dtype)} {list(given.shape)}{'' if given.writable else ', read-only'}; it "
                f"must be writable float32 {list(lse)}"
            )
    strides = contiguous_strides(lse) if given is None else given.strides
    steps = tuple(stride if extent > 1 else 0 for extent, stride in zip(lse, strides))
    target = p.call.lse
    if len(lse) == 3:
        target.stride_batch, target.stride_head, target.stride_seq = steps
    else:
        target.stride_head, target.stride_seq = steps


def _bound(name: str, given: int | None, otherwise: int) -> int:
    if given is None:
        return otherwise
    if not 0 <= given <= _INT32_MAX:
        raise argument(f"{name} is {given}; it must be 0 or more and fit an int32")
    return given


def fill_dense(p: Prepared) -> None:
    """q, k, v of [batch, seqlen, heads, dim] or [batch, heads, seqlen, dim]."""
    _common(p)
    layout = p.options.layout
    what = "[batch, seqlen, heads, head_dim]" if layout == "bshd" else "[batch, heads, seqlen, head_dim]"
    q, k, v = (_rows(name, p.views[name], layout, 4, what) for name in ("q", "k", "v"))
    _same("batches", ("q's", q.batch), ("k's batch", k.batch))
    _same("batches", ("q's", q.batch), ("v's batch", v.batch))
    _same("lengths of k and v", ("k's", k.seq), ("v's length", v.seq))
    _heads(p, q, k, v)
    _maxima(p, q.batch, q.seq, k.seq)
    for target, row in ((p.call.q, q), (p.call.k, k), (p.call.v, v)):
        _set(target, row)
    _extras(p, q.batch, q.heads, q.seq, k.seq)
    out = (q.batch, q.seq, q.heads, v.dim) if layout == "bshd" else (q.batch, q.heads, q.seq, v.dim)
    _outputs(p, out, lambda view: _rows("out", view, layout, 4, what), (q.batch, q.heads, q.seq))


def _fill_ragged_q(p: Prepared) -> tuple[Row, int]:
    """q of [total_q, heads, dim] with cu_seqlens_q: its rows and the batch."""
    q = _rows("q", p.views["q"], "bshd", 3, "[total_q, heads, head_dim]")
    cu_seqlens = p.extras["cu_seqlens_q"]
    if len(cu_seqlens.shape) != 1 or cu_seqlens.shape[0] < 1:
        raise argument(f"cu_seqlens_q has shape {list(cu_seqlens.shape)}; it must be [batch + 1]")
    p.zeros = True
    p.problem.layout_q = _abi.LAYOUT_RAGGED
    p.call.total_q = q.seq
    p.problem.max_total_q = _roomy(q.seq)
    _set(p.call.q, q)
    return q, cu_seqlens.shape[0] - 1


def _ragged_outputs(p: Prepared, q: Row, dim_v: int) -> None:
    _outputs(
        p,
        (q.seq, q.heads, dim_v),
        lambda view: _rows("out", view, "bshd", 3, "[total_q, heads, head_dim_v]"),
        (q.heads, q.seq),
    )


def fill_ragged(p: Prepared) -> None:
    """q of [total_q, heads, dim], k and v of [total_kv, heads_kv, dim], each with its cu_seqlens."""
    _common(p)
    q, batch = _fill_ragged_q(p)
    k = _rows("k", p.views["k"], "bshd", 3, "[total_kv, heads_kv, head_dim]")
    v = _rows("v", p.views["v"], "bshd", 3, "[total_kv, heads_kv, head_dim_v]")
    _same("lengths of k and v", ("k's", k.seq), ("v's length", v.seq))
    _heads(p, q, k, v)
    seqlen_q = _bound("max_seqlen_q", p.options.max_seqlen_q, q.seq)
    seqlen_kv = _bound("max_seqlen_kv", p.options.max_seqlen_kv, k.seq)
    _maxima(p, batch, seqlen_q, seqlen_kv)
    p.problem.layout_kv = _abi.LAYOUT_RAGGED
    p.call.total_kv = k.seq
    p.problem.max_total_kv = _roomy(k.seq)
    _set(p.call.k, k)
    _set(p.call.v, v)
    _extras(p, batch, q.heads, seqlen_q, seqlen_kv)
    _ragged_outputs(p, q, v.dim)


def fill_paged(p: Prepared) -> None:
    """k and v of [pages, page_size, heads, dim] (or heads before slots); q dense, or ragged with cu_seqlens_q."""
    _common(p)
    layout = p.options.layout
    ragged = "cu_seqlens_q" in p.extras
    what = "[batch, seqlen, heads, head_dim]" if layout == "bshd" else "[batch, heads, seqlen, head_dim]"
    if ragged:
        q, batch = _fill_ragged_q(p)
        seqlen_q = _bound("max_seqlen_q", p.options.max_seqlen_q, q.seq)
    else:
        q = _rows("q", p.views["q"], layout, 4, what)
        batch, seqlen_q = q.batch, q.seq
        _set(p.call.q, q)
    pages = "[pages, page_size, heads, dim]" if layout == "bshd" else "[pages, heads, page_size, dim]"
    k = _rows("k_pages", p.views["k"], layout, 4, pages)
    v = _rows("v_pages", p.views["v"], layout, 4, pages)
    _same("pages of k and v", ("k's", k.batch), ("v's page count", v.batch))
    _same("page sizes of k and v", ("k's", k.seq), ("v's page size", v.seq))
    _heads(p, q, k, v)
    if "page_table" in p.extras:
        p.problem.layout_kv = _abi.LAYOUT_PAGED
        slots = p.extras["page_table"].shape[-1] * k.seq
    else:
        p.problem.layout_kv = _abi.LAYOUT_PAGED_CSR
        slots = p.extras["page_indices"].shape[-1] * k.seq
    seqlen_kv = _bound("max_seqlen_kv", p.options.max_seqlen_kv, min(slots, _INT32_MAX))
    _maxima(p, batch, seqlen_q, seqlen_kv)
    p.problem.page_size = k.seq
    p.problem.max_pages = _roomy(k.batch)
    p.call.num_pages = k.batch
    _set(p.call.k, k)
    _set(p.call.v, v)
    _extras(p, batch, q.heads, seqlen_q, seqlen_kv)
    if ragged:
        _ragged_outputs(p, q, v.dim)
    else:
        out = (batch, q.seq, q.heads, v.dim) if layout == "bshd" else (batch, q.heads, q.seq, v.dim)
        _outputs(p, out, lambda view: _rows("out", view, layout, 4, what), (batch, q.heads, q.seq))


# ----------------------------------------------------------------------------------------------------- running --

_prepared: dict[Any, Prepared] = {}


def _prepare(key: Any, fill: Callable[[Prepared], None], options: tuple[Any, ...], adapters: Any, layouts: Any) -> Prepared:
    views = {name: adapters[name].view(layout) for name, layout in layouts.items()}
    tensors = {name: view for name, view in views.items() if name in ("q", "k", "v", "out", "lse_out")}
    extras = {name: view for name, view in views.items() if name not in tensors}
    prepared = Prepared(Options(*options), extras, tensors)
    fill(prepared)
    while len(_prepared) >= _KEPT:
        _prepared.pop(next(iter(_prepared)), None)
    _prepared[key] = prepared
    return prepared


def _check_handle(handle: Handle, device: tuple[int, int]) -> None:
    if handle.pointer is None:
        raise argument("handle is closed; open another")
    if BACKENDS[handle.backend] != device[0] or handle.device != device[1]:
        raise argument(
            f"q is on {_place(device)} and handle is for {_place((BACKENDS[handle.backend], handle.device))}; they must be "
            "the same device"
        )


def run(
    fill: Callable[[Prepared], None],
    q: Any,
    k: Any,
    v: Any,
    extras: dict[str, Any] | None,
    options: tuple[Any, ...],
    diag_offset: int,
    return_lse: bool,
    out: Any,
    lse_out: Any,
    handle: Handle | None,
) -> Any:
    """One call: O, or (O, LSE) with ``return_lse``. ``options``: what :class:`Options` holds, as a plain tuple, which
    is faster to make. ``extras``: the optional tensors by name; their order is part of the key. Owners returned by the adapters stay referenced until the call has been made."""
    adapter = adapter_of(q)
    kind = type(q)
    pointer_q, layout_q, owner_q = adapter.describe(q)
    adapter_k = adapter if type(k) is kind else adapter_of(k)
    pointer_k, layout_k, owner_k = adapter_k.describe(k)
    adapter_v = adapter if type(v) is kind else adapter_of(v)
    pointer_v, layout_v, owner_v = adapter_v.describe(v)
    if extras or out is not None or lse_out is not None:
        named = dict(extras) if extras else {}
        if out is not None:
            named["out"] = out
        if lse_out is not None:
            named["lse_out"] = lse_out
        described = [(name, adapter_of(x), *adapter_of(x).describe(x)) for name, x in named.items()]
        rest = tuple((name, layout) for name, _, _, layout, _ in described)
    else:
        described = []
        rest = ()
    key = (fill, layout_q, layout_k, layout_v, options, rest)
    prepared = _prepared.get(key)
    if prepared is None:
        adapters = {"q": adapter, "k": adapter_k, "v": adapter_v}
        layouts = {"q": layout_q, "k": layout_k, "v": layout_v}
        for name, its_adapter, _, layout, _ in described:
            adapters[name], layouts[name] = its_adapter, layout
        prepared = _prepare(key, fill, options, adapters, layouts)

    if handle is None:
        library = default()
        handle = library.handle(*prepared.device)
    else:
        _check_handle(handle, prepared.device)
        library = handle.library

    slot = prepared.take()
    call = slot.call
    slot.q.data, slot.k.data, slot.v.data = pointer_q, pointer_k, pointer_v
    call.diag_offset = diag_offset
    lse = None
    if described:
        pointers = {name: pointer for name, _, pointer, _, _ in described}
        for (target, field), (_, _, pointer, _, _) in zip(slot.extras, described):
            setattr(target, field, pointer)
        if out is not None:
            slot.o.data = pointers["out"]
        if lse_out is not None:
            slot.lse.data = pointers["lse_out"]
    if out is None:
        made = adapter.empty(prepared.out_shape, prepared.out_dtype, q, prepared.zeros)
        slot.o.data = adapter.pointer(made)
    if return_lse:
        if lse_out is None:
            lse = adapter.empty(prepared.lse_shape, _abi.DTYPE_F32, q, prepared.zeros)
            slot.lse.data = adapter.pointer(lse)
    elif lse_out is None:
        slot.lse.data = None

    status = library.attention(handle.pointer, prepared.problem_ref, slot.ref, adapter.stream(q))
    if status != 0:
        raise library.error(status)
    prepared.give(slot)
    result = out if out is not None else adapter.finish(made)
    if not return_lse:
        return result
    return result, (lse_out if lse_out is not None else adapter.finish(lse))
