# SPDX-License-Identifier: BSD-3-Clause
"""The process group "oriel": its comms, its life, and its messages.

PyTorch calls a group from Python (torch.distributed) and from C++ (data-parallel training).  Both
find the methods by their names.
"""
from __future__ import annotations

import atexit
import functools
import sys
import time
import weakref
from datetime import timedelta
from typing import Any, Sequence

import torch
import torch.distributed as dist

import oriel
from oriel._c import fail

from ._arguments import one_tensor
from ._calls import Calls
from ._cpu import CpuCollectives
from ._cuda import CudaCollectives
from ._message_work import MessageWork, checked_tensor
from ._message import ANY
from ._messages import Messages
from ._split import split
from ._work import Line, Work

# How long a rank that shuts down waits for its own calls, and then for the other ranks.  After that
# it ends the group for all.
_FAREWELL_S = 30.0
# How long it waits for the call that runs when the comm has been aborted.
_LAST_CALL_S = 5.0
# Tags of monitored_barrier.  Tags of programs are not negative.
_HELLO, _WELCOME = -2, -3

_groups: weakref.WeakSet = weakref.WeakSet()
# Comms whose memory a thread may still use.
_left: list[oriel.Comm] = []


def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    """Make a group.  torch.distributed calls this in init_process_group and new_group. [C]"""
    return ProcessGroup(store, rank, size, timeout)


class ProcessGroup(Calls):
    """The ranks of one group, over comms of their own.  comm: the first of them, if it is there."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta,
                 comm: oriel.Comm | None = None) -> None:
        super().__init__(rank, size)
        self._group_name = self._group_desc = ""
        self._store, self._rank, self._size = store, rank, size
        self._seconds = timeout.total_seconds()
        self._is_split, self._splits = comm is not None, 0
        self._comm = comm or oriel.Comm.from_store(store, rank, size, device="cpu",
                                                   timeout=self._seconds)
        # Not later: a message may be the first call, and only two ranks make it.
        self._messages = Messages(self._comm)
        self._cpu = CpuCollectives(self._comm)
        self._cuda: dict[torch.device, CudaCollectives] = {}
        self._line = Line(f"oriel-{rank}")
        self._open = True
        _groups.add(self)

    # ---- what torch.distributed asks a group ----

    def getBackendName(self) -> str:  # noqa: N802 (name of PyTorch)
        """The name under which the backend is registered."""
        return "oriel"

    name = _get_backend_name = getBackendName

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """The number of ranks of the group."""
        return self._size

    getRank, getSize = rank, size  # noqa: N815 (names of PyTorch)

    # PyTorch's own group asks its backends for these, but this group is its own backend.
    def getGroupName(self) -> str:  # noqa: N802
        """The name by which PyTorch finds the group."""
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Set the name of the group."""
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """The description that the creator of the group gave."""
        return self._group_desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        """Set the description of the group."""
        self._group_desc = desc

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        # While PyTorch creates a group, it attaches its flight recorder to groups that name
        # devices.  The recorder needs a backend in C++, which this group does not have.  But
        # split_group() needs the devices of a group that it creates.
        creates = self not in dist.distributed_c10d._world.pg_map
        if creates and not (self._is_split and sys._getframe(1).f_code.co_name == "split_group"):
            return []
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        return self

    supports_splitting = True
    supports_coalescing = False

    def comm_split_count(self) -> int:
        """How often the group was split.  PyTorch makes descriptions of groups from it."""
        return self._splits

    def split_group(self, ranks: Sequence[int], timeout: timedelta | None = None, opts: Any = None,
                    group_name: str | None = None, group_desc: str | None = None,
                    device_types: Any = None) -> ProcessGroup | None:
        """The group of these ranks of this group; None if this rank is not one of them. [C]

        All ranks of this group make the call, each with the list of its own part.  Collectives on
        the CPU keep the timeout of this group; messages and GPUs have the new one.
        """
        found: list[oriel.Comm | None] = []
        # In the line: a call before it may still be creating windows on the comm.
        self._line.run(None, lambda: found.append(split(self._comm, ranks)), "split_group", [])
        name = group_name or f"{self._group_name}:split:{self._splits}:{ranks[0]}"
        self._splits += 1
        comm = found[0]
        if comm is None:
            return None
        group = ProcessGroup(dist.PrefixStore(f"{name}/", self._store), comm.rank, comm.size,
                             timeout or timedelta(seconds=self._seconds), comm)
        group.setGroupName(name)
        group.setGroupDesc(group_desc or "")
        return group

    def get_group_store(self) -> dist.Store:
        """The store through which the ranks found each other."""
        return self._store

    def _get_sequence_number_for_group(self) -> int:
        return self._line.calls

    def _set_sequence_number_for_group(self) -> None:
        """The line counts its calls from the start, so there is nothing to agree on."""

    def set_timeout(self, timeout: timedelta) -> None:
        """The timeout of messages that are posted from now on.  Collectives keep theirs."""
        self._seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _on(self, name: str, tensor: torch.Tensor | None) -> Any:
        if tensor is None or tensor.device.type == "cpu":
            return self._cpu
        if tensor.is_cuda:
            return self._cuda.get(tensor.device) or self._start_cuda(tensor.device)
        raise fail("EUNSUPPORTED", f"{name}: tensors on {tensor.device} are not supported: move "
                   "them to the CPU or to CUDA")

    def _start_cuda(self, device: torch.device) -> CudaCollectives:
        """The first collective on a GPU makes a comm on it.  All ranks come here together."""
        name = f"cuda:{device.index}"
        comm = oriel.Comm.from_store(self._store, self._rank, self._size, device=name,
                                     timeout=self._seconds)
        self._cuda[device] = CudaCollectives(comm, device, self._largest_split)
        return self._cuda[device]

    def _largest_split(self, *splits: Any) -> int:
        found: list[int] = []
        self._line.run(None, lambda: found.append(self._cpu.largest_split(*splits)), "all_to_all",
                       [])
        return found[0]

    # ---- messages ----

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        """Send a tensor to a rank.  The work ends when the tensor may be written again."""
        return self._post("send to", tensors, peer, tag)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        """Receive a tensor from a rank."""
        return self._post("recv from", tensors, peer, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receive a tensor from whichever rank sends it.  source_rank() of the work tells which."""
        return self._post("recv from", tensors, ANY, tag)

    recvAnysource = recv_anysource  # noqa: N815 (name of PyTorch)

    def _post(self, what: str, tensors: Any, peer: int, tag: int,
              seconds: float | None = None) -> MessageWork:
        tensor = checked_tensor(what, one_tensor(tensors))
        if peer != ANY and not 0 <= peer < self._size:
            raise ValueError(f"{what} rank {peer}: ranks are 0 to {self._size - 1}")
        if peer == self._rank:
            raise ValueError(f"{what} rank {peer}: this is the rank itself")
        deadline = time.monotonic() + (self._seconds if seconds is None else seconds)
        return MessageWork(self._messages, what, tensor, peer, tag, deadline)

    def monitored_barrier(self, timeout: timedelta | None = None,
                          wait_all_ranks: bool = False) -> None:
        """A barrier in which rank 0 waits for every rank and names those that do not come."""
        seconds = self._seconds if timeout is None else timeout.total_seconds()
        deadline, ms = time.monotonic() + seconds, round(1000 * seconds)
        token = torch.zeros(1)
        if self._rank:
            self._post("send to", token, 0, _HELLO, seconds).wait()
            self._await_rank_0(seconds, ms)
            return
        hellos = [self._post("recv from", torch.zeros(1), rank, _HELLO, seconds)
                  for rank in range(1, self._size)]
        late = []
        for rank, hello in enumerate(hellos, 1):
            if not hello.within(deadline):
                late.append(rank)
                if not wait_all_ranks:
                    break
        if late:
            names = ("Rank " if len(late) == 1 else "Ranks ") + ", ".join(map(str, late))
            raise fail("ETIMEDOUT", f"monitored_barrier: {names} failed to pass monitoredBarrier "
                       f"in {ms} ms", late[0])
        for rank in range(1, self._size):
            self._post("send to", token, rank, _WELCOME, seconds).wait()

    def _await_rank_0(self, seconds: float, ms: int) -> None:
        welcome = self._post("recv from", torch.zeros(1), 0, _WELCOME, seconds)
        if not welcome.within(time.monotonic() + seconds):
            raise fail("ETIMEDOUT", f"monitored_barrier: rank {self._rank} passed "
                       f"monitoredBarrier, but rank 0 did not answer in {ms} ms: another rank did "
                       "not come, see the error of rank 0", 0)

    # ---- the end ----

    def shutdown(self) -> None:
        """Finish what is in the line, wait for the other ranks to do the same, and end the group.

        Each of the two waits ends after 30 s (or the group's timeout).  Then the group is aborted.
        """
        if not self._open:
            return
        self._open = False
        limit = min(self._seconds, _FAREWELL_S)
        together = self._line.close(limit) and self._messages.say_goodbye(limit)
        self._end(abort=not together)

    def abort(self) -> None:
        """End the group at once: all pending calls of all ranks fail."""
        if not self._open:
            return
        self._open = False
        self._end(abort=True)

    def _end(self, abort: bool) -> None:
        if abort and not self._comm.status:
            self._comm.abort()
        quiet = self._line.close(_LAST_CALL_S)
        quiet = self._messages.close(_LAST_CALL_S) and quiet
        _groups.discard(self)
        failures = []
        limit = _LAST_CALL_S if abort else min(self._seconds, _FAREWELL_S)
        endings = [functools.partial(self._end_cuda, on, abort, limit)
                   for on in self._cuda.values()]
        for end in (*endings, self._comm.close if quiet else self._leave):
            try:
                end()
            except RuntimeError as failure:  # what is left is closed all the same
                failures.append(failure)
        if failures and not abort:
            raise failures[0]

    @staticmethod
    def _end_cuda(on: CudaCollectives, abort: bool, limit: float) -> None:
        if abort and not on.comm.status:
            on.comm.abort()
        on.close(limit)

    def _leave(self) -> None:
        """A thread is still inside a call of the comm, so its memory must stay."""
        _left.append(self._comm)
        if not self._comm.status:
            self._comm.abort()
        raise fail("ETIMEDOUT", f"destroy_process_group: a call of rank {self._rank} has not ended "
                   f"after {_LAST_CALL_S:.0f} s: the memory of the group stays")


@atexit.register
def _shut_down_all() -> None:
    """A program may end without destroy_process_group: its last calls still reach all ranks."""
    failures = []
    for group in list(_groups):
        try:
            group.shutdown()
        except oriel.Error as failure:  # the other groups still end in order
            failures.append(failure)
    if failures:
        raise failures[0]  # Python prints it
