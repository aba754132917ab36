// SPDX-License-Identifier: Apache-2.0
// A block of device threads on the host: every thread a fiber of one host thread, run in turn, giving way
// where it has to wait for others. What device code asks of the hardware beyond plain C++ is here: warp
// votes and shuffles, barriers, transaction barriers, the copy engine, warpgroup products. Shared memory,
// layouts and swizzles are those of the PTX ISA (sections named in backends/cuda/kernels/ptx).
//
// It shows whether a kernel computes the right thing, whether it can stop for ever, and whether it uses a
// buffer before or after its time: copies land as late, and products are computed as late, as the rules
// allow. It does not show anything of speed, nor races within the order that fibers happen to run in.
#pragma once

#include <cstdint>
#include <functional>

namespace cuda_double {

struct Index {
  unsigned x, y, z;
};

// Of the running fiber.
Index thread_index();
Index block_index();
Index grid_size();

// Runs a kernel: `blocks` blocks one after the other. body is called once by each thread. Throws
// std::runtime_error with the rule that was broken.
void run(unsigned blocks, unsigned threads, const std::function<void()> &body);

// The running fiber waits until ready() holds. what: for the report of a deadlock.
void wait_until(const char *what, const std::function<bool()> &ready);
[[noreturn]] void broken(const char *rule);

// All 32 lanes of the warp give a value and get everybody's, in lane order. op: what is being done, the same
// in all lanes.
const uint64_t *exchange(int op, uint64_t value);
// `count` threads of the block meet at barrier `id`.
void barrier(int id, unsigned count);

constexpr uint32_t kSharedBytes = 232448;  // of a block, at most (compute capability 9.0)
unsigned char *shared_memory();            // of the running block, aligned to 1024 bytes
constexpr uint32_t kSharedBase = 1024;     // its address in the shared window
uint32_t shared_address(const void *at);

// Transaction barriers, by their address.
void mbarrier_init(uint32_t bar, uint32_t arrivals);
void mbarrier_arrive(uint32_t bar);
void mbarrier_expect(uint32_t bar, uint32_t bytes);
bool mbarrier_done(uint32_t bar, uint32_t parity);
void mbarrier_wait(uint32_t bar, uint32_t parity);

// Tiled bulk copies of a map that the double's cuTensorMapEncodeTiled made.
void copy_in(uint32_t to, const void *map, uint32_t bar, int column, int row, int head, int batch);
void copy_out(const void *map, uint32_t from, int column, int row, int head, int batch);
void copy_out_wait();

// D += A B (D = A B when `first`) of m64 n k16, f32 accumulators. a_registers null: A from shared memory by its
// descriptor. is_half: f16, else bf16.
void product(bool is_half, int n, bool first, float *d, const uint32_t *a_registers, uint64_t a, uint64_t b);
void product_commit();
void product_wait(int pending);

float half_to_float(uint16_t bits);
float bfloat_to_float(uint16_t bits);
uint16_t float_to_half(float value);
uint16_t float_to_bfloat(float value);

}  // namespace cuda_double
