// SPDX-License-Identifier: Apache-2.0
// What lets one header serve the host, its unit tests and a device compiler.
#pragma once

#if defined(__CUDACC__) || defined(__HIPCC__)
#define FLASHATTN_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FLASHATTN_HOST_DEVICE inline
#endif
