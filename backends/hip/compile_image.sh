#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles one file of device code, or takes it from the cache, as backends/cuda/compile_image.sh does. The key covers
# the compiler, the options and every file that the code may include.
#   compile_image.sh CLANG ROOT CACHE_DIR SOURCE OUTPUT [option...]     CACHE_DIR may be "" for no cache
set -eu
clang=$1 root=$2 cache=$3 source=$4 output=$5
shift 5
compile() {
  "$clang" "$@" "-I$root" "-I$root/include" -include "$root/backends/hip/kernels/common/device.h" \
    "$root/$source" -o "$output"
}
if [ -z "$cache" ]; then
  compile "$@"
  exit
fi
key=$({
  "$clang" --version
  echo "$source" "$@"
  cd "$root"
  find backends/hip/kernels backends/gpu include/flashattn.h backends/hip/compile_image.sh -type f ! -name '*.cpp' |
    LC_ALL=C sort | xargs sha256sum
} | sha256sum | cut -d' ' -f1)
if [ -f "$cache/$key.co" ]; then
  cp "$cache/$key.co" "$output"
  exit
fi
compile "$@"
# A cache that cannot be written is no reason to fail.
mkdir -p "$cache" 2>/dev/null || exit 0
cp "$output" "$cache/$key.$$" 2>/dev/null || exit 0
mv "$cache/$key.$$" "$cache/$key.co"
