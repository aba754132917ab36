# SPDX-License-Identifier: Apache-2.0
"""Prints cycles per wgmma (of one warpgroup) for wgmma_rate.cu: python3 wgmma_rate.py FILE.cubin"""

import ctypes
import sys

import torch

from driver import check, cuda

torch.zeros(1, device="cuda")
module = ctypes.c_void_p()
check(cuda.cuModuleLoadData(ctypes.byref(module), open(sys.argv[1], "rb").read()))
cycles = torch.zeros(132, dtype=torch.int64, device="cuda")
pointer = ctypes.c_void_p(cycles.data_ptr())
args = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
for name, per_pass in (("ss64", 4), ("ss128", 4), ("ss176", 4), ("rs64", 4), ("rs128", 4), ("ss64_rs64", 8)):
    function = ctypes.c_void_p()
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    check(cuda.cuFuncSetAttribute(function, 8, 65536))
    line = []
    for groups in (1, 2, 3, 4):
        for _ in range(2):
            check(cuda.cuLaunchKernel(function, 132, 1, 1, 128 * groups, 1, 1, 65536, None, args, None))
            torch.cuda.synchronize()
        line.append(f"{groups} warpgroups {cycles.double().mean().item() / 128 / per_pass / groups:.1f}")
    print(name, "cycles per wgmma:", ", ".join(line))
