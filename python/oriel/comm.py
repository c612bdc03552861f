# SPDX-License-Identifier: BSD-3-Clause
"""Comm: a group of ranks, with their device, memory and failure state.

A comm holds the windows, requests and buffers made on it until they are closed, because closing one
is a matter of all ranks.  Comm.close() closes what is left, newest first, so every order is safe.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import warnings
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from . import _boot, _c
from ._c import CONSTANTS, check, error, fail, lib
from ._stream import stream_handle
from .memory import Garbage, region_for

WORLD = CONSTANTS["ORIEL_WORLD"]
NODE = CONSTANTS["ORIEL_NODE"]
_PEER_KINDS = {0: "none", 1: "self", 2: "mapped", 3: "queued"}
_CONNECT = {None: 0, "all": CONSTANTS["ORIEL_CONNECT_ALL"], "none": CONSTANTS["ORIEL_CONNECT_NONE"]}

_numbers = itertools.count(1)
# What a rank says about its bad input: a status, and the text.
_PROBLEM_BYTES = 252
_PROBLEM = struct.Struct(f"=i{_PROBLEM_BYTES}s")

# Comms that were never closed.  Peers may still store to their memory, so it must stay.
_unclosed: list[Any] = []


class Setting(NamedTuple):
    """How work for peers of one kind is divided among the threads of the device."""

    blocks: int  # for each peer of this kind
    warps: int  # of a block; CPU: threads of a block
    chunk_bytes: int  # of one copy or put


class AllToAllVPlan(NamedTuple):
    """The plan of an all-to-all-v: see Comm.alltoallv_plan()."""

    mapped: Setting  # for mapped peers and this rank itself
    queued: Setting
    agreed: bool  # all ranks have the same table


class Comm:
    """A group of ranks.  Make one with from_env(), from_id(), threads(), from_group(), ...

    Calls marked [C] are collective: all ranks make them, in the same order.  If such a call fails
    on one rank, all ranks raise an oriel.Error that names the rank and the cause.

    As a context manager, a comm is closed at the end of the block.  If the block ends with an
    exception, the comm is aborted first, so that no other rank waits for this one.

    Options of all constructors:
        device: "cpu", "cuda" or "cuda:1"; None: ORIEL_DEVICE, else "cpu".
        topology: "2x4" or a list of node ids, to emulate nodes; None: ORIEL_TOPOLOGY.
        timeout: seconds until a wait fails; None: ORIEL_TIMEOUT.
        connect: "all" or "none", the queued peers that get queues now; None: ORIEL_CONNECT.
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        raise TypeError("make a comm with Comm.from_env(), Comm.from_id(), Comm.threads(), ...")

    @classmethod
    def _over(cls, handle: int, device: str, callbacks: Any = None) -> Comm:
        comm = object.__new__(cls)
        comm._handle = handle
        comm._garbage = Garbage()
        comm._children = {}
        comm._callbacks = callbacks
        comm._views = set()
        comm._kept = {}
        comm.rank = check(lib.oriel_comm_rank(handle))
        comm.size = check(lib.oriel_comm_size(handle))
        comm.device = device
        comm._on_gpu = device != "cpu"
        return comm

    _handle: int | None
    _garbage: Garbage
    _children: dict[int, Any]  # open windows, requests, buffers, in the order they were made
    _views: set[int]  # ids of the owners of arrays over memory of peers and requests
    _kept: dict[Any, Any]  # what other modules keep for the comm until it is closed
    rank: int
    """This process's or thread's rank in the comm."""
    size: int
    """The number of ranks."""
    device: str
    """ "cpu", or "cuda:N"."""

    # ---- making ----------------------------------------------------------------------------------

    @classmethod
    def from_env(cls, **options: Any) -> Comm:
        """The ranks that a launcher started: oriel-run, torchrun, mpirun, srun; or one rank. [C]

        If torch.distributed is initialised, MASTER_PORT belongs to its store.  Then the ranks meet
        through its default group.
        """
        group = _boot.initialised_group()
        if group is not None:
            return cls.from_group(group, **options)
        return cls._create(_boot.env_boot(), options)

    @classmethod
    def from_id(cls, id: bytes, rank: int, nranks: int, **options: Any) -> Comm:
        """Joins the ranks that have the same id of oriel.make_id(). [C]"""
        return cls._create(_boot.id_boot(id, rank, nranks), options)

    @classmethod
    def from_store(cls, store: Any, rank: int, nranks: int, **options: Any) -> Comm:
        """The ranks agree on an id through a torch store (TCPStore, FileStore, ...). [C]"""
        return cls.from_id(_boot.store_id(store, rank), rank, nranks, **options)

    @classmethod
    def from_group(cls, group: Any = None, **options: Any) -> Comm:
        """The ranks of a torch.distributed group; None is the default group. [C]"""
        import torch.distributed as dist

        group = dist.group.WORLD if group is None else group
        boot_id = _boot.group_id(group)
        return cls.from_id(boot_id, dist.get_rank(group), dist.get_world_size(group), **options)

    @classmethod
    def from_callbacks(
        cls,
        allgather: Callable[[bytes], Sequence[bytes]],
        rank: int,
        nranks: int,
        abort: Callable[[int], None] | None = None,
        **options: Any,
    ) -> Comm:
        """The ranks exchange small records through a runtime of the program. [C]

        allgather(mine) returns the bytes of every rank, in rank order.  It may raise; then the call
        that needed it fails, with that exception as its cause.  abort(why) tells the other ranks
        that this one gives up.
        """
        boot, callbacks = _boot.callback_boot(allgather, abort, rank, nranks)
        return cls._create(boot, options, callbacks)

    @classmethod
    def threads(cls, nranks: int, **options: Any) -> list[Comm]:
        """One comm per rank, for nranks threads of this process: element r is for rank r."""
        boots = _boot.thread_boots(nranks)
        calls = [lambda boot=boot: cls._create(boot, options) for boot in boots]
        return _boot.on_threads(calls)

    @classmethod
    def _create(cls, boot: int, options: dict[str, Any], callbacks: Any = None) -> Comm:
        handle = ctypes.c_void_p()
        try:
            c_options = _comm_options(**options)
            status = lib.oriel_comm_create(boot, ctypes.byref(c_options), ctypes.byref(handle))
            if status:
                raised = error(status)
                raise raised from (callbacks.raised if callbacks else None)
        finally:
            lib.oriel_boot_destroy(boot)
        return cls._over(handle.value or 0, _device_name(options.get("device")), callbacks)

    # ---- questions -------------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """The number of nodes: sets of ranks in which every pair is mapped."""
        return check(lib.oriel_comm_nodes(self._live("nodes")))

    def node(self, rank: int) -> int:
        """The node of a rank."""
        return check(lib.oriel_comm_node(self._live("node"), rank))

    def node_rank(self, rank: int) -> int:
        """The rank's place in its node."""
        return check(lib.oriel_comm_node_rank(self._live("node_rank"), rank))

    def node_size(self, rank: int) -> int:
        """The number of ranks in the node of a rank."""
        return check(lib.oriel_comm_node_size(self._live("node_size"), rank))

    def peer_kind(self, rank: int) -> str:
        """How a rank is reached: "self", "mapped", "queued", or "none" (not connected yet)."""
        return _PEER_KINDS[check(lib.oriel_comm_peer_kind(self._live("peer_kind"), rank))]

    def peer_reason(self, rank: int) -> str:
        """Why the rank is reached in this way."""
        reason = lib.oriel_comm_peer_reason(self._live("peer_reason"), rank)
        if reason is None:
            raise error(_c.STATUSES["ERANGE"])
        return reason.decode()

    @property
    def engine(self) -> str:
        """One line about the engine of this rank's queues; "none" without queued peers."""
        text = ctypes.create_string_buffer(512)
        check(lib.oriel_comm_engine(self._live("engine"), text, len(text)))
        return text.value.decode()

    @property
    def status(self) -> int:
        """The comm's first failure, or 0.  Does not raise."""
        return lib.oriel_comm_status(self._live("status"))

    @property
    def closed(self) -> bool:
        """Has close() been called?"""
        return self._handle is None

    # ---- ranks together --------------------------------------------------------------------------

    def barrier(self, scope: int = WORLD) -> None:
        """All ranks meet (scope=oriel.NODE: those of this node). [C]"""
        self._check(lib.oriel_comm_barrier(self._live("barrier"), scope))
        self._garbage.free()

    def allgather(self, mine: Any, scope: int = WORLD) -> Any:
        """Small host data of every rank, in rank order; the same size on all ranks. [C]

        bytes give a list of bytes.  A numpy array gives an array with one more dimension in front.
        Up to 16 MiB per rank; all_gather() moves more, and memory of a GPU.
        """
        ranks = self.size if scope != NODE else self.node_size(self.rank)
        if hasattr(mine, "__array_interface__"):
            return self._gather_array(mine, scope, ranks)
        mine = bytes(mine)
        everything = ctypes.create_string_buffer(max(1, len(mine) * ranks))
        self._gather(mine, everything, len(mine), scope)
        raw = everything.raw
        return [raw[r * len(mine) : (r + 1) * len(mine)] for r in range(ranks)]

    def _gather_array(self, mine: Any, scope: int, ranks: int) -> Any:
        import numpy

        mine = numpy.ascontiguousarray(mine)
        if mine.dtype.hasobject:
            raise TypeError("allgather: dtype object: its elements are pointers of this process")
        everything = numpy.empty((ranks, *mine.shape), mine.dtype)
        self._gather(mine.ctypes.data, everything.ctypes.data, mine.nbytes, scope)
        return everything

    def _gather(self, mine: Any, everything: Any, nbytes: int, scope: int) -> None:
        handle = self._live("allgather")
        self._check(lib.oriel_comm_allgather(handle, scope, mine, everything, nbytes))

    def split(self, color: int, key: int = 0) -> Comm | None:
        """Ranks with the same colour form a comm, ordered by key; None for colour < 0. [C]"""
        sub = ctypes.c_void_p()
        self._check(lib.oriel_comm_split(self._live("split"), color, key, ctypes.byref(sub)))
        return self._over(sub.value, self.device, self._callbacks) if sub.value else None

    def subset(self, ranks: Iterable[int], tag: int = 0) -> Comm:
        """The given ranks form a comm, in this order.  Only they make the call, all alike. [C]"""
        wanted = list(ranks)
        array = (ctypes.c_int * max(1, len(wanted)))(*wanted)
        sub = ctypes.c_void_p()
        handle = self._live("subset")
        self._check(lib.oriel_comm_subset(handle, array, len(wanted), tag, ctypes.byref(sub)))
        return self._over(sub.value, self.device, self._callbacks)

    def shrink(self) -> Comm:
        """After a death: the ranks that live form a comm, in their old order.  They all call it.

        Close the old comm afterwards.  See docs/restart.md.
        """
        sub = ctypes.c_void_p()
        self._check(lib.oriel_comm_shrink(self._live("shrink"), ctypes.byref(sub)))
        return self._over(sub.value, self.device, self._callbacks)

    def connect(self, ranks: Iterable[int] = ()) -> None:
        """Makes queues to the given ranks (connect="none").  Each rank passes its own list. [C]"""
        wanted = list(ranks)
        array = (ctypes.c_int * max(1, len(wanted)))(*wanted)
        self._check(lib.oriel_comm_connect(self._live("connect"), array, len(wanted)))

    def abort(self, why: int = _c.STATUSES["EABORTED"]) -> None:
        """Ends every wait on every rank with ORIEL_EABORTED.  `why` is a negative status."""
        check(lib.oriel_comm_abort(self._live("abort"), why))

    def sync(self, stream: Any = None) -> None:
        """Waits until the stream's work is finished; raises the first failure of its kernels."""
        self._check(lib.oriel_comm_sync(self._live("sync"), self._stream(stream)))
        for child in list(self._children.values()):
            child._synced()
        self._garbage.free()

    def all_gather(self, send: Any, recv: Any, stream: Any = None) -> None:
        """Stores every rank's `send` in every rank's `recv`, in rank order. [C]

        send=None: this rank's block already lies at its place in recv.  It is fastest if a window
        covers recv.
        """
        target = region_for(self, recv, "all_gather: recv", write=True)
        nbytes, address = target.nbytes // self.size, None
        if send is not None:
            source = region_for(self, send, "all_gather: send")
            nbytes, address = source.nbytes, source.address
        if nbytes * self.size != target.nbytes:
            raise ValueError(
                f"all_gather: recv has {target.nbytes} bytes, but {self.size} ranks send "
                f"{nbytes} bytes each: make it {self.size * nbytes} bytes"
            )
        handle = self._live("all_gather")
        stream = self._stream(stream)
        self._check(lib.oriel_allgather(handle, address, target.address, nbytes, 1, stream))

    def alltoallv_plan(self, bytes_per_peer: int, agree: bool = False) -> AllToAllVPlan:
        """How an all-to-all-v of that size divides its work, for kernels that do so themselves.

        agree=True: the ranks agree on a table first [C]; then all of them get the same plan.
        """
        handle = self._live("alltoallv_plan")
        if agree:
            self._check(lib.oriel_alltoallv_plan_agree(handle))
        plan = _c.oriel_alltoallv_plan_info(ctypes.sizeof(_c.oriel_alltoallv_plan_info))
        check(lib.oriel_alltoallv_plan(handle, bytes_per_peer, ctypes.byref(plan)))
        settings = [
            Setting(part.blocks, part.warps, part.chunk_bytes)
            for part in (plan.mapped, plan.queued)
        ]
        return AllToAllVPlan(*settings, bool(plan.agreed))

    # ---- ending ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes what was made on the comm, newest first, then the comm. [C]

        Arrays of oriel.empty() stay valid.  Arrays over memory of peers must be gone: otherwise all
        ranks raise ORIEL_EBUSY, and the comm stays open.  A failed comm is closed without waiting
        for other ranks; if such arrays are left, it stays in memory for their sake.
        """
        if self._handle is None:
            return
        for number in sorted(self._children, reverse=True):
            child = self._children.get(number)
            if child is not None:
                child.close()
        self._kept.clear()
        if self._failed() and self._views:
            _unclosed.append(self._handle)
            self._handle = None
            return
        self._garbage.free()
        status = lib.oriel_comm_destroy(self._handle)
        if status == _c.STATUSES["EBUSY"]:
            raise error(status)
        self._handle = None
        raised = error(status) if status else None
        self._garbage.end()
        if raised:
            raise raised

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> None:
        if kind is None or self._handle is None:
            self.close()
            return
        # The exception of the block is what the caller must see.
        lib.oriel_comm_abort(self._handle, _c.STATUSES["EABORTED"])
        try:
            self.close()
        except _c.Error:
            pass

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            # Closing would wait for the other ranks.  What they may store to stays.
            _unclosed.append([child._owners() for child in self._children.values()])
            warnings.warn(
                f"rank {self.rank}: a comm was not closed: call close() on all ranks, or use "
                "'with'",
                ResourceWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        if self._handle is None:
            return "<oriel.Comm, closed>"
        return f"<oriel.Comm rank {self.rank} of {self.size} on {self.device}>"

    # ---- for the other modules -------------------------------------------------------------------

    def _live(self, call: str) -> int:
        """The handle, or an error that says that the comm is closed."""
        if self._handle is None:
            raise fail("ESTALE", f"{call}: the comm is closed")
        return self._handle

    def _check(self, status: int) -> int:
        """check() for calls that may run callbacks: their exception is the cause."""
        if status < 0:
            raised = error(status)
            raise raised from (self._callbacks.raised if self._callbacks else None)
        return status

    def _failed(self) -> bool:
        return self._handle is not None and lib.oriel_comm_status(self._handle) != 0

    def _agree(self, call: str, problem: Exception | None) -> None:
        """A round in which a rank with bad input tells all others.  All ranks raise, or none."""
        status, text = 0, ""
        if problem is not None:
            status = getattr(problem, "status", _c.STATUSES["EINVAL"])
            text = str(problem) or type(problem).__name__
        record = _PROBLEM.pack(status, text.encode()[:_PROBLEM_BYTES])
        others = [_PROBLEM.unpack(other) for other in self.allgather(record)]
        if problem is not None:
            raise problem
        for rank, (status, cause) in enumerate(others):
            if status:
                cause = cause.rstrip(b"\0").decode(errors="replace")
                name = lib.oriel_status_name(status).decode()
                raise _c.Error(status, name, f"{call}: rank {rank} failed: {cause}", rank)

    def _adopt(self, child: Any) -> int:
        """Holds a window, request or buffer until it is closed.  Returns its number."""
        number = next(_numbers)
        self._children[number] = child
        return number

    def _stream(self, stream: Any) -> int | None:
        return stream_handle(stream, self._on_gpu, self.device)

    def _pointer(self, stream: Any) -> ctypes.c_void_p:
        """The stream for calls whose arguments are not declared."""
        return ctypes.c_void_p(stream_handle(stream, self._on_gpu, self.device))


def _comm_options(
    device: str | None = None,
    topology: str | None = None,
    timeout: float | None = None,
    connect: str | None = None,
) -> _c.oriel_comm_options:
    if connect not in _CONNECT:
        raise ValueError(f'connect={connect!r}: must be "all", "none" or None')
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: must be a number of seconds above 0, or None")
    return _c.oriel_comm_options(
        ctypes.sizeof(_c.oriel_comm_options),
        device.encode() if device else None,
        topology.encode() if topology else None,
        float(timeout or 0),
        _CONNECT[connect],
        0,
    )


def _device_name(asked: str | None) -> str:
    """The device that the library has chosen, with its number."""
    name = asked or os.environ.get("ORIEL_DEVICE") or "cpu"
    if name != "cuda":
        return name
    # As src/device/cuda/device.c: the ranks of a host use its GPUs in turn.
    for variable in (
        "LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "SLURM_LOCALID",
    ):
        text = os.environ.get(variable)
        if text:
            return f"cuda:{int(text) % _gpus()}"
    return "cuda:0"


def _gpus() -> int:
    """The number of GPUs that this process sees."""
    count = ctypes.c_int()
    driver = ctypes.CDLL(os.environ.get("ORIEL_CUDA_LIBRARY") or "libcuda.so.1")
    if driver.cuDeviceGetCount(ctypes.byref(count)) or count.value < 1:
        raise fail("EDEVICE", "the CUDA driver does not say how many GPUs there are")
    return count.value
