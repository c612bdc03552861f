# SPDX-License-Identifier: BSD-3-Clause
"""The collectives of a group as torch.distributed calls them.

The methods bring the arguments of each call into one form and check them (_arguments.py).  Then the
call goes into the group's line and from there to _cpu.py, or to a stream of a GPU and _cuda.py.

Bad arguments are found in the line, or before.  The call takes its place in the line in both cases,
and the other ranks learn the reason in the meeting of the call.  So all ranks raise, and no rank
waits for the one that has refused.  Calls on a GPU have no meeting: bad arguments raise on the rank
alone, and the other ranks wait until their deadline.
"""
from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from . import _reduce, _sparse
from ._arguments import (Tensors, check_alike, check_at_root, check_parts, check_root,
                         check_tensors, check_whole, elements, first_list, first_tensor, one_tensor,
                         options_of, rooted)
from ._cuda import CudaWork
from ._work import Line, Work

Action = Callable[[Any], None]  # a call on the collectives of a device


class Prepared(NamedTuple):
    """A call whose arguments have one form."""

    name: str
    tensors: Tensors  # that are checked, the first one for the device; [] for the CPU
    opts: Any
    prepare: Callable[[], Action]  # checks the arguments and returns what to do
    outs: Any = None  # of the work object; None: the tensors


def _collective(method: Callable[..., Prepared]) -> Callable[..., Work | None]:
    """A method that prepares a call, as one that runs it."""
    @functools.wraps(method)
    def call(self: Calls, *arguments: Any, **named: Any) -> Work | None:
        try:
            prepared = method(self, *arguments, **named)
            on_gpu = bool(prepared.tensors) and prepared.tensors[0].is_cuda
        except Exception as bad:  # any: it must reach the other ranks
            prepared, on_gpu = _refused(method.__name__, [*arguments, *named.values()], bad), False
        return self._issue(*prepared) if on_gpu else self._run(*prepared)

    return call


def _refused(name: str, arguments: list[Any], bad: Exception) -> Prepared:
    """A call that only tells the other ranks that its arguments are bad."""
    tensor = first_tensor(arguments)
    if tensor is not None and tensor.is_cuda:
        raise bad

    def prepare() -> Action:
        raise bad

    opts = next((given for given in arguments if hasattr(given, "asyncOp")), None)
    return Prepared(name, [], opts, prepare)


class Calls(dist.ProcessGroup):
    """The collectives of torch.distributed.  The subclass chooses the device."""

    _line: Line
    _rank: int
    _size: int

    def _on(self, name: str, tensor: torch.Tensor | None) -> Any:
        """The collectives for the device of the tensor."""
        raise NotImplementedError

    def _run(self, name: str, tensors: Tensors, opts: Any, prepare: Callable[[], Action],
             outs: Any) -> Work | None:
        """Put a call into the line."""
        outs = list(tensors) if outs is None else outs

        def call() -> None:
            try:
                on = self._on(name, tensors[0] if tensors else None)
                check_tensors(name, tensors)
                action = prepare()
            except Exception as bad:  # any: it must reach the other ranks
                self._on(name, None).refuse(str(bad) or type(bad).__name__)
                raise
            action(on)

        return self._line.run(None if _waits(opts) else Work(name, outs), call, name, outs)

    def _issue(self, name: str, tensors: Tensors, opts: Any, prepare: Callable[[], Action],
               outs: Any) -> Work | None:
        """Issue a call on a GPU.  It follows a stream, so it does not need the line."""
        on = self._on(name, tensors[0])
        check_tensors(name, tensors)
        action = prepare()
        outs = list(tensors) if outs is None else outs
        work = None if _waits(opts) else CudaWork(name, outs, tensors[0].device)
        return on.issue(action, work, tensors)

    # ---- reductions ----

    @_collective
    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Prepared:
        """All ranks get the reduction of their tensors."""
        tensor, opts = one_tensor(tensors), options_of(opts, dist.AllreduceOptions)
        op = _reduce.op_of(opts.reduceOp)
        if tensor.is_sparse:
            return Prepared("all_reduce", [], opts, lambda: _sparse.all_reduce(tensor, op),
                            [tensor])

        def prepare() -> Action:
            _reduce.check_op("all_reduce", op, tensor.dtype)
            return lambda on: on.all_reduce(tensor, op)

        return Prepared("all_reduce", [tensor], opts, prepare)

    @_collective
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Prepared:
        """The same for several tensors in one call."""
        opts = options_of(opts, dist.AllreduceCoalescedOptions)
        op = _reduce.op_of(opts.reduceOp)

        def prepare() -> Action:
            check_alike("all_reduce_coalesced", tensors)
            _reduce.check_op("all_reduce_coalesced", op, tensors[0].dtype)
            return lambda on: _coalesced(tensors, lambda flat: on.all_reduce(flat, op))

        return Prepared("all_reduce_coalesced", list(tensors), opts, prepare)

    @_collective
    def reduce(self, tensors: Any, opts: Any = None, *more: Any) -> Prepared:
        """The root gets the reduction of all ranks' tensors."""
        tensor, opts = one_tensor(tensors), rooted(opts, dist.ReduceOptions, more)
        op, root = _reduce.op_of(opts.reduceOp), opts.rootRank

        def prepare() -> Action:
            check_root("reduce", root, self._size)
            _reduce.check_op("reduce", op, tensor.dtype)
            return lambda on: on.reduce(tensor, root, op)

        return Prepared("reduce", [tensor], opts, prepare)

    @_collective
    def reduce_scatter(self, outs: Any, inputs: Any, opts: Any = None,
                       timeout: Any = None) -> Prepared:
        """Rank r gets the reduction of the r-th tensors of all ranks."""
        out, opts = one_tensor(outs), options_of(opts, dist.ReduceScatterOptions)
        parts, op = first_list(inputs), _reduce.op_of(opts.reduceOp)

        def prepare() -> Action:
            check_parts("reduce_scatter", parts, self._size, out)
            _reduce.check_op("reduce_scatter", op, out.dtype)
            # Packed within the call: on a GPU, memory belongs to the stream that it is made on.
            return lambda on: on.reduce_scatter(
                out, torch.cat([part.reshape(-1) for part in parts]), op)

        return Prepared("reduce_scatter", [out, *parts], opts, prepare, [out])

    @_collective
    def reduce_scatter_single(self, out: torch.Tensor, tensor: torch.Tensor,
                              opts: Any = None) -> Prepared:
        """The same with one input of ranks x elements."""
        opts = options_of(opts, dist.ReduceScatterOptions)
        op = _reduce.op_of(opts.reduceOp)

        def prepare() -> Action:
            check_whole("reduce_scatter", tensor, out, self._size)
            _reduce.check_op("reduce_scatter", op, out.dtype)
            return lambda on: on.reduce_scatter(out, tensor, op)

        return Prepared("reduce_scatter", [out, tensor], opts, prepare, [out])

    @_collective
    def reduce_scatter_single_coalesced(self, outs: Tensors, tensors: Tensors,
                                        opts: Any = None) -> Prepared:
        """Several of them in one call."""
        opts = options_of(opts, dist.ReduceScatterOptions)
        op = _reduce.op_of(opts.reduceOp)
        pairs = list(zip(outs, tensors))

        def prepare() -> Action:
            for out, tensor in pairs:
                check_whole("reduce_scatter", tensor, out, self._size)
                _reduce.check_op("reduce_scatter", op, out.dtype)
            return lambda on: [on.reduce_scatter(out, tensor, op) for out, tensor in pairs]

        return Prepared("reduce_scatter", [*outs, *tensors], opts, prepare, list(outs))

    # ---- blocks of all ranks ----

    @_collective
    def allgather(self, outs: Any, tensors: Any, opts: Any = None) -> Prepared:
        """All ranks get the tensors of all ranks."""
        parts, tensor = first_list(outs), one_tensor(tensors)

        def prepare() -> Action:
            check_parts("all_gather", parts, self._size, tensor)
            return lambda on: on.all_gather(parts, tensor)

        return Prepared("all_gather", [tensor, *parts], opts, prepare, [list(parts)])

    @_collective
    def all_gather_single(self, out: torch.Tensor, tensor: torch.Tensor,
                          opts: Any = None) -> Prepared:
        """The same into one tensor of ranks x elements."""
        def prepare() -> Action:
            check_whole("all_gather", out, tensor, self._size)
            return lambda on: on.all_gather_flat(out, tensor)

        return Prepared("all_gather", [tensor, out], opts, prepare, [out])

    @_collective
    def all_gather_single_coalesced(self, outs: Tensors, tensors: Tensors,
                                    opts: Any = None) -> Prepared:
        """Several of them in one call."""
        pairs = list(zip(outs, tensors))

        def prepare() -> Action:
            for out, tensor in pairs:
                check_whole("all_gather", out, tensor, self._size)
            return lambda on: [on.all_gather_flat(out, tensor) for out, tensor in pairs]

        return Prepared("all_gather", [*tensors, *outs], opts, prepare, list(outs))

    @_collective
    def allgather_coalesced(self, outs: Sequence[Tensors], tensors: Tensors,
                            opts: Any = None) -> Prepared:
        """outs[r][i] becomes tensors[i] of rank r."""
        def prepare() -> Action:
            if len(outs) != self._size or any(len(row) != len(tensors) for row in outs):
                raise ValueError(f"all_gather_coalesced: outputs must be {self._size} lists of "
                                 f"{len(tensors)} tensors")
            columns = [[row[i] for row in outs] for i in range(len(tensors))]
            for parts, tensor in zip(columns, tensors):
                check_parts("all_gather_coalesced", parts, self._size, tensor)
            return lambda on: [on.all_gather(p, t) for p, t in zip(columns, tensors)]

        flat = [out for row in outs for out in row]
        return Prepared("all_gather_coalesced", [*tensors, *flat], opts, prepare, list(outs))

    @_collective
    def barrier(self, opts: Any = None, timeout: Any = None) -> Prepared:
        """All ranks meet."""
        return Prepared("barrier", [], opts, lambda: lambda on: on.barrier())

    # ---- one root ----

    @_collective
    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Prepared:
        """All ranks get the root's tensor."""
        tensor, opts = one_tensor(tensors), rooted(opts, dist.BroadcastOptions, ())
        root = opts.rootRank

        def prepare() -> Action:
            check_root("broadcast", root, self._size)
            return lambda on: on.broadcast(tensor, root)

        return Prepared("broadcast", [tensor], opts, prepare)

    @_collective
    def gather(self, outs: Any, tensors: Any, opts: Any = None,
               timeout: Any = None) -> Prepared:
        """The root gets the tensors of all ranks."""
        tensor, opts = one_tensor(tensors), rooted(opts, dist.GatherOptions, ())
        parts, root = first_list(outs), opts.rootRank

        def prepare() -> Action:
            check_root("gather", root, self._size)
            check_at_root("gather", parts, self._rank == root, self._size, tensor)
            return lambda on: on.gather(parts, tensor, root)

        return Prepared("gather", [tensor, *parts], opts, prepare, [list(parts)])

    @_collective
    def scatter(self, outs: Any, inputs: Any, opts: Any = None,
                timeout: Any = None) -> Prepared:
        """Rank r gets the r-th tensor of the root."""
        out, opts = one_tensor(outs), rooted(opts, dist.ScatterOptions, ())
        parts, root = first_list(inputs), opts.rootRank

        def prepare() -> Action:
            check_root("scatter", root, self._size)
            check_at_root("scatter", parts, self._rank == root, self._size, out)
            return lambda on: on.scatter(out, parts, root)

        return Prepared("scatter", [out, *parts], opts, prepare, [out])

    # ---- every pair ----

    @_collective
    def all_to_all_single(self, out: torch.Tensor, tensor: torch.Tensor, arrive: Sequence[int],
                          leave: Sequence[int], opts: Any = None) -> Prepared:
        """Rank r gets the r-th part of this tensor.  Parts are rows; no splits: equal parts."""
        def prepare() -> Action:
            check_alike("all_to_all", [out, tensor])
            comes = elements("output", out, arrive, self._size)
            goes = elements("input", tensor, leave, self._size)
            return lambda on: on.all_to_all(out, tensor, comes, goes)

        return Prepared("all_to_all", [out, tensor], opts, prepare, [out])

    @_collective
    def alltoall(self, outs: Tensors, tensors: Tensors, opts: Any = None) -> Prepared:
        """outs[r] becomes the tensor that rank r has for this rank."""
        def prepare() -> Action:
            check_alike("all_to_all", [*outs, *tensors])
            if len(outs) != self._size or len(tensors) != self._size:
                raise ValueError(f"all_to_all: {len(outs)} outputs and {len(tensors)} inputs: pass "
                                 f"{self._size} of each, one per rank")
            return lambda on: _unpacked(outs, tensors, on.all_to_all)

        return Prepared("all_to_all", [*outs, *tensors], opts, prepare, list(outs))

    # Names of other versions of PyTorch.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _waits(opts: Any) -> bool:
    """Whether the caller wants the call to be finished on return."""
    return not getattr(opts, "asyncOp", True)


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
