// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random.h"

namespace flashattn::test {
namespace {
uint64_t seed_of_run = 0;
}

uint64_t run_seed() {
  return seed_of_run;
}
void set_run_seed(uint64_t seed) {
  seed_of_run = seed;
}

Rng rng_for(std::string_view purpose) {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : purpose) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  return Rng(hash ^ (seed_of_run * 0x9e3779b97f4a7c15U));
}

}  // namespace flashattn::test
