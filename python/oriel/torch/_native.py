# SPDX-License-Identifier: BSD-3-Clause
"""The library's own broadcast, all-reduce and reduce-scatter, for tensors of any device.

Each call returns False, and does nothing, if the library has no such call for these elements.
"""
from __future__ import annotations

import torch

import oriel
from oriel import _c
from oriel._c import check, lib

from . import _reduce
from ._reduce import Op

# ORIEL_TYPE_*.  Truth values are bytes of 0 or 1, which MIN and MAX keep.
_TYPES = {torch.int8: 1, torch.uint8: 2, torch.int16: 3, torch.uint16: 4, torch.int32: 5,
          torch.uint32: 6, torch.int64: 7, torch.uint64: 8, torch.float16: 9, torch.bfloat16: 10,
          torch.float32: 11, torch.float64: 12}
# ORIEL_REDUCE_*
_OPS = {_reduce.SUM: 1, _reduce.AVG: 1, _reduce.PREMUL_SUM: 1, _reduce.PRODUCT: 2, _reduce.MIN: 3,
        _reduce.MAX: 4, _reduce.BAND: 5, _reduce.BOR: 6, _reduce.BXOR: 7}
_OPS_BOOL = {_reduce.SUM: 4, _reduce.MAX: 4, _reduce.BOR: 6, _reduce.PRODUCT: 3, _reduce.MIN: 3,
             _reduce.BAND: 5, _reduce.BXOR: 7}
# Sums of complex numbers are sums of their parts.
_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def _has(name: str) -> bool:
    return name in _c.FUNCTIONS and lib.has(name)


HAS_REDUCE = _has("oriel_allreduce") and _has("oriel_reducescatter")
HAS_BROADCAST = _has("oriel_broadcast")


def _codes(dtype: torch.dtype, op: Op) -> tuple[int, int, int] | None:
    """Type and operator of the library, and its elements per element of the tensor."""
    if dtype == torch.bool:
        return (2, _OPS_BOOL[op.code], 1) if op.code in _OPS_BOOL else None
    if dtype in _PARTS and _OPS.get(op.code) == 1:
        return _TYPES[_PARTS[dtype]], 1, 2
    if dtype not in _TYPES or op.code not in _OPS:
        return None
    return _TYPES[dtype], _OPS[op.code], 1


def all_reduce(comm: oriel.Comm, tensor: torch.Tensor, out: torch.Tensor, op: Op,
               stream: int | None = None) -> bool:
    """oriel_allreduce from `tensor` into `out`, which may be the same memory."""
    codes = _codes(out.dtype, op)
    if codes is None or not HAS_REDUCE:
        return False
    assert tensor.dtype == out.dtype, (tensor.dtype, out.dtype)
    kind, operator, parts = codes
    check(lib.oriel_allreduce(comm._live("all_reduce"), tensor.data_ptr(), out.data_ptr(),
                              out.numel() * parts, kind, operator, stream))
    return True


def reduce_scatter(comm: oriel.Comm, tensor: torch.Tensor, out: torch.Tensor, op: Op,
                   stream: int | None = None) -> bool:
    """oriel_reducescatter from `tensor` (ranks x elements) into `out` (elements)."""
    codes = _codes(out.dtype, op)
    if codes is None or not HAS_REDUCE:
        return False
    assert tensor.dtype == out.dtype, (tensor.dtype, out.dtype)
    kind, operator, parts = codes
    check(lib.oriel_reducescatter(comm._live("reduce_scatter"), tensor.data_ptr(), out.data_ptr(),
                                  out.numel() * parts, kind, operator, stream))
    return True


def broadcast(comm: oriel.Comm, tensor: torch.Tensor, root: int, stream: int | None = None) -> bool:
    """oriel_broadcast of the tensor of `root`."""
    if not HAS_BROADCAST:
        return False
    check(lib.oriel_broadcast(comm._live("broadcast"), tensor.data_ptr(), tensor.nbytes, 1, root,
                              stream))
    return True
