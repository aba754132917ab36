// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace flashattn::gcn {
namespace {

constexpr uint16_t kMachineAmdgpu = 224;  // EM_AMDGPU
constexpr uint8_t kOsAbiHsa = 64;         // ELFOSABI_AMDGPU_HSA
constexpr uint32_t kMetadataNote = 32;    // NT_AMDGPU_METADATA
constexpr size_t kDescriptorBytes = 64;

// EF_AMDGPU_MACH of e_flags.
const std::map<uint32_t, const char *> kMachines = {
    {0x2f, "gfx906"}, {0x30, "gfx908"}, {0x3f, "gfx90a"}, {0x40, "gfx940"},
    {0x4b, "gfx941"}, {0x4c, "gfx942"}, {0x4f, "gfx950"},
};

// A copy of a T at `offset`, checked against the image.
template <typename T>
T read(const std::string &image, uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) {
    throw std::runtime_error("the code object ends at byte " + std::to_string(image.size()) +
                             ", before something it points to");
  }
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

bool is_code_object(const Elf64_Ehdr &header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == kMachineAmdgpu && header.e_ident[EI_OSABI] == kOsAbiHsa;
}

std::vector<Elf64_Shdr> sections(const std::string &image, const Elf64_Ehdr &header) {
  std::vector<Elf64_Shdr> all;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    all.push_back(read<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr)));
  }
  return all;
}

// The kernel descriptor, 64 bytes (AMDGPUUsage, "Kernel Descriptor").
Kernel read_descriptor(const std::string &image, uint64_t offset, uint64_t address) {
  read<std::array<char, kDescriptorBytes>>(image, offset);
  Kernel kernel;
  kernel.lds_bytes = read<uint32_t>(image, offset);
  kernel.scratch_bytes = read<uint32_t>(image, offset + 4);
  kernel.argument_bytes = read<uint32_t>(image, offset + 8);
  kernel.entry = address + static_cast<uint64_t>(read<int64_t>(image, offset + 16));
  kernel.rsrc3 = read<uint32_t>(image, offset + 44);
  kernel.rsrc1 = read<uint32_t>(image, offset + 48);
  kernel.rsrc2 = read<uint32_t>(image, offset + 52);
  kernel.properties = read<uint16_t>(image, offset + 56);
  kernel.preload = read<uint16_t>(image, offset + 58);
  return kernel;
}

void read_symbols(const std::string &image, const std::vector<Elf64_Shdr> &all, CodeObject *object) {
  const std::string suffix = ".kd";
  for (const Elf64_Shdr &table : all) {
    if (table.sh_type != SHT_DYNSYM && table.sh_type != SHT_SYMTAB) continue;
    if (table.sh_link >= all.size()) throw std::runtime_error("a symbol table names no string table");
    const Elf64_Shdr &strings = all[table.sh_link];
    for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = read<Elf64_Sym>(image, table.sh_offset + i * sizeof(Elf64_Sym));
      const uint64_t name_at = strings.sh_offset + symbol.st_name;
      if (name_at >= image.size() || symbol.st_shndx >= all.size()) continue;
      const std::string name(image.c_str() + name_at);
      if (name.size() <= suffix.size() || name.compare(name.size() - 3, 3, suffix) != 0) continue;
      const Elf64_Shdr &section = all[symbol.st_shndx];
      Kernel kernel =
          read_descriptor(image, section.sh_offset + (symbol.st_value - section.sh_addr), symbol.st_value);
      kernel.name = name.substr(0, name.size() - suffix.size());
      object->kernels[kernel.name] = kernel;
    }
  }
}

// amdhsa.kernels of the MessagePack note (AMDGPUUsage, "Code Object V3 and above Metadata").
void apply_metadata(const nlohmann::json &metadata, CodeObject *object) {
  for (const auto &entry : metadata.value("amdhsa.kernels", nlohmann::json::array())) {
    const auto found = object->kernels.find(entry.value(".name", std::string()));
    if (found == object->kernels.end()) continue;
    Kernel &kernel = found->second;
    kernel.vgpr_count = entry.value(".vgpr_count", 0U);
    kernel.agpr_count = entry.value(".agpr_count", 0U);
    kernel.sgpr_count = entry.value(".sgpr_count", 0U);
    kernel.vgpr_spill_count = entry.value(".vgpr_spill_count", 0U);
    kernel.max_workgroup_size = entry.value(".max_flat_workgroup_size", 0U);
    for (const auto &argument : entry.value(".args", nlohmann::json::array())) {
      kernel.arguments.push_back({argument.value(".name", std::string()),
                                  argument.value(".value_kind", std::string()), argument.value(".offset", 0U),
                                  argument.value(".size", 0U)});
    }
  }
}

void read_notes(const std::string &image, const std::vector<Elf64_Shdr> &all, CodeObject *object) {
  for (const Elf64_Shdr &section : all) {
    if (section.sh_type != SHT_NOTE) continue;
    uint64_t at = section.sh_offset;
    const uint64_t end = section.sh_offset + section.sh_size;
    while (at + sizeof(Elf64_Nhdr) <= end) {
      const auto note = read<Elf64_Nhdr>(image, at);
      const uint64_t contents = at + sizeof note + ((note.n_namesz + 3U) & ~3U);
      if (contents + note.n_descsz > image.size()) throw std::runtime_error("a note leaves the image");
      if (note.n_type == kMetadataNote) {
        const char *begin = image.data() + contents;
        apply_metadata(nlohmann::json::from_msgpack(begin, begin + note.n_descsz), object);
      }
      at = contents + ((note.n_descsz + 3U) & ~3U);
    }
  }
}

}  // namespace

size_t code_object_size(const void *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (!is_code_object(header)) return 0;
  size_t size = header.e_shoff + static_cast<size_t>(header.e_shnum) * sizeof(Elf64_Shdr);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const char *>(image) + header.e_shoff + i * sizeof section,
                sizeof section);
    if (section.sh_type != SHT_NOBITS) size = std::max(size, section.sh_offset + section.sh_size);
  }
  return size;
}

CodeObject read_code_object(const std::string &image) {
  const auto header = read<Elf64_Ehdr>(image, 0);
  if (!is_code_object(header)) throw std::runtime_error("not an AMDGPU HSA code object");
  CodeObject object;
  const auto machine = kMachines.find(header.e_flags & 0xff);
  if (machine == kMachines.end()) {
    throw std::runtime_error("e_flags " + std::to_string(header.e_flags) + " is no gfx9 machine known here");
  }
  object.architecture = machine->second;
  object.version = header.e_ident[EI_ABIVERSION] + 2;
  const std::vector<Elf64_Shdr> all = sections(image, header);
  read_symbols(image, all, &object);
  read_notes(image, all, &object);
  return object;
}

}  // namespace flashattn::gcn
