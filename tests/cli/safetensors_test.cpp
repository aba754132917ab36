// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/safetensors.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/cli/message.h"

using namespace flashattn::cli;

namespace {

std::string prefix(uint64_t size) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(size >> shift & 0xFF);
  return bytes;
}

std::string size_message(const std::string &bytes, uint64_t file_size) {
  return message_of([&] { safetensors_header_size(bytes, file_size); });
}

}  // namespace

TEST_CASE("safetensors: tensors are found in the order of their data, whatever the order of their names") {
  const SafetensorsHeader header = parse_safetensors_header(
      R"({"z":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},"__metadata__":{"by":"hand"},)"
      R"("a":{"shape":[],"data_offsets":[12,16],"dtype":"F32"},"e":{"dtype":"BF16","shape":[0,9],"data_offsets":[16,16]},)"
      R"("i":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},"f":{"dtype":"F4","shape":[4],"data_offsets":[24,26]}}  )",
      26);
  REQUIRE(header.entries.size() == 5);
  CHECK(header.entries[0].name == "z");
  CHECK(header.entries[0].element == Element::kF16);
  CHECK(header.entries[0].shape == Shape{2, 3});
  CHECK(header.entries[1].name == "a");
  CHECK(header.entries[1].begin == 12);
  CHECK(header.entries[2].shape == Shape{0, 9});
  CHECK(header.entries[3].dtype == "I64");
  CHECK(!header.entries[3].element);
  CHECK(header.metadata.at("by") == "hand");
  CHECK(parse_safetensors_header("{}", 0).entries.empty());
}

TEST_CASE("safetensors: written headers are read again and keep the data aligned") {
  const Tensor o(Element::kBf16, {2, 3});
  const Tensor lse(Element::kF32, {5});
  const std::string head = make_safetensors_header({{"o", &o}, {"lse", &lse}});
  CHECK(head.size() % 8 == 0);
  const uint64_t size = safetensors_header_size(head, head.size() + 32);
  CHECK(size == head.size() - 8);
  const SafetensorsHeader header = parse_safetensors_header(head.substr(8), 32);
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].name == "o");
  CHECK(header.entries[0].element == Element::kBf16);
  CHECK(header.entries[1].shape == Shape{5});
  CHECK(header.entries[1].end == 32);
}

TEST_CASE("safetensors: the header length is held against the format and the file") {
  CHECK(size_message("", 0) == "file has 0 bytes; it ends before its header length");
  CHECK(size_message("1234567", 7) == "file has 7 bytes; it ends before its header length");
  CHECK(size_message(prefix(UINT64_MAX), 100) ==
        "header length is 18446744073709551615; the format allows 100000000");
  CHECK(size_message(prefix(100'000'001), UINT64_MAX) ==
        "header length is 100000001; the format allows 100000000");
  CHECK(size_message(prefix(93), 100) == "header length is 93; the file has only 92 bytes after it");
  CHECK(size_message(prefix(92), 100).empty());
}

TEST_CASE("safetensors: hostile headers are refused with tensor, field, value and rule") {
  struct Row {
    const char *what;
    std::string json;
    const char *message;
  };
  const auto one = [](const char *dtype, const char *shape, const char *offsets) {
    return std::string(R"({"q":{"dtype":)") + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const Row rows[] = {
      {"empty", "", "does not begin with '{'"},
      {"array", "[]", "does not begin with '{'"},
      {"leading space", " {}", "does not begin with '{'"},
      {"cut", R"({"q":{"dtype":"F32")", "no valid JSON at byte"},
      {"more after it", one(R"("F32")", "[2]", "[0,8]") + "x", "no valid JSON at byte"},
      {"NUL after it", one(R"("F32")", "[2]", "[0,8]") + std::string("\0x", 2), "NUL byte"},
      {"not UTF-8", "{\"\xff\":{}}", "no valid JSON at byte"},
      {"huge number", one(R"("F32")", "[1e999]", "[0,8]"), "number that fits no type"},
      {"entry is a number", R"({"q":8})", "tensor 'q': is a JSON number; it must be an object"},
      {"no dtype", R"({"q":{"shape":[2],"data_offsets":[0,8]}})", "tensor 'q': has no dtype"},
      {"no shape", R"({"q":{"dtype":"F32","data_offsets":[0,8]}})", "tensor 'q': has no shape"},
      {"no offsets", R"({"q":{"dtype":"F32","shape":[2]}})", "tensor 'q': has no data_offsets"},
      {"unknown field", R"({"q":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1]}})",
       "key 'strides'"},
      {"field twice", R"({"q":{"dtype":"F32","shape":[2],"shape":[1],"data_offsets":[0,8]}})",
       "key 'shape' twice"},
      {"tensor twice", R"({"q":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"q":{}})", "key 'q' twice"},
      {"lower-case dtype", one(R"("f32")", "[2]", "[0,8]"), "dtype is 'f32'; the format has no such type"},
      {"control characters", one(R"("\u001b[31m")", "[2]", "[0,8]"), "dtype is '\\x1b[31m'"},
      {"dtype number", one("32", "[2]", "[0,8]"), "dtype is a JSON number; it must be a string"},
      {"shape string", one(R"("F32")", R"("2")", "[0,8]"), "shape is a JSON string; it must be an array"},
      {"negative", one(R"("F32")", "[-2]", "[0,8]"), "shape has '-2'; every value must be a whole number"},
      {"fraction", one(R"("F32")", "[2.0]", "[0,8]"), "shape has '2.0'; every value must be a whole number"},
      {"null extent", one(R"("F32")", "[null]", "[0,8]"),
       "shape has 'null'; every value must be a whole number"},
      {"past 2^63", one(R"("F32")", "[9223372036854775808]", "[0,8]"), "every value must be a whole number"},
      {"past 2^64", one(R"("F32")", "[99999999999999999999]", "[0,8]"), "every value must be a whole number"},
      {"product", one(R"("F32")", "[4294967296,4294967296]", "[0,8]"), "its size does not fit 63 bits"},
      {"product before a zero", one(R"("F32")", "[4294967296,4294967296,0]", "[0,0]"),
       "does not fit 63 bits"},
      {"bits", one(R"("F32")", "[1152921504606846976]", "[0,8]"), "its size does not fit 63 bits"},
      {"three offsets", one(R"("F32")", "[2]", "[0,8,9]"), "data_offsets must be an array of two numbers"},
      {"offsets object", one(R"("F32")", "[2]", "{}"), "data_offsets must be an array of two numbers"},
      {"negative offset", one(R"("F32")", "[2]", "[-8,0]"), "data_offsets has '-8'"},
      {"backward", one(R"("F32")", "[2]", "[8,0]"), "the end must not be before the begin"},
      {"past the file", one(R"("F32")", "[4]", "[0,16]"),
       "data_offsets is [0, 16]; the file has 8 bytes of data"},
      {"far past the file", one(R"("F32")", "[2]", "[9223372036854775800,9223372036854775807]"),
       "8 bytes of data"},
      {"too few", one(R"("F32")", "[2]", "[0,7]"), "dtype F32 and shape [2] take 8 bytes"},
      {"too many", one(R"("F16")", "[2]", "[0,8]"), "dtype F16 and shape [2] take 4 bytes"},
      {"part of a byte", one(R"("F4")", "[15]", "[0,8]"), "take 7 bytes and a part of one"},
      {"begins late", one(R"("F32")", "[1]", "[4,8]"), "neither overlap nor hole is allowed"},
      {"ends early", one(R"("F32")", "[1]", "[0,4]"),
       "the tensors take 4 bytes; the file has 8 bytes of data"},
      {"nothing", "{}", "the tensors take 0 bytes; the file has 8 bytes of data"},
      {"overlap",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "tensor 'b': data_offsets begins at 4; the tensor before it ends at 8"},
      {"same bytes",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "neither overlap nor hole is allowed"},
      {"hole",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "neither overlap nor hole is allowed"},
      {"metadata number", R"({"__metadata__":{"layer":3}})", "__metadata__ 'layer' is a JSON number"},
      {"metadata array", R"({"__metadata__":[]})", "__metadata__ is a JSON array; it must be an object"},
      {"deep", R"({"a":{"b":[[1]]}})", "nests deeper than 3 levels"},
      {"very deep", R"({"a":)" + std::string(1'000'000, '['), "nests deeper than 3 levels"},
      {"very deep objects",
       R"({"a":)" +
           [] {
             std::string text;
             for (int i = 0; i < 100'000; ++i) text += R"({"a":)";
             return text;
           }(),
       "nests deeper than 3 levels"},
  };
  for (const Row &row : rows) {
    CAPTURE(row.what);
    const std::string message = message_of([&] { parse_safetensors_header(row.json, 8); });
    CAPTURE(message);
    CHECK(!message.empty());
    CHECK(message.find(row.message) != std::string::npos);
  }
}
