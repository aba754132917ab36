#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles one file of device code, or takes it from the cache: device code is most of a build, and the same in every
# build tree. The key covers the compiler, the options and every source file below backends/cuda/kernels and
# backends/gpu.
#   compile_image.sh NVCC ROOT CACHE_DIR SOURCE OUTPUT [option...]     CACHE_DIR may be "" for no cache
set -eu
nvcc=$1 root=$2 cache=$3 source=$4 output=$5
shift 5
compile() { "$nvcc" -fatbin -std=c++17 -O3 "$@" "-I$root" "-I$root/include" -o "$output" "$root/$source"; }
if [ -z "$cache" ]; then
  compile "$@"
  exit
fi
key=$({
  "$nvcc" --version
  echo "$source" "$@"
  cd "$root"
  find backends/cuda/kernels backends/gpu include/flashattn.h backends/cuda/compile_image.sh -type f \
    ! -path '*/sm90/*' ! -path '*/ptx/*' ! -name '*.cpp' | LC_ALL=C sort | xargs sha256sum
} | sha256sum | cut -d' ' -f1)
if [ -f "$cache/$key.fatbin" ]; then
  cp "$cache/$key.fatbin" "$output"
  exit
fi
compile "$@"
mkdir -p "$cache"
cp "$output" "$cache/$key.$$"
mv "$cache/$key.$$" "$cache/$key.fatbin"
