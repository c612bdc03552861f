# SPDX-License-Identifier: BSD-3-Clause
"""The exchange kernel itself, executed by Triton's interpreter: no GPU is needed.

    TRITON_INTERPRET=1 python3 -m tests.alltoallv_interpreted

Ranks are processes with shared memory.  The window calls are replaced by functions on that memory.
Everything else is the kernel: sizes, shares, counts, words, statuses.  The interpreter executes the
programs of a launch one after the other.  So launches have one program, except where that works.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import time
import traceback
from typing import Any, Callable, List

import numpy
import torch
import triton.language as tl

import oriel.triton as ot
from oriel.triton import alltoallv_kernels as kernels

SECONDS = 60  # deadline of a wait
CALLS, MOST = kernels.CALLS_WORD.value, kernels.MOST.value
Matrix = List[List[int]]  # [source][destination]


def shared(shape: Any, dtype: Any) -> numpy.ndarray:
    """Zeros that forked processes share."""
    count = int(numpy.prod(shape))
    memory = mmap.mmap(-1, max(1, count * numpy.dtype(dtype).itemsize))
    return numpy.frombuffer(memory, dtype, count).reshape(shape)


def number(value: Any) -> int:
    """An argument of a call in a kernel as a Python number."""
    value = getattr(value, "value", value)
    handle = getattr(value, "handle", None)
    return int(handle.data.item()) if handle is not None else int(value)


class Windows:
    """The windows of all ranks, and the calls that this rank's kernel makes on them."""

    def __init__(self, ranks: int, nbytes: int) -> None:
        self.ranks, self.rank = ranks, -1
        self.signals = shared((ranks, ranks, kernels.SIGNALS), numpy.uint64)
        self.buffers = shared((ranks, nbytes), numpy.uint8)
        self.sources = shared((ranks, nbytes), numpy.uint8)
        self.failed = shared((1,), numpy.int64)

    def become(self, rank: int) -> None:
        """Replaces the window calls of oriel.triton, in this process."""
        self.rank = rank
        for name in ("mapped_begin", "mapped_tell", "mapped_wait", "mapped_put_add", "signal",
                     "wait_signal_from", "put", "put_signal", "flush", "read_signal_from"):
            setattr(ot, name, getattr(self, name))
        ot.mapped_fail = ot.fail_window = self.fail

    @staticmethod
    def status(value: int) -> Any:
        return tl.full((), value, tl.int32)

    def store(self, peer: Any, ident: Any, op: Any, value: Any) -> Any:
        at = number(peer), self.rank, number(ident)
        old = int(self.signals[at]) if number(op) == 1 else 0
        self.signals[at] = (old + number(value)) % 2**64
        return self.status(0)

    def signal(self, win: Any, peer: Any, ident: Any, op: Any, value: Any) -> Any:
        return self.store(peer, ident, op, value)

    def mapped_begin(self, win: Any, src: Any, peer: Any, tells: Any) -> Any:
        return tl.full((), number(peer), tl.int64)

    def mapped_tell(self, win: Any, entry: Any, ident: Any, value: Any) -> Any:
        return self.store(entry, ident, 2, value)

    def wait_signal_from(self, win: Any, peer: Any, ident: Any, cmp: Any, value: Any) -> Any:
        return self.mapped_wait(win, peer, ident, value)

    def mapped_wait(self, win: Any, peer: Any, ident: Any, value: Any, mask: Any = 0,
                    bits: Any = 0) -> Any:
        end = time.monotonic() + SECONDS
        while True:
            have = int(self.signals[self.rank, number(peer), number(ident)])
            if (have - number(value)) % 2**64 < 2**63:
                differ = (have ^ number(bits)) & number(mask) & (2**64 - 1)
                return self.status(int(differ != 0))
            if self.failed[0] or time.monotonic() > end:
                return self.status(-4)
            time.sleep(0.0005)

    def put(self, win: Any, peer: Any, to: Any, src: Any, start: Any, nbytes: Any) -> Any:
        to, start, nbytes = number(to), number(start), number(nbytes)
        data = self.sources[self.rank, start:start + nbytes]
        assert data.size == nbytes, "a share ends after the source"
        self.buffers[number(peer), to:to + nbytes] = data
        return self.status(0)

    def put_signal(self, win: Any, peer: Any, to: Any, src: Any, start: Any, nbytes: Any,
                   ident: Any, op: Any, value: Any) -> Any:
        self.put(win, peer, to, src, start, nbytes)
        return self.store(peer, ident, op, value)

    def mapped_put_add(self, win: Any, entry: Any, peer: Any, to: Any, src: Any, start: Any,
                       nbytes: Any, chunk: Any, ident: Any, value: Any) -> Any:
        return self.put_signal(win, peer, to, src, start, nbytes, ident, 1, value)

    def read_signal_from(self, win: Any, peer: Any, ident: Any) -> Any:
        have = int(self.signals[self.rank, number(peer), number(ident)])
        return tl.full((), have - 2**64 if have >= 2**63 else have, tl.int64)

    def flush(self, win: Any, peer: Any) -> Any:
        return self.status(0)

    def fail(self, win: Any, status: Any, peer: Any) -> Any:
        self.failed[0] = number(status)
        return self.status(number(status))


class Rank:
    """One rank that makes calls by rows: slots of `slot` rows of `row` bytes."""

    def __init__(self, windows: Windows, rank: int, row: int, slot: int, queued: bool) -> None:
        self.windows, self.rank, self.row, self.slot = windows, rank, row, slot
        self.world, self.queued, self.calls = windows.ranks, queued, 0
        self.words = torch.zeros(CALLS + self.world * MOST, dtype=torch.int64)

    def call(self, sizes: Matrix, blocks: int, expects: Any = None, kernel: Any = None,
             programs: int = 1, per_peer: Any = None, sync: bool = True) -> int:
        """Makes a call; returns the status word, and checks what came if it is 0."""
        rank, world, row = self.rank, self.world, self.row
        mine = sizes[rank]
        source = self.windows.sources[rank]
        flat = [self.pattern(rank, peer, count) for peer, count in enumerate(mine) if count >= 0]
        data = numpy.concatenate(flat)[: source.size]
        source[: data.size] = data
        column = expects if expects is not None else [line[rank] for line in sizes]
        own = torch.tensor(per_peer or [blocks] * world, dtype=torch.int32)
        chunks = torch.full((world,), 48, dtype=torch.int64)
        (kernel or kernels.exchange_in_turn)[(programs,)](
            1 << 40, 1 << 41, self.words, torch.tensor(mine), torch.tensor(column), self.words,
            self.words, self.words, own, chunks, rank, max(own.tolist()), 48, row, self.slot,
            self.slot * world, 0, self.slot * row, WORLD=world, LANES=4, SPLITS=True, SYNC=sync,
            QUEUED=self.queued, PER_PEER=per_peer is not None or self.queued)
        status = int(self.words[0])
        if status == 0:
            self.check(sizes)
        self.words[0] = 0
        self.calls += 1
        counts = self.words[CALLS:].tolist()
        assert counts == [self.calls] * (world * MOST), "a block's count is wrong"
        return status

    def pattern(self, source: int, peer: int, count: int) -> numpy.ndarray:
        at = numpy.arange(count * self.row)
        return ((source * 31 + peer * 17 + self.calls * 7 + at) % 251).astype(numpy.uint8)

    def check(self, sizes: Matrix) -> None:
        for source in range(self.world):
            count = sizes[source][self.rank]
            begin = source * self.slot * self.row
            found = self.windows.buffers[self.rank, begin:begin + count * self.row]
            want = self.pattern(source, self.rank, count)
            assert numpy.array_equal(found, want), f"call {self.calls}: rank {source}'s data"


# ---- cases ---------------------------------------------------------------------------------------


def random_calls(rank: Rank) -> None:
    """Sizes from 0 on, blocks that change, and that differ between ranks."""
    rng, own = random.Random(3), random.Random(rank.rank)
    for number_of_call in range(4):
        sizes = [[rng.choice([0, 0, 1, 2, rank.slot]) for _ in range(rank.world)]
                 for _ in range(rank.world)]
        per_peer = [own.choice([1, 2, 5]) for _ in range(rank.world)]
        uses = per_peer if number_of_call % 2 else None
        assert rank.call(sizes, own.choice([1, 2, 4]), per_peer=uses) == 0


def refusals(rank: Rank) -> None:
    """Too many rows, or a negative number, on rank 0: -2 everywhere, and the next call works."""
    good = [[2] * rank.world for _ in range(rank.world)]
    for bad in (rank.slot + 1, -1):
        sizes = [list(line) for line in good]
        sizes[0][rank.world - 1] = bad
        status = rank.call(sizes, 2, expects=[2] * rank.world)
        assert (status & 0xFFFF, (status >> 16 & 0xFFFF) - 1) == (2, 0), hex(status)
        assert rank.call(good, 3) == 0


def mismatches(rank: Rank) -> None:
    """The last rank expects more from rank 0 than it sends: both learn it."""
    sizes = [[2] * rank.world for _ in range(rank.world)]
    last = rank.world - 1
    expects = [2] * rank.world
    expects[0] += rank.rank == last
    status = rank.call(sizes, 1, expects=expects)
    other = {0: last, last: 0}.get(rank.rank)
    if other is None:
        assert status == 0, hex(status)
    else:
        found = (status & 0xFFFF, (status >> 16 & 0xFFFF) - 1, status >> 32)
        assert found == (10, other, rank.calls), found
    assert rank.call(sizes, 1) == 0


def wrap_around(rank: Rank) -> None:
    """Calls whose number passes 2^15 and 2^16: READY words compare all the same."""
    for start in (2**15 - 2, 2**16 - 2):
        rank.words[CALLS:] = rank.calls = start
        for source in range(rank.world):
            word = rank.windows.signals[rank.rank, source]
            word[0] = start << 16
            word[1 + start % 2] = ((start - 1) << 48) % 2**64
            word[2 - start % 2] = (start << 48) % 2**64
        meet(rank)
        for _ in range(4):
            assert rank.call([[1] * rank.world for _ in range(rank.world)], 2) == 0
        meet(rank)


def meet(rank: Rank) -> None:
    """A barrier of the processes."""
    BARRIER.wait(SECONDS)


def straight(rank: Rank) -> None:
    """The kernel with a program for each item, on the ranks that the interpreter can run so."""
    for count in (1, 0, rank.slot):
        sizes = [[count] * rank.world for _ in range(rank.world)]
        assert rank.call(sizes, 1, kernel=kernels.exchange, programs=rank.world) == 0


def without_handshake(rank: Rank) -> None:
    for blocks in (1, 3, 2):
        assert rank.call([[2] * rank.world for _ in range(rank.world)], blocks, sync=False) == 0
        meet(rank)


def run(case: Callable[[Rank], None], ranks: int, queued: bool = False) -> None:
    """Runs a case on forked ranks; raises if one fails."""
    global BARRIER
    import multiprocessing

    row, slot = 3, 21
    windows = Windows(ranks, ranks * slot * row)
    BARRIER = multiprocessing.get_context("fork").Barrier(ranks)
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                windows.become(rank)
                case(Rank(windows, rank, row, slot, queued))
                status = 0
            except BaseException:
                traceback.print_exc()
                windows.failed[0] = -1
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    bad = [rank for rank, child in enumerate(children) if os.waitpid(child, 0)[1]]
    if bad:
        raise SystemExit(f"FAILED {case.__name__}: ranks {bad} of {ranks}, queued {queued}")
    print(f"passed {case.__name__} {ranks} {queued}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    for ranks in (1, 2, 3):
        run(random_calls, ranks)
    run(random_calls, 2, queued=True)
    for queued in (False, True):
        run(refusals, 2, queued)
        run(mismatches, 3 - queued, queued)
    run(without_handshake, 2)
    run(straight, 1)
    run(straight, 2)
    run(wrap_around, 2)
    print("passed all", flush=True)


if __name__ == "__main__":
    main()
