// SPDX-License-Identifier: Apache-2.0
// A test of the tests: takes single instructions out of a compiled forward kernel and asks whether the interpreter or
// the comparison with float64 notices. See mutants.py, which calls this.
//
//   hip_mutants check IMAGE [KERNEL]   exits 0 when the kernels of the image (or this one) are right on every problem
//                                      of forward_problems.h and have no LDS bank conflicts, 3 when they are not
//   hip_mutants sweep IMAGE [N]        takes out each barrier and each wait that the problems execute, and N (150)
//                                      of the matrix, exponential, LDS, memory and packing instructions; prints the
//                                      survivors; exits 0 when at least 95 % are noticed, else 3
// FLASHATTN_TEST_SEED: inputs, schedule and sample; drawn when not set.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/backends/hip/forward_problems.h"

namespace flashattn {
namespace {

constexpr double kGoal = 0.95;
constexpr uint32_t kTurn = 20;  // most instructions before another wave may run
constexpr int kNotGood = 3;

gcn::Program load(const char *path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()),
          FLASHATTN_GCN_OBJDUMP};
}

struct Score {
  const char *what;
  int mutants = 0;
  int killed = 0;
};

class Mutation {
 public:
  Mutation(const gcn::Program &program, uint64_t seed) : program_(program), problems_(seed) {
    options_.seed = seed;
    options_.quantum = kTurn;
    for (size_t p = 0; p < problems_.size(); ++p) {
      healthy_.emplace_back();
      const std::string fault = problems_.judge(p, program_, options_, &healthy_.back());
      if (!fault.empty())
        throw std::runtime_error(std::string("no mutant, and yet ") + problems_.name(p) + ": " + fault);
    }
  }

  bool executed(size_t instruction) const {
    return std::any_of(healthy_.begin(), healthy_.end(),
                       [&](const gcn::Statistics &run) { return run.executed[instruction] != 0; });
  }
  // A wait that never found anything under way changes nothing by its absence.
  bool waited(size_t instruction) const {
    return std::any_of(healthy_.begin(), healthy_.end(),
                       [&](const gcn::Statistics &run) { return run.waited_for[instruction] != 0; });
  }

  void try_without(size_t instruction, Score *score) {
    gcn::Program mutant = program_;
    mutant.erase(instruction);
    ++score->mutants;
    for (size_t p = 0; p < problems_.size(); ++p) {
      if (healthy_[p].executed[instruction] == 0) continue;
      options_.instruction_limit = 4 * healthy_[p].instructions;
      gcn::Statistics ignored;
      if (problems_.judge(p, mutant, options_, &ignored).empty()) continue;
      ++score->killed;
      return;
    }
    const gcn::Instruction &survivor = program_.instructions()[instruction];
    std::printf("survived: 0x%llx %s\n", static_cast<unsigned long long>(survivor.address),
                survivor.text.c_str());
  }

 private:
  const gcn::Program &program_;
  ForwardProblems problems_;
  gcn::MachineOptions options_;
  std::vector<gcn::Statistics> healthy_;
};

// kernel: empty for all.
int check(const gcn::Program &program, const std::string &kernel, uint64_t seed) {
  const ForwardProblems problems(seed);
  gcn::MachineOptions options;
  options.seed = seed;
  options.quantum = kTurn;
  options.count_bank_conflicts = true;
  options.instruction_limit = 20'000'000;
  for (size_t p = 0; p < problems.size(); ++p) {
    if (!kernel.empty() && kernel != problems.entry(p)) continue;
    gcn::Statistics statistics;
    std::string fault = problems.judge(p, program, options, &statistics);
    if (fault.empty() && statistics.bank_conflict_cycles != 0)
      fault = std::to_string(statistics.bank_conflict_cycles) + " cycles of LDS bank conflicts";
    if (fault.empty()) continue;
    std::printf("%s: %s\n", problems.name(p), fault.c_str());
    return kNotGood;
  }
  return 0;
}

// Without one of these the result cannot be right. Others may be missed rightly: hints, padding, features that are off.
bool always_matters(const std::string &mnemonic) {
  for (const char *family : {"v_mfma", "v_exp_f32", "ds_", "global_", "v_perm_b32", "v_pk_mul_f32"}) {
    if (mnemonic.compare(0, std::strlen(family), family) == 0) return true;
  }
  return false;
}

int sweep(const gcn::Program &program, uint64_t seed, size_t sample) {
  Mutation mutation(program, seed);
  Score barriers{"barriers"};
  Score waits{"waits"};
  Score others{"others"};
  int idle = 0;
  std::vector<size_t> candidates;
  const std::vector<gcn::Instruction> &instructions = program.instructions();
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (!mutation.executed(i)) continue;
    const std::string &mnemonic = instructions[i].mnemonic;
    if (mnemonic == "s_barrier") mutation.try_without(i, &barriers);
    if (mnemonic == "s_waitcnt" && mutation.waited(i)) mutation.try_without(i, &waits);
    idle += mnemonic == "s_waitcnt" && !mutation.waited(i);
    if (always_matters(mnemonic)) candidates.push_back(i);
  }
  std::mt19937_64 random(seed);
  std::shuffle(candidates.begin(), candidates.end(), random);
  if (candidates.size() > sample) candidates.resize(sample);
  for (const size_t i : candidates) mutation.try_without(i, &others);
  int mutants = 0;
  int killed = 0;
  for (const Score &score : {barriers, waits, others}) {
    std::printf("%-8s %d of %d noticed\n", score.what, score.killed, score.mutants);
    mutants += score.mutants;
    killed += score.killed;
  }
  std::printf("idle     %d waits never had anything to wait for, and are no mutants\n", idle);
  const bool good = barriers.mutants > 0 && waits.mutants > 0 && killed >= kGoal * mutants;
  return good ? 0 : kNotGood;
}

}  // namespace
}  // namespace flashattn

int main(int argc, char **argv) {
  using namespace flashattn;
  const std::string command = argc > 2 ? argv[1] : "";
  if (command != "check" && command != "sweep") {
    std::fprintf(stderr, "usage: hip_mutants check IMAGE [KERNEL] | hip_mutants sweep IMAGE [N]\n");
    return 2;
  }
  try {
    const char *given = std::getenv("FLASHATTN_TEST_SEED");
    const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    const gcn::Program program = load(argv[2]);
    if (command == "check") return check(program, argc > 3 ? argv[3] : "", seed);
    return sweep(program, seed, argc > 3 ? std::strtoull(argv[3], nullptr, 0) : 150);
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "hip_mutants: %s\n", failure.what());
    return 2;
  }
}
