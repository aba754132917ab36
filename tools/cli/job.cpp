// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/job.h"

#include <functional>

#include "tools/cli/materialized.h"
#include "tools/cli/timing.h"

namespace flashattn::cli {

namespace {

JobTiming time_job(PreparedCall &call, const Attention &problem, int threads) {
  const auto library = [&call](int repeats) {
    for (int i = 0; i < repeats; ++i) call.run();
    call.synchronize();
  };
  std::optional<Materialized> materialized;
  std::function<void(int)> second;
  if (materialized_fits(problem)) {
    materialized.emplace(problem, threads);
    second = [&materialized](int repeats) {
      for (int i = 0; i < repeats; ++i) materialized->run();
    };
  }
  const Timing timing = time_interleaved(library, second);
  return {timing.first_seconds, timing.second_seconds, timing.samples, threads};
}

}  // namespace

JobResult run_job(const Device &device, const Attention &problem, Layout layout, const JobOptions &options) {
  PreparedCall call(device, problem, layout, options.plan);
  JobResult result;
  result.plan = call.info();
  result.kernel = call.kernel();
  result.reasons = call.reasons();
  call.run();
  result.o = call.o();
  result.lse = call.lse();
  const int threads = device.host_threads();
  if (options.check) result.check = check(problem, layout, result.o, result.lse, threads);
  if (options.time) result.timing = time_job(call, problem, threads);
  return result;
}

}  // namespace flashattn::cli
