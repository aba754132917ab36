// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/job.h"

#include "tools/cli/materialized.h"
#include "tools/cli/timing.h"

namespace flashattn::cli {

namespace {

JobTiming time_job(PreparedCall &call, const Attention &problem, int threads) {
  std::vector<Contestant> contestants = {[&call](int repeats) { call.run_and_wait(repeats); }};
  std::optional<Materialized> materialized;
  if (materialized_fits(problem)) {
    materialized.emplace(problem, threads);
    contestants.emplace_back([&materialized](int repeats) {
      for (int i = 0; i < repeats; ++i) materialized->run();
    });
  }
  const std::vector<Spread> spreads = time_interleaved(contestants, Effort{});
  return {spreads[0].median, materialized ? spreads[1].median : 0, spreads[0].samples, threads};
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
