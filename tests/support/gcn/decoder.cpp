// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/decoder.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "tests/support/gcn/formats.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

bool starts_with(const std::string &text, const char *prefix) {
  return text.compare(0, std::strlen(prefix), prefix) == 0;
}

bool ends_with(const std::string &text, const char *suffix) {
  const size_t n = std::strlen(suffix);
  return text.size() >= n && text.compare(text.size() - n, n, suffix) == 0;
}

std::string trim(const std::string &text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Splits at `separator` outside brackets.
std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == separator && depth == 0) {
      if (!trim(part).empty()) parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty()) parts.push_back(trim(part));
  return parts;
}

const std::map<std::string, std::pair<int, int>> kNamedScalars = {
    {"vcc", {kVcc, 2}},   {"vcc_lo", {kVcc, 1}},      {"vcc_hi", {kVcc + 1, 1}},
    {"exec", {kExec, 2}}, {"exec_lo", {kExec, 1}},    {"exec_hi", {kExec + 1, 1}},
    {"m0", {kM0, 1}},     {"flat_scratch", {102, 2}},
};

const std::map<std::string, Status> kStatusOperands = {
    {"src_scc", Status::kScc}, {"src_vccz", Status::kVccz}, {"src_execz", Status::kExecz}};

// v7, s[2:5], a[0:15].
bool parse_registers(const std::string &text, Operand *operand) {
  const std::map<char, OperandKind> files = {
      {'v', OperandKind::kVector}, {'s', OperandKind::kScalar}, {'a', OperandKind::kAccumulator}};
  const auto file = files.find(text[0]);
  if (file == files.end() || text.size() < 2) return false;
  int first = 0;
  int last = 0;
  if (std::sscanf(text.c_str() + 1, "[%d:%d]", &first, &last) != 2) {
    if (std::sscanf(text.c_str() + 1, "[%d]", &first) != 1 &&
        std::sscanf(text.c_str() + 1, "%d", &first) != 1) {
      return false;
    }
    last = first;
  }
  operand->kind = file->second;
  operand->first = static_cast<uint16_t>(first);
  operand->count = static_cast<uint16_t>(last - first + 1);
  return true;
}

// Whether floating-point constants are halves. MFMA and the mixes take f32.
bool is_half_operation(const std::string &mnemonic) {
  return ends_with(mnemonic, "_f16") && !starts_with(mnemonic, "v_mfma") &&
         !starts_with(mnemonic, "v_fma_mix");
}

// Integers and floating-point constants. Decimal integers are inline constants and extend their sign to 64
// bits; hexadecimal ones are 32-bit literals: zero-extended, or the high half of an f64. A floating-point
// constant has the format of the operation.
bool parse_constant(const std::string &text, const std::string &mnemonic, Operand *operand) {
  char *end = nullptr;
  const bool is_hex = text.find("0x") != std::string::npos;
  operand->kind = OperandKind::kConstant;
  if (!is_hex && text.find('.') != std::string::npos) {
    const double value = std::strtod(text.c_str(), &end);
    std::memcpy(&operand->value64, &value, sizeof value);
    operand->value = is_half_operation(mnemonic) ? float_to_half(static_cast<float>(value))
                                                 : as_bits(static_cast<float>(value));
  } else {
    const int64_t value = std::strtoll(text.c_str(), &end, 0);
    operand->value = static_cast<uint32_t>(value);
    operand->value64 = static_cast<uint64_t>(value);
    if (is_hex && ends_with(mnemonic, "_f64")) operand->value64 = static_cast<uint64_t>(value) << 32;
  }
  return end != nullptr && *end == '\0' && end != text.c_str();
}

// Peels -x, |x|, neg(x), abs(x), sext(x).
std::string peel_sign(std::string text, Operand *operand, bool *sign_extend) {
  const bool is_number =
      text.size() > 1 && text[0] == '-' && std::isdigit(static_cast<unsigned char>(text[1]));
  if (text[0] == '-' && !is_number) {
    operand->negate = true;
    text.erase(0, 1);
  }
  if (starts_with(text, "neg(")) {
    operand->negate = true;
    text = text.substr(4, text.size() - 5);
  }
  if (text[0] == '|') {
    operand->absolute = true;
    text = text.substr(1, text.size() - 2);
  } else if (starts_with(text, "abs(")) {
    operand->absolute = true;
    text = text.substr(4, text.size() - 5);
  } else if (starts_with(text, "sext(")) {
    *sign_extend = true;
    text = text.substr(5, text.size() - 6);
  }
  return text;
}

bool parse_operand(const std::string &written, const std::string &mnemonic, Operand *operand,
                   bool *sign_extend) {
  const std::string text = peel_sign(written, operand, sign_extend);
  if (text == "off") {
    operand->kind = OperandKind::kOff;
    return true;
  }
  const auto named = kNamedScalars.find(text);
  if (named != kNamedScalars.end()) {
    operand->kind = OperandKind::kScalar;
    operand->first = static_cast<uint16_t>(named->second.first);
    operand->count = static_cast<uint16_t>(named->second.second);
    return true;
  }
  const auto status = kStatusOperands.find(text);
  if (status != kStatusOperands.end()) {
    operand->kind = OperandKind::kStatus;
    operand->status = status->second;
    return true;
  }
  return parse_registers(text, operand) || parse_constant(text, mnemonic, operand);
}

// [1,0,1]: bit k is element k.
uint8_t parse_bits(const std::string &text) {
  uint8_t bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '0' || c == '1') bits = static_cast<uint8_t>(bits | (c - '0') << n++);
  }
  return bits;
}

bool parse_select(const std::string &text, SubDword *select) {
  if (text == "DWORD") return true;
  select->sign_extend = false;
  if (starts_with(text, "WORD_")) {
    select->width = 16;
    select->shift = static_cast<uint8_t>(16 * (text[5] - '0'));
    return true;
  }
  if (!starts_with(text, "BYTE_")) return false;
  select->width = 8;
  select->shift = static_cast<uint8_t>(8 * (text[5] - '0'));
  return true;
}

// Modifiers of the form name:number whose DPP control is a base plus the number.
const std::map<std::string, int> kDppBases = {
    {"row_shl", 0x100}, {"row_shr", 0x110}, {"row_ror", 0x120}, {"row_newbcast", 0x150}};
const std::map<std::string, int> kDppNames = {{"row_mirror", 0x140}, {"row_half_mirror", 0x141},
                                              {"wave_shl", 0x130},   {"wave_rol", 0x134},
                                              {"wave_shr", 0x138},   {"wave_ror", 0x13c}};

bool parse_dpp(const std::string &name, const std::string &value, Instruction *in) {
  int control = -1;
  const auto base = kDppBases.find(name);
  const auto plain = kDppNames.find(name);
  int quad[4];
  if (base != kDppBases.end()) {
    control = base->second + std::atoi(value.c_str());
  } else if (plain != kDppNames.end()) {
    control = plain->second;
  } else if (name == "row_bcast") {
    control = value == "15" ? 0x142 : 0x143;
  } else if (name == "quad_perm" &&
             std::sscanf(value.c_str(), "[%d,%d,%d,%d]", &quad[0], &quad[1], &quad[2], &quad[3]) == 4) {
    control = quad[0] | quad[1] << 2 | quad[2] << 4 | quad[3] << 6;
  }
  if (control < 0) return false;
  in->dpp = true;
  in->dpp_control = static_cast<uint16_t>(control);
  return true;
}

bool parse_sdwa(const std::string &name, const std::string &value, Instruction *in) {
  if (name == "dst_sel") return parse_select(value, &in->destination_select);
  if (name == "src0_sel") return parse_select(value, &in->source_select[0]);
  if (name == "src1_sel") return parse_select(value, &in->source_select[1]);
  if (name != "dst_unused") return false;
  in->destination_preserve = value == "UNUSED_PRESERVE";
  in->destination_sign = value == "UNUSED_SEXT";
  return true;
}

// False when unknown. Cache policy (sc0, sc1, nt) has no effect on results here, except that sc0 asks an
// atomic for its old value.
bool parse_modifier(const std::string &text, Instruction *in) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  const int number = static_cast<int>(std::strtol(value.c_str(), nullptr, 0));
  if (name == "offset") {
    in->offset = number;  // a swizzle's pattern is taken from the encoding
  } else if (name == "offset0") {
    in->offset0 = number;
  } else if (name == "offset1") {
    in->offset1 = number;
  } else if (name == "op_sel") {
    in->op_sel = parse_bits(value);
  } else if (name == "op_sel_hi") {
    in->op_sel_hi = parse_bits(value);
    in->has_op_sel_hi = true;
  } else if (name == "neg_lo") {
    in->neg_lo = parse_bits(value);
  } else if (name == "neg_hi") {
    in->neg_hi = parse_bits(value);
  } else if (name == "clamp") {
    in->clamp = true;
  } else if (name == "mul") {
    in->output_scale = static_cast<float>(number);
  } else if (name == "div") {
    in->output_scale = 0.5F;
  } else if (name == "offen") {
    in->offen = true;
  } else if (name == "lds") {
    in->lds = true;
  } else if (name == "row_mask") {
    in->row_mask = static_cast<uint8_t>(number);
  } else if (name == "bank_mask") {
    in->bank_mask = static_cast<uint8_t>(number);
  } else if (name == "bound_ctrl") {
    in->bound_control = true;
  } else if (name == "sc0") {
    return in->mnemonic.find("atomic") == std::string::npos;
  } else if (name != "sc1" && name != "nt") {
    return parse_dpp(name, value, in) || parse_sdwa(name, value, in);
  }
  return true;
}

Memory memory_of(const Instruction &in) {
  const std::string &m = in.mnemonic;
  if (starts_with(m, "s_load")) return Memory::kScalarLoad;
  if (starts_with(m, "ds_")) return Memory::kLds;
  if (starts_with(m, "flat_")) return Memory::kFlat;
  if (starts_with(m, "global_load_lds") || (starts_with(m, "buffer_load") && in.lds))
    return Memory::kLoadToLds;
  if (starts_with(m, "global_load") || starts_with(m, "buffer_load")) return Memory::kVectorLoad;
  if (starts_with(m, "global_") || starts_with(m, "buffer_store")) return Memory::kVectorStore;
  return Memory::kNone;
}

template <size_t N>
void set_bits(std::array<uint64_t, N> *words, uint32_t first, uint32_t count) {
  for (uint32_t i = first; i < first + count && i < 64 * N; ++i) (*words)[i / 64] |= uint64_t{1} << (i % 64);
}

void collect_registers(Instruction *in) {
  for (int i = 0; i < in->operand_count; ++i) {
    const Operand &operand = in->operands[i];
    if (operand.kind == OperandKind::kVector) set_bits(&in->vectors, operand.first, operand.count);
    if (operand.kind == OperandKind::kAccumulator) set_bits(&in->accumulators, operand.first, operand.count);
    if (operand.kind == OperandKind::kScalar) set_bits(&in->scalars, operand.first, operand.count);
  }
  const bool reads_vcc =
      starts_with(in->mnemonic, "v_div_fmas") || starts_with(in->mnemonic, "s_cbranch_vcc");
  if (reads_vcc) set_bits(&in->scalars, kVcc, 2);
}

// "// 000000001234: BF8C0073 00000000 <label>": address, first word, length.
bool parse_encoding(const std::string &comment, Instruction *in) {
  unsigned long long address = 0;
  int used = 0;
  if (std::sscanf(comment.c_str(), "// %llx:%n", &address, &used) != 1 || used == 0) return false;
  uint32_t words = 0;
  const char *at = comment.c_str() + used;
  for (;; ++words) {
    while (*at == ' ') ++at;
    char *end = nullptr;
    const unsigned long word = std::strtoul(at, &end, 16);
    if (end - at != 8) break;
    if (words == 0) in->simm16 = static_cast<uint16_t>(word);
    at = end;
  }
  in->address = address;
  in->next = address + 4 * words;
  return words > 0;
}

// The operands and, after the last one, the modifiers. False when any is unknown.
bool parse_operands(const std::string &text, Instruction *in) {
  std::vector<std::string> parts = split(text, ',');
  if (parts.empty()) return true;
  std::vector<std::string> modifiers = split(parts.back(), ' ');
  parts.back() = modifiers.front();
  modifiers.erase(modifiers.begin());
  if (parts.size() > in->operands.size()) return false;
  bool known = true;
  for (const std::string &part : parts) {
    bool sign_extend = false;
    known = parse_operand(part, in->mnemonic, &in->operands[in->operand_count], &sign_extend) && known;
    if (sign_extend && (in->operand_count == 1 || in->operand_count == 2)) {
      in->source_select[in->operand_count - 1].sign_extend = true;
    }
    ++in->operand_count;
  }
  for (const std::string &modifier : modifiers) {
    // sext() comes before the select of its operand, which it must survive.
    const bool sign_extend[2] = {in->source_select[0].sign_extend, in->source_select[1].sign_extend};
    known = parse_modifier(modifier, in) && known;
    in->source_select[0].sign_extend |= sign_extend[0];
    in->source_select[1].sign_extend |= sign_extend[1];
  }
  return known;
}

}  // namespace

bool decode(const std::string &line, Instruction *in, uint64_t *target) {
  *target = 0;
  const size_t comment = line.find("// ");
  if (line.empty() || line[0] != '\t' || comment == std::string::npos) return false;
  *in = Instruction();
  if (!parse_encoding(line.substr(comment), in)) return false;
  in->text = trim(line.substr(0, comment));
  const size_t space = in->text.find(' ');
  in->mnemonic = in->text.substr(0, space);
  for (const char *suffix : {"_e32", "_e64", "_dpp", "_sdwa"}) {
    if (!ends_with(in->mnemonic, suffix)) continue;
    in->sdwa = std::strcmp(suffix, "_sdwa") == 0;
    in->mnemonic.resize(in->mnemonic.size() - std::strlen(suffix));
  }
  const bool is_branch = starts_with(in->mnemonic, "s_cbranch") || in->mnemonic == "s_branch";
  if (is_branch)
    *target = in->address + 4 + static_cast<uint64_t>(4 * int64_t{static_cast<int16_t>(in->simm16)});
  in->writes_exec = starts_with(in->mnemonic, "v_cmpx");
  // Their operands are read from the encoding, or have no effect here.
  const bool plain = is_branch || in->mnemonic == "s_waitcnt" || in->mnemonic == "s_nop" ||
                     in->mnemonic == "s_setprio" || in->mnemonic == "s_sleep" ||
                     in->mnemonic == "buffer_inv" || in->mnemonic == "buffer_wbl2";
  const bool known = plain || space == std::string::npos || parse_operands(in->text.substr(space + 1), in);
  const auto found = opcodes().find(in->mnemonic);
  in->execute = known && found != opcodes().end() ? found->second : nullptr;
  in->memory = memory_of(*in);
  collect_registers(in);
  return true;
}

}  // namespace flashattn::gcn
