# SPDX-License-Identifier: BSD-3-Clause
"""A Triton kernel that overlaps a matrix product with its all-gather.

    oriel-run -n 8 --mps=12 python3 gather_matmul.py      # ranks that share one GPU
    oriel-run -n 8 python3 gather_matmul.py               # one GPU per rank

Every rank has a shard of rows of A and all of B, and wants all rows of A times B.  In one kernel,
some blocks put this rank's shard into the windows of the others.  The other blocks multiply: first
the rank's own shard, then each shard as it arrives.  The result is compared with torch's product of
the gathered matrix, and the time with an all-gather that ends before the product begins.
"""
import sys

import torch
import triton
import triton.language as tl

import oriel
import oriel.triton as ot

ROWS, WIDTH, COLUMNS = 512, 1024, 512  # of a shard of A, and of B
BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 64
SENDERS, WORKERS, ROUNDS = 4, 12, 20  # all blocks of all ranks must be on the GPU at once


@triton.jit(do_not_specialize=["rank", "world", "call"])
def gather_matmul(win, shard_source, a, b, c, status, rank, world, call, ROWS: tl.constexpr,
                  WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SENDERS: tl.constexpr,
                  WORKERS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    block = tl.program_id(0)
    nbytes = ROWS * WIDTH * 2
    err = 0
    if block < SENDERS:
        for i in range(block, world - 1, SENDERS):
            peer = (rank + 1 + i) % world
            err = err | ot.put_signal(win, peer, rank * nbytes, shard_source, 0, nbytes, 0,
                                      ot.ADD, 1)
        err = err | ot.flush_all(win)  # the next call writes the shard
    else:
        for step in range(world):
            owner = (rank + step) % world
            if step > 0:
                err = err | ot.wait_signal_from(win, owner, 0, ot.GE, call)
            # The loads of a shard stand in an inner loop, so that no stage comes before the wait.
            for tile in range(block - SENDERS, (ROWS // M) * (COLUMNS // N), WORKERS):
                rows = owner * ROWS + tile // (COLUMNS // N) * M + tl.arange(0, M)
                columns = tile % (COLUMNS // N) * N + tl.arange(0, N)
                total = tl.zeros((M, N), dtype=tl.float32)
                for k in range(0, WIDTH, K):
                    at = k + tl.arange(0, K)
                    left = tl.load(a + rows[:, None] * WIDTH + at[None, :])
                    right = tl.load(b + at[:, None] * COLUMNS + columns[None, :])
                    total = tl.dot(left, right, total)
                tl.store(c + rows[:, None] * COLUMNS + columns[None, :], total.to(tl.float16))
    if err != 0:
        tl.store(status, err)


def timed(step, comm: oriel.Comm) -> float:
    """Median microseconds of a step.  It begins after all ranks have ended the one before."""
    times = []
    for _ in range(ROUNDS):
        comm.barrier()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[ROUNDS // 2]


def main() -> int:
    with oriel.Comm.from_env(device="cuda") as comm:
        torch.cuda.set_device(comm.device)
        rank, world = comm.rank, comm.size
        a = oriel.empty((world * ROWS, WIDTH), torch.float16, comm, like="torch")
        shard = a[rank * ROWS:(rank + 1) * ROWS]
        b = torch.randn(WIDTH, COLUMNS, device="cuda", generator=torch.Generator(
            "cuda").manual_seed(1)).half()
        c = torch.empty(world * ROWS, COLUMNS, dtype=torch.float16, device="cuda")
        status = torch.zeros(1, dtype=torch.int32, device="cuda")
        whole = torch.empty_like(a)
        with oriel.Window(comm, a, signals=1) as window:
            source = window.register_local_buffer(shard)
            calls = 0

            def fused() -> None:
                nonlocal calls
                calls += 1
                gather_matmul[(SENDERS + WORKERS,)](
                    window.device_handle, source, a, b, c, status, rank, world, calls, ROWS, WIDTH,
                    COLUMNS, SENDERS, WORKERS, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=4,
                    num_stages=2, extern_libs=ot.extern_libs())

            def in_turn() -> None:
                comm.all_gather(shard, whole)
                torch.matmul(whole, b)

            shard.copy_(torch.randn(ROWS, WIDTH, device="cuda", generator=torch.Generator(
                "cuda").manual_seed(100 + rank)))
            fused()
            in_turn()
            torch.cuda.synchronize()
            comm.barrier()
            wrong = int((~torch.isclose(c, whole @ b, rtol=1e-2, atol=1e-1)).sum())
            together, one_by_one = timed(fused, comm), timed(in_turn, comm)
            failed = status.item() or wrong
            if rank == 0 or failed:
                print(f"rank {rank} of {world}: {wrong} wrong of {c.numel()}, status "
                      f"{status.item()}; fused {together:.1f} us, in turn {one_by_one:.1f} us")
            window.barrier()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
