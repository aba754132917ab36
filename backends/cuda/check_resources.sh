#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds what ptxas said of the kernels of one image to the ceilings: registers, spilled bytes, stack, and no "Potential
# Performance Loss", which is a wgmma made to wait. Exits 1 and says what is over. Another release of the compiler
# allocates otherwise: there the ceilings are not looked at.
#   check_resources.sh NVCC CEILINGS LOG [--print]     --print: the lines that CEILINGS should hold
set -eu
nvcc=$1 ceilings=$2 log=$3 print=${4:-}
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
image=$(basename "$log" .fatbin.log)
awk -v image="$image" -v release="$release" -v print_lines="$print" '
  FNR == NR {
    if ($1 == "nvcc") wanted = $2
    else if ($0 !~ /^#/ && NF == 6) { registers[$1 " " $2 " " $3] = $4; spill[$1 " " $2 " " $3] = $5; stack[$1 " " $2 " " $3] = $6 }
    next
  }
  /Compiling entry function/ { split($0, part, "\047"); entry = image " " part[2] " " part[4]; depth = 0; spilled = 0 }
  /bytes stack frame/ && entry != "" && !(entry in done) { depth = $1; spilled = $5 }
  /Potential Performance Loss/ { print_fault(image ": " $0) }
  /Used [0-9]+ registers/ && entry != "" {
    match($0, /Used [0-9]+/)
    used = substr($0, RSTART + 5, RLENGTH - 5) + 0
    done[entry] = 1
    ++seen
    if (print_lines != "") { print entry, used, spilled, depth; next }
    if (!(entry in registers)) print_fault(entry ": no line in ceilings.txt")
    else {
      if (used > registers[entry]) print_fault(entry ": " used " registers, the ceiling is " registers[entry])
      if (spilled > spill[entry]) print_fault(entry ": " spilled " bytes spilled, the ceiling is " spill[entry])
      if (depth > stack[entry]) print_fault(entry ": a stack of " depth " bytes, the ceiling is " stack[entry])
    }
  }
  function print_fault(text) { faults = faults text "\n" }
  END {
    if (print_lines != "") exit 0
    if (release != wanted) exit 0
    if (seen == 0) print_fault(image ": the log names no kernel")
    if (faults != "") { printf "%s", faults > "/dev/stderr"; exit 1 }
  }
' "$ceilings" "$log"
