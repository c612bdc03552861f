# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on tensors of one GPU, over a comm on that GPU.

Calls are issued to a stream and return at once.  A synchronous call uses PyTorch's current stream.
An asynchronous one uses a stream of the group's own, which first waits for the current stream; the
work's wait() makes the current stream wait for it.  The calls of a comm run in the order in which
they are issued: where the stream changes, the new one waits for the last call.  While the current
stream is captured into a graph, no call waits for calls outside the graph, or they for it.

The host does not meet the other ranks here.  If ranks make calls of different sizes, the library
refuses them on the GPU, after the call has returned.  The host sees the error once the GPU has
passed the call: in wait(), is_completed(), is_success() or exception() of a work that has passed,
or at the latest in the shutdown of the group.  An error is reported once per rank, to whichever
asks first.  A work whose wait() comes before the GPU has passed the call does not raise it.
"""
from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch

import oriel
from oriel._c import check, error, fail, lib

from . import _native, _reduce
from ._reduce import Op
from ._work import Work

_ALL_SLOTS = 64 << 20
_SLOT_MOST = 16 << 20
_NO_TIMEOUT = timedelta(0)
# How long close() waits for the GPU when the comm has been aborted.
_LAST_KERNEL_S = 5.0
# Comms whose memory a kernel may still use.
_busy: list[oriel.Comm] = []


def _is_captured(stream: torch.cuda.Stream) -> bool:
    """Whether calls on the stream go into a graph at present."""
    with torch.cuda.stream(stream):  # also makes its device current
        return torch.cuda.is_current_stream_capturing()


class CudaWork(Work):
    """A call on a stream.  It has finished for the host when the GPU has passed its event."""

    def __init__(self, name: str, tensors: list[Any], device: torch.device) -> None:
        super().__init__(name, tensors)
        self._device = device
        self._event = torch.cuda.Event()
        self._refusal: Callable[[], oriel.Error | None] | None = None
        self._in_graph = False

    def issued(self, stream: torch.cuda.Stream,
               refusal: Callable[[], oriel.Error | None] | None) -> None:
        """The call is in the stream.  refusal: asks for its error; None for a call of a graph."""
        self._event.record(stream)
        self._stream, self._refusal = stream, refusal
        self._in_graph = refusal is None
        self.finish()

    def _passed(self) -> bool:
        """Whether the GPU has finished the call.  If so, its error is taken, once.

        A call of a graph counts as finished when it is in the graph: only replays run it.
        """
        if not self._finished:
            return False
        if self._in_graph:
            return True
        if _is_captured(torch.cuda.current_stream(self._device)):
            return False  # CUDA allows no question during a capture
        if not self._event.query():
            return False
        refusal, self._refusal = self._refusal, None
        if refusal is not None and self._failure is None:
            self._failure = refusal()
        return True

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Make the current stream wait for the call.  The host does not wait."""
        self._passed()
        super().wait(timeout)
        torch.cuda.current_stream(self._device).wait_event(self._event)
        return True

    def is_completed(self) -> bool:
        """Whether the GPU has finished the call."""
        return self._passed()

    def is_success(self) -> bool:
        """Whether the GPU has finished the call without an error."""
        return self._passed() and self._failure is None

    def exception(self) -> BaseException | None:
        """The error of the call, as far as it is known now."""
        self._passed()
        return self._failure

    def _new_future(self) -> torch.futures.Future:
        return torch.futures.Future(devices=[self._device])

    def _settle(self, future: torch.futures.Future) -> None:
        # The future records the streams that are current now, and its users wait for them.
        with torch.cuda.stream(self._stream):
            super()._settle(future)


class CudaCollectives:
    """The collectives of one group on one GPU."""

    def __init__(self, comm: oriel.Comm, device: torch.device, agree: Callable) -> None:
        self.comm, self.ranks, self.rank, self.device = comm, comm.size, comm.rank, device
        self._agree = agree  # the hosts of the ranks compare their splits; gives the largest
        self._side = torch.cuda.Stream(device)
        self._last: tuple[torch.cuda.Stream, torch.cuda.Event] | None = None
        self._slots: oriel.AllToAllV | None = None
        self._slot = min(_SLOT_MOST, _ALL_SLOTS // comm.size)

    def issue(self, action: Callable[[Any], None], work: CudaWork | None,
              tensors: Sequence[torch.Tensor]) -> CudaWork | None:
        """Issue a call: to the current stream, or to the group's own if there is a work object."""
        current = torch.cuda.current_stream(self.device)
        captured = _is_captured(current)
        stream = current if work is None else self._side
        if work is not None:
            stream.wait_stream(current)
        elif captured and _is_captured(self._side):
            stream.wait_stream(self._side)  # an asynchronous call of the same graph
        # An event of a graph means nothing outside of it, and CUDA refuses to wait for one.
        if not captured and self._last is not None and self._last[0] != stream:
            stream.wait_event(self._last[1])
        with torch.no_grad(), torch.cuda.device(self.device), torch.cuda.stream(stream):
            action(self)
        if not captured:
            self._last = (stream, stream.record_event())
        if work is not None:
            for tensor in tensors:
                tensor.record_stream(stream)
            work.issued(stream, None if captured else self.refusal)
        return work

    def refusal(self) -> oriel.Error | None:
        """The first error on the GPU since the last question, of any call of the comm."""
        if self.comm.closed:  # the shutdown has asked
            return None
        # Not PyTorch's stream: the comm's own one is idle, so nothing is waited for.
        status = lib.oriel_comm_sync(self.comm._live("wait"), None)
        return error(status) if status else None

    def _idle_within(self, seconds: float) -> bool:
        """Wait for all work on the GPU.  False: it goes on after this time.

        CUDA has no such wait with a limit, so a thread waits, and stays behind in the worst case.
        """
        failures: list[BaseException] = []

        def wait() -> None:
            try:
                torch.cuda.synchronize(self.device)
            except BaseException as failure:  # of a kernel of the program
                failures.append(failure)

        thread = threading.Thread(target=wait, name="oriel-synchronize", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # a program that ends starts no threads
            return self._passed_within(seconds)
        thread.join(seconds)
        if failures:
            raise failures[0]
        return not thread.is_alive()

    def _passed_within(self, seconds: float) -> bool:
        """Wait for the last call outside of graphs.  False: it runs after this time."""
        until = time.monotonic() + seconds
        while self._last is not None and not self._last[1].query():
            if time.monotonic() > until:
                return False
            time.sleep(1e-3)
        return True

    def _stream(self) -> int | None:
        return self.comm._stream(None)

    # ---- blocks of all ranks ----

    def all_gather_flat(self, out: torch.Tensor, tensor: torch.Tensor) -> None:
        """Every rank gets the tensors of all ranks in one tensor."""
        if tensor.nbytes:
            check(lib.oriel_allgather(self.comm._live("all_gather"), tensor.data_ptr(),
                                      out.data_ptr(), tensor.nbytes, 1, self._stream()))

    def _rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensors of all ranks, one row each."""
        rows = tensor.new_empty(self.ranks, tensor.numel())
        self.all_gather_flat(rows, tensor)
        return rows

    def all_gather(self, outs: Sequence[torch.Tensor], tensor: torch.Tensor) -> None:
        """The same into a list."""
        for out, row in zip(outs, self._rows(tensor)):
            out.copy_(row.view_as(out))

    def gather(self, outs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> None:
        """The root gets the tensors of all ranks."""
        self.all_gather(outs, tensor)

    # ---- reductions ----

    def all_reduce(self, tensor: torch.Tensor, op: Op) -> None:
        """Every rank gets the reduction over all ranks."""
        self._reduce(tensor, op, tensor.view(-1))

    def reduce(self, tensor: torch.Tensor, root: int, op: Op) -> None:
        """The root gets it; other ranks keep their tensors."""
        keep = self.rank == root
        self._reduce(tensor, op, tensor.view(-1) if keep else torch.empty_like(tensor).view(-1))

    def _reduce(self, tensor: torch.Tensor, op: Op, out: torch.Tensor) -> None:
        mine = self._scaled(tensor, op)
        if not out.numel():
            return
        if not _native.all_reduce(self.comm, mine, out, op, self._stream()):
            _reduce.reduce_rows(self._rows(mine), op, out)
        _reduce.after(out, op, self.ranks)

    def _scaled(self, tensor: torch.Tensor, op: Op) -> torch.Tensor:
        if isinstance(op.factor, torch.Tensor) and op.factor.is_cuda:
            # The caller may drop the factor as soon as the call is issued.
            op.factor.record_stream(torch.cuda.current_stream(self.device))
        return _reduce.before(tensor, op)

    def reduce_scatter(self, out: torch.Tensor, tensor: torch.Tensor, op: Op) -> None:
        """Rank r gets the reduction of all ranks' r-th parts."""
        mine, flat = self._scaled(tensor, op), out.view(-1)
        if not out.numel():
            return
        if not _native.reduce_scatter(self.comm, mine, flat, op, self._stream()):
            rows = self._rows(mine).view(self.ranks, self.ranks, -1)
            _reduce.reduce_rows(rows[:, self.rank].contiguous(), op, flat)
        _reduce.after(flat, op, self.ranks)

    # ---- one root ----

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        """Every rank gets the root's tensor."""
        if not tensor.nbytes:
            return
        if not _native.broadcast(self.comm, tensor, root, self._stream()):
            tensor.copy_(self._rows(tensor)[root].view_as(tensor))

    def scatter(self, out: torch.Tensor, parts: Sequence[torch.Tensor], root: int) -> None:
        """Rank r gets the r-th of the root's parts."""
        packed = out.new_empty(self.ranks, out.numel())
        if self.rank == root:
            torch.cat([part.reshape(-1) for part in parts], out=packed.view(-1))
        self.broadcast(packed, root)
        out.copy_(packed[self.rank].view_as(out))

    # ---- every pair ----

    def all_to_all(self, out: torch.Tensor, tensor: torch.Tensor, arrive: Sequence[int],
                   leave: Sequence[int]) -> None:
        """Sends leave[r] elements to rank r and gets arrive[r] from it, packed in rank order."""
        item = tensor.itemsize
        # All ranks must make the same number of rounds, and only all splits tell how many.
        largest = self._agree(tensor.dtype, arrive, leave) * item
        source = tensor.reshape(-1).view(torch.uint8)
        target = out.view(-1).view(torch.uint8)
        for start in range(0, largest, self._slot):
            self._round(source, target, [n * item for n in leave], [n * item for n in arrive],
                        start)

    def _round(self, source: torch.Tensor, target: torch.Tensor, leave: list[int],
               arrive: list[int], start: int) -> None:
        """One exchange of at most a slot per pair.  The pieces are packed in the send buffer."""
        if self._slots is None:
            self._slots = oriel.AllToAllV(self.comm, slot_bytes=self._slot)
        request, slot = self._slots, self._slot
        pieces, position = [], 0
        for count in leave:
            size = max(0, min(slot, count - start))
            pieces.append(source[position + start:position + start + size])
            position += count
        sizes = torch.tensor([len(piece) for piece in pieces], dtype=torch.int64,
                             device=self.device)
        packed = request.send_buffer(torch.uint8)
        torch.cat(pieces, out=packed[:sum(map(len, pieces))])
        request.exec(sizes)
        came, position = request.recv_buffer(torch.uint8), 0
        step = (len(came) - slot) // (self.ranks - 1) if self.ranks > 1 else 0
        for rank, count in enumerate(arrive):
            size = max(0, min(slot, count - start))
            target[position + start:position + start + size] = came[rank * step:rank * step + size]
            position += count

    def close(self, seconds: float) -> None:
        """Wait for the GPU and end the comm.  Raises an error that nobody has asked for. [C]

        If the GPU is still busy after this time, the comm is aborted, which ends the waits of its
        kernels.  If the GPU is busy even then, the comm stays: kernels may still use its memory.
        """
        if not self._idle_within(seconds):
            if not self.comm.status:
                self.comm.abort()
            if not self._idle_within(_LAST_KERNEL_S):
                _busy.append(self.comm)
                raise fail("ETIMEDOUT", f"destroy_process_group: {self.device} is still busy after "
                           f"{seconds + _LAST_KERNEL_S:.0f} s: a kernel of the program does not "
                           "end; the memory of the group stays")
        refused = self.refusal()
        self.comm.close()
        if refused is not None:
            raise refused
