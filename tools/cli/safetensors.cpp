// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/safetensors.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tools/cli/error.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

using nlohmann::json;

struct DtypeRow {
  const char *name;
  int bits;
  std::optional<Element> element;
};

const DtypeRow kDtypes[] = {
    {"F32", 32, Element::kF32},
    {"F16", 16, Element::kF16},
    {"BF16", 16, Element::kBf16},
    {"U8", 8, Element::kU8},
    {"BOOL", 8, Element::kU8},
    {"I8", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"I32", 32, {}},
    {"U32", 32, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"F64", 64, {}},
    {"C64", 64, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
};

// Parses with two rules JSON itself does not have: no key twice in one object, and no deeper nesting than the
// format's own ({ name: { field: [ ] } }), whatever the rest holds.
json parse_strictly(std::string_view text) {
  constexpr int kMaxDepth = 3;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&keys](int depth, json::parse_event_t event, json &parsed) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= kMaxDepth) {
        throw InputError("header nests deeper than " + std::to_string(kMaxDepth) +
                         " levels; the format does not");
      }
      if (event == json::parse_event_t::object_start) keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto &key = parsed.get_ref<const std::string &>();
      if (!keys.back().insert(key).second) {
        throw InputError("header has the key " + quoted_text(key) + " twice; each may be there once");
      }
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error &error) {
    throw InputError("header is no valid JSON at byte " + std::to_string(error.byte));
  } catch (const json::exception &) {
    throw InputError("header has a number that fits no type");
  }
}

[[noreturn]] void fail(const std::string &name, const std::string &text) {
  throw InputError("tensor " + quoted_text(name) + ": " + text);
}

const json &member(const std::string &name, const json &object, const char *key) {
  const auto found = object.find(key);
  if (found == object.end()) fail(name, std::string("has no ") + key);
  return *found;
}

int64_t whole_number(const std::string &name, const char *field, const json &value) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargest) {
    fail(name, std::string(field) + " has " + quoted_text(value.dump(-1, ' ', true)) +
                   "; every value must be a whole number from 0 to 2^63 - 1");
  }
  return value.get<int64_t>();
}

SafetensorsEntry parse_entry(const std::string &name, const json &value, uint64_t data_size) {
  if (!value.is_object())
    fail(name, std::string("is a JSON ") + value.type_name() + "; it must be an object");
  for (const auto &[key, unused] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail(name, "has the key " + quoted_text(key) + "; known are dtype, shape and data_offsets");
    }
  }
  SafetensorsEntry entry;
  entry.name = name;

  const json &dtype = member(name, value, "dtype");
  if (!dtype.is_string())
    fail(name, std::string("dtype is a JSON ") + dtype.type_name() + "; it must be a string");
  entry.dtype = dtype.get<std::string>();
  const auto *row = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                 [&](const DtypeRow &candidate) { return entry.dtype == candidate.name; });
  if (row == std::end(kDtypes))
    fail(name, "dtype is " + quoted_text(entry.dtype) + "; the format has no such type");
  entry.element = row->element;

  const json &shape = member(name, value, "shape");
  if (!shape.is_array())
    fail(name, std::string("shape is a JSON ") + shape.type_name() + "; it must be an array");
  for (const json &extent : shape) entry.shape.push_back(whole_number(name, "shape", extent));
  const std::optional<int64_t> count = element_count(entry.shape);
  int64_t bits = 0;
  if (!count || __builtin_mul_overflow(*count, int64_t{row->bits}, &bits)) {
    fail(name, "shape is " + shape_text(entry.shape) + "; its size does not fit 63 bits");
  }

  const json &offsets = member(name, value, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) fail(name, "data_offsets must be an array of two numbers");
  entry.begin = static_cast<uint64_t>(whole_number(name, "data_offsets", offsets[0]));
  entry.end = static_cast<uint64_t>(whole_number(name, "data_offsets", offsets[1]));
  const std::string offsets_text =
      "data_offsets is [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  if (entry.begin > entry.end) fail(name, offsets_text + "; the end must not be before the begin");
  if (entry.end > data_size) {
    fail(name, offsets_text + "; the file has " + std::to_string(data_size) + " bytes of data");
  }
  if (bits % 8 != 0 || entry.end - entry.begin != static_cast<uint64_t>(bits / 8)) {
    fail(name, offsets_text + "; dtype " + entry.dtype + " and shape " + shape_text(entry.shape) + " take " +
                   std::to_string(bits / 8) + (bits % 8 != 0 ? " bytes and a part of one" : " bytes"));
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(const json &value) {
  if (!value.is_object()) {
    throw InputError(std::string("__metadata__ is a JSON ") + value.type_name() + "; it must be an object");
  }
  std::map<std::string, std::string> metadata;
  for (const auto &[key, text] : value.items()) {
    if (!text.is_string()) {
      throw InputError("__metadata__ " + quoted_text(key) + " is a JSON " + text.type_name() +
                       "; it must be a string");
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Entries sorted by their data must follow each other from 0 to data_size.
void require_cover(const std::vector<SafetensorsEntry> &entries, uint64_t data_size) {
  uint64_t covered = 0;
  for (const SafetensorsEntry &entry : entries) {
    if (entry.begin != covered) {
      fail(entry.name, "data_offsets begins at " + std::to_string(entry.begin) +
                           "; the tensor before it ends at " + std::to_string(covered) +
                           ", and neither overlap nor hole is allowed");
    }
    covered = entry.end;
  }
  if (covered != data_size) {
    throw InputError("the tensors take " + std::to_string(covered) + " bytes; the file has " +
                     std::to_string(data_size) + " bytes of data");
  }
}

}  // namespace

uint64_t safetensors_header_size(std::string_view prefix, uint64_t file_size) {
  if (file_size < kSafetensorsPrefix || prefix.size() < kSafetensorsPrefix) {
    throw InputError("file has " + std::to_string(file_size) + " bytes; it ends before its header length");
  }
  uint64_t size = 0;
  for (size_t i = kSafetensorsPrefix; i-- > 0;) size = size << 8 | static_cast<unsigned char>(prefix[i]);
  if (size > kSafetensorsMaxHeader) {
    throw InputError("header length is " + std::to_string(size) + "; the format allows " +
                     std::to_string(kSafetensorsMaxHeader));
  }
  if (size > file_size - kSafetensorsPrefix) {
    throw InputError("header length is " + std::to_string(size) + "; the file has only " +
                     std::to_string(file_size - kSafetensorsPrefix) + " bytes after it");
  }
  return size;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_size) {
  if (text.empty() || text[0] != '{') throw InputError("header does not begin with '{'");
  // The parser takes a NUL for the end and would leave what follows unread.
  if (text.find('\0') != std::string_view::npos) throw InputError("header has a NUL byte; JSON has none");
  const json object = parse_strictly(text);
  SafetensorsHeader header;
  for (const auto &[name, value] : object.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(value);
    } else {
      header.entries.push_back(parse_entry(name, value, data_size));
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto &a, const auto &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  require_cover(header.entries, data_size);
  return header;
}

std::string make_safetensors_header(const std::vector<std::pair<std::string, const Tensor *>> &tensors) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  int64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    const auto *row =
        std::find_if(std::begin(kDtypes), std::end(kDtypes),
                     [t = tensor](const DtypeRow &candidate) { return candidate.element == t->element(); });
    const int64_t end = offset + tensor->byte_size();
    object[name] = {{"dtype", row->name}, {"shape", tensor->shape()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = object.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // keeps the data aligned for readers that map the file
  std::string prefix;
  for (int shift = 0; shift < 64; shift += 8) prefix += static_cast<char>(text.size() >> shift & 0xFF);
  return prefix + text;
}

}  // namespace flashattn::cli
