# SPDX-License-Identifier: BSD-3-Clause
"""Bad input and lost ranks: every rank gets an exception that says what to do; nothing hangs."""
from __future__ import annotations

import os
import signal
import time
import unittest
from datetime import timedelta
from typing import Callable

from .torch_ranks import dist, raised, run_ranks, torch

from oriel.torch import _group  # after torch_ranks, which skips the tests without torch

# What rank 0 does, what the others do, and what every rank's error must contain.
Case = tuple[Callable[[], object], Callable[[], object], str]


def _cases() -> list[Case]:
    one, two = torch.ones(4), torch.ones(5)
    crooked = torch.ones(4, 4).t()
    return [
        (lambda: dist.all_reduce(two), lambda: dist.all_reduce(one), "5 elements"),
        (lambda: dist.all_reduce(one.int()), lambda: dist.all_reduce(one), "int32"),
        (lambda: dist.all_reduce(one, dist.ReduceOp.MAX), lambda: dist.all_reduce(one),
         "operators"),
        (lambda: dist.barrier(), lambda: dist.all_reduce(one), "calls barrier"),
        (lambda: dist.broadcast(one, 1), lambda: dist.broadcast(one, 0), "root 1"),
        (lambda: dist.all_reduce(torch.ones(90_000)), lambda: dist.all_reduce(one), "90000"),
        (lambda: dist.all_reduce(crooked), lambda: dist.all_reduce(torch.ones(4, 4)),
         "pass tensor.contiguous()"),
        (lambda: dist.all_reduce(one, dist.ReduceOp.BAND), lambda: dist.all_reduce(one),
         "BAND needs integers"),
        (lambda: dist.all_reduce(one.to("meta")), lambda: dist.all_reduce(one),
         "tensors on meta are not supported"),
        (lambda: dist.all_gather([one], one), lambda: dist.all_gather([two, two], two), "rank"),
        (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), [1, 2], [1, 2]),
         lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), [1, 2], [1, 2]),
         "rank 1 sends 1 elements to rank 0, which expects 2"),
        (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)),
         lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4)), "pass output splits"),
    ]


def _forms() -> list[Case]:
    """Arguments that have no form of PyTorch's: found before the call has a place in the line."""
    group, one, rest = dist.group.WORLD, torch.ones(4), dist.AllreduceOptions()
    waits = dist.BroadcastOptions()
    waits.asyncOp = False

    def reduces() -> object:
        return group.allreduce([one], rest).wait()

    return [
        (lambda: group.allreduce([one, one], rest).wait(), reduces, "2 tensors: a call takes one"),
        (lambda: group.allreduce([], rest).wait(), reduces, "0 tensors: a call takes one"),
        (lambda: group.allreduce([None], rest).wait(), reduces, "NoneType"),
        (lambda: group.allreduce([one], "sum").wait(), reduces, "of torch.distributed.ReduceOp"),
        (lambda: group.broadcast([one], "first").wait(), lambda: group.broadcast([one], 0).wait(),
         "pass BroadcastOptions, or the number of the root"),
        (lambda: group.broadcast([one, one], waits), lambda: group.broadcast([one], waits),
         "2 tensors"),
        (lambda: group.reduce([one], "first").wait(), lambda: group.reduce([one], 0).wait(),
         "pass ReduceOptions"),
        (lambda: group.allgather(None, [one]).wait(),
         lambda: group.allgather([[one.clone(), one.clone()]], [one]).wait(), "NoneType"),
    ]


def refused(rank: int, ranks: int) -> list[str]:
    """All cases, one after the other, on a group that stays usable."""
    texts = []
    for first, others, _ in _cases() + _forms():
        texts.append(str(raised(first if rank == 0 else others)))
        good = torch.tensor([rank])
        dist.all_reduce(good)
        assert good.item() == sum(range(ranks))
    return texts


def late(rank: int, ranks: int) -> tuple[str, float]:
    """Rank 1 does not come."""
    if rank == 1:
        time.sleep(9)  # more than the deadline and as long for the farewell
        return "", 0.0
    start = time.monotonic()
    error = raised(lambda: dist.all_reduce(torch.ones(100)))
    return str(error), time.monotonic() - start


def killed(rank: int, ranks: int) -> tuple[str, str]:
    """Rank 1 dies while the others wait for it, in a collective and in a receive."""
    group = dist.new_group()
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    receive = dist.irecv(torch.empty(1), 1, group=group)
    collective = str(raised(lambda: dist.all_reduce(torch.ones(100))))
    return collective, str(raised(receive.wait))


def aborted(rank: int, ranks: int) -> str:
    """Rank 0 aborts the group."""
    if rank == 0:
        time.sleep(0.3)
        dist.group.WORLD.abort()
        return ""
    return str(raised(lambda: dist.all_reduce(torch.ones(3))))


def stuck(rank: int, ranks: int) -> tuple[str, float]:
    """Rank 0 shuts down while a call waits for rank 1, which does not make it."""
    if rank == 1:
        time.sleep(3)
        return "", 0.0
    _group._FAREWELL_S = 1.0  # of the 30 seconds
    work, start = dist.all_reduce(torch.ones(3), async_op=True), time.monotonic()
    dist.destroy_process_group()
    return str(raised(work.wait)), time.monotonic() - start


def works(rank: int, ranks: int) -> str:
    """wait() with a timeout, and calls after the end."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        error = raised(lambda: work.wait(timedelta(seconds=0.2)))
        assert not work.is_completed() and work.exception() is None
        dist.barrier(group=dist.new_group(use_local_synchronization=True, ranks=[0]))
    dist.monitored_barrier()
    if rank:
        dist.all_reduce(torch.ones(3))
        return ""
    work.wait()
    assert work.is_success()
    group = dist.group.WORLD
    dist.destroy_process_group()
    assert "shut down" in str(raised(lambda: group.allreduce([torch.ones(1)]).wait()))
    return str(error)


class Errors(unittest.TestCase):
    """Each kind of trouble."""

    def test_refused(self) -> None:
        """Bad input of one rank raises on all ranks."""
        wants = [want for _, _, want in _cases() + _forms()]
        for rank, texts in enumerate(run_ranks(refused, 2)):
            self.assertEqual(len(texts), len(wants))
            for want, text in zip(wants, texts):
                with self.subTest(rank=rank, want=want):
                    self.assertIn(want, text)
            if rank:  # the error of the other rank names the rank with the bad arguments
                for text in texts[-len(_forms()):]:
                    self.assertIn("rank 0 failed: ", text)

    def test_late(self) -> None:
        """The deadline passes, and the error names the rank that is late."""
        results = run_ranks(late, 3, timeout=4)
        for text, seconds in (results[0], results[2]):
            self.assertIn("rank 1", text)
            self.assertLess(seconds, 30)

    def test_killed(self) -> None:
        """A rank that dies ends the waits of all others."""
        results = run_ranks(killed, 3)
        self.assertIsNone(results[1])
        for collective, receive in (results[0], results[2]):
            self.assertIn("rank 1", collective)
            self.assertIn("rank 1", receive)

    def test_aborted(self) -> None:
        """abort() ends the calls of all ranks."""
        for text in run_ranks(aborted, 3)[1:]:
            self.assertIn("ORIEL_EABORTED", text)

    def test_stuck(self) -> None:
        """A shutdown does not wait for ever for a call: it aborts the group."""
        text, seconds = run_ranks(stuck, 2, timeout=60)[0]
        self.assertIn("ORIEL_EABORTED", text)
        self.assertGreater(seconds, 0.9)
        self.assertLess(seconds, 15)

    def test_works(self) -> None:
        """Work objects tell what became of their calls."""
        self.assertIn("not finished after 0.2 s", run_ranks(works, 2)[0])


if __name__ == "__main__":
    unittest.main()
