// SPDX-License-Identifier: Apache-2.0
// The LDS of one workgroup, with the checks that hardware does not make: bounds, alignment, data races
// between waves by barrier epoch, and touching bytes that a load or a write has been asked for but not waited
// for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

class Lds {
 public:
  // bytes: static plus dynamic size of the kernel. Contents are poison.
  void reset(uint32_t bytes);

  // All waves have passed a barrier: what was written before is ordered before what is read after.
  void next_epoch();

  using Addresses = std::array<uint32_t, kLanes>;

  // Checks and records a read of `bytes` bytes at addresses[lane] by each lane of the set `lanes`; what they
  // read is at data() + addresses[lane].
  void read(const Wave &wave, const Instruction &instruction, uint64_t lanes, const Addresses &addresses,
            uint32_t bytes);
  const uint8_t *data() const { return bytes_.data(); }

  // A write by this wave is under way until end_write: it may land at any moment in between, so that no wave
  // may touch the bytes meanwhile.
  void begin_write(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes);
  void end_write(const Wave &wave, const Instruction &instruction, uint32_t address, const void *from,
                 uint32_t bytes);

 private:
  // Races are tracked for pairs of bytes, the smallest element the kernels share. Two waves that write the
  // two bytes of one pair are reported although hardware keeps them apart.
  static constexpr uint32_t kGranule = 2;
  struct Granule {
    uint32_t write_epoch = 0;
    uint32_t read_epoch = 0;
    uint16_t readers = 0;  // waves, by bit, in read_epoch
    uint8_t writer = 0;    // wave, in write_epoch
    uint8_t pending = 0;   // writes under way
  };

  // A read that was in bounds while nothing was written in this epoch nor under way: no race until a write comes.
  struct QuietRead {
    Addresses addresses;
    uint64_t lanes;
    uint32_t bytes;
    uint16_t reader;  // its bit
  };
  static constexpr size_t kMostQuietReads = 4096;

  void check_bounds(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes) const;
  void note_read(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes);
  void note_write(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes);
  void add_reader(uint16_t reader, Granule *granule) const;
  // Enters the quiet reads into the granules.
  void enter_quiet_reads();

  std::vector<uint8_t> bytes_;
  std::vector<Granule> granules_;
  std::vector<QuietRead> quiet_reads_;
  uint32_t epoch_ = 1;
  uint32_t under_way_ = 0;  // writes
  bool written_in_epoch_ = false;
};

// Extra cycles an LDS instruction takes because lanes that are served together touch different words of one
// bank. 32 banks of 4 bytes. Lanes served together: b32 halves of the wave, b64 quarters; b128 writes eight
// neighbours; b128 reads 4 lanes and the 4 that lie 20 (even) or 12 (odd) further on (ROCm Composable Kernel
// documentation, "Understanding AMD GPU LDS and bank conflicts"). lanes: active lanes; addresses: bytes.
uint32_t bank_conflict_cycles(uint64_t lanes, const uint32_t *addresses, uint32_t bytes, bool is_read);

}  // namespace flashattn::gcn
