# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="flashattn" in transformers, with small models of random weights made here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from flashattn.integrations import transformers as ours  # noqa: E402

SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    # Far from the default of 0.02: attention then decides what is generated.
    "initializer_range": 0.4,
}


def gpt_oss() -> Any:
    small = SMALL | {"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 8}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**small))


MODELS: dict[str, Any] = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)),
    "mistral window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL, sliding_window=8)),
    "gemma2 window": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SMALL, tie_word_embeddings=False, sliding_window=8, attn_logit_softcapping=None, query_pre_attn_scalar=16)
    ),
    "gemma2 softcap": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SMALL, tie_word_embeddings=False, sliding_window=8, attn_logit_softcapping=3.0, query_pre_attn_scalar=16)
    ),
    "gpt_oss sinks": gpt_oss,
}
# What PyTorch's function cannot do is compared with transformers' own eager attention.
REFERENCE = {"gemma2 window": "eager", "gemma2 softcap": "eager", "gpt_oss sinks": "eager"}
# gpt-oss replaces names with "flash" in them by the packages it lists.
NAME = {"gpt_oss sinks": "exact"}


class Counter:
    calls = 0
    with_mask = 0


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Registers, and counts the calls that layers make."""
    count = Counter()
    real = ours.attention_forward

    def counting(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **named: Any) -> Any:
        count.calls += 1
        count.with_mask += attention_mask is not None
        return real(module, query, key, value, attention_mask, **named)

    monkeypatch.setattr(ours, "attention_forward", counting)
    ours.register()
    ours.register("exact")
    return count


def make(name: str, rng: np.random.Generator) -> Any:
    torch.manual_seed(int(rng.integers(2**31)))
    return MODELS[name]().eval()


def prompt(rng: np.random.Generator, batch: int, length: int) -> Any:
    return torch.from_numpy(rng.integers(2, 97, (batch, length)))


@torch.no_grad()
def text(model: Any, implementation: str, **named: Any) -> Any:
    """Greedy text of 24 tokens after the prompt, with the scores of each step."""
    model.set_attn_implementation(implementation)
    return model.generate(
        do_sample=False, max_new_tokens=24, output_scores=True, return_dict_in_generate=True, **named
    )


def same_text(got: Any, want: Any, rows: slice = slice(None)) -> None:
    """The same tokens; where a row differs first, the reference's two best scores must be a rounding error apart."""
    steps = len(want.scores)
    ours_tokens, tokens = got.sequences[:, -steps:], want.sequences[rows, -steps:]
    assert ours_tokens.shape == tokens.shape
    for row, (mine, its) in enumerate(zip(ours_tokens, tokens)):
        if torch.equal(mine, its):
            continue
        step = int((mine != its).nonzero()[0])
        best, second = want.scores[step][rows][row].topk(2).values.tolist()
        assert best - second < 1e-3, f"row {row} differs at step {step}, where the gap is {best - second}"


@pytest.mark.parametrize("name", MODELS)
def test_greedy_text_is_that_of_the_reference(name: str, rng: np.random.Generator, counter: Counter) -> None:
    model = make(name, rng)
    ids = prompt(rng, 2, 13)
    want = text(model, REFERENCE.get(name, "sdpa"), input_ids=ids, attention_mask=torch.ones_like(ids))
    assert counter.calls == 0
    got = text(model, NAME.get(name, "flashattn"), input_ids=ids, attention_mask=torch.ones_like(ids))
    same_text(got, want)
    assert counter.calls == 2 * 24, "layers x steps"
    assert got.sequences.shape == (2, 13 + 24) and len(set(got.sequences[:, 13:].flatten().tolist())) > 2


@pytest.mark.parametrize("name", MODELS)
def test_padding(name: str, rng: np.random.Generator, counter: Counter) -> None:
    model = make(name, rng)
    ids = prompt(rng, 3, 13)
    mask = torch.ones_like(ids)
    mask[0, :6] = 0
    mask[2, :1] = 0
    ids[mask == 0] = 0
    name_of_ours = NAME.get(name, "flashattn")
    got = text(model, name_of_ours, input_ids=ids, attention_mask=mask)
    assert counter.with_mask > 0
    same_text(got, text(model, REFERENCE.get(name, "sdpa"), input_ids=ids, attention_mask=mask))
    # A row's text does not depend on its padding.
    alone = text(model, name_of_ours, input_ids=ids[:1, 6:], attention_mask=mask[:1, 6:])
    same_text(alone, got, slice(0, 1))


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_logits(name: str, rng: np.random.Generator, counter: Counter) -> None:
    model = make(name, rng)
    ids = prompt(rng, 2, 40)
    found = {}
    for implementation in (REFERENCE.get(name, "sdpa"), NAME.get(name, "flashattn")):
        model.set_attn_implementation(implementation)
        found[implementation] = model(ids).logits
    (reference, ours_logits) = found.values()
    assert counter.calls == 2
    torch.testing.assert_close(ours_logits, reference, rtol=2e-3, atol=2e-3)


def test_a_static_cache(rng: np.random.Generator, counter: Counter) -> None:
    model = make("llama", rng)
    ids = prompt(rng, 2, 9)
    named = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "cache_implementation": "static", "disable_compile": True}
    same_text(text(model, "flashattn", **named), text(model, "sdpa", **named))
    assert counter.calls == 2 * 24


def test_prefill_in_chunks(rng: np.random.Generator, counter: Counter) -> None:
    model = make("mistral window", rng)
    ids = prompt(rng, 1, 21)
    named = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    want = text(model, "sdpa", **named)
    same_text(text(model, "flashattn", prefill_chunk_size=7, **named), want)


def test_scores_can_be_biased(rng: np.random.Generator) -> None:
    module = torch.nn.Module()
    q, k, v, bias = (torch.from_numpy(rng.standard_normal(s).astype("f4")) for s in
                     ((1, 4, 5, 16), (1, 2, 5, 16), (1, 2, 5, 16), (1, 4, 5, 5)))  # fmt: skip
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, torch.where(mask, bias, float("-inf")), enable_gqa=True
    ).transpose(1, 2)
    got, probabilities = ours.attention_forward(module, q, k, v, mask, position_bias=bias)
    torch.testing.assert_close(got, want)
    assert probabilities is None


def test_packed_sequences(rng: np.random.Generator) -> None:
    q, k, v = (torch.from_numpy(rng.standard_normal((1, 4, 9, 16)).astype("f4")) for _ in "qkv")
    starts = torch.tensor([0, 2, 9], dtype=torch.int32)
    got, _ = ours.attention_forward(
        torch.nn.Module(), q, k, v, None, is_causal=False, cu_seq_lens_q=starts, cu_seq_lens_k=starts, max_length_q=7, max_length_k=7
    )
    for rows in (slice(0, 2), slice(2, 9)):
        want = torch.nn.functional.scaled_dot_product_attention(q[:, :, rows], k[:, :, rows], v[:, :, rows])
        torch.testing.assert_close(got[:, rows], want.transpose(1, 2))


def test_dropout_is_refused_by_name(rng: np.random.Generator) -> None:
    x = torch.ones(1, 2, 3, 8)
    with pytest.raises(NotImplementedError, match="attention dropout is 0.1"):
        ours.attention_forward(torch.nn.Module(), x, x, x, None, dropout=0.1)


def test_bfloat16_is_as_near_as_sdpa(rng: np.random.Generator, counter: Counter) -> None:
    """Log-probabilities over a text: at most twice as far from float64's as the reference's in bfloat16."""
    model = make("llama", rng)
    ids = prompt(rng, 2, 60)
    with torch.no_grad():
        model.set_attn_implementation("eager")
        exact = model.double()(ids).logits.log_softmax(-1)
        model.bfloat16()
        error = {}
        for implementation in ("sdpa", "flashattn"):
            model.set_attn_implementation(implementation)
            error[implementation] = (model(ids).logits.double().log_softmax(-1) - exact).abs().mean().item()
    assert counter.calls == 2
    assert error["flashattn"] <= 2 * error["sdpa"], error
