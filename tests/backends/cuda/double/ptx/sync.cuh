// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.h"

namespace flashattn::ptx {

inline void fence_async_proxy() {}
inline void named_barrier(int id, int threads) {
  cuda_double::barrier(id, static_cast<unsigned>(threads));
}
template <int kRegisters>
inline void registers_shrink() {}
template <int kRegisters>
inline void registers_grow() {}

}  // namespace flashattn::ptx
