// SPDX-License-Identifier: Apache-2.0
// The engine's own threads, lent to the library.
#pragma once

#include "bindings/ggml/engine.h"
#include "flashattn.h"

namespace flashattn::ggml {

// A parallel_for on the OpenMP team that the engine computes with: the same threads, which are awake between two pieces
// of a graph. Null for an engine built without OpenMP, whose threads nobody else can be given work for; the library's
// own pool serves then.
flashattn_parallel_for_fn engine_parallel_for(const Engine &engine);

}  // namespace flashattn::ggml
