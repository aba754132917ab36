// SPDX-License-Identifier: Apache-2.0
// gfx942_model CODE_OBJECT KERNEL bf16|f16 HEAD_DIM: what one step of a forward kernel's main loop issues,
// from executed instructions. Runs one block over n and over n + 8 steps of keys on the interpreter; the
// difference, divided by steps and waves, is the steady state. Then the last block of a causal sequence as a whole,
// with its masked steps, beginning and end. Nothing is timed: cycles are AMD's published issue rates.
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
constexpr int kCausalKeys = 4096;

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

// 64-bit adds and products, which the kernels need for addresses alone.
bool is_address(const std::string &m) {
  for (const char *name : {"v_add_co_", "v_addc_co_", "v_lshl_add_u64", "v_mad_u64_", "v_mad_i64_",
                           "v_mul_lo_", "v_mul_hi_", "v_lshlrev_b64", "v_ashrrev_i32"}) {
    if (begins(m, name)) return true;
  }
  return false;
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

// One block of rows, the last of its sequence, against `steps` steps of keys, dense.
gcn::Statistics run_steps(const gcn::Program &program, const std::string &kernel, int32_t dtype,
                          const Shape &shape, int steps, bool causal) {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = problem.dtype_o = dtype;
  problem.num_heads_q = problem.num_heads_kv = 1;
  problem.head_dim = problem.head_dim_v = shape.dim;
  problem.max_batch = 1;
  problem.max_seqlen_q = shape.tile.rows;
  problem.max_seqlen_kv = shape.tile.keys * steps;
  problem.softmax_scale = 0.125F;
  problem.causal = causal ? 1 : 0;
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

// Cycles of issue and what makes them up.
struct Tally {
  std::map<Kind, double> count;
  std::map<std::string, double> by_name;
  double address = 0;
  double lds_bytes = 0;

  double vector() {
    return count[Kind::kVector] * kVectorCycles + count[Kind::kTranscendental] * kTranscendentalCycles;
  }
  double matrix() { return count[Kind::kMatrix] * kMatrixCycles; }
};

// executed: by instruction, times `share`.
Tally tally(const gcn::Program &program, const std::vector<uint64_t> &executed, double share) {
  Tally result;
  for (size_t i = 0; i < executed.size(); ++i) {
    const double times = static_cast<double>(executed[i]) * share;
    if (times == 0) continue;
    const std::string &mnemonic = program.instructions()[i].mnemonic;
    const Kind kind = kind_of(mnemonic);
    result.count[kind] += times;
    result.by_name[mnemonic] += times;
    if (is_address(mnemonic)) result.address += times;
    if (kind == Kind::kLdsRead || kind == Kind::kLdsWrite) result.lds_bytes += times * lds_bytes(mnemonic);
  }
  return result;
}

// Vector instructions between one MFMA of the loop and the next, in program order, the loop closed to a ring.
struct Gaps {
  double mean = 0;
  int longest = 0;
  int within_reach = 0;  // of all gaps, those that an MFMA's cycles cover
  int count = 0;
};

Gaps gaps(const gcn::Program &program, const std::vector<uint64_t> &executed, double share) {
  std::vector<int> between;
  int run = 0;
  int before_first = 0;
  for (size_t i = 0; i < executed.size(); ++i) {
    if (static_cast<double>(executed[i]) * share < 0.5) continue;
    const Kind kind = kind_of(program.instructions()[i].mnemonic);
    if (kind == Kind::kVector) run += 1;
    if (kind == Kind::kTranscendental) run += static_cast<int>(kTranscendentalCycles / kVectorCycles);
    if (kind != Kind::kMatrix) continue;
    if (between.empty() && before_first == 0) {
      before_first = run + 1;
    } else {
      between.push_back(run);
    }
    run = 0;
  }
  if (before_first > 0) between.push_back(run + before_first - 1);
  Gaps result;
  for (const int gap : between) {
    result.mean += gap;
    result.longest = std::max(result.longest, gap);
    result.within_reach += gap * kVectorCycles < kMatrixCycles;
  }
  result.count = static_cast<int>(between.size());
  result.mean /= std::max(result.count, 1);
  return result;
}

void report(const gcn::Program &program, const std::string &kernel, int32_t dtype, const Shape &shape) {
  const gcn::Statistics few = run_steps(program, kernel, dtype, shape, kSteps, false);
  const gcn::Statistics many = run_steps(program, kernel, dtype, shape, 2 * kSteps, false);
  std::vector<uint64_t> steady(many.executed.size());
  for (size_t i = 0; i < steady.size(); ++i) steady[i] = many.executed[i] - few.executed[i];
  const double waves = shape.tile.threads / 64.0;
  const double share = 1.0 / kSteps / waves;
  Tally step = tally(program, steady, share);
  std::printf("per wave and step of %d keys:\n", shape.tile.keys);
  std::printf("  MFMA %.0f (%.0f cycles), VALU %.0f + %.0f transcendental (%.0f cycles), VALU/MFMA %.2f\n",
              step.count[Kind::kMatrix], step.matrix(), step.count[Kind::kVector],
              step.count[Kind::kTranscendental], step.vector(), step.vector() / step.matrix());
  const Gaps between = gaps(program, steady, share);
  std::printf(
      "  VALU between MFMAs: mean %.1f, longest %d, %d of %d within an MFMA's cycles; address VALU %.0f\n",
      between.mean, between.longest, between.within_reach, between.count, step.address);
  std::printf("  LDS %.0f reads, %.0f writes (%.0f cycles per block), global %.0f, scalar %.0f, waits %.0f\n",
              step.count[Kind::kLdsRead], step.count[Kind::kLdsWrite],
              step.lds_bytes * waves / kLdsBytesPerCycle, step.count[Kind::kGlobal],
              step.count[Kind::kScalar], step.count[Kind::kWait]);
  std::printf("  bank conflict cycles per block and step: %.1f\n",
              static_cast<double>(many.bank_conflict_cycles - few.bank_conflict_cycles) / kSteps);
  const gcn::Kernel &k = program.kernel(kernel);
  std::printf("  %u VGPRs of which %u AGPRs, %u bytes of scratch, %u bytes of LDS\n", k.vgpr_count,
              k.agpr_count, k.scratch_bytes, k.lds_bytes);
  const gcn::Statistics causal =
      run_steps(program, kernel, dtype, shape, kCausalKeys / shape.tile.keys, true);
  Tally whole = tally(program, causal.executed, 1);
  std::printf("last block of a causal sequence of %d keys, all of it: VALU/MFMA %.2f\n", kCausalKeys,
              whole.vector() / whole.matrix());
  // 4 SIMDs, one wave each; VALU and MFMA of one wave do not overlap, of two waves they can.
  const double flops = 4.0 * 32 * shape.tile.keys * shape.dim * 4;  // 4 waves of 32 rows
  constexpr double kClock = 2.1e9;
  constexpr int kUnits = 304;
  std::printf("  bound for %d CUs at 2.1 GHz: %.0f TFLOP/s with VALU under MFMA, %.0f one after the other\n",
              kUnits, flops / std::max(step.matrix(), step.vector()) * kClock * kUnits * 1e-12,
              flops / (step.matrix() + step.vector()) * kClock * kUnits * 1e-12);
  for (const auto &[name, executed] : step.by_name) std::printf("    %8.1f %s\n", executed, name.c_str());
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
