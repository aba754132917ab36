// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/workspace.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_features.h"

namespace flashattn::cpu::test {
namespace {

struct Part {
  const void *begin;
  int64_t size;
};

}  // namespace

TEST_CASE("carve: counting and placing agree, parts are aligned, apart and inside") {
  for (int32_t k = 0; k < kernel_count(); ++k) {
    const Kernel &kernel = kernel_at(k);
    if (kernel.missing(cpu_features()) != nullptr) continue;
    for (const int32_t dim : {1, 40, 64, 128, 255, 576}) {
      for (const int32_t max_rows : {1, 4, 30, 5000}) {
        for (const bool bias : {false, true}) {
          INFO(std::string(kernel.name), " dim ", dim, " rows ", max_rows);
          flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
          problem.num_heads_q = problem.num_heads_kv = 3;
          problem.head_dim = problem.head_dim_v = dim;
          problem.max_batch = 2;
          problem.max_seqlen_q = max_rows;
          problem.max_seqlen_kv = 9000;
          problem.dtype_bias = bias ? FLASHATTN_DTYPE_F32 : 0;
          const Shape shape = make_shape(problem);
          const Blocking blocking = kernel.blocking(shape, max_rows);
          CHECK(blocking.rows <= max_rows);
          const SplitRule rule = make_split_rule(shape, problem, blocking, 4096);
          const int32_t workers = 3;
          Carver counter(nullptr);
          carve_workspace(&counter, shape, blocking, rule, workers);
          const std::unique_ptr<char, void (*)(void *)> memory(
              static_cast<char *>(std::aligned_alloc(kCarveAlignment, counter.size())), std::free);
          Carver placer(memory.get());
          const Workspace placed = carve_workspace(&placer, shape, blocking, rule, workers);
          CHECK(placer.size() == counter.size());

          const auto float_size = static_cast<int64_t>(sizeof(float));
          std::vector<Part> parts = {
              {placed.scratch, workers * placed.scratch_size},
              {placed.states, workers * placed.state_size * float_size},
          };
          if (rule.slots > 0) {
            parts.push_back({placed.pending, rule.max_tiles * 4});
            parts.push_back({placed.partials, rule.slots * placed.state_size * float_size});
          }
          const char *at = memory.get();
          for (const Part &part : parts) {
            const char *begin = static_cast<const char *>(part.begin);
            CHECK(reinterpret_cast<uintptr_t>(begin) % kCarveAlignment == 0);
            CHECK(begin >= at);
            at = begin + part.size;
          }
          CHECK(at <= memory.get() + counter.size());
          CHECK(placed.scratch_size % kCarveAlignment == 0);
          CHECK(placed.state_size * float_size % kCarveAlignment == 0);
        }
      }
    }
  }
}

TEST_CASE("state: rows, maxima and sums lie apart, whole vectors fit every row") {
  for (const int64_t rows : {1, 7, 24, 192}) {
    for (const int32_t dim_v : {1, 33, 128, 576}) {
      std::vector<float> memory(state_floats(rows, dim_v));
      const State state = state_over(memory.data(), rows, dim_v);
      CHECK(state.stride_o >= dim_v);
      CHECK(state.stride_o % 16 == 0);
      CHECK(state.max >= state.o + rows * state.stride_o);
      CHECK(state.sum >= state.max + rows);
      CHECK(memory.data() + memory.size() >= state.sum + rows);
    }
  }
}

}  // namespace flashattn::cpu::test
