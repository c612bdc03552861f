# SPDX-License-Identifier: BSD-3-Clause
"""Cases of AlltoallvOp: run by alltoallv_rank.py on all ranks of a comm."""

from __future__ import annotations

import random
from typing import Any, Callable, List, Optional

import torch

import oriel
from oriel.triton.op import AlltoallvOp

D = 24
Matrix = List[List[int]]  # [source][destination], in rows


def rows(source: int, destination: int, call: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows that tell who sent them to whom, in which call, and their number."""
    at = torch.arange(count * D, dtype=torch.int64).view(count, D)
    return ((source * 5 + destination * 3 + call * 11 + at) % 127).to(dtype)


class Program:
    """An op of one rank, and calls that check every element."""

    def __init__(self, comm: oriel.Comm, most: int = 64, dtype: torch.dtype = torch.float32,
                 sync: bool = True) -> None:
        self.comm, self.dtype, self.most = comm, dtype, most
        self.device = torch.device(comm.device)
        self.op = AlltoallvOp(comm, most * comm.size, D, dtype, self.device, most, sync)
        self.op.setup()

    def splits(self, numbers: List[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)

    def input(self, sizes: Matrix, call: int) -> torch.Tensor:
        rank = self.comm.rank
        parts = [rows(rank, peer, call, count, self.dtype)
                 for peer, count in enumerate(sizes[rank])]
        return torch.cat(parts).to(self.device)

    def column(self, sizes: Matrix) -> List[int]:
        return [row[self.comm.rank] for row in sizes]

    def check_slots(self, slots: torch.Tensor, sizes: Matrix, call: int) -> None:
        self.op.check()
        found = slots.cpu()
        for source, count in enumerate(self.column(sizes)):
            want = rows(source, self.comm.rank, call, count, self.dtype)
            assert torch.equal(found[source, :count], want), f"call {call}, rank {source}"

    def check_packed(self, packed: torch.Tensor, sizes: Matrix, call: int) -> None:
        self.op.check()
        parts = [rows(source, self.comm.rank, call, count, self.dtype)
                 for source, count in enumerate(self.column(sizes))]
        assert torch.equal(packed.cpu(), torch.cat(parts)), f"call {call}"

    def uniform(self, count: Optional[int] = None) -> Matrix:
        count = self.most if count is None else count
        return [[count] * self.comm.size for _ in range(self.comm.size)]

    def close(self) -> None:
        self.op.teardown()


def raises(kind: type, words: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), f"{words!r} is not in {str(error)!r}"
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


# ---- calls ---------------------------------------------------------------------------------------


def copy_in(comm: oriel.Comm, call_count: int = 1, **options: Any) -> None:
    program = Program(comm, **options)
    sizes = program.uniform()
    for call in range(call_count):
        slots = program.op.alltoallv(
            program.input(sizes, call), program.splits(program.column(sizes)),
            program.splits(sizes[comm.rank]))
        program.check_slots(slots, sizes, call)
        if not program.op.sync_buffer:
            comm.barrier()
    assert program.op.kernel_calls() == call_count
    program.close()


def copy_in_repeated(comm: oriel.Comm) -> None:
    copy_in(comm, 5)


def copy_in_bfloat16(comm: oriel.Comm) -> None:
    copy_in(comm, 2, dtype=torch.bfloat16)


def without_handshake(comm: oriel.Comm) -> None:
    copy_in(comm, 5, sync=False)


def zero_copy(comm: oriel.Comm, calls: int = 1, delay: int = 0, most: int = 64) -> None:
    program = Program(comm, most)
    sizes = program.uniform()
    tokens = sum(sizes[comm.rank])
    for call in range(calls):
        program.op.get_send_buffer(tokens).copy_(program.input(sizes, call))
        if delay and comm.rank % 2:
            torch.cuda._sleep(delay)
        slots = program.op.alltoallv_from_buffer(
            program.splits(program.column(sizes)), program.splits(sizes[comm.rank]), tokens)
        program.check_slots(slots, sizes, call)
    assert program.op.kernel_calls() == calls, "the Triton kernel did not run"
    program.close()


def zero_copy_repeated(comm: oriel.Comm) -> None:
    zero_copy(comm, 5)


def late_ranks(comm: oriel.Comm) -> None:
    zero_copy(comm, 4, delay=3_000_000)


def late_ranks_many_blocks(comm: oriel.Comm) -> None:
    zero_copy(comm, 4, delay=3_000_000, most=16384)


def packed_uniform(comm: oriel.Comm) -> None:
    program = Program(comm)
    sizes = program.uniform()
    packed = program.op.alltoallv(
        program.input(sizes, 0), program.splits(program.column(sizes)),
        program.splits(sizes[comm.rank]), packed_output_tokens=sum(program.column(sizes)))
    program.check_packed(packed, sizes, 0)
    program.close()


def random_splits(comm: oriel.Comm) -> None:
    """Splits that differ for every pair and call, packed and not, 0 included."""
    rng = random.Random(11)
    program = Program(comm, 50, torch.bfloat16)
    for call in range(10):
        sizes = [[rng.choice([0, 0, 1, 7, rng.randrange(51)]) for _ in range(comm.size)]
                 for _ in range(comm.size)]
        total = sum(program.column(sizes)) if call % 2 else None
        output = program.op.alltoallv(
            program.input(sizes, call), program.splits(program.column(sizes)),
            program.splits(sizes[comm.rank]), packed_output_tokens=total)
        if total is None:
            program.check_slots(output, sizes, call)
        else:
            program.check_packed(output, sizes, call)
    program.close()


def splits_of_32_bits(comm: oriel.Comm) -> None:
    program = Program(comm)
    sizes = program.uniform(3)
    slots = program.op.alltoallv(
        program.input(sizes, 0), program.splits(program.column(sizes)).int(),
        program.splits(sizes[comm.rank]).int())
    program.check_slots(slots, sizes, 0)
    program.close()


# ---- the send buffer -----------------------------------------------------------------------------


def fill(comm: oriel.Comm) -> None:
    """fill_send_buffer: all rows, again, and the first n."""
    program = Program(comm)
    for call, count in enumerate((64, 64, 10)):
        sizes = program.uniform(count)
        data = program.input(sizes, call)
        extra = torch.zeros_like(data[:3])
        program.op.fill_send_buffer(torch.cat([data, extra])[: data.shape[0] + call], data.shape[0])
        slots = program.op.alltoallv_from_buffer(
            program.splits(program.column(sizes)), program.splits(sizes[comm.rank]))
        program.check_slots(slots, sizes, call)
    program.close()


# ---- graphs --------------------------------------------------------------------------------------


def graph(comm: oriel.Comm, replays: int, with_copy: bool, packed: bool = False) -> None:
    """Every replay sends other data; non-uniform splits change between replays."""
    rng = random.Random(2)
    program = Program(comm, 40)
    op, world = program.op, comm.size
    program.input_splits = program.splits([0] * world)
    program.output_splits = program.splits([0] * world)
    staged = torch.zeros((40 * world, D), dtype=torch.float32, device=program.device)
    # packed sizes are fixed in a graph, so every rank gets 20 rows from each
    total = 20 * world if packed else None

    def call() -> torch.Tensor:
        if with_copy:
            return op.alltoallv(staged, program.output_splits, program.input_splits, total)
        return op.alltoallv_from_buffer(program.output_splits, program.input_splits, None, total)

    captured = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.graph(captured, stream=stream, capture_error_mode="thread_local"):
        output = call()
    for number in range(replays):
        sizes = [[20 if packed else rng.randrange(41) for _ in range(world)]
                 for _ in range(world)]
        data = program.input(sizes, number)
        (staged if with_copy else op.get_send_buffer())[: data.shape[0]] = data
        program.input_splits.copy_(program.splits(sizes[comm.rank]))
        program.output_splits.copy_(program.splits(program.column(sizes)))
        captured.replay()
        torch.cuda.synchronize()
        if packed:
            program.check_packed(output, sizes, number)
        else:
            program.check_slots(output, sizes, number)
    assert op.kernel_calls() == replays
    program.close()


def graph_zero_copy(comm: oriel.Comm) -> None:
    graph(comm, 5, False)


def graph_copy_in(comm: oriel.Comm) -> None:
    graph(comm, 5, True)


def graph_packed(comm: oriel.Comm) -> None:
    graph(comm, 3, True, packed=True)


def graph_loop(comm: oriel.Comm) -> None:
    """Many replays without a pause: the counts are on the device."""
    program = Program(comm)
    sizes = program.uniform()
    output_splits = program.splits(program.column(sizes))
    input_splits = program.splits(sizes[comm.rank])
    program.op.fill_send_buffer(program.input(sizes, 0))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, capture_error_mode="thread_local"):
        for _ in range(4):
            slots = program.op.alltoallv_from_buffer(output_splits, input_splits)
    for _ in range(50):
        captured.replay()
    torch.cuda.synchronize()
    program.check_slots(slots, sizes, 0)
    assert program.op.kernel_calls() == 200
    program.close()


# ---- errors --------------------------------------------------------------------------------------


def misuse(comm: oriel.Comm) -> None:
    """Setup twice, no setup, too many tokens, wrong tensors, teardown twice."""
    program = Program(comm)
    op, device, world = program.op, program.device, comm.size
    raises(RuntimeError, "already set up", op.setup)
    splits = program.splits([0] * world)
    big = torch.zeros((program.most * world + 1, D), device=device)
    raises(ValueError, "max_input_tokens", lambda: op.alltoallv(big, splits, splits))
    raises(ValueError, "max_input_tokens", lambda: op.fill_send_buffer(big))
    raises(ValueError, "max_input_tokens", lambda: op.get_send_buffer(big.shape[0]))
    raises(ValueError, "contiguous", lambda: op.fill_send_buffer(big[:8:2]))
    raises(ValueError, "must be", lambda: op.fill_send_buffer(big[:4].half()))
    raises(ValueError, "one per rank", lambda: op.alltoallv_from_buffer(splits[:0], splits))
    raises(ValueError, "reads it on", lambda: op.alltoallv_from_buffer(splits.cpu(), splits))
    op.teardown()
    op.teardown()
    raises(RuntimeError, "not set up", lambda: op.alltoallv(big[:1], splits, splits))
    op.setup()  # an op may be set up again
    op.alltoallv_from_buffer(splits, splits)
    op.check()
    assert op.kernel_calls() == 1
    op.teardown()


def cache(comm: oriel.Comm) -> None:
    arguments = (comm, 32, D, torch.float32, comm.device, 32)
    one = AlltoallvOp.get_or_create(*arguments)
    assert AlltoallvOp.get_or_create(*arguments) is one
    assert AlltoallvOp.get_or_create(*arguments[:-1], 16) is not one
    AlltoallvOp.clear_cache()
    assert not one.is_set_up
    assert AlltoallvOp.get_or_create(*arguments) is not one
    AlltoallvOp.clear_cache(comm)


def refused_splits(comm: oriel.Comm) -> None:
    """Rank 0 wants to send more than a slot holds: all ranks learn it, and the next call works."""
    program = Program(comm)
    good = program.uniform(2)
    bad = [list(row) for row in good]
    bad[0][0] = program.most + 1
    program.op.fill_send_buffer(program.input(good, 0))
    column = program.splits(program.column(good))
    program.op.alltoallv_from_buffer(column, program.splits(bad[comm.rank]))
    assert program.op.status() == -2, program.op.status()
    assert program.op.status() == 0
    slots = program.op.alltoallv_from_buffer(column, program.splits(good[comm.rank]))
    program.check_slots(slots, good, 0)
    program.close()


def different_splits(comm: oriel.Comm) -> None:
    """The last rank expects more than rank 0 sends: both learn it."""
    program = Program(comm)
    sizes = program.uniform(2)
    column = program.column(sizes)
    last = comm.size - 1
    if comm.rank == last:
        column[0] += 1
    program.op.fill_send_buffer(program.input(sizes, 0))
    program.op.alltoallv_from_buffer(program.splits(column), program.splits(sizes[comm.rank]))
    involved = comm.size > 1 and comm.rank in (0, last)
    assert program.op.status() == (-10 if involved else 0)
    bad_sum = program.op.alltoallv_from_buffer
    bad_sum(program.splits(program.column(sizes)), program.splits(sizes[comm.rank]), None,
            sum(program.column(sizes)) - 1)
    raises(oriel.Error, "packed_output_tokens", program.op.check)
    program.close()


def different_arguments(comm: oriel.Comm) -> None:
    """Ranks with different arguments: setup raises on every rank that differs from another."""
    if comm.size == 1:
        return
    op = AlltoallvOp(comm, 8, D, torch.float32, comm.device, 8 + (comm.rank == 0))
    raises(ValueError, "use the same on all ranks", op.setup)
    op.teardown()


CASES = [copy_in, copy_in_repeated, copy_in_bfloat16, without_handshake, zero_copy,
         zero_copy_repeated, late_ranks, late_ranks_many_blocks, packed_uniform, random_splits,
         splits_of_32_bits, fill, graph_zero_copy, graph_copy_in, graph_packed, graph_loop, misuse,
         cache, refused_splits, different_splits, different_arguments]
