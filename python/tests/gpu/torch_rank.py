# SPDX-License-Identifier: BSD-3-Clause
"""One rank of the backend "oriel" with tensors on a GPU.

    torchrun --nproc-per-node 4 -m tests.gpu.torch_rank [--device cpu]

Every collective is compared with a model of all ranks' data, synchronously and with async_op.
Rank 0 prints a line per case.  The first failure ends the program.
"""
from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist

import oriel.torch  # noqa: F401  (registers the backend)

SIZES = (1, 7, 4096, 1_000_003)
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8)
OPS = {"SUM": torch.sum, "MIN": torch.amin, "MAX": torch.amax}


class Ranks:
    """The ranks, and data that every rank can compute for all of them."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank, self.size = device, dist.get_rank(), dist.get_world_size()

    def data(self, rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Small whole numbers, exact in every dtype."""
        numbers = (torch.arange(count, device=self.device) * 7 + rank * 3) % 5 + 1
        return numbers.to(dtype)

    def everyone(self, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.stack([self.data(rank, count, dtype) for rank in range(self.size)])


def same(got: torch.Tensor, want: torch.Tensor, what: object) -> None:
    assert got.dtype == want.dtype and torch.equal(got, want), (what, got, want)


def all_reduce(r: Ranks) -> None:
    for count in SIZES:
        for dtype in DTYPES:
            for name, model in OPS.items():
                mine = r.data(r.rank, count, dtype)
                dist.all_reduce(mine, getattr(dist.ReduceOp, name))
                same(mine, model(r.everyone(count, dtype).double(), 0).to(dtype), (name, count))


def broadcast(r: Ranks) -> None:
    for count in SIZES:
        root = count % r.size
        mine = r.data(r.rank, count)
        dist.broadcast(mine, root)
        same(mine, r.data(root, count), count)


def gathers(r: Ranks) -> None:
    for count in SIZES:
        flat = torch.empty(r.size * count, device=r.device)
        dist.all_gather_into_tensor(flat, r.data(r.rank, count))
        same(flat, r.everyone(count).view(-1), count)
        parts = [torch.empty(count, device=r.device) for _ in range(r.size)]
        dist.all_gather(parts, r.data(r.rank, count))
        same(torch.stack(parts), r.everyone(count), count)


def reduce_scatter(r: Ranks) -> None:
    for count in SIZES:
        out = torch.empty(count, device=r.device)
        dist.reduce_scatter_tensor(out, r.data(r.rank, r.size * count))
        total = r.everyone(r.size * count).sum(0)
        same(out, total[r.rank * count:(r.rank + 1) * count], count)


def all_to_all(r: Ranks) -> None:
    """Rank s sends s + d + 1 times `unit` elements to rank d."""
    for unit in (1, 1000, 50_000):
        leave = [(r.rank + d + 1) * unit for d in range(r.size)]
        arrive = [(s + r.rank + 1) * unit for s in range(r.size)]
        rows = [r.data(10 * r.rank + d, n) for d, n in enumerate(leave)]
        out = torch.empty(sum(arrive), device=r.device)
        dist.all_to_all_single(out, torch.cat(rows), arrive, leave)
        want = torch.cat([r.data(10 * s + r.rank, n) for s, n in enumerate(arrive)])
        same(out, want, unit)


def messages(r: Ranks) -> None:
    right, left = (r.rank + 1) % r.size, (r.rank - 1) % r.size
    for count in SIZES:
        got = torch.empty(count, device=r.device)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, r.data(r.rank, count), right),
                                        dist.P2POp(dist.irecv, got, left)])
        for work in works:
            work.wait()
        same(got, r.data(left, count), count)


def asynchronous(r: Ranks) -> None:
    """Works in flight together, and what follows wait() on the current stream sees the result."""
    tensors = [r.data(r.rank, 100_000 + i) for i in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i, (tensor, work) in enumerate(zip(tensors, works)):
        work.wait()
        same(tensor * 2, r.everyone(100_000 + i).sum(0) * 2, i)


CASES = (all_reduce, broadcast, gathers, reduce_scatter, all_to_all, messages, asynchronous)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    device = torch.device(parser.parse_args().device)
    torch.set_num_threads(1)  # several ranks share the processors
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("oriel")
    ranks = Ranks(device)
    for case in CASES:
        start = time.monotonic()
        case(ranks)
        dist.barrier()
        if ranks.rank == 0:
            print(f"passed {case.__name__} {time.monotonic() - start:.2f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
