# SPDX-License-Identifier: BSD-3-Clause
"""Operators of torch.distributed, and their local reduction with torch.

All ranks reduce the same rows in the same order, so all ranks get the same bits.
"""
from __future__ import annotations

from typing import Callable, NamedTuple

import torch
import torch.distributed as dist

from oriel._c import fail

RedOpType = dist.ReduceOp.RedOpType


class Op(NamedTuple):
    """An operator: its number in the header of a call, its name, and what is done around it."""

    code: int
    name: str
    factor: float | torch.Tensor | None  # of PREMUL_SUM


_NAMES = {int(kind): name for name, kind in RedOpType.__members__.items()}
SUM, AVG, PRODUCT = int(RedOpType.SUM), int(RedOpType.AVG), int(RedOpType.PRODUCT)
MIN, MAX = int(RedOpType.MIN), int(RedOpType.MAX)
BAND, BOR, BXOR = int(RedOpType.BAND), int(RedOpType.BOR), int(RedOpType.BXOR)
PREMUL_SUM = int(RedOpType.PREMUL_SUM)
_PLAIN = {code: Op(code, name, None) for code, name in _NAMES.items()}


def op_of(reduce_op: dist.ReduceOp | RedOpType) -> Op:
    """The operator of torch.distributed as an Op."""
    kind = reduce_op.op if isinstance(reduce_op, dist.ReduceOp) else reduce_op
    try:
        code = int(kind)
        plain = _PLAIN[code]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"operator {reduce_op!r}: pass one of "
                         "torch.distributed.ReduceOp") from None
    if code != PREMUL_SUM:
        return plain
    return Op(code, "PREMUL_SUM", reduce_op.__getstate__()[1])


# torch has no arithmetic on these on the CPU; sums and products have the same bits when signed.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _fold(combine: Callable) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A reduction that combines row after row."""
    def reduce(rows: torch.Tensor, out: torch.Tensor) -> None:
        combine(rows[0], rows[1], out=out) if len(rows) > 1 else out.copy_(rows[0])
        for row in rows[2:]:
            combine(out, row, out=out)
    return reduce


def _sum(rows: torch.Tensor, out: torch.Tensor) -> None:
    torch.sum(rows, 0, dtype=out.dtype, out=out)


_REDUCE = {
    SUM: _sum,
    AVG: _sum,
    PREMUL_SUM: _sum,
    PRODUCT: lambda rows, out: torch.prod(rows, 0, dtype=out.dtype, out=out),
    MIN: lambda rows, out: torch.amin(rows, 0, out=out),
    MAX: lambda rows, out: torch.amax(rows, 0, out=out),
    BAND: _fold(torch.bitwise_and),
    BOR: _fold(torch.bitwise_or),
    BXOR: _fold(torch.bitwise_xor),
}
# Truth values: a sum is "or", a product is "and".
_REDUCE_BOOL = {
    SUM: _fold(torch.logical_or),
    MAX: _fold(torch.logical_or),
    BOR: _fold(torch.logical_or),
    PRODUCT: _fold(torch.logical_and),
    MIN: _fold(torch.logical_and),
    BAND: _fold(torch.logical_and),
    BXOR: _fold(torch.logical_xor),
}


def check_op(name: str, op: Op, dtype: torch.dtype) -> None:
    """Refuse an operator that has no meaning for the elements."""
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if op.code in (BAND, BOR, BXOR) and not exact:
        raise fail("EUNSUPPORTED", f"{name}: {op.name} needs integers or truth values, not "
                         f"{dtype}: use SUM, PRODUCT, MIN or MAX")
    if op.code in (MIN, MAX) and dtype.is_complex:
        raise fail("EUNSUPPORTED", f"{name}: {op.name} has no meaning for {dtype}: complex "
                         "numbers have no order")
    if op.code in (AVG, PREMUL_SUM) and dtype == torch.bool:
        raise fail("EUNSUPPORTED", f"{name}: {op.name} of truth values: use SUM, which is "
                         "\"or\", or convert them to numbers")


def reduce_rows(rows: torch.Tensor, op: Op, out: torch.Tensor) -> None:
    """Reduce the rows of all ranks (ranks x elements) into `out` (elements)."""
    dtype = out.dtype
    if dtype in _SIGNED and op.code not in (MIN, MAX):
        rows, out = rows.view(_SIGNED[dtype]), out.view(_SIGNED[dtype])
    table = _REDUCE_BOOL if dtype == torch.bool else _REDUCE
    table[op.code](rows, out)


def before(tensor: torch.Tensor, op: Op) -> torch.Tensor:
    """What a rank contributes: the tensor, or its product with the factor of PREMUL_SUM.

    The product has the tensor's own dtype: the collectives count in its elements.
    """
    if op.factor is None:
        return tensor
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return (tensor * op.factor).to(tensor.dtype)
    # Whole numbers are multiplied as doubles and rounded towards zero, as AVG does.
    return (tensor.double() * op.factor).to(tensor.dtype)


def after(tensor: torch.Tensor, op: Op, ranks: int) -> None:
    """What remains to be done to the sum: AVG divides it."""
    if op.code != AVG:
        return
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.div_(ranks)
    else:
        tensor.div_(ranks, rounding_mode="trunc")
