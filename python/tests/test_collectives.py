# SPDX-License-Identifier: BSD-3-Clause
"""All-gather and all-to-all-v: persistent and plain."""

import unittest

import numpy

import oriel

from . import support


def expect_gathered(array: numpy.ndarray, comm: oriel.Comm, turn: int) -> None:
    """Every rank's block has its own value."""
    blocks = array.reshape(comm.size, -1)
    for rank in range(comm.size):
        assert (blocks[rank] == 100 * turn + rank).all(), (rank, turn)


def plain_gather(comm: oriel.Comm) -> None:
    """comm.all_gather: into memory of any kind, and in place."""
    for turn, count in enumerate((1, 7, 5000)):
        recv = numpy.zeros(count * comm.size, "int32")
        comm.all_gather(numpy.full(count, 100 * turn + comm.rank, "int32"), recv)
        expect_gathered(recv, comm, turn)
    recv = oriel.empty((comm.size, 64), "int64", comm)
    window = oriel.Window(comm, recv)
    for turn in range(3):
        recv[comm.rank] = 100 * turn + comm.rank
        comm.all_gather(None, recv)
        expect_gathered(recv, comm, turn)
        window.barrier()
    bad = numpy.zeros(3 * comm.size + 1, "uint8")
    try:
        comm.all_gather(b"abc", bad)
    except ValueError as error:
        assert f"make it {3 * comm.size} bytes" in str(error)
    else:
        raise AssertionError("a receive buffer of the wrong size")


def persistent_gather(comm: oriel.Comm) -> None:
    """oriel.AllGather on a window and on memory; sizes may change."""
    with oriel.Window(comm, bytes=8192 * comm.size) as window:
        for algorithm, policy in (("auto", "no_sms"), ("ring", "fastest")):
            request = oriel.AllGather(comm, window, algorithm=algorithm, policy=policy)
            for turn, count in enumerate((1, 512, 1024)):
                request.exec(numpy.full(count, 100 * turn + comm.rank))
                expect_gathered(window.array(dtype="int64")[: count * comm.size], comm, turn)
                window.barrier()
            assert request.status == 0 and request.explain(4096)
            try:
                window.close()
            except oriel.Error as error:
                assert error.name == "ORIEL_EBUSY"
            else:
                raise AssertionError("a window was closed under its request")
            request.close()
            request.close()
    array = oriel.empty((comm.size, 100), "int32", comm)
    with oriel.AllGather(comm, array) as request:
        array[comm.rank] = 100 + comm.rank
        request.exec(nbytes=400)
        expect_gathered(array, comm, 1)
    with oriel.AllGather(comm, array, offset=0, bytes=40 * comm.size) as request:
        request.exec(numpy.full(10, 500 + comm.rank, "int32"))
        expect_gathered(array.reshape(-1)[: 10 * comm.size], comm, 5)
    left = oriel.AllGather(comm, array)  # the comm closes it
    comm.barrier()
    assert not left.closed


def bad_gather(comm: oriel.Comm) -> None:
    """Bad input of one rank raises on all."""
    last = comm.size - 1
    array = oriel.empty(8 * comm.size, "uint8", comm)
    for bad in ("word", numpy.zeros((4, 4))[:, ::2], numpy.zeros(0)):
        try:
            oriel.AllGather(comm, bad if comm.rank == last else array)
        except (TypeError, ValueError):
            assert comm.rank == last
        except oriel.Error as error:
            assert comm.rank != last and error.rank == last
        else:
            raise AssertionError("accepted")
    try:
        oriel.AllGather(comm, array, algorithm="guess")
    except ValueError as error:
        assert "doubling" in str(error)
    try:
        oriel.AllGather(comm, array, policy="guess")
    except ValueError as error:
        assert "no_sms" in str(error)
    request = oriel.AllGather(comm, array)
    try:
        request.exec(numpy.zeros(9, "uint8"))
    except oriel.Error as error:
        assert error.status < 0
    else:
        raise AssertionError("more than the memory has")
    try:
        request.exec()
    except ValueError as error:
        assert "nbytes" in str(error)
    request.close()
    try:
        request.exec(b"x")
    except oriel.Error as error:
        assert error.name == "ORIEL_ESTALE"


def all_to_all(comm: oriel.Comm) -> None:
    """Rank r sends r + d + 1 elements to rank d, in slots and packed."""
    sizes = numpy.array([comm.rank + peer + 1 for peer in range(comm.size)], "uint64")
    data = numpy.concatenate([numpy.full(n, 1000 * comm.rank + d) for d, n in enumerate(sizes)])
    total = 2 * comm.size * comm.size
    slots = {"slot_bytes": 8 * 2 * comm.size, "mapped": (2, 1, 64)}
    for options in (slots, {"recv_bytes": 8 * total}):
        request = oriel.AllToAllV(comm, send_bytes=8 * total, elem_bytes=8, **options)
        assert "blocks" in request.explain(4096) or request.explain(4096)
        for from_buffer in (False, True):
            got_sizes = numpy.zeros(comm.size, "uint64")
            got_offsets = numpy.zeros(comm.size, "int64")
            if from_buffer:
                request.send_buffer("int64")[: len(data)] = data
            request.exec(
                sizes,
                None if from_buffer else data,
                recv_sizes=got_sizes,
                recv_offsets=got_offsets,
            )
            recv = request.recv_buffer("int64")
            for source in range(comm.size):
                count, at = int(got_sizes[source]), int(got_offsets[source])
                assert count == source + comm.rank + 1
                assert (recv[at : at + count] == 1000 * source + comm.rank).all()
            del recv
        assert request.status == 0
        explained = "options of the request" in request.explain(4096)
        assert explained == ("mapped" in options), request.explain(4096)
        view = request.recv_buffer() if comm.rank == 0 else None
        try:
            request.close()
        except oriel.Error as error:
            assert error.name == "ORIEL_EBUSY", error
        else:
            raise AssertionError("closed under a live array")
        del view
        request.close()


def all_to_all_into(comm: oriel.Comm) -> None:
    """Data arrives in an array of the caller's, which outlives the request."""
    sizes = numpy.arange(1, comm.size + 1, dtype="uint64")  # rank r gets r + 1 elements
    data = numpy.full(int(sizes.sum()), comm.rank)
    table = oriel.empty((comm.size, 16), "int64", comm)
    table[:] = -1
    request = oriel.AllToAllV(comm, slot_bytes=8 * 16, elem_bytes=8, recv=table)
    request.exec(sizes, data)
    view = request.recv_buffer("int64")
    request.close()  # the array over the caller's memory does not hinder it
    assert (view.reshape(comm.size, 16) == table).all()
    for source in range(comm.size):
        assert (table[source, : comm.rank + 1] == source).all()
        assert (table[source, comm.rank + 1 :] == -1).all()
    # one rank's mistake is everybody's
    last = comm.rank == comm.size - 1
    for bad in (table[:, :15].copy(), b"read-only", 5, numpy.zeros(0)):
        try:
            oriel.AllToAllV(comm, slot_bytes=128, recv=bad if last else table)
        except (TypeError, ValueError, oriel.Error) as error:
            assert "recv" in str(error), error
        else:
            raise AssertionError("accepted")


def bad_all_to_all(comm: oriel.Comm) -> None:
    """Sizes beyond the capacity of one rank fail the call on all; the request stays usable."""
    bad = ((1, 1), (0, 1, 64), (1, 1, 65), 5, (1.0, 1, 64), (1 << 32, 1, 64))
    for number, setting in enumerate(bad):
        # the last three on one rank only: all ranks must refuse
        mine = setting if number < 3 or comm.rank == comm.size - 1 else (1, 1, 64)
        try:
            oriel.AllToAllV(comm, slot_bytes=64, queued=mine)
        except (ValueError, oriel.Error) as error:
            assert "queued" in str(error)
        else:
            raise AssertionError("accepted")
    request = oriel.AllToAllV(comm, slot_bytes=16)
    small = numpy.full(comm.size, 4, "uint64")
    big = numpy.full(comm.size, 17, "uint64")
    data = numpy.zeros(64 * comm.size, "uint8")
    try:
        request.exec(big if comm.rank == comm.size - 1 else small, data)
    except oriel.Error as error:
        assert error.name == "ORIEL_ERANGE", error
    else:
        raise AssertionError("accepted")
    request.exec(small, data)
    for bad in (small[:-1], small.astype("int32"), [1] * comm.size):
        try:
            request.exec(bad, data)
        except (TypeError, ValueError):
            continue
        raise AssertionError("accepted")
    try:
        oriel.AllToAllV(comm, slot_bytes=16, recv_bytes=16)
    except oriel.Error as error:
        assert error.status < 0
    comm.barrier()


class Collectives(unittest.TestCase):
    def test_plain_gather(self) -> None:
        support.everywhere(plain_gather)

    def test_persistent_gather(self) -> None:
        support.everywhere(persistent_gather)

    def test_bad_gather(self) -> None:
        support.everywhere(bad_gather)

    def test_all_to_all(self) -> None:
        support.everywhere(all_to_all)

    def test_all_to_all_into(self) -> None:
        support.everywhere(all_to_all_into)

    def test_bad_all_to_all(self) -> None:
        support.everywhere(bad_all_to_all)


if __name__ == "__main__":
    unittest.main()
