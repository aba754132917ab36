# SPDX-License-Identifier: Apache-2.0
# A Debian package of what `cmake --install` installs: cpack -G DEB --config build/release/CPackConfig.cmake
set(CPACK_PACKAGE_NAME flashattn)
set(CPACK_PACKAGE_VENDOR "libflashattn")
set(CPACK_PACKAGE_CONTACT "libflashattn developers <flashattn@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Exact attention behind a stable C ABI")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    " O = softmax(scale Q K^T + mask) V, tiled, the score matrix never stored; kernels\n"
    " for the CPU, chosen at run time, and for GPUs where the build has them.\n"
    " Library, header, CMake package, pkg-config file and the flashattn command.")
string(JOIN "" CPACK_DEBIAN_PACKAGE_DESCRIPTION ${CPACK_DEBIAN_PACKAGE_DESCRIPTION})
# libc, libstdc++ and libgcc in the versions that the files need.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# dpkg runs ldconfig once after all packages of a transaction.
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
include(CPack)
