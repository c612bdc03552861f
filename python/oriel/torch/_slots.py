# SPDX-License-Identifier: BSD-3-Clause
"""Blocks for single ranks: the all-to-all-v of the library, in as many rounds as they need.

A request has a slot per pair of ranks.  Blocks larger than a slot take several rounds.  All ranks
pass the same largest block, so all ranks make the same number of rounds.
"""
from __future__ import annotations

import ctypes
from ctypes import memmove
from typing import Callable, Sequence

import oriel
from oriel import _c
from oriel._c import check, lib

_ALL_SLOTS = 32 << 20
_LEAST, _MOST = 64 << 10, 4 << 20  # bytes of a slot
_SEND = 16 << 20  # what a rank sends in a round, without a copy on this side


class Slots:
    """An all-to-all-v request and the arrays of its arguments."""

    def __init__(self, comm: oriel.Comm, guard: Callable[[], None]) -> None:
        self._guard = guard  # called between rounds: all ranks have emptied their slots
        self.ranks, self.rank = comm.size, comm.rank
        self.slot = min(_MOST, max(_LEAST, _ALL_SLOTS // comm.size))
        self._send = max(_SEND, self.slot * comm.size)
        self._request = oriel.AllToAllV(comm, slot_bytes=self.slot, send_bytes=self._send,
                                        synchronised=False)
        handle = self._request._handle
        self._places = [lib.oriel_alltoallv_slot(handle, rank) for rank in range(comm.size)]
        self._buffer = lib.oriel_alltoallv_send_buffer(handle)
        words = ctypes.c_uint64 * comm.size
        self._sizes, self._offsets, self._came = words(), words(), words()
        self._args = _c.oriel_alltoallv_args(
            ctypes.sizeof(_c.oriel_alltoallv_args), None, ctypes.addressof(self._sizes),
            ctypes.addressof(self._offsets), ctypes.addressof(self._came), None, 0)

    def swap(self, source: int, leave: Sequence[int], targets: Sequence[int],
             arrive: Sequence[int], largest: int) -> None:
        """Send leave[r] bytes to rank r, packed from `source`; put arrive[r] bytes to targets[r].

        largest: of all blocks of all ranks; the same on all ranks.
        """
        starts = [source]
        for count in leave:
            starts.append(starts[-1] + count)
        own = self.rank
        if leave[own]:
            memmove(targets[own], starts[own], leave[own])
        for start in range(0, largest, self.slot):
            if start:
                self._guard()
            self._load(starts, leave, start)
            check(lib.oriel_alltoallv_exec(self._request._handle, ctypes.byref(self._args), None))
            for rank, total in enumerate(arrive):
                if rank != own and total > start:
                    count = min(self.slot, total - start)
                    memmove(targets[rank] + start, self._places[rank], count)

    def _load(self, starts: Sequence[int], leave: Sequence[int], start: int) -> None:
        """The arguments of one round: from the source itself if its offsets are in range."""
        direct = starts[-1] - starts[0] <= self._send
        position = 0
        for rank, total in enumerate(leave):
            count = 0 if rank == self.rank else max(0, min(self.slot, total - start))
            self._sizes[rank] = count
            if direct:
                self._offsets[rank] = starts[rank] - starts[0] + start if count else 0
                continue
            if count:
                memmove(self._buffer + position, starts[rank] + start, count)
            self._offsets[rank] = position
            position += count
        self._args.send = starts[0] if direct and starts[-1] > starts[0] else None

    def from_root(self, address: int, nbytes: int, root: int) -> None:
        """Send the root's bytes to all ranks: each rank passes its part on to all others."""
        part = -(-nbytes // self.ranks)
        cuts = [min(nbytes, rank * part) for rank in range(self.ranks + 1)]
        counts = [cuts[rank + 1] - cuts[rank] for rank in range(self.ranks)]
        mine, own = self.rank == root, counts[self.rank]
        place = address + cuts[self.rank]
        # First every rank gets its part from the root, then all ranks have a part for all.
        self.swap(address, counts if mine else [0] * self.ranks, [place] * self.ranks,
                  [own if rank == root else 0 for rank in range(self.ranks)], part)
        self._spread(address, cuts, counts, part, root)

    def _spread(self, address: int, cuts: Sequence[int], counts: Sequence[int], part: int,
                root: int) -> None:
        """Every rank sends its own part to all ranks but the root, which has everything."""
        own, me = counts[self.rank], self.rank
        for start in range(0, part, self.slot):
            self._guard()
            count = max(0, min(self.slot, own - start))
            for rank in range(self.ranks):
                self._sizes[rank] = 0 if rank in (me, root) else count
                self._offsets[rank] = 0
            self._args.send = address + cuts[me] + start if count else None
            check(lib.oriel_alltoallv_exec(self._request._handle, ctypes.byref(self._args), None))
            for rank in range(self.ranks):
                came = max(0, min(self.slot, counts[rank] - start))
                if rank != me and me != root and came:
                    memmove(address + cuts[rank] + start, self._places[rank], came)
