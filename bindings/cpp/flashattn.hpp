// SPDX-License-Identifier: Apache-2.0
// libflashattn for C++17: flashattn.h with owners, typed tensors and errors. Header only; nothing but the C header and
// the standard library beneath. flashattn.h stays the manual: what a field means is said there, and each setter here
// has the name of the field it sets.
//
//   std::vector<float> q(..), k(..), v(..), o(..);
//   flashattn::Call call;
//   call.q(flashattn::Tensor(q, {1, 128, 4, 64})).k(..).v(..).o(..);
//   flashattn::Handle handle(flashattn::Options().backend(flashattn::Backend::kCpu));
//   handle.attention(flashattn::Problem(call).causal(), call);
//
// Errors    Two forms of everything that can fail. Plain names throw Error; names with try_ return Expected, which holds
//           the value or a Failure. Without exceptions (-fno-exceptions) only the second form is there.
// Memory    Tensors are views: nothing is copied, and the caller keeps the memory alive until the work is done.
// Checks    Tensors built from spans are checked against the span's length, and all tensors of a call against each
//           other and the problem, before the library is called. Tensors built from pointers are taken as they are.
// Threads   Handle and Plan may be used from any number of threads; Call, Problem and Workspace from one at a time.
#ifndef FLASHATTN_HPP_
#define FLASHATTN_HPP_

#include <flashattn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace flashattn {

// ----------------------------------------------------------------------------------------------------- values --

enum class Backend : int32_t {
  kAuto = FLASHATTN_BACKEND_AUTO,
  kCpu = FLASHATTN_BACKEND_CPU,
  kCuda = FLASHATTN_BACKEND_CUDA,
  kHip = FLASHATTN_BACKEND_HIP,
};

enum class DType : int32_t {
  kNone = 0,
  kF32 = FLASHATTN_DTYPE_F32,
  kF16 = FLASHATTN_DTYPE_F16,
  kBf16 = FLASHATTN_DTYPE_BF16,
  kU8 = FLASHATTN_DTYPE_U8,
};

enum class Precision : int32_t {
  kIeee = FLASHATTN_PRECISION_IEEE,
  kTf32 = FLASHATTN_PRECISION_TF32,
  kTf32x3 = FLASHATTN_PRECISION_TF32X3,
};

// Storage for 16-bit elements; no arithmetic.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// The element type of T. Specialise it for a 16-bit type of your own:
//   template <> struct flashattn::DTypeOf<my_half> { static constexpr flashattn::DType value = flashattn::DType::kF16; };
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBf16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

// ----------------------------------------------------------------------------------------------------- errors --

// Why something failed: a FLASHATTN_STATUS_*, the driver's own code or 0, and a text that names field, value and rule.
struct Failure {
  flashattn_status_t status;
  int32_t driver_error;
  std::string text;
};

#if defined(__cpp_exceptions)
class Error : public std::runtime_error {
 public:
  explicit Error(const Failure &failure)
      : std::runtime_error(failure.text), status_(failure.status), driver_error_(failure.driver_error) {}
  flashattn_status_t status() const noexcept { return status_; }
  int32_t driver_error() const noexcept { return driver_error_; }

 private:
  flashattn_status_t status_;
  int32_t driver_error_;
};
#endif

// A value or a Failure.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}
  Expected(Failure failure) : failure_(std::move(failure)) {}
  explicit operator bool() const noexcept { return value_.has_value(); }
  // Only with a value.
  T &operator*() &noexcept { return *value_; }
  const T &operator*() const &noexcept { return *value_; }
  T &&operator*() &&noexcept { return std::move(*value_); }
  T *operator->() noexcept { return &*value_; }
  const T *operator->() const noexcept { return &*value_; }
  // Only without.
  const Failure &error() const noexcept { return *failure_; }
#if defined(__cpp_exceptions)
  // The value, or throws the failure as Error.
  T value() && {
    if (!value_) throw Error(*failure_);
    return std::move(*value_);
  }
#endif

 private:
  std::optional<T> value_;
  std::optional<Failure> failure_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Failure failure) : failure_(std::move(failure)) {}
  explicit operator bool() const noexcept { return !failure_.has_value(); }
  const Failure &error() const noexcept { return *failure_; }
#if defined(__cpp_exceptions)
  void value() && {
    if (failure_) throw Error(*failure_);
  }
#endif

 private:
  std::optional<Failure> failure_;
};

namespace detail {

// What the calling thread's last call left behind.
inline Failure last_failure(flashattn_status_t status) {
  return {status, flashattn_last_driver_error(), flashattn_last_error()};
}

inline Expected<void> checked(flashattn_status_t status) {
  if (status == FLASHATTN_STATUS_OK) return {};
  return last_failure(status);
}

struct AlignedDelete {
  size_t alignment = 1;
  void operator()(void *memory) const noexcept { ::operator delete(memory, std::align_val_t(alignment)); }
};

}  // namespace detail

// ---------------------------------------------------------------------------------------------------- tensors --

// A pointer and a length; made from anything contiguous that has data() and size(): std::vector, std::array, std::span.
template <class T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T *data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}
  template <
      class C,
      class = std::enable_if_t<
          !std::is_same_v<std::remove_cv_t<std::remove_reference_t<C>>, Span> &&
          std::is_convertible_v<std::remove_pointer_t<decltype(std::declval<C &>().data())> (*)[], T (*)[]> &&
          std::is_convertible_v<decltype(std::declval<C &>().size()), size_t>>>
  constexpr Span(C &&container) : data_(container.data()), size_(container.size()) {}
  constexpr T *data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return size_; }

 private:
  T *data_ = nullptr;
  size_t size_ = 0;
};
template <class T, size_t N>
Span(T (&)[N]) -> Span<T>;
template <class C>
Span(C &&) -> Span<std::remove_pointer_t<decltype(std::declval<C &>().data())>>;

// Extents of a tensor in the library's order. Ragged: batch 1, seqlen the rows of the whole buffer. Paged: batch the
// pages of the pool, seqlen the slots of a page.
struct Shape {
  int64_t batch;
  int64_t seqlen;
  int64_t heads;
  int64_t dim;
};

// In elements; the last dimension is contiguous.
struct Strides {
  int64_t batch;
  int64_t seqlen;
  int64_t heads;
};

// Rows of T (const T for inputs) that somebody else owns.
template <class T>
class Tensor {
 public:
  using Element = std::remove_const_t<T>;
  static constexpr DType kDType = DTypeOf<Element>::value;

  // Contiguous in the order of Shape.
  constexpr Tensor(Span<T> data, Shape shape)
      : Tensor(data, shape, {shape.seqlen * shape.heads * shape.dim, shape.heads * shape.dim, shape.dim}) {}
  constexpr Tensor(Span<T> data, Shape shape, Strides strides)
      : data_(data.data()), size_(data.size()), shape_(shape), strides_(strides) {}
  // Taken as it is: device memory, or memory whose length is not known here.
  static constexpr Tensor pointer(T *data, Shape shape, Strides strides) {
    return Tensor({data, std::numeric_limits<size_t>::max()}, shape, strides);
  }
  static constexpr Tensor pointer(T *data, Shape shape) {
    return Tensor({data, std::numeric_limits<size_t>::max()}, shape);
  }

  constexpr T *data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return size_; }
  constexpr const Shape &shape() const noexcept { return shape_; }
  constexpr const Strides &strides() const noexcept { return strides_; }

 private:
  T *data_;
  size_t size_;
  Shape shape_;
  Strides strides_;
};
template <class C>
Tensor(C &&, Shape) -> Tensor<std::remove_pointer_t<decltype(Span(std::declval<C &>()).data())>>;
template <class C>
Tensor(C &&, Shape, Strides) -> Tensor<std::remove_pointer_t<decltype(Span(std::declval<C &>()).data())>>;

// Strides of a bias or mask, in elements; 0 broadcasts.
struct BiasStrides {
  int64_t batch;
  int64_t heads;
  int64_t q;
  int64_t kv;
};

// -------------------------------------------------------------------------------------------------------- call --

// The pointers, strides and actual sizes of one call. Sizes follow from the tensors: Q gives the batch, and ragged
// lengths do where there are any.
class Call {
 public:
  Call() = default;

  template <class T>
  Call &q(const Tensor<T> &t) {
    set(&c_.q, &q_, t);
    return *this;
  }
  template <class T>
  Call &k(const Tensor<T> &t) {
    set(&c_.k, &k_, t);
    return *this;
  }
  template <class T>
  Call &v(const Tensor<T> &t) {
    set(&c_.v, &v_, t);
    return *this;
  }
  template <class T>
  Call &o(const Tensor<T> &t) {
    static_assert(!std::is_const_v<T>, "O is written");
    set(&c_.o, &o_, t);
    return *this;
  }
  // [batch, seqlen_q, heads]: the shape's dim is 1. Contiguous in another order: lse_contiguous.
  Call &lse(const Tensor<float> &t) {
    set(&c_.lse, &lse_, t);
    return *this;
  }
  // Contiguous as [batch, heads, seqlen_q]. After q().
  Call &lse_contiguous(Span<float> data) {
    const Shape shape{q_.shape.batch, q_.shape.seqlen, q_.shape.heads, 1};
    return lse({data, shape, {shape.heads * shape.seqlen, 1, shape.seqlen}});
  }

  Call &diag_offset(int32_t offset) {
    c_.diag_offset = offset;
    return *this;
  }
  // Ragged: [batch + 1] starts of the sequences, int32_t or int64_t.
  template <class C>
  Call &cu_seqlens_q(const C &starts) {
    c_.cu_seqlens_q = starts_of(starts, &starts_q_);
    return *this;
  }
  template <class C>
  Call &cu_seqlens_kv(const C &starts) {
    c_.cu_seqlens_kv = starts_of(starts, &starts_kv_);
    return *this;
  }
  // Bounds on the lengths of ragged and paged sequences; 0: what the problem has.
  Call &max_seqlens(int32_t seqlen_q, int32_t seqlen_kv) {
    bound_q_ = seqlen_q;
    bound_kv_ = seqlen_kv;
    derive();
    return *this;
  }
  Call &seqused_q(Span<const int32_t> lengths) {
    c_.seqused_q = lengths.data();
    seqused_q_size_ = lengths.size();
    return *this;
  }
  Call &seqused_kv(Span<const int32_t> lengths) {
    c_.seqused_kv = lengths.data();
    seqused_kv_size_ = lengths.size();
    return *this;
  }
  Call &diag_offsets(Span<const int32_t> offsets) {
    c_.diag_offsets = offsets.data();
    diag_offsets_size_ = offsets.size();
    return *this;
  }
  // Paged: sequence b's pages are entries b * stride .. b * stride + width.
  Call &page_table(Span<const int32_t> entries, int32_t width, int64_t stride) {
    c_.page_table = entries.data();
    c_.page_table_width = width;
    c_.page_table_stride = stride;
    page_table_size_ = entries.size();
    derive();
    return *this;
  }
  // Paged: sequence b's pages are indices[indptr[b]] .. indices[indptr[b + 1]].
  Call &page_csr(Span<const int32_t> indptr, Span<const int32_t> indices) {
    c_.page_indptr = indptr.data();
    c_.page_indices = indices.data();
    page_indptr_size_ = indptr.size();
    derive();
    return *this;
  }

  // Added to the scores (f32, f16, bf16), or a boolean mask (uint8_t, non-zero is visible).
  template <class C>
  Call &bias(const C &values, BiasStrides strides) {
    const Span span(values);
    using Element = std::remove_cv_t<std::remove_pointer_t<decltype(span.data())>>;
    c_.bias = {const_cast<Element *>(span.data()), strides.batch, strides.heads, strides.q, strides.kv};
    bias_dtype_ = DTypeOf<Element>::value;
    bias_size_ = span.size();
    return *this;
  }
  // One per query head; stride_batch 0: the same for every sequence.
  Call &alibi_slopes(Span<const float> slopes, int64_t stride_batch = 0, int64_t stride_head = 1) {
    c_.alibi_slopes = {slopes.data(), stride_batch, stride_head};
    alibi_slopes_size_ = slopes.size();
    return *this;
  }
  Call &sinks(Span<const float> sinks, int64_t stride_batch = 0, int64_t stride_head = 1) {
    c_.sinks = {sinks.data(), stride_batch, stride_head};
    sinks_size_ = sinks.size();
    return *this;
  }

  // The C struct, to read, or to set what has no setter here. What is set through it is not checked here.
  flashattn_call_t &raw() noexcept { return c_; }
  const flashattn_call_t &raw() const noexcept { return c_; }

  // The first disagreement between spans, tensors and problem.
  Expected<void> check(const flashattn_problem_t &p) const {
    if (agrees(p)) return {};
    return disagreement(p);
  }
  bool agrees(const flashattn_problem_t &p) const noexcept {
    return each_rule(p, [](bool holds, const char *, const auto &) { return holds; });
  }

 private:
  friend class Problem;

  // What a tensor was when it was set: the C struct holds neither type nor extents.
  struct Seen {
    DType dtype = DType::kNone;
    Shape shape{};
    size_t size = 0;     // elements there
    int64_t needed = 0;  // from the first to the last
  };
  struct Starts {
    size_t size = 0;
    bool is_int64 = false;
  };

  template <class T>
  void set(flashattn_tensor_t *to, Seen *seen, const Tensor<T> &t) {
    const Shape &s = t.shape();
    const Strides &d = t.strides();
    *to = {const_cast<std::remove_const_t<T> *>(t.data()), d.batch, d.seqlen, d.heads};
    const bool empty = s.batch <= 0 || s.seqlen <= 0 || s.heads <= 0;
    const int64_t needed =
        empty ? 0 : (s.batch - 1) * d.batch + (s.seqlen - 1) * d.seqlen + (s.heads - 1) * d.heads + s.dim;
    *seen = {Tensor<T>::kDType, s, t.size(), needed};
    derive();
  }

  template <class C>
  const void *starts_of(const C &starts, Starts *to) {
    const Span span(starts);
    using Element = std::remove_cv_t<std::remove_pointer_t<decltype(span.data())>>;
    static_assert(std::is_same_v<Element, int32_t> || std::is_same_v<Element, int64_t>, "int32_t or int64_t");
    *to = {span.size(), std::is_same_v<Element, int64_t>};
    cu_size_ = span.size();
    derive();
    return span.data();
  }

  // Sizes of the C struct from what is known so far.
  void derive() noexcept {
    const bool ragged_q = starts_q_.size != 0;
    const bool ragged_kv = starts_kv_.size != 0;
    c_.batch = static_cast<int32_t>(cu_size_ != 0 ? static_cast<int64_t>(cu_size_) - 1 : q_.shape.batch);
    c_.seqlen_q = ragged_q ? bound_q_ : static_cast<int32_t>(q_.shape.seqlen);
    c_.total_q = ragged_q ? q_.shape.seqlen : 0;
    c_.seqlen_kv = ragged_kv || paged() ? bound_kv_ : static_cast<int32_t>(k_.shape.seqlen);
    c_.total_kv = ragged_kv ? k_.shape.seqlen : 0;
    c_.num_pages = paged() ? k_.shape.batch : 0;
  }

  Failure disagreement(const flashattn_problem_t &p) const {
    std::string text;
    each_rule(p, [&text](bool holds, const char *field, const auto &explain) {
      if (!holds) text = field + explain();
      return holds;
    });
    return {FLASHATTN_STATUS_INVALID_ARGUMENT, 0, std::move(text)};
  }

  // Calls rule(holds, field, explain) for every rule until one does not hold; explain() gives the text after the
  // field's name, and is called only then.
  template <class Rule>
  bool each_rule(const flashattn_problem_t &p, const Rule &rule) const {
    const auto is_not = [](const char *what, int64_t is, const char *of, int64_t must) {
      return std::string(" has ") + what + ' ' + std::to_string(is) + "; " + of + " is " +
             std::to_string(must);
    };
    const int32_t dtype_o = p.dtype_o != 0 ? p.dtype_o : p.dtype_q;
    const int64_t dim_v = p.head_dim_v != 0 ? p.head_dim_v : p.head_dim;
    const int64_t batch = c_.batch;
    const auto tensor = [&](const char *name, const Seen &t, const char *dtype_name, int32_t dtype,
                            int64_t heads, const char *heads_name, int64_t dim, const char *dim_name) {
      if (t.dtype == DType::kNone) return true;  // not set, or through raw()
      const auto is = static_cast<int32_t>(t.dtype);
      return rule(t.needed <= 0 || static_cast<size_t>(t.needed) <= t.size, name,
                  [&] {
                    return is_not("elements", static_cast<int64_t>(t.size), "what shape and strides need",
                                  t.needed);
                  }) &&
             rule(is == dtype, name, [&] { return is_not("dtype", is, dtype_name, dtype); }) &&
             rule(t.shape.heads == heads, name,
                  [&] { return is_not("heads", t.shape.heads, heads_name, heads); }) &&
             rule(t.shape.dim == dim, name, [&] { return is_not("dim", t.shape.dim, dim_name, dim); });
    };
    const auto like = [&](const char *name, const Seen &t, const Seen &other, const char *batch_name,
                          const char *seqlen_name) {
      return t.dtype == DType::kNone || other.dtype == DType::kNone ||
             (rule(t.shape.batch == other.shape.batch, name,
                   [&] { return is_not("batch", t.shape.batch, batch_name, other.shape.batch); }) &&
              rule(t.shape.seqlen == other.shape.seqlen, name,
                   [&] { return is_not("seqlen", t.shape.seqlen, seqlen_name, other.shape.seqlen); }));
    };
    const auto list = [&](const char *name, const void *data, size_t size, int64_t needed) {
      return data == nullptr || size == kUnknown || batch <= 0 ||
             rule(needed <= static_cast<int64_t>(size), name, [&] {
               return is_not("elements", static_cast<int64_t>(size), "what the batch and its strides need",
                             needed);
             });
    };
    const auto per_head = [&](const char *name, const flashattn_per_head_t &values, size_t size) {
      return list(name, values.data, size,
                  (batch - 1) * values.stride_batch + (p.num_heads_q - 1) * values.stride_head + 1);
    };
    const bool int64_starts = (p.flags & FLASHATTN_FLAG_CU_SEQLENS_INT64) != 0;
    const auto not_said = [] { return std::string(" is int64 exactly when the problem's flags say so"); };
    const flashattn_bias_t &b = c_.bias;
    const auto bias_dtype = static_cast<int32_t>(bias_dtype_);
    return tensor("q", q_, "dtype_q", p.dtype_q, p.num_heads_q, "num_heads_q", p.head_dim, "head_dim") &&
           tensor("k", k_, "dtype_kv", p.dtype_kv, p.num_heads_kv, "num_heads_kv", p.head_dim, "head_dim") &&
           tensor("v", v_, "dtype_kv", p.dtype_kv, p.num_heads_kv, "num_heads_kv", dim_v, "head_dim_v") &&
           tensor("o", o_, "dtype_o", dtype_o, p.num_heads_q, "num_heads_q", dim_v, "head_dim_v") &&
           tensor("lse", lse_, "f32", FLASHATTN_DTYPE_F32, p.num_heads_q, "num_heads_q", 1, "that of LSE") &&
           like("v", v_, k_, "that of k", "that of k") && like("o", o_, q_, "that of q", "that of q") &&
           like("lse", lse_, q_, "that of q", "that of q") &&
           (k_.dtype == DType::kNone || starts_kv_.size != 0 || paged() ||
            rule(k_.shape.batch == batch, "k",
                 [&] { return is_not("batch", k_.shape.batch, "that of the call", batch); })) &&
           (k_.dtype == DType::kNone || !paged() ||
            rule(k_.shape.seqlen == p.page_size, "k",
                 [&] { return is_not("seqlen", k_.shape.seqlen, "page_size", p.page_size); })) &&
           (starts_q_.size == 0 || starts_kv_.size == 0 ||
            rule(starts_q_.size == starts_kv_.size, "cu_seqlens_kv",
                 [&] {
                   return is_not("elements", static_cast<int64_t>(starts_kv_.size), "that of cu_seqlens_q",
                                 static_cast<int64_t>(starts_q_.size));
                 })) &&
           (starts_q_.size == 0 || starts_kv_.size == 0 ||
            rule(starts_q_.is_int64 == starts_kv_.is_int64, "cu_seqlens_kv",
                 [&] {
                   return is_not("bits", starts_kv_.is_int64 ? 64 : 32, "that of cu_seqlens_q",
                                 starts_q_.is_int64 ? 64 : 32);
                 })) &&
           (starts_q_.size == 0 || rule(starts_q_.is_int64 == int64_starts, "cu_seqlens_q", not_said)) &&
           (starts_kv_.size == 0 || rule(starts_kv_.is_int64 == int64_starts, "cu_seqlens_kv", not_said)) &&
           list("seqused_q", c_.seqused_q, seqused_q_size_, batch) &&
           list("seqused_kv", c_.seqused_kv, seqused_kv_size_, batch) &&
           list("diag_offsets", c_.diag_offsets, diag_offsets_size_, batch) &&
           list("page_table", c_.page_table, page_table_size_,
                (batch - 1) * c_.page_table_stride + c_.page_table_width) &&
           list("page_indptr", c_.page_indptr, page_indptr_size_, batch + 1) &&
           (bias_dtype_ == DType::kNone ||
            rule(bias_dtype == p.dtype_bias, "bias",
                 [&] { return is_not("dtype", bias_dtype, "dtype_bias", p.dtype_bias); })) &&
           list("bias", b.data, bias_size_,
                (batch - 1) * b.stride_batch + (p.num_heads_q - 1) * b.stride_head +
                    (c_.seqlen_q - 1) * b.stride_q + (c_.seqlen_kv - 1) * b.stride_kv + 1) &&
           per_head("alibi_slopes", c_.alibi_slopes, alibi_slopes_size_) &&
           per_head("sinks", c_.sinks, sinks_size_);
  }

  bool paged() const noexcept { return c_.page_table != nullptr || c_.page_indptr != nullptr; }

  static constexpr size_t kUnknown = std::numeric_limits<size_t>::max();
  flashattn_call_t c_ = FLASHATTN_CALL_INIT;
  Seen q_, k_, v_, o_, lse_;
  Starts starts_q_, starts_kv_;
  size_t cu_size_ = 0;
  int32_t bound_q_ = 0, bound_kv_ = 0;
  DType bias_dtype_ = DType::kNone;
  // Elements behind the pointers that are set; those set through raw() are not known.
  size_t bias_size_ = kUnknown, alibi_slopes_size_ = kUnknown, sinks_size_ = kUnknown;
  size_t seqused_q_size_ = kUnknown, seqused_kv_size_ = kUnknown, diag_offsets_size_ = kUnknown;
  size_t page_table_size_ = kUnknown, page_indptr_size_ = kUnknown;
};

// ----------------------------------------------------------------------------------------------------- problem --

// A class of calls. Made from a call it takes from its tensors the dtypes, layouts, heads and dims, and as maxima its
// sizes; the setters change the rest, and raise the maxima where one plan is to serve larger calls.
class Problem {
 public:
  Problem() = default;
  explicit Problem(const Call &call) {
    const flashattn_call_t &c = call.c_;
    const bool paged = call.paged();
    p_.dtype_q = static_cast<int32_t>(call.q_.dtype);
    p_.dtype_kv = static_cast<int32_t>(call.k_.dtype);
    p_.dtype_o = static_cast<int32_t>(call.o_.dtype);
    p_.dtype_bias = static_cast<int32_t>(call.bias_dtype_);
    p_.layout_q = call.starts_q_.size != 0 ? FLASHATTN_LAYOUT_RAGGED : FLASHATTN_LAYOUT_DENSE;
    p_.layout_kv = c.page_table != nullptr     ? FLASHATTN_LAYOUT_PAGED
                   : c.page_indptr != nullptr  ? FLASHATTN_LAYOUT_PAGED_CSR
                   : call.starts_kv_.size != 0 ? FLASHATTN_LAYOUT_RAGGED
                                               : FLASHATTN_LAYOUT_DENSE;
    p_.num_heads_q = static_cast<int32_t>(call.q_.shape.heads);
    p_.num_heads_kv = static_cast<int32_t>(call.k_.shape.heads);
    p_.head_dim = static_cast<int32_t>(call.q_.shape.dim);
    p_.head_dim_v = static_cast<int32_t>(call.v_.shape.dim);
    p_.max_batch = c.batch;
    p_.max_seqlen_q = c.seqlen_q != 0 ? c.seqlen_q : narrow(c.total_q);
    p_.max_total_q = c.total_q;
    p_.max_total_kv = c.total_kv;
    p_.max_pages = c.num_pages;
    p_.page_size = paged ? narrow(call.k_.shape.seqlen) : 0;
    const int64_t pages = c.page_table != nullptr ? c.page_table_width : c.num_pages;
    p_.max_seqlen_kv = c.seqlen_kv != 0 ? c.seqlen_kv : narrow(paged ? pages * p_.page_size : c.total_kv);
    const auto feature = [this](const void *pointer, uint64_t bit) {
      p_.features |= pointer != nullptr ? bit : 0;
    };
    feature(c.alibi_slopes.data, FLASHATTN_FEATURE_ALIBI);
    feature(c.sinks.data, FLASHATTN_FEATURE_SINKS);
    feature(c.seqused_q, FLASHATTN_FEATURE_SEQUSED_Q);
    feature(c.seqused_kv, FLASHATTN_FEATURE_SEQUSED_KV);
    feature(c.diag_offsets, FLASHATTN_FEATURE_DIAG_OFFSETS);
    if (call.starts_q_.is_int64 || call.starts_kv_.is_int64) p_.flags |= FLASHATTN_FLAG_CU_SEQLENS_INT64;
  }

  // Bottom-right aligned; for top-left set the call's diag_offset to seqlen_q - seqlen_kv.
  Problem &causal(bool on = true) {
    p_.causal = on ? 1 : 0;
    return *this;
  }
  // Both ends included; -1: unbounded.
  Problem &window(int32_t left, int32_t right) {
    p_.features |= FLASHATTN_FEATURE_WINDOW;
    p_.window_left = left;
    p_.window_right = right;
    return *this;
  }
  Problem &softmax_scale(float scale) {
    p_.softmax_scale = scale;
    return *this;
  }
  Problem &softcap(float cap) {
    p_.softcap = cap;
    return *this;
  }
  Problem &max_sizes(int32_t batch, int32_t seqlen_q, int32_t seqlen_kv) {
    p_.max_batch = batch;
    p_.max_seqlen_q = seqlen_q;
    p_.max_seqlen_kv = seqlen_kv;
    return *this;
  }
  Problem &max_totals(int64_t total_q, int64_t total_kv) {
    p_.max_total_q = total_q;
    p_.max_total_kv = total_kv;
    return *this;
  }
  Problem &max_pages(int64_t pages) {
    p_.max_pages = pages;
    return *this;
  }
  Problem &num_splits(int32_t splits) {
    p_.num_splits = splits;
    return *this;
  }
  Problem &precision_f32(Precision precision) {
    p_.precision_f32 = static_cast<int32_t>(precision);
    return *this;
  }
  Problem &batch_invariant(bool on = true) { return flag(FLASHATTN_FLAG_BATCH_INVARIANT, on); }
  Problem &require_fast(bool on = true) { return flag(FLASHATTN_FLAG_REQUIRE_FAST, on); }
  // A name of at most 63 bytes; a longer one is refused by the library as it is cut here.
  Problem &kernel(std::string_view name) {
    std::memset(p_.kernel, 0, sizeof p_.kernel);
    std::memcpy(p_.kernel, name.data(), name.size() < sizeof p_.kernel ? name.size() : sizeof p_.kernel);
    return *this;
  }

  flashattn_problem_t &raw() noexcept { return p_; }
  const flashattn_problem_t &raw() const noexcept { return p_; }

 private:
  static int32_t narrow(int64_t value) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(value < kMost ? value : kMost);
  }
  Problem &flag(uint64_t bit, bool on) {
    p_.flags = on ? p_.flags | bit : p_.flags & ~bit;
    return *this;
  }

  flashattn_problem_t p_ = FLASHATTN_PROBLEM_INIT;
};

// ------------------------------------------------------------------------------------------------------ owners --

class Options {
 public:
  Options &backend(Backend backend) {
    o_.backend = static_cast<int32_t>(backend);
    return *this;
  }
  Options &device(int32_t ordinal) {
    o_.device = ordinal;
    return *this;
  }
  // CPU: threads per call, the caller's included; 0: as many as processors.
  Options &num_threads(int32_t threads) {
    o_.num_threads = threads;
    return *this;
  }
  // Check pointers, lengths and page indices on the device too.
  Options &validate(bool on = true) {
    o_.flags = on ? o_.flags | FLASHATTN_OPTION_VALIDATE : o_.flags & ~FLASHATTN_OPTION_VALIDATE;
    return *this;
  }
  // Callbacks, allocators and driver contexts are set here.
  flashattn_options_t &raw() noexcept { return o_; }
  const flashattn_options_t &raw() const noexcept { return o_; }

 private:
  flashattn_options_t o_ = FLASHATTN_OPTIONS_INIT;
};

class Plan;

// Memory that a plan's calls work in, one running call at a time. Host memory; for a GPU give forward() your own.
class Workspace {
 public:
  Workspace() = default;
  void *data() const noexcept { return memory_.get(); }
  size_t size() const noexcept { return size_; }

 private:
  friend class Plan;
  std::unique_ptr<void, detail::AlignedDelete> memory_;
  size_t size_ = 0;
};

// An immutable dispatch decision. Movable, and destroyed in any order with its handle.
class Plan {
 public:
  // Infallible parts.
  flashattn_plan_info_t info() const {
    flashattn_plan_info_t info{};
    info.struct_size = sizeof info;
    flashattn_plan_info(plan_.get(), &info);
    return info;
  }
  // "kernel: reason" for every more specific kernel that was not chosen.
  std::vector<std::string> reasons() const {
    std::vector<std::string> all;
    const char *text = nullptr;
    for (int32_t i = 0;
         flashattn_plan_reason(plan_.get(), i, &text) == FLASHATTN_STATUS_OK && i < info().reason_count;
         ++i) {
      all.emplace_back(text);
    }
    return all;
  }
  const flashattn_plan_t *get() const noexcept { return plan_.get(); }

  // Host memory of the size and alignment that info() says, ready for forward(). For a CPU handle.
  Expected<Workspace> try_workspace() const {
    const flashattn_plan_info_t i = info();
    Workspace workspace;
    if (i.workspace_size != 0) {
      workspace.size_ = i.workspace_size;
      workspace.memory_ = std::unique_ptr<void, detail::AlignedDelete>(
          ::operator new(workspace.size_, std::align_val_t(i.workspace_alignment), std::nothrow),
          detail::AlignedDelete{i.workspace_alignment});
      if (!workspace.memory_) {
        return Failure{FLASHATTN_STATUS_OUT_OF_MEMORY, 0,
                       "workspace_size is " + std::to_string(workspace.size_) + "; host memory ran out"};
      }
    }
    const Expected<void> ready =
        detail::checked(flashattn_workspace_init(plan_.get(), workspace.data(), workspace.size(), nullptr));
    if (!ready) return ready.error();
    return workspace;
  }
  // Enqueues on stream; on the CPU the work is done on return.
  Expected<void> try_forward(const Call &call, void *workspace, size_t workspace_size,
                             void *stream = nullptr) const {
    if (!call.agrees(problem_)) return call.check(problem_);
    return detail::checked(flashattn_forward(plan_.get(), &call.raw(), workspace, workspace_size, stream));
  }
  Expected<void> try_forward(const Call &call, Workspace &workspace) const {
    return try_forward(call, workspace.data(), workspace.size());
  }
#if defined(__cpp_exceptions)
  Workspace workspace() const {
    return try_workspace().value();
  }
  void forward(const Call &call, void *workspace, size_t workspace_size, void *stream = nullptr) const {
    try_forward(call, workspace, workspace_size, stream).value();
  }
  void forward(const Call &call, Workspace &workspace) const {
    try_forward(call, workspace).value();
  }
#endif

 private:
  friend class Handle;
  struct Delete {
    void operator()(flashattn_plan_t *plan) const noexcept { flashattn_plan_destroy(plan); }
  };
  Plan(flashattn_plan_t *plan, const flashattn_problem_t &problem) : plan_(plan), problem_(problem) {}

  std::unique_ptr<flashattn_plan_t, Delete> plan_;
  flashattn_problem_t problem_;
};

// One device of one backend.
class Handle {
 public:
  static Expected<Handle> try_open(const Options &options = {}) {
    flashattn_handle_t *handle = nullptr;
    const flashattn_status_t status = flashattn_create(&options.raw(), &handle);
    if (status != FLASHATTN_STATUS_OK) return detail::last_failure(status);
    return Handle(handle);
  }
#if defined(__cpp_exceptions)
  explicit Handle(const Options &options = {}) : Handle(try_open(options).value()) {}
#endif

  flashattn_handle_info_t info() const {
    flashattn_handle_info_t info{};
    info.struct_size = sizeof info;
    flashattn_handle_info(handle_.get(), &info);
    return info;
  }
  flashattn_handle_t *get() const noexcept {
    return handle_.get();
  }

  Expected<Plan> try_plan(const Problem &problem) const {
    flashattn_plan_t *plan = nullptr;
    const flashattn_status_t status = flashattn_plan_create(handle_.get(), &problem.raw(), &plan);
    if (status != FLASHATTN_STATUS_OK) return detail::last_failure(status);
    return Plan(plan, problem.raw());
  }
  // Plan and workspace from the handle's caches.
  Expected<void> try_attention(const Problem &problem, const Call &call, void *stream = nullptr) const {
    if (!call.agrees(problem.raw())) return call.check(problem.raw());
    return detail::checked(flashattn_attention(handle_.get(), &problem.raw(), &call.raw(), stream));
  }
  // Merges partial results over disjoint sets of keys.
  Expected<void> try_combine(const flashattn_combine_args_t &args, void *stream = nullptr) const {
    return detail::checked(flashattn_combine(handle_.get(), &args, stream));
  }
#if defined(__cpp_exceptions)
  Plan plan(const Problem &problem) const {
    return try_plan(problem).value();
  }
  void attention(const Problem &problem, const Call &call, void *stream = nullptr) const {
    try_attention(problem, call, stream).value();
  }
  void combine(const flashattn_combine_args_t &args, void *stream = nullptr) const {
    try_combine(args, stream).value();
  }
#endif

 private:
  struct Delete {
    void operator()(flashattn_handle_t *handle) const noexcept { flashattn_destroy(handle); }
  };
  explicit Handle(flashattn_handle_t *handle) : handle_(handle) {}

  std::unique_ptr<flashattn_handle_t, Delete> handle_;
};

// -------------------------------------------------------------------------------------------------------- look --

// Every backend this library knows; status and reason say what can be opened.
inline std::vector<flashattn_backend_info_t> backends() {
  std::vector<flashattn_backend_info_t> all(static_cast<size_t>(flashattn_backend_count()));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].struct_size = sizeof all[i];
    flashattn_backend_info(static_cast<int32_t>(i), &all[i]);
  }
  return all;
}

// The devices of one backend that can be opened; none where there are none.
inline std::vector<flashattn_device_info_t> devices(Backend backend = Backend::kAuto) {
  std::vector<flashattn_device_info_t> all;
  for (const flashattn_backend_info_t &b : backends()) {
    if (backend != Backend::kAuto && b.backend != static_cast<int32_t>(backend)) continue;
    for (int32_t ordinal = 0; ordinal < b.device_count; ++ordinal) {
      flashattn_device_info_t info{};
      info.struct_size = sizeof info;
      if (flashattn_device_info(b.backend, ordinal, &info) == FLASHATTN_STATUS_OK) all.push_back(info);
    }
  }
  return all;
}

}  // namespace flashattn

#endif  // FLASHATTN_HPP_
