# SPDX-License-Identifier: BSD-3-Clause
"""A model of all-to-all-v protocols: blocks, signals and lanes, run in any order.

The model executes the steps of every block of every rank as coroutines.  A scheduler with a seed
chooses who takes the next step.  Operations of a block to a peer go into a lane, first in, first
out.  The scheduler also chooses when a lane delivers its next operation.  So the model shows what
a program may see that relies on nothing but docs/rules.md:

* a signal comes after the earlier operations of its own block to that peer, and after no others;
* a mapped peer's lane is empty when the kernel ends; a queued peer's lane only after a flush;
* a put to a queued peer reads its source when it is delivered.

A run ends well, or raises Deadlock (nobody can take a step) or Overwritten (a rank reads other
bytes than those of its call).  The protocols are in alltoallv_protocols.py.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import Any, Callable, Deque, Dict, Generator, List, Optional, Sequence, Tuple

Condition = Optional[Callable[[], bool]]
Steps = Generator[Condition, None, None]


class Deadlock(Exception):
    """No block, lane or program can take a step."""


class Overwritten(Exception):
    """A rank has read bytes that are not those of its call."""


@dataclasses.dataclass
class Call:
    """What one call of all ranks exchanges, and with how many blocks."""

    sizes: List[List[int]]  # [source][destination], in cells
    blocks: List[List[int]]  # [rank][peer]: blocks that this rank uses for that peer

    def most_blocks(self, rank: int) -> int:
        return max(self.blocks[rank])


@dataclasses.dataclass
class Scenario:
    """A program that every rank runs."""

    calls: List[Call]
    sync: bool = True
    queued: Callable[[int, int], bool] = lambda source, peer: False
    slow: Sequence[int] = ()  # ranks that rarely get a turn
    late: Sequence[int] = ()  # ranks whose lanes rarely deliver
    programs: Optional[int] = None  # blocks of a launch, if fewer than there are items
    meet: bool = False  # ranks meet after they have read: what sync=False asks of a program

    @property
    def ranks(self) -> int:
        return len(self.calls[0].sizes)


@dataclasses.dataclass
class Operation:
    """A put (cells), a signal (word), or both, on its way to a peer."""

    word: Optional[Tuple[int, int, int]] = None  # destination, source, id
    add: int = 0
    store: Optional[int] = None
    begin: int = 0
    count: int = 0
    values: Optional[List[int]] = None  # None: read from the source at delivery


class World:
    """All memory of all ranks, the lanes, and the scheduler."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        n = scenario.ranks
        most = max(max(map(max, call.sizes)) for call in scenario.calls)
        self.scenario = scenario
        self.random = random.Random(seed)
        self.words: Dict[Tuple[int, int, int], int] = collections.defaultdict(int)
        self.local: Dict[Any, int] = collections.defaultdict(int)  # device memory of a rank
        self.sources = [[[-1] * most for _ in range(n)] for _ in range(n)]
        self.slots = [[[-1] * most for _ in range(n)] for _ in range(n)]  # [destination][source]
        self.lanes: Dict[Tuple[int, int, int], Deque[Operation]] = {}
        self.actors: List[Tuple[int, Steps]] = []
        self.waiting: Dict[int, Condition] = {}
        self.finished: Dict[int, int] = collections.defaultdict(int)  # calls a rank has read

    # ---- what blocks do

    def post(self, rank: int, block: int, peer: int, op: Operation) -> None:
        """Hands an operation to the lane of (rank, block, peer)."""
        if op.count and not self.scenario.queued(rank, peer):
            op.values = self.sources[rank][peer][op.begin : op.begin + op.count]
        self.lanes.setdefault((rank, block, peer), collections.deque()).append(op)

    def is_flushed(self, rank: int, block: int, peer: int) -> bool:
        return not self.lanes.get((rank, block, peer))

    def word(self, destination: int, source: int, ident: int) -> int:
        return self.words[destination, source, ident]

    # ---- the scheduler

    def deliver(self, lane: Tuple[int, int, int]) -> None:
        rank, _, peer = lane
        op = self.lanes[lane].popleft()
        if op.count:
            source = self.sources[rank][peer]
            values = op.values or source[op.begin : op.begin + op.count]
            self.slots[peer][rank][op.begin : op.begin + op.count] = values
        if op.word and op.store is not None:
            self.words[op.word] = op.store
        elif op.word:
            self.words[op.word] += op.add

    def start(self, rank: int, steps: Steps) -> int:
        self.actors.append((rank, steps))
        self.waiting[len(self.actors) - 1] = None
        return len(self.actors) - 1

    def runnable(self) -> List[Tuple[int, Any]]:
        able: List[Tuple[int, Any]] = []
        for index, condition in self.waiting.items():
            if condition is None or condition():
                able.append((self.actors[index][0], index))
        able.extend((lane[0], lane) for lane, ops in self.lanes.items() if ops)
        return able

    def weight(self, rank: int, who: Any) -> float:
        rare = self.scenario.late if isinstance(who, tuple) else self.scenario.slow
        return 0.02 if rank in rare else 1.0

    def run(self) -> None:
        """Runs until every rank has made and read all its calls."""
        while self.waiting:
            able = self.runnable()
            if not able:
                raise Deadlock(f"calls read by each rank: {dict(self.finished)}")
            who = self.random.choices(able, [self.weight(*one) for one in able])[0][1]
            if isinstance(who, tuple):
                self.deliver(who)
                continue
            try:
                self.waiting[who] = next(self.actors[who][1])
            except StopIteration:
                del self.waiting[who]


Kernel = Callable[[World, int, int, Call], List[Steps]]


def host_program(world: World, rank: int, kernel: Kernel) -> Steps:
    """What one rank does: writes its source, launches, waits for the kernel, reads all slots."""
    scenario = world.scenario
    for number, call in enumerate(scenario.calls):
        for peer in range(scenario.ranks):
            for cell in range(len(world.sources[rank][peer])):
                world.sources[rank][peer][cell] = number
            yield None
        started = [world.start(rank, steps) for steps in kernel(world, rank, number, call)]
        yield lambda: not any(index in world.waiting for index in started)
        # the end of a kernel delivers what it stored to mapped peers, and nothing else
        yield lambda: not any(
            ops and lane[0] == rank and not scenario.queued(rank, lane[2])
            for lane, ops in world.lanes.items()
        )
        for source in range(scenario.ranks):
            for cell in range(call.sizes[source][rank]):
                yield None
                found = world.slots[rank][source][cell]
                if found != number:
                    raise Overwritten(
                        f"call {number}: rank {rank} finds call {found} from rank {source}"
                    )
        world.finished[rank] = number + 1
        if scenario.meet:
            yield lambda: all(
                world.finished[other] > number for other in range(scenario.ranks)
            )


def simulate(kernel: Kernel, scenario: Scenario, seed: int) -> World:
    """Runs the scenario on all ranks with one order of steps.  Raises what goes wrong."""
    world = World(scenario, seed)
    for rank in range(scenario.ranks):
        world.start(rank, host_program(world, rank, kernel))
    world.run()
    return world
