// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/hip/forward_problems.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "backends/gpu/forward_args.h"
#include "backends/hip/kernels/gfx942/shapes.h"
#include "tests/support/gcn/formats.h"
#include "tests/support/gcn/trap.h"

namespace flashattn {
namespace {

constexpr double kScale = 0.125;
constexpr int kHeads = 2;  // of queries, one of keys
constexpr int kAny = -1;   // a window without that end
// Weights are rounded to bf16 before they meet V, and O to bf16.
constexpr double kTolerance = 0.02;
// The LSE knows no such rounding: one key more or less among a few hundred shows.
constexpr double kLseTolerance = 5e-4;

using Shape = hip::ShapeOf<64>;

struct Spec {
  const char *name;
  const char *entry;
  int dim;
  int queries;
  int keys;
  bool causal;
  int window_left;
  int window_right;
  int page_size;  // 0: dense
  int splits;
  bool f32_output;
  bool sinks;
  bool modified;  // softcap, ALiBi and an additive bias
};

constexpr Spec kSpecs[] = {
    // Three of the block's waves work, one of them in part; a first, a middle and a ragged last step.
    {"causal", "fwd_plain", 64, 70, 300, true, kAny, kAny, 0, 1, false, false, false},
    {"square", "fwd_plain", 64, 100, 100, true, kAny, kAny, 0, 1, true, false, false},
    {"narrow", "fwd_plain", 40, 33, 140, false, kAny, kAny, 0, 1, false, true, false},
    {"window", "fwd_plain", 64, 150, 300, false, 3, 2, 0, 1, false, false, false},
    {"paged", "fwd_plain", 64, 5, 290, true, kAny, kAny, 16, 1, false, false, false},
    {"split", "fwd_plain", 64, 40, 400, false, kAny, kAny, 0, 2, false, false, false},
    {"modified", "fwd_modified", 64, 40, 300, true, kAny, kAny, 0, 1, false, true, true},
    {"modified, narrow, paged, split", "fwd_modified", 24, 9, 270, false, 200, kAny, 32, 2, false, false,
     true},
};

using Bf16s = std::vector<uint16_t>;

template <typename T>
gcn::MemoryRange range(const std::vector<T> &values, bool writable, const char *name) {
  const auto begin = reinterpret_cast<uint64_t>(values.data());
  return {begin, begin + values.size() * sizeof(T), writable, name};
}

// The library takes inputs by pointers to non-const and does not write through them.
template <typename T>
T *input(const std::vector<T> &values) {
  return const_cast<T *>(values.data());
}

}  // namespace

class ForwardProblem {
 public:
  ForwardProblem(const Spec &spec, uint64_t seed)
      : spec_(spec), random_(seed), slots_(spec.page_size > 0 ? pages() * spec.page_size : spec.keys) {
    q_ = draw(spec.queries * kHeads);
    k_ = draw(slots_);
    v_ = draw(slots_);
    for (float &x : slopes_) x = std::uniform_real_distribution<float>(0.01F, 0.05F)(random_);
    for (float &x : sinks_) x = std::uniform_real_distribution<float>(-1.0F, 3.0F)(random_);
    bias_.resize(static_cast<size_t>(kHeads) * spec.queries * spec.keys);
    for (float &x : bias_) x = std::normal_distribution<float>(0.2F, 1.0F)(random_);
    table_.resize(static_cast<size_t>(pages()));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random_);
    o_.resize(static_cast<size_t>(rows()) * spec.dim);
    lse_.resize(static_cast<size_t>(rows()));
    for (int i = 0; i < spec.queries; ++i) {
      for (int h = 0; h < kHeads; ++h) answer_row(i, h);
    }
  }

  const char *name() const { return spec_.name; }
  const char *entry() const { return spec_.entry; }

  std::string judge(const gcn::Program &program, const gcn::MachineOptions &options,
                    gcn::Statistics *statistics) const {
    Outputs outputs(*this);
    const gpu::ForwardArgs args = describe(&outputs);
    gcn::Launch launch;
    launch.grid = {static_cast<uint32_t>(args.blocks), 1, 1};
    launch.block = {Shape::kThreads, 1, 1};
    launch.arguments.resize(sizeof args + sizeof args.blocks);
    std::memcpy(launch.arguments.data(), &args, sizeof args);
    std::memcpy(launch.arguments.data() + sizeof args, &args.blocks, sizeof args.blocks);
    try {
      *statistics = gcn::run(
          program, spec_.entry, launch,
          {range(q_, false, "Q"), range(k_, false, "K"), range(v_, false, "V"),
           range(slopes_, false, "slopes"), range(sinks_, false, "sinks"), range(bias_, false, "bias"),
           range(table_, false, "page table"), range(used_, false, "used lengths"),
           range(outputs.o16, true, "O"), range(outputs.o, true, "O"), range(outputs.lse, true, "LSE")},
          options);
    } catch (const gcn::Trap &trap) {
      return trap.what();
    }
    return compare(outputs);
  }

 private:
  // Of every split, NaN before the run.
  struct Outputs {
    explicit Outputs(const ForwardProblem &problem)
        : o16(problem.o_.size(), 0xffff),
          o(problem.o_.size() * problem.spec_.splits, std::numeric_limits<float>::quiet_NaN()),
          lse(problem.lse_.size() * problem.spec_.splits, std::numeric_limits<float>::quiet_NaN()) {}
    Bf16s o16;
    std::vector<float> o;
    std::vector<float> lse;
  };

  int rows() const { return spec_.queries * kHeads; }
  int pages() const { return spec_.page_size > 0 ? (spec_.keys + spec_.page_size - 1) / spec_.page_size : 0; }

  Bf16s draw(int rows) {
    std::normal_distribution<float> normal(0.3F, 1.0F);
    Bf16s values(static_cast<size_t>(rows) * spec_.dim);
    for (uint16_t &x : values) x = gcn::float_to_bf16(normal(random_));
    return values;
  }

  // Where key j lies in K and V.
  size_t slot(int j) const {
    if (spec_.page_size == 0) return static_cast<size_t>(j);
    return static_cast<size_t>(table_[j / spec_.page_size]) * spec_.page_size + j % spec_.page_size;
  }

  bool visible(int i, int j) const {
    const int position = i + spec_.keys - spec_.queries;
    if (spec_.causal && j > position) return false;
    if (spec_.window_left != kAny && j < position - spec_.window_left) return false;
    return spec_.window_right == kAny || j <= position + spec_.window_right;
  }

  double score(int i, int h, int j) const {
    double product = 0;
    for (int d = 0; d < spec_.dim; ++d) {
      product +=
          static_cast<double>(gcn::bf16_to_float(q_[static_cast<size_t>(i * kHeads + h) * spec_.dim + d])) *
          gcn::bf16_to_float(k_[slot(j) * spec_.dim + d]);
    }
    double score = kScale * product;
    if (!spec_.modified) return score;
    score = kSoftcap * std::tanh(score / kSoftcap);
    score -= static_cast<double>(slopes_[h]) * std::abs(i + spec_.keys - spec_.queries - j);
    return score + bias_[(static_cast<size_t>(h) * spec_.queries + i) * spec_.keys + j];
  }

  void answer_row(int i, int h) {
    std::vector<double> sums(static_cast<size_t>(spec_.dim));
    double total = spec_.sinks ? std::exp(static_cast<double>(sinks_[h])) : 0.0;
    for (int j = 0; j < spec_.keys; ++j) {
      if (!visible(i, j)) continue;
      const double weight = std::exp(score(i, h, j));
      total += weight;
      for (int d = 0; d < spec_.dim; ++d) sums[d] += weight * gcn::bf16_to_float(v_[slot(j) * spec_.dim + d]);
    }
    const size_t row = static_cast<size_t>(i) * kHeads + h;
    lse_[row] = std::log(total);
    for (int d = 0; d < spec_.dim; ++d) o_[row * spec_.dim + d] = total > 0 ? sums[d] / total : 0.0;
  }

  gpu::ForwardArgs describe(Outputs *outputs) const {
    flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
    problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_BF16;
    problem.dtype_o = spec_.f32_output ? FLASHATTN_DTYPE_F32 : FLASHATTN_DTYPE_BF16;
    problem.dtype_bias = spec_.modified ? FLASHATTN_DTYPE_F32 : 0;
    problem.num_heads_q = kHeads;
    problem.num_heads_kv = 1;
    problem.head_dim = problem.head_dim_v = spec_.dim;
    problem.max_batch = 1;
    problem.max_seqlen_q = spec_.queries;
    problem.max_seqlen_kv = slots_;
    problem.softmax_scale = static_cast<float>(kScale);
    problem.softcap = spec_.modified ? static_cast<float>(kSoftcap) : 0.0F;
    problem.causal = spec_.causal ? 1 : 0;
    problem.num_splits = spec_.splits;
    if (spec_.window_left != kAny) problem.features |= FLASHATTN_FEATURE_WINDOW;
    problem.window_left = spec_.window_left;
    problem.window_right = spec_.window_right;
    if (spec_.sinks) problem.features |= FLASHATTN_FEATURE_SINKS;
    if (spec_.modified) problem.features |= FLASHATTN_FEATURE_ALIBI;
    flashattn_call_t call = FLASHATTN_CALL_INIT;
    call.batch = 1;
    call.seqlen_q = spec_.queries;
    call.seqlen_kv = slots_;
    const int64_t dim = spec_.dim;
    call.q = {input(q_), 0, kHeads * dim, dim};
    call.k = {input(k_), slots_ * dim, dim, dim};
    call.v = {input(v_), slots_ * dim, dim, dim};
    call.o = {outputs->o16.data(), 0, kHeads * dim, dim};
    if (spec_.f32_output) call.o.data = outputs->o.data();
    call.lse = {outputs->lse.data(), 0, kHeads, 1};
    call.alibi_slopes = {slopes_.data(), 0, 1};
    call.sinks = {sinks_.data(), 0, 1};
    call.bias = {input(bias_), 0, int64_t{spec_.queries} * spec_.keys, spec_.keys, 1};
    if (spec_.page_size > 0) {
      problem.layout_kv = FLASHATTN_LAYOUT_PAGED;
      problem.page_size = spec_.page_size;
      problem.features |= FLASHATTN_FEATURE_SEQUSED_KV;
      call.seqlen_kv = spec_.keys;
      call.seqused_kv = used_.data();
      call.k.stride_batch = call.v.stride_batch = spec_.page_size * dim;
      call.page_table = table_.data();
      call.page_table_stride = call.page_table_width = call.num_pages = pages();
    }
    gpu::ForwardArgs args = gpu::describe_call(problem, call);
    gpu::cut_call(problem, call, Shape::kTile, gpu::make_split_rule(problem, Shape::kTile, 1), 1 << 20,
                  &args);
    args.partial_o = outputs->o.data();
    args.partial_lse = outputs->lse.data();
    return args;
  }

  // O and LSE of a row, of splits merged.
  double lse_of(const Outputs &outputs, size_t row) const {
    double total = 0;
    for (int s = 0; s < spec_.splits; ++s)
      total += std::exp(static_cast<double>(outputs.lse[s * lse_.size() + row]));
    return std::log(total);
  }
  double o_of(const Outputs &outputs, size_t row, int d) const {
    const size_t at = row * spec_.dim + d;
    if (spec_.splits == 1) return spec_.f32_output ? outputs.o[at] : gcn::bf16_to_float(outputs.o16[at]);
    double merged = 0;
    const double lse = lse_of(outputs, row);
    for (int s = 0; s < spec_.splits; ++s) {
      const double part = outputs.lse[s * lse_.size() + row];
      if (part == -std::numeric_limits<double>::infinity()) continue;
      merged += std::exp(part - lse) * outputs.o[s * o_.size() + at];
    }
    return merged;
  }

  std::string compare(const Outputs &outputs) const {
    for (size_t row = 0; row < lse_.size(); ++row) {
      const double lse = lse_of(outputs, row);
      const bool same = lse == lse_[row] || std::fabs(lse - lse_[row]) <= kLseTolerance;
      if (!same) {
        return "LSE of row " + std::to_string(row) + " is " + std::to_string(lse) + ", not " +
               std::to_string(lse_[row]);
      }
      for (int d = 0; d < spec_.dim; ++d) {
        const double got = o_of(outputs, row, d);
        const double want = o_[row * spec_.dim + d];
        if (!(std::fabs(got - want) <= kTolerance)) {
          return "O of row " + std::to_string(row) + ", column " + std::to_string(d) + " is " +
                 std::to_string(got) + ", not " + std::to_string(want);
        }
      }
    }
    return "";
  }

  static constexpr double kSoftcap = 4.0;

  const Spec &spec_;
  std::mt19937_64 random_;
  int slots_;  // rows of K and V
  Bf16s q_, k_, v_;
  std::vector<float> slopes_ = std::vector<float>(kHeads);
  std::vector<float> sinks_ = std::vector<float>(kHeads);
  std::vector<float> bias_;
  std::vector<int32_t> table_;
  std::vector<int32_t> used_ = {spec_.keys};
  std::vector<double> o_;
  std::vector<double> lse_;
};

ForwardProblems::ForwardProblems(uint64_t seed) {
  for (const Spec &spec : kSpecs) problems_.push_back(std::make_unique<ForwardProblem>(spec, seed++));
}
ForwardProblems::~ForwardProblems() = default;

const char *ForwardProblems::name(size_t index) const {
  return problems_[index]->name();
}

const char *ForwardProblems::entry(size_t index) const {
  return problems_[index]->entry();
}

std::string ForwardProblems::judge(size_t index, const gcn::Program &program,
                                   const gcn::MachineOptions &options, gcn::Statistics *statistics) const {
  return problems_[index]->judge(program, options, statistics);
}

}  // namespace flashattn
