// SPDX-License-Identifier: Apache-2.0
// A test of the tests: takes single instructions out of a compiled forward kernel and asks whether the
// interpreter or the comparison with float64 notices. Every barrier and every wait that the kernel executes
// is taken out in turn, and a fresh sample of its matrix, exponential, LDS, global and packing instructions.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "backends/gpu/forward_args.h"
#include "backends/hip/kernels/gfx942/shapes.h"
#include "tests/support/gcn/formats.h"
#include "tests/support/gcn/machine.h"
#include "tests/support/gcn/trap.h"

namespace flashattn {
namespace {

constexpr int kDim = 64;
constexpr int kQueries = 70;  // three of the block's waves work, one of them in part
constexpr int kKeys = 300;    // three steps: first, middle, ragged last
constexpr int kHeads = 2;     // of queries, one of keys
constexpr double kTolerance = 0.02;
constexpr int kSample = 150;

using Shape = hip::ShapeOf<kDim>;

// One causal problem with its answer in float64.
class Attention {
 public:
  explicit Attention(uint64_t seed)
      : q_(draw(seed, kQueries * kHeads)),
        k_(draw(seed + 1, kKeys)),
        v_(draw(seed + 2, kKeys)),
        expected_(static_cast<size_t>(kQueries) * kHeads * kDim) {
    for (int h = 0; h < kHeads; ++h) {
      for (int i = 0; i < kQueries; ++i) answer_row(i, h);
    }
  }

  // Runs the kernel; the largest error of O, infinite where O is NaN. Traps come through.
  double run(const gcn::Program &program, const gcn::MachineOptions &options, gcn::Statistics *statistics) {
    std::vector<uint16_t> o(expected_.size(), 0xffff);
    flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
    problem.dtype_q = problem.dtype_kv = problem.dtype_o = FLASHATTN_DTYPE_BF16;
    problem.num_heads_q = kHeads;
    problem.num_heads_kv = 1;
    problem.head_dim = problem.head_dim_v = kDim;
    problem.max_batch = 1;
    problem.max_seqlen_q = kQueries;
    problem.max_seqlen_kv = kKeys;
    problem.softmax_scale = 0.125F;
    problem.causal = 1;
    problem.num_splits = 1;
    flashattn_call_t call = FLASHATTN_CALL_INIT;
    call.batch = 1;
    call.seqlen_q = kQueries;
    call.seqlen_kv = kKeys;
    call.q = {q_.data(), 0, kHeads * kDim, kDim};
    call.k = {k_.data(), 0, kDim, kDim};
    call.v = {v_.data(), 0, kDim, kDim};
    call.o = {o.data(), 0, kHeads * kDim, kDim};
    gpu::ForwardArgs args = gpu::describe_call(problem, call);
    gpu::cut_call(problem, call, Shape::kTile, gpu::make_split_rule(problem, Shape::kTile, 1), 1 << 20,
                  &args);

    gcn::Launch launch;
    launch.grid = {static_cast<uint32_t>(args.blocks), 1, 1};
    launch.block = {Shape::kThreads, 1, 1};
    launch.arguments.resize(sizeof args + sizeof args.blocks);
    std::memcpy(launch.arguments.data(), &args, sizeof args);
    std::memcpy(launch.arguments.data() + sizeof args, &args.blocks, sizeof args.blocks);
    *statistics = gcn::run(
        program, "fwd_plain", launch,
        {range(q_, false, "Q"), range(k_, false, "K"), range(v_, false, "V"), range(o, true, "O")}, options);
    double worst = 0;
    for (size_t i = 0; i < o.size(); ++i) {
      const double error = std::fabs(gcn::bf16_to_float(o[i]) - expected_[i]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    return worst;
  }

 private:
  static std::vector<uint16_t> draw(uint64_t seed, int rows) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0.3F, 1.0F);
    std::vector<uint16_t> values(static_cast<size_t>(rows) * kDim);
    for (uint16_t &x : values) x = gcn::float_to_bf16(normal(random));
    return values;
  }

  static gcn::MemoryRange range(std::vector<uint16_t> &values, bool writable, const char *name) {
    const auto begin = reinterpret_cast<uint64_t>(values.data());
    return {begin, begin + 2 * values.size(), writable, name};
  }

  void answer_row(int i, int h) {
    const size_t row = static_cast<size_t>(i * kHeads + h) * kDim;
    double sum = 0;
    for (int j = 0; j <= i + kKeys - kQueries; ++j) {
      double score = 0;
      for (size_t d = 0; d < kDim; ++d) {
        score += static_cast<double>(gcn::bf16_to_float(q_[row + d])) *
                 static_cast<double>(gcn::bf16_to_float(k_[static_cast<size_t>(j) * kDim + d]));
      }
      const double weight = std::exp(0.125 * score);
      sum += weight;
      for (size_t d = 0; d < kDim; ++d) {
        expected_[row + d] +=
            weight * static_cast<double>(gcn::bf16_to_float(v_[static_cast<size_t>(j) * kDim + d]));
      }
    }
    for (size_t d = 0; d < kDim; ++d) expected_[row + d] /= sum;
  }

  std::vector<uint16_t> q_, k_, v_;
  std::vector<double> expected_;
};

gcn::Program load() {
  std::ifstream file(FLASHATTN_HIP_IMAGE, std::ios::binary);
  return {std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()),
          FLASHATTN_GCN_OBJDUMP};
}

struct Score {
  int mutants = 0;
  int killed = 0;
  std::string survivors;
};

class Mutation {
 public:
  Mutation() : program_(load()), seed_(std::random_device()()), attention_(seed_) {
    MESSAGE("seed " << seed_);
    options_.seed = seed_;
    options_.quantum = 20;
    healthy_error_ = attention_.run(program_, options_, &healthy_);
    options_.instruction_limit = 4 * healthy_.instructions;
  }

  double healthy_error() const { return healthy_error_; }
  const gcn::Program &program() const { return program_; }
  bool executes(size_t index) const { return healthy_.executed[index] != 0; }
  uint64_t seed() const { return seed_; }

  void try_without(size_t index, Score *score) {
    gcn::Program mutant = program_;
    mutant.erase(index);
    ++score->mutants;
    gcn::Statistics ignored;
    try {
      if (!(attention_.run(mutant, options_, &ignored) <= kTolerance))
        ++score->killed;
      else
        score->survivors += "\n  " + program_.instructions()[index].text;
    } catch (const gcn::Trap &) {
      ++score->killed;
    }
  }

 private:
  gcn::Program program_;
  uint64_t seed_;
  Attention attention_;
  gcn::MachineOptions options_;
  gcn::Statistics healthy_;
  double healthy_error_ = 0;
};

TEST_CASE("the kernel as it is passes") {
  CHECK_LT(Mutation().healthy_error(), kTolerance);
}

// A wait that survives is one whose results nothing touches before a later wait repeats it: the machine stops
// at any touch before. The compiler leaves such waits where paths meet, here before the padding of smaller
// head dimensions.
TEST_CASE("every barrier is needed, and four of five waits") {
  Mutation mutation;
  Score barriers;
  Score waits;
  const auto &instructions = mutation.program().instructions();
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (!mutation.executes(i)) continue;
    if (instructions[i].mnemonic == "s_barrier") mutation.try_without(i, &barriers);
    if (instructions[i].mnemonic == "s_waitcnt") mutation.try_without(i, &waits);
  }
  MESSAGE(barriers.killed << " of " << barriers.mutants << " barriers, " << waits.killed << " of "
                          << waits.mutants << " waits" << barriers.survivors << waits.survivors);
  CHECK_GT(barriers.mutants, 0);
  CHECK_EQ(barriers.killed, barriers.mutants);
  CHECK_GE(waits.killed, 0.8 * waits.mutants);
}

// Instructions that change nothing here survive rightly: hints, padding, arithmetic on features that are off.
// Matrix, exponential, LDS and vector memory instructions have no such excuse.
TEST_CASE("a missing matrix, exponential, LDS or memory instruction is noticed") {
  Mutation mutation;
  std::vector<size_t> candidates;
  const auto &instructions = mutation.program().instructions();
  for (size_t i = 0; i < instructions.size(); ++i) {
    const std::string &m = instructions[i].mnemonic;
    const bool counts = m.compare(0, 6, "v_mfma") == 0 || m == "v_exp_f32" || m.compare(0, 3, "ds_") == 0 ||
                        m.compare(0, 7, "global_") == 0 || m == "v_perm_b32" || m == "v_pk_mul_f32";
    if (counts && mutation.executes(i)) candidates.push_back(i);
  }
  std::mt19937_64 random(mutation.seed());
  std::shuffle(candidates.begin(), candidates.end(), random);
  if (candidates.size() > kSample) candidates.resize(kSample);
  Score score;
  for (const size_t index : candidates) mutation.try_without(index, &score);
  MESSAGE(score.killed << " of " << score.mutants << score.survivors);
  CHECK_GE(score.killed, 0.95 * score.mutants);
}

}  // namespace
}  // namespace flashattn
