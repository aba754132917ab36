// SPDX-License-Identifier: Apache-2.0
// Small problems for the bf16 forward kernels of head dimension 64, with answers in float64. Together they take every
// path of the kernels: ragged last steps, padding, masks, pages, splits, GQA, f32 output, and the modified scores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gcn/machine.h"

namespace flashattn {

class ForwardProblem;

class ForwardProblems {
 public:
  // Equal seeds give equal inputs.
  explicit ForwardProblems(uint64_t seed);
  ~ForwardProblems();
  ForwardProblems(const ForwardProblems &) = delete;
  ForwardProblems &operator=(const ForwardProblems &) = delete;

  size_t size() const { return problems_.size(); }
  const char *name(size_t index) const;
  const char *entry(size_t index) const;  // the kernel it runs

  // Runs problem `index`. Empty when the machine found no broken rule and every O and LSE is right; else what is wrong.
  std::string judge(size_t index, const gcn::Program &program, const gcn::MachineOptions &options,
                    gcn::Statistics *statistics) const;

 private:
  std::vector<std::unique_ptr<ForwardProblem>> problems_;
};

}  // namespace flashattn
