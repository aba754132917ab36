// SPDX-License-Identifier: Apache-2.0
#include "golden_file.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace golden {
namespace {

int64_t size_of(const std::string &type) {
  static const std::map<std::string, int64_t> kSizes = {{"f32", 4}, {"f16", 2}, {"bf16", 2},
                                                        {"u8", 1},  {"i32", 4}, {"i64", 8}};
  return kSizes.at(type);
}

std::vector<uint8_t> read_hex(std::istream &in, int64_t size) {
  std::vector<uint8_t> bytes;
  std::string line;
  while (static_cast<int64_t>(bytes.size()) < size && std::getline(in, line)) {
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
  }
  if (static_cast<int64_t>(bytes.size()) != size)
    throw std::runtime_error("golden file: wrong number of bytes");
  return bytes;
}

}  // namespace

int64_t Case::problem_int(const std::string &field) const {
  const auto found = problem.find(field);
  return found == problem.end() ? 0 : std::stoll(found->second);
}

int64_t Case::call_int(const std::string &field) const {
  const auto found = call.find(field);
  return found == call.end() ? 0 : found->second;
}

std::vector<Case> read(const std::string &path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line) || line != "flashattn golden 1")
    throw std::runtime_error(path + " is no golden file");
  std::vector<Case> cases;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string kind, name;
    if (!(words >> kind)) continue;
    if (kind == "case") cases.emplace_back();
    if (cases.empty()) throw std::runtime_error("golden file: '" + line + "' before the first case");
    Case &c = cases.back();
    if (kind == "case") {
      words >> c.name;
    } else if (kind == "problem") {
      words >> name >> c.problem[name];
    } else if (kind == "call") {
      words >> name >> c.call[name];
    } else if (kind == "buffer" || kind == "fill") {
      words >> name;
      Buffer &buffer = c.buffers[name];
      words >> buffer.type >> buffer.count;
      const int64_t size = buffer.count * size_of(buffer.type);
      if (kind == "buffer") {
        buffer.bytes = read_hex(in, size);
      } else {
        buffer.bytes.resize(size);
        for (int64_t i = 0; i < size; ++i) buffer.bytes[i] = i % 2 == 0 ? 0xe5 : 0x7f;
      }
    } else if (kind == "status") {
      words >> c.status;
    } else if (kind == "error") {
      c.error = line.substr(std::strlen("error "));
    } else if (kind == "want") {
      words >> name;
      Want &want = c.want[name];
      words >> want.tolerance;
      want.values.resize(c.buffers.at(name).count);
      const std::vector<uint8_t> bytes =
          read_hex(in, static_cast<int64_t>(want.values.size() * sizeof(float)));
      if (!bytes.empty()) std::memcpy(want.values.data(), bytes.data(), bytes.size());
    } else if (kind != "end") {
      throw std::runtime_error("golden file: what is '" + line + "'?");
    }
  }
  return cases;
}

}  // namespace golden
