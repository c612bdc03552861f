# SPDX-License-Identifier: BSD-3-Clause
"""Two all-to-all-v protocols for alltoallv_model.py.

`ours` takes the steps of oriel/triton/alltoallv.py.  `earlier` takes the steps of a protocol that
was in use elsewhere, with its defects.  The model must find these; otherwise it proves nothing.
"""

from __future__ import annotations

from typing import List

from .alltoallv_model import Call, Operation, Steps, World

DATA, READY = 0, 1  # signal ids; `ours` uses READY and READY + 1 in turn
TOTAL = 1 << 16  # what every call adds to DATA, for every pair
MOST_BLOCKS = 16  # per peer: words of device memory that count calls


def share(size: int, index: int, blocks: int) -> "tuple[int, int]":
    """Begin and count of a block's share; blocks after the end get nothing."""
    step = -(-size // blocks)
    begin = min(index * step, size)
    return begin, min(step, size - begin)


# ---- ours ----------------------------------------------------------------------------------------


class Item:
    """One block of one peer, in one call."""

    def __init__(self, world: World, rank: int, number: int, call: Call) -> None:
        most = call.most_blocks(rank)
        self.world, self.rank, self.call = world, rank, call
        self.peer = (rank + number // most) % len(call.sizes)
        self.index = number % most
        self.blocks = call.blocks[rank][self.peer]
        self.exists = self.index < self.blocks
        self.k = 0

    def find(self) -> Steps:
        yield None
        self.k = self.world.local[self.rank, "calls", self.peer, self.index]

    def tell(self, block: int) -> Steps:
        """Block 0 of a peer tells it that this rank is in call k."""
        yield from self.find()
        if self.world.scenario.sync and self.index == 0 and self.peer != self.rank:
            word = (self.peer, self.rank, READY + self.k % 2)
            self.world.post(self.rank, block, self.peer, Operation(word, store=self.k + 1))

    def send(self, block: int, all_wait: bool = True) -> Steps:
        """Every block waits for the peer, then puts its share and adds its part of TOTAL."""
        yield from self.find()
        world, rank, peer = self.world, self.rank, self.peer
        begin, count = share(self.call.sizes[rank][peer], self.index, self.blocks)
        if peer == rank:
            for cell in range(begin, begin + count):
                world.slots[rank][rank][cell] = world.sources[rank][rank][cell]
            return
        if world.scenario.sync and (all_wait or self.index == 0):
            yield lambda: world.word(rank, peer, READY + self.k % 2) >= self.k + 1
        add = 1 if self.index else TOTAL - (self.blocks - 1)
        if count > 1:  # a chunk alone, the rest with the signal
            world.post(rank, block, peer, Operation(begin=begin, count=1))
            yield None
            begin, count = begin + 1, count - 1
        world.post(rank, block, peer, Operation((peer, rank, DATA), add, None, begin, count))

    def receive(self, block: int, flush: bool = True) -> Steps:
        """Block 0 waits for TOTAL; every block counts the call and flushes."""
        yield from self.find()
        world, rank, peer = self.world, self.rank, self.peer
        if self.index == 0 and peer != rank:
            yield lambda: world.word(rank, peer, DATA) >= (self.k + 1) * TOTAL
        world.local[rank, "calls", peer, self.index] = self.k + 1
        if self.index == 0:
            for unused in range(self.blocks, MOST_BLOCKS):
                world.local[rank, "calls", peer, unused] = self.k + 1
        if flush and peer != rank and world.scenario.queued(rank, peer):
            yield lambda: world.is_flushed(rank, block, peer)


def ours(world: World, rank: int, number: int, call: Call, all_wait: bool = True,
         flush: bool = True) -> List[Steps]:
    """The kernel of oriel/triton/alltoallv.py.  The flags remove a step, for tests of the model."""
    del number  # the kernel counts on the device
    items = call.most_blocks(rank) * len(call.sizes)
    programs = world.scenario.programs or items

    def block(program: int) -> Steps:
        mine = [Item(world, rank, at, call) for at in range(program, items, programs)]
        for item in mine:
            if item.exists:
                yield from item.tell(program)
        for item in mine:
            if item.exists:
                yield from item.send(program, all_wait)
        for item in mine:
            if item.exists:
                yield from item.receive(program, flush)

    return [block(program) for program in range(min(programs, items))]


# ---- the earlier protocol ------------------------------------------------------------------------


def earlier(world: World, rank: int, number: int, call: Call) -> List[Steps]:
    """Send blocks and receive blocks; every count depends on sizes and on the number of blocks."""
    most = call.most_blocks(rank)
    for peer in range(len(call.sizes)):
        world.local[rank, "sent", peer] = most * number  # refilled before every call

    def send_block(peer: int, index: int) -> Steps:
        yield None
        block = peer * most + index
        size = call.sizes[rank][peer]
        portion = size // most
        count = size - portion * (most - 1) if index == most - 1 else portion
        if world.scenario.sync and number and peer != rank and size and index == 0:
            yield lambda: world.word(rank, peer, READY) >= number
        if count == 0:
            return
        begin = index * portion
        if peer == rank:
            for cell in range(begin, begin + count):
                world.slots[rank][rank][cell] = world.sources[rank][rank][cell]
            return
        world.post(rank, block, peer, Operation(begin=begin, count=count))
        yield lambda: world.is_flushed(rank, block, peer)
        world.local[rank, "sent", peer] += 1
        if world.local[rank, "sent", peer] == most * (number + 1):
            world.post(rank, block, peer, Operation((peer, rank, DATA), most))

    def receive_block(peer: int) -> Steps:
        yield None
        if peer == rank:
            return
        if world.scenario.sync and number:
            world.post(rank, -1 - peer, peer, Operation((peer, rank, READY), 1))
        if call.sizes[peer][rank]:
            yield lambda: world.word(rank, peer, DATA) >= most * (number + 1)

    peers = range(len(call.sizes))
    return [send_block(peer, index) for peer in peers for index in range(most)] + [
        receive_block(peer) for peer in peers
    ]
