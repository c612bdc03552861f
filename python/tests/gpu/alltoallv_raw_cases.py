# SPDX-License-Identifier: BSD-3-Clause
"""Cases of device_alltoallv_dynamic: run by alltoallv_rank.py on all ranks of a comm."""

from __future__ import annotations

import random
from typing import Any, Dict, List

import torch

import oriel
from oriel.triton.alltoallv import (
    SIGNALS, AlltoallvState, compute_offsets_from_sizes, device_alltoallv_dynamic,
    exchange_offsets,
)

Matrix = List[List[int]]  # [source][destination], in bytes


def pattern(source: int, destination: int, call: int, nbytes: int) -> torch.Tensor:
    at = torch.arange(nbytes, dtype=torch.int64)
    return ((source * 31 + destination * 17 + call * 7 + at) % 251).to(torch.uint8)


class Raw:
    """Buffers, window and state of one rank; `call` exchanges and checks every byte."""

    def __init__(self, comm: oriel.Comm, slot: int, sync: bool = True) -> None:
        world = comm.size
        self.comm, self.slot, self.sync, self.calls = comm, slot, sync, 0
        self.device = torch.device(comm.device)
        self.recv = oriel.empty((world * slot,), torch.uint8, comm, like="torch")
        self.send = oriel.empty((world * slot,), torch.uint8, comm, like="torch")
        self.window = oriel.Window(comm, self.recv, signals=SIGNALS)
        self.source = self.window.register_local_buffer(self.send)
        self.state = AlltoallvState(comm, self.window)
        self.local = self.on_gpu([rank * slot for rank in range(world)])
        self.remote = exchange_offsets(self.local, comm)

    def on_gpu(self, numbers: List[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)

    def call(self, sizes: Matrix, spin: int = 0, pattern_of: int = -1,
             **plan: Any) -> torch.Tensor:
        rank, world = self.comm.rank, self.comm.size
        kind = self.calls if pattern_of < 0 else pattern_of
        mine = self.on_gpu(sizes[rank])
        offsets = compute_offsets_from_sizes(mine)
        data = [pattern(rank, peer, kind, sizes[rank][peer]) for peer in range(world)]
        flat = torch.cat(data)
        self.send[: flat.numel()] = flat.to(self.device)
        if spin:
            torch.cuda._sleep(spin)
        device_alltoallv_dynamic(
            self.send, self.recv, mine, offsets, self.on_gpu([row[rank] for row in sizes]),
            self.local, self.remote, self.window.device_handle, self.source, rank, world,
            sync_buffer=self.sync, state=self.state, **plan)
        self.state.check()
        found = self.recv.cpu()
        for source in range(world):
            nbytes = sizes[source][rank]
            slot = found[source * self.slot:source * self.slot + nbytes]
            want = pattern(source, rank, kind, nbytes)
            assert torch.equal(slot, want), f"call {self.calls}: data of rank {source} is wrong"
        self.calls += 1
        assert self.state.calls() == self.calls, "the Triton kernel did not count this call"
        return found

    def uniform(self, nbytes: int, **plan: Any) -> torch.Tensor:
        return self.call([[nbytes] * self.comm.size for _ in range(self.comm.size)], **plan)

    def close(self) -> None:
        torch.cuda.synchronize()
        self.comm.barrier()
        self.window.close()


def run(comm: oriel.Comm, slot: int, calls: List[Dict[str, Any]], sync: bool = True) -> None:
    """Uniform calls, each a dict of bytes and plan."""
    raw = Raw(comm, slot, sync)
    for plan in calls:
        raw.uniform(plan.pop("nbytes", slot), **plan)
        if not sync:
            comm.barrier()  # no rank calls again before all have read
    raw.close()


def uniform_basic(comm: oriel.Comm) -> None:
    run(comm, 4096, [{}])


def large(comm: oriel.Comm) -> None:
    run(comm, 8 << 20, [{}, {"blocks_per_peer": 4}])


def minimum(comm: oriel.Comm) -> None:
    run(comm, 16, [{"nbytes": 4}, {"nbytes": 1}, {"nbytes": 15}])


def repeats(comm: oriel.Comm) -> None:
    run(comm, 65536, [{} for _ in range(5)])


def warps(comm: oriel.Comm) -> None:
    run(comm, 65536, [{"num_warps": 4}, {"num_warps": 32}])


def blocks(comm: oriel.Comm) -> None:
    run(comm, 1 << 20, [{"blocks_per_peer": number} for number in (2, 4)])


def blocks_give_the_same(comm: oriel.Comm) -> None:
    raw = Raw(comm, 100000)
    one = raw.uniform(100000, blocks_per_peer=1, pattern_of=0)
    raw.recv.zero_()
    four = raw.uniform(100000, blocks_per_peer=4, pattern_of=0)
    assert torch.equal(one, four)
    raw.close()


def blocks_that_change(comm: oriel.Comm) -> None:
    """One window, no reset between calls."""
    run(comm, 65536, [{"blocks_per_peer": number} for number in (1, 2, 4, 2, 1, 8)])


def blocks_that_differ(comm: oriel.Comm) -> None:
    """Every rank uses another number of blocks."""
    number = 1 + 3 * (comm.rank % 2)
    run(comm, 65536, [{"blocks_per_peer": number} for _ in range(3)])


def per_peer_blocks(comm: oriel.Comm) -> None:
    numbers = [1 + (comm.rank + peer) % 4 for peer in range(comm.size)]
    run(comm, 65536, [{"per_peer_blocks": numbers}, {}, {"per_peer_blocks": numbers[::-1]}])


def empty_messages(comm: oriel.Comm) -> None:
    """0 bytes, and fewer than blocks, between full messages."""
    run(comm, 65536, [{"nbytes": nbytes, "blocks_per_peer": 4}
                      for nbytes in (65536, 0, 3, 0, 1, 65536)])


def random_sizes(comm: oriel.Comm) -> None:
    """Sizes that differ for every pair and call, at any alignment."""
    rng = random.Random(5)
    raw = Raw(comm, 70000)
    for _ in range(12):
        sizes = [[rng.choice([0, 1, 15, 16, 17, 1000, 4097, rng.randrange(70000)])
                  for _ in range(comm.size)] for _ in range(comm.size)]
        raw.call(sizes, blocks_per_peer=rng.choice([1, 2, 4]))
    raw.close()


def without_handshake(comm: oriel.Comm) -> None:
    run(comm, 65536, [{"blocks_per_peer": number} for number in (1, 4, 2)], sync=False)


def late_ranks(comm: oriel.Comm) -> None:
    """Odd ranks come late; with one and with several blocks."""
    raw = Raw(comm, 65536)
    for number in (1, 4, 1, 4):
        spin = 2_000_000 if comm.rank % 2 else 0
        raw.uniform(65536, blocks_per_peer=number, spin=spin)
    raw.close()


def tuned(comm: oriel.Comm) -> None:
    run(comm, 1 << 20, [{"nbytes": nbytes, "auto_tune": True} for nbytes in (64, 65536, 1 << 20)])


def refused_offset(comm: oriel.Comm) -> None:
    """An offset beyond the buffer on rank 0 fails the call on all ranks; the next call works."""
    raw = Raw(comm, 4096)
    world, rank = comm.size, comm.rank
    sizes = raw.on_gpu([64] * world)
    bad = raw.on_gpu([raw.send.numel()] * world) if rank == 0 else raw.on_gpu([0] * world)
    device_alltoallv_dynamic(
        raw.send, raw.recv, sizes, bad, sizes, raw.local, raw.remote, raw.window.device_handle,
        raw.source, rank, world, state=raw.state)
    found = raw.state.failure()
    assert found is not None and (found.status, found.rank) == (-2, 0), found
    raw.calls += 1
    raw.uniform(4096)
    raw.close()


CASES = [uniform_basic, large, minimum, repeats, warps, blocks, blocks_give_the_same,
         blocks_that_change, blocks_that_differ, per_peer_blocks, empty_messages, random_sizes,
         without_handshake, late_ranks, tuned, refused_offset]
