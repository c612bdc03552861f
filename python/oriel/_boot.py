# SPDX-License-Identifier: BSD-3-Clause
"""How ranks find each other: the five ways to a boot of the C library.

A boot is a handle that Comm turns into a comm and then destroys.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from typing import Any, Callable, Sequence

from . import _c
from ._c import check, error, lib

ID_BYTES = 128
AllGatherCallback = Callable[[bytes], Sequence[bytes]]


def make_id() -> bytes:
    """An id for Comm.from_id.  One process makes it and sends it to all others by any means."""
    made = _c.oriel_boot_id()
    check(lib.oriel_boot_make_id(ctypes.byref(made)))
    return bytes(made.bytes)


def env_boot() -> int:
    """The boot that the launcher's environment describes."""
    boot = ctypes.c_void_p()
    check(lib.oriel_boot_env(ctypes.byref(boot)))
    return boot.value or 0


def id_boot(boot_id: bytes, rank: int, nranks: int) -> int:
    """Joins the ranks that have the same id."""
    if len(boot_id) != ID_BYTES:
        raise ValueError(f"id: {len(boot_id)} bytes; oriel.make_id() makes one of {ID_BYTES}")
    joined = _c.oriel_boot_id.from_buffer_copy(boot_id)
    boot = ctypes.c_void_p()
    check(lib.oriel_boot_join(ctypes.byref(joined), rank, nranks, ctypes.byref(boot)))
    return boot.value or 0


def thread_boots(nranks: int) -> list[int]:
    """One boot per thread rank."""
    if nranks < 1:
        raise ValueError(f"{nranks} ranks: at least 1 is needed")
    boots = (ctypes.c_void_p * nranks)()
    check(lib.oriel_boot_threads(nranks, boots))
    return [boot or 0 for boot in boots]


# ---- callbacks -----------------------------------------------------------------------------------


class _Callbacks:
    """What one rank of Comm.from_callbacks gave, and the exception that its callback raised."""

    def __init__(
        self, allgather: AllGatherCallback, abort: Callable[[int], None] | None, nranks: int
    ) -> None:
        self.allgather = allgather
        self.abort = abort
        self.nranks = nranks
        self.raised: BaseException | None = None


# The C library holds three functions for ever, so these never end.  Their context is a number.
_callbacks: dict[int, _Callbacks] = {}
_numbers = itertools.count(1)


@_c.BOOT_ALLGATHER
def _on_allgather(number: int, mine: int, everything: int, nbytes: int) -> int:
    callbacks = _callbacks[number]
    try:
        parts = list(callbacks.allgather(ctypes.string_at(mine, nbytes) if nbytes else b""))
        if len(parts) != callbacks.nranks or any(len(part) != nbytes for part in parts):
            lengths = [len(part) for part in parts]
            raise ValueError(
                f"allgather returned parts of {lengths} bytes, not {callbacks.nranks} of {nbytes}"
            )
        ctypes.memmove(everything, b"".join(bytes(part) for part in parts), len(parts) * nbytes)
    except BaseException as raised:  # nothing may pass through C
        callbacks.raised = raised
        return -1
    return 0


@_c.BOOT_ABORT
def _on_abort(number: int, why: int) -> None:
    callbacks = _callbacks[number]
    try:
        if callbacks.abort is not None:
            callbacks.abort(why)
    except BaseException as raised:
        callbacks.raised = raised


@_c.BOOT_DESTROY
def _on_destroy(number: int) -> None:
    _callbacks.pop(number, None)


def callback_boot(
    allgather: AllGatherCallback, abort: Callable[[int], None] | None, rank: int, nranks: int
) -> tuple[int, _Callbacks]:
    """A boot whose rounds are calls of `allgather`."""
    if not callable(allgather):
        raise TypeError("allgather: must be a function from bytes to a list of bytes, one per rank")
    number = next(_numbers)
    callbacks = _Callbacks(allgather, abort, nranks)
    _callbacks[number] = callbacks
    ops = _c.oriel_boot_ops(
        ctypes.sizeof(_c.oriel_boot_ops), _on_allgather, _on_abort, _on_destroy
    )
    boot = ctypes.c_void_p()
    status = lib.oriel_boot_user(ctypes.byref(ops), number, rank, nranks, ctypes.byref(boot))
    if status:
        raised = error(status)
        _callbacks.pop(number, None)
        raise raised
    return boot.value or 0, callbacks


# ---- torch ---------------------------------------------------------------------------------------


def initialised_group() -> Any:
    """torch.distributed's default group if the program has made it, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    return distributed.group.WORLD if distributed.is_initialized() else None


def store_id(store: Any, rank: int) -> bytes:
    """Rank 0's id, by way of a torch store.  The n-th call of every rank uses the n-th key."""
    turn = store.add(f"oriel/turn/{rank}", 1)
    key = f"oriel/id/{turn}"
    if rank == 0:
        boot_id = make_id()
        store.set(key, boot_id.hex())
        return boot_id
    return bytes.fromhex(store.get(key).decode())


def group_id(group: Any) -> bytes:
    """Group rank 0's id, by a broadcast in the torch group."""
    import torch.distributed as dist

    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError("from_group: this process is not a member of the group")
    made: list[Any] = [make_id() if rank == 0 else None]
    dist.broadcast_object_list(made, src=dist.get_global_rank(group, 0), group=group)
    return made[0]


# ---- thread ranks --------------------------------------------------------------------------------


def on_threads(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Makes collective calls of thread ranks at the same time.  Raises the first exception."""
    results: list[Any] = [None] * len(calls)
    raised: list[BaseException] = []

    def make(index: int) -> None:
        try:
            results[index] = calls[index]()
        except BaseException as exception:
            raised.append(exception)

    threads = [threading.Thread(target=make, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return results
