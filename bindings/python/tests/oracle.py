# SPDX-License-Identifier: Apache-2.0
"""Attention in float64, one sequence at a time, straight from the rules at the top of flashattn.h."""

from __future__ import annotations

from typing import Any

import numpy as np


def one(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi: Any = None,
    sinks: Any = None,
    bias: Any = None,
    mask: Any = None,
    diag_offset: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """q [n_q, heads, dim], k and v [n_k, heads_kv, dim]; bias and mask broadcast to [heads, n_q, n_k]; alibi and sinks
    [heads]. Returns O [n_q, heads, dim_v] and LSE [heads, n_q]."""
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    n_q, heads, dim = q.shape
    n_k = k.shape[0]
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = np.einsum("ihd,jhd->hij", q, k) * (scale or 1 / np.sqrt(dim))
    if softcap:
        s = softcap * np.tanh(s / softcap)
    position = np.arange(n_q)[:, None] + (n_k - n_q + diag_offset)
    j = np.arange(n_k)[None, :]
    if alibi is not None:
        s = s - np.asarray(alibi, np.float64)[:, None, None] * np.abs(position - j)
    if bias is not None:
        s = s + np.asarray(bias).astype(np.float64)
    visible = np.ones((n_q, n_k), bool)
    left, right = window or (None, None)
    if left is not None and left >= 0:
        visible &= j >= position - left
    if right is not None and right >= 0:
        visible &= j <= position + right
    if causal:
        visible &= j <= position
    s = np.where(visible, s, -np.inf)
    if mask is not None:
        s = np.where(np.broadcast_to(mask, s.shape), s, -np.inf)
    top = np.max(s, axis=-1, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, np.asarray(sinks, np.float64)[:, None])
    base = np.where(np.isneginf(top), 0.0, top)
    weights = np.exp(s - base[..., None])
    total = weights.sum(-1)
    if sinks is not None:
        total = total + np.exp(np.asarray(sinks, np.float64)[:, None] - base)
    with np.errstate(divide="ignore"):
        lse = base + np.log(total)
    o = np.einsum("hij,jhd->ihd", weights / np.where(total == 0, 1.0, total)[..., None], v)
    return o, lse


def batch(q: Any, k: Any, v: Any, **named: Any) -> tuple[np.ndarray, np.ndarray]:
    """Dense q, k, v [batch, seq, heads, dim]. ``bias`` and ``mask`` of four dimensions; ``diag_offset`` may be a list.
    Returns O [batch, n_q, heads, dim_v] and LSE [batch, heads, n_q]."""
    count, n_q, heads, _ = q.shape
    results = []
    for b in range(count):
        mine = dict(named)
        for name in ("bias", "mask"):
            if mine.get(name) is not None:
                full = np.broadcast_to(mine[name], (count, heads, n_q, k.shape[1]))
                mine[name] = full[b]
        if not isinstance(mine.get("diag_offset", 0), int):
            mine["diag_offset"] = int(mine["diag_offset"][b])
        for name in ("alibi", "sinks"):
            if mine.get(name) is not None and np.ndim(mine[name]) == 2:
                mine[name] = np.broadcast_to(mine[name], (count, heads))[b]
        results.append(one(q[b], k[b], v[b], **mine))
    return np.stack([o for o, _ in results]), np.stack([lse for _, lse in results])
