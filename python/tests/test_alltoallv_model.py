# SPDX-License-Identifier: BSD-3-Clause
"""The protocol of the Triton all-to-all-v under random orders of steps, and its predecessor's."""

from __future__ import annotations

import functools
import random
import unittest

from .alltoallv_model import Call, Deadlock, Overwritten, Scenario, simulate
from .alltoallv_protocols import TOTAL, earlier, ours, share

SEEDS = 60
# how a pair is connected
TOPOLOGIES = {
    "mapped": lambda source, peer: False,
    "queued": lambda source, peer: source != peer,
    "mixed": lambda source, peer: (source + peer) % 2 == 1,
}


def uniform(ranks: int, size: int, blocks: int) -> Call:
    return Call([[size] * ranks for _ in range(ranks)], [[blocks] * ranks for _ in range(ranks)])


def random_calls(seed: int, ranks: int, calls: int) -> "list[Call]":
    """Sizes from 0 on, and blocks that differ for each call, rank and peer."""
    rng = random.Random(seed)

    def table(values: "list[int]") -> "list[list[int]]":
        return [[rng.choice(values) for _ in range(ranks)] for _ in range(ranks)]

    return [Call(table([0, 0, 1, 2, 3, 7]), table([1, 2, 3, 4])) for _ in range(calls)]


def outcomes(kernel, scenario: Scenario, seeds: int = SEEDS) -> "set[str]":
    """What happens over many orders of steps."""
    seen = set()
    for seed in range(seeds):
        try:
            simulate(kernel, scenario, seed)
            seen.add("good")
        except Deadlock:
            seen.add("deadlock")
        except Overwritten:
            seen.add("overwritten")
    return seen


class OurProtocol(unittest.TestCase):
    """No call hangs, and no unread byte is overwritten."""

    def test_random_sizes_and_blocks(self) -> None:
        for name, queued in TOPOLOGIES.items():
            for ranks in (1, 2, 3):
                for seed in range(25):
                    calls = random_calls(seed, ranks, 4)
                    late = [seed % ranks] if seed % 3 == 0 else []
                    with self.subTest(name, ranks=ranks, seed=seed):
                        simulate(ours, Scenario(calls, queued=queued, late=late), seed)

    def test_slow_receiver(self) -> None:
        """A rank that is far behind: no block of a fast rank writes before it has read."""
        calls = [uniform(2, 6, 3) for _ in range(4)]
        self.assertEqual(outcomes(ours, Scenario(calls, slow=[1])), {"good"})

    def test_empty_messages(self) -> None:
        """Sizes 0 and sizes below the number of blocks, between full ones."""
        calls = [uniform(2, size, 4) for size in (6, 0, 2, 0, 1, 6)]
        self.assertEqual(outcomes(ours, Scenario(calls)), {"good"})

    def test_blocks_that_change(self) -> None:
        calls = [uniform(2, 6, blocks) for blocks in (1, 2, 4, 2, 1, 8)]
        self.assertEqual(outcomes(ours, Scenario(calls)), {"good"})

    def test_blocks_that_differ(self) -> None:
        """Rank 0 uses 1 block, rank 1 uses 4: the receiver does not know the sender's number."""
        call = Call([[6, 6], [6, 6]], [[1, 1], [4, 4]])
        for name, queued in TOPOLOGIES.items():
            with self.subTest(name):
                self.assertEqual(outcomes(ours, Scenario([call] * 4, queued=queued)), {"good"})

    def test_fewer_programs_than_items(self) -> None:
        """A launch that does not fit: each program executes several items, phase by phase."""
        for programs in (1, 2, 5):
            for seed in range(10):
                scenario = Scenario(random_calls(seed, 3, 3), programs=programs)
                simulate(ours, scenario, seed)

    def test_without_handshake(self) -> None:
        """sync=False is safe if the ranks meet after they have read."""
        calls = random_calls(7, 2, 5)
        for name, queued in TOPOLOGIES.items():
            with self.subTest(name):
                good = Scenario(calls, sync=False, queued=queued, meet=True)
                self.assertEqual(outcomes(ours, good), {"good"})

    def test_words_end_where_they_must(self) -> None:
        """Every call adds the same to every pair, whatever was sent."""
        calls = random_calls(3, 3, 5)
        world = simulate(ours, Scenario(calls), 1)
        for destination in range(3):
            for source in range(3):
                want = 0 if source == destination else len(calls) * TOTAL
                self.assertEqual(world.word(destination, source, 0), want)

    def test_shares_cover_the_message(self) -> None:
        for size in range(40):
            for blocks in range(1, 9):
                cells = []
                for index in range(blocks):
                    begin, count = share(size, index, blocks)
                    cells.extend(range(begin, begin + count))
                self.assertEqual(cells, list(range(size)))


class StepsThatAreNeeded(unittest.TestCase):
    """The model notices when a step of our protocol is missing."""

    def test_every_block_must_wait(self) -> None:
        kernel = functools.partial(ours, all_wait=False)
        scenario = Scenario([uniform(2, 6, 3) for _ in range(4)], slow=[1])
        self.assertIn("overwritten", outcomes(kernel, scenario))

    def test_queued_peers_must_be_flushed(self) -> None:
        kernel = functools.partial(ours, flush=False)
        calls = [uniform(2, 6, 3) for _ in range(4)]
        scenario = Scenario(calls, queued=TOPOLOGIES["queued"], late=[0])
        self.assertEqual(outcomes(ours, scenario), {"good"})
        self.assertIn("overwritten", outcomes(kernel, scenario))

    def test_no_handshake_needs_a_meeting(self) -> None:
        scenario = Scenario([uniform(2, 6, 1) for _ in range(4)], sync=False, slow=[1])
        self.assertIn("overwritten", outcomes(ours, scenario))


class EarlierProtocol(unittest.TestCase):
    """The model finds the defects of the earlier protocol."""

    def test_equal_blocks_and_full_messages_work(self) -> None:
        calls = [uniform(2, 6, 1) for _ in range(4)]
        self.assertEqual(outcomes(earlier, Scenario(calls)), {"good"})

    def test_only_block_0_waits(self) -> None:
        calls = [uniform(2, 6, 3) for _ in range(4)]
        self.assertIn("overwritten", outcomes(earlier, Scenario(calls, slow=[1])))

    def test_an_empty_message_hangs_a_later_call(self) -> None:
        calls = [uniform(2, size, 1) for size in (6, 0, 6)]
        self.assertIn("deadlock", outcomes(earlier, Scenario(calls)))

    def test_fewer_cells_than_blocks_hang(self) -> None:
        self.assertIn("deadlock", outcomes(earlier, Scenario([uniform(2, 2, 4)])))

    def test_blocks_that_change_hang(self) -> None:
        calls = [uniform(2, 6, blocks) for blocks in (1, 2)]
        self.assertIn("deadlock", outcomes(earlier, Scenario(calls)))

    def test_blocks_that_differ_go_wrong(self) -> None:
        call = Call([[6, 6], [6, 6]], [[1, 1], [2, 2]])
        self.assertIn("deadlock", outcomes(earlier, Scenario([call])))


if __name__ == "__main__":
    unittest.main()
