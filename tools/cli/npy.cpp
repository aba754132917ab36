// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/npy.h"

#include <charconv>
#include <optional>

#include "tools/cli/error.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr size_t kMaxRank = 32;

// The header's text: a Python dict literal with exactly the keys descr, fortran_order and shape.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : text_(text) {}

  struct Fields {
    std::optional<std::string_view> descr;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
  };

  Fields parse() {
    Fields fields;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        if (peek() == '[') throw InputError("descr is a list; arrays with fields cannot be read");
        set(fields.descr, key, string());
      } else if (key == "fortran_order") {
        set(fields.fortran_order, key, boolean());
      } else if (key == "shape") {
        set(fields.shape, key, tuple());
      } else {
        throw InputError("header key is " + quoted_text(key) + "; known are descr, fortran_order and shape");
      }
      if (!accept(',') && peek() != '}') fail("',' or '}'");
    }
    skip_space();
    if (at_ != text_.size()) fail("the header's end");
    return fields;
  }

 private:
  template <class T>
  static void set(std::optional<T> &field, std::string_view key, T value) {
    if (field) throw InputError("header key " + quoted_text(key) + " is there twice; it must be there once");
    field = std::move(value);
  }

  [[noreturn]] void fail(const char *wanted) const {
    const std::string found = at_ < text_.size() ? quoted_text(text_.substr(at_, 1)) : "the end";
    throw InputError("header is malformed at byte " + std::to_string(at_) + ": " + found + "; " + wanted +
                     " must be there");
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    const char wanted[] = {'\'', c, '\'', '\0'};
    if (!accept(c)) fail(wanted);
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("a string");
    const size_t begin = at_ + 1;
    const size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) fail("a closed string");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail("True or False");
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMaxRank) throw InputError("shape has more than 32 dimensions");
      shape.push_back(extent());
      if (!accept(',') && peek() != ')') fail("',' or ')'");
    }
    return shape;
  }

  int64_t extent() {
    skip_space();
    int64_t value = 0;
    const char *begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) {
      throw InputError("shape has a dimension that does not fit 63 bits");
    }
    if (error != std::errc()) fail("a whole number");
    if (value < 0)
      throw InputError("shape has the dimension " + std::to_string(value) + "; none may be negative");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Element element_of_descr(std::string_view descr) {
  if (descr == "<f4") return Element::kF32;
  if (descr == "<f2") return Element::kF16;
  if (descr == "|u1" || descr == "|b1") return Element::kU8;
  throw InputError("descr is " + quoted_text(descr) +
                   "; readable are '<f4', '<f2', '|u1' and '|b1' (.npy has no bf16: use .safetensors)");
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

NpyHeader parse_npy_header(std::string_view head, uint64_t file_size) {
  if (head.substr(0, kMagic.size()) != kMagic)
    throw InputError("magic is not \\x93NUMPY; this is no .npy file");
  if (head.size() < 8)
    throw InputError("file has " + std::to_string(file_size) + " bytes; it ends before its version");
  const int major = static_cast<unsigned char>(head[6]);
  const int minor = static_cast<unsigned char>(head[7]);
  if (major < 1 || major > 3 || minor != 0) {
    throw InputError("version is " + std::to_string(major) + "." + std::to_string(minor) +
                     "; readable are 1.0, 2.0 and 3.0");
  }
  const size_t length_size = major == 1 ? 2 : 4;
  const size_t begin = 8 + length_size;
  if (head.size() < begin) {
    throw InputError("file has " + std::to_string(file_size) + " bytes; it ends before its header length");
  }
  const uint64_t length = little_endian(head.substr(8, length_size));
  if (length > kNpyMaxHeader) {
    throw InputError("header length is " + std::to_string(length) + "; the most that is read is " +
                     std::to_string(kNpyMaxHeader));
  }
  if (length > head.size() - begin) {
    throw InputError("header length is " + std::to_string(length) + "; the file has only " +
                     std::to_string(head.size() - begin) + " bytes after it");
  }
  const DictParser::Fields fields = DictParser(head.substr(begin, length)).parse();
  if (!fields.descr) throw InputError("header has no descr");
  if (!fields.fortran_order) throw InputError("header has no fortran_order");
  if (!fields.shape) throw InputError("header has no shape");
  if (*fields.fortran_order) {
    throw InputError("fortran_order is True; C order is needed (numpy.ascontiguousarray)");
  }
  NpyHeader header{element_of_descr(*fields.descr), *fields.shape, begin + length};
  const std::optional<int64_t> count = element_count(header.shape);
  int64_t size = 0;
  if (!count || __builtin_mul_overflow(*count, element_size(header.element), &size)) {
    throw InputError("shape is " + shape_text(header.shape) + "; its size in bytes does not fit 63 bits");
  }
  const uint64_t present = file_size - header.data_begin;
  if (present != static_cast<uint64_t>(size)) {
    throw InputError("shape is " + shape_text(header.shape) + ", which takes " + std::to_string(size) +
                     " bytes; the file has " + std::to_string(present) + " after its header");
  }
  return header;
}

std::string make_npy_header(Element element, const Shape &shape) {
  const char *descr = nullptr;
  switch (element) {
    case Element::kF32:
      descr = "<f4";
      break;
    case Element::kF16:
      descr = "<f2";
      break;
    case Element::kU8:
      descr = "|u1";
      break;
    case Element::kBf16:
      throw InputError(".npy has no bf16; use .safetensors or another --dtype-o");
  }
  std::string text = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : shape) text += std::to_string(extent) + ",";
  text += "), }";
  // NumPy keeps the data aligned to 64 bytes: magic, version and length are 10, the header ends in a newline.
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace flashattn::cli
