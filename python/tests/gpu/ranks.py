# SPDX-License-Identifier: BSD-3-Clause
"""Runs the bodies of GPU tests as processes that share one GPU under MPS.

All bodies of a module run in one start of the ranks, because a start with torch takes seconds.
A rank is `python -m tests.gpu.ranks MODULE`; it runs every function of the module whose name
begins with `check_`.  ORIEL_CHECKS=name,... selects some of them.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import traceback
from typing import Any

from .. import support

SECONDS = 240


def run(module: str, nranks: int, topology: str | None = None) -> str:
    """Runs the module's checks on processes; returns the output.  All ranks must succeed."""
    program = [sys.executable, "-m", "tests.gpu.ranks", module]
    launch = [support.oriel_run(), "-n", str(nranks), "--mps", "--timeout", str(SECONDS - 10)]
    if topology:
        launch += ["--topology", topology]
    env = support.environment(ORIEL_DEVICE="cuda")
    done = subprocess.run(
        launch + program,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    print(done.stdout, flush=True)
    if done.returncode:
        raise AssertionError(f"{module} on {nranks} ranks ({topology or 'one node'}) failed")
    return done.stdout


class Stage:
    """One rank of a test: its comm, its neighbours, and launches that keep the ranks together."""

    def __init__(self, comm: Any) -> None:
        import torch

        import oriel.triton as ot

        self.torch, self.comm = torch, comm
        self.rank, self.size = comm.rank, comm.size
        self.right, self.left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self.libs = ot.extern_libs()

    def launch(self, kernel: Any, *args: Any, grid: int = 1, num_warps: int = 4) -> None:
        """Launches on every rank at once, and waits for this rank's kernel.

        Rank 0 compiles first, and the others find the result in Triton's cache.  No rank launches
        before all have loaded the kernel: a load may wait for running kernels, and these would
        wait for the rank that loads.
        """
        options = {"num_warps": num_warps, "extern_libs": self.libs}
        if self.rank == 0:
            kernel.warmup(*args, grid=(grid,), **options)
        self.comm.barrier()
        kernel.warmup(*args, grid=(grid,), **options)._init_handles()
        self.torch.cuda.synchronize()  # what this rank wrote for its peers
        self.comm.barrier()
        kernel[(grid,)](*args, **options)
        self.torch.cuda.synchronize()

    def words(self, count: int) -> Any:
        """int64 words on the GPU for a kernel's answers, -99 in each."""
        return self.torch.full((count,), -99, dtype=self.torch.int64, device="cuda")

    def bytes(self, count: int, seed: int) -> Any:
        """Bytes on the GPU that depend on the seed."""
        values = self.torch.arange(count, dtype=self.torch.int64, device="cuda")
        return ((values * 31 + values // 251 + seed * 77) % 251).to(self.torch.uint8)


def main() -> None:
    """One rank."""
    import oriel

    module = importlib.import_module(sys.argv[1])
    wanted = os.environ.get("ORIEL_CHECKS", "")
    names = [name for name in vars(module) if name.startswith("check_")]
    if wanted:
        names = [name for name in names if name in wanted.split(",")]
    try:
        with oriel.Comm.from_env() as comm:
            stage = Stage(comm)
            for name in names:
                start = time.monotonic()
                getattr(module, name)(stage)
                comm.barrier()
                if comm.rank == 0:
                    print(f"ok {time.monotonic() - start:6.2f} s  {name}", flush=True)
    except BaseException:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
