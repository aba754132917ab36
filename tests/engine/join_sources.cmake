# SPDX-License-Identifier: Apache-2.0
# Included by the engine's build right after its project(): compiles what lies around the model together and without
# optimisation, which takes a quarter of the time. The sources stay as they are.
function(join_sources)
  foreach(target mtmd llama-common server-context llama-server-impl)
    target_compile_options(${target} PRIVATE -O0)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 26)
  endforeach()
  set_property(TARGET mtmd PROPERTY UNITY_BUILD_BATCH_SIZE 64)
  set_source_files_properties(
    ${CMAKE_CURRENT_SOURCE_DIR}/tools/mtmd/mtmd-helper.cpp ${CMAKE_CURRENT_SOURCE_DIR}/tools/mtmd/mtmd-helper-gen.cpp
    TARGET_DIRECTORY mtmd PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/common/json.cpp TARGET_DIRECTORY llama-common
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
cmake_language(DEFER CALL join_sources)
