# SPDX-License-Identifier: BSD-3-Clause
"""Collectives inside a kernel: oriel/device/coll.h.

team is team.device_handle of an oriel.Team.  One block of every rank makes the call, with the same
arguments except the addresses.  channel is one of the team's channels.  One block per rank uses a
channel at a time, and all ranks make the same calls on it in the same order.  Several blocks share
a collective with a channel each and a part of the data each.

Buffers are any device memory, with any alignment.  A call begins and ends with a meeting of the
block: it takes what the block has stored, and what it delivers may be loaded at once.

All ranks get the same status.  Bad arguments of one rank, or different calls, refuse the call, and
the team stays usable.  A passed deadline (timeout_ms, or 0 for the comm's) fails the team.
"""

from __future__ import annotations

from triton.language import core

from ._extern import Address, Int32, Int64, extern

# Types of elements.
INT8 = core.constexpr(1)
UINT8 = core.constexpr(2)
INT16 = core.constexpr(3)
UINT16 = core.constexpr(4)
INT32 = core.constexpr(5)
UINT32 = core.constexpr(6)
INT64 = core.constexpr(7)
UINT64 = core.constexpr(8)
FLOAT16 = core.constexpr(9)
BFLOAT16 = core.constexpr(10)
FLOAT32 = core.constexpr(11)
FLOAT64 = core.constexpr(12)
# How elements are combined.  The last three are for integers.
SUM = core.constexpr(1)
PRODUCT = core.constexpr(2)
MIN = core.constexpr(3)
MAX = core.constexpr(4)
AND = core.constexpr(5)
OR = core.constexpr(6)
XOR = core.constexpr(7)


@extern
def team_rank(team: Address) -> Int32:
    """This rank."""


@extern
def team_nranks(team: Address) -> Int32:
    """How many ranks the team has."""


@extern
def coll_broadcast(
    team: Address, channel: Int32, data: Address, bytes: Int64, root: Int32, timeout_ms: Int32 = 0
) -> Int32:
    """bytes of data on rank root replace those on all other ranks."""


@extern
def coll_allgather(
    team: Address, channel: Int32, send: Address, recv: Address, bytes: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Every rank's block of bytes goes to every rank.  recv holds the blocks in rank order.

    send may be the place of the own block in recv.
    """


@extern
def coll_alltoall(
    team: Address, channel: Int32, send: Address, recv: Address, bytes: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Block r of bytes of send goes to rank r.  recv holds the blocks of all ranks in rank order.

    The two must not overlap.
    """


@extern
def coll_allreduce(
    team: Address,
    channel: Int32,
    send: Address,
    recv: Address,
    count: Int64,
    type: Int32,
    op: Int32,
    timeout_ms: Int32 = 0,
) -> Int32:
    """recv[i] becomes send[i] of all ranks, combined in rank order.  send may be recv.

    count is in elements, type is FLOAT32 or another of these names, op is SUM or another.  The
    result has the same bits on all ranks.
    """


@extern
def coll_reducescatter(
    team: Address,
    channel: Int32,
    send: Address,
    recv: Address,
    count: Int64,
    type: Int32,
    op: Int32,
    timeout_ms: Int32 = 0,
) -> Int32:
    """send has a block of count elements per rank.  recv becomes the own block of all ranks.

    Blocks are combined in rank order.  recv may be the start of send, or the own block in it.
    """
