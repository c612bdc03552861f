# SPDX-License-Identifier: BSD-3-Clause
"""Calls on words: ranks, signals, counters, completion and barriers.

timeout_ms is the deadline of a wait in milliseconds; 0 is the comm's.  A wait that passes it
returns ORIEL_ETIMEDOUT (-4).  Values that a call returns are equal on all threads.
"""

from __future__ import annotations

from triton.language import core

from ._extern import Address, Int32, Int64, extern, extern_put

# What a signal does to its word.
ADD = core.constexpr(1)
SET = core.constexpr(2)
# Comparisons of a wait: "the word <cmp> value".
EQ = core.constexpr(1)
NE = core.constexpr(2)
GT = core.constexpr(3)
GE = core.constexpr(4)
LT = core.constexpr(5)
LE = core.constexpr(6)
# How a peer is reached: peer_kind().
PEER_NONE = core.constexpr(0)
PEER_SELF = core.constexpr(1)
PEER_MAPPED = core.constexpr(2)
PEER_QUEUED = core.constexpr(3)


# ---- ranks, peers and addresses ------------------------------------------------------------------


@extern
def rank(win: Address) -> Int32:
    """This rank."""


@extern
def nranks(win: Address) -> Int32:
    """How many ranks the window has."""


@extern
def peer_kind(win: Address, peer: Int32) -> Int32:
    """PEER_SELF, PEER_MAPPED, PEER_QUEUED, or PEER_NONE for a rank that does not exist."""


@extern
def base(win: Address) -> Int64:
    """Address of this rank's window buffer.

    base(win).to(tl.pointer_type(tl.float32)) is a pointer for tl.load() and tl.store().
    """


@extern
def size(win: Address) -> Int64:
    """Bytes of the window buffer."""


@extern
def mapped_address(win: Address, peer: Int32, offset: Int64) -> Int64:
    """Address of a byte of the peer's window; 0 if the peer is neither this rank nor mapped."""


@extern
def window_failure(win: Address) -> Int64:
    """The first failure of the window or its comm as one word, 0 if there is none.

    failure_parts() takes it apart on the host.
    """


@extern
def window_status(win: Address) -> Int32:
    """The status of the first failure of the window or its comm, 0 if there is none."""


@extern
def fail_window(win: Address, status: Int32, peer: Int32) -> Int32:
    """Fails the window on all ranks, because a protocol of your own ended without peer.

    status is a negative ORIEL_E* value, which is also returned.  Waits of other blocks and ranks
    end.  Later calls on the window return the first failure.
    """


# ---- signals -------------------------------------------------------------------------------------


@extern_put
def signal(win: Address, peer: Int32, id: Int32, op: Int32, value: Int64) -> Int32:
    """The peer's word (this rank, id) grows by value (ADD) or becomes value (SET).

    It comes after all earlier operations of this block to the peer, and after its stores.
    """


@extern
def signal_all(win: Address, id: Int32, op: Int32, value: Int64) -> Int32:
    """Signals every rank except this one."""


@extern
def wait_signal(win: Address, id: Int32, value: Int64, timeout_ms: Int32 = 0) -> Int32:
    """Waits until the sum of id over all sources is at least value."""


@extern
def wait_signal_from(
    win: Address, peer: Int32, id: Int32, cmp: Int32, value: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Waits until "the word of (peer, id) <cmp> value"; cmp is EQ, NE, GT, GE, LT or LE."""


@extern
def read_signal(win: Address, id: Int32) -> Int64:
    """The current sum of id over all sources."""


@extern
def read_signal_from(win: Address, peer: Int32, id: Int32) -> Int64:
    """The current word of one source."""


@extern
def reset_signal(win: Address, id: Int32) -> Int32:
    """Later reads and waits of id count from the present value.  For ids that use ADD."""


@extern
def signal_advance(win: Address, id: Int32, value: Int64) -> Int32:
    """Later waits for the sum of id count from a base that is value higher."""


@extern
def signal_advance_from(win: Address, peer: Int32, id: Int32, value: Int64) -> Int32:
    """Later waits for (peer, id) count from a base that is value higher.

    So a kernel in a captured graph can wait for "one more" at every launch.
    """


# ---- counters ------------------------------------------------------------------------------------


@extern
def wait_counter(
    win: Address, peer: Int32, id: Int32, cmp: Int32, value: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Waits until "the counter (peer, id) <cmp> value": operations whose source is free."""


@extern
def wait_counter_all(win: Address, id: Int32, value: Int64, timeout_ms: Int32 = 0) -> Int32:
    """Waits until the sum of counter id over all peers is at least value."""


@extern
def read_counter(win: Address, peer: Int32, id: Int32) -> Int64:
    """The current value of the counter."""


@extern
def reset_counter(win: Address, peer: Int32, id: Int32) -> Int32:
    """Later reads and waits of the counter count from its present value."""


# ---- completion and order ------------------------------------------------------------------------


@extern
def fence(win: Address, peer: Int32) -> Int32:
    """Later operations of this block to the peer take effect after its earlier ones."""


@extern
def flush(win: Address, peer: Int32, timeout_ms: Int32 = 0) -> Int32:
    """Waits until this block's operations to the peer are complete and delivered."""


@extern
def flush_all(win: Address, timeout_ms: Int32 = 0) -> Int32:
    """The same for all peers."""


# ---- barriers: one block of every rank, with the same id -----------------------------------------


@extern
def barrier(win: Address, id: Int32, timeout_ms: Int32 = 0) -> Int32:
    """Flushes this block's operations to all peers, then meets all ranks."""


@extern
def barrier_arrive_wait(win: Address, id: Int32, timeout_ms: Int32 = 0) -> Int32:
    """Barrier without the flush: what the peers' calling blocks put to this rank is visible."""


@extern
def barrier_arrive(win: Address, id: Int32, timeout_ms: Int32 = 0) -> Int32:
    """The first half of barrier(): flushes and tells all ranks."""


@extern
def barrier_wait(win: Address, id: Int32, timeout_ms: Int32 = 0) -> Int32:
    """The second half of barrier(): waits for all ranks."""


@extern
def barrier_peer(win: Address, peer: Int32, id: Int32, timeout_ms: Int32 = 0) -> Int32:
    """Barrier of two ranks; flushes this block's operations to the peer."""


@extern
def grid_sync(win: Address, id: Int32, timeout_ms: Int32 = 0) -> Int32:
    """Barrier of all blocks of this launch, on this rank.  All of them must run at once."""


# ---- for the host --------------------------------------------------------------------------------


def failure_parts(word: int) -> tuple[int, int | None, int | None]:
    """(status, rank that failed, rank that gave up waiting for it) of a window_failure() word."""
    word &= (1 << 64) - 1
    failed, waiter = (word >> 16) & 0xFFFF, (word >> 32) & 0xFFFF
    return -(word & 0xFFFF), failed - 1 if failed else None, waiter - 1 if waiter else None
