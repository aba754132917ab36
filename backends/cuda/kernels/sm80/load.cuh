// SPDX-License-Identifier: Apache-2.0
// Global to shared memory by cp.async. Columns past the head dimension and rows past the sequence become
// zeros, whatever lies there.
#pragma once

#include "backends/cuda/kernels/sm80/tile.cuh"

namespace flashattn::cuda {

// Bytes of a 16-byte chunk that belong to a row of `dim` elements.
__device__ inline int32_t chunk_bytes(int32_t dim, int32_t chunk) {
  return max(0, min(16, (dim - chunk * 8) * 2));
}

// Query and head of a packed row. Most calls have no group, and a division is some twenty instructions.
struct PackedRow {
  int32_t i;
  int32_t head;
};
__device__ inline PackedRow packed_row(const ForwardArgs &args, int32_t head_kv, int32_t row) {
  if (args.group == 1) return {row, head_kv};
  const uint32_t i = static_cast<uint32_t>(row) / static_cast<uint32_t>(args.group);
  return {static_cast<int32_t>(i), head_kv * args.group + row - static_cast<int32_t>(i) * args.group};
}

// Packed rows first_row .. of Q. rows: how many the sequence has.
template <typename Tile>
__device__ void load_q(const ForwardArgs &args, const Sequence &s, int32_t head_kv, int32_t first_row,
                       int32_t rows, uint32_t to) {
  constexpr int kStep = Tile::kThreads / Tile::kChunks;
  const int chunk = threadIdx.x % Tile::kChunks;
  const int32_t bytes = chunk_bytes(args.dim, chunk);
  const auto *data = static_cast<const uint16_t *>(args.q.data);
#pragma unroll 4
  for (int r = threadIdx.x / Tile::kChunks; r < Tile::kRows; r += kStep) {
    const int32_t row = first_row + r;
    const bool exists = row < rows && bytes > 0;
    const PackedRow packed = packed_row(args, head_kv, row);
    const uint16_t *from =
        exists ? data + q_offset(args, args.q, s, packed.i, packed.head) + chunk * 8 : data;
    copy_async(to + Tile::place(r, chunk), from, exists ? bytes : 0);
  }
}

// Reads keys first_key .. of K or V of one KV head: every thread one chunk of every kStep-th row.
template <typename Tile>
class RowLoader {
 public:
  __device__ RowLoader(const ForwardArgs &args, const gpu::TensorArg &tensor, const Sequence &s,
                       int32_t head_kv, int32_t dim)
      : data_(static_cast<const uint8_t *>(tensor.data) + head_kv * tensor.stride_head * 2) {
    const int chunk = threadIdx.x % Tile::kChunks;
    bytes_ = chunk_bytes(dim, chunk);
    if (bytes_ > 0) data_ += chunk * 16;
    if ((args.flags & gpu::kPaged) == 0) {
      data_ += (kv_offset(args, tensor, s, 0) + first_row() * tensor.stride_seq) * 2;
    }
  }

  __device__ void load(const ForwardArgs &args, const gpu::TensorArg &tensor, const Sequence &s,
                       int32_t first_key, uint32_t to) const {
    const int chunk = threadIdx.x % Tile::kChunks;
    const bool paged = (args.flags & gpu::kPaged) != 0;
    if (!paged && first_key + Tile::kKeys <= s.n_k) {
      // The usual step: nothing to look up, nothing past the end.
      const uint8_t *from = data_ + first_key * tensor.stride_seq * 2;
      const int64_t step = kStep * tensor.stride_seq * 2;
#pragma unroll
      for (int r = 0; r < Tile::kKeys; r += kStep) {
        copy_async(to + Tile::place(r + first_row(), chunk), from, bytes_);
        from += step;
      }
      return;
    }
#pragma unroll 1
    for (int r = first_row(); r < Tile::kKeys; r += kStep) {
      const int32_t j = first_key + r;
      const bool exists = j < s.n_k && bytes_ > 0;
      const uint8_t *from = data_;
      if (exists)
        from +=
            paged ? kv_offset(args, tensor, s, j) * 2 : (first_key + r - first_row()) * tensor.stride_seq * 2;
      copy_async(to + Tile::place(r, chunk), from, exists ? bytes_ : 0);
    }
  }

 private:
  static constexpr int kStep = Tile::kThreads / Tile::kChunks;
  static __device__ int first_row() {
    return static_cast<int>(threadIdx.x) / Tile::kChunks;
  }

  const uint8_t *data_;
  int32_t bytes_;  // of this thread's chunk
};

}  // namespace flashattn::cuda
