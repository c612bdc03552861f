# SPDX-License-Identifier: BSD-3-Clause
"""The meeting with which every collective on the CPU begins.

Every rank shows a block of fixed size: a header that describes its call, and a payload.  So all
ranks see the calls of all ranks before any data moves.  If the calls differ, or a rank refuses its
own arguments, all ranks raise, and the group stays usable.  A payload up to INLINE bytes travels
with the meeting, so small collectives have nothing else to do.
"""
from __future__ import annotations

import ctypes
import struct
from ctypes import memmove
from typing import NamedTuple

import torch

import oriel
from oriel._c import check, fail, lib

BLOCK = 2048
_HEAD = 64
INLINE = BLOCK - _HEAD

# The kinds of calls.  Ranks may only meet with the same kind.
KINDS = ("refused", "barrier", "all_reduce", "reduce", "broadcast", "all_gather", "gather",
         "scatter", "reduce_scatter", "all_to_all")
REFUSED = 0

_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
           torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.complex32,
           torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
           torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
_DTYPE_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_KIND_CODES = {name: code for code, name in enumerate(KINDS)}
# sequence, kind, dtype, operator, unused, root, elements, bytes of the payload
_HEADER = struct.Struct("<QBBBBiQQ")


class Call(NamedTuple):
    """What all ranks of a collective must agree on."""

    kind: str
    dtype: torch.dtype = torch.uint8
    count: int = 0  # elements; 0 where the ranks may differ
    op: int = 0
    root: int = -1

    def __str__(self) -> str:
        root = f" at root {self.root}" if self.root >= 0 else ""
        if self.kind == "barrier":
            return "barrier"
        size = f" of {self.count} elements" if self.count else ""
        return f"{self.kind}{size} of {str(self.dtype).removeprefix('torch.')}{root}"


def dtype_code(name: str, dtype: torch.dtype) -> int:
    """The number of a dtype in headers."""
    code = _DTYPE_CODES.get(dtype)
    if code is None:
        raise fail("EUNSUPPORTED", f"{name}: {dtype} has no bytes to send: use another dtype")
    return code


class Meeting:
    """The blocks of all ranks of one comm."""

    def __init__(self, comm: oriel.Comm) -> None:
        self.comm, self.ranks, self.rank = comm, comm.size, comm.rank
        self._window = oriel.Window(comm, bytes=comm.size * BLOCK)
        self._request = oriel.AllGather(comm, self._window)
        self._bytes = self._window.tensor()  # uint8, all blocks
        self._view = memoryview(self._bytes.numpy())
        self._mine = ctypes.create_string_buffer(BLOCK)
        self._start = ctypes.addressof(self._mine)
        self._payload = self._start + _HEAD
        self._base = self._bytes.data_ptr() + _HEAD
        self._exec = lib.oriel_allgather_exec
        self._handle = self._request._handle
        self._sequence = 0
        self._rows: dict[tuple[torch.dtype, int, int], torch.Tensor] = {}

    def meet(self, call: Call, address: int = 0, nbytes: int = 0, prefix: bytes = b"") -> None:
        """Show this rank's call and check that all ranks make it.

        The payload is `prefix`, and behind it `nbytes` from `address`.
        """
        self._sequence += 1
        head = _HEADER.pack(self._sequence, _KIND_CODES[call.kind], _DTYPE_CODES[call.dtype],
                            call.op, 0, call.root, call.count, 0)
        self._show(head, prefix, address, nbytes)
        size, view = len(head), self._view
        for start in range(0, self.ranks * BLOCK, BLOCK):
            if view[start:start + size] != head:
                raise self._differ(call, start // BLOCK)

    def refuse(self, why: str) -> None:
        """Tell all ranks that this rank's arguments are bad.  Raises only if the comm failed."""
        self._sequence += 1
        text = why.encode()[:INLINE]
        head = _HEADER.pack(self._sequence, REFUSED, 0, 0, 0, -1, 0, len(text))
        self._show(head, text, 0, 0)

    def _show(self, head: bytes, prefix: bytes, address: int, nbytes: int) -> None:
        memmove(self._start, head, len(head))
        if prefix:
            memmove(self._payload, prefix, len(prefix))
        if nbytes:
            memmove(self._payload + len(prefix), address, nbytes)
        status = self._exec(self._handle, self._mine, BLOCK, 1, None)
        if status:
            check(status)

    def _differ(self, call: Call, rank: int) -> oriel.Error:
        """The error for all ranks when the block of `rank` shows another call than this rank's."""
        for other in [rank, *range(self.ranks)]:
            fields = self._header(other)
            if fields[1] == REFUSED:
                text = bytes(self._view[other * BLOCK + _HEAD:][:fields[-1]])
                return fail("EREMOTE", f"{call.kind}: rank {other} failed: {text.decode()}", other)
        sequence, kind, dtype, op, _, root, count, _ = self._header(rank)
        theirs = Call(KINDS[kind], _DTYPES[dtype], count, op, root)
        text = (f"{call.kind}: ranks differ: rank {self.rank} calls {call}, rank {rank} calls "
                f"{theirs}")
        if op != call.op:
            text += f" (operators {call.op} and {op})"
        if sequence != self._sequence:
            text += f" (as calls number {self._sequence} and {sequence} of the group)"
        return fail("EMISMATCH", text + ": make the same calls on all ranks", rank)

    def _header(self, rank: int) -> tuple[int, ...]:
        return _HEADER.unpack_from(self._view, rank * BLOCK)

    def rows(self, dtype: torch.dtype, count: int, skip: int = 0) -> torch.Tensor:
        """The payloads of all ranks (ranks x count), from byte `skip`, until the next meet()."""
        key = (dtype, count, skip)
        rows = self._rows.get(key)
        if rows is None:
            if len(self._rows) > 256:
                self._rows.clear()
            start = _HEAD + skip
            blocks = self._bytes.view(self.ranks, BLOCK)
            rows = blocks[:, start:start + count * dtype.itemsize].view(dtype)
            self._rows[key] = rows
        return rows

    def unpack(self, form: struct.Struct) -> list[tuple[int, ...]]:
        """The numbers at the start of every rank's payload."""
        return [form.unpack_from(self._view, start)
                for start in range(_HEAD, self.ranks * BLOCK, BLOCK)]

    def payload(self, rank: int) -> int:
        """The address of a rank's payload."""
        return self._base + rank * BLOCK
