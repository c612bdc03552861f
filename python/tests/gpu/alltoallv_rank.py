# SPDX-License-Identifier: BSD-3-Clause
"""One rank of the all-to-all-v tests: python -m tests.gpu.alltoallv_rank [NAME...]

Runs all cases, or those that are named, one after the other.  Rank 0 prints a line per case that
passed on all ranks.  The first failure ends the program.
"""

from __future__ import annotations

import sys
import time
import traceback

import torch

import oriel

from . import alltoallv_op_cases, alltoallv_raw_cases


def all_cases() -> "dict[str, object]":
    """Every case by its name."""
    return {
        **{f"raw.{case.__name__}": case for case in alltoallv_raw_cases.CASES},
        **{f"op.{case.__name__}": case for case in alltoallv_op_cases.CASES},
    }


def main(names: "list[str]") -> int:
    cases = all_cases()
    torch.set_num_threads(1)  # several ranks share the processors
    with oriel.Comm.from_env(device="cuda") as comm:
        torch.cuda.set_device(comm.device)
        for name in names or cases:
            start = time.monotonic()
            try:
                cases[name](comm)
                torch.cuda.synchronize()
                comm.barrier()
            except BaseException:
                print(f"FAILED {name}: rank {comm.rank}", flush=True)
                traceback.print_exc()
                comm.abort()
                return 1
            if comm.rank == 0:
                print(f"passed {name} {time.monotonic() - start:.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
