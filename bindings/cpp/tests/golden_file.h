// SPDX-License-Identifier: Apache-2.0
// Reads bindings/golden/golden.txt; the format is in bindings/golden/README.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace golden {

struct Buffer {
  std::string type;
  int64_t count = 0;
  std::vector<uint8_t> bytes;

  template <class T>
  T *as() {
    return reinterpret_cast<T *>(bytes.data());
  }
};

struct Want {
  double tolerance = 0;
  std::vector<float> values;
};

struct Case {
  std::string name;
  std::map<std::string, std::string> problem;
  std::map<std::string, int64_t> call;
  std::map<std::string, Buffer> buffers;  // O and LSE too, filled
  int32_t status = 0;
  std::string error;
  std::map<std::string, Want> want;

  int64_t problem_int(const std::string &field) const;
  int64_t call_int(const std::string &field) const;
};

// Throws std::runtime_error when the file is not as its README says.
std::vector<Case> read(const std::string &path);

}  // namespace golden
