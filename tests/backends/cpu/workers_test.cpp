// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/workers.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace flashattn::cpu::test {
namespace {

// Counts to `total`, by as many workers as come.
struct Count {
  explicit Count(int64_t total_pieces) : total(total_pieces) {}
  static void loop(void *context, int32_t worker) {
    Count &count = *static_cast<Count *>(context);
    count.workers.fetch_or(uint64_t{1} << worker);
    while (count.next.fetch_add(1) < count.total) count.done.fetch_add(1);
  }
  int64_t total;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  std::atomic<uint64_t> workers{0};
};

}  // namespace

TEST_CASE("workers: all work is done on return, whatever was wanted") {
  for (const int32_t threads : {1, 2, 5, 8}) {
    Workers workers(threads, nullptr, nullptr);
    CHECK(workers.count() == threads);
    CHECK(workers.start() == kOk);
    for (int32_t wanted = 1; wanted < 12; ++wanted) {
      for (int round = 0; round < 50; ++round) {
        Count count(100);
        workers.run(wanted, Count::loop, &count);
        REQUIRE(count.done == 100);
        REQUIRE(count.workers < uint64_t{1} << std::min(threads, wanted));
      }
    }
  }
}

TEST_CASE("workers: a pool that was never started is the caller alone") {
  Workers workers(4, nullptr, nullptr);
  Count count(10);
  workers.run(4, Count::loop, &count);
  CHECK(count.done == 10);
  CHECK(count.workers == 1);
}

TEST_CASE("workers: 64 callers at once never wait for each other") {
  Workers workers(3, nullptr, nullptr);
  REQUIRE(workers.start() == kOk);
  std::vector<std::thread> callers;
  callers.reserve(64);
  std::atomic<int> wrong{0};
  for (int c = 0; c < 64; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        Count count(20);
        workers.run(3, Count::loop, &count);
        if (count.done != 20) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread &caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("workers: a call from within a job is done by its caller") {
  struct Outer {
    static void loop(void *context, int32_t /*worker*/) {
      Outer &outer = *static_cast<Outer *>(context);
      while (outer.next.fetch_add(1) < 10) {
        Count count(10);
        outer.workers.run(4, Count::loop, &count);
        outer.done.fetch_add(count.done);
      }
    }
    Workers &workers;
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> done{0};
  };
  Workers workers(4, nullptr, nullptr);
  REQUIRE(workers.start() == kOk);
  Outer outer{workers, {}, {}};
  workers.run(4, Outer::loop, &outer);
  CHECK(outer.done == 100);
}

TEST_CASE("workers: the caller's parallel_for gets every index once and at most count") {
  struct Caller {
    static void FLASHATTN_CALL parallel_for(void *user, int32_t count, flashattn_task_fn task,
                                            void *context) {
      *static_cast<int32_t *>(user) = count;
      for (int32_t i = count - 1; i >= 0; --i) task(context, i);
    }
  };
  int32_t asked = 0;
  Workers workers(3, Caller::parallel_for, &asked);
  CHECK(workers.start() == kOk);
  Count count(10);
  workers.run(8, Count::loop, &count);
  CHECK(asked == 3);
  CHECK(count.done == 10);
  CHECK(count.workers == 7);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow fork with threads
TEST_CASE("workers: after fork the child works alone and closes without waiting") {
  auto workers = std::make_unique<Workers>(4, nullptr, nullptr);
  REQUIRE(workers->start() == kOk);
  Count warm(100);
  workers->run(4, Count::loop, &warm);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    Count count(50);
    workers->run(4, Count::loop, &count);
    workers->start();
    workers.reset();
    _exit(count.done == 50 && count.workers == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  Count count(50);
  workers->run(4, Count::loop, &count);
  CHECK(count.done == 50);
}
#endif

}  // namespace flashattn::cpu::test
