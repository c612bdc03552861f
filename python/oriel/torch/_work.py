# SPDX-License-Identifier: BSD-3-Clause
"""Work objects, and the line in which the collectives of one group wait for their turn.

The collectives of a comm run in the order of their calls.  An asynchronous call goes to the line's
worker thread.  A synchronous call runs on the thread that makes it if nothing is before it in the
line: a hand-over to another thread costs more than a small collective.
"""
from __future__ import annotations

import queue
import threading
import time
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from oriel._c import fail

_NO_TIMEOUT = timedelta(0)


class Work(dist.Work):
    """The handle of one call: it has finished, failed, or is still in the line."""

    def __init__(self, name: str, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self.name = name
        self.tensors = tensors
        self.source = -1  # of a receive
        self._failure: BaseException | None = None
        self._future: torch.futures.Future | None = None
        self._finished = False
        self._guard = threading.Lock()  # finish() and get_future() meet here
        self._gate = threading.Lock()  # closed until the call has finished
        self._gate.acquire()

    def finish(self, failure: BaseException | None = None) -> None:
        """Mark the call as finished and open the gate for all who wait.  A second call is void."""
        with self._guard:
            if self._finished:
                return
            self._failure = failure
            self._finished = True
            future = self._future
        self._gate.release()
        if future is not None:
            self._settle(future)

    def _settle(self, future: torch.futures.Future) -> None:
        if self._failure is not None:
            future.set_exception(self._failure)
        else:
            future.set_result(self.tensors)

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Wait until the call has finished.  Raises what the call raised, or ORIEL_ETIMEDOUT.

        Without a timeout the wait is bounded by the timeout of the group: every call ends by then.
        """
        if not self._finished:
            self._pass_gate(timeout.total_seconds())
        if self._failure is not None:
            raise self._failure
        return True

    def _pass_gate(self, seconds: float) -> None:
        if not self._gate.acquire(timeout=seconds if seconds > 0 else -1):
            raise fail("ETIMEDOUT", f"{self.name}: wait(): not finished after {seconds} s")
        self._gate.release()

    def synchronize(self) -> None:
        """The same as wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the call has finished, well or not."""
        return self._finished

    def is_success(self) -> bool:
        """Whether the call has finished without an error."""
        return self._finished and self._failure is None

    def exception(self) -> BaseException | None:
        """What the call raised, or None."""
        return self._failure

    def result(self) -> list[torch.Tensor]:
        """The tensors that the call has filled."""
        return self.tensors

    def source_rank(self) -> int:
        """The rank that a receive got its data from."""
        return self.source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        """A future with the tensors of the call as its value."""
        with self._guard:
            if self._future is not None:
                return self._future
            self._future = self._new_future()
            finished = self._finished
        if finished:
            self._settle(self._future)
        return self._future

    def _new_future(self) -> torch.futures.Future:
        return torch.futures.Future()


def _without_gradients(call: Callable[[], Any]) -> None:
    """torch.no_grad() in a fifth of its time, which counts in a call of some microseconds."""
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    try:
        call()
    finally:
        torch._C._set_grad_enabled(before)


def joined(thread: threading.Thread | None, seconds: float) -> bool:
    """Wait for the end of a thread.  True: there is none, it has ended, or this is the thread."""
    if thread is None or thread is threading.current_thread():
        return True
    thread.join(seconds)
    return not thread.is_alive()


class Line:
    """The calls of one group, run one at a time and in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = threading.Lock()  # held by the thread that runs a call
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._count = threading.Lock()
        self._waiting = 0  # calls that the worker has not finished
        self._worker: threading.Thread | None = None
        self._closed = False
        self.calls = 0  # that entered the line

    def run(self, work: Work | None, call: Callable[[], Any], name: str,
            tensors: list[torch.Tensor]) -> Work | None:
        """Run a call: at once if `work` is None and nothing is before it, else on the worker."""
        self.calls += 1
        if work is None and self._waiting == 0 and self._turn.acquire(blocking=False):
            try:
                self._check_open(name)
                _without_gradients(call)
                return None
            finally:
                self._turn.release()
        if work is not None:
            self._hand_over(work, call)
            return work
        waits = Work(name, tensors)
        self._hand_over(waits, call)
        waits.wait()
        return None

    def _hand_over(self, work: Work, call: Callable[[], Any]) -> None:
        with self._count:
            self._check_open(work.name)
            self._waiting += 1
            if self._worker is None:
                self._worker = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._worker.start()
            # Inside the lock: calls of two threads enter the line in the order of this lock.
            self._calls.put((work, call))

    def _check_open(self, name: str) -> None:
        if self._closed:
            raise fail("ESTALE", f"{name}: the process group is shut down")

    def _serve(self) -> None:
        torch.set_grad_enabled(False)  # of this thread
        while True:
            entry = self._calls.get()
            if entry is None:
                return
            self._serve_one(*entry)

    def _serve_one(self, work: Work, call: Callable[[], Any]) -> None:
        failure: BaseException | None = None
        with self._turn:
            try:
                call()
            except BaseException as raised:  # the thread that waits must get every exception
                failure = raised
        with self._count:
            self._waiting -= 1
        work.finish(failure)

    def close(self, seconds: float) -> bool:
        """Refuse further calls and end the worker after those in the line.  May be repeated.

        False: a call still runs after this time.
        """
        until = time.monotonic() + seconds
        with self._count:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        if not joined(self._worker, seconds):
            return False
        # An inline call of another thread may still run.
        if not self._turn.acquire(timeout=max(0.0, until - time.monotonic())):
            return False
        self._turn.release()
        return True
