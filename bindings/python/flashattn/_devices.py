# SPDX-License-Identifier: Apache-2.0
"""What the machine has: backends, devices, kernels. Opens no driver context, so a process may fork afterwards."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import BACKEND_NAMES, Library, default


@dataclass(frozen=True)
class Backend:
    """A backend that the library knows. ``reason`` says why it has no device; "" when it has."""

    name: str
    status: int
    device_count: int
    driver_version: int
    reason: str


@dataclass(frozen=True)
class Device:
    """A device that could be opened with ``Handle(backend, ordinal)``."""

    backend: str
    ordinal: int
    name: str
    compute_units: int  #: cores, SMs or CUs
    capability: tuple[int, int]  #: compute capability or gfx version; (0, 0) on the CPU
    total_memory_bytes: int  #: 0 where unknown
    features: str  #: CPU: instruction sets; GPU: architecture


@dataclass(frozen=True)
class Kernel:
    """A kernel, by the name that ``kernel=`` takes. ``reason`` says why this machine cannot run it."""

    backend: str
    name: str
    available: bool
    reason: str


def _backend_infos(library: Library) -> list[Any]:
    infos = []
    for index in range(library.c.flashattn_backend_count()):
        info: Any = _abi.new(_abi.BackendInfo)
        library.check(library.c.flashattn_backend_info(index, ctypes.byref(info)))
        infos.append(info)
    return infos


def backends(library: Library | None = None) -> list[Backend]:
    """Every backend, built or not, with the reason where it cannot be used."""
    library = library or default()
    return [
        Backend(info.name.decode(), info.status, info.device_count, info.driver_version, info.reason.decode())
        for info in _backend_infos(library)
    ]


def devices(library: Library | None = None) -> list[Device]:
    """Every device that could be opened."""
    library = library or default()
    found = []
    for backend in _backend_infos(library):
        for ordinal in range(backend.device_count):
            info: Any = _abi.new(_abi.DeviceInfo)
            library.check(library.c.flashattn_device_info(backend.backend, ordinal, ctypes.byref(info)))
            found.append(
                Device(
                    BACKEND_NAMES[info.backend],
                    info.ordinal,
                    info.name.decode(),
                    info.compute_units,
                    (info.capability_major, info.capability_minor),
                    info.total_memory_bytes,
                    info.features.decode(),
                )
            )
    return found


def kernels(library: Library | None = None) -> list[Kernel]:
    """Every kernel of every backend, the most specific first."""
    library = library or default()
    found = []
    for backend in _backend_infos(library):
        for index in range(backend.kernel_count):
            info: Any = _abi.new(_abi.KernelInfo)
            library.check(library.c.flashattn_kernel_info(backend.backend, index, ctypes.byref(info)))
            found.append(
                Kernel(BACKEND_NAMES[info.backend], info.name.decode(), bool(info.available), info.reason.decode())
            )
    return found


def version(library: Library | None = None) -> str:
    """The version of the loaded library, "major.minor.patch"."""
    return (library or default()).c.flashattn_version_string().decode()
