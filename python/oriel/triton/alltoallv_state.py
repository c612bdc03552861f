# SPDX-License-Identifier: BSD-3-Clause
"""The state of a Triton all-to-all-v on one window: counts, peers, plans, launches, failures.

alltoallv.py and op.py call it.  Everything that the kernels write lies in one tensor of device
memory (`words`).  The host reads it only when the program asks.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .. import _c
from . import alltoallv_kernels as kernels
from . import extern_libs, gpu_room
from .alltoallv_plan import (
    MAPPED_CHUNK, MOST_BLOCKS, Plan, Setting, blocks_on_sm, fit, room_for,
)

SIGNALS = kernels.SIGNALS  # that the window of a state must have

_CALLS = kernels.CALLS_WORD.value
_MOST = kernels.MOST.value
_STATUS = kernels.STATUS_WORD
assert _MOST == MOST_BLOCKS


@dataclasses.dataclass(frozen=True)
class Message:
    """What one launch exchanges: arrays in device memory and their limits."""

    splits: bool  # sizes are rows; else bytes
    send_sizes: torch.Tensor
    recv_sizes: torch.Tensor
    send_offsets: Optional[torch.Tensor] = None
    slot_offsets: Optional[torch.Tensor] = None
    write_offsets: Optional[torch.Tensor] = None
    row_bytes: int = 1
    slot_rows: int = 0
    send_limit: int = 0
    recv_limit: int = 0
    slot_bytes: int = 0
    most_bytes: int = 0  # that one message may have

    @property
    def variant(self) -> Tuple[bool, torch.dtype, torch.dtype]:
        """What a kernel is compiled for, as far as the message decides it."""
        return self.splits, self.send_sizes.dtype, self.recv_sizes.dtype


@dataclasses.dataclass(frozen=True)
class Failure:
    """The first failure of a state's calls."""

    status: int
    rank: int
    call: int

    @property
    def repairable(self) -> bool:
        """Bad sizes fail one call; the next one works."""
        return self.status in (_c.STATUSES["ERANGE"], _c.STATUSES["EMISMATCH"])


def next_power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


class AlltoallvState:
    """What the calls on one window share.

    comm, window: the window's buffer is the receive buffer of the calls.  It needs SIGNALS signals,
    which nothing else may use.  All ranks make a state for the window, in the same order.  All
    ranks then make the same calls on it, one at a time.  The constructor is collective.
    """

    def __init__(self, comm: Any, window: Any, device: Any = None) -> None:
        self.comm, self.window = comm, window
        self.rank, self.world = comm.rank, comm.size
        self._plans: Dict[Any, Plan] = {}
        self._arrays: Dict[Plan, Tuple[torch.Tensor, torch.Tensor]] = {}
        self._rooms: Dict[Any, int] = {}
        problem, gpu = None, ""
        try:
            self.device = torch.device(device if device is not None else comm.device)
            gpu = gpu_room.gpu_name(self.device)
            self.words = torch.zeros(_CALLS + self.world * _MOST, dtype=torch.int64,
                                     device=self.device)
            self.libs = extern_libs()
        except Exception as raised:  # any: it must reach the other ranks
            problem = raised
        comm._agree("AlltoallvState", problem)
        self._ranks_here, self._ranks_all = gpu_room.sharers(comm, gpu)
        comm.alltoallv_plan(0, agree=True)
        self.queued = [comm.peer_kind(r) == "queued" for r in range(self.world)]

    # ---- the GPU and its room

    def prepare(self, message: Message, plan: Plan, sync: bool) -> Any:
        """Compiles and loads the kernel that a launch with this plan uses."""
        compiled = self._kernel(plan).warmup(
            *self._arguments(message, plan, 0), grid=(1,), num_warps=plan.warps,
            extern_libs=self.libs, **self._constants(message, plan, sync))
        compiled._init_handles()
        return compiled

    def room(self, message: Message, plan: Plan, sync: bool) -> int:
        """How many blocks this rank may launch so that those of all ranks run at once."""
        per_peer = plan.peer_blocks is not None
        key = (plan.warps, plan.in_turn(self.world), per_peer, sync, message.variant)
        if key not in self._rooms:
            gpu = torch.cuda.get_device_properties(self.device)
            blocks = blocks_on_sm(self.prepare(message, plan, sync).n_regs, plan.warps,
                                  gpu.regs_per_multiprocessor,
                                  gpu.max_threads_per_multi_processor)
            here, whole = gpu_room.sms(self.device)
            self._rooms[key] = room_for(blocks, here, whole, self._ranks_here, self._ranks_all)
        return self._rooms[key]

    # ---- plans

    def settings(self, bytes_per_peer: int) -> List[Setting]:
        """The tuner's setting for each peer."""
        plan = self.comm.alltoallv_plan(bytes_per_peer)
        mapped = Setting(plan.mapped.blocks, plan.mapped.warps,
                         max(plan.mapped.chunk_bytes, MAPPED_CHUNK))
        queued = Setting(*plan.queued)
        return [queued if is_queued else mapped for is_queued in self.queued]

    def tuned(self, message: Message, bytes_per_peer: int, sync: bool) -> Plan:
        """The plan of the library's tuner for messages of about this size."""
        key = (max(0, bytes_per_peer - 1).bit_length(), sync, message.variant)
        if key not in self._plans:
            size = min(1 << key[0], message.most_bytes or 1 << key[0])
            self._plans[key] = self._fit(message, self.settings(size), None, sync)
        return self._plans[key]

    def given(self, message: Message, blocks: int, warps: int, chunk: int,
              peer_blocks: Optional[Sequence[int]], sync: bool) -> Plan:
        """A plan with the caller's numbers, as far as they fit."""
        key = (blocks, warps, chunk, tuple(peer_blocks or ()), sync, message.variant)
        if key not in self._plans:
            mapped = Setting(blocks, warps, max(chunk, MAPPED_CHUNK))
            each = [Setting(blocks, warps, chunk) if q else mapped for q in self.queued]
            self._plans[key] = self._fit(message, each, peer_blocks, sync)
        return self._plans[key]

    def _fit(self, message: Message, settings: List[Setting],
             peer_blocks: Optional[Sequence[int]], sync: bool) -> Plan:
        plan = fit(settings, peer_blocks, lambda trial: self.room(message, trial, sync))
        self.prepare(message, plan, sync)
        return plan

    def _peer_arrays(self, plan: Plan) -> Tuple[torch.Tensor, torch.Tensor]:
        """The plan's numbers per peer in device memory."""
        if plan.peer_blocks is None or plan.peer_chunks is None:
            return self.words, self.words  # not read
        if plan not in self._arrays:
            self._arrays[plan] = (
                torch.tensor(plan.peer_blocks, dtype=torch.int32, device=self.device),
                torch.tensor(plan.peer_chunks, dtype=torch.int64, device=self.device),
            )
        return self._arrays[plan]

    # ---- launching

    def _kernel(self, plan: Plan) -> Any:
        return kernels.exchange_in_turn if plan.in_turn(self.world) else kernels.exchange

    def _constants(self, message: Message, plan: Plan, sync: bool) -> Dict[str, Any]:
        return dict(WORLD=self.world, LANES=next_power_of_two(self.world), SPLITS=message.splits,
                    SYNC=sync, QUEUED=any(self.queued), PER_PEER=plan.peer_blocks is not None)

    def _arguments(self, message: Message, plan: Plan, source: int) -> Tuple[Any, ...]:
        unused = self.words
        peer_blocks, peer_chunks = self._peer_arrays(plan)
        return (
            self.window.device_handle, source, self.words, message.send_sizes,
            message.recv_sizes,
            unused if message.send_offsets is None else message.send_offsets,
            unused if message.slot_offsets is None else message.slot_offsets,
            unused if message.write_offsets is None else message.write_offsets,
            peer_blocks, peer_chunks, self.rank, plan.blocks, plan.chunk, message.row_bytes,
            message.slot_rows, message.send_limit, message.recv_limit, message.slot_bytes,
        )

    def launch(self, message: Message, plan: Plan, source: int, sync: bool) -> None:
        """Launches one exchange on torch's current stream."""
        with torch.cuda.device(self.device):
            self._kernel(plan)[(plan.programs,)](
                *self._arguments(message, plan, source), num_warps=plan.warps,
                extern_libs=self.libs, **self._constants(message, plan, sync))

    # ---- what the kernels report

    def calls(self) -> int:
        """How many calls the kernel has counted.  Waits for the current stream."""
        return int(self.words[_CALLS + self.rank * _MOST].item())

    def failure(self) -> Optional[Failure]:
        """The first failure since the last call of this function.  Waits for the current stream.

        A failure that makes the window unusable is returned every time.
        """
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("a status cannot be read while a graph is captured: ask afterwards")
        word = int(self.words[_STATUS].item())
        if not word:
            return None
        found = Failure(-(word & 0xFFFF), (word >> 16 & 0xFFFF) - 1, (word >> 32) - 1)
        if found.repairable:
            self.words[_STATUS] = 0
        return found

    def check(self) -> None:
        """Raises oriel.Error for the failure that failure() returns."""
        found = self.failure()
        if found is None:
            return
        status = 0 if found.repairable else self.window.status
        # the window's own text says who gave up, and what the late rank was doing
        raise error_for(found, self.rank, _c.error(status).cause if status else "")


def error_for(found: Failure, rank: int, cause: str = "") -> Exception:
    """The exception for a failure on this rank, with what to do."""
    names = {value: name for name, value in _c.STATUSES.items()}
    name = names.get(found.status, "EDEVICE")
    where = f"alltoallv, call {found.call}: " if found.call >= 0 else "alltoallv: "
    if name == "ERANGE":
        text = (f"the sizes of rank {found.rank} are negative or beyond the capacity, and it sent "
                "nothing: send less, or create the operation with more room")
    elif name == "EMISMATCH" and found.rank == rank:
        text = ("the output splits do not add up to packed_output_tokens: nothing was packed; pass "
                "their sum")
    elif name == "EMISMATCH":
        text = (f"rank {found.rank} and this rank disagree about sizes: what one sends must be "
                "what the other expects")
    elif name == "ETIMEDOUT":
        text = (f"rank {found.rank} did not come before the deadline (ORIEL_TIMEOUT): all ranks "
                "must make the same calls; tear the operation down")
    else:
        text = (f"the exchange with rank {found.rank} failed: the window is unusable; tear the "
                "operation down")
    return _c.fail(name, where + text + (f" ({cause})" if cause else ""), found.rank)
