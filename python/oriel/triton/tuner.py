# SPDX-License-Identifier: BSD-3-Clause
"""Plans of the library's tuner for Triton kernels: oriel_alltoallv_plan of coll/alltoallv.h."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Tuple

from .. import _c
from .alltoallv_plan import Setting


class _Setting(ctypes.Structure):
    _fields_ = [("blocks", ctypes.c_uint32), ("warps", ctypes.c_uint32),
                ("chunk_bytes", ctypes.c_uint64)]


class _Plan(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("mapped", _Setting), ("queued", _Setting),
                ("agreed", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


@functools.lru_cache(maxsize=None)
def _function(name: str, *arguments: Any) -> Any:
    try:
        function = getattr(ctypes.CDLL(_c.lib.path), name)
    except AttributeError:
        raise _c.fail("EUNSUPPORTED", f"{_c.lib.path} has no {name}: it is older than this "
                                      "package; install a newer Oriel") from None
    function.restype, function.argtypes = ctypes.c_int, list(arguments)
    return function


def agree(comm: Any) -> None:
    """The ranks agree on the tuner's table. [C]  Only the first call on a comm communicates."""
    function = _function("oriel_alltoallv_plan_agree", ctypes.c_void_p)
    comm._check(function(comm._live("alltoallv")))


def settings(comm: Any, bytes_per_peer: int) -> Tuple[Setting, Setting]:
    """The settings for mapped and for queued peers, of an exchange of this size."""
    function = _function("oriel_alltoallv_plan", ctypes.c_void_p, ctypes.c_uint64,
                         ctypes.POINTER(_Plan))
    plan = _Plan(ctypes.sizeof(_Plan))
    _c.check(function(comm._live("alltoallv"), bytes_per_peer, ctypes.byref(plan)))
    return tuple(Setting(one.blocks, one.warps, one.chunk_bytes)
                 for one in (plan.mapped, plan.queued))
