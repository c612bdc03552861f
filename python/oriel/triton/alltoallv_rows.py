# SPDX-License-Identifier: BSD-3-Clause
"""Small Triton kernels beside the exchange: offsets, filling the send buffer, packing slots."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def offsets_kernel(sizes, offsets, count: tl.int32, LANES: tl.constexpr):
    """Exclusive sums, in one block."""
    lane = tl.arange(0, LANES)
    size = tl.load(sizes + lane, mask=lane < count, other=0).to(tl.int64)
    tl.store(offsets + lane, tl.cumsum(size, 0) - size, mask=lane < count)


@triton.jit(do_not_specialize=["units"])
def copy_kernel(to, start, units: tl.int64, BLOCK: tl.constexpr):
    """Copies contiguous units."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < units
    tl.store(to + at, tl.load(start + at, mask=mask), mask=mask)


@triton.jit(do_not_specialize=["room", "rank"])
def pack_kernel(to, slots, splits, words, room: tl.int64, rank: tl.int32,
                ROW_UNITS: tl.constexpr, SLOT_UNITS: tl.constexpr, SLOT_ROWS: tl.constexpr,
                WORLD: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
                MISMATCH: tl.constexpr):
    """Copies the first splits[s] rows of every slot s into `to`, without gaps.

    Program (s, b) copies every num_programs(1)-th block of slot s.  `room` is the number of rows
    of `to`.  If the splits have another sum, no row is copied, and the status says so.
    """
    slot = tl.program_id(0)
    lane = tl.arange(0, LANES)
    rows = tl.load(splits + lane, mask=lane < WORLD, other=0).to(tl.int64)
    mine = tl.sum(tl.where(lane == slot, rows, 0), 0)
    before = tl.sum(tl.where(lane < slot, rows, 0), 0)
    bad = tl.sum(((rows < 0) | (rows > SLOT_ROWS)).to(tl.int32), 0)
    if (bad != 0) | (tl.sum(rows, 0) != room):
        if (slot == 0) & (tl.program_id(1) == 0):
            word = (rank + 1).to(tl.int64) * 65536 + MISMATCH
            tl.atomic_cas(words, tl.zeros_like(word), word)
    else:
        units = mine * ROW_UNITS
        start = slots + slot.to(tl.int64) * SLOT_UNITS
        to += before * ROW_UNITS
        for at in range(tl.program_id(1).to(tl.int64) * BLOCK, units,
                        tl.num_programs(1).to(tl.int64) * BLOCK):
            unit = at + tl.arange(0, BLOCK)
            mask = unit < units
            tl.store(to + unit, tl.load(start + unit, mask=mask), mask=mask)
