// SPDX-License-Identifier: Apache-2.0
// The shapes that ship, one for each head dimension; docs/worklog.md has the measurements behind them.
#pragma once

#include "fwd.cuh"
#include "geometry.h"

namespace flashattn::sm90 {

template <typename Element, int kHeadDim>
struct Shipped;
template <typename Element>
struct Shipped<Element, 64> : Config<Element, 64, 256, 64, 4, 2, Reference::kFixed> {};
template <typename Element>
struct Shipped<Element, 128> : Config<Element, 128, 128, 128, 2, 2, Reference::kFixed> {};
template <typename Element>
struct Shipped<Element, 256> : Config<Element, 256, 128, 64, 2, 1, Reference::kFixed> {};

template <typename C>
constexpr bool matches(const Geometry &g) {
  return g.head_dim == C::kHeadDim && g.block_m == C::kBlockM && g.block_n == C::kBlockN &&
         g.threads == C::kThreads && g.shared_bytes == static_cast<int32_t>(sizeof(SharedMemory<C>));
}

}  // namespace flashattn::sm90
