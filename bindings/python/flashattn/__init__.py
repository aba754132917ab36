# SPDX-License-Identifier: Apache-2.0
"""Exact attention over tensors of any framework, by libflashattn.

    import numpy as np
    import flashattn

    q = np.random.randn(1, 128, 8, 64).astype("f4")  # [batch, seqlen, heads, head_dim]
    k, v = np.random.randn(2, 1, 128, 2, 64).astype("f4")
    o = flashattn.attention(q, k, v, causal=True)

``flashattn.torch`` has the drop-ins for PyTorch and works under ``torch.compile``;
``flashattn.integrations.transformers`` serves Hugging Face models.
"""

from ._attention import attention, attention_paged, attention_ragged, combine
from ._devices import Backend, Device, Kernel, backends, devices, kernels, version
from ._errors import (
    ArgumentError,
    DeviceError,
    Error,
    InternalError,
    LibraryError,
    ResourceError,
    UnsupportedError,
)
from ._library import Handle, Library, load

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Backend",
    "Device",
    "DeviceError",
    "Error",
    "Handle",
    "InternalError",
    "Kernel",
    "Library",
    "LibraryError",
    "ResourceError",
    "UnsupportedError",
    "attention",
    "attention_paged",
    "attention_ragged",
    "backends",
    "combine",
    "devices",
    "kernels",
    "load",
    "version",
]
