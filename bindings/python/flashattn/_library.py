# SPDX-License-Identifier: Apache-2.0
"""Finding, opening and checking the shared library, and the handles that are open in it."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from . import _abi, _errors

SONAME = "libflashattn.so.0"
ENVIRONMENT = "FLASHATTN_LIBRARY"
_PACKAGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", SONAME)

BACKENDS = {"auto": _abi.BACKEND_AUTO, "cpu": _abi.BACKEND_CPU, "cuda": _abi.BACKEND_CUDA, "hip": _abi.BACKEND_HIP}
BACKEND_NAMES = {value: name for name, value in BACKENDS.items()}


def find(path: str | os.PathLike[str] | None = None) -> str:
    """What to open, by the rule all bindings share: ``path``; else ``FLASHATTN_LIBRARY``; else the copy inside the
    package; else the system's ``libflashattn.so.0``. A place that is named and empty is an error, never skipped."""
    if path is not None:
        return os.fspath(path)
    named = os.environ.get(ENVIRONMENT)
    if named:
        return named
    return _PACKAGED if os.path.exists(_PACKAGED) else SONAME


def check_version(number: int, where: str) -> tuple[int, int, int]:
    """Splits FLASHATTN_VERSION. LibraryError unless the library is of this package's major version and not older
    than the header it mirrors: a newer minor version takes the structs of an older one."""
    found = (number // 1000000, number // 1000 % 1000, number % 1000)
    major, minor, _ = _abi.VERSION
    if found[0] != major or found[1] < minor:
        raise _errors.LibraryError(
            f"{where} is libflashattn {'.'.join(map(str, found))}; this package needs {major}.{minor} or a newer {major}.x"
        )
    return found


class Library:
    """One opened ``libflashattn``.

    Symbols are private to it (``RTLD_LOCAL``), so several copies or versions can be open in one process; each has
    its own handles, caches and error texts. Never closed: threads of its handles run its code.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = find(path)
        try:
            self.c = ctypes.CDLL(self.path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            raise _errors.LibraryError(
                f"libflashattn could not be loaded: {error}. Looked for: an explicit path, ${ENVIRONMENT}, the copy in "
                f"the package ({_PACKAGED}), the system's {SONAME}; the first of them that is set was tried"
            ) from None
        try:
            number = self.c.flashattn_version
            number.restype = ctypes.c_uint32
            self.version = check_version(number(), self.path)
            _abi.declare(self.c)
        except AttributeError as error:
            raise _errors.LibraryError(f"{self.path} is not a libflashattn of this version: {error}") from None
        self.attention = self.c.flashattn_attention
        self._handles: dict[tuple[int, int], Handle] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget_handles)

    def __repr__(self) -> str:
        return f"<libflashattn {'.'.join(map(str, self.version))} at {self.path}>"

    def error(self, status: int) -> _errors.Error:
        """The exception for a failed call, with the text of the calling thread."""
        text = self.c.flashattn_last_error().decode("utf-8", "replace")
        if not text:
            text = self.c.flashattn_status_string(status).decode()
        return _errors.from_status(status, text, self.c.flashattn_last_driver_error())

    def check(self, status: int) -> None:
        """Raises unless ``status`` is 0."""
        if status != 0:
            raise self.error(status)

    def handle(self, backend: int, device: int) -> Handle:
        """The handle that calls without one share. Opened on first use, kept for the process."""
        handle = self._handles.get((backend, device))
        if handle is not None:
            return handle
        with self._lock:
            handle = self._handles.get((backend, device))
            if handle is None:
                handle = Handle(BACKEND_NAMES[backend], device, library=self)
                self._handles[(backend, device)] = handle
            return handle

    def _forget_handles(self) -> None:
        # The child has none of their threads, and may not touch a GPU context of its parent: it opens its own.
        for handle in self._handles.values():
            handle.pointer = None
        self._handles = {}
        self._lock = threading.Lock()


_default: Library | None = None
_default_lock = threading.Lock()


def default() -> Library:
    """The library that module-level functions use; opened on first use."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Library()
    return _default


def load(path: str | os.PathLike[str] | None = None) -> Library:
    """Opens a library (default: by the rule of :func:`find`) and makes it the one that calls without a handle use."""
    global _default
    library = Library(path)
    with _default_lock:
        _default = library
    return library


class Handle:
    """A device opened by the caller: ``flashattn_create``.

    Calls use a shared handle of the tensors' device unless one is given as ``handle=``. A handle of one's own fixes
    the number of CPU threads or validates on the device. May be used from any number of threads at once. A context
    manager; :meth:`close` must not run while a call does.

    backend: "auto", "cpu", "cuda" or "hip".  device: ordinal.  threads: CPU threads per call, the caller's included;
    0 is as many as the process may use.  validate: check pointers, lengths and page indices on a GPU too.
    library: a :class:`Library`; default the one that :func:`load` opened.
    """

    def __init__(
        self,
        backend: str = "auto",
        device: int = 0,
        *,
        threads: int = 0,
        validate: bool = False,
        library: Library | None = None,
    ) -> None:
        self.pointer: int | None = None
        if backend not in BACKENDS:
            raise _errors.ArgumentError(f"backend is {backend!r}; known are {', '.join(BACKENDS)}")
        self.library = default() if library is None else library
        options: Any = _abi.new(_abi.Options)
        options.backend = BACKENDS[backend]
        options.device = device
        options.num_threads = threads
        options.flags = _abi.OPTION_VALIDATE if validate else 0
        pointer = ctypes.c_void_p()
        self.library.check(self.library.c.flashattn_create(ctypes.byref(options), ctypes.byref(pointer)))
        self.pointer = pointer.value
        info: Any = _abi.new(_abi.HandleInfo)
        self.library.check(self.library.c.flashattn_handle_info(self.pointer, ctypes.byref(info)))
        self.backend = BACKEND_NAMES[info.backend]
        self.device = int(info.device)
        self.threads = int(info.num_threads)
        self.name = info.name.decode()
        self.prepared: dict[Any, Any] = {}

    def close(self) -> None:
        """Gives the device up. Twice is fine."""
        pointer, self.pointer = self.pointer, None
        self.prepared = {}
        if pointer is not None:
            self.library.c.flashattn_destroy(pointer)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "pointer", None) is not None:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.pointer is None else f"{self.threads} threads" if self.backend == "cpu" else self.name
        return f"<flashattn {self.backend} handle, device {self.device}, {state}>"
