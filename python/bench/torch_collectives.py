# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of torch.distributed on the CPU: the backends oriel and gloo in one run.

    python3 bench/torch_collectives.py [--ranks 2 8] [--rounds 15]

Every round measures each backend once, in alternating order.  A row shows the median over the
rounds of the slowest rank's time per call, and the spread: the 10 % and 90 % quantiles.  All data
is checked.  The size is that of a rank's input tensor.
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from typing import Callable

import torch
import torch.distributed as dist

import oriel.torch  # noqa: F401  (registers the backend)

SIZES = (1 << 10, 64 << 10, 4 << 20)
BACKENDS = ("oriel", "gloo")
SECONDS_PER_ROUND = 0.05


class Case:
    """A collective of one size on one group, with its check."""

    def __init__(self, name: str, nbytes: int, group: dist.ProcessGroup) -> None:
        self.group, self.ranks, self.rank = group, dist.get_world_size(), dist.get_rank()
        self.count = nbytes // 4
        self.tensor = torch.zeros(self.count)
        self.out = torch.empty(self.count * (self.ranks if name == "all_gather" else 1))
        self.call: Callable[[], object] = getattr(self, name)
        self.check: Callable[[], None] = getattr(self, "check_" + name)

    def all_reduce(self) -> None:
        """Sum over all ranks, in place."""
        dist.all_reduce(self.tensor, group=self.group)

    def all_gather(self) -> None:
        """Blocks of all ranks."""
        dist.all_gather_into_tensor(self.out, self.tensor, group=self.group)

    def all_to_all(self) -> None:
        """A block for every rank."""
        dist.all_to_all_single(self.out, self.tensor, group=self.group)

    def check_all_reduce(self) -> None:
        """The sum of the ranks' numbers."""
        self.tensor.fill_(self.rank + 1.0)
        self.all_reduce()
        assert bool((self.tensor == self.ranks * (self.ranks + 1) / 2).all())
        self.tensor.zero_()

    def check_all_gather(self) -> None:
        """Every rank's number in its block."""
        self.tensor.fill_(self.rank + 1.0)
        self.all_gather()
        for rank, block in enumerate(self.out.view(self.ranks, -1)):
            assert bool((block == rank + 1).all())

    def check_all_to_all(self) -> None:
        """What each rank had for this one."""
        for to, block in enumerate(self.tensor.view(self.ranks, -1)):
            block.fill_(self.rank * 100.0 + to)
        self.all_to_all()
        for source, block in enumerate(self.out.view(self.ranks, -1)):
            assert bool((block == source * 100 + self.rank).all())

    def timed(self, calls: int) -> float:
        """Microseconds per call."""
        dist.barrier(group=self.group)
        start = time.perf_counter()
        for _ in range(calls):
            self.call()
        return 1e6 * (time.perf_counter() - start) / calls


def measure(name: str, nbytes: int, groups: dict[str, dist.ProcessGroup],
            rounds: int) -> dict[str, list[float]]:
    """The times of both backends, round by round; the slowest rank counts."""
    cases = {backend: Case(name, nbytes, groups[backend]) for backend in BACKENDS}
    calls = {}
    for backend, case in cases.items():
        case.check()
        first = torch.tensor([case.timed(3)])
        dist.all_reduce(first, dist.ReduceOp.MAX)
        calls[backend] = max(3, int(1e6 * SECONDS_PER_ROUND / first.item()))
    times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for turn in range(rounds):
        for backend in BACKENDS if turn % 2 else reversed(BACKENDS):
            slowest = torch.tensor([cases[backend].timed(calls[backend])])
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            times[backend].append(slowest.item())
    for case in cases.values():
        case.check()
    return times


def cell(times: list[float]) -> str:
    """Median and spread."""
    low, *_, high = statistics.quantiles(times, n=10)
    return f"{statistics.median(times):.0f} ({low:.0f} to {high:.0f})"


def run_rank(rank: int, ranks: int, rounds: int, file: str) -> None:
    """One process of the job.  Rank 0 prints."""
    torch.set_num_threads(1)
    dist.init_process_group("oriel", init_method=f"file://{file}", rank=rank, world_size=ranks)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    for name in ("all_reduce", "all_gather", "all_to_all"):
        for nbytes in SIZES:
            times = measure(name, nbytes, groups, rounds)
            ratio = statistics.median(times["gloo"]) / statistics.median(times["oriel"])
            if rank == 0:
                print(f"| {name} | {ranks} | {nbytes >> 10} KiB | {cell(times['oriel'])} | "
                      f"{cell(times['gloo'])} | {ratio:.1f} |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Fork the ranks for each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    print("| collective | ranks | size | oriel, us | gloo, us | gloo / oriel |")
    print("|---|---|---|---|---|---|", flush=True)
    fork = multiprocessing.get_context("fork")
    for ranks in args.ranks:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "init")
            jobs = [fork.Process(target=run_rank, args=(rank, ranks, args.rounds, file))
                    for rank in range(ranks)]
            for job in jobs:
                job.start()
            for job in jobs:
                job.join()
            if any(job.exitcode for job in jobs):
                raise SystemExit("torch_collectives: a rank failed")


if __name__ == "__main__":
    main()
