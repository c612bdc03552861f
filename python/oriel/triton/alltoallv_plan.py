# SPDX-License-Identifier: BSD-3-Clause
"""Plans of the Triton all-to-all-v: blocks, warps and chunks, within what fits on the GPU.

The numbers come from the library's tuner (oriel_alltoallv_plan), which has the only table.  This
file adapts them: Triton needs a power of two as number of warps, and its kernels need other
registers than those of the library.  Nothing here uses a GPU.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence, Tuple

MOST_BLOCKS = 64  # per peer; alltoallv_kernels.MOST
MOST_WARPS = 16  # an H200 copies as fast with 512 threads as with 1024, which spill registers
MOST_BYTES = 1 << 34  # of one message; shares are computed in 32-bit units of 16 bytes
# A GPU tests for failures between the chunks that it copies to a mapped peer.  Smaller chunks
# only cost time there.
MAPPED_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the tuner says for one kind of peer."""

    blocks: int
    warps: int
    chunk: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """How one call is launched.  It affects speed only: ranks may use different plans."""

    blocks: int  # the most of any peer
    warps: int
    chunk: int  # of all peers, if they do not differ
    peer_blocks: Optional[Tuple[int, ...]]  # None: `blocks` for each
    peer_chunks: Optional[Tuple[int, ...]]
    programs: int  # of the launch; fewer than items: each program executes several

    def in_turn(self, world: int) -> bool:
        return self.programs < self.blocks * world


def power_of_two(n: int, most: int) -> int:
    """The largest power of two that is neither above n nor above `most`."""
    return 1 << (max(1, min(n, most)).bit_length() - 1)


def blocks_on_sm(registers: int, warps: int, sm_registers: int = 65536,
                 sm_threads: int = 2048, sm_blocks: int = 32) -> int:
    """How many blocks of a kernel an SM holds at once, by registers and threads."""
    per_warp = -(-registers * 32 // 256) * 256  # the hardware gives registers to warps in 256s
    by_registers = sm_registers // (per_warp * warps) if registers else sm_blocks
    return max(0, min(by_registers, sm_threads // (32 * warps), sm_blocks))


def room_for(blocks_each: int, sms_here: int, sms_all: int, ranks_here: int,
             ranks_all: int) -> int:
    """How many blocks one rank may launch so that those of all ranks of the GPU run at once.

    A process under MPS may have a share of the SMs only (sms_here).
    """
    return min(blocks_each * sms_here // ranks_here, blocks_each * sms_all // ranks_all)


def fit(settings: Sequence[Setting], peer_blocks: Optional[Sequence[int]],
        room: Callable[[Plan], int]) -> Plan:
    """The plan for peers with these settings, one per rank, self included.

    peer_blocks replaces the blocks of the settings.  room(plan) is the number of blocks of a launch
    that run at once, for the kernel of that plan.  If not even one block per peer fits, programs
    execute several items in turn.
    """
    world = len(settings)
    wanted = list(peer_blocks) if peer_blocks is not None else [s.blocks for s in settings]
    plan = _plan(settings, wanted, MOST_BLOCKS)
    most = min(MOST_BLOCKS, room(plan) // world)
    if most >= 1:
        return _plan(settings, wanted, most)
    plan = dataclasses.replace(_plan(settings, wanted, 1), programs=1)
    programs = min(world, room(plan))
    if programs < 1:
        raise RuntimeError(
            f"the GPU has no room for a block of {32 * plan.warps} threads for each of its ranks: "
            "use fewer ranks per GPU"
        )
    return dataclasses.replace(plan, programs=programs)


def _plan(settings: Sequence[Setting], wanted: Sequence[int], most: int) -> Plan:
    """A plan with at most `most` blocks per peer, and a program for each item."""
    blocks = [max(1, min(own, most)) for own in wanted]
    chunks = [max(16, s.chunk // 16 * 16) for s in settings]
    alike = len(set(blocks)) == 1 and len(set(chunks)) == 1
    return Plan(
        blocks=max(blocks),
        warps=power_of_two(max(s.warps for s in settings), MOST_WARPS),
        chunk=max(chunks),
        peer_blocks=None if alike else tuple(blocks),
        peer_chunks=None if alike else tuple(chunks),
        programs=max(blocks) * len(settings),
    )
