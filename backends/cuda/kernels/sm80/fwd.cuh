// SPDX-License-Identifier: Apache-2.0
// Forward attention for Ampere-class tensor cores, after FlashAttention-2 (Dao 2023): a block takes kRows
// packed query rows of one KV head and walks the keys; warps divide the rows, so that none waits for
// another's scores.
//
//   for each step of kKeys keys:   wait for its K and V; start copying the next step's
//                                  S = Q K^T;  modify, mask;  online softmax;  O += P V
//
// Query heads that share a KV head are packed into the rows: row r is query r / group of head r % group.
#pragma once

#include "backends/cuda/kernels/sm80/epilogue.cuh"
#include "backends/cuda/kernels/sm80/load.cuh"
#include "backends/gpu/schedule.h"

namespace flashattn::cuda {

constexpr float kLog2E = 1.44269504088896341F;

template <typename Tile>
struct Shared {
  uint8_t *q;
  typename Tile::RowInfo *rows;
  uint32_t q_address, k_address, v_address;

  __device__ explicit Shared(uint8_t *memory)
      : q(memory),
        rows(reinterpret_cast<typename Tile::RowInfo *>(memory + Tile::kQBytes +
                                                        2 * Tile::kStages * Tile::kStageBytes)),
        q_address(shared_address(memory)),
        k_address(q_address + Tile::kQBytes),
        v_address(k_address + Tile::kStages * Tile::kStageBytes) {}
};

// kModified: scores are more than a positive multiple of q.k.
template <typename Tile, bool kModified>
__device__ void attend(const ForwardArgs &args, const Shared<Tile> &shared, const gpu::Piece &piece,
                       const Sequence &s) {
  const int32_t rows = s.n_q * args.group;
  const int32_t first_row = piece.tile * Tile::kRows;
  if (first_row >= rows) return;
  const int32_t last_row = min(first_row + Tile::kRows, rows) - 1;
  const gpu::KeyRange seen = gpu::visible_to_rows(first_row, last_row, args.group, s.diagonal,
                                                  args.window_left, args.window_right, s.n_k);
  const gpu::KeyRange open = gpu::visible_to_all_rows(first_row, last_row, args.group, s.diagonal,
                                                      args.window_left, args.window_right, s.n_k);
  const gpu::KeyRange steps = gpu::split_blocks(seen, Tile::kKeys, piece.split, args.splits);

  const RowLoader<Tile> k_loader(args, args.k, s, piece.head_kv, args.dim);
  const RowLoader<Tile> v_loader(args, args.v, s, piece.head_kv, args.dim_v);
  const auto load_step = [&](int32_t step) {
    const uint32_t stage = (step - steps.begin) % Tile::kStages * Tile::kStageBytes;
    k_loader.load(args, args.k, s, step * Tile::kKeys, shared.k_address + stage);
    v_loader.load(args, args.v, s, step * Tile::kKeys, shared.v_address + stage);
  };

  load_q<Tile>(args, s, piece.head_kv, first_row, rows, shared.q_address);
  if (steps.begin < steps.end) load_step(steps.begin);
  commit_copies();
  fill_row_info<Tile>(args, s, first_row, rows, *shared.rows);

  const float factor = kModified ? kLog2E : args.scale * kLog2E;
  // An O in f32 shows the last bit of a row's only weight; rounding to 16 bits hides it.
  const bool exact = args.dtype_o == FLASHATTN_DTYPE_F32;
  // A warp whose rows all lie past the end only helps to copy.
  const bool works = first_row + static_cast<int32_t>(threadIdx.x) / 32 * Tile::kM * 16 < rows;
  Softmax<Tile> softmax;
  softmax.reset();
  Output<Tile> o;
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
    for (int n = 0; n < Tile::kDim / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[m][n][e] = 0.0F;
    }
  }
  QFragments<Tile> q;

  for (int32_t step = steps.begin; step < steps.end; ++step) {
    wait_copies<0>();
    __syncthreads();  // this step has arrived for all, and all have left the other stage
    if (step + 1 < steps.end) load_step(step + 1);
    commit_copies();
    if (!works) continue;
    if (step == steps.begin) load_q_fragments<Tile>(shared.q_address, q);

    const uint32_t stage = (step - steps.begin) % Tile::kStages * Tile::kStageBytes;
    const int32_t first_key = step * Tile::kKeys;
    Scores<Tile> scores;
    multiply_qk<Tile>(shared.q_address, q, shared.k_address + stage, scores);
    if (kModified) modify_scores<Tile>(args, s, piece.head_kv, *shared.rows, first_key, scores);
    if (first_key < open.begin || first_key + Tile::kKeys > open.end) {
      mask_scores<Tile>(*shared.rows, first_key, scores);
    }
    softmax.step(factor, exact, scores, o);
    multiply_pv<Tile>(scores, shared.v_address + stage, o);
  }
  wait_copies<0>();
  __syncthreads();  // a tile without keys still has Q under way to where O is staged
  softmax.finish();
  if (works) {
    store_tile<Tile>(args, s, piece, first_row, rows, kModified ? 1.0F : args.scale, softmax, o, shared.q);
  }
}

template <typename Tile, bool kModified>
__device__ void forward(const ForwardArgs &args, uint8_t *memory) {
  const int64_t pairs =
      static_cast<int64_t>(args.batch) * args.heads_kv;  // with tiles and splits, within 2^31
  const gpu::Piece piece = gpu::piece_at(static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(pairs),
                                         args.heads_kv, args.q_tiles, args.splits, args.section_heads);
  const Sequence s = load_sequence(args, piece.batch);
  if ((args.flags & gpu::kPaged) != 0 && __syncthreads_or(bad_page(args, s, threadIdx.x, Tile::kThreads)))
    return;
  if (!s.valid) return;
  attend<Tile, kModified>(args, Shared<Tile>(memory), piece, s);
}

}  // namespace flashattn::cuda
