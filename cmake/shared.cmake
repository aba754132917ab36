# SPDX-License-Identifier: Apache-2.0
# libflashattn.so: SONAME libflashattn.so.0; exactly the functions of the header, versioned FLASHATTN_0.1.
add_library(flashattn_shared SHARED)
add_library(flashattn::shared ALIAS flashattn_shared)
target_link_libraries(flashattn_shared PRIVATE flashattn_objects)
target_include_directories(flashattn_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
set(flashattn_version_script ${PROJECT_SOURCE_DIR}/cmake/flashattn.map)
set_target_properties(flashattn_shared PROPERTIES OUTPUT_NAME flashattn VERSION ${PROJECT_VERSION} SOVERSION 0
                                                  LINK_DEPENDS ${flashattn_version_script})
target_link_options(
  flashattn_shared
  PRIVATE
  LINKER:--version-script=${flashattn_version_script}
  LINKER:-z,now,-z,relro,-z,noexecstack
  LINKER:--as-needed
  LINKER:--gc-sections)
if(NOT FLASHATTN_SANITIZE) # a sanitizer's run-time library is found only when the program starts
  target_link_options(flashattn_shared PRIVATE LINKER:--no-undefined)
endif()
