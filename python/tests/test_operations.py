# SPDX-License-Identifier: BSD-3-Clause
"""Atomics, counters, reads, and what a window gives to kernels."""

import ctypes
import struct
import unittest

import numpy

import oriel
from oriel import _c
from oriel._stream import stream_handle

from . import support
from .test_memory import CudaArray


def atomics(comm: oriel.Comm) -> None:
    """All ranks add to a word of rank 0; swaps and comparisons return what was there."""
    window = oriel.Window(comm, bytes=64)
    before = [window.fetch_add(0, 8, 3) for _ in range(5)]
    assert before == sorted(before) and all(value % 3 == 0 for value in before)
    window.barrier()
    word = numpy.zeros(1, "uint64")
    window.get(0, word, offset=8)
    assert word[0] == 15 * comm.size
    window.barrier()
    right = (comm.rank + 1) % comm.size
    assert window.swap(right, 16, comm.rank + 7) == 0
    assert window.compare_swap(right, 16, 1, 2) == comm.rank + 7
    assert window.compare_swap(right, 16, comm.rank + 7, 2**64 - 1) == comm.rank + 7
    assert window.fetch_add(right, 16, 1) == 2**64 - 1
    old = numpy.full(1, 9, "uint64")
    assert window.fetch_add(right, 16, 5, old) is None and old[0] == 0
    window.barrier()
    for bad in ({"offset": 4}, {"offset": 64}, {"peer": comm.size}, {"peer": 2**33}):
        try:
            window.fetch_add(**{"peer": 0, "offset": 0, "value": 1, **bad})
        except oriel.Error as error:
            assert error.status in (-1, -2), error
        else:
            raise AssertionError(f"accepted {bad}")
    try:
        window.fetch_add(0, 0, 1, numpy.zeros(1, "uint32"))
    except ValueError as error:
        assert "8 are needed" in str(error)
    window.barrier()


def counters(comm: oriel.Comm) -> None:
    """Counters count this rank's own operations; reads do not wait."""
    window = oriel.Window(comm, bytes=64)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for turn in range(1, 4):
        window.put_counter(right, b"12345678", counter=2)
        window.wait_counter(right, 2, turn)
        assert window.read_counter(right, 2) == turn
    assert window.read_counter(None, 2) == 3
    window.wait_counter(None, 2, 3, timeout=5)
    window.reset_counter(right, 2)
    assert window.read_counter(right, 2) == 0
    window.flush()
    window.flush(right)
    window.signal(right, 1, value=4)
    window.wait_signal(left, 1, 4)
    assert window.read_signal(left, 1) == 4 and window.read_signal(None, 1) == 4
    window.signal_advance(left, 1, 3)
    assert window.read_signal(left, 1) == 1
    window.barrier()
    window.reset_signal(1)
    assert window.read_signal(left, 1) == 0
    window.signal_all(3)
    window.wait_signal(None, 3, comm.size - 1)
    assert window.read_signal(None, 3) == comm.size - 1
    window.signal_advance(None, 3, comm.size - 1)
    assert window.read_signal(None, 3) == 0
    window.barrier()
    try:
        window.wait_counter(right, 0, timeout=0.1)
    except oriel.Error as error:
        assert error.name == "ORIEL_ETIMEDOUT", error
    else:
        raise AssertionError("a counter that nobody moved")
    comm.barrier()


def handles(comm: oriel.Comm) -> None:
    """The flat handle and the struct of local memory, as kernels read them."""
    window = oriel.Window(comm, bytes=4096)
    assert window.device_handle == window.device_handle
    handle = _c.oriel_window_dev()
    assert _c.lib.oriel_window_device(window._handle, ctypes.byref(handle)) == 0
    rank, nranks = struct.unpack("=ii", ctypes.string_at(window.device_handle, 8))
    assert (rank, nranks) == (comm.rank, comm.size)
    memory = oriel.empty(100, "int32", comm)
    other = numpy.zeros(10)
    place = window.register_local_buffer(memory)
    assert place == window.register_local_buffer(memory)
    assert place != window.register_local_buffer(other)
    text = ctypes.string_at(place, 32)
    base, size, owner, *keys = struct.unpack("=QQQII", text)
    assert (base, size, owner) == (memory.ctypes.data, 400, window.device_handle)
    assert any(keys) == (comm.nodes > 1), keys
    window.close()
    try:
        window.device_handle
    except oriel.Error as error:
        assert error.name == "ORIEL_ESTALE"
    else:
        raise AssertionError("the handle of a closed window")


def plans(comm: oriel.Comm) -> None:
    """The tuner's plan for kernels that exchange data themselves."""
    guess = comm.alltoallv_plan(65536)
    assert guess.mapped.blocks >= 1 and guess.queued.warps >= 1 and guess.mapped.chunk_bytes
    plan = comm.alltoallv_plan(65536, agree=True)
    assert plan.agreed
    assert len(set(comm.allgather(repr(plan).encode()))) == 1


class CudaStream:
    """A stream by the protocol __cuda_stream__."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


class TorchStream:
    """What torch.cuda.Stream shows."""

    cuda_stream = 0x5500


class Streams(unittest.TestCase):
    def test_handles(self) -> None:
        """On a GPU every form of a stream becomes its handle; 0 is CUDA's default stream."""
        self.assertEqual(stream_handle(0x7000, True), 0x7000)
        self.assertEqual(stream_handle(CudaStream(0x6600), True), 0x6600)
        self.assertEqual(stream_handle(TorchStream(), True), 0x5500)
        self.assertEqual(stream_handle(0, True), 1)
        self.assertEqual(stream_handle(CudaStream(0), True), 1)
        self.assertIsNone(stream_handle(oriel.COMM_STREAM, True))
        self.assertIsNone(stream_handle(None, True))
        self.assertIsNone(stream_handle(0x7000, False), "the CPU has no streams")
        with self.assertRaisesRegex(TypeError, "str is no stream"):
            stream_handle("main", True)

    def test_wrong_device(self) -> None:
        """Memory of a GPU on a comm of the CPU: the error says what to do."""
        comm = oriel.Comm.threads(1)[0]
        with comm, oriel.Window(comm, bytes=64) as window:
            with self.assertRaisesRegex(ValueError, "cuda:0, but the comm is on cpu.*device="):
                window.put(0, CudaArray())


class Operations(unittest.TestCase):
    def test_atomics(self) -> None:
        support.everywhere(atomics)

    def test_counters(self) -> None:
        support.everywhere(counters)

    def test_handles(self) -> None:
        support.everywhere(handles)

    def test_plans(self) -> None:
        support.threads(plans, 3)
        support.processes(plans, 2)

    def test_integers_of_numpy(self) -> None:
        """Arguments may be any integers; what is no integer is refused, and nothing is left."""
        comm = oriel.Comm.threads(1)[0]
        with comm, oriel.Window(comm, bytes=64) as window:
            zero = numpy.int64(0)
            window.put_signal(zero, b"abc", numpy.int32(3), signal=numpy.int8(1))
            window.wait_signal(zero, numpy.int64(1), numpy.uint64(1))
            window.signal(zero, numpy.int16(2))
            window.put(zero, b"x", nbytes=numpy.int64(1))
            got = bytearray(6)
            window.get(zero, got, nbytes=numpy.uint8(6))
            self.assertEqual(bytes(got), b"x\0\0abc")
            for bad in ("a", 1.5, None):
                for call in (
                    lambda bad=bad: window.put(bad, b"x"),
                    lambda bad=bad: window.put(0, b"x", offset=bad),
                    lambda bad=bad: window.get(0, bytearray(1), nbytes=bad or "b"),
                    lambda bad=bad: window.signal(0, bad),
                    lambda bad=bad: window.put_signal(0, b"x", signal=bad),
                ):
                    with self.assertRaises((TypeError, ctypes.ArgumentError)):
                        call()
            self.assertEqual(window._sources, {})


if __name__ == "__main__":
    unittest.main()
