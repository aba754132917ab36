#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles one file of device code, or takes it from the cache: device code is most of a build, and the same in every
# build tree. The key covers the compiler, the options, this script, and every file of the named folders, which are
# relative to ROOT. OUTPUT.log keeps what the assembler said, and check_resources.sh holds it to the ceilings.
#   compile_image.sh NVCC ROOT CACHE_DIR "FOLDER..." SOURCE OUTPUT [option...]     CACHE_DIR may be "" for no cache
set -eu
nvcc=$1 root=$2 cache=$3 folders=$4 source=$5 output=$6
shift 6
compile() {
  if ! "$nvcc" -fatbin -std=c++17 -O3 -Xptxas -v "$@" "-I$root" "-I$root/include" -o "$output" "$root/$source" \
    >"$output.log" 2>&1; then
    cat "$output.log" >&2
    rm -f "$output" "$output.log"
    return 1
  fi
}
check() {
  if ! "$root/backends/cuda/check_resources.sh" "$nvcc" "$root/backends/cuda/kernels/ceilings.txt" "$output.log"; then
    rm -f "$output"
    return 1
  fi
}
if [ -z "$cache" ]; then
  compile "$@"
  check
  exit
fi
key=$({
  "$nvcc" --version
  echo "$source" "$@"
  cd "$root"
  # shellcheck disable=SC2086 # folders is a list
  find $folders include/flashattn.h backends/cuda/compile_image.sh -type f ! -name '*.cpp' ! -name '*.md' |
    LC_ALL=C sort | xargs sha256sum
} | sha256sum | cut -d' ' -f1)
if [ -f "$cache/$key.fatbin" ] && cp "$cache/$key.log" "$output.log" 2>/dev/null; then
  cp "$cache/$key.fatbin" "$output"
  check
  exit
fi
compile "$@"
# A cache that cannot be written is no reason to fail. The log goes first: an image without one is compiled again.
if mkdir -p "$cache" 2>/dev/null; then
  for kind in log fatbin; do
    from=$output
    [ $kind = fatbin ] || from=$output.log
    cp "$from" "$cache/$key.$kind.$$" 2>/dev/null && mv "$cache/$key.$kind.$$" "$cache/$key.$kind" || break
  done
fi
check
