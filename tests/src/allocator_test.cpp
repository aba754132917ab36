// SPDX-License-Identifier: Apache-2.0
// Memory that runs out: the caller's allocator or operator new failing at its n-th use, for every n. Each
// attempt must answer OUT_OF_MEMORY or succeed, leak nothing and leave the library usable.
#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "src/host_allocator.h"
#include "tests/src/fixture.h"

namespace {

// Counts down the allocations of operator new that succeed; negative = no limit.
std::atomic<long> g_new_budget{-1};

bool spend() {
  if (g_new_budget.load() < 0) return true;
  return g_new_budget.fetch_sub(1) > 0;
}

}  // namespace

void *operator new(size_t size) {
  if (!spend()) {
    g_new_budget = 0;  // stays exhausted
    throw std::bad_alloc();
  }
  void *memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void *operator new(size_t size, std::align_val_t alignment) {
  if (!spend()) {
    g_new_budget = 0;
    throw std::bad_alloc();
  }
  void *memory = nullptr;
  if (posix_memalign(&memory, static_cast<size_t>(alignment), size) != 0) throw std::bad_alloc();
  return memory;
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete(void *memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace flashattn::testing {
namespace {

// A caller's allocator that counts, checks what comes back and can fail from the n-th request on. Fixed
// storage, so that it does not disturb operator new.
class CountingAllocator {
 public:
  long budget = -1;  // requests that succeed; negative = no limit
  long requests = 0;
  long live = 0;
  bool sane = true;

  static void *FLASHATTN_CALL alloc(void *user, size_t size, size_t alignment) {
    auto *self = static_cast<CountingAllocator *>(user);
    const std::lock_guard<std::mutex> lock(self->mutex_);
    ++self->requests;
    if (self->budget == 0) return nullptr;
    if (self->budget > 0) --self->budget;
    self->sane = self->sane && size > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0;
    void *memory = nullptr;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0)
      return nullptr;
    for (Block &block : self->blocks_) {
      if (block.memory != nullptr) continue;
      block = {memory, size, alignment};
      ++self->live;
      return memory;
    }
    self->sane = false;
    return nullptr;
  }

  static void FLASHATTN_CALL release(void *user, void *memory, size_t size, size_t alignment) {
    auto *self = static_cast<CountingAllocator *>(user);
    const std::lock_guard<std::mutex> lock(self->mutex_);
    for (Block &block : self->blocks_) {
      if (block.memory != memory) continue;
      self->sane = self->sane && block.size == size && block.alignment == alignment;
      block = {};
      --self->live;
      std::free(memory);
      return;
    }
    self->sane = false;  // not ours, or freed twice
  }

 private:
  struct Block {
    void *memory = nullptr;
    size_t size = 0;
    size_t alignment = 0;
  };
  std::mutex mutex_;
  Block blocks_[256];
};

flashattn_options_t options_with(CountingAllocator *allocator) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = 2;
  options.alloc = CountingAllocator::alloc;
  options.free = CountingAllocator::release;
  options.alloc_user = allocator;
  return options;
}

// Everything a program does with a handle, as far as memory lasts. The status of the first failure.
flashattn_status_t use_all(const flashattn_options_t &options, Fixture *fixture) {
  flashattn_handle_t *handle = nullptr;
  flashattn_status_t status = flashattn_create(&options, &handle);
  if (status != FLASHATTN_STATUS_OK) {
    if (handle != nullptr) return FLASHATTN_STATUS_INTERNAL;
    return status;
  }
  flashattn_plan_t *plan = nullptr;
  status = flashattn_plan_create(handle, &fixture->problem, &plan);
  if (status == FLASHATTN_STATUS_OK) {
    status = flashattn_attention(handle, &fixture->problem, &fixture->call, nullptr);
  } else if (plan != nullptr) {
    status = FLASHATTN_STATUS_INTERNAL;
  }
  flashattn_destroy(handle);
  flashattn_plan_destroy(plan);
  return status;
}

TEST_CASE("an allocator that fails at its n-th request gives OUT_OF_MEMORY and no leak, for every n") {
  CountingAllocator allocator;
  const flashattn_options_t options = options_with(&allocator);
  Fixture fixture;
  REQUIRE(use_all(options, &fixture) == FLASHATTN_STATUS_OK);
  const long needed = allocator.requests;
  CHECK(needed >= 4);  // handle, plan state, plan, workspace
  CHECK(allocator.live == 0);
  for (long n = 0; n <= needed; ++n) {
    CAPTURE(n);
    fixture.o.poison();
    allocator.budget = n;
    const flashattn_status_t status = use_all(options, &fixture);
    CHECK(status == (n < needed ? FLASHATTN_STATUS_OUT_OF_MEMORY : FLASHATTN_STATUS_OK));
    CHECK((status == FLASHATTN_STATUS_OK ? fixture.o.all_written() : fixture.o.untouched()));
    CHECK(allocator.live == 0);
  }
  CHECK(allocator.sane);
}

TEST_CASE("operator new that fails at its n-th use gives OUT_OF_MEMORY and no leak, for every n") {
  CountingAllocator allocator;
  const flashattn_options_t options = options_with(&allocator);
  Fixture fixture;
  REQUIRE(use_all(options, &fixture) == FLASHATTN_STATUS_OK);
  bool succeeded = false;
  for (long n = 0; n < 1000 && !succeeded; ++n) {
    fixture.o.poison();
    g_new_budget = n;
    const flashattn_status_t status = use_all(options, &fixture);
    g_new_budget = -1;
    CAPTURE(n);
    // Blocked while the pool's threads begin, and given back however that ends.
    sigset_t blocked;
    REQUIRE(pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0);
    CHECK(sigismember(&blocked, SIGINT) == 0);
    succeeded = status == FLASHATTN_STATUS_OK;
    CHECK((succeeded || status == FLASHATTN_STATUS_OUT_OF_MEMORY));
    CHECK((succeeded ? fixture.o.all_written() : fixture.o.untouched()));
    CHECK(allocator.live == 0);
  }
  CHECK(succeeded);
  CHECK(allocator.sane);
}

TEST_CASE("forward asks neither allocator") {
  CountingAllocator allocator;
  const flashattn_options_t options = options_with(&allocator);
  Fixture fixture;
  flashattn_handle_t *handle = nullptr;
  REQUIRE(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OK);
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(handle, &fixture.problem, &plan) == FLASHATTN_STATUS_OK);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
  void *workspace = nullptr;
  REQUIRE(posix_memalign(&workspace, info.workspace_alignment, info.workspace_size + 1) == 0);
  REQUIRE(flashattn_workspace_init(plan, workspace, info.workspace_size, nullptr) == FLASHATTN_STATUS_OK);
  const long requests = allocator.requests;
  g_new_budget = 0;
  const flashattn_status_t first =
      flashattn_forward(plan, &fixture.call, workspace, info.workspace_size, nullptr);
  const flashattn_status_t second =
      flashattn_forward(plan, &fixture.call, workspace, info.workspace_size, nullptr);
  g_new_budget = -1;
  CHECK(first == FLASHATTN_STATUS_OK);
  CHECK(second == FLASHATTN_STATUS_OK);
  CHECK(fixture.o.all_written());
  CHECK(allocator.requests == requests);
  flashattn_plan_destroy(plan);
  flashattn_destroy(handle);
  std::free(workspace);
  CHECK(allocator.live == 0);
}

TEST_CASE("attention allocates at the first call of a problem only") {
  CountingAllocator allocator;
  const flashattn_options_t options = options_with(&allocator);
  Fixture fixture;
  flashattn_handle_t *handle = nullptr;
  REQUIRE(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OK);
  REQUIRE(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
  const long requests = allocator.requests;
  g_new_budget = 0;
  const flashattn_status_t again = flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr);
  g_new_budget = -1;
  CHECK(again == FLASHATTN_STATUS_OK);
  CHECK(allocator.requests == requests);
  flashattn_destroy(handle);
  CHECK(allocator.live == 0);
}

TEST_CASE("an allocator that answers misaligned memory counts as out of memory and gets it back") {
  struct Misaligning {
    long live = 0;
    static void *FLASHATTN_CALL alloc(void *user, size_t size, size_t alignment) {
      ++static_cast<Misaligning *>(user)->live;
      return static_cast<char *>(std::aligned_alloc(alignment, (size / alignment + 2) * alignment)) + 1;
    }
    static void FLASHATTN_CALL release(void *user, void *memory, size_t /*size*/, size_t /*alignment*/) {
      --static_cast<Misaligning *>(user)->live;
      std::free(static_cast<char *>(memory) - 1);
    }
  } misaligning;
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.alloc = Misaligning::alloc;
  options.free = Misaligning::release;
  options.alloc_user = &misaligning;
  flashattn_handle_t *handle = nullptr;
  CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OUT_OF_MEMORY);
  CHECK(handle == nullptr);
  CHECK(misaligning.live == 0);
}

TEST_CASE("memory for an object whose constructor throws is given back") {
  struct Throwing {
    Throwing() { throw 3; }
  };
  CountingAllocator allocator;
  const Host host(options_with(&allocator), 0);
  CHECK_THROWS_AS(host_new<Throwing>(host), int);
  CHECK(allocator.requests == 1);
  CHECK(allocator.live == 0);
}

TEST_CASE("a callback that throws does not get past the library") {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.alloc = [](void * /*user*/, size_t /*size*/, size_t /*alignment*/) -> void * { throw 1; };
  options.free = [](void * /*user*/, void * /*memory*/, size_t /*size*/, size_t /*alignment*/) {};
  options.log = [](void * /*user*/, int32_t /*level*/, const char * /*message*/) { throw 2; };
  flashattn_handle_t *handle = nullptr;
  CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace flashattn::testing
