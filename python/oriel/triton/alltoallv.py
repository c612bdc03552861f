# SPDX-License-Identifier: BSD-3-Clause
"""All-to-all-v by a Triton kernel, with sizes and offsets in device memory.

device_alltoallv_dynamic() is one launch.  It sends and receives, and can be captured into a CUDA
graph.  AlltoallvState has what calls on one window share.  oriel.triton.op.AlltoallvOp has buffers
and splits of tokens on top of it.  The protocol is in alltoallv_kernels.py.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from .alltoallv_plan import MOST_BLOCKS, MOST_BYTES, MOST_WARPS, power_of_two
from .alltoallv_rows import offsets_kernel
from .alltoallv_state import SIGNALS, AlltoallvState, Message, next_power_of_two

__all__ = ["SIGNALS", "AlltoallvState", "compute_offsets_from_sizes", "device_alltoallv_dynamic",
           "exchange_offsets"]


def _check_sizes(name: str, tensor: torch.Tensor, world: int, device: torch.device) -> None:
    if tensor.dtype != torch.int64 or tensor.dim() != 1 or tensor.numel() != world:
        raise ValueError(f"{name}: must be an int64 tensor of {world} elements, one per rank; "
                         f"it is {tensor.dtype} of shape {tuple(tensor.shape)}")
    if tensor.device.type != device.type or not tensor.is_contiguous():
        raise ValueError(f"{name}: must be contiguous on {device}; use .to({str(device)!r})"
                         ".contiguous()")


def device_alltoallv_dynamic(
    send_buf: torch.Tensor,
    recv_buf: torch.Tensor,
    send_sizes: torch.Tensor,
    send_offsets: torch.Tensor,
    recv_sizes: torch.Tensor,
    local_recv_slot_offsets: torch.Tensor,
    remote_write_offsets: torch.Tensor,
    dev_win_ptr: int,
    src_info: int,
    my_rank: int,
    world_size: int,
    num_warps: int = 16,
    blocks_per_peer: int = 1,
    chunk_size: int = 64 * 1024,
    auto_tune: bool = False,
    sync_buffer: bool = True,
    per_peer_blocks: Optional[Sequence[int]] = None,
    *,
    state: AlltoallvState,
    expect_bytes: Optional[int] = None,
) -> torch.Tensor:
    """Sends send_sizes[p] bytes at send_offsets[p] of send_buf to every rank p.

    The data arrives at remote_write_offsets[p] of p's receive buffer, which is the buffer of the
    window `dev_win_ptr`; the own part at local_recv_slot_offsets[my_rank].  recv_sizes[p] is what
    this rank expects from p.  Sizes and offsets are int64 tensors in device memory, in bytes.  The
    host does not read them, so the call can be captured.  0 is a size.

    src_info is window.register_local_buffer(send_buf).  `state` has the counts of the calls on
    this window.  The call runs on torch's current stream; after it, recv_buf may be read and
    send_buf written.

    num_warps, blocks_per_peer, chunk_size and per_peer_blocks affect speed only.  They may differ
    between calls and ranks, and are reduced to what fits on the GPU.  auto_tune=True takes them
    from the library's tuner for messages of expect_bytes.  Without expect_bytes it reads the sizes,
    which waits for the stream and cannot be captured.

    sync_buffer=False leaves out the handshake, which is faster.  Then data may arrive as soon as
    its sender makes the call.  The program must make sure that no rank calls again before all ranks
    have read.  Sizes are then not compared.

    A size or offset beyond a buffer is refused on all ranks: see AlltoallvState.check().
    """
    if (my_rank, world_size) != (state.rank, state.world):
        raise ValueError(f"my_rank {my_rank} of {world_size}: the state is of rank {state.rank} of "
                         f"{state.world}")
    if dev_win_ptr != state.window.device_handle:
        raise ValueError("dev_win_ptr: not the window of the state; pass window.device_handle")
    for name, tensor in (("send_sizes", send_sizes), ("send_offsets", send_offsets),
                         ("recv_sizes", recv_sizes),
                         ("local_recv_slot_offsets", local_recv_slot_offsets),
                         ("remote_write_offsets", remote_write_offsets)):
        _check_sizes(name, tensor, world_size, state.device)
    check_numbers(num_warps, blocks_per_peer, chunk_size, per_peer_blocks, world_size)
    send_bytes = send_buf.numel() * send_buf.element_size()
    recv_bytes = recv_buf.numel() * recv_buf.element_size()
    if max(send_bytes, recv_bytes) > MOST_BYTES:
        raise ValueError(f"buffers of more than {MOST_BYTES} bytes are not supported: split them")
    message = Message(
        splits=False, send_sizes=send_sizes, recv_sizes=recv_sizes, send_offsets=send_offsets,
        slot_offsets=local_recv_slot_offsets, write_offsets=remote_write_offsets,
        send_limit=send_bytes, recv_limit=recv_bytes, most_bytes=min(send_bytes, recv_bytes))
    if auto_tune:
        if expect_bytes is None:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("auto_tune in a graph: pass expect_bytes, the bytes of the "
                                   "largest message; sizes cannot be read while capturing")
            expect_bytes = int(send_sizes.max().item())
        plan = state.tuned(message, expect_bytes, sync_buffer)
    else:
        plan = state.given(message, blocks_per_peer, num_warps, chunk_size, per_peer_blocks,
                           sync_buffer)
    state.launch(message, plan, src_info, sync_buffer)
    return recv_buf


def check_numbers(num_warps: int, blocks_per_peer: int, chunk_size: int,
                  per_peer_blocks: Optional[Sequence[int]], world: int) -> None:
    """Raises ValueError for numbers that no launch can have."""
    if num_warps < 1 or power_of_two(num_warps, 32) != num_warps:
        raise ValueError(f"num_warps {num_warps}: must be a power of two from 1 to 32; more than "
                         f"{MOST_WARPS} are not faster")
    if not 1 <= blocks_per_peer <= MOST_BLOCKS:
        raise ValueError(f"blocks_per_peer {blocks_per_peer}: must be 1 to {MOST_BLOCKS}")
    if chunk_size < 16 or chunk_size % 16:
        raise ValueError(f"chunk_size {chunk_size}: must be a multiple of 16 bytes, at least 16")
    if per_peer_blocks is not None:
        if len(per_peer_blocks) != world:
            raise ValueError(f"per_peer_blocks has {len(per_peer_blocks)} entries: must have one "
                             f"per rank, {world}")
        if not all(1 <= blocks <= MOST_BLOCKS for blocks in per_peer_blocks):
            raise ValueError(f"per_peer_blocks {list(per_peer_blocks)}: each must be 1 to "
                             f"{MOST_BLOCKS}")


def compute_offsets_from_sizes(sizes: torch.Tensor) -> torch.Tensor:
    """Exclusive sums of sizes, as int64 on the same device.  `sizes` is not changed."""
    if sizes.dtype not in (torch.int32, torch.int64) or sizes.dim() != 1:
        raise ValueError("sizes: must be a one-dimensional int32 or int64 tensor; it is "
                         f"{sizes.dtype} of shape {tuple(sizes.shape)}")
    wide = sizes.to(torch.int64)
    if sizes.device.type != "cuda" or sizes.numel() > 1 << 16:
        return torch.cumsum(wide, 0) - wide
    offsets = torch.empty_like(wide)
    if sizes.numel():
        with torch.cuda.device(sizes.device):
            offsets_kernel[(1,)](sizes.contiguous(), offsets, sizes.numel(),
                                 LANES=next_power_of_two(sizes.numel()))
    return offsets


def exchange_offsets(local: torch.Tensor, comm: Any) -> torch.Tensor:
    """remote_write_offsets: entry p is where rank p wants the data of this rank.

    local is local_recv_slot_offsets.  Collective.  Offsets that stay the same need one exchange.
    """
    if local.dtype != torch.int64 or local.dim() != 1 or local.numel() != comm.size:
        raise ValueError(f"local: must be an int64 tensor of {comm.size} elements, one per rank; "
                         f"it is {local.dtype} of shape {tuple(local.shape)}")
    mine = b"".join(int(offset).to_bytes(8, "little", signed=True) for offset in local.tolist())
    rows = comm.allgather(mine)
    at = 8 * comm.rank
    column = [int.from_bytes(row[at:at + 8], "little", signed=True) for row in rows]
    return torch.tensor(column, dtype=torch.int64, device=local.device)
