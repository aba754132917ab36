// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cpu_features.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace flashattn::cpu {
namespace {

#if defined(__x86_64__)

// Two features that clang 14 does not know by name (Intel SDM volume 2A, CPUID: leaf 1 and leaf 0x80000001,
// ECX). Whether the system saves the registers of f16c is for avx to say.
bool has_ecx_bit(unsigned leaf, unsigned bit) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(leaf, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> bit & 1U) != 0;
}

bool has_f16c() {
  return __builtin_cpu_supports("avx") != 0 && has_ecx_bit(1, 29);
}

bool has_lzcnt() {
  return has_ecx_bit(0x80000001U, 5);
}

// __builtin_cpu_supports reads cpuid and, through xgetbv, whether the system saves the wide registers.
CpuFeatures detect() {
  CpuFeatures features{};
  features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c() &&
                  has_lzcnt();
  features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return features;
}

void append(char *out, size_t size, const char *name) {
  const size_t length = std::strlen(out);
  if (length < size) std::snprintf(out + length, size - length, "%s%s", length == 0 ? "" : " ", name);
}

void names(char *out, size_t size) {
  const struct {
    const char *name;
    bool present;
  } sets[] = {
      {"sse4.2", __builtin_cpu_supports("sse4.2") != 0},
      {"avx", __builtin_cpu_supports("avx") != 0},
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"f16c", has_f16c()},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512cd", __builtin_cpu_supports("avx512cd") != 0},
      {"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
      {"avx512bf16", __builtin_cpu_supports("avx512bf16") != 0},
  };
  out[0] = '\0';
  for (const auto &set : sets) {
    if (set.present) append(out, size, set.name);
  }
}

// Brand string: cpuid leaves 0x80000002..4, 16 bytes each (AMD APM volume 3, appendix E.4).
void brand(char *out, size_t size) {
  unsigned words[12] = {};
  bool known = true;
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned *at = words + 4 * static_cast<size_t>(leaf);
    known = known && __get_cpuid(0x80000002U + leaf, at, at + 1, at + 2, at + 3) != 0;
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  const char *begin = text + std::strspn(text, " ");
  std::snprintf(out, size, "%s", known && *begin != '\0' ? begin : "x86-64");
}

#elif defined(__aarch64__)

CpuFeatures detect() {
  CpuFeatures features{};
  features.neon = true;  // part of the base architecture
  return features;
}
void names(char *out, size_t size) {
  std::snprintf(out, size, "neon");
}
void brand(char *out, size_t size) {
  std::snprintf(out, size, "aarch64");
}

#else

CpuFeatures detect() {
  return {};
}
void names(char *out, size_t size) {
  std::snprintf(out, size, "%s", "");
}
void brand(char *out, size_t size) {
  std::snprintf(out, size, "cpu");
}

#endif

}  // namespace

const CpuFeatures &cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

void cpu_feature_names(char *out, size_t size) {
  names(out, size);
}

void cpu_name(char *out, size_t size) {
  brand(out, size);
}

int32_t cpu_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More processors than cpu_set_t has room for.
  return static_cast<int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

uint64_t total_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_size) : 0;
}

}  // namespace flashattn::cpu
