// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer, for compilers that do not have it: every file of a directory, then a
// number of random changes to them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s DIRECTORY RANDOM_COUNT\n", argv[0]);
    return 2;
  }
  std::vector<std::vector<uint8_t>> inputs;
  for (const auto &entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(inputs.back().data(), inputs.back().size());
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "%s: no inputs\n", argv[1]);
    return 1;
  }
  const unsigned seed = std::random_device{}();
  std::printf("%zu files, seed %u\n", inputs.size(), seed);
  std::mt19937 random(seed);
  const long count = std::strtol(argv[2], nullptr, 10);
  for (long i = 0; i < count; ++i) {
    std::vector<uint8_t> input = inputs[random() % inputs.size()];
    for (size_t added = 12 * (random() % 3); added > 0; --added)
      input.push_back(static_cast<uint8_t>(random()));
    for (unsigned change = random() % 8; change > 0; --change) {
      input[random() % input.size()] = static_cast<uint8_t>(random());
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}
