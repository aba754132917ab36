# SPDX-License-Identifier: Apache-2.0
# Included by the engine's build right after its project(): compiles small sources together, which takes a third of the
# time. The sources stay as they are.
function(join_sources)
  set_target_properties(mtmd PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 64)
  set_source_files_properties(mtmd-helper.cpp mtmd-helper-gen.cpp TARGET_DIRECTORY mtmd
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(llama-common PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 18)
  set_source_files_properties(json.cpp TARGET_DIRECTORY llama-common PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
cmake_language(DEFER CALL join_sources)
