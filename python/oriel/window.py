# SPDX-License-Identifier: BSD-3-Clause
"""Window: memory, signals, counters and barriers that peers put into, signal and wait for.

Offsets and sizes are in bytes, as in C.  Operations are complete and delivered when they return
(CPU), or in the order of their stream (GPU).  docs/rules.md says what a program may rely on.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

from . import _c
from ._c import CONSTANTS, check, error, fail, lib
from ._describe import Region
from .comm import Comm
from .memory import Memory, array_over, region_for, tensor_over

ADD, SET = CONSTANTS["ORIEL_ADD"], CONSTANTS["ORIEL_SET"]
EQ, NE, GT = CONSTANTS["ORIEL_EQ"], CONSTANTS["ORIEL_NE"], CONSTANTS["ORIEL_GT"]
GE, LT, LE = CONSTANTS["ORIEL_GE"], CONSTANTS["ORIEL_LT"], CONSTANTS["ORIEL_LE"]

# Sources that a stream may still use; more are released, which may wait.
_PENDING_SOURCES = 64


class Source:
    """Local memory as the source of puts or the target of gets; made by Window.source().

    It holds the memory's owner until it is released.  So the memory is not freed under a NIC, and
    other memory never comes to lie at its address meanwhile.
    """

    def __init__(self, window: Window, region: Region) -> None:
        self._struct = _c.oriel_source()
        self._window: Window | None = None
        handle = window._live("source")
        pointer = ctypes.byref(self._struct)
        check(lib.oriel_window_source(handle, region.address, region.nbytes, pointer))
        self._window = window
        self._pointer = ctypes.addressof(self._struct)
        self._region: Region | None = region
        self.nbytes = region.nbytes
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
        self._pointer = 0
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


class _PeerMemory:
    """A peer's window buffer in this address space; arrays over it hold it, and the window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        window._views += 1
        window.comm._views += 1

    def __del__(self) -> None:
        self._window._views -= 1
        self._window.comm._views -= 1


class Window:
    """Memory, signals, counters and barriers with the same layout on every rank.

    Args:
        comm: the ranks.
        buffer: the memory to expose: an array or tensor.  Ranks in other processes can map only
            memory of oriel.empty(), or GPU memory.  The window holds it until it is closed.
        bytes: the size of new memory, instead of `buffer`.
        signals, counters, barriers: how many ids of each.
        checked: kernels test ranks, ids and ranges.
        staging_slot_bytes, staging_depth, staging_channels: staged send and receive of kernels.

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
    ) -> None:
        self._handle: int | None = None
        self.comm = comm
        self._sources: dict[int, Source] = {}
        self._pending: dict[tuple[int, int], Source] = {}
        self._views = 0
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

    def _source_of(self, memory: Any, call: str) -> tuple[Source, bool]:
        """A source for one call, and whether the caller releases it."""
        if isinstance(memory, Source):
            if memory._window is None:
                raise fail("ESTALE", f"{call}: the source was released")
            return memory, False
        region = region_for(self.comm, memory, call)
        if not self.comm._on_gpu:
            return Source(self, region), True
        # The stream may still use it.  It holds the owner, so the address cannot be other memory.
        key = (region.address, region.nbytes)
        source = self._pending.get(key)
        if source is None:
            if len(self._pending) >= _PENDING_SOURCES:
                self._synced()
            source = self._pending[key] = Source(self, region)
        return source, False

    def _synced(self) -> None:
        """The streams are idle, or enough sources have gathered."""
        while self._pending:
            _, source = self._pending.popitem()
            source.release()

    # ---- operations ------------------------------------------------------------------------------

    def put(
        self,
        peer: int,
        source: Any,
        offset: int = 0,
        source_offset: int = 0,
        nbytes: int | None = None,
        stream: Any = None,
    ) -> None:
        """Stores memory of this rank in the window of `peer`, at `offset`.

        source: a Source, an array or a tensor.  nbytes=None: all of it from source_offset on.
        """
        src, own = (source, False) if type(source) is Source else self._source_of(source, "put")
        if nbytes is None:
            nbytes = src.nbytes - source_offset
        status = lib.oriel_window_put(
            self._handle,
            peer,
            offset,
            src._pointer,
            source_offset,
            nbytes,
            None if not self.comm._on_gpu else self.comm._stream(stream),
        )
        if own:
            src.release()
        if status:
            raise self._error(status, src)

    def get(
        self,
        peer: int,
        target: Any,
        offset: int = 0,
        target_offset: int = 0,
        nbytes: int | None = None,
        stream: Any = None,
    ) -> None:
        """Loads memory of the window of `peer`, from `offset`, into memory of this rank."""
        dst, own = (target, False) if type(target) is Source else self._source_of(target, "get")
        try:
            if not dst.writable and dst._window is not None:
                raise ValueError("get: target is read-only: pass memory that can be written")
            if nbytes is None:
                nbytes = dst.nbytes - target_offset
            status = lib.oriel_window_get(
                self._handle,
                peer,
                offset,
                dst._pointer,
                target_offset,
                nbytes,
                self.comm._stream(stream),
            )
            if status:
                raise self._error(status, dst)
        finally:
            if own:
                dst.release()

    def put_signal(
        self,
        peer: int,
        source: Any,
        offset: int = 0,
        source_offset: int = 0,
        nbytes: int | None = None,
        signal: int = 0,
        op: int = ADD,
        value: int = 1,
        stream: Any = None,
    ) -> None:
        """put(), then signal(): who has seen the signal sees the data."""
        if type(source) is Source:
            src, own = source, False
        else:
            src, own = self._source_of(source, "put_signal")
        if nbytes is None:
            nbytes = src.nbytes - source_offset
        status = lib.oriel_window_put_signal(
            self._handle,
            peer,
            offset,
            src._pointer,
            source_offset,
            nbytes,
            signal,
            op,
            value,
            None if not self.comm._on_gpu else self.comm._stream(stream),
        )
        if own:
            src.release()
        if status:
            raise self._error(status, src)

    def signal(
        self, peer: int, signal: int = 0, op: int = ADD, value: int = 1, stream: Any = None
    ) -> None:
        """Adds to (op=ADD), or sets (op=SET), the signal word of this rank at `peer`."""
        stream = self.comm._stream(stream)
        status = lib.oriel_window_signal(self._handle, peer, signal, op, value, stream)
        if status:
            raise self._error(status)

    def wait_signal(
        self,
        peer: int | None = None,
        signal: int = 0,
        value: int = 1,
        cmp: int = GE,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Waits until the word of `peer` compares with `value`; None: the sum over all sources.

        A signal word only grows: iteration i waits for i.  timeout: seconds for this call.
        """
        peer = -1 if peer is None else peer
        stream = self.comm._stream(stream)
        if timeout is None:
            status = lib.oriel_window_wait_signal(self._handle, peer, signal, cmp, value, stream)
        else:
            status = lib.oriel_window_wait_signal_timeout(
                self._handle, peer, signal, cmp, value, timeout, stream
            )
        if status:
            raise self._error(status)

    def reset_signals(self, stream: Any = None) -> None:
        """Every signal of this rank reads 0 again.  Only when nothing is in flight."""
        status = lib.oriel_window_reset_signals(self._handle, self.comm._stream(stream))
        if status:
            raise self._error(status)

    def barrier(self, id: int = 0, timeout: float | None = None, stream: Any = None) -> None:
        """All ranks meet at barrier `id`; all earlier operations of this rank are delivered."""
        stream = self.comm._stream(stream)
        if timeout is None:
            status = lib.oriel_window_barrier(self._handle, id, stream)
        else:
            status = lib.oriel_window_barrier_timeout(self._handle, id, timeout, stream)
        if status:
            raise self._error(status)

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
                    f"close: {self._views} arrays or tensors over memory of peers are left: "
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
        for source in list(self._sources.values()):
            source._forget()
        self._pending.clear()
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

    def _error(self, status: int, source: Source | None = None) -> Exception:
        """The exception for a failed operation."""
        if self._handle is None:
            return fail("ESTALE", "the window is closed")
        if source is not None and source._window is None and not source._pointer:
            return fail("ESTALE", "the source was released")
        return error(status)

    def _owners(self) -> Any:
        """What must stay if the window is never closed."""
        return self._region, list(self._sources.values())


def _count(what: str, count: int) -> int:
    if not 0 <= count < 2**32:
        raise ValueError(f"{what}={count}: must be from 0 to {2**32 - 1}")
    return count
