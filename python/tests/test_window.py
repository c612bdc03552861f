# SPDX-License-Identifier: BSD-3-Clause
"""Windows: every operation, on every kind of rank and peer."""

import unittest

import numpy

import oriel

from . import support


def ring(comm: oriel.Comm) -> None:
    """Every rank puts to its right neighbour, with each form of source."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with oriel.Window(comm, bytes=8192) as window:
        mine = numpy.arange(512, dtype="int64") + 1000 * comm.rank
        theirs = numpy.arange(512, dtype="int64") + 1000 * left
        window.put_signal(right, mine)
        window.wait_signal(left, value=1)
        assert (window.array(dtype="int64")[:512] == theirs).all()
        window.barrier()
        with window.source(mine) as source:
            for turn in range(2, 10):
                window.put_signal(right, source, offset=4096, nbytes=4096)
                window.wait_signal(left, value=turn)
                assert (window.array(dtype="int64", offset=4096) == theirs).all()
                window.barrier()
            window.put(right, source, offset=8, source_offset=16, nbytes=24)
        window.barrier(1)
        assert (window.array(dtype="int64")[1:4] == theirs[2:5]).all()


def get(comm: oriel.Comm) -> None:
    """Every rank reads from every rank."""
    memory = oriel.empty(100, "int32", comm)
    memory[:] = comm.rank + numpy.arange(100)
    window = oriel.Window(comm, memory)
    window.barrier()
    for peer in range(comm.size):
        got = numpy.zeros(100, "int32")
        window.get(peer, got)
        assert (got == peer + numpy.arange(100)).all()
        some = bytearray(8)
        window.get(peer, some, offset=4 * 7, target_offset=4, nbytes=4)
        assert bytes(some) == bytes(4) + (peer + 7).to_bytes(4, "little")
    window.barrier()
    window.close()


def signals(comm: oriel.Comm) -> None:
    """Sums, values that are set, comparisons, resets."""
    window = oriel.Window(comm, signals=3)
    for peer in range(comm.size):
        window.signal(peer, 0, value=5)
        window.signal(peer, 1, op=oriel.SET, value=comm.rank + 10)
    window.wait_signal(None, 0, value=5 * comm.size, timeout=20)
    for peer in range(comm.size):
        window.wait_signal(peer, 1, value=peer + 10, cmp=oriel.EQ)
        window.wait_signal(peer, 0, value=4, cmp=oriel.GT)
        window.wait_signal(peer, 0, value=6, cmp=oriel.LT)
        window.wait_signal(peer, 0, value=5, cmp=oriel.LE)
        window.wait_signal(peer, 0, value=0, cmp=oriel.NE)
    window.barrier(timeout=20)
    window.close()
    window = oriel.Window(comm)
    for turn in range(3):
        for peer in range(comm.size):
            window.signal(peer)
        window.wait_signal(None, value=comm.size)
        window.barrier()
        window.reset_signals()
        window.barrier()
    assert window.status == 0 and window.nbytes == 0
    window.close()
    assert window.closed


def peers(comm: oriel.Comm) -> None:
    """Arrays over memory of mapped peers; a clear error for queued ones."""
    memory = oriel.empty((4, 8), "float64", comm)
    window = oriel.Window(comm, memory)
    memory[:] = comm.rank
    window.barrier()
    for peer in range(comm.size):
        if comm.peer_kind(peer) == "queued":
            try:
                window.array(peer)
            except oriel.Error as error:
                assert error.name == "ORIEL_EUNSUPPORTED" and "put and get" in str(error)
                assert error.rank == peer
                continue
            raise AssertionError("an array over memory of a queued peer")
        theirs = window.array(peer)
        assert theirs.shape == (4, 8) and (theirs == peer).all()
        del theirs
    window.barrier()
    right = (comm.rank + 1) % comm.size
    if comm.peer_kind(right) in ("mapped", "self"):
        window.array(right)[0, 0] = 100 + comm.rank
        window.signal(right)
    else:
        window.put_signal(right, numpy.array([100.0 + comm.rank]))
    left = (comm.rank - 1) % comm.size
    window.wait_signal(left)
    assert memory[0, 0] == 100 + left
    window.barrier()


class Windows(unittest.TestCase):
    def test_ring(self) -> None:
        support.everywhere(ring)

    def test_get(self) -> None:
        support.everywhere(get)

    def test_signals(self) -> None:
        support.everywhere(signals)

    def test_peers(self) -> None:
        support.everywhere(peers)


if __name__ == "__main__":
    unittest.main()
