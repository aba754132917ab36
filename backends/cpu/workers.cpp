// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/workers.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace flashattn::cpu {
namespace {

// Blocks all signals of this thread for a scope; threads begun in it inherit that. Signals are for the
// program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct Workers::Pool {
  const pid_t owner = getpid();
  std::mutex job_mutex;  // held by the call whose job this is
  std::atomic<bool> started{false};
  std::vector<std::thread> threads;  // under job_mutex

  std::mutex mutex;  // guards everything below
  std::condition_variable wake;
  std::condition_variable idle;
  WorkLoop loop = nullptr;
  void *context = nullptr;
  int32_t next_worker = 0;  // the number the next thread to come takes ...
  int32_t wanted = 0;       // ... while it is below this
  int32_t inside = 0;       // threads inside loop
  bool stopping = false;

  void serve() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return stopping || next_worker < wanted; });
      if (stopping) return;
      const int32_t worker = next_worker++;
      ++inside;
      const WorkLoop run_loop = loop;
      void *const run_context = context;
      lock.unlock();
      run_loop(run_context, worker);
      lock.lock();
      if (--inside == 0) idle.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread &thread : threads) thread.join();
  }
};

Workers::Workers(int32_t count, flashattn_parallel_for_fn parallel_for, void *parallel_for_user)
    : count_(count), parallel_for_(parallel_for), parallel_for_user_(parallel_for_user) {
  if (count > 1 && parallel_for == nullptr) pool_ = std::make_unique<Pool>();
}

Workers::~Workers() {
  if (pool_ == nullptr) return;
  if (pool_->owner != getpid()) {
    // The threads stayed in the parent, and a mutex may have been held there when it forked: joining, or
    // destroying what they wait on, could hang. The child gives the few bytes up.
    static_cast<void>(pool_.release());
    return;
  }
  pool_->stop();
}

Status Workers::start() {
  if (pool_ == nullptr || pool_->started.load(std::memory_order_acquire) || pool_->owner != getpid())
    return kOk;
  const std::lock_guard<std::mutex> lock(pool_->job_mutex);
  if (pool_->started.load(std::memory_order_relaxed)) return kOk;
  const SignalsBlocked blocked;
  try {
    Pool *const pool = pool_.get();
    pool->threads.reserve(static_cast<size_t>(count_) - 1);
    while (pool->threads.size() + 1 < static_cast<size_t>(count_)) {
      pool->threads.emplace_back([pool] { pool->serve(); });
    }
    pool->started.store(true, std::memory_order_release);
  } catch (const std::system_error &) {
    return fail(FLASHATTN_STATUS_OUT_OF_THREADS, "num_threads is %d; the system refused thread %d", count_,
                static_cast<int>(pool_->threads.size()) + 2);
  }
  return kOk;
}

void Workers::run(int32_t wanted, WorkLoop loop, void *context) {
  wanted = std::min(wanted, count_);
  if (wanted > 1 && parallel_for_ != nullptr) {
    parallel_for_(parallel_for_user_, wanted, loop, context);
    return;
  }
  Pool *const pool = pool_.get();
  if (wanted > 1 && pool != nullptr && pool->owner == getpid()) {
    const std::unique_lock<std::mutex> job(pool->job_mutex, std::try_to_lock);
    if (job.owns_lock()) {
      {
        const std::lock_guard<std::mutex> lock(pool->mutex);
        pool->loop = loop;
        pool->context = context;
        pool->next_worker = 1;
        pool->wanted = wanted;
      }
      if (wanted == 2) {
        pool->wake.notify_one();
      } else {
        pool->wake.notify_all();
      }
      loop(context, 0);
      // No work is left: threads that have not begun need not begin.
      std::unique_lock<std::mutex> lock(pool->mutex);
      pool->wanted = 0;
      pool->idle.wait(lock, [pool] { return pool->inside == 0; });
      return;
    }
  }
  loop(context, 0);
}

}  // namespace flashattn::cpu
