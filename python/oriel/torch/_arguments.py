# SPDX-License-Identifier: BSD-3-Clause
"""The arguments of collectives: PyTorch's many forms of them as one, and what makes them bad."""
from __future__ import annotations

from typing import Any, Sequence

import torch
import torch.distributed as dist

from ._meeting import dtype_code

Tensors = Sequence[torch.Tensor]


def first_tensor(arguments: Any) -> torch.Tensor | None:
    """The first tensor in arguments of any form, or None."""
    if isinstance(arguments, torch.Tensor):
        return arguments
    if not isinstance(arguments, (list, tuple)):
        return None
    found = (first_tensor(argument) for argument in arguments)
    return next((tensor for tensor in found if tensor is not None), None)


def one_tensor(tensors: Any) -> torch.Tensor:
    """The tensor of a list with one.  Longer lists are from the time of many GPUs per rank."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{len(tensors)} tensors: a call takes one tensor per rank")
    return tensors[0]


def first_list(lists: Any) -> list[torch.Tensor]:
    """The list of tensors in a list of lists, which may be empty."""
    if len(lists) == 0 or isinstance(lists[0], torch.Tensor):
        return list(lists)
    return list(lists[0])


def options_of(opts: Any, kind: type) -> Any:
    """The options of a reduction.  PyTorch also allows the bare operator in their place."""
    if isinstance(opts, kind):
        return opts
    made = kind()
    if opts is None:
        return made
    if not isinstance(opts, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        raise ValueError(f"{opts!r}: pass {kind.__name__}, or one of torch.distributed.ReduceOp")
    made.reduceOp = opts
    return made


def rooted(opts: Any, kind: type, more: Sequence[Any]) -> Any:
    """The options of a call with a root.  PyTorch also allows the bare root in their place."""
    if hasattr(opts, "rootRank"):
        return opts
    if opts is not None and not isinstance(opts, int):
        raise ValueError(f"{opts!r}: pass {kind.__name__}, or the number of the root")
    made = kind()
    made.rootRank = opts or 0
    if more:
        made.reduceOp = more[0]
    return made


def check_tensors(name: str, tensors: Tensors) -> None:
    """What every call needs: dense, contiguous tensors on one device."""
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise ValueError(f"{name}: the tensor is {tensor.layout}: pass tensor.to_dense()")
        if not tensor.is_contiguous():
            raise ValueError(f"{name}: the tensor is not contiguous: pass tensor.contiguous()")
        if tensor.device != tensors[0].device:
            raise ValueError(f"{name}: tensors on {tensors[0].device} and {tensor.device}: move "
                             "them to one device")
        dtype_code(name, tensor.dtype)


def check_alike(name: str, tensors: Tensors) -> None:
    if not tensors:
        raise ValueError(f"{name}: no tensors")
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(f"{name}: tensors of {tensors[0].dtype} and {tensor.dtype}: use one "
                             "dtype")


def check_root(name: str, root: int, size: int) -> None:
    if not 0 <= root < size:
        raise ValueError(f"{name}: root {root} does not exist (ranks are 0 to {size - 1})")


def check_parts(name: str, parts: Tensors, size: int, like: torch.Tensor) -> None:
    """One part per rank, each as large as the tensor `like`."""
    if len(parts) != size:
        raise ValueError(f"{name}: {len(parts)} tensors for {size} ranks: pass one per rank")
    for rank, part in enumerate(parts):
        if part.numel() != like.numel() or part.dtype != like.dtype:
            raise ValueError(f"{name}: tensor {rank} of the list has {part.numel()} elements of "
                             f"{part.dtype}, but {like.numel()} of {like.dtype} are needed")


def check_at_root(name: str, parts: Tensors, is_root: bool, size: int, like: torch.Tensor) -> None:
    if is_root:
        check_parts(name, parts, size, like)
    elif parts:
        raise ValueError(f"{name}: only the root passes a list of tensors")


def check_whole(name: str, whole: torch.Tensor, part: torch.Tensor, size: int) -> None:
    """`whole` holds one part per rank."""
    check_alike(name, [whole, part])
    if whole.numel() != part.numel() * size:
        raise ValueError(f"{name}: {whole.numel()} elements for {size} ranks with {part.numel()} "
                         f"each: the larger tensor must have {size * part.numel()}")


def elements(which: str, tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[int]:
    """The number of elements per rank.  Splits count rows of the first dimension."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits:
        if rows % size:
            raise ValueError(f"all_to_all: {rows} rows of the {which} do not divide among {size} "
                             f"ranks: pass {which} splits")
        return [tensor.numel() // size] * size
    if len(splits) != size or sum(splits) != rows or min(splits) < 0:
        raise ValueError(f"all_to_all: {which} splits {list(splits)} do not add up to the {rows} "
                         f"rows of the {which}, one number per rank for {size} ranks")
    width = tensor.numel() // rows if rows else 0
    return [count * width for count in splits]
