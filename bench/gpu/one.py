# SPDX-License-Identifier: Apache-2.0
"""Launches one variant a few times, for a profiler: python3 one.py CUBIN_DIR VARIANT batch rows causal [count]"""

import sys

import torch

import driver

directory, name, batch, rows, causal = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
kernel = driver.load_variants(directory, [name])[name]
dim = kernel.info["head_dim"]
q, k, v = (torch.randn(batch, rows, 2048 // dim, dim, device="cuda").to(getattr(torch, kernel.info["dtype"])) for _ in range(3))
o, lse = torch.empty_like(q), torch.empty(batch, 2048 // dim, rows, device="cuda")
launch = kernel.prepare(q, k, v, o, lse, bool(causal))
for _ in range(int(sys.argv[6]) if len(sys.argv) > 6 else 3):
    launch()
torch.cuda.synchronize()
