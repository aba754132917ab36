// SPDX-License-Identifier: Apache-2.0
// gfx942_model CODE_OBJECT KERNEL bf16|f16 HEAD_DIM: what one step of a forward kernel's main loop issues,
// from executed instructions. Runs one block over n and over n + 8 steps of keys on the interpreter; the
// difference, divided by steps and waves, is the steady state. Nothing is timed: cycles are AMD's published
// issue rates.
//
// Rates per SIMD of a compute unit (CDNA3 ISA and white paper): a vector instruction 4 cycles for its 64
// lanes, transcendental ones 16; MFMA 32x32x8 32 (512 FLOP a cycle); LDS 128 bytes a cycle for the whole
// compute unit.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/gpu/forward_args.h"
#include "backends/hip/kernels/gfx942/shapes.h"
#include "tests/support/gcn/machine.h"

namespace {

using namespace flashattn;

constexpr double kVectorCycles = 4;
constexpr double kTranscendentalCycles = 16;
constexpr double kMatrixCycles = 32;
constexpr double kLdsBytesPerCycle = 128;
constexpr int kSteps = 8;

enum class Kind { kVector, kTranscendental, kMatrix, kLdsRead, kLdsWrite, kGlobal, kScalar, kWait };

bool begins(const std::string &text, const char *prefix) {
  return text.compare(0, std::strlen(prefix), prefix) == 0;
}

Kind kind_of(const std::string &m) {
  if (begins(m, "v_mfma")) return Kind::kMatrix;
  for (const char *name : {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_"}) {
    if (begins(m, name)) return Kind::kTranscendental;
  }
  if (begins(m, "v_")) return Kind::kVector;
  if (begins(m, "ds_read") || begins(m, "ds_bpermute")) return Kind::kLdsRead;
  if (begins(m, "ds_")) return Kind::kLdsWrite;
  if (begins(m, "global_") || begins(m, "buffer_")) return Kind::kGlobal;
  if (m == "s_waitcnt" || m == "s_barrier" || m == "s_nop") return Kind::kWait;
  return Kind::kScalar;
}

// Bytes a wave moves.
double lds_bytes(const std::string &m) {
  for (const auto &[part, bytes] :
       std::map<std::string, double>{{"b128", 1024}, {"b64", 512}, {"b32", 256}}) {
    if (m.find(part) != std::string::npos)
      return begins(m, "ds_read2") || begins(m, "ds_write2") ? 2 * bytes : bytes;
  }
  return 256;
}

struct Shape {
  int dim;
  gpu::TileShape tile;
};

Shape shape_of(int dim) {
  if (dim == 64) return {dim, hip::ShapeOf<64>::kTile};
  if (dim == 128) return {dim, hip::ShapeOf<128>::kTile};
  if (dim == 256) return {dim, hip::ShapeOf<256>::kTile};
  throw std::runtime_error("HEAD_DIM is 64, 128 or 256");
}

// One block of rows against `steps` steps of keys, dense, no mask.
gcn::Statistics run_steps(const gcn::Program &program, const std::string &kernel, int32_t dtype,
                          const Shape &shape, int steps) {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = problem.dtype_o = dtype;
  problem.num_heads_q = problem.num_heads_kv = 1;
  problem.head_dim = problem.head_dim_v = shape.dim;
  problem.max_batch = 1;
  problem.max_seqlen_q = shape.tile.rows;
  problem.max_seqlen_kv = shape.tile.keys * steps;
  problem.softmax_scale = 0.125F;
  problem.num_splits = 1;
  const auto elements = static_cast<size_t>(problem.max_seqlen_q) * static_cast<size_t>(shape.dim);
  const auto key_elements = static_cast<size_t>(problem.max_seqlen_kv) * static_cast<size_t>(shape.dim);
  std::vector<uint16_t> q(elements, 0), k(key_elements, 0), v(key_elements, 0), o(elements, 0);
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = 1;
  call.seqlen_q = problem.max_seqlen_q;
  call.seqlen_kv = problem.max_seqlen_kv;
  for (auto [tensor, data] :
       {std::pair(&call.q, &q), std::pair(&call.k, &k), std::pair(&call.v, &v), std::pair(&call.o, &o)}) {
    *tensor = {data->data(), static_cast<int64_t>(data->size()), shape.dim, shape.dim};
  }
  gpu::ForwardArgs args = gpu::describe_call(problem, call);
  gpu::cut_call(problem, call, shape.tile, gpu::make_split_rule(problem, shape.tile, 1), 1 << 20, &args);
  const int64_t grid = args.blocks;

  gcn::Launch launch;
  launch.block = {static_cast<uint32_t>(shape.tile.threads), 1, 1};
  launch.arguments.resize(sizeof args + sizeof grid);
  std::memcpy(launch.arguments.data(), &args, sizeof args);
  std::memcpy(launch.arguments.data() + sizeof args, &grid, sizeof grid);
  std::vector<gcn::MemoryRange> ranges;
  for (const auto *data : {&q, &k, &v, &o}) {
    const auto begin = reinterpret_cast<uint64_t>(data->data());
    ranges.push_back({begin, begin + data->size() * 2, true, "tensor"});
  }
  gcn::MachineOptions options;
  options.count_bank_conflicts = true;
  return gcn::run(program, kernel, launch, ranges, options);
}

void report(const gcn::Program &program, const std::string &kernel, int32_t dtype, const Shape &shape) {
  const gcn::Statistics few = run_steps(program, kernel, dtype, shape, kSteps);
  const gcn::Statistics many = run_steps(program, kernel, dtype, shape, 2 * kSteps);
  const double share = 1.0 / kSteps / (shape.tile.threads / 64.0);  // per wave and step
  std::map<Kind, double> count;
  std::map<std::string, double> by_name;
  double bytes = 0;
  for (size_t i = 0; i < many.executed.size(); ++i) {
    const double executed = static_cast<double>(many.executed[i] - few.executed[i]) * share;
    if (executed == 0) continue;
    const std::string &mnemonic = program.instructions()[i].mnemonic;
    const Kind kind = kind_of(mnemonic);
    count[kind] += executed;
    by_name[mnemonic] += executed;
    if (kind == Kind::kLdsRead || kind == Kind::kLdsWrite) bytes += executed * lds_bytes(mnemonic);
  }
  const double vector =
      count[Kind::kVector] * kVectorCycles + count[Kind::kTranscendental] * kTranscendentalCycles;
  const double matrix = count[Kind::kMatrix] * kMatrixCycles;
  const double lds =
      bytes * (shape.tile.threads / 64.0) / kLdsBytesPerCycle;  // the compute unit's, per block
  std::printf("per wave and step of %d keys:\n", shape.tile.keys);
  std::printf("  MFMA %.0f (%.0f cycles), VALU %.0f + %.0f transcendental (%.0f cycles), VALU/MFMA %.2f\n",
              count[Kind::kMatrix], matrix, count[Kind::kVector], count[Kind::kTranscendental], vector,
              vector / matrix);
  std::printf("  LDS %.0f reads, %.0f writes (%.0f cycles per block), global %.0f, scalar %.0f, waits %.0f\n",
              count[Kind::kLdsRead], count[Kind::kLdsWrite], lds, count[Kind::kGlobal], count[Kind::kScalar],
              count[Kind::kWait]);
  std::printf("  bank conflict cycles per block and step: %.1f\n",
              static_cast<double>(many.bank_conflict_cycles - few.bank_conflict_cycles) / kSteps);
  const gcn::Kernel &k = program.kernel(kernel);
  std::printf("  %u VGPRs of which %u AGPRs, %u bytes of scratch, %u bytes of LDS\n", k.vgpr_count,
              k.agpr_count, k.scratch_bytes, k.lds_bytes);
  // 4 SIMDs, one wave each; VALU and MFMA of one wave do not overlap, of two waves they can.
  const double flops = 4.0 * 32 * shape.tile.keys * shape.dim * 4;  // 4 waves of 32 rows
  constexpr double kClock = 2.1e9;
  constexpr int kUnits = 304;
  std::printf("  bound for %d CUs at 2.1 GHz: %.0f TFLOP/s with VALU under MFMA, %.0f one after the other\n",
              kUnits, flops / std::max(matrix, vector) * kClock * kUnits * 1e-12,
              flops / (matrix + vector) * kClock * kUnits * 1e-12);
  for (const auto &[name, executed] : by_name) std::printf("    %8.1f %s\n", executed, name.c_str());
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: gfx942_model CODE_OBJECT KERNEL bf16|f16 HEAD_DIM\n");
    return 1;
  }
  try {
    std::ifstream file(argv[1], std::ios::binary);
    if (!file) throw std::runtime_error(std::string("cannot read ") + argv[1]);
    const std::string image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const gcn::Program program(image, FLASHATTN_GCN_OBJDUMP);
    const int32_t dtype = std::strcmp(argv[3], "f16") == 0 ? FLASHATTN_DTYPE_F16 : FLASHATTN_DTYPE_BF16;
    report(program, argv[2], dtype, shape_of(std::atoi(argv[4])));
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
  return 0;
}
