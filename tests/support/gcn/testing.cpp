// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/testing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace flashattn::gcn {
namespace {

constexpr int kInputRows = 6;     // v2 .. v7
constexpr int kInputScalars = 8;  // s8 .. s15, of which s8 .. s13 are promised
constexpr int kOutputRows = 4;
constexpr size_t kScratchWords = 1024;
constexpr uint32_t kRowBytes = 4 * kLanes;

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A directory that is gone when this is.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "flashattn-asm-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  std::string file(const char *name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string snippet_text(const Snippet &snippet) {
  std::string body =
      "s_load_dwordx2 s[6:7], s[0:1], 0x8\n"     // outputs
      "s_load_dwordx2 s[4:5], s[0:1], 0x10\n"    // scratch memory
      "s_load_dwordx2 s[16:17], s[0:1], 0x18\n"  // scalar inputs
      "s_load_dwordx2 s[0:1], s[0:1], 0x0\n"     // vector inputs
      "v_and_b32 v0, 0x3ff, v0\n"
      "v_lshlrev_b32 v8, 2, v0\n"
      "v_and_b32 v8, 0xfc, v8\n"
      "s_waitcnt lgkmcnt(0)\n"
      "s_load_dwordx8 s[8:15], s[16:17], 0x0\n";
  for (int row = 0; row < kInputRows; ++row) {
    body += "global_load_dword v" + std::to_string(2 + row) +
            ", v8, s[0:1] offset:" + std::to_string(row * static_cast<int>(kRowBytes)) + "\n";
  }
  for (int row = 0; row < kOutputRows; ++row)
    body += "v_mov_b32 v" + std::to_string(10 + row) + ", 0xdddddddd\n";
  body += "s_waitcnt vmcnt(0) lgkmcnt(0)\n" + snippet.body + "\n";
  body +=
      "s_cselect_b32 s24, 1, 0\n"
      "s_mov_b64 exec, -1\n"
      "s_waitcnt vmcnt(0) lgkmcnt(0)\n";
  for (int row = 0; row < kOutputRows; ++row) {
    body += "global_store_dword v8, v" + std::to_string(10 + row) +
            ", s[6:7] offset:" + std::to_string(row * static_cast<int>(kRowBytes)) + "\n";
  }
  for (int scalar = 0; scalar < 5; ++scalar) {
    body += "v_mov_b32 v9, s" + std::to_string(20 + scalar) + "\nglobal_store_dword v8, v9, s[6:7] offset:" +
            std::to_string((kOutputRows + scalar) * static_cast<int>(kRowBytes)) + "\n";
  }
  return kernel_text(snippet.name, body, snippet.lds_bytes);
}

std::string all_text(const std::vector<Snippet> &snippets) {
  std::string text;
  for (const Snippet &snippet : snippets) text += snippet_text(snippet);
  return text;
}

template <typename T>
MemoryRange range_of(std::vector<T> &values, bool writable, const char *name) {
  const uint64_t begin = reinterpret_cast<uint64_t>(values.data());
  return {begin, begin + values.size() * sizeof(T), writable, name};
}

}  // namespace

std::string assemble(const std::string &text) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("k.s")) << ".amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n" << text;
  const std::string command =
      std::string("'") + FLASHATTN_GCN_CLANG +
      "' -x assembler -target amdgcn-amd-amdhsa -mcpu=gfx942 -mcode-object-version=5 '" +
      directory.file("k.s") + "' -o '" + directory.file("k.co") + "' 2> '" + directory.file("messages") + "'";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("cannot assemble: " + read_file(directory.file("messages")));
  }
  return read_file(directory.file("k.co"));
}

std::string kernel_text(const std::string &name, const std::string &body, int lds_bytes) {
  return ".text\n.globl " + name + "\n.p2align 8\n.type " + name + ",@function\n" + name + ":\n" + body +
         "\ns_endpgm\n.rodata\n.p2align 6\n.amdhsa_kernel " + name +
         "\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_kernarg_size 64\n.amdhsa_next_free_vgpr 128\n"
         ".amdhsa_next_free_sgpr 96\n.amdhsa_accum_offset 64\n.amdhsa_group_segment_fixed_size " +
         std::to_string(lds_bytes) + "\n.end_amdhsa_kernel\n";
}

Snippets::Snippets(const std::vector<Snippet> &snippets)
    : program_(assemble(all_text(snippets)), FLASHATTN_GCN_OBJDUMP) {}

SnippetResult Snippets::run(const std::string &name, const std::vector<Row> &v,
                            const std::vector<uint32_t> &s, const MachineOptions &options, uint32_t waves,
                            const std::vector<uint32_t> &memory) const {
  std::vector<uint32_t> vectors(kInputRows * kLanes, 0);
  for (size_t row = 0; row < v.size(); ++row) {
    std::copy(v[row].begin(), v[row].end(), vectors.begin() + static_cast<ptrdiff_t>(row * kLanes));
  }
  std::vector<uint32_t> scalars(kInputScalars, 0);
  std::copy(s.begin(), s.end(), scalars.begin());
  std::vector<uint32_t> outputs((kOutputRows + 5) * kLanes, 0);
  SnippetResult result;
  result.memory.resize(kScratchWords);
  for (size_t i = 0; i < kScratchWords; ++i) result.memory[i] = static_cast<uint32_t>(i);
  std::copy(memory.begin(), memory.end(), result.memory.begin());

  Launch launch;
  launch.block = {kLanes * waves, 1, 1};
  const void *pointers[4] = {vectors.data(), outputs.data(), result.memory.data(), scalars.data()};
  launch.arguments.resize(sizeof pointers);
  std::memcpy(launch.arguments.data(), pointers, sizeof pointers);
  gcn::run(program_, name, launch,
           {range_of(vectors, false, "vectors"), range_of(outputs, true, "outputs"),
            range_of(result.memory, true, "memory"), range_of(scalars, false, "scalars")},
           options);
  for (int row = 0; row < kOutputRows; ++row) {
    Row values;
    std::copy_n(outputs.begin() + row * kLanes, kLanes, values.begin());
    result.v.push_back(values);
  }
  for (int scalar = 0; scalar < 4; ++scalar) result.s.push_back(outputs[(kOutputRows + scalar) * kLanes]);
  result.scc = outputs[(kOutputRows + 4) * kLanes];
  return result;
}

Row lanes_of(const std::vector<uint32_t> &values) {
  Row row;
  for (size_t lane = 0; lane < kLanes; ++lane) row[lane] = values[std::min(lane, values.size() - 1)];
  return row;
}

}  // namespace flashattn::gcn
