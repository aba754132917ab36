// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/forward.h"

#include <algorithm>
#include <new>

namespace flashattn::cpu {
namespace {

// About 20 us of one core at 16 multiply-adds per cycle: waking a thread costs a few microseconds.
constexpr double kMultiplyAddsPerWorker = 1e6;

struct Job {
  const Shape &shape;
  const Kernel &kernel;
  const Blocking &blocking;
  const SplitRule &rule;
  const flashattn_call_t &call;
  const Workspace &workspace;
  Schedule schedule;
  std::atomic<int64_t> next{0};
};

// Computes one split; whoever computes a tile's last one merges them all, in the order of the splits, so that
// the result does not depend on who that was.
void run_split(const Job &job, const Item &item, void *scratch) {
  const auto state_at = [&](int32_t split) {
    const int64_t slot = item.tile_index * job.schedule.splits + split;
    return state_over(job.workspace.partials + slot * job.workspace.state_size,
                      job.blocking.heads * job.blocking.rows, job.shape.dim_v);
  };
  job.kernel.tile(item.tile, job.blocking, scratch, state_at(item.split));
  std::atomic<int32_t> &pending = job.workspace.pending[item.tile_index];
  if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const State whole = state_at(0);
  for (int32_t split = 1; split < item.splits; ++split) {
    merge_state(state_at(split), item.tile.heads * item.tile.rows, job.shape.dim_v, whole);
  }
  finish_tile(item.tile, whole, job.kernel.store_row);
}

void work(void *context, int32_t worker) {
  Job &job = *static_cast<Job *>(context);
  void *scratch = job.workspace.scratch + worker * job.workspace.scratch_size;
  ItemCursor cursor(job.shape, job.call, job.blocking, job.schedule, job.rule);
  while (true) {
    const int64_t number = job.next.fetch_add(1, std::memory_order_relaxed);
    if (number >= job.schedule.items) return;
    const Item item = cursor.seek(number);
    if (item.splits > 1) {
      run_split(job, item, scratch);
      continue;
    }
    const State state = state_over(job.workspace.states + worker * job.workspace.state_size,
                                   job.blocking.heads * job.blocking.rows, job.shape.dim_v);
    job.kernel.tile(item.tile, job.blocking, scratch, state);
    finish_tile(item.tile, state, job.kernel.store_row);
  }
}

// Sets the count of pending splits of every tile.
void arm_pending(const Job &job) {
  int64_t tile = 0;
  for (int64_t b = 0; b < job.call.batch; ++b) {
    const Sequence sequence = sequence_at(job.shape, job.call, b);
    const int32_t splits = choose_splits(job.rule, job.schedule.splits, sequence.n_k);
    for (const int64_t end = tile + tiles_of(job.shape, job.blocking, sequence.n_q); tile < end; ++tile) {
      new (job.workspace.pending + tile) std::atomic<int32_t>(splits);
    }
  }
}

}  // namespace

int32_t useful_workers(double multiply_adds, int64_t items) {
  const double by_work = std::min(multiply_adds / kMultiplyAddsPerWorker, 1e6);
  return static_cast<int32_t>(
      std::clamp<int64_t>(static_cast<int64_t>(by_work), 1, std::max<int64_t>(items, 1)));
}

void forward(const Shape &shape, const Kernel &kernel, const Blocking &blocking, const SplitRule &rule,
             const flashattn_call_t &call, const Workspace &workspace, Workers *workers) {
  Job job{shape, kernel, blocking, rule, call, workspace, make_schedule(shape, call, blocking, rule), {}};
  if (job.schedule.items == 0) return;
  if (job.schedule.splits > 1) arm_pending(job);
  workers->run(useful_workers(job.schedule.multiply_adds, job.schedule.items), work, &job);
}

}  // namespace flashattn::cpu
