# SPDX-License-Identifier: BSD-3-Clause
"""Memory: oriel.empty, which memory of the user is accepted, and how long everything lives."""

import ctypes
import gc
import threading
import unittest
import weakref

import numpy

import oriel
from oriel._describe import describe

from . import support


def mapped(address: int) -> bool:
    """Does the address belong to a mapping of this process?"""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= address < end:
                return True
    return False


def outlive(comm: oriel.Comm) -> None:
    """Arrays of oriel.empty are valid after the comm is closed, and then freed."""
    array = oriel.empty((16, 1024), "int64", comm)
    assert not array.any() and array.flags.c_contiguous and array.flags.writeable
    window = oriel.Window(comm, array)
    window.put((comm.rank + 1) % comm.size, numpy.full(1024, comm.rank + 1))
    window.barrier()
    row = array[3]
    address = array.ctypes.data
    del array
    comm.close()
    assert window.closed and comm.closed
    row[:] = 5  # the memory is still there: a view holds it
    assert (row == 5).all() and mapped(address)
    whole = window.buffer
    assert (whole[0] == (comm.rank - 1) % comm.size + 1).all()
    del row, whole, window
    gc.collect()
    assert not mapped(address)


def outlive_failure(comm: oriel.Comm) -> None:
    """The same if the comm has failed."""
    array = oriel.empty(4096, "uint8", comm)
    array[:] = 7
    comm.barrier()
    comm.abort()
    comm.close()
    assert (array == 7).all()


class Foreign:
    """An object with DLPack alone."""

    def __init__(self, array: numpy.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **arguments: object) -> object:
        return self.array.__dlpack__(**arguments)


class CudaArray:
    """An object that says that it is on a GPU."""

    __cuda_array_interface__ = {
        "shape": (4, 2),
        "typestr": "<f4",
        "data": (0x7F0000000000, False),
        "strides": None,
        "version": 3,
    }


class Describe(unittest.TestCase):
    def test_forms(self) -> None:
        array = numpy.arange(12, dtype="float32").reshape(3, 4)
        region = describe(array)
        self.assertEqual(region[:3], (array.ctypes.data, 48, "cpu"))
        self.assertEqual((region.itemsize, region.writable), (4, True))
        self.assertIs(region.owner, array)
        self.assertEqual(describe(Foreign(array))[:3], (array.ctypes.data, 48, "cpu"))
        self.assertEqual(describe(Foreign(array[1:]))[:2], (array.ctypes.data + 16, 32))
        data = bytearray(b"twelve bytes")
        region = describe(memoryview(data)[2:])
        self.assertEqual(ctypes.string_at(region.address, region.nbytes), b"elve bytes")
        with self.assertRaises(BufferError):
            data.append(0)  # the region holds the bytearray in place
        self.assertFalse(describe(b"constant").writable)
        frozen = numpy.zeros(3)
        frozen.flags.writeable = False
        self.assertFalse(describe(frozen).writable)
        region = describe(CudaArray())
        self.assertEqual(region[:3], (0x7F0000000000, 32, "cuda:0"))

    def test_refused(self) -> None:
        square = numpy.zeros((4, 4))
        for bad in (square[:, :2], square.T[1:], square[::2], Foreign(square[:, 1:])):
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                describe(bad)
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            describe(memoryview(b"abcdef")[::2])
        with self.assertRaisesRegex(TypeError, "object"):
            describe(numpy.array([None, "x"]))
        with self.assertRaisesRegex(TypeError, "numpy array, a torch tensor"):
            describe([1, 2, 3])
        with self.assertRaisesRegex(TypeError, "int has no memory"):
            describe(5)


class Empty(unittest.TestCase):
    def setUp(self) -> None:
        self.comm = oriel.Comm.threads(1)[0]

    def tearDown(self) -> None:
        self.comm.close()

    def test_arrays(self) -> None:
        array = oriel.empty((2, 3), "complex64", comm=self.comm)
        self.assertEqual((array.shape, array.dtype, array.sum()), ((2, 3), "complex64", 0))
        self.assertEqual(oriel.empty(7, numpy.int8, self.comm, like="numpy").shape, (7,))
        self.assertEqual(oriel.empty((), "int32", self.comm).shape, ())

    def test_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "comm="):
            oriel.empty(3)
        with self.assertRaisesRegex(ValueError, "no elements"):
            oriel.empty((3, 0), "int8", self.comm)
        with self.assertRaisesRegex(ValueError, "negative"):
            oriel.empty(-3, "int8", self.comm)
        with self.assertRaisesRegex(ValueError, "like"):
            oriel.empty(3, "int8", self.comm, like="list")
        with self.assertRaises(TypeError):
            oriel.empty(3, "no such type", self.comm)
        with self.assertRaisesRegex(TypeError, "pointers"):
            oriel.empty(3, object, self.comm)
        with self.assertRaises(oriel.Error):
            oriel.empty(2**62, "int8", self.comm)
        self.comm.close()
        with self.assertRaisesRegex(oriel.Error, "closed"):
            oriel.empty(3, "int8", self.comm)

    def test_memory_is_freed(self) -> None:
        """Freed after the last view, at the next call of the comm that may wait."""
        array = oriel.empty(1 << 20, "uint8", self.comm)
        address, part = array.ctypes.data, array[5:9]
        del array
        self.comm.barrier()
        self.assertTrue(mapped(address))
        part[:] = 1
        del part
        self.comm.barrier()
        self.assertFalse(mapped(address))

    def test_a_thousand(self) -> None:
        """Nothing leaks: allocations of arrays that are gone are freed by later ones."""
        for _ in range(1000):
            oriel.empty(1 << 20, "uint8", self.comm)[0] = 1
        self.assertLess(len(self.comm._garbage._handles), 3)


class Lifetimes(unittest.TestCase):
    def test_memory_outlives_comm(self) -> None:
        for ranks in (1, 3):
            support.threads(outlive, ranks)
            support.threads(outlive_failure, ranks)
        support.processes(outlive, 2)
        support.processes(outlive_failure, 2)
        support.processes(outlive, 2, ORIEL_TOPOLOGY="2x1")

    def test_window_holds_buffer(self) -> None:
        """Memory of the user stays while a window exposes it, and goes with the window."""
        for close in ("window", "comm"):
            comm = oriel.Comm.threads(1)[0]
            memory = numpy.zeros(1000)
            gone = weakref.ref(memory)
            window = oriel.Window(comm, memory)
            del memory
            gc.collect()
            self.assertIsNotNone(gone())
            window.put(0, numpy.ones(10))
            self.assertEqual(gone()[9], 1)
            (window if close == "window" else comm).close()
            del window
            self.assertIsNone(gone())
            comm.close()

    def test_source_holds_memory(self) -> None:
        """A freed and reused address is never mistaken: a source's memory is not freed."""
        comm = oriel.Comm.threads(1)[0]
        with comm, oriel.Window(comm, bytes=4096) as window:
            memory = numpy.full(4096, 1, "uint8")
            address, gone = memory.ctypes.data, weakref.ref(memory)
            source = window.source(memory)
            del memory
            gc.collect()
            others = [numpy.full(4096, 2, "uint8") for _ in range(64)]
            self.assertNotIn(address, [other.ctypes.data for other in others])
            window.put(0, source)
            self.assertTrue((window.array() == 1).all())
            source.release()
            source.release()
            self.assertIsNone(gone())
            with self.assertRaisesRegex(oriel.Error, "source was released"):
                window.put(0, source)
            for other in others:  # at an address that was a source before
                window.put(0, other)
            self.assertTrue((window.array() == 2).all())

    def test_source_of_a_closed_window(self) -> None:
        comm = oriel.Comm.threads(1)[0]
        memory = numpy.zeros(8)
        gone = weakref.ref(memory)
        window = oriel.Window(comm, bytes=64)
        source = window.source(memory)
        del memory
        window.close()
        self.assertIsNone(gone())
        source.release()
        with self.assertRaisesRegex(oriel.Error, "closed"):
            window.put(0, source)
        with self.assertRaisesRegex(oriel.Error, "closed"):
            window.source(b"x")
        with self.assertRaisesRegex(oriel.Error, "closed"):
            window.array()
        comm.close()

    def test_peer_arrays(self) -> None:
        support.threads(peer_arrays, 3)
        support.processes(peer_arrays, 3)

    def test_peer_arrays_of_a_failed_comm(self) -> None:
        support.threads(peer_arrays_after_abort, 2)
        support.processes(peer_arrays_after_abort, 2)

    def test_unclosed_comm(self) -> None:
        """A comm that is forgotten warns, does not wait, and its memory stays."""
        comms = oriel.Comm.threads(2)
        buffers = [numpy.zeros(16), numpy.zeros(16)]
        windows = [None, None]

        def make(comm: oriel.Comm) -> None:
            windows[comm.rank] = oriel.Window(comm, buffers[comm.rank])

        workers = [threading.Thread(target=make, args=(comm,)) for comm in comms]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        gone = weakref.ref(buffers.pop())
        with self.assertWarnsRegex(ResourceWarning, "rank 1: a comm was not closed"):
            del comms[1], workers
            windows[1] = None
            gc.collect()
        self.assertIsNotNone(gone())
        windows[0].put(1, numpy.ones(16))
        self.assertEqual(gone()[15], 1)
        comms[0].abort()
        comms[0].close()


def peer_arrays(comm: oriel.Comm) -> None:
    """A window with arrays over memory of peers cannot be closed: all ranks say why."""
    window = oriel.Window(comm, oriel.empty(10, "int32", comm))
    view = window.array((comm.rank + 1) % comm.size)[2:] if comm.rank == 1 else None
    for close in (window.close, comm.close):
        try:
            close()
        except oriel.Error as error:
            assert error.name == "ORIEL_EBUSY", error
            assert error.rank == (None if comm.rank == 1 else 1), (error, error.rank)
            assert "memory of peers" in str(error)
        else:
            raise AssertionError("closed under a live array")
    if view is not None:
        view[:] = 3
    del view
    window.close()


def peer_arrays_after_abort(comm: oriel.Comm) -> None:
    """A failed comm closes at once; arrays over memory of peers stay valid."""
    window = oriel.Window(comm, bytes=4096)
    view = window.array(1 - comm.rank)
    view[:] = 9
    window.barrier()
    comm.abort()
    comm.close()
    assert window.closed and (view == 9).all()


if __name__ == "__main__":
    unittest.main()
