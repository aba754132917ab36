// SPDX-License-Identifier: Apache-2.0
// Writes the seed corpus of call_fuzzer: one file per layout, feature and fault worth starting from.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "flashattn.h"
#include "tests/fuzz/descriptor.h"

namespace flashattn::fuzz {
namespace {

using Setting = std::pair<HeaderByte, uint8_t>;

// A dense f32 problem of 2 sequences, 2 KV heads with 2 query heads each, dims 8, 5 queries and 40 keys.
std::vector<uint8_t> base() {
  std::vector<uint8_t> bytes(kHeaderSize + kLengthBytes);
  const Setting settings[] = {{kHeadsKv, 1},    {kGroup, 1},        {kHeadDim, 7},   {kMaxBatch, 2},
                              {kMaxSeqlenQ, 5}, {kMaxSeqlenKv, 40}, {kSeqlenQ, 5},   {kSeqlenKv, 40},
                              {kTotalQ, 10},    {kTotalKv, 80},     {kNumPages, 32}, {kContents, 1}};
  for (const auto &[field, value] : settings) bytes[field] = value;
  // cu_seqlens_q from 0, cu_seqlens_kv and page_indptr from 5, used lengths from 10 and 12, pages from 16.
  const uint8_t lengths[kLengthBytes] = {0,  10, 10, 0,   0, 0, 8, 8, 0, 0, 3, 5,
                                         33, 20, 1,  250, 0, 1, 2, 3, 4, 5, 6, 7};
  for (size_t i = 0; i < kLengthBytes; ++i) bytes[kHeaderSize + i] = lengths[i];
  return bytes;
}

bool write(const std::string &directory, const std::string &name, const std::vector<uint8_t> &bytes) {
  std::FILE *file = std::fopen((directory + "/" + name).c_str(), "wb");
  if (file == nullptr) return false;
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && whole;
}

bool write_all(const std::string &directory) {
  bool good = true;
  const auto seed = [&](const std::string &name, const std::vector<Setting> &settings,
                        const std::vector<uint8_t> &overwrites = {}) {
    std::vector<uint8_t> bytes = base();
    for (const auto &[field, value] : settings) bytes[field] = value;
    bytes.insert(bytes.end(), overwrites.begin(), overwrites.end());
    good = write(directory, name, bytes) && good;
  };
  for (uint8_t q = 0; q <= FLASHATTN_LAYOUT_RAGGED; ++q) {
    for (uint8_t kv = 0; kv <= FLASHATTN_LAYOUT_PAGED_CSR; ++kv) {
      for (const uint8_t entry : {kForward, kAttention, kContiguousAttention}) {
        seed("layout_" + std::to_string(q) + "_" + std::to_string(kv) + "_entry_" + std::to_string(entry),
             {{kEntry, entry}, {kLayoutQ, q}, {kLayoutKv, kv}, {kPageSize, 15}, {kCausal, 1}});
      }
    }
  }
  for (uint8_t bit = 0; bit < 6; ++bit) {
    seed("feature_" + std::to_string(bit), {{kFeatures, static_cast<uint8_t>(1 << bit)}, {kWindowLeft, 3}});
  }
  for (uint8_t style = 0; style < kStrideStyleCount; ++style) {
    seed("strides_" + std::to_string(style), {{kStrides, style}});
    seed("combine_strides_" + std::to_string(style), {{kEntry, kCombine}, {kStrides, style}, {kSplits, 3}});
  }
  for (uint8_t dtype = 0; dtype < 3; ++dtype) {
    seed("dtype_" + std::to_string(dtype),
         {{kDtypeQ, dtype}, {kDtypeKv, dtype}, {kDtypeBias, uint8_t(3 + dtype)}});
  }
  seed("boolean_mask", {{kDtypeBias, 6}});
  seed("softcap", {{kSoftcap, 2}, {kCausal, 1}});
  seed("splits", {{kSplits, 4}});
  seed("batch_invariant", {{kFlags, 1}});
  seed("int64_lengths", {{kFlags, 4}, {kLayoutQ, 1}, {kLayoutKv, 1}});
  // page_indptr 0, 4, -24: the first sequence's pages lie beyond what the last entry promises.
  constexpr auto kThirdIndptr = static_cast<HeaderByte>(kHeaderSize + 7);
  seed("page_indptr_falls", {{kLayoutKv, FLASHATTN_LAYOUT_PAGED_CSR}, {kThirdIndptr, 200}});
  // Without pages the table may be missing, but the used lengths here ask for some. Pointers count from q.
  seed("no_pages_no_table", {{kLayoutKv, FLASHATTN_LAYOUT_PAGED},
                             {kPageSize, 15},
                             {kNumPages, 0},
                             {kPointer, 10},
                             {kPointerFault, kNull}});
  seed("no_pages_no_indices", {{kLayoutKv, FLASHATTN_LAYOUT_PAGED_CSR},
                               {kPageSize, 15},
                               {kNumPages, 0},
                               {kPointer, 12},
                               {kPointerFault, kNull}});
  seed("no_queries", {{kSeqlenQ, 0}});
  seed("no_keys", {{kSeqlenKv, 0}});
  for (uint8_t kernel = 8; kernel < 14; ++kernel)
    seed("kernel_" + std::to_string(kernel), {{kKernel, kernel}});
  for (uint8_t pointer = 0; pointer < 5; ++pointer) {
    for (uint8_t fault = kNull; fault < kPointerFaultCount; ++fault) {
      seed("pointer_" + std::to_string(pointer) + "_fault_" + std::to_string(fault),
           {{kPointer, pointer}, {kPointerFault, fault}});
    }
  }
  // Interesting values in 8-byte fields of the call, and in 4-byte fields of the problem.
  for (uint8_t offset = 0; offset < 120; offset += 5) {
    seed("overwrite_call_" + std::to_string(offset), {},
         {1, offset, 0, kWide | kInteresting, uint8_t(offset % 12), 0, 0, 0, 0, 0, 0, 0});
    seed("overwrite_problem_" + std::to_string(offset), {},
         {0, offset, 0, kInteresting, uint8_t(offset % 12), 0, 0, 0, 0, 0, 0, 0});
  }
  return good;
}

}  // namespace
}  // namespace flashattn::fuzz

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  return flashattn::fuzz::write_all(argv[1]) ? 0 : 1;
}
