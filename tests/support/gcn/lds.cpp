// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/lds.h"

#include <algorithm>
#include <cstring>

#include "tests/support/gcn/trap.h"
#include "tests/support/gcn/wave.h"

namespace flashattn::gcn {
namespace {

constexpr uint8_t kPoison = 0xa5;
constexpr uint32_t kBanks = 32;
constexpr uint32_t kBankBytes = 4;

// ds_read_b96 needs 4 bytes; the rest their own size (CDNA3 ISA, "LDS alignment").
uint32_t alignment_of(uint32_t bytes) {
  if (bytes == 12) return 4;
  return std::min(bytes, 16U);
}

// The group of lanes that `lane` is served with.
uint32_t service_group(uint32_t lane, uint32_t bytes, bool is_read) {
  if (bytes <= 4) return lane / 32;
  if (bytes == 8) return lane / 16;
  if (!is_read) return lane / 8;
  // Of each half wave the quads 0 and 5, 1 and 4, 2 and 7, 3 and 6 go together.
  const uint32_t quad = lane % 32 / 4;
  const uint32_t pair = quad < 4 ? quad : (quad - 4) ^ 1;
  return lane / 32 * 4 + pair;
}

}  // namespace

void Lds::reset(uint32_t bytes) {
  bytes_.assign(bytes, kPoison);
  granules_.resize((bytes + kGranule - 1) / kGranule);
  for (Granule &granule : granules_) granule.pending = 0;
  under_way_ = 0;
  next_epoch();
}

void Lds::next_epoch() {
  ++epoch_;
  quiet_reads_.clear();
  written_in_epoch_ = false;
}

void Lds::check_bounds(const Wave &wave, const Instruction &instruction, uint32_t address,
                       uint32_t bytes) const {
  if (address > bytes_.size() || bytes_.size() - address < bytes) {
    trap_at(wave, instruction,
            "LDS access out of bounds, the workgroup has " + std::to_string(bytes_.size()) + " bytes",
            address);
  }
  if (address % alignment_of(bytes) != 0) trap_at(wave, instruction, "misaligned LDS access", address);
}

void Lds::add_reader(uint16_t reader, Granule *granule) const {
  if (granule->read_epoch != epoch_) granule->readers = 0;
  granule->read_epoch = epoch_;
  granule->readers |= reader;
}

void Lds::note_read(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes) {
  for (uint32_t i = address / kGranule; i <= (address + bytes - 1) / kGranule; ++i) {
    Granule &granule = granules_[i];
    if (granule.pending != 0) {
      trap_at(wave, instruction, "LDS read of bytes whose write is still under way", i * kGranule);
    }
    if (granule.write_epoch == epoch_ && granule.writer != wave.id) {
      trap_at(wave, instruction,
              "LDS race: read of bytes that wave " + std::to_string(granule.writer) +
                  " wrote since the last barrier",
              i * kGranule);
    }
    add_reader(static_cast<uint16_t>(1U << wave.id), &granule);
  }
}

void Lds::enter_quiet_reads() {
  for (const QuietRead &read : quiet_reads_) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((read.lanes >> lane & 1) == 0) continue;
      const uint32_t address = read.addresses[lane];
      for (uint32_t i = address / kGranule; i <= (address + read.bytes - 1) / kGranule; ++i) {
        add_reader(read.reader, &granules_[i]);
      }
    }
  }
  quiet_reads_.clear();
}

void Lds::note_write(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes) {
  if (!quiet_reads_.empty()) enter_quiet_reads();
  written_in_epoch_ = true;
  const uint16_t others = static_cast<uint16_t>(~(1U << wave.id));
  for (uint32_t i = address / kGranule; i <= (address + bytes - 1) / kGranule; ++i) {
    Granule &granule = granules_[i];
    if (granule.pending != 0) {
      trap_at(wave, instruction, "LDS write of bytes whose earlier write is still under way", i * kGranule);
    }
    const bool written = granule.write_epoch == epoch_ && granule.writer != wave.id;
    const bool read = granule.read_epoch == epoch_ && (granule.readers & others) != 0;
    if (written || read) {
      trap_at(wave, instruction,
              std::string("LDS race: write of bytes that another wave ") + (written ? "wrote" : "read") +
                  " since the last barrier",
              i * kGranule);
    }
    granule.write_epoch = epoch_;
    granule.writer = static_cast<uint8_t>(wave.id);
  }
}

void Lds::read(const Wave &wave, const Instruction &instruction, uint64_t lanes, const Addresses &addresses,
               uint32_t bytes) {
  uint32_t highest = 0;
  uint32_t low_bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t address = (lanes >> lane & 1) != 0 ? addresses[lane] : 0;
    highest = std::max(highest, address);
    low_bits |= address;
  }
  const bool inside = bytes <= bytes_.size() && highest <= bytes_.size() - bytes;
  if (!inside || low_bits % alignment_of(bytes) != 0) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) != 0) check_bounds(wave, instruction, addresses[lane], bytes);
    }
  }
  if (!written_in_epoch_ && under_way_ == 0) {
    quiet_reads_.push_back({addresses, lanes, bytes, static_cast<uint16_t>(1U << wave.id)});
    if (quiet_reads_.size() == kMostQuietReads) enter_quiet_reads();
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) note_read(wave, instruction, addresses[lane], bytes);
  }
}

void Lds::begin_write(const Wave &wave, const Instruction &instruction, uint32_t address, uint32_t bytes) {
  check_bounds(wave, instruction, address, bytes);
  note_write(wave, instruction, address, bytes);
  for (uint32_t i = address / kGranule; i <= (address + bytes - 1) / kGranule; ++i) ++granules_[i].pending;
  ++under_way_;
}

void Lds::end_write(const Wave &wave, const Instruction &instruction, uint32_t address, const void *from,
                    uint32_t bytes) {
  for (uint32_t i = address / kGranule; i <= (address + bytes - 1) / kGranule; ++i) --granules_[i].pending;
  --under_way_;
  // Within one epoch nobody can have touched the bytes since begin_write.
  if (granules_[address / kGranule].write_epoch != epoch_) note_write(wave, instruction, address, bytes);
  std::memcpy(&bytes_[address], from, bytes);
}

uint32_t bank_conflict_cycles(uint64_t lanes, const uint32_t *addresses, uint32_t bytes, bool is_read) {
  constexpr uint32_t kMostGroups = 8;
  // Distinct words per bank of each group; lanes that read the same word share one access.
  std::vector<uint32_t> words[kMostGroups][kBanks];
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const uint32_t group = service_group(lane, bytes, is_read);
    for (uint32_t at = addresses[lane] / kBankBytes; at <= (addresses[lane] + bytes - 1) / kBankBytes; ++at) {
      std::vector<uint32_t> &bank = words[group][at % kBanks];
      if (std::find(bank.begin(), bank.end(), at) == bank.end()) bank.push_back(at);
    }
  }
  uint32_t extra = 0;
  for (const auto &group : words) {
    size_t most = 1;
    for (const auto &bank : group) most = std::max(most, bank.size());
    extra += static_cast<uint32_t>(most - 1);
  }
  return extra;
}

}  // namespace flashattn::gcn
