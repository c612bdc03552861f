# SPDX-License-Identifier: BSD-3-Clause
"""Groups of some ranks: split_group and new_group."""
from __future__ import annotations

import time
import unittest
from datetime import timedelta

from .torch_ranks import dist, raised, run_ranks, torch

from oriel.torch import ProcessGroup  # after torch_ranks, which skips the tests without torch


def _sum(rank: int, group: object) -> int:
    """The sum of rank + 1 over the ranks of the group, by tensors of two sizes."""
    for count in (1, 10_000):  # within the meeting, and after it
        tensor = torch.full((count,), rank + 1)
        dist.all_reduce(tensor, group=group)
        assert bool((tensor == tensor[0]).all())
    return int(tensor[0])


def halves(rank: int, ranks: int) -> None:
    """Two parts that cover the group, each with all kinds of calls."""
    middle = ranks // 2
    parts = [list(range(middle)), list(range(middle, ranks))]
    group = dist.split_group(split_ranks=parts, group_desc="halves")
    mine = parts[rank >= middle]
    assert isinstance(group, ProcessGroup) and group.group_desc == "halves"
    assert dist.get_process_group_ranks(group) == mine
    assert (dist.get_rank(group), dist.get_world_size(group)) == (mine.index(rank), len(mine))
    assert _sum(rank, group) == sum(member + 1 for member in mine)
    right, left = mine[(mine.index(rank) + 1) % len(mine)], mine[mine.index(rank) - 1]
    if len(mine) > 1:
        got = torch.zeros(1, dtype=torch.int64)
        send = dist.isend(torch.tensor([rank]), right, group=group)
        dist.recv(got, left, group=group)
        send.wait()
        assert got.item() == left
    objects: list = [None] * len(mine)
    dist.all_gather_object(objects, rank, group=group)
    assert objects == mine
    _sum(rank, None)  # the parent is as good as before
    dist.destroy_process_group(group)
    _sum(rank, None)


def ordered(rank: int, ranks: int) -> None:
    """The order of a list is the order of ranks.  A rank in no list gets no group."""
    order = list(range(ranks - 1, 0, -1))
    group = dist.split_group(split_ranks=[order])
    if rank == 0:
        assert group is dist.GroupMember.NON_GROUP_MEMBER
    else:
        assert dist.get_rank(group) == order.index(rank)
        gathered = [torch.zeros(1, dtype=torch.int64) for _ in order]
        dist.all_gather(gathered, torch.tensor([rank]), group=group)
        assert [int(tensor) for tensor in gathered] == order
    dist.barrier()


def nested(rank: int, ranks: int) -> None:
    """A part of a part outlives both, and asynchronous calls before a split keep their place."""
    works = [dist.all_reduce(torch.ones(5_000), async_op=True) for _ in range(3)]
    outer = dist.split_group(split_ranks=[[0, 1, 2], [3]])
    for work in works:
        work.wait()
    inner = None
    if rank < 3:
        inner = dist.split_group(outer, [[2, 0], [1]])
        assert dist.get_process_group_ranks(inner) == ([1] if rank == 1 else [2, 0])
    dist.destroy_process_group(outer)
    if rank < 3:
        assert _sum(rank, inner) == (2 if rank == 1 else 4)
    _sum(rank, None)


def subsets(rank: int, ranks: int) -> None:
    """new_group: groups that overlap, and groups that only their members create."""
    evens, low = list(range(0, ranks, 2)), [0, 1]
    first, second = dist.new_group(evens), dist.new_group(low)
    for members, group in ((evens, first), (low, second)):
        if rank in members:
            assert _sum(rank, group) == sum(member + 1 for member in members)
    mine, _ = dist.new_subgroups_by_enumeration([evens, list(range(1, ranks, 2))])
    assert _sum(rank, mine) == sum(r + 1 for r in range(rank % 2, ranks, 2))
    # The last one: PyTorch numbers groups, and now the numbers of the ranks differ.
    if rank in low:
        third = dist.new_group(low, use_local_synchronization=True)
        assert _sum(rank, third) == 3


def wrong(rank: int, ranks: int) -> list[str]:
    """Lists that are bad or differ: all ranks raise, and the group stays usable."""
    texts = []
    for mine, others in (([0, 9], [0, 1]), ([0, 2], [0, 1]), ([0, 1], [1, 0])):
        parts = [mine if rank == 0 else others]
        texts.append(str(raised(lambda: dist.split_group(split_ranks=parts))))
        _sum(rank, None)
    return texts


def late(rank: int, ranks: int) -> str:
    """A rank that does not come to a call of a part is named by its number there."""
    group = dist.split_group(split_ranks=[[2, 0], [1]], timeout=timedelta(seconds=11))
    if rank == 2:
        time.sleep(9)
        return ""
    return str(raised(lambda: dist.all_reduce(torch.ones(3), group=group))) if rank == 0 else ""


class Groups(unittest.TestCase):
    """Each body on its number of ranks."""

    def test_halves(self) -> None:
        """Collectives, messages and objects of a part."""
        run_ranks(halves, 4)
        run_ranks(halves, 3)

    def test_ordered(self) -> None:
        """Order and ranks without a part."""
        run_ranks(ordered, 4)

    def test_nested(self) -> None:
        """Parts of parts."""
        run_ranks(nested, 4)

    def test_subsets(self) -> None:
        """new_group."""
        run_ranks(subsets, 4)

    def test_wrong(self) -> None:
        """One rank's mistake raises on all ranks."""
        for texts in run_ranks(wrong, 3):
            self.assertRegex(texts[0], "rank 9 does not exist in the parent group")
            for text in texts[1:]:
                self.assertRegex(text, r"rank \d passes .* pass the same split_ranks")

    def test_late(self) -> None:
        """The deadline of the parent holds for its parts."""
        self.assertIn("rank 0", run_ranks(late, 3, timeout=5)[0])


if __name__ == "__main__":
    unittest.main()
