#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# simd_symbols_test.sh NM OBJECT...: no object under simd/ defines a weak symbol outside its target's namespace, and
# none needs anything of libhwy.
nm=$1
shift
seen=0
status=0
for object in "$@"; do
  case $object in
    */simd/fwd_*) ;;
    *) continue ;;
  esac
  seen=$((seen + 1))
  weak=$("$nm" --defined-only "$object" | awk '$2 ~ /^[WVu]$/ {print $3}' | grep -v 'flashattn3cpu6N_\|^DW.ref')
  hwy=$("$nm" --undefined-only "$object" | grep '3hwy')
  if [ -n "$weak$hwy" ]; then
    printf '%s\n%s\n' "$object leaves to the linker:" "$weak$hwy"
    status=1
  fi
done
echo "$seen SIMD objects"
[ "$seen" -gt 0 ] && exit $status
exit 1
