# SPDX-License-Identifier: BSD-3-Clause
"""Persistent collectives: made once, executed many times.

A request exchanges all that ranks need to know of each other when it is made.  comm.all_gather() is
the form without a request.
"""

from __future__ import annotations

import ctypes
import gc
import operator
from typing import Any

from . import _c
from ._c import CONSTANTS, check, error, fail, lib
from ._describe import Region
from .comm import Comm
from .memory import array_over, region_for, tensor_over
from .window import Window

_ALGORITHMS = {
    "auto": CONSTANTS["ORIEL_GATHER_AUTO"],
    "direct": CONSTANTS["ORIEL_GATHER_DIRECT"],
    "ring": CONSTANTS["ORIEL_GATHER_RING"],
    "doubling": CONSTANTS["ORIEL_GATHER_DOUBLING"],
}
_POLICIES = {
    "default": CONSTANTS["ORIEL_GATHER_POLICY_DEFAULT"],
    "by_size": CONSTANTS["ORIEL_GATHER_BY_SIZE"],
    "fastest": CONSTANTS["ORIEL_GATHER_FASTEST"],
    "no_sms": CONSTANTS["ORIEL_GATHER_NO_SMS"],
}


class _Request:
    """What the requests have in common: a handle, a comm that holds it, an end."""

    _what = "request"
    _handle: int | None = None
    comm: Comm

    @property
    def closed(self) -> bool:
        """Has the request, or its comm, been closed?"""
        return self._handle is None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Ends the request."""
        raise NotImplementedError

    def _live(self, call: str) -> int:
        if self._handle is None:
            raise fail("ESTALE", f"{call}: the {self._what} is closed")
        return self._handle

    def _ended(self) -> None:
        self._handle = None
        self.comm._children.pop(self._number, None)

    def _synced(self) -> None:
        """Nothing waits for the end of streams."""

    _number = 0


def _line(call: Any, handle: int, *arguments: Any) -> str:
    """The line of an explain call."""
    text = ctypes.create_string_buffer(1024)
    check(call(handle, *arguments, text, len(text)))
    return text.value.decode()


class AllGather(_Request):
    """A persistent all-gather: every rank's block, in rank order, in every rank's memory.

    Args:
        comm: the ranks.
        target: the receive memory: a Window, or an array or tensor of oriel.empty().  It has room
            for the blocks of all ranks.
        algorithm: "auto", "direct", "ring" or "doubling", between nodes.
        unguarded: leaves out the handshake that protects memory that its owner still reads.
        offset, bytes: the part of the target to use; 0 bytes: to its end.
        chunk_bytes: forwarded in such pieces; 0: chosen.
        policy: what moves data between the GPUs of a node: "fastest" (kernels), "no_sms" (copy
            engines), "by_size" (kernels up to 1 MiB), or "default" (ORIEL_GATHER_POLICY).

    The constructor is collective, close() is local.
    """

    _what = "all-gather"

    def __init__(
        self,
        comm: Comm,
        target: Any,
        algorithm: str = "auto",
        unguarded: bool = False,
        offset: int = 0,
        bytes: int = 0,
        chunk_bytes: int = 0,
        policy: str = "default",
    ) -> None:
        self.comm = comm
        self.target = target
        self._buffer = ctypes.c_void_p()
        comm._live("AllGather")
        problem = None
        try:
            self._region = self._take(target)
            options = self._options(algorithm, unguarded, offset, bytes, chunk_bytes, policy)
        except (TypeError, ValueError, _c.Error) as raised:
            problem = raised
        comm._agree("AllGather", problem)
        try:
            self._create(options, offset, bytes)
        except _c.Error:
            self._release()
            raise
        self._number = comm._adopt(self)

    def _take(self, target: Any) -> Region:
        if isinstance(target, Window):
            target._live("AllGather")
            return target._region
        region = region_for(self.comm, target, "target", write=True)
        if not region.nbytes:
            raise ValueError("target has no elements: it needs room for the blocks of all ranks")
        return region

    def _options(
        self,
        algorithm: str,
        unguarded: bool,
        offset: int,
        nbytes: int,
        chunk_bytes: int,
        policy: str,
    ) -> _c.oriel_allgather_options:
        if algorithm not in _ALGORITHMS:
            names = ", ".join(_ALGORITHMS)
            raise ValueError(f"algorithm={algorithm!r}: must be one of {names}")
        if policy not in _POLICIES:
            names = ", ".join(_POLICIES)
            raise ValueError(f"policy={policy!r}: must be one of {names}")
        if min(offset, nbytes, chunk_bytes) < 0:
            raise ValueError("offset, bytes and chunk_bytes must not be negative")
        return _c.oriel_allgather_options(
            ctypes.sizeof(_c.oriel_allgather_options),
            _ALGORITHMS[algorithm],
            CONSTANTS["ORIEL_GATHER_UNGUARDED"] if unguarded else 0,
            offset,
            nbytes,
            chunk_bytes,
            _POLICIES[policy],
        )

    def _create(self, options: _c.oriel_allgather_options, offset: int, nbytes: int) -> None:
        request = ctypes.c_void_p()
        comm, out = self.comm._handle, ctypes.byref(request)
        if isinstance(self.target, Window):
            handle = self.target._handle
            status = lib.oriel_allgather_create(comm, handle, ctypes.byref(options), out)
        else:
            region, buffer = self._region, ctypes.byref(self._buffer)
            options.bytes = 0  # max_count says it
            # All ranks go on to the collective call, also one whose memory is refused here.
            status = lib.oriel_buffer_register(comm, region.address, region.nbytes, buffer)
            room = (nbytes or max(0, region.nbytes - offset)) // self.comm.size
            refused = error(status) if status else None
            status = lib.oriel_allgather_create_buffer(
                comm, self._buffer, room, 1, ctypes.byref(options), out
            )
            if refused:
                raise refused
        self.comm._check(status)
        self._handle = request.value

    def _release(self) -> None:
        if self._buffer.value and self.comm._handle is not None:
            lib.oriel_buffer_release(self._buffer)
        self._buffer = ctypes.c_void_p()

    def exec(self, send: Any = None, nbytes: int | None = None, stream: Any = None) -> None:
        """Gathers every rank's `send`.  All ranks pass the same number of bytes. [C]

        send=None: this rank's block of `nbytes` bytes already lies at its place in the target.
        """
        address = None
        if send is not None:
            region = region_for(self.comm, send, "send")
            address = region.address
            nbytes = region.nbytes if nbytes is None else nbytes
            if nbytes > region.nbytes:
                raise ValueError(f"send has {region.nbytes} bytes, not {nbytes}")
        if nbytes is None or nbytes < 0:
            raise ValueError("exec: pass send, or nbytes for a block that is in place")
        handle = self._live("exec")
        stream = self.comm._stream(stream)
        self.comm._check(lib.oriel_allgather_exec(handle, address, nbytes, 1, stream))

    __call__ = exec

    @property
    def status(self) -> int:
        """The first failure, or 0.  Does not raise."""
        return lib.oriel_allgather_status(self._live("status"))

    def explain(self, nbytes: int) -> str:
        """One line: which algorithm a block of that size uses, and why."""
        return _line(lib.oriel_allgather_explain, self._live("explain"), nbytes, 1)

    def close(self) -> None:
        """Ends the request.  Local, at any time between calls.  May be repeated."""
        if self._handle is None:
            return
        status = lib.oriel_allgather_destroy(self._handle)
        raised = error(status) if status else None
        self._release()
        self._ended()
        if raised:
            raise raised

    def _owners(self) -> Any:
        return self._region


class _RequestMemory:
    """Memory of an all-to-all-v; arrays over it hold it, and the request."""

    def __init__(self, request: AllToAllV) -> None:
        self._request = request
        request._views.add(id(self))
        request.comm._views.add(id(self))

    def __del__(self) -> None:  # on any thread
        self._request._views.discard(id(self))
        self._request.comm._views.discard(id(self))


def _is_setting(setting: Any) -> bool:
    """Is it (blocks, warps, chunk_bytes), each a whole number that the C struct can hold?"""
    try:
        numbers = [operator.index(number) for number in setting]
    except TypeError:
        return False
    limits = ((1 << 32) - 1, (1 << 32) - 1, (1 << 64) - 1)
    return len(numbers) == 3 and all(0 < n <= most for n, most in zip(numbers, limits))


class AllToAllV(_Request):
    """A persistent all-to-all-v: every rank sends elements to every rank.

    Set exactly one of slot_bytes and recv_bytes.  All are alike on all ranks, except send_bytes,
    expect_bytes, mapped, queued, and the place and size of recv.

    Args:
        comm: the ranks.
        slot_bytes: fixed slots: the maximum that one rank sends to another in a call.
        recv_bytes: packed: the maximum that a rank receives in a call from all sources together.
        send_bytes: the maximum that a rank sends in a call; 0: the size of the receive buffer.
        elem_bytes: bytes of an element; sizes and offsets count elements.
        synchronised: data arrives only after the receiver has made its own call.
        expect_bytes: a hint for speed: the bytes for the peer that gets most; 0: unknown.
        mapped, queued: the plan for peers of that kind: (blocks, warps, chunk_bytes), such as a
            Setting of comm.alltoallv_plan(); None: the tuner decides.  Ranks may differ.
        recv: an array (GPU: tensor) where data arrives, on all ranks or on none, such as
            oriel.empty() gives it; None: memory of the request.

    The constructor and close() are collective.
    """

    _what = "all-to-all-v"

    def __init__(
        self,
        comm: Comm,
        slot_bytes: int = 0,
        recv_bytes: int = 0,
        send_bytes: int = 0,
        elem_bytes: int = 1,
        synchronised: bool = True,
        expect_bytes: int = 0,
        mapped: tuple[int, int, int] | None = None,
        queued: tuple[int, int, int] | None = None,
        recv: Any = None,
    ) -> None:
        self.comm = comm
        self._recv: Region | None = None
        self._views: set[int] = set()  # owners of arrays over its memory
        comm._live("AllToAllV")
        problem = None
        if min(slot_bytes, recv_bytes, send_bytes, elem_bytes, expect_bytes) < 0:
            problem = ValueError("AllToAllV: numbers of bytes must not be negative")
        for name, setting in (("mapped", mapped), ("queued", queued)):
            if setting is not None and not _is_setting(setting):
                problem = ValueError(f"{name}={setting!r}: must be (blocks, warps, chunk_bytes)")
        try:
            if recv is not None:
                self._recv = region_for(comm, recv, "recv", write=True)
                if not self._recv.nbytes:
                    raise ValueError("recv has no elements: it needs room for what arrives")
        except (TypeError, ValueError, _c.Error) as raised:
            problem = raised
        comm._agree("AllToAllV", problem)
        options = _c.oriel_alltoallv_options(
            ctypes.sizeof(_c.oriel_alltoallv_options),
            slot_bytes,
            recv_bytes,
            send_bytes,
            elem_bytes,
            int(synchronised),
            0,
            expect_bytes,
            0,
            tuple(mapped or (0, 0, 0)),
            tuple(queued or (0, 0, 0)),
            self._recv.address if self._recv else None,
            self._recv.nbytes if self._recv else 0,
        )
        request = ctypes.c_void_p()
        create = lib.oriel_alltoallv_create
        comm._check(create(comm._handle, ctypes.byref(options), ctypes.byref(request)))
        self._handle = request.value
        self._number = comm._adopt(self)
        self.elem_bytes = elem_bytes
        self._recv_bytes = recv_bytes or self._slots_bytes(slot_bytes)
        self._send_bytes = send_bytes or self._recv_bytes

    def _slots_bytes(self, slot_bytes: int) -> int:
        """The size of the receive buffer; slots begin at multiples of 16 bytes and an element."""
        first = lib.oriel_alltoallv_slot(self._handle, 0)
        last = lib.oriel_alltoallv_slot(self._handle, self.comm.size - 1)
        return last - first + slot_bytes

    def send_buffer(self, dtype: Any = "uint8") -> Any:
        """The send memory as an array (GPU: tensor): data in it is sent without a copy."""
        address = lib.oriel_alltoallv_send_buffer(self._live("send_buffer"))
        return self._over(address, self._send_bytes, dtype)

    def recv_buffer(self, dtype: Any = "uint8") -> Any:
        """The receive memory as an array (GPU: tensor)."""
        address = lib.oriel_alltoallv_recv_buffer(self._live("recv_buffer"))
        return self._over(address, self._recv_bytes, dtype, self._recv)

    def _over(self, address: int, nbytes: int, dtype: Any, owner: Any = None) -> Any:
        device = self.comm.device
        region = Region(address, nbytes, device, owner or _RequestMemory(self), True, 1)
        make = array_over if device == "cpu" else tensor_over
        return make(region, dtype, None)

    def exec(
        self,
        send_sizes: Any,
        send: Any = None,
        send_offsets: Any = None,
        recv_sizes: Any = None,
        recv_offsets: Any = None,
        expect_bytes: int = 0,
        stream: Any = None,
    ) -> None:
        """Sends send_sizes[r] elements to every rank r. [C]

        The sizes and offsets are arrays of one 64-bit integer per rank, in memory of the device.
        send: the data; None: it is in send_buffer().  send_offsets: where each rank's data is, in
        elements; None: in rank order, without gaps.  recv_sizes, recv_offsets: outputs, may be
        None.
        """
        args = _c.oriel_alltoallv_args(
            ctypes.sizeof(_c.oriel_alltoallv_args),
            None if send is None else region_for(self.comm, send, "send").address,
            self._words(send_sizes, "send_sizes"),
            self._words(send_offsets, "send_offsets"),
            self._words(recv_sizes, "recv_sizes", write=True),
            self._words(recv_offsets, "recv_offsets", write=True),
            expect_bytes,
        )
        handle = self._live("exec")
        stream = self.comm._stream(stream)
        self.comm._check(lib.oriel_alltoallv_exec(handle, ctypes.byref(args), stream))

    __call__ = exec

    def _words(self, array: Any, what: str, write: bool = False) -> int | None:
        """The address of an array of one 64-bit word per rank."""
        if array is None:
            return None
        region = region_for(self.comm, array, what, write)
        if region.itemsize != 8 or region.nbytes != 8 * self.comm.size:
            raise ValueError(
                f"{what} must be {self.comm.size} integers of 64 bits, one per rank; it has "
                f"{region.nbytes} bytes in elements of {region.itemsize}"
            )
        return region.address

    @property
    def status(self) -> int:
        """The first failure; else the error of the first call refused since the last question."""
        return lib.oriel_alltoallv_status(self._live("status"))

    def explain(self, bytes_per_peer: int) -> str:
        """One line: the plan of a call of that size, and why."""
        return _line(lib.oriel_alltoallv_explain, self._live("explain"), bytes_per_peer)

    def close(self) -> None:
        """Ends the request. [C]  All ranks raise ORIEL_EBUSY while arrays over its memory exist."""
        if self._handle is None:
            return
        comm = self.comm
        failed = comm._handle is None or comm._failed()
        if self._views:
            gc.collect()
        if not failed:
            left = f"close: {len(self._views)} arrays over memory of the all-to-all-v are left"
            comm._agree("close", fail("EBUSY", left) if self._views else None)
        # A failed comm does not wait.  Arrays over the memory keep the C request.
        status = 0 if self._views else lib.oriel_alltoallv_destroy(self._handle)
        raised = error(status) if status and not failed else None
        self._ended()
        if raised:
            raise raised

    def _owners(self) -> Any:
        return self._recv
