# SPDX-License-Identifier: Apache-2.0
# Headers, both libraries, the tool, a CMake package (flashattn::shared, flashattn::static) and pkg-config.
# Everything finds itself by its own place, so an installed tree may be moved.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flashattn)
file(RELATIVE_PATH FLASHATTN_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" FLASHATTN_PC_PREFIX "${FLASHATTN_PC_PREFIX}")

install(FILES include/flashattn.h bindings/cpp/flashattn.hpp TYPE INCLUDE)
install(TARGETS flashattn_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${static_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES LICENSE TYPE DOC)
if(FLASHATTN_TOOLS)
  file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(flashattn_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS flashattn_cli RUNTIME)
endif()

configure_package_config_file(cmake/flashattn-config.cmake.in flashattn-config.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(flashattn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flashattn-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/flashattn-config-version.cmake DESTINATION ${package_dir})

configure_file(cmake/flashattn.pc.in flashattn.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flashattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
