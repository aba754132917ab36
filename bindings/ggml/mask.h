// SPDX-License-Identifier: Apache-2.0
// What a mask says. Engines have no other word for causality than a matrix of 0 and -inf; recognising it lets whole
// tiles be skipped, and keys that no row sees be left out.
#pragma once

#include <cstdint>
#include <vector>

namespace flashattn::ggml {

// Consecutive rows of a mask and the keys they may see. All keys outside [first_key, first_key + num_keys) are hidden
// from all of them.
struct MaskSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_key = 0;
  int32_t num_keys = 0;
  // Whether the segment is told in full by causal and window, so that the mask itself need not be read; else it has to
  // be added to the scores.
  bool band = true;
  // The last row sees the last key, each row before it one key less (bottom-right aligned).
  bool causal = false;
  // With causal: each row sees this many keys at most; 0: any number.
  int32_t window = 0;
};

// What a visible element has to be for its row to be part of a band.
enum class MaskValues {
  kZero,   // 0
  kAlibi,  // minus the distance to the last visible key: the op multiplies it by the head's slope
};

// Cuts rows 0 .. num_rows of an f16 mask, whose row i begins at mask + i * stride, into as few segments as come out of
// one pass. Reads every element: a row is part of a band only when one interval of keys has the values asked for and all
// others are -inf. Distances above 2048, which f16 cannot hold exactly, make no band.
void read_mask_segments(const uint16_t *mask, int64_t stride, int32_t num_rows, int32_t num_keys,
                        MaskValues values, std::vector<MaskSegment> *segments);

}  // namespace flashattn::ggml
