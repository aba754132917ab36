// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/double/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/cuda/fake/fake_cuda.h"

// Saves the registers a callee must keep (System V ABI, x86-64, section 3.2.1) on the old stack, leaves its
// top in *old, and goes on where `fresh` was left.
asm(R"(
.text
.hidden cuda_double_switch
.global cuda_double_switch
.type cuda_double_switch, @function
cuda_double_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size cuda_double_switch, .-cuda_double_switch
)");
extern "C" void cuda_double_switch(void **old, void *fresh);

// Where device code's `extern __shared__ unsigned char memory[]` finds it.
namespace flashattn::sm90 {
extern unsigned char memory[];
alignas(1024) unsigned char memory[cuda_double::kSharedBytes];
}  // namespace flashattn::sm90

namespace cuda_double {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMostThreads = 1024;
constexpr int kWarpgroup = 128;

struct Fiber {
  void *stack = nullptr;
  void *top = nullptr;
  unsigned thread = 0;
  bool finished = false;
  const char *waits_for = nullptr;
};

struct Warp {
  uint64_t values[2][32];
  int op = 0;
  int arrived = 0;
  uint64_t turn = 0;
};

struct Meeting {
  unsigned arrived = 0;
  uint64_t turn = 0;
};

struct Mbarrier {
  uint32_t expected = 0;
  uint32_t pending = 0;
  int64_t bytes = 0;
  uint32_t phase = 0;
};

struct CopyIn {
  uint32_t to;
  FakeTensorMap map;
  uint32_t bar;
  int at[4];
};
struct CopyOut {
  FakeTensorMap map;
  uint32_t from;
  int at[4];
};

// One wgmma of a warpgroup.
struct Product {
  bool is_half, first;
  int n;
  uint64_t a, b;
  int issued = 0;
  bool done = false;
  float *d[kWarpgroup];
  const uint32_t *a_registers[kWarpgroup];
};
struct Warpgroup {
  std::deque<Product> products;
  uint64_t gone = 0;                         // products that left the front
  uint64_t next[kWarpgroup] = {};            // each thread's next product
  std::vector<uint64_t> groups[kWarpgroup];  // for each commit, the product after it
};

struct Machine {
  std::vector<Fiber> fibers = std::vector<Fiber>(kMostThreads);
  Fiber *running = nullptr;
  void *scheduler = nullptr;
  const std::function<void()> *body = nullptr;
  unsigned threads = 0, block = 0, blocks = 0;
  bool progress = false;
  std::string fault;
  Warp warps[kMostThreads / 32];
  std::map<int, Meeting> meetings;
  std::map<uint32_t, Mbarrier> mbarriers;
  std::deque<CopyIn> copies_in;
  std::map<unsigned, std::deque<CopyOut>> copies_out;  // by thread
  Warpgroup warpgroups[kMostThreads / kWarpgroup];
  std::mt19937 random{12345};
};

Machine &machine() {
  static Machine *const instance = new Machine;
  return *instance;
}

unsigned char *const g_shared = flashattn::sm90::memory;

void give_way() {
  Machine &m = machine();
  Fiber *self = m.running;
  cuda_double_switch(&self->top, m.scheduler);
  if (!m.fault.empty() && std::uncaught_exceptions() == 0) throw std::runtime_error(m.fault);
}

extern "C" void cuda_double_enter() {
  Machine &m = machine();
  try {
    (*m.body)();
  } catch (const std::exception &caught) {
    if (m.fault.empty()) m.fault = caught.what();
  }
  m.running->finished = true;
  m.progress = true;
  void *nowhere = nullptr;
  cuda_double_switch(&nowhere, m.scheduler);
}

void prepare(Fiber *fiber, unsigned thread) {
  if (fiber->stack == nullptr) {
    fiber->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber->stack == MAP_FAILED) throw std::bad_alloc();
  }
  fiber->thread = thread;
  fiber->finished = false;
  fiber->waits_for = nullptr;
  // On entry to a function the stack is 8 below a multiple of 16.
  auto *top = reinterpret_cast<uint64_t *>(static_cast<char *>(fiber->stack) + kStackBytes) - 2;
  *top = reinterpret_cast<uint64_t>(&cuda_double_enter);
  top -= 6;
  std::fill_n(top, 6, 0);
  fiber->top = top;
}

uint32_t swizzled(uint32_t address) {
  return address ^ ((address >> 7 & 7) << 4);
}

unsigned char *shared_at(uint32_t address, uint32_t bytes) {
  if (address < kSharedBase || address + bytes > kSharedBase + kSharedBytes)
    broken("an address is outside shared memory");
  return g_shared + (address - kSharedBase);
}

void settle(Mbarrier &bar) {
  if (bar.pending != 0 || bar.bytes != 0) return;
  ++bar.phase;
  bar.pending = bar.expected;
  machine().progress = true;
}

Mbarrier &mbarrier_at(uint32_t bar) {
  const auto found = machine().mbarriers.find(bar);
  if (found == machine().mbarriers.end()) broken("a transaction barrier was not initialised");
  return found->second;
}

// Rows of 64 columns between global memory and shared memory; what is out of bounds is zero, or not written.
void move_box(const FakeTensorMap &map, uint32_t shared, const int (&at)[4], bool in) {
  constexpr int kUnit = 16;
  for (uint32_t r = 0; r < map.box[1]; ++r) {
    const int64_t row = int64_t{at[1]} + r;
    const bool row_inside = row >= 0 && static_cast<uint64_t>(row) < map.dims[1] && at[2] >= 0 &&
                            static_cast<uint64_t>(at[2]) < map.dims[2] && at[3] >= 0 &&
                            static_cast<uint64_t>(at[3]) < map.dims[3];
    char *global = static_cast<char *>(map.address) + row * static_cast<int64_t>(map.strides[0]) +
                   at[2] * static_cast<int64_t>(map.strides[1]) +
                   at[3] * static_cast<int64_t>(map.strides[2]) + at[0] * 2;
    for (uint32_t unit = 0; unit < map.box[0] * 2 / kUnit; ++unit) {
      unsigned char *local = shared_at(swizzled(shared + r * 128 + unit * kUnit), kUnit);
      const int64_t column = int64_t{at[0]} + unit * 8;
      const int64_t columns =
          row_inside ? std::clamp<int64_t>(static_cast<int64_t>(map.dims[0]) - column, 0, 8) : 0;
      if (in) {
        std::memset(local, 0, kUnit);
        std::memcpy(local, global + unit * kUnit, static_cast<size_t>(columns) * 2);
      } else {
        std::memcpy(global + unit * kUnit, local, static_cast<size_t>(columns) * 2);
      }
    }
  }
}

void land(size_t index) {
  Machine &m = machine();
  const CopyIn copy = m.copies_in[index];
  m.copies_in.erase(m.copies_in.begin() + static_cast<std::ptrdiff_t>(index));
  move_box(copy.map, copy.to, copy.at, true);
  Mbarrier &bar = mbarrier_at(copy.bar);
  bar.bytes -= static_cast<int64_t>(copy.map.box[0]) * copy.map.box[1] * 2;
  m.progress = true;
  settle(bar);
}

struct Tables {
  std::vector<float> half = std::vector<float>(65536), bfloat = std::vector<float>(65536);
  Tables() {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      half[bits] = half_to_float(static_cast<uint16_t>(bits));
      bfloat[bits] = bfloat_to_float(static_cast<uint16_t>(bits));
    }
  }
};

void compute(const Product &p) {
  static const Tables *const tables = new Tables;
  const float *values = p.is_half ? tables->half.data() : tables->bfloat.data();
  constexpr int kM = 64, kK = 16;
  static float a[kM][kK], b[kK][256], d[kM][256];
  const auto load = [&](uint32_t address) {
    uint16_t bits;
    std::memcpy(&bits, shared_at(swizzled(address), 2), 2);
    return values[bits];
  };
  const auto start = [](uint64_t descriptor) { return static_cast<uint32_t>(descriptor & 0x3fff) << 4; };
  const auto leading = [](uint64_t descriptor) {
    return static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  };
  const auto stride = [](uint64_t descriptor) {
    return static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  };
  const bool from_registers = p.a_registers[0] != nullptr;
  for (int t = 0; from_registers && t < kWarpgroup; ++t) {
    for (int i = 0; i < 4; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8, column = i / 2 * 8 + t % 4 * 2;
      a[row][column] = values[p.a_registers[t][i] & 0xffff];
      a[row][column + 1] = values[p.a_registers[t][i] >> 16];
    }
  }
  if (!from_registers) {
    for (int m = 0; m < kM; ++m) {
      for (int k = 0; k < kK; ++k) a[m][k] = load(start(p.a) + m / 8 * stride(p.a) + m % 8 * 128 + k * 2);
    }
  }
  for (int k = 0; k < kK; ++k) {
    for (int n = 0; n < p.n; ++n) {
      b[k][n] =
          from_registers
              ? load(start(p.b) + n / 64 * leading(p.b) + k / 8 * stride(p.b) + k % 8 * 128 + n % 64 * 2)
              : load(start(p.b) + n / 8 * stride(p.b) + n % 8 * 128 + k * 2);
    }
  }
  const auto each = [&](auto &&visit) {
    for (int t = 0; t < kWarpgroup; ++t) {
      for (int i = 0; i < p.n / 2; ++i)
        visit(p.d[t][i], d[t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8][i / 4 * 8 + t % 4 * 2 + i % 2]);
    }
  };
  if (p.first) {
    for (auto &row : d) std::fill_n(row, p.n, 0.0F);
  } else {
    each([](float &mine, float &cell) { cell = mine; });
  }
  for (int m = 0; m < kM; ++m) {
    for (int k = 0; k < kK; ++k) {
      const float x = a[m][k];
      for (int n = 0; n < p.n; ++n) d[m][n] += x * b[k][n];
    }
  }
  each([](float &mine, float &cell) { mine = cell; });
}

}  // namespace

Index thread_index() {
  return {machine().running->thread, 0, 0};
}
Index block_index() {
  return {machine().block, 0, 0};
}
Index grid_size() {
  return {machine().blocks, 1, 1};
}

void broken(const char *rule) {
  Machine &m = machine();
  throw std::runtime_error(std::string(rule) + " (block " + std::to_string(m.block) + ", thread " +
                           std::to_string(m.running != nullptr ? m.running->thread : 0) + ")");
}

void wait_until(const char *what, const std::function<bool()> &ready) {
  Machine &m = machine();
  m.running->waits_for = what;
  while (!ready()) give_way();
  m.running->waits_for = nullptr;
  m.progress = true;
}

void run(unsigned blocks, unsigned threads, const std::function<void()> &body) {
  Machine &m = machine();
  m.body = &body;
  m.blocks = blocks;
  m.threads = threads;
  for (m.block = 0; m.block < blocks; ++m.block) {
    m.fault.clear();
    m.meetings.clear();
    m.mbarriers.clear();
    m.copies_in.clear();
    m.copies_out.clear();
    for (Warp &warp : m.warps) warp = {};
    for (Warpgroup &group : m.warpgroups) group = {};
    std::memset(g_shared, 0xff, kSharedBytes);
    for (unsigned t = 0; t < threads; ++t) prepare(&m.fibers[t], t);
    unsigned left = threads;
    while (left > 0) {
      m.progress = false;
      left = 0;
      for (unsigned t = 0; t < threads; ++t) {
        Fiber &fiber = m.fibers[t];
        if (fiber.finished) continue;
        m.running = &fiber;
        cuda_double_switch(&m.scheduler, fiber.top);
        left += fiber.finished ? 0 : 1;
      }
      m.running = nullptr;
      // Copies land in any order, and when nobody can go on without them.
      if (!m.copies_in.empty() && (!m.progress || m.random() % 8 == 0)) land(m.random() % m.copies_in.size());
      if (!m.progress && left > 0 && m.fault.empty()) {
        std::string who;
        for (unsigned t = 0; t < threads && who.size() < 600; ++t) {
          const Fiber &fiber = m.fibers[t];
          if (!fiber.finished && (t % 32 == 0 || m.fibers[t - 1].waits_for != fiber.waits_for))
            who += " " + std::to_string(t) + ":" + (fiber.waits_for != nullptr ? fiber.waits_for : "?");
        }
        m.fault = "nobody can go on:" + who;
      }
    }
    if (!m.fault.empty()) throw std::runtime_error(m.fault);
    if (!m.copies_in.empty()) throw std::runtime_error("a block ended before its copies had landed");
    for (const auto &[thread, copies] : m.copies_out) {
      if (!copies.empty()) throw std::runtime_error("a block ended before its copies had left");
    }
  }
}

const uint64_t *exchange(int op, uint64_t value) {
  Machine &m = machine();
  Warp &warp = m.warps[m.running->thread / 32];
  const uint64_t turn = warp.turn;
  if (warp.arrived == 0) warp.op = op;
  if (warp.op != op) broken("the lanes of a warp are at different places");
  warp.values[turn % 2][m.running->thread % 32] = value;
  if (++warp.arrived == 32) {
    warp.arrived = 0;
    ++warp.turn;
    m.progress = true;
  } else {
    wait_until("the other lanes", [&] { return warp.turn != turn; });
  }
  return warp.values[turn % 2];
}

void barrier(int id, unsigned count) {
  Machine &m = machine();
  Meeting &meeting = m.meetings[id];
  const uint64_t turn = meeting.turn;
  if (++meeting.arrived == (count == 0 ? m.threads : count)) {
    meeting.arrived = 0;
    ++meeting.turn;
    m.progress = true;
  } else {
    wait_until("a barrier of threads", [&] { return meeting.turn != turn; });
  }
}

unsigned char *shared_memory() {
  return g_shared;
}
uint32_t shared_address(const void *at) {
  const auto offset = static_cast<const unsigned char *>(at) - g_shared;
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(kSharedBytes))
    broken("a pointer is not to shared memory");
  return kSharedBase + static_cast<uint32_t>(offset);
}

void mbarrier_init(uint32_t bar, uint32_t arrivals) {
  machine().mbarriers[bar] = {arrivals, arrivals, 0, 0};
}
void mbarrier_arrive(uint32_t address) {
  Mbarrier &bar = mbarrier_at(address);
  if (bar.pending == 0) broken("more arrivals at a transaction barrier than it expects");
  --bar.pending;
  settle(bar);
}
void mbarrier_expect(uint32_t address, uint32_t bytes) {
  mbarrier_at(address).bytes += bytes;
}
bool mbarrier_done(uint32_t bar, uint32_t parity) {
  return mbarrier_at(bar).phase % 2 != parity;
}
void mbarrier_wait(uint32_t bar, uint32_t parity) {
  wait_until("a transaction barrier", [=] { return mbarrier_done(bar, parity); });
}

void copy_in(uint32_t to, const void *map, uint32_t bar, int column, int row, int head, int batch) {
  if (to % 1024 != 0) broken("a swizzled box does not begin at a multiple of 1024 bytes");
  CopyIn copy{to, {}, bar, {column, row, head, batch}};
  std::memcpy(&copy.map, map, sizeof copy.map);
  machine().copies_in.push_back(copy);
}
void copy_out(const void *map, uint32_t from, int column, int row, int head, int batch) {
  if (from % 1024 != 0) broken("a swizzled box does not begin at a multiple of 1024 bytes");
  CopyOut copy{{}, from, {column, row, head, batch}};
  std::memcpy(&copy.map, map, sizeof copy.map);
  machine().copies_out[machine().running->thread].push_back(copy);
}
void copy_out_wait() {
  std::deque<CopyOut> &copies = machine().copies_out[machine().running->thread];
  // Others run first: what they overwrite too early shows.
  for (int turn = 0; turn < 2; ++turn) {
    bool once = false;
    wait_until("its copies to leave", [&] { return std::exchange(once, true); });
  }
  for (const CopyOut &copy : copies) move_box(copy.map, copy.from, copy.at, false);
  copies.clear();
}

void product(bool is_half, int n, bool first, float *d, const uint32_t *a_registers, uint64_t a, uint64_t b) {
  Machine &m = machine();
  const unsigned thread = m.running->thread % kWarpgroup;
  Warpgroup &group = m.warpgroups[m.running->thread / kWarpgroup];
  const uint64_t index = group.next[thread]++ - group.gone;
  if (index == group.products.size()) {
    Product made{};
    made.is_half = is_half;
    made.first = first;
    made.n = n;
    made.a = a;
    made.b = b;
    group.products.push_back(made);
  }
  Product &p = group.products[index];
  if (p.n != n || p.b != b || p.a != a || p.first != first)
    broken("a warpgroup's threads issue different products");
  p.d[thread] = d;
  p.a_registers[thread] = a_registers;
  ++p.issued;
}
void product_commit() {
  Machine &m = machine();
  const unsigned thread = m.running->thread % kWarpgroup;
  Warpgroup &group = m.warpgroups[m.running->thread / kWarpgroup];
  group.groups[thread].push_back(group.next[thread]);
}
void product_wait(int pending) {
  Machine &m = machine();
  const unsigned thread = m.running->thread % kWarpgroup;
  Warpgroup &group = m.warpgroups[m.running->thread / kWarpgroup];
  std::vector<uint64_t> &groups = group.groups[thread];
  if (groups.size() <= static_cast<size_t>(pending)) return;
  const uint64_t until = groups[groups.size() - 1 - static_cast<size_t>(pending)];
  groups.erase(groups.begin(), groups.end() - pending);
  wait_until("the warpgroup's products", [&] {
    return group.gone >= until || group.products[until - 1 - group.gone].issued == kWarpgroup;
  });
  while (group.gone < until) {
    compute(group.products.front());
    group.products.pop_front();
    ++group.gone;
  }
}

float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VALF : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}
float bfloat_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
uint16_t float_to_bfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
uint16_t float_to_half(float value) {
  if (std::isnan(value)) return 0x7fff;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (size == 0.0F) return sign;
  if (size >= 65520.0F) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  const int unit = std::max(exponent - 11, -24);  // of the last place
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, -unit)));
  if (unit == -24 && steps < 1024) return static_cast<uint16_t>(sign | steps);
  // A mantissa that rounds up to 2048 carries into the exponent by itself.
  return static_cast<uint16_t>(sign | (((unit + 24) << 10) + steps));
}

}  // namespace cuda_double
