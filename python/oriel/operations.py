# SPDX-License-Identifier: BSD-3-Clause
"""Operations of host code on a window: put, get, atomics, signals, counters, barriers.

Each call means what the C call oriel_window_... of the same name means.  On the CPU it is complete
and delivered when it returns.  On a GPU it is executed in the order of `stream`, also while the
stream is captured, and an error that occurs later becomes the window's failure.

`stream` is None, the number of a CUstream, a torch.cuda.Stream, or an object with __cuda_stream__.
None is torch's current stream if torch uses the GPU, else the comm's own stream.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ._c import CONSTANTS, error, fail, lib
from ._stream import is_capturing
from .comm import Comm
from .memory import region_for
from .source import Source

ADD, SET = CONSTANTS["ORIEL_ADD"], CONSTANTS["ORIEL_SET"]
EQ, NE, GT = CONSTANTS["ORIEL_EQ"], CONSTANTS["ORIEL_NE"], CONSTANTS["ORIEL_GT"]
GE, LT, LE = CONSTANTS["ORIEL_GE"], CONSTANTS["ORIEL_LT"], CONSTANTS["ORIEL_LE"]

# Sources that a stream may still use; more are released, which may wait.
_PENDING_SOURCES = 64
# ctypes cuts an int argument to 32 bits without a word.
_INT_MAX = 2**31 - 1

# The calls whose cost counts.  They get ints and ready ctypes objects; an argument of another type,
# such as an integer of numpy, takes the declared function.
_put = lib.quick("oriel_window_put")
_get = lib.quick("oriel_window_get")
_put_signal = lib.quick("oriel_window_put_signal")
_signal = lib.quick("oriel_window_signal")
_wait_signal = lib.quick("oriel_window_wait_signal")
_ArgumentError = ctypes.ArgumentError
_u64 = ctypes.c_uint64
_ZERO = _u64(0)
_ONE = _u64(1)


class Operations:
    """The operations of a Window."""

    comm: Comm
    _handle: int | None
    _pointer: ctypes.c_void_p  # the handle for C calls; NULL when the window is closed
    _pending: dict[tuple[int, int], Source]
    _captured: dict[tuple[int, int], Source]

    # ---- data ------------------------------------------------------------------------------------

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
        if peer >> 31:
            self._narrow(peer, 0)
        at, start = _u64(offset), _u64(source_offset)
        size = None if nbytes is None else _u64(nbytes)
        stream = self.comm._pointer(stream) if self.comm._on_gpu else None
        src = source if type(source) is Source else self._source_of(source, "put")
        if size is None:
            size = _u64(src.nbytes - source_offset)
        try:
            status = _put(self._pointer, peer, at, src._pointer, start, size, stream)
        except _ArgumentError:
            status = lib.oriel_window_put(
                self._pointer, peer, at, src._pointer, start, size, stream
            )
        if status:
            raise self._failure(status, src)
        if src.once:
            src.release()

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
        if peer >> 31:
            self._narrow(peer, 0)
        at, start = _u64(offset), _u64(target_offset)
        size = None if nbytes is None else _u64(nbytes)
        stream = self.comm._pointer(stream) if self.comm._on_gpu else None
        dst = target if type(target) is Source else self._source_of(target, "get", write=True)
        if not dst.writable and dst._pointer.value:
            raise ValueError("get: target is read-only: pass memory that can be written")
        if size is None:
            size = _u64(dst.nbytes - target_offset)
        try:
            status = _get(self._pointer, peer, at, dst._pointer, start, size, stream)
        except _ArgumentError:
            status = lib.oriel_window_get(
                self._pointer, peer, at, dst._pointer, start, size, stream
            )
        if status:
            raise self._failure(status, dst)
        if dst.once:
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
        if (peer | signal | op) >> 31:
            self._narrow(peer, signal, op)
        at = _u64(offset) if offset else _ZERO
        start = _u64(source_offset) if source_offset else _ZERO
        size = None if nbytes is None else _u64(nbytes)
        add = _ONE if value == 1 else _u64(value)
        stream = self.comm._pointer(stream) if self.comm._on_gpu else None
        src = source if type(source) is Source else self._source_of(source, "put_signal")
        if size is None:
            size = _u64(src.nbytes - source_offset) if source_offset else src._size
        try:
            status = _put_signal(
                self._pointer, peer, at, src._pointer, start, size, signal, op, add, stream
            )
        except _ArgumentError:
            status = lib.oriel_window_put_signal(
                self._pointer, peer, at, src._pointer, start, size, signal, op, add, stream
            )
        if status:
            raise self._failure(status, src)
        if src.once:
            src.release()

    def put_counter(
        self,
        peer: int,
        source: Any,
        counter: int = 0,
        offset: int = 0,
        source_offset: int = 0,
        nbytes: int | None = None,
        stream: Any = None,
    ) -> None:
        """put(); the counter of `peer` at this rank then grows by 1."""
        self._narrow(peer, counter)
        at, start = _u64(offset), _u64(source_offset)
        size = None if nbytes is None else _u64(nbytes)
        stream = self.comm._stream(stream)
        src = source if type(source) is Source else self._source_of(source, "put_counter")
        if size is None:
            size = _u64(src.nbytes - source_offset)
        status = lib.oriel_window_put_counter(
            self._pointer, peer, at, src._pointer, start, size, counter, stream
        )
        if status:
            raise self._failure(status, src)
        if src.once:
            src.release()

    def flush(self, peer: int | None = None, stream: Any = None) -> None:
        """Waits until operations of kernels to `peer` (None: to all) are complete and delivered.

        Operations of this class need no flush.
        """
        peer = -1 if peer is None else self._narrow(peer, 0)
        self._try(lib.oriel_window_flush(self._pointer, peer, self.comm._stream(stream)))

    # ---- atomics ---------------------------------------------------------------------------------

    def fetch_add(
        self, peer: int, offset: int, value: int, old: Any = None, stream: Any = None
    ) -> int | None:
        """Adds to the 8-byte word at `offset` of the peer's window.

        On the CPU it returns the previous value.  On a GPU it returns None, because the stream has
        not come to it yet; pass `old`, a tensor on the GPU, to have the value stored there.
        """
        return self._atomic(lib.oriel_window_fetch_add, peer, offset, (value,), old, stream)

    def swap(
        self, peer: int, offset: int, value: int, old: Any = None, stream: Any = None
    ) -> int | None:
        """Stores `value` in the word; the previous value as by fetch_add()."""
        return self._atomic(lib.oriel_window_swap, peer, offset, (value,), old, stream)

    def compare_swap(
        self,
        peer: int,
        offset: int,
        expected: int,
        value: int,
        old: Any = None,
        stream: Any = None,
    ) -> int | None:
        """Stores `value` if the word has `expected`; the previous value as by fetch_add()."""
        values = (expected, value)
        return self._atomic(lib.oriel_window_compare_swap, peer, offset, values, old, stream)

    def _atomic(
        self, call: Any, peer: int, offset: int, values: tuple[int, ...], old: Any, stream: Any
    ) -> int | None:
        self._narrow(peer, 0)
        word = ctypes.c_uint64()
        place: int | None = ctypes.addressof(word)
        if old is not None:
            region = region_for(self.comm, old, "old", write=True)
            if region.nbytes < 8:
                raise ValueError(f"old has {region.nbytes} bytes: 8 are needed")
            place = region.address
        elif self.comm._on_gpu:
            place = None
        self._try(call(self._pointer, peer, offset, *values, place, self.comm._stream(stream)))
        return None if self.comm._on_gpu or old is not None else word.value

    # ---- signals ---------------------------------------------------------------------------------

    def signal(
        self, peer: int, signal: int = 0, op: int = ADD, value: int = 1, stream: Any = None
    ) -> None:
        """Adds to (op=ADD), or sets (op=SET), the signal word of this rank at `peer`."""
        add = _ONE if value == 1 else _u64(value)
        stream = self.comm._pointer(stream) if self.comm._on_gpu else None
        if (peer | signal | op) >> 31:
            self._narrow(peer, signal, op)
        try:
            status = _signal(self._pointer, peer, signal, op, add, stream)
        except _ArgumentError:
            status = lib.oriel_window_signal(self._pointer, peer, signal, op, add, stream)
        if status:
            raise self._failure(status)

    def signal_all(
        self, signal: int = 0, op: int = ADD, value: int = 1, stream: Any = None
    ) -> None:
        """Signals every rank except this one."""
        self._narrow(0, signal)
        stream = self.comm._stream(stream)
        self._try(lib.oriel_window_signal_all(self._pointer, signal, op, value, stream))

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
        peer = -1 if peer is None else self._narrow(peer, signal, cmp)
        stream = self.comm._pointer(stream) if self.comm._on_gpu else None
        want = _u64(value)
        if timeout is not None:
            status = lib.oriel_window_wait_signal_timeout(
                self._pointer, peer, signal, cmp, want, timeout, stream
            )
        else:
            try:
                status = _wait_signal(self._pointer, peer, signal, cmp, want, stream)
            except _ArgumentError:
                status = lib.oriel_window_wait_signal(
                    self._pointer, peer, signal, cmp, want, stream
                )
        if status:
            raise self._failure(status)

    def read_signal(self, peer: int | None = None, signal: int = 0) -> int:
        """The word of `peer` now; None: the sum over all sources.  Follows no stream."""
        peer = -1 if peer is None else self._narrow(peer, signal)
        word = ctypes.c_uint64()
        self._try(lib.oriel_window_read_signal(self._pointer, peer, signal, ctypes.byref(word)))
        return word.value

    def reset_signal(self, signal: int = 0, stream: Any = None) -> None:
        """Later reads and waits of this id count from the present value."""
        self._narrow(0, signal)
        self._try(lib.oriel_window_reset_signal(self._pointer, signal, self.comm._stream(stream)))

    def reset_signals(self, stream: Any = None) -> None:
        """reset_signal() for all ids.  Only when nothing is in flight."""
        self._try(lib.oriel_window_reset_signals(self._pointer, self.comm._stream(stream)))

    def signal_advance(
        self, peer: int | None = None, signal: int = 0, value: int = 1, stream: Any = None
    ) -> None:
        """Later reads and waits count from a base that is `value` higher; None: for the sum."""
        peer = -1 if peer is None else self._narrow(peer, signal)
        stream = self.comm._stream(stream)
        self._try(lib.oriel_window_signal_advance(self._pointer, peer, signal, value, stream))

    # ---- counters and barriers -------------------------------------------------------------------

    def wait_counter(
        self,
        peer: int | None = None,
        counter: int = 0,
        value: int = 1,
        cmp: int = GE,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Waits for a counter of this rank: that of `peer`; None: the sum over peers."""
        peer = -1 if peer is None else self._narrow(peer, counter)
        stream = self.comm._stream(stream)
        if timeout is None:
            status = lib.oriel_window_wait_counter(self._pointer, peer, counter, cmp, value, stream)
        else:
            status = lib.oriel_window_wait_counter_timeout(
                self._pointer, peer, counter, cmp, value, timeout, stream
            )
        self._try(status)

    def read_counter(self, peer: int | None = None, counter: int = 0) -> int:
        """The counter of `peer` now; None: the sum over peers.  Follows no stream."""
        peer = -1 if peer is None else self._narrow(peer, counter)
        word = ctypes.c_uint64()
        self._try(lib.oriel_window_read_counter(self._pointer, peer, counter, ctypes.byref(word)))
        return word.value

    def reset_counter(
        self, peer: int | None = None, counter: int = 0, stream: Any = None
    ) -> None:
        """Later reads and waits count from the present value; None: the counters of all peers."""
        peer = -1 if peer is None else self._narrow(peer, counter)
        stream = self.comm._stream(stream)
        self._try(lib.oriel_window_reset_counter(self._pointer, peer, counter, stream))

    def barrier(self, id: int = 0, timeout: float | None = None, stream: Any = None) -> None:
        """All ranks meet at barrier `id`; all earlier operations of this rank are delivered."""
        self._narrow(0, id)
        stream = self.comm._stream(stream)
        if timeout is None:
            status = lib.oriel_window_barrier(self._pointer, id, stream)
        else:
            status = lib.oriel_window_barrier_timeout(self._pointer, id, timeout, stream)
        self._try(status)

    # ---- inside ----------------------------------------------------------------------------------

    def _narrow(self, peer: int, id: int, code: int = 0) -> int:
        """A peer, an id and a code that fit a C int; the library checks the rest."""
        if not -_INT_MAX <= peer <= _INT_MAX:
            raise fail("ERANGE", f"rank {peer} does not exist")
        if not -_INT_MAX <= id <= _INT_MAX:
            raise fail("ERANGE", f"id {id} does not exist")
        if not -_INT_MAX <= code <= _INT_MAX:
            raise fail("EINVAL", f"{code} is no operation or comparison")
        return peer

    def _try(self, status: int) -> None:
        if status:
            raise self._failure(status)

    def _failure(self, status: int, source: Source | None = None) -> Exception:
        """The exception for a failed operation; ends a source that was made for it."""
        if self._handle is None:
            raised = fail("ESTALE", "the window is closed")
        elif source is not None and not source._pointer.value:
            raised = fail("ESTALE", "the source was released")
        else:
            raised = error(status)
        if source is not None and source.once:
            source.release()
        return raised

    def _source_of(self, memory: Any, call: str, write: bool = False) -> Source:
        """A source for one call.  On the CPU the call releases it."""
        region = region_for(self.comm, memory, call, write)
        if not self.comm._on_gpu:
            return Source(self, region, once=True)  # type: ignore[arg-type]
        # The stream may still use it.  It holds the owner, so the address cannot be other memory.
        key = (region.address, region.nbytes)
        captured = is_capturing()
        source = self._captured.get(key) or (None if captured else self._pending.get(key))
        if source is None and captured:
            # A graph may be replayed at any time, so its sources stay until the window closes.
            source = self._captured[key] = Source(self, region)  # type: ignore[arg-type]
        elif source is None:
            if len(self._pending) >= _PENDING_SOURCES:
                self._synced()
            source = self._pending[key] = Source(self, region)  # type: ignore[arg-type]
        return source

    def _synced(self) -> None:
        """The streams are idle, or enough sources have gathered: releases those of _source_of()."""
        while self._pending:
            _, source = self._pending.popitem()
            source.release()
