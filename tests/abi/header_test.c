/* SPDX-License-Identifier: Apache-2.0
 * Compiled, not run, as C99, C11, C++17 and C++20 with every warning an error: the header by itself, its INIT
 * macros at both scopes, and its constants where constants are needed. */
#include <flashattn.h>

flashattn_options_t options_at_file_scope = FLASHATTN_OPTIONS_INIT;
flashattn_problem_t problem_at_file_scope = FLASHATTN_PROBLEM_INIT;
flashattn_call_t call_at_file_scope = FLASHATTN_CALL_INIT;
flashattn_combine_args_t combine_at_file_scope = FLASHATTN_COMBINE_ARGS_INIT;
flashattn_tensor_t tensor_at_file_scope = FLASHATTN_TENSOR_INIT;
flashattn_bias_t bias_at_file_scope = FLASHATTN_BIAS_INIT;
flashattn_per_head_t per_head_at_file_scope = FLASHATTN_PER_HEAD_INIT;

int header_test(int32_t status);
int header_test(int32_t status) {
  const flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  switch (status) {
    case FLASHATTN_STATUS_OK:
      return (int)problem.struct_size;
    case FLASHATTN_STATUS_INVALID_ARGUMENT:
      return FLASHATTN_VERSION;
    default:
      return (problem.features & FLASHATTN_FEATURE_WINDOW) != 0;
  }
}

#if FLASHATTN_VERSION < 1000
#error the version must be usable in the preprocessor
#endif
