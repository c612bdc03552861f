# SPDX-License-Identifier: BSD-3-Clause
"""Messages of the torch.distributed backend: sizes, tags, any source, order, many at once."""
from __future__ import annotations

import threading
import time
import unittest
from datetime import timedelta

from .torch_ranks import dist, raised, run_ranks, torch

from oriel.torch import _group  # after torch_ranks, which skips the tests without torch


def ring(rank: int, ranks: int) -> None:
    """Messages of all sizes go round; the largest are many times the ring of slots."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for count in (0, 1, 16_000, 16_369, 3_000_000):
        got = torch.empty(count)
        send = dist.isend(torch.full((count,), float(rank)), right)
        dist.recv(got, left)
        send.wait()
        assert torch.equal(got, torch.full((count,), float(left))), count


def tags(rank: int, ranks: int) -> None:
    """Receives find their messages by tag, whatever the order of the sends."""
    if rank == 0:
        for tag in range(40):
            dist.isend(torch.full((tag * 1000,), float(tag)), 1, tag=tag)
        dist.barrier()
        return
    for tag in [*range(39, -1, -2), *range(0, 39, 2)]:
        got = torch.empty(tag * 1000)
        assert dist.recv(got, 0, tag=tag) == 0
        assert bool((got == tag).all())
    dist.barrier()


def any_source(rank: int, ranks: int) -> None:
    """Rank 0 takes messages from whoever sends them."""
    if rank:
        for index in range(10):
            dist.send(torch.tensor([rank, index]), 0)
        return
    last = dict.fromkeys(range(1, ranks), -1)
    for _ in range(10 * (ranks - 1)):
        got = torch.empty(2, dtype=torch.int64)
        source = dist.recv(got)
        assert got.tolist() == [source, last[source] + 1], "messages of one rank stay in order"
        last[source] += 1


def beside_collectives(rank: int, ranks: int) -> None:
    """A large message moves on while its sender is inside a collective."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    send = dist.isend(torch.full((2_000_000,), float(rank)), right)
    if rank % 2 == 0:
        dist.barrier()
    got = torch.empty(2_000_000)
    dist.recv(got, left)
    if rank % 2:
        dist.barrier()
    send.wait()
    assert bool((got == left).all())


def beside_sender_in_collective(rank: int, ranks: int) -> None:
    """The receiver joins the collective only after the message, which needs its sender's help."""
    if rank == 0:
        send = dist.isend(torch.ones(4_000_000), 1)
        dist.barrier()
        send.wait()
        return
    got = torch.empty(4_000_000)
    dist.recv(got, 0)
    dist.barrier()
    assert bool((got == 1).all())


def batch(rank: int, ranks: int) -> None:
    """batch_isend_irecv between all pairs."""
    others = [peer for peer in range(ranks) if peer != rank]
    got = {peer: torch.empty(50_000) for peer in others}
    ops = [dist.P2POp(dist.irecv, got[peer], peer) for peer in others]
    ops += [dist.P2POp(dist.isend, torch.full((50_000,), rank * 10.0 + peer), peer)
            for peer in others]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for peer in others:
        assert bool((got[peer] == peer * 10 + rank).all())


def wrong(rank: int, ranks: int) -> list[str]:
    """Sizes that differ, a message that does not come, tensors that are not contiguous."""
    texts = []
    if rank == 0:
        dist.send(torch.ones(3), 1)
        dist.send(torch.ones(5), 1, tag=1)
        dist.barrier()
        return texts
    texts.append(str(raised(lambda: dist.recv(torch.empty(4), 0))))
    texts.append(str(raised(lambda: dist.recv(torch.empty(4, 4).t(), 0))))
    late = dist.irecv(torch.empty(1), 0, tag=7)
    texts.append(str(raised(lambda: late.wait(timedelta(seconds=0.2)))))
    got = torch.zeros(5)
    dist.recv(got, 0, tag=1)  # the group is as good as before
    assert bool((got == 1).all())
    dist.barrier()
    return texts


def expired(rank: int, ranks: int) -> str:
    """A send ends half-way while nobody waits for it.  The next, larger message arrives whole."""
    if rank == 1:
        dist.barrier()
        got = torch.zeros(1_000_000, dtype=torch.uint8)
        text = str(raised(lambda: dist.recv(got, 0)))
        dist.recv(got, 0)
        assert bool((got == 2).all())
        return text
    group = dist.group.WORLD
    group.set_timeout(timedelta(seconds=0.2))
    first = dist.isend(torch.full((600_000,), 1, dtype=torch.uint8), 1)
    group.set_timeout(timedelta(seconds=30))
    second = dist.isend(torch.full((1_000_000,), 2, dtype=torch.uint8), 1)
    until = time.monotonic() + 10
    while not first.is_completed() and time.monotonic() < until:
        time.sleep(0.01)
    assert not second.is_completed(), "a message ends by its own deadline"
    dist.barrier()
    second.wait()
    return str(first.exception())


def given_up(rank: int, ranks: int) -> list[str]:
    """Sends that raised do not go out later, and a receive learns that its sender stopped."""
    soon = timedelta(seconds=0.2)
    if rank == 0:
        works = [dist.isend(torch.ones(600_000), 1), dist.isend(torch.ones(1), 1, tag=5)]
        texts = [str(raised(lambda work=work: work.wait(soon))) for work in works]
        dist.barrier()
        dist.send(torch.full((600_000,), 3.0), 1)
        return texts
    dist.barrier()
    got = torch.empty(600_000)
    texts = [str(raised(lambda: dist.recv(got, 0))),
             str(raised(lambda: dist.irecv(torch.empty(1), 0, tag=5).wait(soon)))]
    dist.recv(got, 0)
    assert bool((got == 3).all())
    return texts


def half_received(rank: int, ranks: int) -> str:
    """A receive times out half-way: its tensor stays untouched, and the next receive gets all."""
    if rank == 0:
        messages = dist.group.WORLD._messages
        fill = messages._fill_slots
        messages._fill_slots = lambda: False if messages._sent[1] else fill()
        send = dist.isend(torch.arange(300_000), 1)
        dist.barrier()
        messages._fill_slots = fill
        send.wait()
        return ""
    first, second = torch.zeros(300_000, dtype=torch.int64), torch.zeros(300_000, dtype=torch.int64)
    receive, until = dist.irecv(first, 0), time.monotonic() + 20
    while not first[1000] and time.monotonic() < until:  # rank 0 may send late
        time.sleep(0.001)
    text = str(raised(lambda: receive.wait(timedelta(seconds=0.5))))
    assert receive.is_completed() and bool(first[1000]), "a part of the message has come"
    first.fill_(-1)
    dist.barrier()
    dist.recv(second, 0)
    assert torch.equal(second, torch.arange(300_000)) and bool((first == -1).all())
    return text


def out_of_step(rank: int, ranks: int) -> str:
    """A sender skips a message number: all messages of both ranks fail."""
    if rank == 0:
        answer = dist.irecv(torch.empty(1), 1)
        dist.group.WORLD._messages._begun[1] += 1
        dist.isend(torch.ones(5), 1)
        return str(raised(answer.wait))
    return str(raised(lambda: dist.recv(torch.empty(5), 0)))


def stuck(rank: int, ranks: int) -> tuple[str, float]:
    """What runs at the end of a message does not return, while rank 0 shuts the group down."""
    if rank:
        time.sleep(1)
        return str(raised(dist.destroy_process_group)), 0.0
    _group._LAST_CALL_S = 0.5
    inside, ends = threading.Event(), threading.Event()
    receive = dist.irecv(torch.empty(1), 1)
    receive.get_future().add_done_callback(lambda _: (inside.set(), ends.wait(60)))
    receive._message.deadline = time.monotonic() + 0.1  # it ends on the group's thread
    assert inside.wait(10)
    start = time.monotonic()
    error = raised(dist.destroy_process_group)
    seconds = time.monotonic() - start
    ends.set()
    return str(error), seconds


def watched(rank: int, ranks: int) -> str:
    """monitored_barrier passes if all come, and names those that do not."""
    dist.monitored_barrier()
    text = ""
    if rank != 1:
        text = str(raised(lambda: dist.monitored_barrier(
            timeout=timedelta(seconds=6), wait_all_ranks=True)))
    dist.barrier()
    return text


class Messages(unittest.TestCase):
    """Each body on its number of ranks."""

    def test_ring(self) -> None:
        """All sizes."""
        run_ranks(ring, 3)

    def test_tags(self) -> None:
        """Forty tags, in another order."""
        run_ranks(tags, 2)

    def test_any_source(self) -> None:
        """Four senders, one receiver."""
        run_ranks(any_source, 5)

    def test_beside_collectives(self) -> None:
        """Messages and collectives do not hold each other up."""
        run_ranks(beside_collectives, 4)
        run_ranks(beside_sender_in_collective, 2)

    def test_batch(self) -> None:
        """All pairs at once."""
        run_ranks(batch, 4)

    def test_wrong(self) -> None:
        """Errors say what to do, and the group stays usable."""
        size, strides, late = run_ranks(wrong, 2)[1]
        self.assertIn("rank 0 sent 12 bytes", size)
        self.assertIn("pass tensor.contiguous()", strides)
        self.assertIn("rank 0 did not send in time", late)

    def test_expired(self) -> None:
        """A send that ends half-way does not spoil those that follow."""
        sender, receiver = run_ranks(expired, 2)
        self.assertIn("rank 1 did not receive in time", sender)
        self.assertIn("rank 0 gave the message up after", receiver)

    def test_given_up(self) -> None:
        """Both sides of a message that was given up raise."""
        sender, receiver = run_ranks(given_up, 2)
        for text in sender:
            self.assertIn("rank 1 did not receive in time", text)
        self.assertIn("rank 0 gave the message up after", receiver[0])
        self.assertIn("rank 0 did not send in time", receiver[1])

    def test_half_received(self) -> None:
        """A receive that ends half-way loses nothing."""
        self.assertIn("rank 0 did not send in time", run_ranks(half_received, 2)[1])

    def test_out_of_step(self) -> None:
        """A piece that does not continue its message is never stored."""
        sender, receiver = run_ranks(out_of_step, 2)
        self.assertIn("byte 0 of message 1 with 20 bytes came, but byte 0 of message 0", receiver)
        self.assertIn("rank 1 aborted", sender)

    def test_stuck(self) -> None:
        """The end of a group does not wait for ever for its thread, and keeps the memory."""
        (text, seconds), (other, _) = run_ranks(stuck, 2)
        self.assertIn("has not ended after", text)
        self.assertLess(seconds, 20)
        self.assertIn("rank 0 aborted", other)

    def test_watched(self) -> None:
        """monitored_barrier."""
        first, _, third = run_ranks(watched, 3)
        self.assertIn("Rank 1 failed to pass monitoredBarrier in 6000 ms", first)
        self.assertIn("rank 0 did not answer", third)


if __name__ == "__main__":
    unittest.main()
