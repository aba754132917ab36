// SPDX-License-Identifier: Apache-2.0
// What a call through the C++ binding costs over the C call: one query, one key, one head, f32, one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <flashattn.hpp>
#include <vector>

namespace {

constexpr int kBatches = 4001;
constexpr int kCallsPerBatch = 50;  // short, so that few batches are interrupted on a busy machine

// Median nanoseconds per call of two functions, taken in turns so that both see the same machine.
template <class A, class B>
void measure(const char *name, const A &c_call, const B &binding) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times[2];
  const auto batch = [](const auto &function) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCallsPerBatch; ++i) function();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCallsPerBatch;
  };
  for (int i = 0; i < kBatches; ++i) {
    times[0].push_back(batch(c_call));
    times[1].push_back(batch(binding));
  }
  double median[2];
  for (int i = 0; i < 2; ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + kBatches / 2, times[i].end());
    median[i] = times[i][kBatches / 2];
  }
  std::printf("%-10s C %6.0f ns   C++ %6.0f ns   %.3fx\n", name, median[0], median[1], median[1] / median[0]);
}

}  // namespace

int main() {
  std::vector<float> q(8), k(8), v(8, 1), o(8);
  const flashattn::Shape one{1, 1, 1, 8};
  flashattn::Call call;
  call.q(flashattn::Tensor(q, one))
      .k(flashattn::Tensor(k, one))
      .v(flashattn::Tensor(v, one))
      .o(flashattn::Tensor(o, one));
  const flashattn::Handle handle(flashattn::Options().backend(flashattn::Backend::kCpu).num_threads(1));
  const flashattn::Problem problem(call);
  const flashattn::Plan plan = handle.plan(problem);
  flashattn::Workspace workspace = plan.workspace();
  measure(
      "forward",
      [&] { return flashattn_forward(plan.get(), &call.raw(), workspace.data(), workspace.size(), nullptr); },
      [&] { plan.forward(call, workspace); });
  measure(
      "attention", [&] { return flashattn_attention(handle.get(), &problem.raw(), &call.raw(), nullptr); },
      [&] { handle.attention(problem, call); });
  return 0;
}
