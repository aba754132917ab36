// SPDX-License-Identifier: Apache-2.0
// One attention, computed, checked and timed: what `run` and `demo` share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/attention.h"
#include "tools/cli/check.h"
#include "tools/cli/library.h"

namespace flashattn::cli {

struct JobTiming {
  double library_seconds = 0;
  double materialized_seconds = 0;  // 0: its score matrix does not fit in half of the machine's memory
  int samples = 0;
  int threads = 0;  // of the materialised attention
};

struct JobResult {
  flashattn_plan_info_t plan{};
  std::string kernel;
  std::vector<std::string> reasons;  // why more specific kernels were refused
  Tensor o;
  Tensor lse;
  std::optional<CheckResult> check;
  std::optional<JobTiming> timing;
};

struct JobOptions {
  PlanOptions plan;
  bool check = false;
  bool time = false;
};

JobResult run_job(const Device &device, const Attention &problem, Layout layout, const JobOptions &options);

}  // namespace flashattn::cli
