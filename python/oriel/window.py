# SPDX-License-Identifier: BSD-3-Clause
"""Window: memory, signals, counters and barriers that peers put into, signal and wait for.

Offsets and sizes are in bytes, as in C.  Operations are complete and delivered when they return
(CPU), or in the order of their stream (GPU).  docs/rules.md says what a program may rely on.
"""

from __future__ import annotations

import ctypes
import gc
import struct
from typing import Any

from . import _c
from ._c import check, error, fail, lib
from ._describe import Region
from .comm import Comm
from .memory import Memory, array_over, region_for, tensor_over
from .operations import Operations
from .source import Source

_LOCAL_BUFFER = struct.Struct("=QQQII")  # base, size, window, keys[2]


class _PeerMemory:
    """A peer's window buffer in this address space; arrays over it hold it, and the window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        window._views.add(id(self))
        window.comm._views.add(id(self))

    def __del__(self) -> None:  # on any thread
        self._window._views.discard(id(self))
        self._window.comm._views.discard(id(self))


class Window(Operations):
    """Memory, signals, counters and barriers with the same layout on every rank.

    Args:
        comm: the ranks.
        buffer: the memory to expose: an array or tensor.  Ranks in other processes can map only
            memory of oriel.empty(), or GPU memory.  The window holds it until it is closed.
        bytes: the size of new memory, instead of `buffer`.
        signals, counters, barriers: how many ids of each.
        checked: kernels test ranks, ids and ranges.
        staging_slot_bytes, staging_depth, staging_channels: staged send and receive of kernels.
        boxes, box_bytes: packets of kernels; box_bytes is the longest packet.

    The constructor and close() are collective.  Bad input of one rank raises on all ranks.
    """

    def __init__(
        self,
        comm: Comm,
        buffer: Any = None,
        bytes: int = 0,
        signals: int = 16,
        counters: int = 16,
        barriers: int = 16,
        checked: bool = False,
        staging_slot_bytes: int = 0,
        staging_depth: int = 4,
        staging_channels: int = 1,
        boxes: int = 0,
        box_bytes: int = 0,
    ) -> None:
        self._handle: int | None = None
        self._pointer = ctypes.c_void_p()
        self.comm = comm
        self._sources: dict[int, Source] = {}
        self._pending: dict[tuple[int, int], Source] = {}
        self._captured: dict[tuple[int, int], Source] = {}
        self._local_buffers: dict[tuple[int, int], tuple[Memory, Source]] = {}
        self._device_handle: int | None = None
        self._views: set[int] = set()  # owners of arrays over memory of peers
        problem = None
        comm._live("Window")
        comm._garbage.free()
        try:
            self._take_buffer(buffer, bytes)
            options = _c.oriel_window_options(
                ctypes.sizeof(_c.oriel_window_options),
                _count("signals", signals),
                _count("counters", counters),
                _count("barriers", barriers),
                int(checked),
                self._region.address or None,
                self._region.nbytes,
                staging_slot_bytes,
                staging_depth,
                staging_channels,
                0,
                _count("boxes", boxes),
                _count("box_bytes", box_bytes),
            )
        except (TypeError, ValueError, _c.Error, ctypes.ArgumentError) as raised:
            problem = raised
        comm._agree("Window", problem)
        handle = ctypes.c_void_p()
        status = lib.oriel_window_create(
            comm._handle, ctypes.byref(options), ctypes.byref(handle)
        )
        comm._check(status)
        self._handle = handle.value
        self._pointer = handle
        self._number = comm._adopt(self)

    def _take_buffer(self, buffer: Any, nbytes: int) -> None:
        """Finds or makes the memory to expose."""
        self.buffer = buffer
        """The array or tensor to expose, as it was passed; or an oriel.Memory of its own."""
        if nbytes < 0:
            raise ValueError(f"bytes={nbytes}: must not be negative")
        if buffer is None and nbytes:
            self.buffer = Memory(self.comm, nbytes)
        if self.buffer is None:
            self._region = Region(0, 0, self.comm.device, None, True, 1)
            return
        self._region = region_for(self.comm, self.buffer, "buffer", write=True)
        if not self._region.nbytes:
            raise ValueError("buffer has no elements: leave it out, or pass memory")
        if nbytes and buffer is not None and nbytes != self._region.nbytes:
            raise ValueError(
                f"bytes={nbytes}, but the buffer has {self._region.nbytes} bytes: pass one of them"
            )

    # ---- memory ----------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The size of the buffer, the same on all ranks."""
        return self._region.nbytes

    def array(
        self, peer: int | None = None, dtype: Any = None, shape: Any = None, offset: int = 0
    ) -> Any:
        """A numpy array over this rank's buffer, or over that of a mapped peer, without a copy.

        dtype and shape default to those of the buffer that was passed, else to bytes.  An array
        over a peer's memory must be gone before the window is closed.
        """
        dtype, shape = self._form(dtype, shape, offset, "uint8")
        return array_over(self._region_of(peer), dtype, shape, offset)

    def tensor(
        self, peer: int | None = None, dtype: Any = None, shape: Any = None, offset: int = 0
    ) -> Any:
        """The same as a torch tensor."""
        dtype, shape = self._form(dtype, shape, offset, None)
        return tensor_over(self._region_of(peer), dtype, shape, offset)

    def _form(self, dtype: Any, shape: Any, offset: int, plain: Any) -> tuple[Any, Any]:
        """The default dtype and shape."""
        if dtype is None:
            dtype = getattr(self.buffer, "dtype", plain)
            if shape is None and not offset:
                shape = getattr(self.buffer, "shape", None)
            if type(dtype).__module__.startswith("torch") and plain is not None:
                dtype = str(dtype).removeprefix("torch.")
        return dtype, shape

    def _region_of(self, peer: int | None) -> Region:
        handle = self._live("array")
        if not self._region.nbytes:
            raise fail("EINVAL", "the window has no buffer")
        if peer is None or peer == self.comm.rank:
            return self._region
        kind = self.comm.peer_kind(peer)
        address = lib.oriel_window_mapped(handle, peer)
        if not address:
            raise fail(
                "EUNSUPPORTED",
                f"the memory of rank {peer} is not mapped, because the rank is a {kind} peer "
                f"({self.comm.peer_reason(peer)}): use put and get",
                peer,
            )
        owner = _PeerMemory(self)
        return Region(address, self._region.nbytes, self.comm.device, owner, True, 1)

    def source(self, memory: Any = None) -> Source:
        """Local memory as the source of puts or the target of gets; None: the window's own.

        Make a source once and use it many times.  Release it, or use it in a `with` block.
        """
        if memory is None:
            region = self._region
        else:
            region = region_for(self.comm, memory, "source")
        return Source(self, region)

    # ---- for kernels -----------------------------------------------------------------------------

    @property
    def device_handle(self) -> int:
        """The address of the window's flat handle (struct oriel_window_dev), for kernels.

        It lies in memory that kernels of the comm's device can read, and is valid until close().
        """
        if self._device_handle is None:
            address = ctypes.c_void_p()
            handle = self._live("device_handle")
            check(lib.oriel_window_device_address(handle, ctypes.byref(address)))
            self._device_handle = address.value
        return self._device_handle

    def register_local_buffer(self, memory: Any) -> int:
        """The device address of a struct that describes local memory to kernels.

        Its 32 bytes are {u64 base; u64 size; u64 window; u32 keys[2]}; `window` is device_handle.
        The window holds the memory, and the struct, until it is closed.  Registering the same
        memory again returns the same address.
        """
        region = region_for(self.comm, memory, "register_local_buffer")
        key = (region.address, region.nbytes)
        known = self._local_buffers.get(key)
        if known is None:
            known = self._local_buffers[key] = self._describe_local(region)
        return known[0].address

    def _describe_local(self, region: Region) -> tuple[Memory, Source]:
        source = Source(self, region)
        keys = source._struct.key
        base, size = source._struct.address, source._struct.bytes
        text = _LOCAL_BUFFER.pack(base, size, self.device_handle, keys[0], keys[1])
        place = Memory(self.comm, len(text))
        check(lib.oriel_copy(self.comm._handle, place.address, text, len(text)))
        return place, source

    @property
    def status(self) -> int:
        """The window's first failure, or 0.  Does not raise."""
        return lib.oriel_window_status(self._live("status"))

    # ---- ending ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Has the window, or its comm, been closed?"""
        return self._handle is None

    def close(self) -> None:
        """Ends the window and its sources. [C]  May be repeated; Comm.close() calls it too.

        All ranks raise ORIEL_EBUSY, and the window stays, while a rank has arrays over memory of
        peers, or a request uses the window.
        """
        if self._handle is None:
            return
        comm = self.comm
        if comm._handle is not None and not comm._failed():
            problem = None
            if self._views:
                gc.collect()  # arrays in a cycle are gone, but still there
            if self._views:
                problem = fail(
                    "EBUSY",
                    f"close: {len(self._views)} arrays or tensors over memory of peers are left: "
                    "delete them first",
                )
            comm._agree("close", problem)
            status = lib.oriel_window_destroy(self._handle)
            if status in (_c.STATUSES["EBUSY"], _c.STATUSES["EMISMATCH"]):
                raise error(status)
        else:
            # A failed comm does not wait.  Arrays over memory of peers keep the C window.
            status = 0 if self._views else lib.oriel_window_destroy(self._handle)
        raised = error(status) if status else None
        self._handle = None
        self._pointer = ctypes.c_void_p()
        for source in list(self._sources.values()):
            source._forget()
        self._pending.clear()
        self._captured.clear()
        self._local_buffers.clear()
        self._device_handle = None
        comm._children.pop(self._number, None)
        if raised:
            raise raised

    def __enter__(self) -> Window:
        return self

    def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> None:
        # After an exception the other ranks may not come: the comm ends the window later.
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        if self._handle is None:
            return "<oriel.Window, closed>"
        return f"<oriel.Window of {self.nbytes} bytes on {self.comm!r}>"

    # ---- for the other modules -------------------------------------------------------------------

    def _live(self, call: str) -> int:
        if self._handle is None:
            raise fail("ESTALE", f"{call}: the window is closed")
        return self._handle

    def _owners(self) -> Any:
        """What must stay if the window is never closed."""
        return self._region, list(self._sources.values())


def _count(what: str, count: int) -> int:
    if not 0 <= count < 2**32:
        raise ValueError(f"{what}={count}: must be from 0 to {2**32 - 1}")
    return count
