# SPDX-License-Identifier: Apache-2.0
# The compiler and disassembler for AMD GPUs: LLVM 22 or newer with its AMDGPU target (Debian: clang-22 lld-22
# llvm-22), or the ones of a ROCm installation. Sets FLASHATTN_AMDGPU_CLANG and FLASHATTN_AMDGPU_OBJDUMP,
# FLASHATTN_AMDGPU_LINKS to whether the compiler is there and finds its linker, and FLASHATTN_AMDGPU_TOOLS to whether
# the disassembler is there too.
find_program(FLASHATTN_AMDGPU_CLANG NAMES clang++-23 clang++-22 amdclang++ HINTS /opt/rocm/llvm/bin
             DOC "clang++ with the AMDGPU target")
find_program(FLASHATTN_AMDGPU_OBJDUMP NAMES llvm-objdump-23 llvm-objdump-22 llvm-objdump HINTS /opt/rocm/llvm/bin
             DOC "llvm-objdump with the AMDGPU target")
set(FLASHATTN_AMDGPU_LINKS OFF)
set(FLASHATTN_AMDGPU_TOOLS OFF)
if(FLASHATTN_AMDGPU_CLANG)
  execute_process(COMMAND ${FLASHATTN_AMDGPU_CLANG} --print-prog-name=lld OUTPUT_VARIABLE linker
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(IS_ABSOLUTE "${linker}" AND EXISTS "${linker}")
    set(FLASHATTN_AMDGPU_LINKS ON)
  endif()
endif()
if(FLASHATTN_AMDGPU_LINKS AND FLASHATTN_AMDGPU_OBJDUMP)
  set(FLASHATTN_AMDGPU_TOOLS ON)
endif()

# What compiles a .hip file into a code object of one architecture, without ROCm's headers and libraries. Code
# object version 5: loaders of ROCm before 6.4 refuse 6.
set(FLASHATTN_AMDGPU_FLAGS -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -std=c++17 -O3
                           -mcode-object-version=5)
