// SPDX-License-Identifier: Apache-2.0
// This machine's features, and AVX-512.
#define cpu_features detected_features
#include "backends/cpu/cpu_features.cpp"
#undef cpu_features

namespace flashattn::cpu {

const CpuFeatures &cpu_features() {
  static const CpuFeatures kFeatures = [] {
    CpuFeatures features = detected_features();
    features.avx512 = true;
    return features;
  }();
  return kFeatures;
}

}  // namespace flashattn::cpu
