# SPDX-License-Identifier: BSD-3-Clause
"""Calls that move data: puts, gets, atomics, staged messages, local copies.

Each of them begins with a meeting of the block.  So a put sends what any thread of the program
stored with tl.store() before it.
"""

from __future__ import annotations

from ._extern import Address, Int32, Int64, extern, extern_put


@extern_put
def put(
    win: Address, peer: Int32, dst_off: Int64, src: Address, src_off: Int64, bytes: Int64
) -> Int32:
    """Copies bytes from (src, src_off) into the peer's window at dst_off.

    src is what window.register_local_buffer() returned.  Any size and alignment works.  The source
    must not be written before the put is complete: flush, a counter, or a barrier.  Returns the
    status: 0, or a negative ORIEL_E* value.
    """


@extern_put
def put_signal(
    win: Address,
    peer: Int32,
    dst_off: Int64,
    src: Address,
    src_off: Int64,
    bytes: Int64,
    signal: Int32,
    op: Int32,
    value: Int64,
) -> Int32:
    """put(), then signal() with op ADD or SET.  Who sees the signal also sees the data."""


@extern_put
def put_counter(
    win: Address,
    peer: Int32,
    dst_off: Int64,
    src: Address,
    src_off: Int64,
    bytes: Int64,
    counter: Int32,
) -> Int32:
    """put(); counter (peer, counter) of this rank grows by 1 when the source may be written."""


@extern_put
def put_signal_counter(
    win: Address,
    peer: Int32,
    dst_off: Int64,
    src: Address,
    src_off: Int64,
    bytes: Int64,
    signal: Int32,
    op: Int32,
    value: Int64,
    counter: Int32,
) -> Int32:
    """put_signal(); counter (peer, counter) grows by 1 when the source may be written."""


@extern
def put_warp(
    win: Address,
    peer: Int32,
    dst_off: Int64,
    dst_stride: Int64,
    src: Address,
    src_off: Int64,
    src_stride: Int64,
    bytes: Int64,
) -> Int32:
    """Every warp makes a put of its own: num_warps rows of bytes each.

    Warp w copies from src_off + w * src_stride to dst_off + w * dst_stride.  The warps meet once,
    at the end.
    """


@extern
def put_chunked(
    win: Address,
    peer: Int32,
    dst_off: Int64,
    src: Address,
    src_off: Int64,
    bytes: Int64,
    chunk: Int64,
) -> Int32:
    """One put, shared by warps: chunk c of the data is moved by warp c % num_warps.

    To a queued peer every chunk is one entry of the queue, so that long transfers overlap with
    their posting.  chunk is at least 1; the last chunk may be shorter.
    """


@extern
def put_value(win: Address, peer: Int32, dst_off: Int64, value: Int64, bytes: Int32 = 8) -> Int32:
    """Puts the low 1 to 8 bytes of value.  No source needs to be registered."""


@extern
def get(
    win: Address, peer: Int32, src_off: Int64, dst: Address, dst_off: Int64, bytes: Int64
) -> Int32:
    """Copies bytes from the peer's window at src_off to (dst, dst_off), registered memory.

    After it all threads may load the data.
    """


@extern
def get_nbi(
    win: Address, peer: Int32, src_off: Int64, dst: Address, dst_off: Int64, bytes: Int64
) -> Int32:
    """get() without waiting: the data may be loaded after flush()."""


@extern
def get_value(
    win: Address, peer: Int32, src_off: Int64, bytes: Int32 = 8, status: Address = 0
) -> Int64:
    """1 to 8 bytes of the peer's window as an int64, with zeros above them.

    status: address of an int32 that keeps the first failure, or 0.  A call that fails returns 0.
    """


@extern
def fetch_add(
    win: Address, peer: Int32, offset: Int64, value: Int64, status: Address = 0
) -> Int64:
    """Adds to the 8-byte word at offset of the peer's window; returns what it was before.

    status: address of an int32 that keeps the first failure, or 0.  A call that fails returns 0.
    """


@extern
def swap(win: Address, peer: Int32, offset: Int64, value: Int64, status: Address = 0) -> Int64:
    """Stores value in the word at offset of the peer's window; returns what it was before.

    status: as for fetch_add().
    """


@extern
def compare_swap(
    win: Address,
    peer: Int32,
    offset: Int64,
    expected: Int64,
    value: Int64,
    status: Address = 0,
) -> Int64:
    """Stores value in the word if it equals expected; returns what it was before.

    status: as for fetch_add().
    """


@extern
def send(
    win: Address, peer: Int32, channel: Int32, src: Address, bytes: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Sends a message on a channel of a window with staging; src is any device memory.

    Returns when src may be written again.  timeout_ms: deadline, 0 is the comm's.
    """


@extern
def recv(
    win: Address, peer: Int32, channel: Int32, dst: Address, bytes: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Receives a message of the same size that the peer sent on the channel."""


@extern
def packet_send(
    win: Address, peer: Int32, box: Int32, src: Address, bytes: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Puts a packet into a box of the peer: a short message with the least latency.

    The window has boxes (oriel.Window(boxes=..., box_bytes=...)).  src is any device memory, and
    may be written again when the call returns.  The call waits only while the box is full.  A
    packet publishes its own bytes and nothing else.  One block at a time uses a (peer, box).
    """


@extern
def packet_recv(
    win: Address, peer: Int32, box: Int32, dst: Address, bytes: Int64, timeout_ms: Int32 = 0
) -> Int32:
    """Takes the next packet of the peer from the box.  Both ends name the same size.

    A passed deadline loses nothing: the call may be made again.  Another size is ORIEL_EMISMATCH
    (-10), and fails the window.
    """


@extern
def self_copy(dst: Address, src: Address, bytes: Int64) -> Int32:
    """Copies between two places of this rank's memory, by the whole block; any alignment."""
