# SPDX-License-Identifier: BSD-3-Clause
"""The collectives of a group as torch.distributed calls them.

The methods bring the arguments of each call into one form and check them.  Then the call goes into
the group's line and from there to _cpu.py, or to a stream of a GPU and _cuda.py.

Arguments are checked in the line and not before.  If they are bad, the other ranks learn it in the
meeting of the call.  So all ranks raise, and no rank waits for the one that has refused.  This does
not cover arguments that torch.distributed itself never passes, such as lists of several tensors for
one rank, and calls on a GPU, which have no meeting: these raise on the rank alone.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from . import _reduce, _sparse
from ._cuda import CudaWork
from ._meeting import dtype_code
from ._reduce import Op
from ._work import Line, Work

Tensors = Sequence[torch.Tensor]
Action = Callable[[Any], None]  # a call on the collectives of a device


class Calls(dist.ProcessGroup):
    """The collectives of torch.distributed.  The subclass chooses the device."""

    _line: Line
    _rank: int
    _size: int

    def _on(self, name: str, tensor: torch.Tensor | None) -> Any:
        """The collectives for the device of the tensor."""
        raise NotImplementedError

    def _run(self, name: str, tensors: Tensors, opts: Any, prepare: Callable[[], Action],
             outs: Any = None) -> Work | None:
        """Put a call into the line.  `prepare` checks its arguments and returns what to do."""
        first = tensors[0] if tensors else None
        outs = list(tensors) if outs is None else outs
        waits = not getattr(opts, "asyncOp", True)
        if first is not None and first.is_cuda:
            return self._issue(name, tensors, outs, waits, prepare)

        def call() -> None:
            try:
                on = self._on(name, first)
                _check_tensors(name, tensors)
                action = prepare()
            except (ValueError, TypeError, RuntimeError) as bad:
                self._on(name, None).refuse(str(bad))
                raise
            action(on)

        return self._line.run(None if waits else Work(name, outs), call, name, outs)

    def _issue(self, name: str, tensors: Tensors, outs: Any, waits: bool,
               prepare: Callable[[], Action]) -> Work | None:
        """Issue a call on a GPU.  It follows a stream, so it does not need the line."""
        on = self._on(name, tensors[0])
        _check_tensors(name, tensors)
        action = prepare()
        work = None if waits else CudaWork(name, outs, tensors[0].device)
        return on.issue(action, work, tensors)

    # ---- reductions ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work | None:
        """All ranks get the reduction of their tensors."""
        tensor, opts = one_tensor(tensors), _options(opts, dist.AllreduceOptions)
        op = _reduce.op_of(opts.reduceOp)
        if tensor.is_sparse:
            return self._run("all_reduce", [], opts, lambda: _sparse.all_reduce(tensor, op),
                             [tensor])

        def prepare() -> Action:
            _reduce.check_op("all_reduce", op, tensor.dtype)
            return lambda on: on.all_reduce(tensor, op)

        return self._run("all_reduce", [tensor], opts, prepare)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """The same for several tensors in one call."""
        opts = _options(opts, dist.AllreduceCoalescedOptions)
        op = _reduce.op_of(opts.reduceOp)

        def prepare() -> Action:
            _check_alike("all_reduce_coalesced", tensors)
            _reduce.check_op("all_reduce_coalesced", op, tensors[0].dtype)
            return lambda on: _coalesced(tensors, lambda flat: on.all_reduce(flat, op))

        return self._run("all_reduce_coalesced", list(tensors), opts, prepare)

    def reduce(self, tensors: Any, opts: Any = None, *more: Any) -> Work | None:
        """The root gets the reduction of all ranks' tensors."""
        tensor, opts = one_tensor(tensors), _rooted(opts, dist.ReduceOptions, more)
        op, root = _reduce.op_of(opts.reduceOp), opts.rootRank

        def prepare() -> Action:
            _check_root("reduce", root, self._size)
            _reduce.check_op("reduce", op, tensor.dtype)
            return lambda on: on.reduce(tensor, root, op)

        return self._run("reduce", [tensor], opts, prepare)

    def reduce_scatter(self, outs: Any, inputs: Any, opts: Any = None,
                       timeout: Any = None) -> Work | None:
        """Rank r gets the reduction of the r-th tensors of all ranks."""
        out, opts = one_tensor(outs), _options(opts, dist.ReduceScatterOptions)
        parts, op = _first(inputs), _reduce.op_of(opts.reduceOp)

        def prepare() -> Action:
            _check_parts("reduce_scatter", parts, self._size, out)
            _reduce.check_op("reduce_scatter", op, out.dtype)
            # Packed within the call: on a GPU, memory belongs to the stream that it is made on.
            return lambda on: on.reduce_scatter(
                out, torch.cat([part.reshape(-1) for part in parts]), op)

        return self._run("reduce_scatter", [out, *parts], opts, prepare, [out])

    def reduce_scatter_single(self, out: torch.Tensor, tensor: torch.Tensor,
                              opts: Any = None) -> Work | None:
        """The same with one input of ranks x elements."""
        opts = _options(opts, dist.ReduceScatterOptions)
        op = _reduce.op_of(opts.reduceOp)

        def prepare() -> Action:
            _check_whole("reduce_scatter", tensor, out, self._size)
            _reduce.check_op("reduce_scatter", op, out.dtype)
            return lambda on: on.reduce_scatter(out, tensor, op)

        return self._run("reduce_scatter", [out, tensor], opts, prepare, [out])

    def reduce_scatter_single_coalesced(self, outs: Tensors, tensors: Tensors,
                                        opts: Any = None) -> Work | None:
        """Several of them in one call."""
        opts = _options(opts, dist.ReduceScatterOptions)
        op = _reduce.op_of(opts.reduceOp)
        pairs = list(zip(outs, tensors))

        def prepare() -> Action:
            for out, tensor in pairs:
                _check_whole("reduce_scatter", tensor, out, self._size)
                _reduce.check_op("reduce_scatter", op, out.dtype)
            return lambda on: [on.reduce_scatter(out, tensor, op) for out, tensor in pairs]

        return self._run("reduce_scatter", [*outs, *tensors], opts, prepare, list(outs))

    # ---- blocks of all ranks ----

    def allgather(self, outs: Any, tensors: Any, opts: Any = None) -> Work | None:
        """All ranks get the tensors of all ranks."""
        parts, tensor = _first(outs), one_tensor(tensors)

        def prepare() -> Action:
            _check_parts("all_gather", parts, self._size, tensor)
            return lambda on: on.all_gather(parts, tensor)

        return self._run("all_gather", [tensor, *parts], opts, prepare, [list(parts)])

    def all_gather_single(self, out: torch.Tensor, tensor: torch.Tensor,
                          opts: Any = None) -> Work | None:
        """The same into one tensor of ranks x elements."""
        def prepare() -> Action:
            _check_whole("all_gather", out, tensor, self._size)
            return lambda on: on.all_gather_flat(out, tensor)

        return self._run("all_gather", [tensor, out], opts, prepare, [out])

    def all_gather_single_coalesced(self, outs: Tensors, tensors: Tensors,
                                    opts: Any = None) -> Work | None:
        """Several of them in one call."""
        pairs = list(zip(outs, tensors))

        def prepare() -> Action:
            for out, tensor in pairs:
                _check_whole("all_gather", out, tensor, self._size)
            return lambda on: [on.all_gather_flat(out, tensor) for out, tensor in pairs]

        return self._run("all_gather", [*tensors, *outs], opts, prepare, list(outs))

    def allgather_coalesced(self, outs: Sequence[Tensors], tensors: Tensors,
                            opts: Any = None) -> Work | None:
        """outs[r][i] becomes tensors[i] of rank r."""
        def prepare() -> Action:
            if len(outs) != self._size or any(len(row) != len(tensors) for row in outs):
                raise ValueError(f"all_gather_coalesced: outputs must be {self._size} lists of "
                                 f"{len(tensors)} tensors")
            columns = [[row[i] for row in outs] for i in range(len(tensors))]
            for parts, tensor in zip(columns, tensors):
                _check_parts("all_gather_coalesced", parts, self._size, tensor)
            return lambda on: [on.all_gather(p, t) for p, t in zip(columns, tensors)]

        flat = [out for row in outs for out in row]
        return self._run("all_gather_coalesced", [*tensors, *flat], opts, prepare, list(outs))

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work | None:
        """All ranks meet."""
        return self._run("barrier", [], opts, lambda: lambda on: on.barrier())

    # ---- one root ----

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work | None:
        """All ranks get the root's tensor."""
        tensor, opts = one_tensor(tensors), _rooted(opts, dist.BroadcastOptions, ())
        root = opts.rootRank

        def prepare() -> Action:
            _check_root("broadcast", root, self._size)
            return lambda on: on.broadcast(tensor, root)

        return self._run("broadcast", [tensor], opts, prepare)

    def gather(self, outs: Any, tensors: Any, opts: Any = None,
               timeout: Any = None) -> Work | None:
        """The root gets the tensors of all ranks."""
        tensor, opts = one_tensor(tensors), _rooted(opts, dist.GatherOptions, ())
        parts, root = _first(outs), opts.rootRank

        def prepare() -> Action:
            _check_root("gather", root, self._size)
            _check_at_root("gather", parts, self._rank == root, self._size, tensor)
            return lambda on: on.gather(parts, tensor, root)

        return self._run("gather", [tensor, *parts], opts, prepare, [list(parts)])

    def scatter(self, outs: Any, inputs: Any, opts: Any = None,
                timeout: Any = None) -> Work | None:
        """Rank r gets the r-th tensor of the root."""
        out, opts = one_tensor(outs), _rooted(opts, dist.ScatterOptions, ())
        parts, root = _first(inputs), opts.rootRank

        def prepare() -> Action:
            _check_root("scatter", root, self._size)
            _check_at_root("scatter", parts, self._rank == root, self._size, out)
            return lambda on: on.scatter(out, parts, root)

        return self._run("scatter", [out, *parts], opts, prepare, [out])

    # ---- every pair ----

    def all_to_all_single(self, out: torch.Tensor, tensor: torch.Tensor, arrive: Sequence[int],
                          leave: Sequence[int], opts: Any = None) -> Work | None:
        """Rank r gets the r-th part of this tensor.  Parts are rows; no splits: equal parts."""
        def prepare() -> Action:
            _check_alike("all_to_all", [out, tensor])
            comes = _elements("output", out, arrive, self._size)
            goes = _elements("input", tensor, leave, self._size)
            return lambda on: on.all_to_all(out, tensor, comes, goes)

        return self._run("all_to_all", [out, tensor], opts, prepare, [out])

    def alltoall(self, outs: Tensors, tensors: Tensors, opts: Any = None) -> Work | None:
        """outs[r] becomes the tensor that rank r has for this rank."""
        def prepare() -> Action:
            _check_alike("all_to_all", [*outs, *tensors])
            if len(outs) != self._size or len(tensors) != self._size:
                raise ValueError(f"all_to_all: {len(outs)} outputs and {len(tensors)} inputs: pass "
                                 f"{self._size} of each, one per rank")
            return lambda on: _unpacked(outs, tensors, on.all_to_all)

        return self._run("all_to_all", [*outs, *tensors], opts, prepare, list(outs))

    # Names of other versions of PyTorch.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


# ---- arguments ----

def one_tensor(tensors: Any) -> torch.Tensor:
    """The tensor of a list with one.  Longer lists are from the time of many GPUs per rank."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{len(tensors)} tensors: a call takes one tensor per rank")
    return tensors[0]


def _first(lists: Any) -> list[torch.Tensor]:
    """The list of tensors in a list of lists, which may be empty."""
    if len(lists) == 0 or isinstance(lists[0], torch.Tensor):
        return list(lists)
    return list(lists[0])


def _options(opts: Any, kind: type) -> Any:
    """The options of a reduction.  PyTorch also allows the bare operator in their place."""
    if isinstance(opts, kind):
        return opts
    made = kind()
    if opts is not None:
        made.reduceOp = opts
    return made


def _rooted(opts: Any, kind: type, more: Sequence[Any]) -> Any:
    """The options of a call with a root.  PyTorch also allows the bare root in their place."""
    if opts is not None and not isinstance(opts, int):
        return opts
    made = kind()
    made.rootRank = opts or 0
    if more:
        made.reduceOp = more[0]
    return made


def _check_tensors(name: str, tensors: Tensors) -> None:
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


def _check_alike(name: str, tensors: Tensors) -> None:
    if not tensors:
        raise ValueError(f"{name}: no tensors")
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(f"{name}: tensors of {tensors[0].dtype} and {tensor.dtype}: use one "
                             "dtype")


def _check_root(name: str, root: int, size: int) -> None:
    if not 0 <= root < size:
        raise ValueError(f"{name}: root {root} does not exist (ranks are 0 to {size - 1})")


def _check_parts(name: str, parts: Tensors, size: int, like: torch.Tensor) -> None:
    """One part per rank, each as large as the tensor `like`."""
    if len(parts) != size:
        raise ValueError(f"{name}: {len(parts)} tensors for {size} ranks: pass one per rank")
    for rank, part in enumerate(parts):
        if part.numel() != like.numel() or part.dtype != like.dtype:
            raise ValueError(f"{name}: tensor {rank} of the list has {part.numel()} elements of "
                             f"{part.dtype}, but {like.numel()} of {like.dtype} are needed")


def _check_at_root(name: str, parts: Tensors, is_root: bool, size: int, like: torch.Tensor) -> None:
    if is_root:
        _check_parts(name, parts, size, like)
    elif parts:
        raise ValueError(f"{name}: only the root passes a list of tensors")


def _check_whole(name: str, whole: torch.Tensor, part: torch.Tensor, size: int) -> None:
    """`whole` holds one part per rank."""
    _check_alike(name, [whole, part])
    if whole.numel() != part.numel() * size:
        raise ValueError(f"{name}: {whole.numel()} elements for {size} ranks with {part.numel()} "
                         f"each: the larger tensor must have {size * part.numel()}")


def _elements(which: str, tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[int]:
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


# ---- several tensors in one ----

def _coalesced(tensors: Tensors, reduce: Callable[[torch.Tensor], None]) -> None:
    """Reduce several tensors as one."""
    flat = _flatten_dense_tensors(tensors)
    reduce(flat)
    for tensor, part in zip(tensors, _unflatten_dense_tensors(flat, tensors)):
        tensor.copy_(part)


def _unpacked(outs: Tensors, tensors: Tensors, exchange: Callable[..., None]) -> None:
    """An all-to-all of lists, by way of one tensor for each direction."""
    leave, arrive = [t.numel() for t in tensors], [t.numel() for t in outs]
    packed = torch.cat([tensor.reshape(-1) for tensor in tensors])
    came = packed.new_empty(sum(arrive))
    exchange(came, packed, arrive, leave)
    for out, part in zip(outs, came.split(arrive)):
        out.copy_(part.view_as(out))
