# SPDX-License-Identifier: Apache-2.0
"""Deliberate faults in the CPU backend. Each must make the conformance suite fail.

A mutant is one replacement of a text that occurs exactly once in its file. `tests` are the doctest patterns that
are to notice, so that a mutant proves the test of the rule it breaks and not just any test.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: str


SCALAR = "backends/cpu/fwd_scalar.cpp"
MASK = "backends/cpu/mask.cpp"
TILE = "backends/cpu/tile.cpp"
SCHEDULE = "backends/cpu/schedule.cpp"
SEQUENCE = "backends/cpu/sequence.cpp"
EPILOGUE = "backends/cpu/epilogue.cpp"
FORWARD = "backends/cpu/forward.cpp"
COMBINE = "backends/cpu/combine.cpp"
CONVERT = "backends/cpu/convert.cpp"
SIMD_SOFTMAX = "backends/cpu/simd/softmax.h"
SIMD_MODIFY = "backends/cpu/simd/modify.h"
SIMD_SCORES = "backends/cpu/simd/scores.h"
SIMD_VALUES = "backends/cpu/simd/values.h"
SIMD_PACK = "backends/cpu/simd/pack.h"
SIMD_KERNEL = "backends/cpu/simd/fwd_simd.h"

MUTANTS = [
    # The scalar kernel.
    Mutant("scalar: lost rescale of O", SCALAR,
           "o[c] *= keep;", "o[c] *= 1.0F;", "table: tile edges"),
    Mutant("scalar: lost rescale of the sum", SCALAR,
           "*sum = *sum * keep + added;", "*sum = *sum + added;", "table: tile edges"),
    Mutant("scalar: skipped tail of a block", SCALAR,
           "const int64_t end = std::min(block + kKeys, keys.end);",
           "const int64_t end = std::min(block + kKeys - 1, keys.end);", "table: tile edges"),
    Mutant("scalar: dimension tail skipped", SCALAR,
           "for (int32_t c = 0; c < shape.dim; ++c) dot +=",
           "for (int32_t c = 0; c < shape.dim / 8 * 8; ++c) dot +=", "table: head dimensions"),
    Mutant("scalar: s tanh(s / c) for c tanh(s / c)", SCALAR,
           "score = shape.softcap * std::tanh(score / shape.softcap);",
           "score = score * std::tanh(score / shape.softcap);", "field: softcap*"),
    Mutant("scalar: softcap after the bias", SCALAR,
           "score = bias == kMinusInf ? kMinusInf : score + bias;",
           "score = bias == kMinusInf ? -shape.softcap : score + bias;", "field: softcap*"),
    Mutant("scalar: ALiBi distance with its sign", SCALAR,
           "std::abs(i + tile.sequence.diagonal - j)", "(i + tile.sequence.diagonal - j)", "table: scores"),
    Mutant("scalar: ALiBi distance without the diagonal", SCALAR,
           "std::abs(i + tile.sequence.diagonal - j)", "std::abs(i - j)", "field: ALiBi*"),
    Mutant("scalar: ALiBi slope of the KV head", SCALAR,
           "per_head(call.alibi_slopes, tile.sequence, head)",
           "per_head(call.alibi_slopes, tile.sequence, head / shape.group)", "field: ALiBi*"),
    Mutant("scalar: scale forgotten", SCALAR,
           "float score = shape.scale * dot;", "float score = dot;", "table: element types"),
    Mutant("scalar: missing guard of an all-hidden block", SCALAR,
           "const float shift = m == kMinusInf ? 0.0F : m;", "const float shift = m;", "table: bias"),
    Mutant("scalar: a finite stand-in for -inf", SCALAR,
           "score = bias == kMinusInf ? kMinusInf : score + bias;",
           "score = bias == kMinusInf ? -1e6F : score + bias;", "field: masked keys*"),
    Mutant("scalar: first block starts at the tile", SCALAR,
           "const int64_t begin = std::max(block, keys.begin);", "const int64_t begin = block;", "table: masks"),

    # Mask, tiles, schedule: shared by all kernels.
    Mutant("causal sees one key less", MASK,
           "std::min(end, position + 1)", "std::min(end, position)", "table: masks"),
    Mutant("causal sees one key more", MASK,
           "std::min(end, position + 1)", "std::min(end, position + 2)", "table: masks"),
    Mutant("window's left end left out", MASK,
           "position - shape.window_left)", "position - shape.window_left + 1)", "field: window left*"),
    Mutant("window's right end left out", MASK,
           "position + shape.window_right + 1)", "position + shape.window_right)", "table: masks"),
    Mutant("query heads of a group mixed up", TILE,
           "% group)", "/ 2 % group)", "table: sinks,table: bias"),
    Mutant("dropped split", FORWARD,
           "for (int32_t split = 1; split < item.splits; ++split)",
           "for (int32_t split = 1; split < item.splits - 1; ++split)", "table: splits"),
    Mutant("keys between splits dropped", SCHEDULE,
           "blocks * (split + 1) / splits", "blocks * split / splits + blocks / splits", "table: splits"),
    Mutant("splits merged by whoever comes last, before the others", FORWARD,
           "if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;",
           "if (pending.fetch_sub(1, std::memory_order_acq_rel) != item.splits) return;", "table: splits"),

    # Where rows lie.
    Mutant("sequence stride of K for V", SEQUENCE,
           "offset += (sequence.first_kv + j) * tensor.stride_seq;",
           "offset += (sequence.first_kv + j) * tensor.stride_head * shape.heads_kv;", "table: strides"),
    Mutant("32-bit offsets", SEQUENCE,
           "+ elements * element_size;", "+ static_cast<int32_t>(elements * element_size);",
           "field: strides of 2^30*"),
    Mutant("batch stride of Q ignored", SEQUENCE,
           "? sequence.index * tensor.stride_batch : 0;", "? sequence.index * tensor.stride_batch * 0 : 0;",
           "table: element types"),
    Mutant("page slot off by the page size", SEQUENCE,
           "j % shape.page_size * tensor.stride_seq", "j % (shape.page_size + 1) * tensor.stride_seq",
           "table: pages"),
    Mutant("one page for all", SEQUENCE,
           "sequence.pages[j / shape.page_size]", "sequence.pages[0]", "field: a paged cache*"),
    Mutant("rows of a run cross the page's end", SEQUENCE,
           "shape.page_size - (j + done) % shape.page_size : n;", "shape.page_size : n;", "field: a paged cache*"),
    Mutant("used length of keys ignored", SEQUENCE,
           "if (shape.used_kv) sequence.n_k = call.seqused_kv[b];",
           "if (shape.used_kv && sequence.pages != nullptr) sequence.n_k = call.seqused_kv[b];",
           "field: NaN past the used length*"),
    Mutant("used length of queries ignored", SEQUENCE,
           "if (shape.used_q) sequence.n_q = call.seqused_q[b];", "", "table: ragged*"),
    Mutant("diag_offsets ignored", SEQUENCE,
           "if (shape.diag_offsets) sequence.diagonal += call.diag_offsets[b];", "", "table: masks"),
    Mutant("top-left diagonal", SEQUENCE,
           "sequence.diagonal = sequence.n_k - sequence.n_q + call.diag_offset;",
           "sequence.diagonal = call.diag_offset;", "table: masks"),
    Mutant("bias head stride forgotten", SEQUENCE,
           "head * bias.stride_head", "0 * bias.stride_head * head", "table: bias"),
    Mutant("bias query stride for its key stride", SEQUENCE,
           "i * bias.stride_q + j * bias.stride_kv", "i * bias.stride_kv + j * bias.stride_kv", "table: bias"),
    Mutant("boolean mask turned round", SEQUENCE,
           "*element != 0 ? 0.0F", "*element == 0 ? 0.0F", "table: bias"),
    Mutant("boolean mask: only 1 is true", SEQUENCE,
           "*element != 0 ? 0.0F", "*element == 1 ? 0.0F", "table: bias"),
    Mutant("per-head values ignore the batch", SEQUENCE,
           "values.data[sequence.index * values.stride_batch + head", "values.data[head", "table: scores"),
    Mutant("page index not checked", SEQUENCE,
           "if (page < 0 || page >= num_pages) {", "if (page < -1) {", "errors: wrong lengths*"),

    # Merge and epilogue.
    Mutant("merge: missing guards of empty states", EPILOGUE,
           """    if (skip) continue;
    const float m = propagating_max(into.max[r], other.max[r]);
    const float keep = rescale(into.max[r], m);
    const float add = other.max[r] == m ? 1.0F : rescale(other.max[r], m);
""",
           """    if (skip && into.max[r] != kMinusInf) continue;
    const float m = propagating_max(into.max[r], other.max[r]);
    const float keep = std::exp(into.max[r] - m);
    const float add = std::exp(other.max[r] - m);
""", "field: an empty row*,table: splits"),
    Mutant("merge: lost rescale", EPILOGUE,
           "o[c] = o[c] * keep + other_o[c] * add;", "o[c] = o[c] + other_o[c] * add;", "table: splits"),
    Mutant("merge: sum not rescaled", EPILOGUE,
           "into.sum[r] = into.sum[r] * keep + other.sum[r] * add;",
           "into.sum[r] = into.sum[r] + other.sum[r] * add;", "table: splits"),
    Mutant("merge: an empty maximum loses a NaN sum", EPILOGUE,
           "const bool skip = other.max[r] == kMinusInf && other.sum[r] == 0.0F;",
           "const bool skip = other.max[r] == kMinusInf || std::isnan(other.sum[r]);",
           "field: a NaN row sum*,special: *"),
    Mutant("LSE in base 2", EPILOGUE,
           "m + std::log(l);", "m + std::log2(l);", "table: element types"),
    Mutant("LSE without the sink", EPILOGUE,
           "m + std::log(l);", "state.max[r] + std::log(state.sum[r]);", "table: sinks"),
    Mutant("sink added to the numerator", EPILOGUE,
           "for (int32_t c = 0; c < shape.dim_v; ++c) o[c] *= factor;",
           "for (int32_t c = 0; c < shape.dim_v; ++c) o[c] = shape.sinks ? (o[c] + 1.0F) * factor : o[c] * factor;",
           "table: sinks"),
    Mutant("sink of the KV head", EPILOGUE,
           "per_head(call.sinks, tile.sequence, head)", "per_head(call.sinks, tile.sequence, head / shape.group)",
           "table: sinks"),
    Mutant("empty row divides by zero", EPILOGUE,
           "if (l == 0.0F) {", "if (l < 0.0F) {", "field: an empty row*"),
    Mutant("NaN row sum treated as empty", EPILOGUE,
           "if (l == 0.0F) {", "if (!(l > 0.0F)) {", "field: a NaN row sum*"),
    Mutant("combine: missing guard of empty parts", COMBINE,
           "if (part != kMinusInf) sum += std::exp(part - m);", "sum += std::exp(part - m);", "combine: *"),
    Mutant("combine: an empty part's O matters", COMBINE,
           "if (part_lse == kMinusInf) continue;", "", "combine: *"),
    Mutant("combine: columns past the first chunk from its start", COMBINE,
           "(p * args.o_partial_stride_part + first) * in_size", "(p * args.o_partial_stride_part) * in_size",
           "combine: *"),

    # The SIMD kernel: tiles of many rows (panels) and of few (dot products).
    Mutant("simd: lost rescale of O", SIMD_VALUES,
           "hn::Store(hn::MulAdd(hn::Load(f32, at), factor, acc[r][v]), f32, at);",
           "hn::Store(hn::Add(hn::Load(f32, at), hn::MulAdd(hn::Zero(f32), factor, acc[r][v])), f32, at);",
           "table: tile edges"),
    Mutant("simd: lost rescale of the sum", SIMD_SOFTMAX,
           "hn::MulAdd(hn::Load(f32, sum + v * kLanes), factor, added[v])",
           "hn::Add(hn::Load(f32, sum + v * kLanes), added[v])", "table: tile edges"),
    Mutant("simd: missing guard of an all-hidden block", SIMD_SOFTMAX,
           "hn::IfThenZeroElse(hn::Eq(m[v], minus_inf), m[v])", "m[v]", "table: bias"),
    Mutant("simd: mask sees one key more", SIMD_MODIFY,
           "hn::Lt(key, end)", "hn::Le(key, end)", "table: masks"),
    Mutant("simd: mask begins one key late", SIMD_MODIFY,
           "hn::Ge(key, begin)", "hn::Gt(key, begin)", "table: masks"),
    Mutant("simd: softcap after the mask", SIMD_MODIFY,
           "hn::Store(hn::IfThenElse(visible, score, minus_inf), f32, at);",
           "hn::Store(hn::IfThenElse(visible, score, shape.softcap > 0.0F ? hn::Neg(cap) : minus_inf), f32, at);",
           "field: softcap*"),
    Mutant("simd: ALiBi distance with its sign", SIMD_MODIFY,
           "hn::Abs(hn::Sub(position, key))", "hn::Sub(position, key)", "table: scores"),
    Mutant("simd: ALiBi forgets the block", SIMD_MODIFY,
           "tile.sequence.diagonal - block)", "tile.sequence.diagonal)", "field: ALiBi*,table: splits"),
    Mutant("simd: bias -inf as an ordinary number", SIMD_MODIFY,
           "hn::IfThenElse(hn::Eq(b, minus_inf), minus_inf, hn::Add(score, b))",
           "hn::Add(score, hn::Max(b, hn::Set(f32, -1e6F)))", "field: masked keys*,table: bias"),
    Mutant("simd: skipped tail of keys in panels", SIMD_SCORES,
           "j < n; j += kKeyRows", "j + kKeyRows <= n; j += kKeyRows", "table: tile edges"),
    Mutant("simd: skipped tail of keys in dot products", SIMD_SCORES,
           "j < k.n; j += kKeys", "j + kKeys <= k.n; j += kKeys", "table: tile edges"),
    Mutant("simd: K of the tile's first head for all in dot products", SIMD_SCORES,
           "k.at(first_key + j, head)", "k.at(first_key + j, 0 * head)", "table: head counts"),
    Mutant("simd: V of the tile's first head for all in few rows", SIMD_VALUES,
           "int64_t at = head * v.head_stride;", "int64_t at = 0 * head * v.head_stride;", "table: head counts"),
    Mutant("simd: dimension tail skipped in dot products", SIMD_SCORES,
           "if (c < dim) {", "if (c < dim && c == 0) {", "table: head dimensions"),
    Mutant("simd: wrong stride between queries in dot products", SIMD_SCORES,
           "q + r * stride_q + c", "q + (kRows - 1 - r) * stride_q + c", "table: head counts"),
    Mutant("simd: column tail skipped in few rows", SIMD_VALUES,
           "load_part<kDtype>(rows[j] + at, 0, width)", "load_part<kDtype>(rows[j] + at, 0, width - 1)",
           "table: head dimensions"),
    Mutant("simd: value panel from the wrong columns", SIMD_VALUES,
           "v + static_cast<int64_t>(c) * n", "v + static_cast<int64_t>(c / 2) * n", "table: head dimensions"),
    Mutant("simd: row tail of a value panel skipped", SIMD_VALUES,
           "if (r < rows)\n", "if (r < rows && r == 0)\n", "table: masks"),
    Mutant("simd: column tail of packed V skipped", SIMD_PACK,
           "for (int32_t c = whole; c < dim_v; c += kLanes) {",
           "for (int32_t c = whole; c + kLanes <= dim_v; c += kLanes) {", "table: head dimensions"),
    Mutant("simd: a block that is hidden in part counts as seen", SIMD_KERNEL,
           "return bottom.begin <= block.begin && end <= top.end ? Sight::kAll : Sight::kSome;",
           "return bottom.begin <= block.begin && end <= bottom.end ? Sight::kAll : Sight::kSome;", "table: masks"),
    Mutant("simd: a block half behind the panel counts as unseen", SIMD_KERNEL,
           "block.begin >= bottom.end) return Sight::kNone;", "block.begin >= top.end) return Sight::kNone;",
           "table: masks"),
    Mutant("simd: dot products for some rows of a batch-invariant plan", SIMD_KERNEL,
           "tile.rows <= kDotRows && !tile.shape->batch_invariant", "tile.rows <= kDotRows",
           "invariance: with the flag*"),
]
