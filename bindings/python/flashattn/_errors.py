# SPDX-License-Identifier: Apache-2.0
"""What the package raises: the library's status and its text, as exceptions of the kind Python expects."""

from __future__ import annotations


class Error(RuntimeError):
    """A call of the library failed, or the library could not be loaded.

    ``status`` is the ``FLASHATTN_STATUS_*`` value (0 where the library was not asked), ``driver_status`` the vendor
    driver's own code, 0 where none was involved. The text names the field, its value and the rule it broke.
    """

    def __init__(self, message: str, status: int = 0, driver_status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.driver_status = driver_status


class LibraryError(Error, ImportError):
    """The shared library was not found, is something else, or has the wrong version."""


class ArgumentError(Error, ValueError):
    """An argument breaks a rule (status 1xx)."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not possible here (status 2xx)."""


class ResourceError(Error, MemoryError):
    """Memory or threads ran out (status 3xx)."""


class DeviceError(Error, OSError):
    """The driver or the device failed (status 4xx)."""

    # OSError formats its own attributes; the message is the library's.
    def __str__(self) -> str:
        return str(self.args[0])


class InternalError(Error):
    """A fault of the library itself (status 5xx); please report it."""


_BY_CLASS: dict[int, type[Error]] = {
    1: ArgumentError,
    2: UnsupportedError,
    3: ResourceError,
    4: DeviceError,
    5: InternalError,
}


def from_status(status: int, message: str, driver_status: int = 0) -> Error:
    """The exception for a status that is not 0."""
    return _BY_CLASS.get(status // 100, Error)(message, status, driver_status)
