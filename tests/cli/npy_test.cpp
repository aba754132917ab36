// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/npy.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/cli/message.h"

using namespace flashattn::cli;

namespace {

// A file of version 1.0 (2.0 with a 4-byte length) around a header and `data` bytes.
std::string npy(const std::string &header, size_t data, int major = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> 8 * i & 0xFF);
  return file + header + std::string(data, '\x11');
}

std::string dict(const std::string &descr, const std::string &order, const std::string &shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

NpyHeader parse(const std::string &file) {
  return parse_npy_header(file, file.size());
}

}  // namespace

TEST_CASE("npy: what NumPy writes is read") {
  const NpyHeader header = parse(npy(dict("'<f4'", "False", "(2, 3)"), 24));
  CHECK(header.element == Element::kF32);
  CHECK(header.shape == Shape{2, 3});
  CHECK(parse(npy(dict("'<f2'", "False", "(5,)"), 10)).element == Element::kF16);
  CHECK(parse(npy(dict("'|b1'", "False", "(5,)"), 5)).element == Element::kU8);
  CHECK(parse(npy(dict("'<f4'", "False", "()"), 4)).shape.empty());
  CHECK(parse(npy(dict("'<f4'", "False", "(0, 7)"), 0)).shape == Shape{0, 7});
  CHECK(parse(npy(dict("\"<f4\"", "False", "(2,)"), 8, 2)).shape == Shape{2});
  CHECK(parse(npy("{'shape':(2,),'fortran_order':False,'descr':'<f4'}", 8, 3)).shape == Shape{2});
}

TEST_CASE("npy: written headers are read again and keep the data aligned") {
  for (const Element element : {Element::kF32, Element::kF16, Element::kU8}) {
    for (const Shape &shape : {Shape{}, Shape{3}, Shape{2, 3, 4}, Shape{1, 2, 3, 1000000007}}) {
      const std::string head = make_npy_header(element, shape);
      CHECK(head.size() % 64 == 0);
      const auto size = static_cast<uint64_t>(*element_count(shape) * element_size(element));
      const NpyHeader header = parse_npy_header(head, head.size() + size);
      CHECK(header.element == element);
      CHECK(header.shape == shape);
      CHECK(header.data_begin == head.size());
    }
  }
  CHECK(message_of([] { make_npy_header(Element::kBf16, {1}); }) ==
        ".npy has no bf16; use .safetensors or another --dtype-o");
}

TEST_CASE("npy: hostile and foreign files are refused with field, value and rule") {
  const std::string good = npy(dict("'<f4'", "False", "(2, 3)"), 24);
  const std::string nines(30, '9');
  struct Row {
    const char *what;
    std::string file;
    const char *message;
  };
  const Row rows[] = {
      {"empty", "", "magic is not"},
      {"magic only", good.substr(0, 6), "file has 6 bytes; it ends before its version"},
      {"other magic", "PK\x03\x04 something", "magic is not"},
      {"no length", good.substr(0, 9), "it ends before its header length"},
      {"cut header", good.substr(0, 30), "the file has only 20 bytes after it"},
      {"cut data", good.substr(0, good.size() - 1), "takes 24 bytes; the file has 23 after its header"},
      {"long data", good + "x", "takes 24 bytes; the file has 25 after its header"},
      {"version 4", npy(dict("'<f4'", "False", "(1,)"), 4, 4), "version is 4.0; readable are"},
      {"version 0", npy(dict("'<f4'", "False", "(1,)"), 4, 0), "version is 0.0; readable are"},
      {"huge length", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13),
       "header length is 4294967295; the most"},
      {"big endian", npy(dict("'>f4'", "False", "(1,)"), 4), "descr is '>f4'; readable are"},
      {"double", npy(dict("'<f8'", "False", "(1,)"), 8), "descr is '<f8'; readable are"},
      {"bf16 of ml_dtypes", npy(dict("'<V2'", "False", "(1,)"), 2), "use .safetensors"},
      {"pickled objects", npy(dict("'|O'", "False", "(1,)"), 8), "descr is '|O'; readable are"},
      {"control characters", npy(dict("'\x1b[31m'", "False", "(1,)"), 4),
       "descr is '\\x1b[31m'; readable are"},
      {"structured", npy(dict("[('a', '<f4')]", "False", "(1,)"), 4), "descr is a list"},
      {"fortran order", npy(dict("'<f4'", "True", "(2, 3)"), 24), "fortran_order is True; C order is needed"},
      {"order 0", npy(dict("'<f4'", "0", "(2, 3)"), 24), "True or False must be there"},
      {"negative", npy(dict("'<f4'", "False", "(-1, 3)"), 24),
       "shape has the dimension -1; none may be negative"},
      {"too large", npy(dict("'<f4'", "False", "(" + nines + ",)"), 24),
       "dimension that does not fit 63 bits"},
      {"product overflows", npy(dict("'<f4'", "False", "(4294967296, 4294967296)"), 24),
       "does not fit 63 bits"},
      {"bytes overflow", npy(dict("'<f4'", "False", "(4611686018427387904,)"), 24), "does not fit 63 bits"},
      {"overflow before a zero", npy(dict("'<f4'", "False", "(4294967296, 4294967296, 0)"), 0),
       "not fit 63 bits"},
      {"float extent", npy(dict("'<f4'", "False", "(2.0, 3)"), 24), "',' or ')' must be there"},
      {"words", npy(dict("'<f4'", "False", "(two, 3)"), 24), "a whole number must be there"},
      {"list", npy(dict("'<f4'", "False", "[2, 3]"), 24), "'(' must be there"},
      {"open tuple", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", 24),
       "',' or ')' must be there"},
      {"open string", npy("{'descr': '<f4", 24), "a closed string must be there"},
      {"key twice", npy("{'descr': '<f4', 'descr': '<f2', }", 4), "'descr' is there twice"},
      {"unknown key", npy("{'descr': '<f4', 'offset': 3, }", 4), "header key is 'offset'; known are"},
      {"no shape", npy("{'descr': '<f4', 'fortran_order': False, }", 4), "header has no shape"},
      {"no order", npy("{'descr': '<f4', 'shape': (1,), }", 4), "header has no fortran_order"},
      {"no descr", npy("{'fortran_order': False, 'shape': (1,), }", 4), "header has no descr"},
      {"after the dict", npy(dict("'<f4'", "False", "(1,)") + "import os", 4),
       "the header's end must be there"},
      {"nothing", npy("", 4), "'{' must be there"},
  };
  for (const Row &row : rows) {
    CAPTURE(row.what);
    const std::string message = message_of([&] { parse(row.file); });
    CAPTURE(message);
    CHECK(!message.empty());
    CHECK(message.find(row.message) != std::string::npos);
  }
  std::string ones = "(";
  for (int i = 0; i < 33; ++i) ones += "1,";
  CHECK(message_of([&] { parse(npy(dict("'<f4'", "False", ones + ")"), 4)); }) ==
        "shape has more than 32 dimensions");
}

TEST_CASE("npy: a good file cut anywhere, or with any one byte changed, is refused or stays consistent") {
  const std::string good = npy(dict("'<f4'", "False", "(2, 3)"), 24);
  for (size_t size = 0; size < good.size(); ++size) {
    REQUIRE(!message_of([&] { parse(good.substr(0, size)); }).empty());
  }
  for (size_t at = 0; at < good.size() - 24; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      file[at] = static_cast<char>(value);
      NpyHeader header;
      if (!message_of([&] { header = parse(file); }).empty()) continue;
      REQUIRE(header.data_begin + *element_count(header.shape) * element_size(header.element) == file.size());
    }
  }
}
