# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on tensors in host memory, over one comm.

Every collective begins with a meeting (_meeting.py).  What does not fit into the meeting follows:
blocks of all ranks through the all-gather of the library, blocks for single ranks through its
all-to-all-v, sums through its all-reduce.  Tensors are contiguous: _group.py sees to that.

Called by: the line of a group, one call at a time.
"""
from __future__ import annotations

import ctypes
import struct
from ctypes import memmove
from typing import Sequence

import torch

import oriel
from oriel._c import check, fail, lib

from . import _native, _reduce
from ._meeting import INLINE, Call, Meeting
from ._reduce import Op
from ._slots import Slots

_GATHER_BYTES = 8 << 20  # of the window for blocks of all ranks
_GATHER_LEAST, _GATHER_MOST = 64 << 10, 1 << 20  # per rank


class CpuCollectives:
    """The collectives of one group on the CPU."""

    def __init__(self, comm: oriel.Comm) -> None:
        self.comm, self.ranks, self.rank = comm, comm.size, comm.rank
        self.meeting = Meeting(comm)
        self._slots: Slots | None = None  # made by the first call that needs it, on all ranks
        self._gather: oriel.AllGather | None = None
        self._splits = struct.Struct(f"<{2 * comm.size}q")  # input and output splits of a rank
        self._chunk = min(_GATHER_MOST, max(_GATHER_LEAST, _GATHER_BYTES // comm.size))

    def refuse(self, why: str) -> None:
        """Take part in the meeting of a call whose arguments are bad."""
        self.meeting.refuse(why)

    # ---- blocks of all ranks ----

    def barrier(self) -> None:
        """All ranks meet."""
        self.meeting.meet(Call("barrier"))

    def all_gather(self, outs: Sequence[torch.Tensor], tensor: torch.Tensor) -> None:
        """Every rank gets the tensors of all ranks, in the order of ranks."""
        nbytes = tensor.nbytes
        inline = nbytes <= INLINE
        call = Call("all_gather", tensor.dtype, tensor.numel())
        self.meeting.meet(call, tensor.data_ptr(), nbytes if inline else 0)
        targets = [out.data_ptr() for out in outs]
        if inline:
            self._take_inline(targets, nbytes)
        else:
            self._gather_to(targets, tensor.data_ptr(), nbytes)

    def all_gather_flat(self, out: torch.Tensor, tensor: torch.Tensor) -> None:
        """The same into one tensor of ranks x elements."""
        nbytes, start = tensor.nbytes, out.data_ptr()
        inline = nbytes <= INLINE
        call = Call("all_gather", tensor.dtype, tensor.numel())
        self.meeting.meet(call, tensor.data_ptr(), nbytes if inline else 0)
        targets = range(start, start + self.ranks * nbytes, nbytes) if nbytes else ()
        if inline:
            self._take_inline(targets, nbytes)
        else:
            self._gather_to(targets, tensor.data_ptr(), nbytes)

    def _take_inline(self, targets: Sequence[int], nbytes: int) -> None:
        if nbytes:
            for rank, target in enumerate(targets):
                memmove(target, self.meeting.payload(rank), nbytes)

    def _gather_to(self, targets: Sequence[int], source: int, nbytes: int) -> None:
        """Blocks of `nbytes` from all ranks, chunk by chunk through the window."""
        window = self._gathering().tensor().data_ptr()
        for start in range(0, nbytes, self._chunk):
            if start:
                self._guard()
            count = min(self._chunk, nbytes - start)
            self._gather_chunk(source + start, count)
            for rank, target in enumerate(targets):
                memmove(target + start, window + rank * count, count)

    def _gathering(self) -> oriel.Window:
        if self._gather is None:
            self._window = oriel.Window(self.comm, bytes=self.ranks * self._chunk)
            self._gather = oriel.AllGather(self.comm, self._window, unguarded=True)
            self._window_bytes = self._window.tensor()
        return self._window

    def _guard(self) -> None:
        """All ranks have read what has arrived, so that more may arrive.

        The meeting of a call is the guard of its first round.  Further rounds need their own.
        """
        self.meeting.meet(Call("barrier"))

    def _gather_chunk(self, source: int, count: int) -> None:
        status = lib.oriel_allgather_exec(self._gather._handle, source, count, 1, None)
        if status:
            check(status)

    # ---- reductions ----

    def all_reduce(self, tensor: torch.Tensor, op: Op) -> None:
        """Every rank gets the reduction over all ranks."""
        self._reduce(Call("all_reduce", tensor.dtype, tensor.numel(), op.code), tensor, op, True)

    def reduce(self, tensor: torch.Tensor, root: int, op: Op) -> None:
        """The root gets the reduction over all ranks; other ranks keep their tensors."""
        call = Call("reduce", tensor.dtype, tensor.numel(), op.code, root)
        self._reduce(call, tensor, op, self.rank == root)

    def _reduce(self, call: Call, tensor: torch.Tensor, op: Op, keep: bool) -> None:
        mine = _reduce.before(tensor, op)
        out = tensor.view(-1) if keep else torch.empty_like(mine).view(-1)
        if mine.nbytes <= INLINE:
            self.meeting.meet(call, mine.data_ptr(), mine.nbytes)
            if keep and call.count:
                _reduce.reduce_rows(self.meeting.rows(mine.dtype, call.count), op, out)
        else:
            self.meeting.meet(call)
            if not _native.all_reduce(self.comm, mine, out, op):
                self._reduce_chunks(mine.view(-1), out, op)
        if keep:
            _reduce.after(out, op, self.ranks)

    def _reduce_chunks(self, mine: torch.Tensor, out: torch.Tensor, op: Op) -> None:
        """Elements that the library cannot reduce: all ranks gather and reduce them."""
        self._gathering()
        step = self._chunk // mine.itemsize
        for start in range(0, mine.numel(), step):
            if start:
                self._guard()
            part = mine[start:start + step]
            self._gather_chunk(part.data_ptr(), part.nbytes)
            rows = self._window_bytes[:self.ranks * part.nbytes].view(mine.dtype)
            _reduce.reduce_rows(rows.view(self.ranks, -1), op, out[start:start + step])

    def reduce_scatter(self, out: torch.Tensor, tensor: torch.Tensor, op: Op) -> None:
        """Rank r gets the reduction of all ranks' r-th parts of `tensor`."""
        mine = _reduce.before(tensor, op).view(-1)
        count = out.numel()
        call = Call("reduce_scatter", out.dtype, count, op.code)
        flat = out.view(-1)
        if mine.nbytes <= INLINE:
            self.meeting.meet(call, mine.data_ptr(), mine.nbytes)
            rows = self.meeting.rows(out.dtype, count, self.rank * out.nbytes)
            if count:
                _reduce.reduce_rows(rows, op, flat)
        else:
            self.meeting.meet(call)
            if not _native.reduce_scatter(self.comm, mine, flat, op):
                self._scatter_rows(mine, flat, op)
        _reduce.after(flat, op, self.ranks)

    def _scatter_rows(self, mine: torch.Tensor, out: torch.Tensor, op: Op) -> None:
        """Elements that the library cannot reduce: every rank gets its rows and reduces them."""
        rows = torch.empty(self.ranks, out.numel(), dtype=out.dtype)
        counts = [out.nbytes] * self.ranks
        self._exchange().swap(mine.data_ptr(), counts, [row.data_ptr() for row in rows], counts,
                              out.nbytes)
        _reduce.reduce_rows(rows, op, out)

    # ---- one root ----

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        """Every rank gets the root's tensor."""
        nbytes, mine = tensor.nbytes, self.rank == root
        call = Call("broadcast", tensor.dtype, tensor.numel(), 0, root)
        if nbytes <= INLINE:
            self.meeting.meet(call, tensor.data_ptr(), nbytes if mine else 0)
            if not mine and nbytes:
                memmove(tensor.data_ptr(), self.meeting.payload(root), nbytes)
            return
        self.meeting.meet(call)
        if not _native.broadcast(self.comm, tensor, root):
            self._exchange().from_root(tensor.data_ptr(), nbytes, root)

    def gather(self, outs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> None:
        """The root gets the tensors of all ranks; `outs` is empty elsewhere."""
        nbytes, mine = tensor.nbytes, self.rank == root
        inline = nbytes <= INLINE
        call = Call("gather", tensor.dtype, tensor.numel(), 0, root)
        self.meeting.meet(call, tensor.data_ptr(), nbytes if inline else 0)
        targets = [out.data_ptr() for out in outs]
        if inline:
            self._take_inline(targets, nbytes)
            return
        counts = [nbytes if rank == root else 0 for rank in range(self.ranks)]
        arrive = [nbytes if mine else 0] * self.ranks
        self._exchange().swap(tensor.data_ptr(), counts, targets or [0] * self.ranks, arrive,
                              nbytes)

    def scatter(self, out: torch.Tensor, parts: Sequence[torch.Tensor], root: int) -> None:
        """Rank r gets the r-th of the root's parts; `parts` is empty elsewhere."""
        nbytes, mine = out.nbytes, self.rank == root
        call = Call("scatter", out.dtype, out.numel(), 0, root)
        packed = torch.cat([part.reshape(-1) for part in parts]) if mine else out
        if nbytes * self.ranks <= INLINE:
            self.meeting.meet(call, packed.data_ptr(), packed.nbytes if mine else 0)
            if nbytes:
                memmove(out.data_ptr(), self.meeting.payload(root) + self.rank * nbytes, nbytes)
            return
        self.meeting.meet(call)
        counts = [nbytes if mine else 0] * self.ranks
        arrive = [nbytes if rank == root else 0 for rank in range(self.ranks)]
        self._exchange().swap(packed.data_ptr(), counts, [out.data_ptr()] * self.ranks, arrive,
                              nbytes)

    # ---- every pair ----

    def all_to_all(self, out: torch.Tensor, tensor: torch.Tensor, arrive: Sequence[int],
                   leave: Sequence[int]) -> None:
        """Sends leave[r] elements to rank r and gets arrive[r] from it, packed in rank order."""
        item = tensor.itemsize
        table = self._share_splits(tensor, arrive, leave)
        targets, position = [], out.data_ptr()
        for count in arrive:
            targets.append(position)
            position += count * item
        most = max(sum(row) for row in table) * item  # of one rank, in bytes
        if self._splits.size + most <= INLINE:
            self._pick_inline(table, targets, item)
            return
        self._exchange().swap(tensor.data_ptr(), [count * item for count in leave], targets,
                              [count * item for count in arrive],
                              max(max(row) for row in table) * item)

    def largest_split(self, dtype: torch.dtype, arrive: Sequence[int],
                      leave: Sequence[int]) -> int:
        """Compare the splits of all ranks for an all-to-all on another device."""
        table = self._share_splits(torch.empty(0, dtype=dtype), arrive, leave)
        return max(max(row) for row in table)

    def _share_splits(self, tensor: torch.Tensor, arrive: Sequence[int],
                      leave: Sequence[int]) -> list[tuple[int, ...]]:
        """What every rank sends to every rank.  Small tensors travel with the splits."""
        call, size = Call("all_to_all", tensor.dtype), self._splits.size
        splits = self._splits.pack(*leave, *arrive)
        if size <= INLINE:
            inline = size + tensor.nbytes <= INLINE
            self.meeting.meet(call, tensor.data_ptr(), tensor.nbytes if inline else 0, splits)
            table = self.meeting.unpack(self._splits)
        else:
            self.meeting.meet(call)
            mine = ctypes.create_string_buffer(splits, size)
            every = ctypes.create_string_buffer(self.ranks * size)
            start = ctypes.addressof(every)
            self._gather_to(range(start, start + self.ranks * size, size), ctypes.addressof(mine),
                            size)
            table = list(self._splits.iter_unpack(every))
        leaves = [row[:self.ranks] for row in table]
        _check_splits(leaves, [row[self.ranks:] for row in table])
        return leaves

    def _pick_inline(self, table: list[tuple[int, ...]], targets: list[int], item: int) -> None:
        for rank, target in enumerate(targets):
            row = table[rank]
            if row[self.rank]:
                before = self._splits.size + sum(row[:self.rank]) * item
                memmove(target, self.meeting.payload(rank) + before, row[self.rank] * item)

    def _exchange(self) -> Slots:
        if self._slots is None:
            self._slots = Slots(self.comm, self._guard)
        return self._slots


def _check_splits(leaves: list[tuple[int, ...]], arrives: list[tuple[int, ...]]) -> None:
    """All ranks see all splits, so all ranks raise if one pair of ranks differs."""
    if list(zip(*leaves)) == arrives:
        return
    for target, arrive in enumerate(arrives):
        for source, count in enumerate(arrive):
            sent = leaves[source][target]
            if sent != count:
                raise fail("EMISMATCH", f"all_to_all: rank {source} sends {sent} elements to rank "
                           f"{target}, which expects {count}: input splits of the one must be "
                           "output splits of the other", source)
