// SPDX-License-Identifier: Apache-2.0
// Threads for one call: a pool that belongs to the device, or the caller's parallel_for.
#pragma once

#include <cstdint>
#include <memory>

#include "flashattn.h"
#include "src/status.h"

namespace flashattn::cpu {

// A loop that takes pieces of shared work until none is left. Run by any number of workers at once, each with
// its own number; it is complete as soon as one of them has returned and no other is still inside.
using WorkLoop = flashattn_task_fn;

class Workers {
 public:
  // count >= 1 workers, the calling thread included. parallel_for may be nullptr.
  Workers(int32_t count, flashattn_parallel_for_fn parallel_for, void *parallel_for_user);
  // Joins the pool's threads; in a child process after fork there are none to join.
  ~Workers();
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  int32_t count() const { return count_; }

  // Starts the pool's threads unless they run or are not needed. OUT_OF_THREADS when the system refuses one.
  Status start();

  // Runs loop(context, worker) on the calling thread as worker 0 and, as far as they are free, on workers
  // 1 .. wanted - 1; returns when all that began have returned. Never waits for another call: while the pool
  // is busy with one, or after fork, the calling thread does the work alone. Allocates nothing.
  void run(int32_t wanted, WorkLoop loop, void *context);

 private:
  struct Pool;

  int32_t count_;
  flashattn_parallel_for_fn parallel_for_;
  void *parallel_for_user_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace flashattn::cpu
