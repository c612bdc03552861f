# SPDX-License-Identifier: BSD-3-Clause
"""AlltoallvOp: all-to-all-v of rows ("tokens") with buffers that are made once.

    with AlltoallvOp(comm, max_input_tokens, D, dtype, device, max_recv_tokens_per_peer) as op:
        slots = op.alltoallv(tokens, output_splits, input_splits)

Every source has a slot of max_recv_tokens_per_peer rows in the receive buffer.  Splits are tensors
in device memory with one number of rows per rank.  They may differ in every call, also between the
replays of a captured graph.  docs/triton-alltoallv.md is the guide.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Optional, Tuple

import torch

from ..memory import empty
from ..window import Window
from . import op_cache
from .alltoallv_plan import MOST_BYTES, Plan
from .alltoallv_rows import copy_kernel, pack_kernel
from .alltoallv_state import SIGNALS, AlltoallvState, Failure, Message, next_power_of_two

_MISMATCH = 10  # -ORIEL_EMISMATCH
_COPY_BLOCK = 2048  # units of one program
_PACK_PROGRAMS = 16  # per slot


class AlltoallvOp:
    """An all-to-all-v of rows of D elements.

    Args:
        comm: the ranks, on a GPU.
        max_input_tokens: the most rows that this rank sends in a call.  May differ between ranks.
        D: elements of a row.
        dtype: of the elements.
        device: the comm's GPU.
        max_recv_tokens_per_peer: the most rows that one rank sends to another in a call.
        sync_buffer: True: data arrives only after the receiver has made its own call.  Until then
            it may read the data of the previous call.  False: no handshake, which is faster.  The
            program must make sure that no rank calls again before all ranks have read.

    setup() makes the buffers; teardown() frees them.  Both are collective.  So is every call: all
    ranks make the same calls, one at a time, in the order of one stream.
    """

    def __init__(
        self,
        comm: Any,
        max_input_tokens: int,
        D: int,
        dtype: torch.dtype,
        device: Any,
        max_recv_tokens_per_peer: int,
        sync_buffer: bool = True,
    ) -> None:
        for name, value in (("max_input_tokens", max_input_tokens), ("D", D),
                            ("max_recv_tokens_per_peer", max_recv_tokens_per_peer)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} {value!r}: must be a number of at least 1")
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype {dtype!r}: must be a torch.dtype, such as torch.bfloat16")
        self.comm = comm
        self.max_input_tokens, self.max_recv_tokens_per_peer = (
            max_input_tokens, max_recv_tokens_per_peer)
        self.D, self.dtype, self.sync_buffer = D, dtype, bool(sync_buffer)
        self.device = torch.device(device)
        if self.device.index is None and comm.device.startswith(f"{self.device.type}:"):
            self.device = torch.device(comm.device)
        self.row_bytes = D * dtype.itemsize
        # every slot begins at a multiple of 16 bytes, which is a multiple of an element
        self.slot_bytes = -(-max_recv_tokens_per_peer * self.row_bytes // 16) * 16
        if max(self.slot_bytes, max_input_tokens * self.row_bytes) > MOST_BYTES:
            raise ValueError(f"a message or send buffer of more than {MOST_BYTES} bytes is not "
                             "supported: use fewer tokens per call")
        self._state: Optional[AlltoallvState] = None
        self._window: Optional[Window] = None

    # ---- setup and teardown

    def setup(self) -> "AlltoallvOp":
        """Makes buffers and window, and compiles the kernels. [C]  Returns the op."""
        if self._state is not None:
            raise RuntimeError("setup: the op is already set up; call teardown() first")
        self._agree_arguments()
        self.comm.connect([r for r in range(self.comm.size) if self.comm.peer_kind(r) == "none"])
        self._agree(self._allocate)
        self._window = Window(self.comm, self._recv, signals=SIGNALS, counters=0, barriers=0)
        try:
            state = AlltoallvState(self.comm, self._window, self.device)
            self._agree(lambda: self._prepare(state))
        except Exception:
            self.teardown()  # every rank comes here, or none
            raise
        self._state = state
        return self

    def _agree(self, step: Callable[[], None]) -> None:
        """Takes a step of this rank.  If it fails on one rank, all ranks raise."""
        problem = None
        try:
            step()
        except Exception as raised:  # any: it must reach the other ranks
            problem = raised
        self.comm._agree("AlltoallvOp.setup", problem)

    def _allocate(self) -> None:
        elements = self.comm.size * self.slot_bytes // self.dtype.itemsize
        self._recv = empty((elements,), self.dtype, self.comm, like="torch")
        self._send = empty((self.max_input_tokens * self.D,), self.dtype, self.comm, like="torch")

    def _prepare(self, state: AlltoallvState) -> None:
        """Compiles for all sizes: no call compiles while ranks wait or a graph is captured."""
        self._source = self._window.register_local_buffer(self._send)
        row = torch.zeros((1, self.D), dtype=self.dtype, device=self.device)
        self._fill(row, 1)
        for dtype in (torch.int32, torch.int64):
            splits = torch.zeros(self.comm.size, dtype=dtype, device=self.device)
            tokens = self.max_input_tokens
            while tokens:
                self._plan_for(state, self._message(splits, splits), tokens)
                tokens //= 2
            self._pack(state, splits, 1, row)  # the splits do not add up to 1: it records that
        state.words.zero_()
        torch.cuda.synchronize(self.device)

    def _agree_arguments(self) -> None:
        """Raises on all ranks if the arguments of one are bad or differ from those of rank 0."""
        problem = None
        if self.comm.device == "cpu" or torch.device(self.comm.device) != self.device:
            problem = ValueError(f"device {self.device}: the comm is on {self.comm.device}; use a "
                                 "comm on that GPU (ORIEL_DEVICE=cuda or device=\"cuda\")")
        self.comm._agree("AlltoallvOp.setup", problem)
        mine = struct.pack("<qqq32s", self.max_recv_tokens_per_peer, self.D, self.sync_buffer,
                           str(self.dtype).encode())
        for rank, other in enumerate(self.comm.allgather(mine)):
            if other != mine:
                theirs = struct.unpack("<qqq32s", other)
                raise ValueError(
                    f"setup: rank {rank} has max_recv_tokens_per_peer {theirs[0]}, D {theirs[1]}, "
                    f"sync_buffer {bool(theirs[2])}, {theirs[3].rstrip(bytes(1)).decode()}; rank "
                    f"{self.comm.rank} has {self.max_recv_tokens_per_peer}, {self.D}, "
                    f"{self.sync_buffer}, {self.dtype}: use the same on all ranks")

    def teardown(self) -> None:
        """Frees what setup() made. [C]  May be repeated.

        Waits for this GPU, then for all ranks: no rank may still write into a buffer that goes.
        Graphs that contain calls of the op must not be replayed afterwards.
        """
        if self._window is None:
            return
        self._state = None
        torch.cuda.synchronize(self.device)
        self._window.close()  # meets all ranks first, unless the comm has failed
        self._window = None
        del self._recv, self._send

    @property
    def is_set_up(self) -> bool:
        """Has setup() been called, and neither the op nor the comm ended since?"""
        return self._state is not None and self._window is not None and not self._window.closed

    def __enter__(self) -> "AlltoallvOp":
        return self if self._state is not None else self.setup()

    def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> None:
        # after an exception other ranks may not come; the comm ends the window later
        if kind is None:
            self.teardown()

    @classmethod
    def get_or_create(
        cls,
        comm: Any,
        max_input_tokens: int,
        D: int,
        dtype: torch.dtype,
        device: Any,
        max_recv_tokens_per_peer: int,
        sync_buffer: bool = True,
    ) -> "AlltoallvOp":
        """The op with these arguments, set up.  Equal arguments give the same op. [C]

        The op lives until clear_cache(), or until its comm is closed.
        """
        key = (max_input_tokens, D, dtype, torch.device(device), max_recv_tokens_per_peer,
               bool(sync_buffer))
        op = op_cache.find(comm, key)
        if op is None or not op.is_set_up:
            op = cls(comm, *key).setup()
            op_cache.keep(comm, key, op)
        return op

    @classmethod
    def clear_cache(cls, comm: Any = None) -> None:
        """Tears down the ops of get_or_create(), of one comm or of all, oldest first. [C]"""
        for op in op_cache.take(comm):
            op.teardown()

    # ---- buffers

    def get_send_buffer(self, num_tokens: Optional[int] = None) -> torch.Tensor:
        """The first rows of the send buffer: what alltoallv_from_buffer() sends, without a copy."""
        self._live("get_send_buffer")
        count = self.max_input_tokens if num_tokens is None else num_tokens
        self._check_tokens("get_send_buffer", count)
        return self._send[: count * self.D].view(count, self.D)

    def fill_send_buffer(self, tokens: torch.Tensor, num_tokens: Optional[int] = None) -> None:
        """Copies the first num_tokens rows (None: all) to the start of the send buffer."""
        self._live("fill_send_buffer")
        self._check_rows("fill_send_buffer", tokens)
        count = tokens.shape[0] if num_tokens is None else num_tokens
        self._check_tokens("fill_send_buffer", count)
        if count > tokens.shape[0]:
            raise ValueError(f"fill_send_buffer: num_tokens {count}, but the tensor has "
                             f"{tokens.shape[0]} rows")
        if count:
            self._fill(tokens, count)

    def _fill(self, tokens: torch.Tensor, count: int) -> None:
        start, to, units = self._units(tokens, self._send)
        with torch.cuda.device(self.device):
            copy_kernel[(-(-units * count // _COPY_BLOCK),)](to, start, units * count,
                                                            BLOCK=_COPY_BLOCK)

    def slots(self) -> torch.Tensor:
        """The receive buffer: [rank, row, element].  Row i of slot s is valid below the split."""
        self._live("slots")
        shape = (self.comm.size, self.max_recv_tokens_per_peer, self.D)
        return self._recv.as_strided(shape, (self.slot_bytes // self.dtype.itemsize, self.D, 1))

    # ---- calls

    def alltoallv(
        self,
        input: torch.Tensor,
        output_splits: torch.Tensor,
        input_splits: torch.Tensor,
        packed_output_tokens: Optional[int] = None,
        out: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        """Copies `input` into the send buffer, then alltoallv_from_buffer()."""
        self.fill_send_buffer(input)
        return self.alltoallv_from_buffer(output_splits, input_splits, input.shape[0],
                                          packed_output_tokens, out)

    def alltoallv_from_buffer(
        self,
        output_splits: torch.Tensor,
        input_splits: torch.Tensor,
        num_input_tokens: Optional[int] = None,
        packed_output_tokens: Optional[int] = None,
        out: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        """Sends rows of the send buffer: input_splits[p] rows to rank p, in rank order. [C]

        output_splits[s] is the number of rows that rank s sends to this rank.  Both are int32 or
        int64 tensors in device memory, which the kernel reads.  num_input_tokens is the sum of
        input_splits, if the caller knows it: the tuner uses it.

        Without packed_output_tokens the result is slots(): a view that is valid until the next
        call.  With it, the sum of output_splits, the rows are packed in rank order into `out`, or
        into a new tensor.

        The call is one launch, and one more for packing, on torch's current stream.  After it the
        send buffer may be written.  Splits beyond the capacity, or that differ between the ranks of
        a pair, do not raise here: the host does not see them.  status() and check() report them.
        """
        state = self._live("alltoallv")
        for name, splits in (("output_splits", output_splits), ("input_splits", input_splits)):
            self._check_splits(name, splits)
        if output_splits.dtype != input_splits.dtype:  # no kernel is compiled for a mixture
            output_splits, input_splits = output_splits.long(), input_splits.long()
        if num_input_tokens is not None:
            self._check_tokens("alltoallv", num_input_tokens)
        message = self._message(input_splits, output_splits)
        plan = self._plan_for(state, message, num_input_tokens or self.max_input_tokens)
        state.launch(message, plan, self._source, self.sync_buffer)
        if packed_output_tokens is None:
            return self.slots()
        return self._pack(state, output_splits, packed_output_tokens, out)

    def _message(self, input_splits: torch.Tensor, output_splits: torch.Tensor) -> Message:
        return Message(
            splits=True, send_sizes=input_splits, recv_sizes=output_splits,
            row_bytes=self.row_bytes, slot_rows=self.max_recv_tokens_per_peer,
            send_limit=self.max_input_tokens, slot_bytes=self.slot_bytes,
            most_bytes=self.slot_bytes)

    def _plan_for(self, state: AlltoallvState, message: Message, tokens: int) -> Plan:
        """The tuner's plan for messages of average size."""
        return state.tuned(message, tokens * self.row_bytes // self.comm.size, self.sync_buffer)

    def _pack(self, state: AlltoallvState, splits: torch.Tensor, rows: int,
              out: Optional[torch.Tensor]) -> torch.Tensor:
        """Copies the rows of all slots into one tensor, without gaps."""
        world = self.comm.size
        if not 0 <= rows <= world * self.max_recv_tokens_per_peer:
            raise ValueError(f"packed_output_tokens {rows}: must be 0 to {world} ranks x "
                             f"{self.max_recv_tokens_per_peer} tokens")
        if out is None:
            out = torch.empty((rows, self.D), dtype=self.dtype, device=self.device)
        else:
            self._check_rows("out", out)
            if out.shape[0] != rows:
                raise ValueError(f"out has {out.shape[0]} rows, packed_output_tokens is {rows}")
        if rows == 0:
            return out
        slots, to, units = self._units(self._recv, out)
        unit = self.row_bytes // units
        with torch.cuda.device(self.device):
            pack_kernel[(world, _PACK_PROGRAMS)](
                to, slots, splits, state.words, rows, state.rank,
                ROW_UNITS=units, SLOT_UNITS=self.slot_bytes // unit,
                SLOT_ROWS=self.max_recv_tokens_per_peer, WORLD=world,
                LANES=next_power_of_two(world), BLOCK=_COPY_BLOCK, MISMATCH=_MISMATCH)
        return out

    def _units(self, start: torch.Tensor,
               to: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, int]:
        """Both tensors as integers, the widest that divide a row; and how many a row has."""
        width = next(w for w in (8, 4, 2, 1) if self.row_bytes % w == 0
                     and start.data_ptr() % w == 0 and to.data_ptr() % w == 0)
        kind = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[width]

        def integers(tensor: torch.Tensor) -> torch.Tensor:
            flat = tensor.reshape(-1).view(torch.int8)
            return flat[: flat.numel() // width * width].view(kind)

        return integers(start), integers(to), self.row_bytes // width

    # ---- what happened

    def status(self) -> int:
        """0, or the status of the first failure since the last status() or check().

        Waits for the current stream.
        """
        found = self._failure()
        return found.status if found is not None else 0

    def check(self) -> None:
        """Raises oriel.Error for that failure, with its rank and what to do."""
        self._live("check").check()

    def kernel_calls(self) -> int:
        """How many calls the Triton kernel has counted in device memory since setup()."""
        return self._live("kernel_calls").calls()

    def _failure(self) -> Optional[Failure]:
        return self._live("status").failure()

    # ---- checks

    def _live(self, call: str) -> AlltoallvState:
        if self._state is None:
            raise RuntimeError(f"{call}: the op is not set up; call setup() on all ranks first")
        if not self.is_set_up:
            raise RuntimeError(f"{call}: the comm of the op was closed; make a new op")
        return self._state

    def _check_tokens(self, call: str, count: int) -> None:
        if not 0 <= count <= self.max_input_tokens:
            raise ValueError(f"{call}: {count} tokens, but max_input_tokens is "
                             f"{self.max_input_tokens}: send fewer, or create a larger op")

    def _check_rows(self, call: str, tokens: torch.Tensor) -> None:
        if tokens.dim() != 2 or tokens.shape[1] != self.D or tokens.dtype != self.dtype:
            raise ValueError(f"{call}: the tensor is {tokens.dtype} of shape "
                             f"{tuple(tokens.shape)}; it must be {self.dtype} of shape "
                             f"(tokens, {self.D})")
        if tokens.device != self.device or not tokens.is_contiguous():
            raise ValueError(f"{call}: the tensor must be contiguous on {self.device}; use "
                             f".to({str(self.device)!r}).contiguous()")

    def _check_splits(self, name: str, splits: torch.Tensor) -> None:
        world = self.comm.size
        if not isinstance(splits, torch.Tensor) or splits.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name}: must be an int32 or int64 tensor with one number of tokens "
                             "per rank")
        if tuple(splits.shape) != (world,) or not splits.is_contiguous():
            raise ValueError(f"{name}: shape {tuple(splits.shape)}; must be contiguous with "
                             f"{world} elements, one per rank")
        if splits.device != self.device:
            raise ValueError(f"{name}: on {splits.device}; the kernel reads it on {self.device}: "
                             f"use .to({str(self.device)!r})")
