# SPDX-License-Identifier: BSD-3-Clause
"""Triton kernels of the all-to-all-v.

`exchange` is the collective: one launch sends and receives everything.  The work of a launch is a
list of items, one per (peer, block of that peer).  In call number k of a state, rank s tells rank
d by signals of the window:

READY, READY + 1  used in turn, set to `_told_word`: s is in call k, so d may write its slot at s.
                  The word also has what s sends to d, and what s expects from d.
DATA              grows by TOTAL in every call, when all bytes of s are there.  Block 0 of the
                  message adds what the other blocks do not; each of those adds 1.

Every rank does so for every peer in every call, also for 0 bytes.  So the words depend neither on
sizes nor on the number of blocks, and ranks may use different numbers of blocks.  Every block
waits for READY before it writes.  A signal is ordered behind the puts of its own block, which is
why each block adds its own part to DATA.

k lies in device memory: one word per item, which only that item's block reads and increments.
Block 0 of a peer increments the words of the blocks that this call does not use.  So no block
depends on another one, and a captured graph can be replayed.

tests/alltoallv_model.py runs these steps in random orders.
"""

from __future__ import annotations

import triton
import triton.language as tl

import oriel.triton as ot

# ---- words ---------------------------------------------------------------------------------------

DATA = tl.constexpr(0)  # signal ids
READY = tl.constexpr(1)
SIGNALS = 3
TOTAL = tl.constexpr(1 << 16)  # a message has fewer blocks

# A state in device memory, in words of 64 bits: first failure, then MOST calls per peer.
STATUS_WORD = 0
CALLS_WORD = tl.constexpr(16)
MOST = tl.constexpr(64)  # blocks per peer

_CALL_SHIFT = tl.constexpr(48)
_REFUSED = tl.constexpr(1 << 46)
_SIZE_BITS = tl.constexpr(23)
_SIZE_MASK = tl.constexpr((1 << 23) - 1)

# A status word: 0, or the status, the peer and the call of the first failure.
STATUS_PEER_SHIFT = tl.constexpr(16)
STATUS_CALL_SHIFT = tl.constexpr(32)
ERANGE = tl.constexpr(-2)
EMISMATCH = tl.constexpr(-10)


@triton.jit
def _fold(size):
    """A size in 23 bits.  Different sizes below 2^23 stay different; larger ones rarely meet."""
    return (size ^ (size >> _SIZE_BITS) ^ (size >> (2 * _SIZE_BITS))) & _SIZE_MASK


@triton.jit
def _told_word(k, sends, expects, refused):
    """Call, refusal, and both sizes.  Calls are the high bits, so words of later calls compare."""
    word = ((k + 1) << _CALL_SHIFT) | (_fold(sends) << _SIZE_BITS) | _fold(expects)
    return tl.where(refused, word | _REFUSED, word)


@triton.jit
def _record(words, status, peer, k):
    """Keeps the first failure since the host asked."""
    word = ((k + 1) << STATUS_CALL_SHIFT) | ((peer + 1).to(tl.int64) << STATUS_PEER_SHIFT)
    word = word - status
    tl.atomic_cas(words, tl.zeros_like(word), word)


# ---- what an item is -----------------------------------------------------------------------------


@triton.jit
def _item_of(item, rank, blocks, peer_blocks, WORLD: tl.constexpr, PER_PEER: tl.constexpr):
    """(peer, index, blocks of that peer).  Ranks begin with different peers."""
    peer = rank + item // blocks
    peer = tl.where(peer < WORLD, peer, peer - WORLD)
    if PER_PEER:
        own = tl.load(peer_blocks + peer)
    else:
        own = blocks
    return peer, item % blocks, own


@triton.jit
def _begin(win, source, peer, index, rank, SYNC: tl.constexpr, QUEUED: tl.constexpr):
    """After the loads, before their values are used: the fence of _tell() runs beside them.

    Returns what mapped calls need besides the window.
    """
    if QUEUED:
        entry = win
    else:
        tells = ((index == 0) & (peer != rank)).to(tl.int32)
        entry = ot.mapped_begin(win, source, peer, tells if SYNC else 0)
    return entry


@triton.jit
def _rows_of(win, source, send_splits, recv_splits, peer, index, rank, row_bytes, slot_rows,
             send_rows, WORLD: tl.constexpr, LANES: tl.constexpr, SYNC: tl.constexpr,
             QUEUED: tl.constexpr):
    """The message for a peer, from splits: (entry, bytes, source offset, expected, refused)."""
    lane = tl.arange(0, LANES)
    rows = tl.load(send_splits + lane, mask=lane < WORLD, other=0).to(tl.int64)
    mine = tl.load(send_splits + peer).to(tl.int64)
    expects = tl.load(recv_splits + peer).to(tl.int64)
    entry = _begin(win, source, peer, index, rank, SYNC, QUEUED)
    before = tl.sum(tl.where(lane < peer, rows, 0), 0)
    bad = tl.sum(((rows < 0) | (rows > slot_rows)).to(tl.int32), 0)
    refused = (bad != 0) | (tl.sum(rows, 0) > send_rows)
    mine = tl.where(refused, 0, mine)
    return entry, mine * row_bytes, before * row_bytes, expects * row_bytes, refused


@triton.jit
def _bytes_of(win, source, send_sizes, send_offsets, recv_sizes, slot_offsets, write_offsets,
              peer, index, rank, send_bytes, recv_bytes, WORLD: tl.constexpr,
              LANES: tl.constexpr, SYNC: tl.constexpr, QUEUED: tl.constexpr):
    """(entry, bytes, source offset, target offset, expected, refused), from sizes in bytes."""
    lane = tl.arange(0, LANES)
    exists = lane < WORLD
    sizes = tl.load(send_sizes + lane, mask=exists, other=0)
    offsets = tl.load(send_offsets + lane, mask=exists, other=0)
    writes = tl.load(write_offsets + lane, mask=exists, other=0)
    own = tl.load(slot_offsets + rank)
    mine = tl.load(send_sizes + peer)
    start = tl.load(send_offsets + peer)
    expects = tl.load(recv_sizes + peer)
    entry = _begin(win, source, peer, index, rank, SYNC, QUEUED)
    writes = tl.where(lane == rank, own, writes)
    bad = (sizes < 0) | (offsets < 0) | (writes < 0)
    bad = bad | (offsets > send_bytes - sizes) | (writes > recv_bytes - sizes)
    refused = tl.sum(bad.to(tl.int32), 0) != 0
    to = tl.sum(tl.where(lane == peer, writes, 0), 0)
    return entry, tl.where(refused, 0, mine), start, to, expects, refused


@triton.jit
def _share(nbytes, index, blocks):
    """(begin, bytes) of a block's share.  It begins at a multiple of 16 bytes."""
    units = ((nbytes + 15) >> 4).to(tl.int32)  # a GPU divides 32 bits much faster than 64
    step = ((units + blocks - 1) // blocks).to(tl.int64) << 4
    begin = tl.minimum(index * step, nbytes)
    return begin, tl.minimum(step, nbytes - begin)


# ---- steps of an item ----------------------------------------------------------------------------


@triton.jit
def _find(win, source, words, send_sizes, recv_sizes, send_offsets, slot_offsets, write_offsets,
          peer, index, rank, row_bytes, slot_rows, send_limit, recv_limit, slot_bytes,
          WORLD: tl.constexpr, LANES: tl.constexpr, SPLITS: tl.constexpr, SYNC: tl.constexpr,
          QUEUED: tl.constexpr):
    """(k, entry, bytes, source offset, target offset, expected bytes, refused)."""
    k = tl.load(words + CALLS_WORD + peer * MOST + index)
    if SPLITS:
        entry, nbytes, start, expects, refused = _rows_of(
            win, source, send_sizes, recv_sizes, peer, index, rank, row_bytes, slot_rows,
            send_limit, WORLD, LANES, SYNC, QUEUED)
        to = rank.to(tl.int64) * slot_bytes
    else:
        entry, nbytes, start, to, expects, refused = _bytes_of(
            win, source, send_sizes, send_offsets, recv_sizes, slot_offsets, write_offsets, peer,
            index, rank, send_limit, recv_limit, WORLD, LANES, SYNC, QUEUED)
    return k, entry, nbytes, start, to, expects, refused


@triton.jit
def _ready_id(k):
    return READY + (k & 1).to(tl.int32)


@triton.jit
def _tell(win, entry, peer, k, nbytes, expects, refused, QUEUED: tl.constexpr):
    """Block 0: this rank is in call k, and has read what the last call brought."""
    word = _told_word(k, nbytes, expects, refused)
    if QUEUED:
        err = ot.signal(win, peer, _ready_id(k), ot.SET, word)
    else:
        err = ot.mapped_tell(win, entry, _ready_id(k), word)
    return err


@triton.jit
def _differs(win, peer, k, nbytes, expects):
    """1 if the peer told other sizes, else 0.  Valid from the wait to the end of the call."""
    same = _told_word(k, expects, nbytes, False)
    return (ot.read_signal_from(win, peer, _ready_id(k)) != same).to(tl.int32)


@triton.jit
def _await_ready(win, peer, k, nbytes, expects, QUEUED: tl.constexpr):
    """Every block: the peer may be written.  Returns a status, or 1 if it told other sizes."""
    if QUEUED:
        heard = ot.wait_signal_from(win, peer, _ready_id(k), ot.GE, (k + 1) << _CALL_SHIFT)
        if heard == 0:
            heard = _differs(win, peer, k, nbytes, expects)
    else:
        # what the peer must tell: its size is what is expected here, and the reverse
        same = _told_word(k, expects, nbytes, False)
        heard = ot.mapped_wait(win, peer, _ready_id(k), (k + 1) << _CALL_SHIFT, -1, same)
    return heard


@triton.jit
def _put(win, entry, source, peer, start, to, left, part, chunk, QUEUED: tl.constexpr):
    """Puts a share.  The last chunk carries the block's part of TOTAL."""
    err = tl.full((), 0, tl.int32)
    if QUEUED:
        while (err == 0) & (left > chunk):
            err = ot.put(win, peer, to, source, start, chunk)
            start += chunk
            to += chunk
            left -= chunk
        if err == 0:
            err = ot.put_signal(win, peer, to, source, start, left, DATA, ot.ADD, part)
    else:
        err = ot.mapped_put_add(win, entry, peer, to, source, start, left, chunk, DATA, part)
    return err


@triton.jit
def _send(win, entry, source, peer, start, to, nbytes, expects, index, blocks, k, rank, chunk,
          SYNC: tl.constexpr, QUEUED: tl.constexpr):
    """Every block: waits for the peer and puts its share.  Returns a status, or 1: sizes differ."""
    heard = tl.full((), 0, tl.int32)
    if SYNC:
        if peer != rank:
            heard = _await_ready(win, peer, k, nbytes, expects, QUEUED)
    if heard >= 0:
        begin, left = _share(nbytes, index, blocks)
        part = tl.where(index == 0, TOTAL - blocks + 1, 1).to(tl.int64)
        err = _put(win, entry, source, peer, start + begin, to + begin, left, part, chunk,
                   QUEUED)
        if err < 0:
            heard = err
    return heard


@triton.jit
def _count(words, peer, index, blocks, k):
    """Counts the call: in this block's word, and in those that no block of this call has."""
    own = words + CALLS_WORD + peer * MOST
    tl.store(own + index, k + 1)
    if index == 0:
        lane = tl.arange(0, MOST)
        tl.store(own + lane, tl.full((MOST,), 1, tl.int64) + k, mask=lane >= blocks)


@triton.jit
def _receive(win, words, peer, index, blocks, k, refused, heard, rank, QUEUED: tl.constexpr):
    """Counts the call.  Block 0 waits for the peer's data.  All blocks end their own puts."""
    err = tl.full((), 0, tl.int32)
    _count(words, peer, index, blocks, k)
    if index == 0:
        if peer != rank:
            if QUEUED:
                err = ot.wait_signal_from(win, peer, DATA, ot.GE, (k + 1) * TOTAL)
            else:
                err = ot.mapped_wait(win, peer, DATA, (k + 1) * TOTAL)
        if err == 0:
            if refused:
                _record(words, ERANGE, rank, k)
            elif heard == 1:
                told = ot.read_signal_from(win, peer, _ready_id(k))
                _record(words, tl.where((told & _REFUSED) != 0, ERANGE, EMISMATCH), peer, k)
    if QUEUED:
        if (err == 0) & (peer != rank):
            err = ot.flush(win, peer)
    return err


@triton.jit
def _give_up(win, words, err, peer, k, QUEUED: tl.constexpr):
    """A call that ended without its peer leaves different counts, so the window is unusable."""
    if err < 0:
        _record(words, err, peer, k)
        if QUEUED:
            ot.fail_window(win, err, peer)
        else:
            ot.mapped_fail(win, err, peer)


# ---- the exchange --------------------------------------------------------------------------------

# One compiled kernel serves all ranks, plans and sizes.
_RUN_TIME = ["win", "source", "rank", "blocks", "chunk", "row_bytes", "slot_rows", "send_limit",
             "recv_limit", "slot_bytes"]
_ANY_ADDRESS = ["words", "send_sizes", "recv_sizes", "send_offsets", "slot_offsets",
                "write_offsets", "peer_blocks", "peer_chunks"]


@triton.jit(do_not_specialize=_RUN_TIME, do_not_specialize_on_alignment=_ANY_ADDRESS)
def exchange(win: tl.int64, source: tl.int64, words, send_sizes, recv_sizes, send_offsets,
             slot_offsets, write_offsets, peer_blocks, peer_chunks, rank: tl.int32,
             blocks: tl.int32, chunk: tl.int64, row_bytes: tl.int64, slot_rows: tl.int64,
             send_limit: tl.int64, recv_limit: tl.int64, slot_bytes: tl.int64,
             WORLD: tl.constexpr, LANES: tl.constexpr, SPLITS: tl.constexpr, SYNC: tl.constexpr,
             QUEUED: tl.constexpr, PER_PEER: tl.constexpr):
    """One block per item: WORLD * blocks programs.  All of them, of all ranks, run at once.

    With SPLITS, sizes are rows and every source has a slot of slot_rows rows; the limit of what a
    rank sends is send_limit rows.  Without, sizes and offsets are bytes, and send_limit and
    recv_limit are the bytes of the buffers.
    """
    peer, index, own = _item_of(tl.program_id(0), rank, blocks, peer_blocks, WORLD, PER_PEER)
    if index < own:
        if PER_PEER:
            chunk = tl.load(peer_chunks + peer)
        k, entry, nbytes, start, to, expects, refused = _find(
            win, source, words, send_sizes, recv_sizes, send_offsets, slot_offsets, write_offsets,
            peer, index, rank, row_bytes, slot_rows, send_limit, recv_limit, slot_bytes, WORLD,
            LANES, SPLITS, SYNC, QUEUED)
        err = tl.full((), 0, tl.int32)
        if SYNC:
            if (index == 0) & (peer != rank):
                err = _tell(win, entry, peer, k, nbytes, expects, refused, QUEUED)
        if err == 0:
            err = _send(win, entry, source, peer, start, to, nbytes, expects, index, own, k, rank,
                        chunk, SYNC, QUEUED)
        if err >= 0:
            err = _receive(win, words, peer, index, own, k, refused, err, rank, QUEUED)
        _give_up(win, words, err, peer, k, QUEUED)


@triton.jit(do_not_specialize=_RUN_TIME, do_not_specialize_on_alignment=_ANY_ADDRESS)
def exchange_in_turn(win: tl.int64, source: tl.int64, words, send_sizes, recv_sizes, send_offsets,
                     slot_offsets, write_offsets, peer_blocks, peer_chunks, rank: tl.int32,
                     blocks: tl.int32, chunk: tl.int64, row_bytes: tl.int64, slot_rows: tl.int64,
                     send_limit: tl.int64, recv_limit: tl.int64, slot_bytes: tl.int64,
                     WORLD: tl.constexpr, LANES: tl.constexpr, SPLITS: tl.constexpr,
                     SYNC: tl.constexpr, QUEUED: tl.constexpr, PER_PEER: tl.constexpr):
    """The same with any number of programs, for a GPU without room for all items of all ranks.

    A program goes through three phases, each over all its items.  It waits only in the second and
    third, and only for an earlier phase of other ranks.  So no program needs another one of its
    launch to run at the same time.
    """
    err = tl.full((), 0, tl.int32)
    for phase in range(3):
        for item in range(tl.program_id(0), WORLD * blocks, tl.num_programs(0)):
            peer, index, own = _item_of(item, rank, blocks, peer_blocks, WORLD, PER_PEER)
            if (index < own) & (err == 0):
                if PER_PEER:
                    chunk = tl.load(peer_chunks + peer)
                k, entry, nbytes, start, to, expects, refused = _find(
                    win, source, words, send_sizes, recv_sizes, send_offsets, slot_offsets,
                    write_offsets, peer, index, rank, row_bytes, slot_rows, send_limit,
                    recv_limit, slot_bytes, WORLD, LANES, SPLITS, SYNC, QUEUED)
                if phase == 0:
                    if SYNC:
                        if (index == 0) & (peer != rank):
                            err = _tell(win, entry, peer, k, nbytes, expects, refused, QUEUED)
                elif phase == 1:
                    err = _send(win, entry, source, peer, start, to, nbytes, expects, index, own,
                                k, rank, chunk, SYNC, QUEUED)
                    err = tl.minimum(err, 0)
                else:
                    heard = tl.full((), 0, tl.int32)
                    if SYNC:
                        if (index == 0) & (peer != rank):
                            heard = _differs(win, peer, k, nbytes, expects)
                    err = _receive(win, words, peer, index, own, k, refused, heard, rank, QUEUED)
                _give_up(win, words, err, peer, k, QUEUED)
