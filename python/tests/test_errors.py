# SPDX-License-Identifier: BSD-3-Clause
"""Errors: bad input on one rank reaches all ranks, dead and late ranks are named, nothing hangs."""

import os
import pickle
import signal
import time
import unittest

import numpy

import oriel
from oriel._error import Error

from . import support


def raised(call, *arguments, **keywords) -> Exception:
    """The exception of a call that must fail."""
    try:
        call(*arguments, **keywords)
    except (oriel.Error, TypeError, ValueError) as exception:
        return exception
    raise AssertionError(f"{call} did not fail")


def bad_window(comm: oriel.Comm) -> None:
    """The last rank passes bad memory: every rank raises, and the comm stays usable."""
    last = comm.size - 1
    good = oriel.empty(16, "int32", comm)
    bad_ones = [numpy.zeros((4, 8), "int32")[:, ::2], b"read-only", [1, 2], numpy.zeros(0)]
    bad_ones += [numpy.array([None])]
    for bad in bad_ones:
        error = raised(oriel.Window, comm, bad if comm.rank == last else good)
        if comm.rank == last:
            assert isinstance(error, (TypeError, ValueError)), error
        else:
            assert isinstance(error, oriel.Error) and error.rank == last, error
            assert f"rank {last} failed" in str(error) and error.status == -1
    error = raised(oriel.Window, comm, good, bytes=4 if comm.rank == last else 64)
    assert "64 bytes" in str(error), error
    error = raised(oriel.Window, comm, bytes=-1)
    assert "negative" in str(error)
    error = raised(oriel.Window, comm, signals=2**40)
    assert "signals" in str(error)
    # sizes that differ between ranks, which the library finds
    if comm.size > 1:
        error = raised(oriel.Window, comm, bytes=64 if comm.rank == last else 128)
        assert error.name == "ORIEL_EMISMATCH", error
    with oriel.Window(comm, good) as window:
        window.barrier()


def bad_operations(comm: oriel.Comm) -> None:
    """Bad arguments of operations: one clear line, and the window stays usable."""
    window = oriel.Window(comm, bytes=64)
    data = numpy.zeros(100, "uint8")
    assert "rank 9 does not exist" in str(raised(window.put, 9, data[:4]))
    assert "rank 9 does not exist" in str(raised(window.signal, 9))
    assert "does not exist" in str(raised(window.put, 2**32, data[:4]))
    assert "does not exist" in str(raised(window.signal, 0, 2**32))
    assert "does not exist" in str(raised(window.put_signal, 0, data[:4], signal=16))
    assert "byte 100, but the window has 64" in str(raised(window.put, 0, data))
    assert raised(window.put, 0, data[:8], offset=-1).name == "ORIEL_ERANGE"
    assert raised(window.put, 0, data[:8], nbytes=-8).name == "ORIEL_ERANGE"
    assert raised(window.put, 0, data[:8], nbytes=9).name == "ORIEL_ERANGE"
    assert raised(window.put, 0, data[:8], source_offset=9).name == "ORIEL_ERANGE"
    assert raised(window.signal, 0, op=7).name == "ORIEL_EINVAL"
    assert raised(window.wait_signal, 0, cmp=9).name == "ORIEL_EINVAL"
    assert "ORIEL_GE" in str(raised(window.wait_signal, None, cmp=oriel.EQ))
    assert "read-only" in str(raised(window.get, 0, b"constant"))
    with window.source(b"constant") as source:
        assert "read-only" in str(raised(window.get, 0, source))
    assert "contiguous" in str(raised(window.put, 0, data[::2]))
    assert "no memory that Oriel can use" in str(raised(window.put, 0, 17))
    assert raised(window.barrier, 16).name == "ORIEL_ERANGE"
    assert raised(window.wait_signal, 0, timeout=0).name == "ORIEL_EINVAL"
    assert window.status == 0
    assert len(window._sources) == 0, "a refused call leaves no source"
    comm.barrier()
    window.barrier()


def late(comm: oriel.Comm) -> None:
    """A deadline names the rank that did not come."""
    window = oriel.Window(comm, bytes=64)
    error = raised(window.wait_signal, comm.size - 1, timeout=0.2)
    assert error.name == "ORIEL_ETIMEDOUT" and error.rank == comm.size - 1, (error, error.rank)
    comm.barrier()
    if comm.rank != 1:
        start = time.monotonic()
        # Not shorter: another rank may come a second late.
        error = raised(window.barrier, timeout=3)
        assert error.name == "ORIEL_ETIMEDOUT" and error.rank == 1, (error, error.rank)
        assert time.monotonic() - start < 20
        assert window.status == error.status
    comm.barrier()


def aborts(comm: oriel.Comm) -> None:
    """An exception in a block ends the waits of all other ranks."""
    window = oriel.Window(comm, bytes=64)
    window.barrier()
    try:
        with comm:
            if comm.rank == 1:
                raise KeyError("a mistake of the program")
            window.wait_signal(1)
    except KeyError:
        assert comm.rank == 1
    except oriel.Error as error:
        assert comm.rank != 1
        assert error.name == "ORIEL_EABORTED" and error.rank == 1, (error, error.rank)
    else:
        raise AssertionError("nobody noticed")
    assert comm.closed and window.closed


def killed(comm: oriel.Comm) -> None:
    """A rank dies in the middle: the others get its number, and end."""
    window = oriel.Window(comm, bytes=64)
    window.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    calls = [window.barrier, lambda: window.wait_signal(1), comm.barrier]
    calls += [lambda: oriel.Window(comm, bytes=8)]
    error = raised(calls[comm.rank % len(calls)])
    assert error.name == "ORIEL_EPEER" and error.rank == 1, (error, error.rank)
    for call in calls:
        assert raised(call).rank == 1
    assert time.monotonic() - start < 20
    window.close()
    comm.close()
    print(f"rank {comm.rank} survived", flush=True)


class Errors(unittest.TestCase):
    def test_bad_window(self) -> None:
        support.everywhere(bad_window)

    def test_bad_operations(self) -> None:
        support.everywhere(bad_operations)

    def test_late(self) -> None:
        support.threads(late, 3)
        support.processes(late, 3)
        support.processes(late, 2, ORIEL_TOPOLOGY="2x1")

    def test_aborts(self) -> None:
        support.threads(aborts, 3)
        support.processes(aborts, 3)
        support.processes(aborts, 2, ORIEL_TOPOLOGY="2x1")

    def test_killed(self) -> None:
        for ranks, topology in ((4, "1x4"), (4, "2x2"), (8, "1x8")):
            done = support.run_processes(killed, ranks, ORIEL_TOPOLOGY=topology)
            self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stdout)
            self.assertEqual(done.stdout.count("survived"), ranks - 1, done.stdout)

    def test_fork(self) -> None:
        """In a child of fork() the parent's objects are refused and stay intact."""
        comm = oriel.Comm.threads(1)[0]
        array = oriel.empty(8, "int64", comm)
        window = oriel.Window(comm, array)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                window.put(0, b"x")
            except oriel.Error as error:
                status = 0 if error.name == "ORIEL_EUNSUPPORTED" else 2
            del array, window, comm
            os._exit(status)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        window.put(0, numpy.array([5]))
        self.assertEqual(array[0], 5)
        comm.close()

    def test_error_class(self) -> None:
        comm = oriel.Comm.threads(1)[0]
        error = raised(comm.node, 5)
        self.assertIsInstance(error, RuntimeError)
        self.assertEqual((error.status, error.name, error.rank), (-2, "ORIEL_ERANGE", None))
        self.assertIn("rank 5 does not exist", error.cause)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.status, again.cause, str(again)), (-2, error.cause, str(error)))
        comm.close()

    def test_ranks_of_texts(self) -> None:
        """The rank that a text names."""
        texts = {
            "rank 3 died": 3,
            "the comm has failed: rank 12 (pid 4) was killed by signal 9": 12,
            "window 2 has failed: rank 0 gave up waiting for rank 5": 5,
            "oriel_window_create: rank 2 failed: no memory for rank 1": 2,
            "barrier: rank 4 did not come within 3.0 s": 4,
            "no rank at all": None,
        }
        for text, rank in texts.items():
            self.assertEqual(Error(-6, "ORIEL_EPEER", text).rank, rank, text)
        self.assertIsNone(Error(-2, "ORIEL_ERANGE", "put: rank 7 does not exist").rank)


if __name__ == "__main__":
    unittest.main()
