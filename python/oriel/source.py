# SPDX-License-Identifier: BSD-3-Clause
"""Source: local memory that puts read and gets write."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from . import _c
from ._c import check, lib
from ._describe import Region

if TYPE_CHECKING:
    from .window import Window


class Source:
    """Local memory as the source of puts or the target of gets; made by Window.source().

    It holds the memory's owner until it is released.  So the memory is not freed under a NIC, and
    other memory never comes to lie at its address meanwhile.
    """

    def __init__(self, window: Window, region: Region, once: bool = False) -> None:
        self._struct = _c.oriel_source()
        self._window: Window | None = None
        handle = window._live("source")
        pointer = ctypes.byref(self._struct)
        check(lib.oriel_window_source(handle, region.address, region.nbytes, pointer))
        self._window = window
        self._pointer = ctypes.c_void_p(ctypes.addressof(self._struct))
        self._size = ctypes.c_uint64(region.nbytes)
        self._region: Region | None = region
        self.nbytes = region.nbytes
        self.once = once  # made for one call, which releases it
        window._sources[id(self)] = self

    def release(self) -> None:
        """Ends the source; waits until this rank's operations are complete.  May be repeated."""
        window = self._window
        if window is None:
            return
        if window._handle is not None:
            struct = ctypes.byref(self._struct)
            check(lib.oriel_window_source_release(window._handle, struct))
        self._forget()

    def _forget(self) -> None:
        if self._window is not None:
            self._window._sources.pop(id(self), None)
        self._window = None
        self._region = None
        self._pointer = ctypes.c_void_p()
        self._size = ctypes.c_uint64()
        self.nbytes = 0

    @property
    def writable(self) -> bool:
        """May a get write to it?"""
        return self._region is not None and self._region.writable

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.release()

    def __repr__(self) -> str:
        if self._window is None:
            return "<oriel.Source, released>"
        return f"<oriel.Source of {self.nbytes} bytes>"
