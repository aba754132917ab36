// SPDX-License-Identifier: Apache-2.0
// Problem and call descriptors from fuzzer bytes against the CPU backend. Every buffer is exactly as large as
// the descriptors promise, so that AddressSanitizer sees any access beyond it. What must hold for every
// input:
//   - the status is one that the arguments can cause, and an error has a text;
//   - on an error O and LSE are untouched; on success nothing between their rows is.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "flashattn.h"
#include "src/dtype.h"
#include "src/problem.h"
#include "src/structs.h"
#include "tests/fuzz/descriptor.h"

namespace flashattn::fuzz {
namespace {

constexpr int64_t kMaxBufferBytes = 1 << 18;
constexpr int64_t kMaxWorkspaceBytes = 1 << 22;
constexpr int64_t kMaxWork = 1 << 22;  // batch * heads * seqlen_q * seqlen_kv * head_dim
constexpr unsigned char kPoison = 0xa5;

void demand(bool condition, const char *what) {
  if (condition) return;
  std::fprintf(stderr, "call_fuzzer: %s (last error: %s)\n", what, flashattn_last_error());
  std::abort();
}

// Heap memory of exactly `size` bytes (at least one, so that it has an address), as malloc aligns.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size)
      : size_(static_cast<size_t>(size)), memory_(std::malloc(std::max<size_t>(size_, 1))) {
    std::memset(memory_.get(), kPoison, std::max<size_t>(size_, 1));
  }
  void *get() const { return memory_.get(); }
  unsigned char *bytes() const { return static_cast<unsigned char *>(memory_.get()); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  size_t size_ = 0;
  std::unique_ptr<void, Free> memory_;
};

class Input {
 public:
  Input(const uint8_t *data, size_t size) : bytes_(data, data + size) {
    bytes_.resize(std::max(size, kHeaderSize + kLengthBytes));
  }
  uint8_t operator[](HeaderByte field) const { return bytes_[field]; }
  template <typename T, size_t kCount>
  T pick(HeaderByte field, const T (&choices)[kCount]) const {
    return choices[bytes_[field] % kCount];
  }
  // In 0..maximum.
  int32_t upto(HeaderByte field, int32_t maximum) const { return bytes_[field] % (maximum + 1); }
  int8_t length(size_t index) const {
    return static_cast<int8_t>(bytes_[kHeaderSize + index % kLengthBytes]);
  }
  size_t overwrite_count() const { return (bytes_.size() - kHeaderSize - kLengthBytes) / kOverwriteBytes; }
  const uint8_t *overwrite(size_t index) const {
    return bytes_.data() + kHeaderSize + kLengthBytes + index * kOverwriteBytes;
  }

 private:
  std::vector<uint8_t> bytes_;
};

flashattn_handle_t *handle() {
  static flashattn_handle_t *opened = [] {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CPU;
    options.num_threads = 3;  // cuts work as for threads, but runs it here
    options.parallel_for = [](void * /*user*/, int32_t count, flashattn_task_fn task, void *context) {
      for (int32_t i = 0; i < count; ++i) task(context, i);
    };
    flashattn_handle_t *result = nullptr;
    demand(flashattn_create(&options, &result) == FLASHATTN_STATUS_OK, "create failed");
    return result;
  }();
  return opened;
}

constexpr int32_t kFloatDtypes[] = {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16};

flashattn_problem_t decode_problem(const Input &in) {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = in.pick(kDtypeQ, kFloatDtypes);
  problem.dtype_kv = in.pick(kDtypeKv, kFloatDtypes);
  problem.dtype_o = in.pick(kDtypeO, {0, FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16});
  problem.dtype_bias = in.pick(kDtypeBias, {0, 0, 0, FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16,
                                            FLASHATTN_DTYPE_BF16, FLASHATTN_DTYPE_U8});
  problem.layout_q = in.upto(kLayoutQ, FLASHATTN_LAYOUT_RAGGED);
  problem.layout_kv = in.upto(kLayoutKv, FLASHATTN_LAYOUT_PAGED_CSR);
  problem.num_heads_kv = 1 + in.upto(kHeadsKv, 2);
  problem.num_heads_q = problem.num_heads_kv * (1 + in.upto(kGroup, 4));
  problem.head_dim = 1 + in.upto(kHeadDim, 71);
  problem.head_dim_v = in.upto(kHeadDimV, 72);
  problem.max_batch = in.upto(kMaxBatch, 4);
  problem.max_seqlen_q = in.upto(kMaxSeqlenQ, 20);
  problem.max_seqlen_kv = in.upto(kMaxSeqlenKv, 200);
  problem.features = in[kFeatures] & 0x3f;
  if (problem.layout_q == FLASHATTN_LAYOUT_RAGGED) problem.max_total_q = 64;
  if (problem.layout_kv == FLASHATTN_LAYOUT_RAGGED) problem.max_total_kv = 256;
  if (problem.layout_kv >= FLASHATTN_LAYOUT_PAGED) {
    problem.page_size = 1 + in.upto(kPageSize, 16);
    problem.max_pages = 32;
    problem.features |= FLASHATTN_FEATURE_SEQUSED_KV;
  }
  problem.flags = in[kFlags] & 0x7;
  if (problem.layout_q != FLASHATTN_LAYOUT_RAGGED && problem.layout_kv != FLASHATTN_LAYOUT_RAGGED) {
    problem.flags &= ~FLASHATTN_FLAG_CU_SEQLENS_INT64;
  }
  problem.softmax_scale = in.pick(kScale, {0.0F, 1.0F, -0.5F, 1e4F, 1e-30F});
  problem.softcap = in.pick(kSoftcap, {0.0F, 0.0F, 30.0F, 1e-3F});
  problem.causal = in.upto(kCausal, 1);
  if ((problem.features & FLASHATTN_FEATURE_WINDOW) != 0) {
    problem.window_left = in.pick(kWindowLeft, {-1, 0, 1, 5, 31, 32, INT32_MAX});
    problem.window_right = in.pick(kWindowRight, {-1, 0, 1, 5, 31, 32, INT32_MAX});
  }
  if ((problem.flags & FLASHATTN_FLAG_BATCH_INVARIANT) == 0)
    problem.num_splits = in.pick(kSplits, {0, 0, 1, 2, 3, 256});
  problem.precision_f32 = in.upto(kPrecision, 2);
  // Now and then a kernel by name; past the last one there is none.
  flashattn_kernel_info_t kernel{};
  kernel.struct_size = sizeof kernel;
  const int32_t index = in[kKernel] % 16 - 8;
  if (index >= 0 && flashattn_kernel_info(FLASHATTN_BACKEND_CPU, index, &kernel) == FLASHATTN_STATUS_OK) {
    std::memcpy(problem.kernel, kernel.name, sizeof problem.kernel);
  }
  return problem;
}

void set_strides(flashattn_tensor_t *tensor, int64_t rows, int64_t heads, int64_t row, StrideStyle style,
                 bool output) {
  if (style == kBroadcast && output) style = kSeqHead;
  switch (style) {
    case kHeadSeq:
      *tensor = {nullptr, rows * heads * row, row, rows * row};
      return;
    case kPadded:
      *tensor = {nullptr, (rows + 1) * (heads * (row + 1) + 3), heads * (row + 1) + 3, row + 1};
      return;
    case kBroadcast:
      *tensor = {nullptr, 0, row, 0};
      return;
    default:
      *tensor = {nullptr, rows * heads * row, heads * row, row};
      return;
  }
}

flashattn_call_t decode_call(const Input &in, const flashattn_problem_t &problem) {
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  const bool ragged_q = problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const bool ragged_kv = problem.layout_kv == FLASHATTN_LAYOUT_RAGGED;
  const bool paged = problem.layout_kv >= FLASHATTN_LAYOUT_PAGED;
  call.batch = problem.max_batch;
  call.seqlen_q = in.upto(kSeqlenQ, std::max(problem.max_seqlen_q, 0));
  call.seqlen_kv = in.upto(kSeqlenKv, std::max(problem.max_seqlen_kv, 0));
  if (ragged_q) call.total_q = in.upto(kTotalQ, 64);
  if (ragged_kv) call.total_kv = in.upto(kTotalKv, 255);
  if (paged) call.num_pages = in.upto(kNumPages, 32);
  call.diag_offset = in.pick(kDiagOffset, {0, 0, 1, -1, 7, -40, INT32_MAX, INT32_MIN});
  const auto style = static_cast<StrideStyle>(in[kStrides] % kStrideStyleCount);
  const int64_t rows_q = ragged_q ? call.total_q : call.seqlen_q;
  const int64_t rows_kv = paged ? problem.page_size : ragged_kv ? call.total_kv : call.seqlen_kv;
  const int64_t dim_v = problem.head_dim_v == 0 ? problem.head_dim : problem.head_dim_v;
  set_strides(&call.q, rows_q, problem.num_heads_q, problem.head_dim, style, false);
  set_strides(&call.k, rows_kv, problem.num_heads_kv, problem.head_dim, style, false);
  set_strides(&call.v, rows_kv, problem.num_heads_kv, dim_v, style == kPadded ? kSeqHead : style, false);
  set_strides(&call.o, rows_q, problem.num_heads_q, dim_v, style, true);
  set_strides(&call.lse, rows_q, problem.num_heads_q, 1, style == kPadded ? kPadded : kHeadSeq, true);
  if (problem.layout_kv == FLASHATTN_LAYOUT_PAGED) {
    call.page_table_width = 4;
    call.page_table_stride = style == kBroadcast ? 0 : 4 + (style == kPadded ? 3 : 0);
  }
  if (problem.dtype_bias != 0) {
    const int64_t columns = call.seqlen_kv == 0 ? problem.max_seqlen_kv : call.seqlen_kv;
    call.bias = {nullptr, 0, style == kBroadcast ? 0 : columns, style == kBroadcast ? 0 : columns, 1};
  }
  call.alibi_slopes.stride_head = 1;
  call.sinks.stride_head = 1;
  return call;
}

// Puts arbitrary values at arbitrary places; pointers are set afterwards.
void overwrite(const Input &in, bool second, void *data, size_t size) {
  constexpr int64_t kValues[] = {0,
                                 1,
                                 -1,
                                 2,
                                 INT32_MAX,
                                 INT32_MIN,
                                 INT64_MAX,
                                 INT64_MIN,
                                 1LL << 31,
                                 INT64_MIN / 2,
                                 INT64_MAX / 2,
                                 INT64_MAX / 8};
  for (size_t i = 0; i < in.overwrite_count(); ++i) {
    const uint8_t *bytes = in.overwrite(i);
    if ((bytes[0] % 2 == 1) != second) continue;
    const size_t width = (bytes[3] & kWide) != 0 ? 8 : 4;
    const size_t offset = (bytes[1] + size_t{256} * bytes[2]) % (size / width) * width;
    int64_t value = 0;
    std::memcpy(&value, bytes + 4, sizeof value);
    if ((bytes[3] & kInteresting) != 0) value = kValues[bytes[4] % (sizeof kValues / sizeof *kValues)];
    std::memcpy(static_cast<char *>(data) + offset, &value, width);
  }
}

// A struct as its struct_size says: exactly that many bytes, zero beyond what this library knows.
template <typename T>
class Sized {
 public:
  explicit Sized(const T &value) : bytes_(std::clamp<int64_t>(value.struct_size, 4, kMaxStructSize)) {
    std::memset(bytes_.get(), 0, bytes_.size());
    std::memcpy(bytes_.get(), &value, std::min(bytes_.size(), sizeof value));
  }
  T *get() const { return static_cast<T *>(bytes_.get()); }

 private:
  Buffer bytes_;
};

// ---------------------------------------------------------------------------------------------- buffers ---

constexpr int64_t kWrong = -1;     // a negative extent or stride: the library must refuse it before it looks
constexpr int64_t kTooLarge = -2;  // more than this target gives; the library may find nothing wrong with it

// Bytes of a strided array, or one of the above.
int64_t array_bytes(std::initializer_list<std::pair<int64_t, int64_t>> extents_and_strides, int64_t row,
                    int64_t element) {
  if (row < 0) return kWrong;
  __int128 last = row;
  for (const auto &[extent, stride] : extents_and_strides) {
    if (extent == 0) return 0;
    if (extent < 0 || stride < 0) return kWrong;
    last += static_cast<__int128>(extent - 1) * stride;
  }
  const __int128 bytes = last * element;
  return bytes > kMaxBufferBytes ? kTooLarge : static_cast<int64_t>(bytes);
}

// One output: which of its elements a call may write.
struct Output {
  Buffer buffer;
  int64_t element = 1;

  void check_untouched() const {
    unsigned char *end = buffer.bytes() + buffer.size();
    demand(std::all_of(buffer.bytes(), end, [](unsigned char byte) { return byte == kPoison; }),
           "an output was written although the call failed");
  }

  void check_gaps(int64_t outer, int64_t rows, int64_t heads, int64_t row,
                  const flashattn_tensor_t &strides) const {
    std::vector<bool> allowed(buffer.size());
    for (int64_t b = 0; b < outer; ++b) {
      for (int64_t s = 0; s < rows; ++s) {
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t first = b * strides.stride_batch + s * strides.stride_seq + h * strides.stride_head;
          std::fill_n(allowed.begin() + first * element, row * element, true);
        }
      }
    }
    for (size_t i = 0; i < buffer.size(); ++i) {
      demand(allowed[i] || buffer.bytes()[i] == kPoison, "a byte between the rows of an output was written");
    }
  }
};

// Contents of an input: small numbers, now and then infinite or NaN, of whatever type reads them.
Buffer make_input(int64_t bytes, uint32_t seed) {
  Buffer buffer(bytes);
  uint32_t state = seed * 2654435761U + 1;
  for (size_t i = 0; i < buffer.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    buffer.bytes()[i] = static_cast<unsigned char>(state >> 24);
  }
  return buffer;
}

template <typename T>
Buffer make_integers(const Input &in, int64_t count, size_t from, bool accumulate) {
  Buffer buffer(count * static_cast<int64_t>(sizeof(T)));
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int8_t byte = in.length(from + static_cast<size_t>(i));
    // Running sums of mostly small steps; the first entry mostly 0.
    sum = static_cast<T>(sum + (i == 0 ? byte / 100 : byte / 2));
    const T value = accumulate ? sum : static_cast<T>(byte);
    std::memcpy(buffer.bytes() + static_cast<size_t>(i) * sizeof(T), &value, sizeof value);
  }
  return buffer;
}

// A pointer of a call, with the fault the input asks for.
class Pointers {
 public:
  explicit Pointers(const Input &in)
      : target_(in[kPointer] % kPointerCount),
        fault_(static_cast<PointerFault>(in[kPointerFault] % kPointerFaultCount)) {}

  // Bytes are aligned anywhere: moving a pointer to them would only make the buffer too short.
  template <typename T>
  void set(T **pointer, const Buffer &buffer, bool declared, bool bytes = false) {
    const bool faulty = next_++ == target_;
    auto *address = static_cast<unsigned char *>(buffer.get());
    if (faulty && fault_ == kNull) address = nullptr;
    if (faulty && fault_ == kMisaligned && !bytes) ++address;
    if (!declared && !(faulty && fault_ == kUndeclared)) address = nullptr;
    *pointer = reinterpret_cast<T *>(address);
  }

 private:
  static constexpr int kPointerCount = 17;
  int next_ = 0;
  int target_;
  PointerFault fault_;
};

bool legal(flashattn_status_t status) {
  switch (status) {
    case FLASHATTN_STATUS_OK:
    case FLASHATTN_STATUS_INVALID_ARGUMENT:
    case FLASHATTN_STATUS_NULL_POINTER:
    case FLASHATTN_STATUS_STRUCT_SIZE:
    case FLASHATTN_STATUS_INVALID_DATA:
    case FLASHATTN_STATUS_UNSUPPORTED:
    case FLASHATTN_STATUS_NEWER_STRUCT:
      return true;
    default:
      return false;
  }
}

void check_status(flashattn_status_t status) {
  demand(legal(status), "a status that these arguments cannot cause");
  demand(status == FLASHATTN_STATUS_OK || flashattn_last_error()[0] != '\0', "an error without a text");
}

// --------------------------------------------------------------------------------------------- the calls ---

flashattn_status_t run_planned(const flashattn_plan_t *plan, const flashattn_plan_info_t &info,
                               const flashattn_call_t *call) {
  void *workspace = nullptr;
  const size_t alignment = std::max<size_t>(info.workspace_alignment, sizeof(void *));
  demand(posix_memalign(&workspace, alignment, info.workspace_size) == 0, "no memory for the workspace");
  flashattn_status_t status = flashattn_workspace_init(plan, workspace, info.workspace_size, nullptr);
  demand(status == FLASHATTN_STATUS_OK, "workspace_init failed");
  status = flashattn_forward(plan, call, workspace, info.workspace_size, nullptr);
  std::free(workspace);
  return status;
}

void fuzz_call(const Input &in) {
  flashattn_problem_t wanted = decode_problem(in);
  flashattn_call_t given = decode_call(in, wanted);
  overwrite(in, false, &wanted, sizeof wanted);
  overwrite(in, true, &given, sizeof given);
  const Sized<flashattn_problem_t> problem_bytes(wanted);

  flashattn_plan_t *plan = nullptr;
  const flashattn_status_t planned = flashattn_plan_create(handle(), problem_bytes.get(), &plan);
  check_status(planned);
  const std::unique_ptr<flashattn_plan_t, void (*)(flashattn_plan_t *)> owner(plan, flashattn_plan_destroy);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  flashattn_problem_t problem;
  if (planned != FLASHATTN_STATUS_OK) return;
  demand(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK, "plan_info failed");
  demand(normalise_problem(problem_bytes.get(), &problem) == kOk, "a planned problem does not normalise");
  if (info.workspace_size > static_cast<uint64_t>(kMaxWorkspaceBytes)) return;

  // What the library will see of the call, whatever its struct_size.
  flashattn_call_t call{};
  std::memcpy(&call, &given, std::clamp<size_t>(given.struct_size, 4, sizeof call));
  const bool ragged_q = problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const bool ragged_kv = problem.layout_kv == FLASHATTN_LAYOUT_RAGGED;
  const bool paged = problem.layout_kv >= FLASHATTN_LAYOUT_PAGED;
  const bool wide = (problem.flags & FLASHATTN_FLAG_CU_SEQLENS_INT64) != 0;
  const auto has = [&](uint64_t feature) { return (problem.features & feature) != 0; };
  const int64_t outer_q = ragged_q ? 1 : call.batch;
  const int64_t rows_q = ragged_q ? call.total_q : call.seqlen_q;
  const int64_t outer_kv = paged ? call.num_pages : ragged_kv ? 1 : call.batch;
  const int64_t rows_kv = paged ? problem.page_size : ragged_kv ? call.total_kv : call.seqlen_kv;
  const int64_t columns = problem.layout_kv != FLASHATTN_LAYOUT_DENSE && call.seqlen_kv == 0
                              ? problem.max_seqlen_kv
                              : call.seqlen_kv;
  // Lengths in memory are signed bytes, so no sequence has more than 127 rows.
  const __int128 work = static_cast<__int128>(std::max(call.batch, 1)) * problem.num_heads_q *
                        std::clamp<int64_t>(rows_q, 1, 1 << 20) * std::clamp<int64_t>(columns, 1, 256) *
                        (problem.head_dim + problem.head_dim_v);
  if (work > kMaxWork || call.batch > 4096) return;

  const auto tensor_bytes = [](const flashattn_tensor_t &t, int64_t outer, int64_t rows, int64_t heads,
                               int64_t row, int32_t dtype, bool ragged) {
    return array_bytes({{outer, ragged ? 0 : t.stride_batch}, {rows, t.stride_seq}, {heads, t.stride_head}},
                       row, dtype_size(dtype));
  };
  const int64_t batch = std::max(call.batch, 0);
  const int64_t sizes[] = {
      tensor_bytes(call.q, outer_q, rows_q, problem.num_heads_q, problem.head_dim, problem.dtype_q, ragged_q),
      tensor_bytes(call.k, outer_kv, rows_kv, problem.num_heads_kv, problem.head_dim, problem.dtype_kv,
                   ragged_kv),
      tensor_bytes(call.v, outer_kv, rows_kv, problem.num_heads_kv, problem.head_dim_v, problem.dtype_kv,
                   ragged_kv),
      tensor_bytes(call.o, outer_q, rows_q, problem.num_heads_q, problem.head_dim_v, problem.dtype_o,
                   ragged_q),
      tensor_bytes(call.lse, outer_q, rows_q, problem.num_heads_q, 1, FLASHATTN_DTYPE_F32, ragged_q),
      array_bytes({{batch, call.page_table_stride}}, call.page_table_width, 4),
      array_bytes({{batch, call.bias.stride_batch},
                   {problem.num_heads_q, call.bias.stride_head},
                   {call.seqlen_q, call.bias.stride_q},
                   {columns, call.bias.stride_kv}},
                  1, std::max<int64_t>(dtype_size(problem.dtype_bias), 1)),
      array_bytes(
          {{batch, call.alibi_slopes.stride_batch}, {problem.num_heads_q, call.alibi_slopes.stride_head}}, 1,
          4),
      array_bytes({{batch, call.sinks.stride_batch}, {problem.num_heads_q, call.sinks.stride_head}}, 1, 4),
  };
  if (std::find(std::begin(sizes), std::end(sizes), kTooLarge) != std::end(sizes)) return;
  const auto at_least_none = [](int64_t bytes) { return std::max<int64_t>(bytes, 0); };

  const uint32_t seed = in[kContents];
  const Buffer q = make_input(at_least_none(sizes[0]), seed);
  const Buffer k = make_input(at_least_none(sizes[1]), seed + 1);
  const Buffer v = make_input(at_least_none(sizes[2]), seed + 2);
  Output o{Buffer(at_least_none(sizes[3])), dtype_size(problem.dtype_o)};
  Output lse{Buffer(at_least_none(sizes[4])), 4};
  const auto cumulative = [&](size_t from) {
    return wide ? make_integers<int64_t>(in, batch + 1, from, true)
                : make_integers<int32_t>(in, batch + 1, from, true);
  };
  const Buffer cu_q = cumulative(0);
  const Buffer cu_kv = cumulative(5);
  const Buffer used_q = make_integers<int32_t>(in, batch, 10, false);
  const Buffer used_kv = make_integers<int32_t>(in, batch, 12, false);
  const Buffer diagonals = make_integers<int32_t>(in, batch, 14, false);
  const Buffer table = make_integers<int32_t>(in, at_least_none(sizes[5]) / 4, 16, false);
  const Buffer indptr = make_integers<int32_t>(in, batch + 1, 5, true);
  int32_t index_count = 0;
  std::memcpy(&index_count, indptr.bytes() + batch * 4, sizeof index_count);
  const Buffer indices = make_integers<int32_t>(in, std::max(index_count, 0), 16, false);
  const Buffer bias = make_input(at_least_none(sizes[6]), seed + 3);
  const Buffer slopes = make_input(at_least_none(sizes[7]), seed + 4);
  const Buffer sinks = make_input(at_least_none(sizes[8]), seed + 5);

  Pointers pointers(in);
  pointers.set(&given.q.data, q, true);
  pointers.set(&given.k.data, k, true);
  pointers.set(&given.v.data, v, true);
  pointers.set(&given.o.data, o.buffer, true);
  pointers.set(&given.lse.data, lse.buffer, in[kContents] % 4 != 0);
  pointers.set(&given.cu_seqlens_q, cu_q, ragged_q);
  pointers.set(&given.cu_seqlens_kv, cu_kv, ragged_kv);
  pointers.set(&given.seqused_q, used_q, has(FLASHATTN_FEATURE_SEQUSED_Q));
  pointers.set(&given.seqused_kv, used_kv, has(FLASHATTN_FEATURE_SEQUSED_KV));
  pointers.set(&given.diag_offsets, diagonals, has(FLASHATTN_FEATURE_DIAG_OFFSETS));
  pointers.set(&given.page_table, table, problem.layout_kv == FLASHATTN_LAYOUT_PAGED);
  pointers.set(&given.page_indptr, indptr, problem.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR);
  pointers.set(&given.page_indices, indices, problem.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR);
  pointers.set(&given.bias.data, bias, problem.dtype_bias != 0, problem.dtype_bias == FLASHATTN_DTYPE_U8);
  pointers.set(&given.alibi_slopes.data, slopes, has(FLASHATTN_FEATURE_ALIBI));
  pointers.set(&given.sinks.data, sinks, has(FLASHATTN_FEATURE_SINKS));
  pointers.set(&given.descale_k.data, sinks, false);
  for (flashattn_tensor_t *gradient : {&given.grad_o, &given.grad_q, &given.grad_k, &given.grad_v}) {
    gradient->data = nullptr;
  }
  given.grad_bias.data = nullptr;
  given.grad_sinks = nullptr;
  given.descale_q.data = given.descale_v.data = nullptr;

  const Sized<flashattn_call_t> call_bytes(given);
  const flashattn_status_t status =
      in[kEntry] % kEntryCount == kForward
          ? run_planned(plan, info, call_bytes.get())
          : flashattn_attention(handle(), problem_bytes.get(), call_bytes.get(), nullptr);
  check_status(status);
  if (status != FLASHATTN_STATUS_OK) {
    o.check_untouched();
    lse.check_untouched();
    return;
  }
  o.check_gaps(outer_q, rows_q, problem.num_heads_q, problem.head_dim_v, call.o);
  if (given.lse.data == nullptr) {
    lse.check_untouched();
  } else {
    lse.check_gaps(outer_q, rows_q, problem.num_heads_q, 1, call.lse);
  }
}

// Strides of sizes that were overwritten: right, or refused.
void fuzz_contiguous(const Input &in) {
  flashattn_problem_t wanted = decode_problem(in);
  flashattn_call_t given = decode_call(in, wanted);
  overwrite(in, false, &wanted, sizeof wanted);
  overwrite(in, true, &given, sizeof given);
  const Sized<flashattn_problem_t> problem(wanted);
  const Sized<flashattn_call_t> call(given);
  check_status(flashattn_call_contiguous(problem.get(), call.get()));
}

void fuzz_combine(const Input &in) {
  flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
  args.num_parts = 1 + in.upto(kSplits, 5);
  args.batch = in.upto(kMaxBatch, 3);
  args.seqlen_q = in.upto(kMaxSeqlenQ, 9);
  args.num_heads = 1 + in.upto(kHeadsKv, 4);
  args.head_dim_v = 1 + in.upto(kHeadDimV, 70);
  args.dtype_partial = in.pick(kDtypeQ, kFloatDtypes);
  args.dtype_o = in.pick(kDtypeO, kFloatDtypes);
  const auto style = static_cast<StrideStyle>(in[kStrides] % kStrideStyleCount);
  set_strides(&args.o_partial, args.seqlen_q, args.num_heads, args.head_dim_v, style, false);
  set_strides(&args.lse_partial, args.seqlen_q, args.num_heads, 1, style, false);
  set_strides(&args.o, args.seqlen_q, args.num_heads, args.head_dim_v, style, true);
  set_strides(&args.lse, args.seqlen_q, args.num_heads, 1, style, true);
  args.o_partial_stride_part = args.batch * args.o_partial.stride_batch;
  args.lse_partial_stride_part = args.batch * args.lse_partial.stride_batch;
  overwrite(in, true, &args, sizeof args);

  flashattn_combine_args_t seen{};
  std::memcpy(&seen, &args, std::clamp<size_t>(args.struct_size, 4, sizeof seen));
  const auto bytes = [&](const flashattn_tensor_t &t, int64_t row, int32_t dtype, int64_t parts,
                         int64_t stride_part) {
    return array_bytes({{parts, stride_part},
                        {seen.batch, t.stride_batch},
                        {seen.seqlen_q, t.stride_seq},
                        {seen.num_heads, t.stride_head}},
                       row, std::max<int64_t>(dtype_size(dtype), 1));
  };
  const int64_t sizes[] = {
      bytes(seen.o_partial, seen.head_dim_v, seen.dtype_partial, seen.num_parts, seen.o_partial_stride_part),
      bytes(seen.lse_partial, 1, FLASHATTN_DTYPE_F32, seen.num_parts, seen.lse_partial_stride_part),
      bytes(seen.o, seen.head_dim_v, seen.dtype_o, 1, 0), bytes(seen.lse, 1, FLASHATTN_DTYPE_F32, 1, 0)};
  if (std::find(std::begin(sizes), std::end(sizes), kTooLarge) != std::end(sizes)) return;
  // Broadcast parts make much work of little memory.
  const __int128 work = static_cast<__int128>(seen.num_parts) * seen.batch * seen.seqlen_q * seen.num_heads *
                        std::max(seen.head_dim_v, 1);
  if (work > kMaxWork) return;
  const Buffer o_partial = make_input(std::max<int64_t>(sizes[0], 0), in[kContents]);
  const Buffer lse_partial = make_input(std::max<int64_t>(sizes[1], 0), in[kContents] + 1U);
  Output o{Buffer(std::max<int64_t>(sizes[2], 0)), std::max<int64_t>(dtype_size(seen.dtype_o), 1)};
  Output lse{Buffer(std::max<int64_t>(sizes[3], 0)), 4};
  Pointers pointers(in);
  pointers.set(&args.o_partial.data, o_partial, true);
  pointers.set(&args.lse_partial.data, lse_partial, true);
  pointers.set(&args.o.data, o.buffer, true);
  pointers.set(&args.lse.data, lse.buffer, in[kContents] % 4 != 0);
  const Sized<flashattn_combine_args_t> arg_bytes(args);
  const flashattn_status_t status = flashattn_combine(handle(), arg_bytes.get(), nullptr);
  check_status(status);
  if (status != FLASHATTN_STATUS_OK) {
    o.check_untouched();
    lse.check_untouched();
    return;
  }
  o.check_gaps(seen.batch, seen.seqlen_q, seen.num_heads, seen.head_dim_v, seen.o);
  if (args.lse.data != nullptr) lse.check_gaps(seen.batch, seen.seqlen_q, seen.num_heads, 1, seen.lse);
}

}  // namespace
}  // namespace flashattn::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace flashattn::fuzz;
  const Input in(data, size);
  switch (in[kEntry] % kEntryCount) {
    case kCombine:
      fuzz_combine(in);
      break;
    case kContiguousAttention:
      fuzz_contiguous(in);
      [[fallthrough]];
    default:
      fuzz_call(in);
  }
  return 0;
}
