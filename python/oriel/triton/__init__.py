# SPDX-License-Identifier: BSD-3-Clause
"""Window calls for Triton kernels: oriel/device.h with scalar arguments.

    import oriel.triton as ot

    @triton.jit
    def ring(win, src, right, left, n, status):
        err = ot.put_signal(win, right, 0, src, 0, n, 0, ot.ADD, 1)
        if err == 0:
            err = ot.wait_signal_from(win, left, 0, ot.GE, 1)
        tl.store(status, err)

    ring[(1,)](window.device_handle, source, ..., extern_libs=ot.extern_libs())

win is window.device_handle, src is what window.register_local_buffer() returned.  The whole block
makes each call once.  docs/triton.md has the rules and a table of the calls.
"""

from __future__ import annotations

try:
    import triton as _triton
except ImportError as error:
    raise ImportError(
        "oriel.triton needs Triton 3.6 or later: pip install triton"
    ) from error

if tuple(int(part) for part in _triton.__version__.split(".")[:2]) < (3, 6):
    raise ImportError(f"oriel.triton needs Triton 3.6 or later; this is {_triton.__version__}")

from ._extern import CALLS  # noqa: E402
from .bitcode import extern_libs, library  # noqa: E402
from .coll import (  # noqa: E402
    AND,
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    MAX,
    MIN,
    OR,
    PRODUCT,
    SUM,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    XOR,
    coll_allgather,
    coll_allreduce,
    coll_alltoall,
    coll_broadcast,
    coll_reducescatter,
    team_nranks,
    team_rank,
)
from .data import (  # noqa: E402
    compare_swap,
    fetch_add,
    get,
    get_nbi,
    get_value,
    packet_recv,
    packet_send,
    put,
    put_chunked,
    put_counter,
    put_signal,
    put_signal_counter,
    put_value,
    put_warp,
    recv,
    self_copy,
    send,
    swap,
)
from .mapped import (  # noqa: E402
    mapped_begin,
    mapped_fail,
    mapped_put_add,
    mapped_tell,
    mapped_wait,
)
from .words import (  # noqa: E402
    ADD,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    PEER_MAPPED,
    PEER_NONE,
    PEER_QUEUED,
    PEER_SELF,
    SET,
    barrier,
    barrier_arrive,
    barrier_arrive_wait,
    barrier_peer,
    barrier_wait,
    base,
    fail_window,
    failure_parts,
    fence,
    flush,
    flush_all,
    grid_sync,
    mapped_address,
    nranks,
    peer_kind,
    rank,
    read_counter,
    read_signal,
    read_signal_from,
    reset_counter,
    reset_signal,
    signal,
    signal_advance,
    signal_advance_from,
    signal_all,
    size,
    wait_counter,
    wait_counter_all,
    wait_signal,
    wait_signal_from,
    window_failure,
    window_status,
)

__all__ = sorted(CALLS) + [
    "ADD",
    "AND",
    "BFLOAT16",
    "EQ",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "GE",
    "GT",
    "INT16",
    "INT32",
    "INT64",
    "INT8",
    "LE",
    "LT",
    "MAX",
    "MIN",
    "NE",
    "OR",
    "PEER_MAPPED",
    "PEER_NONE",
    "PEER_QUEUED",
    "PEER_SELF",
    "PRODUCT",
    "SET",
    "SUM",
    "UINT16",
    "UINT32",
    "UINT64",
    "UINT8",
    "XOR",
    "extern_libs",
    "failure_parts",
    "library",
]
