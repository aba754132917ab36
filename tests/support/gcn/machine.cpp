// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/machine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

constexpr uint32_t kScalarPoison = 0xa5a5a5a5U;
constexpr uint32_t kVectorPoison = 0xffffffffU;  // a NaN in every format
constexpr uint32_t kMostWaves = 16;              // of a workgroup

// Bits of kernel_code_properties (AMDGPUUsage, "Kernel Descriptor").
constexpr uint16_t kPrivateSegmentBuffer = 1 << 0;
constexpr uint16_t kDispatchPointer = 1 << 1;
constexpr uint16_t kQueuePointer = 1 << 2;
constexpr uint16_t kArgumentPointer = 1 << 3;
constexpr uint16_t kDispatchId = 1 << 4;
constexpr uint16_t kFlatScratchInit = 1 << 5;
constexpr uint16_t kPrivateSegmentSize = 1 << 6;

// The kernel argument segment: the caller's bytes, poison, and the hidden arguments that describe the grid.
std::vector<uint8_t> argument_segment(const Kernel &kernel, const Launch &launch) {
  std::vector<uint8_t> segment(std::max<size_t>(kernel.argument_bytes, launch.arguments.size()),
                               static_cast<uint8_t>(kScalarPoison));
  std::copy(launch.arguments.begin(), launch.arguments.end(), segment.begin());
  for (const Argument &argument : kernel.arguments) {
    uint64_t value = 0;
    const size_t axis = argument.kind.empty() ? 0 : static_cast<size_t>(argument.kind.back() - 'x');
    const std::string stem = argument.kind.substr(0, argument.kind.find_last_of('_') + 1);
    if (stem == "hidden_block_count_") {
      value = launch.grid[axis];
    } else if (stem == "hidden_group_size_") {
      value = launch.block[axis];
    } else if (stem == "hidden_remainder_" || stem == "hidden_global_offset_") {
      value = 0;
    } else if (argument.kind == "hidden_grid_dims") {
      value = 3;
    } else {
      continue;
    }
    if (argument.offset + argument.size > segment.size()) throw std::runtime_error("bad argument metadata");
    std::memcpy(&segment[argument.offset], &value, std::min<size_t>(argument.size, sizeof value));
  }
  return segment;
}

class Machine {
 public:
  Machine(const Program &program, const Kernel &kernel, const Launch &launch,
          const std::vector<MemoryRange> &memory, const MachineOptions &options)
      : program_(program),
        kernel_(kernel),
        launch_(launch),
        options_(options),
        arguments_(argument_segment(kernel, launch)),
        memory_(with_arguments(memory)),
        random_(options.seed) {
    work_items_ = launch.block[0] * launch.block[1] * launch.block[2];
    const uint32_t wave_count = (work_items_ + kLanes - 1) / kLanes;
    if (work_items_ == 0 || wave_count > kMostWaves)
      throw std::runtime_error("a block has 1 to 1024 work items");
    if (kernel.scratch_bytes != 0)
      throw std::runtime_error("kernel " + kernel.name + " uses scratch, which is not modelled");
    entry_ = program.index_of(kernel.entry);
    if (entry_ < 0) throw std::runtime_error("no instruction at the entry of " + kernel.name);
    waves_ = std::vector<Wave>(wave_count);
    statistics_.executed.assign(program.instructions().size(), 0);
    statistics_.waited_for.assign(program.instructions().size(), 0);
    workgroup_.memory = &memory_;
    workgroup_.statistics = &statistics_;
    workgroup_.count_bank_conflicts = options.count_bank_conflicts;
  }

  Statistics run_grid() {
    const uint64_t count = static_cast<uint64_t>(launch_.grid[0]) * launch_.grid[1] * launch_.grid[2];
    std::vector<uint64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (const uint64_t index : order) {
      workgroup_.id = {static_cast<uint32_t>(index % launch_.grid[0]),
                       static_cast<uint32_t>(index / launch_.grid[0] % launch_.grid[1]),
                       static_cast<uint32_t>(index / launch_.grid[0] / launch_.grid[1])};
      run_workgroup();
    }
    return std::move(statistics_);
  }

 private:
  std::vector<MemoryRange> with_arguments(std::vector<MemoryRange> ranges) const {
    const uint64_t begin = reinterpret_cast<uint64_t>(arguments_.data());
    ranges.push_back({begin, begin + arguments_.size(), false, "the kernel arguments"});
    return ranges;
  }

  // User registers in the order of the properties, then preloaded arguments, then workgroup ids (AMDGPUUsage,
  // "Initial Kernel Execution State").
  void set_up_scalars(Wave *wave) const {
    wave->s.fill(kScalarPoison);
    int next = 0;
    if ((kernel_.properties & kPrivateSegmentBuffer) != 0) next += 4;
    if ((kernel_.properties & kDispatchPointer) != 0) next += 2;
    if ((kernel_.properties & kQueuePointer) != 0) next += 2;
    if ((kernel_.properties & kArgumentPointer) != 0) {
      wave->set_pair(next, reinterpret_cast<uint64_t>(arguments_.data()));
      next += 2;
    }
    if ((kernel_.properties & kDispatchId) != 0) next += 2;
    if ((kernel_.properties & kFlatScratchInit) != 0) next += 2;
    if ((kernel_.properties & kPrivateSegmentSize) != 0) next += 1;
    const uint32_t preloaded = kernel_.preload & 127U;
    const uint32_t from = kernel_.preload >> 7;
    for (uint32_t k = 0; k < preloaded && 4 * (from + k) + 4 <= arguments_.size(); ++k) {
      std::memcpy(&wave->s[next + static_cast<int>(k)], &arguments_[4 * (from + k)], 4);
    }
    next = static_cast<int>(kernel_.rsrc2 >> 1 & 31);  // USER_SGPR_COUNT
    for (int axis = 0; axis < 3; ++axis) {
      if ((kernel_.rsrc2 >> (7 + axis) & 1) != 0) wave->s[next++] = workgroup_.id[axis];
    }
  }

  // EXEC, and the packed work item id in v0: x in bits 9:0, y in 19:10, z in 29:20.
  void set_up_lanes(Wave *wave) const {
    for (int i = 0; i < program_.vector_registers(); ++i) wave->v[i].fill(kVectorPoison);
    for (int i = 0; i < program_.accumulators(); ++i) wave->a[i].fill(kVectorPoison);
    uint64_t exec = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t item = static_cast<uint32_t>(wave->id * kLanes + lane);
      if (item >= work_items_) break;
      exec |= uint64_t{1} << lane;
      wave->v[0][lane] = item % launch_.block[0] | item / launch_.block[0] % launch_.block[1] << 10 |
                         item / (launch_.block[0] * launch_.block[1]) << 20;
    }
    wave->set_pair(kExec, exec);
  }

  void set_up(Wave *wave, int id) {
    wave->id = id;
    wave->workgroup = &workgroup_;
    wave->pending.clear();
    wave->scc = wave->done = wave->at_barrier = false;
    wave->next = entry_;
    set_up_scalars(wave);
    set_up_lanes(wave);
  }

  void run_workgroup() {
    workgroup_.lds.reset(kernel_.lds_bytes + launch_.dynamic_lds_bytes);
    for (size_t i = 0; i < waves_.size(); ++i) set_up(&waves_[i], static_cast<int>(i));
    while (Wave *wave = pick()) {
      const uint64_t turn = options_.quantum == 0 ? ~uint64_t{0} : 1 + random_() % options_.quantum;
      run_wave(wave, turn);
    }
  }

  // A wave that can run, by chance; opens the barrier when all that are alive stand at it. Null when all are
  // done.
  Wave *pick() {
    std::array<Wave *, kMostWaves> ready;
    size_t count = 0;
    size_t alive = 0;
    for (Wave &wave : waves_) {
      alive += !wave.done;
      if (!wave.done && !wave.at_barrier) ready[count++] = &wave;
    }
    if (alive == 0) return nullptr;
    if (count == 0) {
      workgroup_.lds.next_epoch();
      for (Wave &wave : waves_) {
        wave.at_barrier = false;
        if (!wave.done) ready[count++] = &wave;
      }
    }
    return ready[random_() % count];
  }

  void run_wave(Wave *wave, uint64_t turn) {
    const Instruction *instructions = program_.instructions().data();
    const int32_t end = static_cast<int32_t>(program_.instructions().size());
    for (; turn > 0 && !wave->done && !wave->at_barrier; --turn) {
      if (wave->next >= end) trap(*wave, instructions[wave->at], "ran past the last instruction");
      wave->at = wave->next++;
      const Instruction &instruction = instructions[wave->at];
      if (instruction.execute == nullptr) trap(*wave, instruction, "unknown instruction");
      if (!wave->pending.empty() && wave->pending.touches(instruction)) {
        trap(*wave, instruction,
             "a register is touched while a load into it is under way: no s_waitcnt between");
      }
      ++statistics_.instructions;
      ++statistics_.executed[static_cast<size_t>(wave->at)];
      instruction.execute(*wave, instruction);
      if (options_.eager_memory && !wave->pending.empty()) wave->pending.wait_for_all(*wave);
    }
    if (wave->done) wave->pending.wait_for_all(*wave);
    if (options_.instruction_limit != 0 && statistics_.instructions > options_.instruction_limit) {
      trap(*wave, instructions[wave->at],
           "the limit of " + std::to_string(options_.instruction_limit) + " instructions is passed");
    }
  }

  const Program &program_;
  const Kernel &kernel_;
  const Launch &launch_;
  const MachineOptions &options_;
  std::vector<uint8_t> arguments_;
  GlobalMemory memory_;
  std::mt19937_64 random_;
  uint32_t work_items_ = 0;
  int32_t entry_ = -1;
  std::vector<Wave> waves_;
  Workgroup workgroup_;
  Statistics statistics_;
};

}  // namespace

void trap(const Wave &wave, const Instruction &instruction, const std::string &what) {
  char where[96];
  std::snprintf(where, sizeof where, " [workgroup %u,%u,%u wave %d at 0x%llx] ", wave.workgroup->id[0],
                wave.workgroup->id[1], wave.workgroup->id[2], wave.id,
                static_cast<unsigned long long>(instruction.address));
  throw Trap(what + where + instruction.text);
}

void trap_at(const Wave &wave, const Instruction &instruction, const std::string &what, uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof text, " (address 0x%llx)", static_cast<unsigned long long>(address));
  trap(wave, instruction, what + text);
}

Statistics run(const Program &program, const std::string &kernel, const Launch &launch,
               const std::vector<MemoryRange> &memory, const MachineOptions &options) {
  return Machine(program, program.kernel(kernel), launch, memory, options).run_grid();
}

}  // namespace flashattn::gcn
