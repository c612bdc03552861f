# SPDX-License-Identifier: BSD-3-Clause
"""Comms: every way to make one, questions, splits, small collectives."""

import threading
import unittest

import numpy

import oriel

from . import support


def questions(comm: oriel.Comm) -> None:
    """Queries agree with each other."""
    assert 0 <= comm.rank < comm.size and comm.device == "cpu" and comm.status == 0
    sizes = [comm.node_size(rank) for rank in range(comm.size)]
    assert sum(1 / size for size in sizes) == comm.nodes
    for rank in range(comm.size):
        kind = comm.peer_kind(rank)
        assert kind == "self" if rank == comm.rank else kind in ("mapped", "queued")
        assert (kind == "queued") == (comm.node(rank) != comm.node(comm.rank))
        assert comm.peer_reason(rank) and 0 <= comm.node_rank(rank) < comm.node_size(rank)
    assert comm.engine.startswith("none" if comm.nodes == 1 else "soft")
    assert repr(comm.rank) in repr(comm)


def gathers(comm: oriel.Comm) -> None:
    """allgather of bytes and arrays, in the world and in a node."""
    assert comm.allgather(b"r%d" % comm.rank) == [b"r%d" % r for r in range(comm.size)]
    assert comm.allgather(b"") == [b""] * comm.size
    big = bytes([comm.rank]) * 100000
    assert comm.allgather(big) == [bytes([r]) * 100000 for r in range(comm.size)]
    table = comm.allgather(numpy.full((2, 3), comm.rank, "int16"))
    assert table.shape == (comm.size, 2, 3)
    assert (table[:, 1, 2] == numpy.arange(comm.size)).all()
    mates = [r for r in range(comm.size) if comm.node(r) == comm.node(comm.rank)]
    assert comm.allgather(bytes([comm.rank]), oriel.NODE) == [bytes([r]) for r in mates]
    comm.barrier(oriel.NODE)
    comm.barrier()


def splits(comm: oriel.Comm) -> None:
    """Sub-comms with their own windows; a rank that joins none."""
    half = comm.split(comm.rank % 2, key=-comm.rank)
    assert half.size == (comm.size + 1 - comm.rank % 2) // 2
    members = [r for r in range(comm.size) if r % 2 == comm.rank % 2]
    assert half.rank == members[::-1].index(comm.rank)
    window = oriel.Window(half, bytes=64)
    window.signal((half.rank + 1) % half.size)
    window.wait_signal((half.rank - 1) % half.size)
    half.close()
    assert window.closed
    none = comm.split(-1 if comm.rank == 0 else 7)
    assert (none is None) == (comm.rank == 0)
    if none is not None:
        none.close()
    ends = [comm.size - 1, 0] if comm.size > 1 else [0]
    if comm.rank in ends:  # the other ranks take no part
        both = comm.subset(ends, tag=3)
        assert (both.size, both.rank) == (len(ends), ends.index(comm.rank))
        both.close()


def connects(comm: oriel.Comm) -> None:
    """Queues only to the peers that a rank asks for."""
    right = (comm.rank + 1) % comm.size
    comm.connect([right])
    window = oriel.Window(comm, bytes=64)
    window.put_signal(right, b"abc")
    window.wait_signal((comm.rank - 1) % comm.size)
    assert bytes(window.array()[:3]) == b"abc"
    comm.barrier()


class Comms(unittest.TestCase):
    def test_questions(self) -> None:
        support.everywhere(questions)

    def test_gathers(self) -> None:
        support.everywhere(gathers)

    def test_splits(self) -> None:
        support.everywhere(splits)

    def test_connects(self) -> None:
        support.threads(connects, 4, topology="4x1", connect="none")
        support.processes(connects, 4, ORIEL_TOPOLOGY="4x1", ORIEL_CONNECT="0")

    def test_ids(self) -> None:
        """Threads that join by an id."""
        boot_id = oriel.make_id()
        self.assertEqual(len(boot_id), 128)
        comms: list = [None] * 3

        def join(rank: int) -> None:
            comms[rank] = oriel.Comm.from_id(boot_id, rank, 3, timeout=20)

        workers = [threading.Thread(target=join, args=(rank,)) for rank in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        support.on_threads(gathers, comms)

    def test_callbacks(self) -> None:
        """Ranks that exchange their records through the program."""
        meeting = threading.Barrier(3)
        table: list = [b""] * 3
        comms: list = [None] * 3

        def make(rank: int) -> None:
            def allgather(mine: bytes) -> list:
                table[rank] = mine
                meeting.wait(20)
                everything = list(table)
                meeting.wait(20)
                return everything

            comms[rank] = oriel.Comm.from_callbacks(allgather, rank, 3, timeout=20)

        workers = [threading.Thread(target=make, args=(rank,)) for rank in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        support.on_threads(gathers, comms)
        from oriel import _boot

        self.assertEqual(_boot._callbacks, {})

    def test_callback_that_raises(self) -> None:
        """The exception of a callback is the cause of the call's error."""

        def allgather(mine: bytes) -> list:
            raise KeyError("the runtime is gone")

        with self.assertRaises(oriel.Error) as caught:
            oriel.Comm.from_callbacks(allgather, 0, 2, timeout=5)
        self.assertIsInstance(caught.exception.__cause__, KeyError)

        with self.assertRaises(oriel.Error) as caught:
            oriel.Comm.from_callbacks(lambda mine: [mine, mine + b"x"], 0, 2, timeout=5)
        self.assertIn("not 2 of", str(caught.exception.__cause__))

    def test_bad_arguments(self) -> None:
        with self.assertRaises(TypeError):
            oriel.Comm()
        with self.assertRaises(ValueError):
            oriel.Comm.threads(0)
        with self.assertRaisesRegex(ValueError, "128"):
            oriel.Comm.from_id(b"short", 0, 1)
        with self.assertRaisesRegex(ValueError, "connect"):
            oriel.Comm.threads(1, connect="some")
        with self.assertRaisesRegex(ValueError, "timeout"):
            oriel.Comm.threads(1, timeout=-1)
        with self.assertRaisesRegex(oriel.Error, "device"):
            oriel.Comm.threads(1, device="abacus")
        with self.assertRaises(TypeError):
            oriel.Comm.threads(1, colour="red")
        with self.assertRaises(TypeError):
            oriel.Comm.from_callbacks(None, 0, 1)
        comm = oriel.Comm.threads(1)[0]
        with comm:
            with self.assertRaisesRegex(oriel.Error, "rank 1 does not exist"):
                comm.node(1)
            with self.assertRaisesRegex(oriel.Error, "rank 1 does not exist"):
                comm.peer_reason(1)
            with self.assertRaisesRegex(TypeError, "object"):
                comm.allgather(numpy.array([None]))
        with self.assertRaisesRegex(oriel.Error, "closed"):
            comm.barrier()
        comm.close()


if __name__ == "__main__":
    unittest.main()
