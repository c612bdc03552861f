# SPDX-License-Identifier: BSD-3-Clause
"""The host's part of collectives on a GPU, with streams and events that only keep notes.

It needs no GPU: tests/gpu/torch_rank.py runs the collectives themselves.
"""
from __future__ import annotations

import contextlib
import threading
import unittest
from types import SimpleNamespace
from typing import Any, Iterator
from unittest import mock

from .torch_ranks import raised, torch

from oriel._c import fail  # after torch_ranks, which skips the tests without torch
from oriel.torch import _cuda


class Stream:
    """Notes what it waits for, and can be captured."""

    def __init__(self, name: str) -> None:
        self.name, self.waits, self.captured = name, [], False

    def wait_stream(self, other: Stream) -> None:
        """A stream that joins one that is captured is captured too."""
        self.waits.append(other.name)
        self.captured = self.captured or other.captured

    def wait_event(self, event: Event) -> None:
        """CUDA refuses this for events outside the graph, and for events of a graph outside it."""
        assert event.captured == self.captured, "an event of another graph, or of none"
        self.waits.append("event")

    def record_event(self) -> Event:
        """An event after what was issued."""
        event = Event()
        event.record(self)
        return event


class Event:
    """Passes when the test says so."""

    def __init__(self) -> None:
        self.passed, self.captured = False, False

    def record(self, stream: Stream) -> None:
        """Belongs to the graph of its stream."""
        self.captured = stream.captured

    def query(self) -> bool:
        """CUDA refuses this for events of a graph."""
        assert not self.captured
        return self.passed


@contextlib.contextmanager
def fake_gpu() -> Iterator[tuple[_cuda.CudaCollectives, Stream, Stream]]:
    """Collectives over noted streams: the current one, and that of the group."""
    current, side = Stream("current"), Stream("side")
    fakes = {"Event": Event, "Stream": lambda device: side,
             "current_stream": lambda device: current,
             "stream": lambda stream: contextlib.nullcontext(),
             "device": lambda device: contextlib.nullcontext()}
    with contextlib.ExitStack() as stack:
        for name, fake in fakes.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, fake))
        stack.enter_context(mock.patch.object(_cuda, "_is_captured", lambda s: s.captured))
        comm = SimpleNamespace(size=2, rank=0, closed=False, status=0)
        yield _cuda.CudaCollectives(comm, torch.device("cuda:0"), None), current, side


def work_of(on: _cuda.CudaCollectives) -> _cuda.CudaWork:
    """An asynchronous call that does nothing."""
    return on.issue(lambda _: None, _cuda.CudaWork("all_reduce", [], on.device), [])


class CudaHost(unittest.TestCase):
    """Order of streams, graphs, and errors that come after the call."""

    def test_order(self) -> None:
        """Where the stream changes, the new one waits for the last call."""
        with fake_gpu() as (on, current, side):
            work_of(on)
            on.issue(lambda _: None, None, [])
            self.assertEqual((side.waits, current.waits), (["current"], ["event"]))

    def test_capture(self) -> None:
        """Calls of a graph and calls outside of it do not wait for each other."""
        with fake_gpu() as (on, current, side):
            work_of(on)
            before = on._last
            current.captured = True
            on.issue(lambda _: None, None, [])
            self.assertEqual(current.waits, [])
            work = work_of(on)
            on.issue(lambda _: None, None, [])
            self.assertEqual(current.waits, ["side"])  # both are in the graph
            self.assertTrue(work.is_completed() and work.wait())
            self.assertIs(on._last, before)

    def test_refusal(self) -> None:
        """The error is seen when the event has passed, and then by every question."""
        errors: list[Any] = [fail("EMISMATCH", "all_reduce: ranks have 4 and 5 elements")]
        with fake_gpu() as (on, _, _), mock.patch.object(
                _cuda.CudaCollectives, "refusal", lambda _: errors.pop() if errors else None):
            refused, good = work_of(on), work_of(on)
            self.assertTrue(refused.wait() and not refused.is_completed())
            refused._event.passed = good._event.passed = True
            self.assertTrue(refused.is_completed())
            self.assertFalse(refused.is_success())
            for _ in range(2):
                self.assertIn("4 and 5 elements", str(raised(refused.wait)))
            self.assertTrue(good.wait() and good.is_success())

    def test_close_with_a_busy_gpu(self) -> None:
        """The wait for the GPU has an end: an abort helps, or the comm stays."""
        for helps in (True, False):
            ends, closed = threading.Event(), []
            with self.subTest(abort_helps=helps), fake_gpu() as (on, _, _), mock.patch.object(
                    torch.cuda, "synchronize", lambda device: ends.wait(60)), mock.patch.object(
                    _cuda, "_LAST_KERNEL_S", 0.2), mock.patch.object(
                    _cuda.CudaCollectives, "refusal", lambda _: None):
                on.comm.abort = ends.set if helps else lambda: None
                on.comm.close = lambda: closed.append(True)
                error = raised(lambda: on.close(0.2))
            self.assertEqual(closed, [True] if helps else [])
            self.assertEqual("cuda:0 is still busy" in str(error), not helps)
            self.assertEqual(on.comm in _cuda._busy, not helps)
            ends.set()

    def test_close_at_the_end_of_the_program(self) -> None:
        """Python starts no thread then: the last call is waited for, within the limit."""
        def no_thread(_: threading.Thread) -> None:
            raise RuntimeError("can't create new thread at interpreter shutdown")

        for passed in (True, False):
            closed: list[bool] = []
            with self.subTest(passed=passed), fake_gpu() as (on, _, _), mock.patch.object(
                    threading.Thread, "start", no_thread), mock.patch.object(
                    _cuda, "_LAST_KERNEL_S", 0.1), mock.patch.object(
                    _cuda.CudaCollectives, "refusal", lambda _: None):
                on.comm.abort, on.comm.close = lambda: None, lambda: closed.append(True)
                on.issue(lambda _: None, None, [])
                on._last[1].passed = passed
                error = raised(lambda: on.close(0.1))
            self.assertEqual((closed, error is None), ([True] if passed else [], passed))

    def test_close_after_a_bad_kernel(self) -> None:
        """What the wait for the GPU raises comes to the caller."""
        def fails(device: torch.device) -> None:
            raise RuntimeError("device-side assert")

        with fake_gpu() as (on, _, _), mock.patch.object(torch.cuda, "synchronize", fails):
            self.assertIn("device-side assert", str(raised(lambda: on.close(1))))


if __name__ == "__main__":
    unittest.main()
