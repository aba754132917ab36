// SPDX-License-Identifier: Apache-2.0
// How the bytes of a fuzz input spell a problem and a call. A header of one byte per field picks from values
// that are mostly valid, so that kernels are reached; lengths follow; then overwrites put anything into any
// field.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashattn::fuzz {

enum HeaderByte : size_t {
  kEntry,  // which function is called, see Entry
  kDtypeQ,
  kDtypeKv,
  kDtypeO,
  kDtypeBias,
  kLayoutQ,
  kLayoutKv,
  kHeadsKv,
  kGroup,  // query heads per KV head
  kHeadDim,
  kHeadDimV,
  kMaxBatch,
  kMaxSeqlenQ,
  kMaxSeqlenKv,
  kPageSize,
  kFeatures,
  kFlags,
  kScale,
  kSoftcap,
  kCausal,
  kWindowLeft,
  kWindowRight,
  kSplits,
  kPrecision,
  kKernel,
  kSeqlenQ,
  kSeqlenKv,
  kTotalQ,
  kTotalKv,
  kNumPages,
  kDiagOffset,
  kStrides,       // see StrideStyle
  kPointer,       // which pointer gets the fault
  kPointerFault,  // see PointerFault
  kContents,      // seed of the tensors' contents
  kHeaderSize,
};

enum Entry : uint8_t { kForward, kAttention, kContiguousAttention, kCombine, kEntryCount };
enum StrideStyle : uint8_t { kSeqHead, kHeadSeq, kPadded, kBroadcast, kStrideStyleCount };
enum PointerFault : uint8_t { kNoFault, kNull, kMisaligned, kUndeclared, kPointerFaultCount };

// After the header: entry i of cu_seqlens, used lengths, offsets and page indices is the signed byte i,
// reused round.
inline constexpr size_t kLengthBytes = 24;

// After the lengths: overwrites of this many bytes each. Byte 0: struct (even: problem, odd: call or combine
// arguments); bytes 1-2: offset, little-endian, modulo the size; byte 3: width and kind; bytes 4-11: value.
inline constexpr size_t kOverwriteBytes = 12;
inline constexpr uint8_t kWide = 1;         // 8 bytes rather than 4
inline constexpr uint8_t kInteresting = 2;  // byte 4 picks from a list rather than bytes 4-11 as they are

}  // namespace flashattn::fuzz
