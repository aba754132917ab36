// SPDX-License-Identifier: Apache-2.0
// The expected-style half alone: compiled with -fno-exceptions -fno-rtti.
#include <cstdio>
#include <flashattn.hpp>
#include <vector>

int main() {
  std::vector<float> q(8), k(8), v(8, 2.0F), o(8);
  flashattn::Call call;
  call.q(flashattn::Tensor(q, {1, 1, 1, 8})).k(flashattn::Tensor(k, {1, 1, 1, 8}));
  call.v(flashattn::Tensor(v, {1, 1, 1, 8})).o(flashattn::Tensor(o, {1, 1, 1, 8}));
  const auto handle = flashattn::Handle::try_open(flashattn::Options().backend(flashattn::Backend::kCpu));
  if (!handle) {
    std::printf("%s\n", handle.error().text.c_str());
    return 1;
  }
  const auto refused = handle->try_plan(flashattn::Problem(call).softcap(-1));
  if (refused || refused.error().status != FLASHATTN_STATUS_INVALID_ARGUMENT) return 1;
  const auto done = handle->try_attention(flashattn::Problem(call), call);
  return done && o[7] == 2.0F ? 0 : 1;
}
