# SPDX-License-Identifier: BSD-3-Clause
"""AlltoallvOp beside the C collective, in one run, as replays of CUDA graphs.

    oriel-run -n 8 --mps=12 --timeout 300 python3 python/bench/alltoallv.py [--json FILE]

Both send from their own buffer (zero copy) with the handshake, the same bytes to every peer.  A
graph has CALLS calls.  A repetition replays a graph twice, measures the second replay, and takes
the time of the slowest rank.  The two take turns.  Before the measurement every byte of both is
checked.  After it the count of the Triton kernel shows that it ran.

Rank 0 prints one row per size: median microseconds of a call, smallest and largest, and the ratio.
The target is 1.10 from 64 KiB on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
from typing import Any, Dict, List

import torch

import oriel
from oriel.triton.op import AlltoallvOp

CALLS = 20  # of one graph
WIDTH = 1024  # bytes of a token
SIZES = [64 << 10, 256 << 10, 1 << 20, 16 << 20]  # per peer
TARGET = 1.10


def message(source: int, destination: int, nbytes: int, device: Any) -> torch.Tensor:
    at = torch.arange(nbytes, dtype=torch.int32, device=device)
    return ((source * 31 + destination * 17 + at) % 251).to(torch.uint8)


class Triton:
    """The op with one size."""

    def __init__(self, comm: oriel.Comm, nbytes: int) -> None:
        rows = nbytes // WIDTH
        self.comm, self.nbytes = comm, nbytes
        self.op = AlltoallvOp(comm, rows * comm.size, WIDTH, torch.uint8, comm.device, rows)
        self.op.setup()
        self.splits = torch.full((comm.size,), rows, dtype=torch.int64, device=comm.device)
        self.send = self.op.get_send_buffer().view(-1)

    def call(self) -> None:
        self.op.alltoallv_from_buffer(self.splits, self.splits, self.splits.numel() * (
            self.nbytes // WIDTH))

    def slot(self, source: int) -> torch.Tensor:
        return self.op.slots()[source].reshape(-1)

    def check(self, calls: int) -> None:
        self.op.check()
        counted = self.op.kernel_calls()
        assert counted == calls, f"the Triton kernel counted {counted} calls, not {calls}"

    def close(self) -> None:
        del self.send
        self.op.teardown()


class Collective:
    """The collective of the C library with the same size."""

    def __init__(self, comm: oriel.Comm, nbytes: int) -> None:
        self.comm, self.nbytes = comm, nbytes
        self.request = oriel.AllToAllV(comm, slot_bytes=nbytes, expect_bytes=nbytes)
        self.sizes = torch.full((comm.size,), nbytes, dtype=torch.int64, device=comm.device)
        self.send = self.request.send_buffer(torch.uint8)
        self.recv = self.request.recv_buffer(torch.uint8)

    def call(self) -> None:
        self.request.exec(self.sizes)

    def slot(self, source: int) -> torch.Tensor:
        return self.recv[source * self.nbytes:(source + 1) * self.nbytes]

    def check(self, calls: int) -> None:
        status = self.request.status
        assert status == 0, f"the C collective failed with {status}"

    def close(self) -> None:
        del self.send, self.recv
        self.request.close()


def capture(side: Any) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(CALLS):
            side.call()
    return graph


def check_bytes(side: Any) -> None:
    comm, nbytes = side.comm, side.nbytes
    for peer in range(comm.size):
        side.send[peer * nbytes:(peer + 1) * nbytes] = message(
            comm.rank, peer, nbytes, comm.device)
    side.call()
    torch.cuda.synchronize()
    for source in range(comm.size):
        want = message(source, comm.rank, nbytes, comm.device)
        assert torch.equal(side.slot(source), want), f"wrong bytes from rank {source}"


def slowest(comm: oriel.Comm, seconds: float) -> float:
    rows = comm.allgather(struct.pack("<d", seconds))
    return max(struct.unpack("<d", row)[0] for row in rows)


def time_once(comm: oriel.Comm, graph: torch.cuda.CUDAGraph) -> float:
    """Microseconds of a call on the slowest rank."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    comm.barrier()
    graph.replay()  # ranks leave the barrier at different times; this one absorbs it
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return slowest(comm, begin.elapsed_time(end) * 1000 / CALLS)


def measure(comm: oriel.Comm, nbytes: int, repetitions: int) -> Dict[str, Any]:
    sides = {"triton": Triton(comm, nbytes), "c": Collective(comm, nbytes)}
    for side in sides.values():
        check_bytes(side)
    graphs = {name: capture(side) for name, side in sides.items()}
    times: Dict[str, List[float]] = {name: [] for name in sides}
    for graph in graphs.values():
        time_once(comm, graph)
    for _ in range(repetitions):
        for name, graph in graphs.items():
            times[name].append(time_once(comm, graph))
    torch.cuda.synchronize()
    replays = 2 * (repetitions + 1)
    for side in sides.values():
        side.check(1 + replays * CALLS)
    explained = sides["c"].request.explain(nbytes)
    del graphs
    for side in sides.values():
        comm.barrier()
        side.close()
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"bytes": nbytes, "times": times, "medians": medians, "plan": explained,
            "ratio": medians["triton"] / medians["c"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", help="write all times to this file")
    options = parser.parse_args()
    results = []
    with oriel.Comm.from_env(device="cuda") as comm:
        torch.cuda.set_device(comm.device)
        for nbytes in SIZES:
            row = measure(comm, nbytes, options.repetitions)
            results.append(row)
            if comm.rank == 0:
                cells = [f"{row['medians'][name]:.1f} ({min(values):.1f} .. {max(values):.1f})"
                         for name, values in row["times"].items()]
                verdict = "PASS" if row["ratio"] <= TARGET else "MISS"
                print(f"| {comm.size} ranks, {nbytes >> 10} KiB per peer | {cells[0]} | "
                      f"{cells[1]} | {row['ratio']:.2f} x | <= {TARGET:.2f} x | {verdict} |",
                      flush=True)
        if comm.rank == 0 and options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
