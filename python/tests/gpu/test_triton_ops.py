# SPDX-License-Identifier: BSD-3-Clause
"""Every extern of oriel.triton in a kernel on a GPU: bytes, statuses, order and deadlines.

Rank r works with its neighbours r + 1 and r - 1, which are r itself on one rank.  All kernels run
with 1, 2 and 8 ranks, on mapped and on queued peers.
"""

from __future__ import annotations

import unittest

from . import ranks

try:
    import torch
    import triton
    import triton.language as tl

    import oriel
    import oriel.triton as ot
except ImportError as error:
    raise unittest.SkipTest(str(error))
if not torch.cuda.is_available():
    raise unittest.SkipTest("no GPU")

ETIMEDOUT, ERANGE, EINVAL = -4, -2, -1
# Rank numbers differ: without this, every rank would compile a kernel of its own.
plain = triton.jit(do_not_specialize=["peer", "right", "left", "n", "dst", "src", "round"])

PUT, PUT_SIGNAL, PUT_COUNTER, PUT_BOTH, PUT_WARP, PUT_CHUNKED = range(6)


# ---- ranks and addresses -------------------------------------------------------------------------


@plain
def facts(win, peer, out):
    tl.store(out + 0, ot.rank(win))
    tl.store(out + 1, ot.nranks(win))
    tl.store(out + 2, ot.peer_kind(win, peer))
    tl.store(out + 3, ot.base(win))
    tl.store(out + 4, ot.size(win))
    tl.store(out + 5, ot.mapped_address(win, ot.rank(win), 16))
    tl.store(out + 6, ot.mapped_address(win, peer, 16))
    tl.store(out + 7, ot.window_status(win))
    tl.store(out + 8, ot.window_failure(win))
    tl.store(out + 9, ot.peer_kind(win, 999))


def check_facts(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=4096)
    out = stage.words(10)
    stage.launch(facts, window.device_handle, stage.right, out)
    kinds = {"self": 1, "mapped": 2, "queued": 3}
    kind = stage.comm.peer_kind(stage.right)
    base = window.tensor().data_ptr()
    got = out.tolist()
    assert got[:6] == [stage.rank, stage.size, kinds[kind], base, 4096, base + 16], got
    assert (got[6] == 0) == (kind == "queued"), got
    assert got[7:] == [0, 0, 0], got
    window.close()


# ---- puts ----------------------------------------------------------------------------------------


@plain
def put_once(win, source, right, left, dst, src, n, round, out, KIND: tl.constexpr):
    err = 0
    if KIND == 0:
        err = ot.put(win, right, dst, source, src, n)
        err = err | ot.signal(win, right, 0, ot.ADD, 1)
    elif KIND == 1:
        err = ot.put_signal(win, right, dst, source, src, n, 0, ot.ADD, 1)
    elif KIND == 2:
        err = ot.put_counter(win, right, dst, source, src, n, 1)
        err = err | ot.signal(win, right, 0, ot.ADD, 1)
        err = err | ot.wait_counter(win, right, 1, ot.GE, round)
    elif KIND == 3:
        err = ot.put_signal_counter(win, right, dst, source, src, n, 0, ot.ADD, 1, 2)
        err = err | ot.wait_counter(win, right, 2, ot.EQ, round)
    elif KIND == 4:
        row = n // 4
        err = ot.put_warp(win, right, dst, row, source, src, row, row)
        err = err | ot.signal(win, right, 0, ot.ADD, 1)
    else:
        err = ot.put_chunked(win, right, dst, source, src, n, 1000)
        err = err | ot.signal(win, right, 0, ot.ADD, 1)
    err = err | ot.wait_signal_from(win, left, 0, ot.GE, 1)
    err = err | ot.signal_advance_from(win, left, 0, 1)
    err = err | ot.flush(win, right)
    tl.store(out, err)


def check_puts(stage: ranks.Stage) -> None:
    room = 1 << 20
    window = oriel.Window(stage.comm, bytes=room + 64)
    there = window.tensor()
    local = stage.bytes(room + 64, stage.rank)
    from_left = stage.bytes(room + 64, stage.left)
    source = window.register_local_buffer(local)
    # Whole rows of four warps: put_warp divides them.
    cases = [(0, 0, 0), (8, 0, 0), (64, 16, 0), (1000, 3, 5), (65536, 0, 0), (room, 1, 16)]
    for kind in range(6):
        for round, (n, dst, src) in enumerate(cases, 1):
            there.zero_()
            out = stage.words(1)
            stage.launch(
                put_once, window.device_handle, source, stage.right, stage.left, dst, src, n,
                round, out, kind,
            )  # fmt: skip
            assert out.item() == 0, (kind, n, out.item())
            assert there[dst : dst + n].equal(from_left[src : src + n]), (kind, n, dst, src)
            assert not there[:dst].any() and not there[dst + n :].any(), (kind, n, "outside")
            stage.comm.barrier()
    window.close()


@plain
def store_then_put(win, source, data, right, left, n, out):
    """All threads store a tensor and put it at once; the reader loads it right after its wait."""
    at = tl.arange(0, 1024)
    there = ot.base(win).to(tl.pointer_type(tl.int32))
    wrong = 0
    for i in tl.range(0, n, num_stages=1):
        tl.store(data + at, at * 7 + i)
        err = ot.put_signal(win, right, 0, source, 0, 4096, 0, ot.ADD, 1)
        err = err | ot.wait_signal_from(win, left, 0, ot.GE, i + 1)
        wrong += tl.sum((tl.load(there + at) != at * 7 + i).to(tl.int32))
        # The window is free again, and the source too.
        err = err | ot.signal(win, left, 1, ot.ADD, 1)
        err = err | ot.wait_signal_from(win, right, 1, ot.GE, i + 1)
        err = err | ot.flush(win, right)
        if err != 0:
            tl.store(out + 1, err)
    tl.store(out, wrong)


def check_stores_before_and_loads_after(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=4096)
    data = torch.zeros(1024, dtype=torch.int32, device="cuda")
    source = window.register_local_buffer(data)
    for warps in (1, 4, 8):
        out = torch.zeros(2, dtype=torch.int64, device="cuda")
        args = (window.device_handle, source, data, stage.right, stage.left, 200, out)
        stage.launch(store_then_put, *args, num_warps=warps)
        assert out.tolist() == [0, 0], (warps, out.tolist())
        stage.launch(reset_two, window.device_handle, stage.words(1))
    window.close()


@plain
def reset_two(win, out):
    tl.store(out, ot.reset_signal(win, 0) | ot.reset_signal(win, 1))


# ---- gets, values, atomics, messages, copies -----------------------------------------------------


@plain
def gets(win, target, right, n, out):
    tl.store(out + 0, ot.get(win, right, 5, target, 3, n))
    err = ot.get_nbi(win, right, 0, target, 2048, n)
    tl.store(out + 1, err | ot.flush(win, right))
    tl.store(out + 2, ot.get_value(win, right, 8, 2))
    err = ot.put_value(win, right, 3000, 0x1122334455667788, 4)
    tl.store(out + 3, err | ot.barrier(win, 0))
    tl.store(out + 4, ot.put_value(win, right, 0, 0, 9))


def check_gets(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=4096)
    there = window.tensor()
    there.copy_(stage.bytes(4096, stage.rank))
    there[3000:3004] = 0
    of_right = stage.bytes(4096, stage.right)
    target = torch.zeros(4096, dtype=torch.uint8, device="cuda")
    out = stage.words(5)
    stage.comm.barrier()
    handle = window.register_local_buffer(target)
    stage.launch(gets, window.device_handle, handle, stage.right, 1000, out)
    two = int(of_right[8]) | int(of_right[9]) << 8
    assert out.tolist() == [0, 0, two, 0, EINVAL], out.tolist()
    assert target[3:1003].equal(of_right[5:1005])
    assert target[2048:3048].equal(of_right[:1000])
    assert there[3000:3004].tolist() == [0x88, 0x77, 0x66, 0x55], there[3000:3004].tolist()
    window.close()


@plain
def atomics(win, n, out, status):
    kind = ot.peer_kind(win, 0)
    word = 8 * (kind == ot.PEER_QUEUED)  # one word per transport: see device.h
    for i in range(n):
        tl.store(out + i, ot.fetch_add(win, 0, word, 1, status))
    own = 64 + 8 * ot.rank(win)
    tl.store(out + n, ot.swap(win, 0, own, 41, status))
    tl.store(out + n + 1, ot.compare_swap(win, 0, own, 41, 42, status))
    tl.store(out + n + 2, ot.compare_swap(win, 0, own, 41, 43, status))
    tl.store(out + n + 3, ot.get_value(win, 0, own, 8, status))
    tl.store(out + n + 4, ot.barrier(win, 0))


def check_atomics(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=4096)
    window.tensor().zero_()
    torch.cuda.synchronize()
    out = stage.words(25)
    status = torch.zeros(1, dtype=torch.int32, device="cuda")
    stage.comm.barrier()
    stage.launch(atomics, window.device_handle, 20, out, status)
    assert status.item() == 0 and out[20:].tolist() == [0, 41, 42, 42, 0], out.tolist()
    mine = stage.comm.peer_kind(0) == "queued"
    everyone = stage.comm.allgather(bytes([mine]) + out[:20].cpu().numpy().tobytes())
    for queued in (0, 1):
        olds = []
        for text in everyone:
            if text[0] == queued:
                olds += torch.frombuffer(bytearray(text[1:]), dtype=torch.int64).tolist()
        assert sorted(olds) == list(range(len(olds))), olds
    window.close()


@plain
def messages(win, right, left, n, source, target, out):
    # All ranks send first.  The message fits into the slots, so no rank waits for a receiver.
    tl.store(out + 0, ot.send(win, right, 0, source, n))
    tl.store(out + 1, ot.recv(win, left, 0, target, n))
    tl.store(out + 2, ot.self_copy(target + 8192, source + 1, 3000))


def check_messages(stage: ranks.Stage) -> None:
    window = oriel.Window(
        stage.comm, bytes=64, staging_slot_bytes=2048, staging_depth=4, staging_channels=1
    )
    source = stage.bytes(16384, stage.rank)
    for n in (0, 1, 5000):
        target = torch.zeros(16384, dtype=torch.uint8, device="cuda")
        out = stage.words(3)
        args = (window.device_handle, stage.right, stage.left, n, source, target, out)
        stage.launch(messages, *args)
        assert out.tolist() == [0, 0, 0], (n, out.tolist())
        assert target[:n].equal(stage.bytes(16384, stage.left)[:n]), n
        assert target[8192 : 8192 + 3000].equal(source[1:3001]), n
        assert not target[n:8192].any()
    window.close()


# ---- signals and counters ------------------------------------------------------------------------


@plain
def signals(win, right, left, out):
    tl.store(out + 0, ot.signal(win, right, 0, ot.ADD, 5))
    tl.store(out + 1, ot.signal(win, right, 1, ot.SET, 7))
    tl.store(out + 2, ot.wait_signal_from(win, left, 0, ot.EQ, 5))
    tl.store(out + 3, ot.wait_signal_from(win, left, 0, ot.NE, 4))
    tl.store(out + 4, ot.wait_signal_from(win, left, 0, ot.GT, 4))
    tl.store(out + 5, ot.wait_signal_from(win, left, 0, ot.GE, 5))
    tl.store(out + 6, ot.wait_signal_from(win, left, 0, ot.LT, 6))
    tl.store(out + 7, ot.wait_signal_from(win, left, 0, ot.LE, 5))
    tl.store(out + 8, ot.wait_signal_from(win, left, 1, ot.EQ, 7))
    tl.store(out + 9, ot.read_signal_from(win, left, 0))
    tl.store(out + 10, ot.read_signal(win, 0))
    tl.store(out + 11, ot.signal_all(win, 2, ot.ADD, 3))
    tl.store(out + 12, ot.wait_signal(win, 2, 3 * (ot.nranks(win) - 1)))
    tl.store(out + 13, ot.barrier(win, 0))
    tl.store(out + 14, ot.signal_advance(win, 2, 1))
    tl.store(out + 15, ot.read_signal(win, 2))
    tl.store(out + 16, ot.signal_advance_from(win, left, 0, 2))
    tl.store(out + 17, ot.read_signal_from(win, left, 0))
    tl.store(out + 18, ot.reset_signal(win, 2))
    tl.store(out + 19, ot.read_signal(win, 2))


def check_signals(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=64)
    out = stage.words(20)
    stage.launch(signals, window.device_handle, stage.right, stage.left, out)
    total = 3 * (stage.size - 1)
    assert out.tolist() == [0] * 9 + [5, 5, 0, 0, 0, 0, total - 1, 0, 3, 0, 0], out.tolist()
    window.close()


@plain
def counters(win, source, right, n, out):
    for i in range(3):
        tl.store(out + i, ot.put_counter(win, right, 0, source, 0, n, 4))
    tl.store(out + 3, ot.wait_counter(win, right, 4, ot.GE, 3))
    tl.store(out + 4, ot.read_counter(win, right, 4))
    tl.store(out + 5, ot.wait_counter_all(win, 4, 3))
    tl.store(out + 6, ot.reset_counter(win, right, 4))
    tl.store(out + 7, ot.read_counter(win, right, 4))
    tl.store(out + 8, ot.fence(win, right))
    tl.store(out + 9, ot.flush_all(win))


def check_counters(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=4096)
    source = window.register_local_buffer(stage.bytes(4096, stage.rank))
    out = stage.words(10)
    stage.launch(counters, window.device_handle, source, stage.right, 4096, out)
    assert out.tolist() == [0, 0, 0, 0, 3, 0, 0, 0, 0, 0], out.tolist()
    stage.comm.barrier()
    window.close()


# ---- barriers ------------------------------------------------------------------------------------


@plain
def barriers(win, source, data, right, left, n, out):
    """Before every barrier a rank puts the round; after it the neighbour's round is there."""
    there = ot.base(win).to(tl.pointer_type(tl.int64))
    wrong = 0
    err = 0
    for i in range(n):
        tl.store(data, i + 1)
        err = err | ot.put(win, right, 8, source, 0, 8)
        if i % 3 == 0:
            err = err | ot.barrier(win, 0)
        elif i % 3 == 1:
            err = err | ot.barrier_arrive(win, 1)
            err = err | ot.barrier_wait(win, 1)
        else:
            err = err | ot.flush(win, right)
            err = err | ot.barrier_arrive_wait(win, 2)
        wrong += (tl.load(there + 1) != i + 1).to(tl.int32)
        err = err | ot.barrier(win, 3)
    tl.store(out, wrong)
    tl.store(out + 1, err)


@plain
def pairs(win, peer, out):
    tl.store(out, ot.barrier_peer(win, peer, 5))


def check_barriers(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=64)
    data = torch.zeros(1, dtype=torch.int64, device="cuda")
    source = window.register_local_buffer(data)
    out = stage.words(2)
    args = (window.device_handle, source, data, stage.right, stage.left, 30, out)
    stage.launch(barriers, *args)
    assert out.tolist() == [0, 0], out.tolist()
    partner = stage.rank ^ 1 if stage.rank ^ 1 < stage.size else stage.rank
    stage.launch(pairs, window.device_handle, partner, out)
    assert out[0].item() == 0, out.tolist()
    window.close()


@plain
def grid(win, words, n, out):
    """Every block adds its number; after the meeting each sees the sum of all."""
    block = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
    blocks = tl.num_programs(0) * tl.num_programs(1)
    wrong = 0
    err = 0
    for i in range(n):
        tl.atomic_add(words + i, block + 1)
        err = err | ot.grid_sync(win, 6)
        seen = tl.load(words + i, volatile=True)
        wrong += (seen != blocks * (blocks + 1) // 2).to(tl.int32)
    tl.store(out + 2 * block, wrong)
    tl.store(out + 2 * block + 1, err)


def check_grid(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=64)
    words = torch.zeros(20, dtype=torch.int64, device="cuda")
    out = stage.words(16)
    grid[(4, 2)](window.device_handle, words, 20, out, num_warps=4, extern_libs=stage.libs)
    torch.cuda.synchronize()
    assert out.tolist() == [0] * 16, out.tolist()
    window.close()


# ---- deadlines and bad arguments -----------------------------------------------------------------


@plain
def late(win, left, out):
    tl.store(out + 0, ot.wait_signal_from(win, left, 0, ot.GE, 1, 50))
    tl.store(out + 1, ot.wait_signal(win, 1, 1, 50))
    tl.store(out + 2, ot.wait_counter(win, left, 0, ot.GE, 1, timeout_ms=50))
    tl.store(out + 3, ot.window_status(win))  # only those calls failed
    tl.store(out + 4, ot.signal(win, left, 2, ot.ADD, 1))


@plain
def late_barrier(win, out):
    tl.store(out + 0, ot.barrier(win, 0, 100))
    tl.store(out + 1, ot.window_status(win))
    tl.store(out + 2, ot.window_failure(win))
    tl.store(out + 3, ot.wait_signal(win, 0, 1))  # ends at once: the window has failed


def check_deadlines(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=64)
    out = stage.words(5)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    options = {"num_warps": 4, "extern_libs": stage.libs}
    late.warmup(window.device_handle, stage.left, out, grid=(1,), **options)
    start.record()
    late[(1,)](window.device_handle, stage.left, out, **options)
    end.record()
    end.synchronize()
    assert out.tolist() == [ETIMEDOUT, ETIMEDOUT, ETIMEDOUT, 0, 0], out.tolist()
    assert 145 < start.elapsed_time(end) < 5000, start.elapsed_time(end)
    stage.comm.barrier()
    window.close()
    if stage.size == 1:
        return
    window = oriel.Window(stage.comm, bytes=64)
    if stage.rank == 0:  # the others never come
        out = stage.words(4)
        late_barrier[(1,)](window.device_handle, out, **options)
        torch.cuda.synchronize()
        got = out.tolist()
        assert got[:2] == [ETIMEDOUT, ETIMEDOUT] and got[3] == ETIMEDOUT, got
        status, rank, waiter = ot.failure_parts(got[2])
        assert status == ETIMEDOUT and rank in range(1, stage.size) and waiter == 0, got
    stage.comm.barrier()
    window.close()


@plain
def mistakes(win, source, n, out):
    tl.store(out + 0, ot.put(win, n, 0, source, 0, 8))
    tl.store(out + 1, ot.put_signal(win, 0, 0, source, 0, 8, n, ot.ADD, 1))
    tl.store(out + 2, ot.put(win, 0, 4090, source, 0, 8))
    tl.store(out + 3, ot.signal(win, 0, n, ot.ADD, 1))
    tl.store(out + 4, ot.wait_signal_from(win, 0, 0, n, 1))
    tl.store(out + 5, ot.barrier(win, n))
    tl.store(out + 6, ot.put_chunked(win, 0, 0, source, 0, 8, 0))
    tl.store(out + 7, ot.put(win, 0, 0, 0, 0, 8))
    tl.store(out + 8, ot.put(win, 0, 8, source, 0, 8))


def check_mistakes(stage: ranks.Stage) -> None:
    window = oriel.Window(stage.comm, bytes=4096, checked=True)
    source = window.register_local_buffer(stage.bytes(4096, stage.rank))
    out = stage.words(9)
    stage.launch(mistakes, window.device_handle, source, 999, out)
    got = out.tolist()
    assert got[:4] == [ERANGE] * 4 and got[4] == EINVAL and got[5] == ERANGE, got
    assert got[6:] == [EINVAL, EINVAL, 0], got
    stage.comm.barrier()
    window.close()


class TritonOps(unittest.TestCase):
    """The checks above, on ranks that share this GPU."""

    def test_1_rank(self) -> None:
        ranks.run(__name__, 1)

    def test_2_mapped(self) -> None:
        ranks.run(__name__, 2)

    def test_2_queued(self) -> None:
        ranks.run(__name__, 2, "2x1")

    def test_8_mapped(self) -> None:
        ranks.run(__name__, 8)

    def test_8_mixed(self) -> None:
        ranks.run(__name__, 8, "2x4")


if __name__ == "__main__":
    unittest.main()
