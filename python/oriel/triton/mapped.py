# SPDX-License-Identifier: BSD-3-Clause
"""Calls for windows without queued peers, where latency counts.

They leave out what other windows need: queues, tests of arguments, meetings of the block.  A kernel
that uses only these compiles in a second.  The caller makes sure that no peer is queued.
"""

from __future__ import annotations

from ._extern import Address, Int32, Int64, extern


@extern
def mapped_begin(win: Address, src: Address, peer: Int32, tells: Int32) -> Int64:
    """Loads what the other calls need for this peer.  Call it once, after your own first loads.

    Returns the address of the peer's entry in the window's handle, for those calls.
    tells is 1 if mapped_tell() follows: then its release begins here, beside the loads.
    """


@extern
def mapped_tell(win: Address, entry: Address, id: Int32, value: Int64) -> Int32:
    """After mapped_begin(): sets the peer's word (this rank, id) to value, without a meeting.

    It publishes what earlier kernels did, and nothing that this block stored.
    """


@extern
def mapped_wait(
    win: Address, peer: Int32, id: Int32, value: Int64, mask: Int64 = 0, bits: Int64 = 0
) -> Int32:
    """Waits until the word of (peer, id) has reached value.

    Returns a status below 0.  Otherwise 0 if the word has `bits` under `mask`, else 1.
    """


@extern
def mapped_put_add(
    win: Address,
    entry: Address,
    peer: Int32,
    dst_off: Int64,
    src: Address,
    src_off: Int64,
    bytes: Int64,
    chunk: Int64,
    id: Int32,
    value: Int64,
) -> Int32:
    """put_signal() with ADD, which does not begin with a meeting of the block.

    The source was written by an earlier kernel, or the block has met since.  Failures are tested
    between chunks.
    """


@extern
def mapped_fail(win: Address, status: Int32, peer: Int32) -> Int32:
    """fail_window() for a window without queued peers."""
