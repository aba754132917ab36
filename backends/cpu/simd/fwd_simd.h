// SPDX-License-Identifier: Apache-2.0
// The SIMD kernel, top to bottom: fwd_cpu_avx2, fwd_cpu_avx512 and fwd_cpu_neon are this file compiled with
// different flags.
#pragma once

#include "backends/cpu/convert.h"
#include "backends/cpu/simd/modify.h"
#include "backends/cpu/simd/pack.h"
#include "backends/cpu/simd/scores.h"
#include "backends/cpu/simd/softmax.h"
#include "backends/cpu/simd/values.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// Rows per tile: as many as keep Q, K, V and O of a tile in about 320 KiB of a 512 KiB L2. More rows per tile
// mean less packing of K and V per row. Where there are few rows, several KV heads go together: caches
// usually keep the heads of a token side by side, and then one head after the other would touch every page of
// memory once per head.
HWY_INLINE Blocking choose_blocking(const Shape &shape, int64_t max_rows) {
  constexpr int32_t kCacheFloats = 320 * 1024 / 4;
  constexpr int32_t kMostRows = 192;
  constexpr int32_t kFewRows = 16;
  constexpr int32_t kKeysOfFewRows = 32;
  // Rows of a token with 1024 elements lie 4 KiB apart in f32 and share their sets of an 8-way L1.
  constexpr int32_t kKeysOfManyHeads = 8;
  const int32_t dims = shape.dim + shape.dim_v;
  Blocking blocking{};
  blocking.keys = dims <= 256 ? 128 : 64;
  const int32_t rows = std::min(kMostRows, kCacheFloats / dims - blocking.keys);
  blocking.rows = static_cast<int32_t>(std::min<int64_t>(std::max(rows / kPanel * kPanel, kPanel), max_rows));
  blocking.heads = max_rows <= kFewRows ? std::min(kMostHeads, shape.heads_kv) : 1;
  if (max_rows <= kFewRows && !shape.batch_invariant) {
    blocking.keys = max_rows <= kDotRows && blocking.heads > 1 ? kKeysOfManyHeads : kKeysOfFewRows;
  }
  Carver carver(nullptr);
  carve_scratch(&carver, shape, blocking);
  blocking.scratch_size = carver.size();
  return blocking;
}

// One KV head's block of keys.
struct KeyBlock {
  int32_t head;  // within the tile
  int64_t begin;
  int32_t n;  // 0 behind the last
};

// All heads of one block of keys, then the next block.
HWY_INLINE KeyBlock first_block(const Tile &tile, const Blocking &blocking) {
  const int64_t n = std::min<int64_t>(blocking.keys, tile.keys.end - tile.keys.begin);
  return {0, tile.keys.begin, static_cast<int32_t>(std::max<int64_t>(n, 0))};
}
HWY_INLINE KeyBlock next_block(const Tile &tile, const Blocking &blocking, const KeyBlock &block) {
  if (block.head + 1 < tile.heads) return {block.head + 1, block.begin, block.n};
  const int64_t begin = block.begin + blocking.keys;
  const int64_t n = std::min<int64_t>(blocking.keys, tile.keys.end - begin);
  return {0, begin, static_cast<int32_t>(std::max<int64_t>(n, 0))};
}

// rows as in Scratch, the last row of K repeated behind.
HWY_INLINE void find_rows(const Tile &tile, const Blocking &blocking, const KeyBlock &block,
                          const char **rows) {
  if (block.n == 0) return;
  const int32_t head = tile.kv_head + block.head;
  kv_rows(*tile.shape, tile.call->k, tile.sequence, head, block.begin, block.n, rows);
  kv_rows(*tile.shape, tile.call->v, tile.sequence, head, block.begin, block.n,
          rows + blocking.keys + kKeyPad);
  std::fill_n(rows + block.n, kKeyPad, rows[block.n - 1]);
}

HWY_INLINE Ahead look_ahead(const Tile &tile, const Blocking &blocking, const KeyBlock &next,
                            const char **rows) {
  const int32_t size = tile.shape->dtype_kv == FLASHATTN_DTYPE_F32 ? 4 : 2;
  return {rows, rows + blocking.keys + kKeyPad, next.n, tile.shape->dim * size, tile.shape->dim_v * size};
}

// Whether every row of the panel sees every key of the block, or none sees any.
enum class Sight { kAll, kSome, kNone };

// first and rows are of the tile, within one KV head.
HWY_INLINE Sight sight_of(const Tile &tile, int32_t first, int32_t rows, const KeyBlock &block) {
  const KeyRange top = visible_keys(tile, first);
  const KeyRange bottom = visible_keys(tile, first + rows - 1);
  const int64_t end = block.begin + block.n;
  if (end <= top.begin || block.begin >= bottom.end) return Sight::kNone;
  return bottom.begin <= block.begin && end <= top.end ? Sight::kAll : Sight::kSome;
}

// Softcap, ALiBi, bias and mask where there are any, then the softmax, for rows first .. first + rows - 1 of
// the tile, at most kPanel. s, max, sum and keep begin at their lanes; s has stride_s floats per key.
template <int32_t kVectors>
HWY_NOINLINE void finish_scores(const Tile &tile, float *bias, int32_t first, int32_t rows, Sight sight,
                                const KeyBlock &block, float *s, int32_t stride_s, float *max, float *sum,
                                float *keep) {
  const Shape &shape = *tile.shape;
  if (sight != Sight::kAll || shape.softcap > 0.0F || shape.alibi || shape.dtype_bias != 0) {
    PanelRules rules;
    fill_rules(tile, first, rows, block.begin, block.n, &rules);
    if (shape.dtype_bias != 0) {
      for (int32_t r = 0; r < rows; ++r) {
        bias_row(shape, tile.call->bias, tile.sequence, head_of(tile, first + r), query_of(tile, first + r),
                 block.begin, block.n, bias + r, kPanel);
      }
    }
    modify_scores<kVectors>(shape, rules, bias, block.n, s, stride_s);
  }
  softmax_step<kVectors>(block.n, s, stride_s, max, sum, keep);
}

// Few rows: K and V are read once, where they lie, all heads of a block together.
template <int32_t kDtype, int32_t kRows>
HWY_INLINE void dot_tile(const Tile &tile, const Blocking &blocking, Scratch scratch, const State &state) {
  const Shape &shape = *tile.shape;
  const flashattn_call_t &call = *tile.call;
  const int32_t all_rows = tile.heads * kRows;
  const int32_t stride_s = round_up(all_rows, kLanes);
  alignas(64) float keep[kMostHeads * kDotRows];
  copy_queries(tile, scratch.q);
  // Rows of the first head; the others are found from them.
  KeyBlock block = first_block(tile, blocking);
  find_rows(tile, blocking, block, scratch.rows);
  while (block.n > 0) {
    KeyBlock next = block;
    next.head = tile.heads - 1;
    next = next_block(tile, blocking, next);
    find_rows(tile, blocking, next, scratch.next_rows);
    const int64_t k_stride = call.k.stride_head * kElementSize<kDtype>;
    const int64_t v_stride = call.v.stride_head * kElementSize<kDtype>;
    const int32_t k_bytes = shape.dim * kElementSize<kDtype>;
    const RowsOfHeads k{scratch.rows, k_stride, block.n, k_bytes};
    const RowsOfHeads v{scratch.rows + blocking.keys + kKeyPad, v_stride, block.n,
                        shape.dim_v * kElementSize<kDtype>};
    const RowsOfHeads next_k{scratch.next_rows, k_stride, next.n, k_bytes};

    dot_panel<kDtype, kRows>(k, v, tile.heads, scratch.q, shape.dim, shape.scale, scratch.s, stride_s);
    const Sight sight = sight_of(tile, 0, kRows, block);
    for (int32_t lane = 0; lane < all_rows; lane += kPanel) {
      const int32_t rows = std::min(kPanel, all_rows - lane);
      with_count<kPanelVectors>((rows + kLanes - 1) / kLanes, [&](auto vectors) HWY_ATTR {
        finish_scores<decltype(vectors)::value>(tile, scratch.bias, lane, rows, sight, block,
                                                scratch.s + lane, stride_s, scratch.max + lane,
                                                scratch.sum + lane, keep + lane);
      });
    }
    for (int32_t h = 0; h < tile.heads; ++h) {
      for (int32_t j = 0; j < next.n; ++j) next_k.prefetch(j, h);
      value_direct<kDtype, kRows>(scratch.s + h * kRows, stride_s, v, h, shape.dim_v, keep + h * kRows,
                                  state.o + h * kRows * state.stride_o, state.stride_o);
    }
    std::swap(scratch.rows, scratch.next_rows);
    block = next;
  }
  std::copy_n(scratch.max, all_rows, state.max);
  std::copy_n(scratch.sum, all_rows, state.sum);
}

// A block of K and V into f32 and the microkernels' order. scratch.rows then points to the packed K.
HWY_NOINLINE inline void pack_block(const Shape &shape, const Blocking &blocking, int32_t n,
                                    const Scratch &scratch) {
  with_dtype(shape.dtype_kv, [&](auto dtype) HWY_ATTR {
    pack_keys<decltype(dtype)::value>(n, shape.dim, scratch.rows, scratch.k);
    pack_values<decltype(dtype)::value>(n, shape.dim_v, scratch.rows + blocking.keys + kKeyPad, scratch.v);
  });
  std::fill_n(scratch.rows + n, kKeyPad, scratch.rows[n - 1]);
}

// Many rows: a block of K and V is packed once and used by all panels.
HWY_INLINE void panel_tile(const Tile &tile, const Blocking &blocking, Scratch scratch, const State &state) {
  const Shape &shape = *tile.shape;
  const int32_t panel_rows = round_up(tile.rows, kPanel);
  alignas(64) float keep[kPanel];
  pack_queries(tile, scratch.k, scratch.q);
  KeyBlock block = first_block(tile, blocking);
  find_rows(tile, blocking, block, scratch.rows);
  while (block.n > 0) {
    const KeyBlock next = next_block(tile, blocking, block);
    find_rows(tile, blocking, next, scratch.next_rows);
    Ahead ahead = look_ahead(tile, blocking, next, scratch.next_rows);
    const int32_t steps = panel_rows / kPanel * ((block.n + kKeyRows - 1) / kKeyRows);
    const int32_t rows_ahead = (ahead.rows() + steps - 1) / steps;
    pack_block(shape, blocking, block.n, scratch);
    const auto *keys = reinterpret_cast<const float *const *>(scratch.rows);
    for (int32_t row = 0; row < tile.rows; row += kPanel) {
      const int32_t rows = std::min(kPanel, tile.rows - row);
      const int32_t first = block.head * tile.rows + row;
      const int32_t lane = block.head * panel_rows + row;
      const Sight sight = sight_of(tile, first, rows, block);
      if (sight == Sight::kNone) continue;
      with_count<kPanelVectors>((rows + kLanes - 1) / kLanes, [&](auto vectors) HWY_ATTR {
        constexpr int32_t kVectors = decltype(vectors)::value;
        score_panel<kVectors>(keys, block.n, scratch.q + static_cast<int64_t>(lane) * shape.dim, shape.dim,
                              shape.scale, rows_ahead, &ahead, scratch.s);
        finish_scores<kVectors>(tile, scratch.bias, first, rows, sight, block, scratch.s, kPanel,
                                scratch.max + lane, scratch.sum + lane, keep);
      });
      value_panel(scratch.s, rows, block.n, scratch.v, shape.dim_v, keep, state.o + first * state.stride_o,
                  state.stride_o);
    }
    std::swap(scratch.rows, scratch.next_rows);
    block = next;
  }
  for (int32_t h = 0; h < tile.heads; ++h) {
    std::copy_n(scratch.max + h * panel_rows, tile.rows, state.max + h * tile.rows);
    std::copy_n(scratch.sum + h * panel_rows, tile.rows, state.sum + h * tile.rows);
  }
}

HWY_INLINE void run_tile(const Tile &tile, const Blocking &blocking, void *memory, const State &state) {
  Carver carver(memory);
  const Scratch scratch = carve_scratch(&carver, *tile.shape, blocking);
  const int32_t panel_rows = round_up(tile.rows, kPanel);
  std::fill_n(scratch.max, tile.heads * panel_rows, -HUGE_VALF);
  std::fill_n(scratch.sum, tile.heads * panel_rows, 0.0F);
  std::fill_n(state.o, tile.heads * tile.rows * state.stride_o, 0.0F);
  // The two ways round differently, so a batch-invariant plan has only one.
  if (tile.rows <= kDotRows && !tile.shape->batch_invariant) {
    with_dtype(tile.shape->dtype_kv, [&](auto dtype) HWY_ATTR {
      with_count<kDotRows>(tile.rows, [&](auto rows) HWY_ATTR {
        dot_tile<decltype(dtype)::value, decltype(rows)::value>(tile, blocking, scratch, state);
      });
    });
  } else {
    panel_tile(tile, blocking, scratch, state);
  }
}

// f32 to f16 by the hardware's rounding to nearest even, to bf16 by adding 0x7FFF and the bit that will be
// last.
HWY_INLINE void write_row(int32_t dtype, const float *source, int32_t n, void *out) {
  const F32 f32;
  int32_t c = 0;
  if (dtype == FLASHATTN_DTYPE_F16) {
    auto *half = static_cast<hwy::float16_t *>(out);
    const hn::Rebind<hwy::float16_t, F32> f16;
    for (; c + kLanes <= n; c += kLanes)
      hn::StoreU(hn::DemoteTo(f16, hn::LoadU(f32, source + c)), f16, half + c);
    if (c < n) {
      // source is a padded row: reading a whole vector is fine, writing one is not.
      alignas(64) hwy::float16_t rest[kLanes];
      hn::StoreU(hn::DemoteTo(f16, hn::LoadU(f32, source + c)), f16, rest);
      std::memcpy(half + c, rest, sizeof(uint16_t) * static_cast<size_t>(n - c));
    }
    return;
  }
  if (dtype == FLASHATTN_DTYPE_BF16) {
    auto *half = static_cast<uint16_t *>(out);
    const U32 u32;
    const hn::Rebind<uint16_t, F32> u16;
    for (; c + kLanes <= n; c += kLanes) {
      const Vector value = hn::LoadU(f32, source + c);
      const auto bits = hn::BitCast(u32, value);
      const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
      const auto rounded = hn::Add(hn::Add(bits, hn::Set(u32, 0x7FFF)), last);
      const auto quiet = hn::Or(bits, hn::Set(u32, 0x400000));
      const auto chosen = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(value)), quiet, rounded);
      hn::StoreU(hn::TruncateTo(u16, hn::ShiftRight<16>(chosen)), u16, half + c);
    }
    out = half + c;
    source += c;
    n -= c;
  }
  store_row(dtype, source, n, out);
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
