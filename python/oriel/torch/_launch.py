# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed under launchers that PyTorch does not know: mpirun, srun, oriel-run.

PyTorch itself needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.  Here the ranks meet as those of
oriel.Comm.from_env() do.  They agree on a store, and PyTorch meets through it.
"""
from __future__ import annotations

import socket
import struct
from datetime import timedelta
from typing import Any

import torch.distributed as dist

import oriel
from oriel._c import fail

_SECONDS = 60.0  # for the ranks to find the store
_PLACE = struct.Struct("<H254s")  # port and host


def init_process_group(backend: str = "oriel", timeout: timedelta | None = None,
                       **options: Any) -> None:
    """torch.distributed.init_process_group() under any launcher that oriel.Comm.from_env() knows.

    backend, timeout and options are those of PyTorch's function, without init_method, store, rank
    and world_size. [C]
    """
    known = {"init_method", "store", "rank", "world_size"} & options.keys()
    if known:
        raise ValueError(f"init_process_group: {sorted(known)[0]} comes from the launcher: leave "
                         "it out, or call torch.distributed.init_process_group()")
    if dist.is_initialized():
        raise fail("EINVAL", "init_process_group: torch.distributed is already initialised")
    with oriel.Comm.from_env(device="cpu") as comm:
        store, rank, size = _shared_store(comm), comm.rank, comm.size
        comm.barrier()  # the store has all its users
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout,
                            **options)


def _shared_store(comm: oriel.Comm) -> dist.Store:
    """A store at rank 0 that all ranks use. [C]"""
    store, place, problem = None, b"", None
    try:
        if comm.rank == 0:
            store = dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=_SECONDS),
                                  wait_for_workers=False)
            place = _PLACE.pack(store.port, socket.getfqdn().encode()[:254])
    except Exception as raised:  # any: it must reach the other ranks
        problem = raised
    comm._agree("init_process_group", problem)
    port, host = _PLACE.unpack(comm.allgather(place.ljust(_PLACE.size, b"\0"))[0])
    hosts = comm.allgather(socket.gethostname().encode()[:64].ljust(64, b"\0"))
    try:
        if store is None:
            near = hosts[0] == hosts[comm.rank]
            address = "127.0.0.1" if near else host.rstrip(b"\0").decode()
            store = dist.TCPStore(address, port, None, False, timedelta(seconds=_SECONDS))
    except Exception as raised:
        problem = raised
    comm._agree("init_process_group", problem)
    return store
