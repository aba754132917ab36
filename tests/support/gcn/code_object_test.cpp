// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/support/gcn/testing.h"

namespace flashattn::gcn {
namespace {

std::string hip_image() {
  std::ifstream file(FLASHATTN_GCN_HIP_IMAGE, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_CASE("a compiled kernel's descriptor and metadata are read") {
  const CodeObject object = read_code_object(hip_image());
  CHECK_EQ(object.architecture, "gfx942");
  CHECK_EQ(object.version, 5);
  const Kernel &kernel = object.kernels.at("scale_rows");
  CHECK_EQ(kernel.lds_bytes, 1024);
  CHECK_EQ(kernel.scratch_bytes, 0);
  CHECK_GT(kernel.vgpr_count, 0);
  CHECK_EQ(kernel.vgpr_spill_count, 0);
  CHECK_EQ(kernel.max_workgroup_size, 256);
  REQUIRE_GE(kernel.arguments.size(), 3);
  CHECK_EQ(kernel.arguments[0].offset, 0);
  CHECK_EQ(kernel.arguments[1].kind, "global_buffer");
  CHECK_EQ(kernel.arguments[2].offset, 16);
  CHECK_EQ(kernel.arguments[2].size, 4);
}

TEST_CASE("a compiled kernel runs: arguments, work items, LDS, barrier") {
  const Program program(hip_image(), FLASHATTN_GCN_OBJDUMP);
  CHECK(program.unknown().empty());
  constexpr uint32_t kRows = 3;
  std::vector<float> in(256 * kRows);
  std::vector<float> out(in.size(), -1.0F);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  Launch launch;
  launch.grid = {kRows, 1, 1};
  launch.block = {256, 1, 1};
  launch.arguments.resize(20);
  const void *pointers[2] = {in.data(), out.data()};
  const float scale = 0.5F;
  std::memcpy(launch.arguments.data(), pointers, sizeof pointers);
  std::memcpy(launch.arguments.data() + 16, &scale, sizeof scale);
  const auto range = [](std::vector<float> &v, bool writable, const char *name) {
    const uint64_t begin = reinterpret_cast<uint64_t>(v.data());
    return MemoryRange{begin, begin + v.size() * sizeof(float), writable, name};
  };
  MachineOptions options;
  options.quantum = 7;
  const Statistics statistics =
      run(program, "scale_rows", launch, {range(in, false, "in"), range(out, true, "out")}, options);
  CHECK_GT(statistics.instructions, 0);
  // Each row is reversed and scaled.
  for (size_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], 0.5F * in[i / 256 * 256 + (255 - i % 256)]);
}

TEST_CASE("images that are no code objects are refused with a reason") {
  std::string image = hip_image();
  CHECK_EQ(code_object_size(image.data()), image.size());
  CHECK_THROWS_WITH(read_code_object("short"), doctest::Contains("ends at byte 5"));
  std::string text = image;
  text[0] = 'X';
  CHECK_THROWS_WITH(read_code_object(text), doctest::Contains("not an AMDGPU"));
  CHECK_EQ(code_object_size(text.data()), 0);
  for (const size_t size : {size_t{100}, size_t{1000}, image.size() - 1}) {
    CHECK_THROWS(read_code_object(image.substr(0, size)));
  }
  const Program program(image, FLASHATTN_GCN_OBJDUMP);
  CHECK_THROWS_WITH(program.kernel("other"), doctest::Contains("scale_rows"));
  CHECK_THROWS(Program(image, "/nonexistent/llvm-objdump"));
}

}  // namespace
}  // namespace flashattn::gcn
