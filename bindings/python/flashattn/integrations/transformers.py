# SPDX-License-Identifier: Apache-2.0
"""``attn_implementation="flashattn"`` for Hugging Face transformers.

    from flashattn.integrations import transformers as flashattn_transformers

    flashattn_transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="flashattn")

Prefill, decoding with any cache, padding, grouped heads, sliding windows, softcap (Gemma 2) and sinks (gpt-oss) go
through the library. transformers writes windows, chunks and padding into a boolean mask, and leaves the mask out where
causality is all there is; both are taken without a copy. Packed sequences (vision towers) go through as ragged calls.

transformers treats every name with "flash" in it as a FlashAttention package: chunked attention (Llama 4) is refused, and
a model that lists the packages it accepts (gpt-oss) takes one of those instead. ``register("exact")`` gives the same
attention a name without these rules.

    python -m flashattn.integrations.transformers serve --attn-implementation flashattn ...

is the command ``transformers``, with the registration done first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers import modeling_flash_attention_utils as flash_utils
from transformers.masking_utils import sdpa_mask

from .. import torch as flashattn_torch
from .._errors import UnsupportedError

NAME = "flashattn"


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer.

    query: ``[batch, heads, seqlen_q, head_dim]``; key, value: ``[batch, heads_kv, seqlen_kv, dim]``.
    attention_mask: boolean or additive, ``[batch, 1 or heads, seqlen_q, seqlen_kv]``; None is causal (or all, for
    one query or a module that is not causal). s_aux: sinks, one per head. position_bias: added to the scores.
    cu_seq_lens_q, cu_seq_lens_k: with batch 1 and no mask, the sequences that are packed into it.
    Returns ``[batch, seqlen_q, heads, head_dim_v]`` and no probabilities, which are never stored.
    """
    if dropout:
        raise UnsupportedError(f"attention dropout is {dropout}; dropout is not available, call model.eval() first")
    seqlen_q, seqlen_kv = query.shape[2], key.shape[2]
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if attention_mask is None and cu_seq_lens_q is not None and cu_seq_lens_k is not None:
        if softcap is not None or s_aux is not None or position_bias is not None or query.shape[0] != 1:
            raise UnsupportedError("packed sequences take neither softcap, sinks nor a bias here, and batch 1 only")
        query, key, value = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))
        packed = flashattn_torch.flash_attn_varlen_func(
            query,
            key,
            value,
            cu_seq_lens_q,
            cu_seq_lens_k,
            seqlen_q if max_length_q is None else int(max_length_q),
            seqlen_kv if max_length_k is None else int(max_length_k),
            softmax_scale=scaling,
            causal=is_causal,
        )
        return packed.unsqueeze(0), None
    causal = seqlen_q > 1 and attention_mask is None and is_causal
    if attention_mask is not None:
        attention_mask = attention_mask[..., :seqlen_kv]
    bias = position_bias
    if bias is not None and attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            bias = bias.masked_fill(~attention_mask, float("-inf"))
        else:
            bias = bias + attention_mask
        attention_mask = None
    boolean = attention_mask is not None and attention_mask.dtype == torch.bool
    if attention_mask is not None and not boolean:
        bias = attention_mask
    # The transposes are views; the result comes back in the order that transformers wants.
    out = flashattn_torch.attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        causal=causal,
        scale=scaling,
        softcap=softcap,
        sinks=None if s_aux is None else s_aux.detach().to(torch.float32),
        bias=bias,
        mask=attention_mask if boolean else None,
        # Causality without a mask counts from the first key: an empty static cache is longer than the prompt.
        diag_offset=seqlen_q - seqlen_kv if causal else 0,
    )
    return out, None


def register(name: str = NAME) -> None:
    """Makes ``attn_implementation=name`` known to transformers, with the masks it needs."""
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    if "flash" in name:
        _name_the_package(name)


def _name_the_package(name: str) -> None:
    """transformers imports the functions of whatever "flash" name a model is given, and knows no way to add one:
    its import function is given an answer for ours."""
    if name in _packages:
        return
    others = flash_utils._lazy_imports

    def lazy_imports(implementation: str | None, *arguments: Any, **named: Any) -> Any:
        if implementation != name:
            return others(implementation, *arguments, **named)
        return (
            flashattn_torch.flash_attn_func,
            flashattn_torch.flash_attn_varlen_func,
            None,
            flash_utils._pad_input,
            flash_utils._unpad_input,
        )

    flash_utils._lazy_imports = lazy_imports
    _packages.add(name)


_packages: set[str] = set()


def main() -> None:
    """The command ``transformers``, with ``flashattn`` registered."""
    from transformers.cli.transformers import app

    register()
    app()


if __name__ == "__main__":
    main()
