# SPDX-License-Identifier: Apache-2.0
# Included by the engine's build right after project(ggml): its arithmetic is optimised in full, whatever the rest is.
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
