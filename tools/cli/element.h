// SPDX-License-Identifier: Apache-2.0
// Element types of tensors in files, and the conversions between them and float.
#pragma once

#include <cstdint>
#include <string_view>

namespace flashattn::cli {

// What the tool can load and store.
enum class Element { kF32, kF16, kBf16, kU8 };

int64_t element_size(Element element);           // bytes
const char *element_name(Element element);       // "f32", "f16", "bf16", "u8"
int32_t element_dtype(Element element);          // FLASHATTN_DTYPE_*
Element element_of_name(std::string_view name);  // the inverse of element_name; throws InputError

// IEEE 754 binary16 and bfloat16 by their bits; to narrower types round to nearest, ties to even. NaN stays
// NaN.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

// Element number index of an array.
float load_element(Element element, const void *data, int64_t index);

// value rounded to the element type (u8 is left alone).
float round_to(Element element, float value);

// Distance from |value| to the next larger number of the element type.
double ulp(Element element, double value);

}  // namespace flashattn::cli
