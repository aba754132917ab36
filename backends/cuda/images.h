// SPDX-License-Identifier: Apache-2.0
// Device code embedded by the build, one fatbin per file of kernels (images.S.in).
#pragma once

extern "C" {
extern const unsigned char embedded_image_generic[];
extern const unsigned char embedded_image_combine[];
extern const unsigned char embedded_image_sm80_f16_d64[];
extern const unsigned char embedded_image_sm80_f16_d128[];
extern const unsigned char embedded_image_sm80_f16_d256[];
extern const unsigned char embedded_image_sm80_bf16_d64[];
extern const unsigned char embedded_image_sm80_bf16_d128[];
extern const unsigned char embedded_image_sm80_bf16_d256[];
extern const unsigned char embedded_image_sm90_f16_d64[];
extern const unsigned char embedded_image_sm90_f16_d128[];
extern const unsigned char embedded_image_sm90_f16_d256[];
extern const unsigned char embedded_image_sm90_bf16_d64[];
extern const unsigned char embedded_image_sm90_bf16_d128[];
extern const unsigned char embedded_image_sm90_bf16_d256[];
}
