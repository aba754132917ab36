// SPDX-License-Identifier: Apache-2.0
// A kernel for the interpreter's own tests: each workgroup reverses a row of 256 through LDS and scales it.
__attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256))) extern "C" void scale_rows(
    const float *in, float *out, float scale) {
  __attribute__((shared)) static float row[256];
  const int item = static_cast<int>(__builtin_amdgcn_workitem_id_x());
  const long base = 256L * __builtin_amdgcn_workgroup_id_x();
  row[item] = in[base + item];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  out[base + item] = scale * row[255 - item];
}
