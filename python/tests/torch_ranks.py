# SPDX-License-Identifier: BSD-3-Clause
"""Runs a function as the ranks of a torch.distributed job, each in a forked process.

The processes are forked after torch was imported, so a test takes a second and not ten.
"""
from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
import unittest
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, Callable

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    raise unittest.SkipTest("torch is not installed: tools/deps.sh torch") from missing

import oriel.torch  # noqa: F401  (registers the backend)

SECONDS = 90
Body = Callable[[int, int], Any]


def _rank(body: Body, rank: int, ranks: int, file: str, timeout: float, pipe: Connection) -> None:
    torch.set_num_threads(1)
    try:
        dist.init_process_group("oriel", init_method=f"file://{file}", rank=rank, world_size=ranks,
                                timeout=timedelta(seconds=timeout))
        result = body(rank, ranks)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((True, result))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    pipe.close()
    os._exit(0)


def run_ranks(body: Body, ranks: int, timeout: float = 30) -> list[Any]:
    """Run body(rank, ranks) in every rank and return the results.  Raises what a rank raised.

    A rank that dies has the result None.
    """
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "init")
        pipes, processes = [], []
        for rank in range(ranks):
            mine, theirs = fork.Pipe(duplex=False)
            process = fork.Process(target=_rank, args=(body, rank, ranks, file, timeout, theirs))
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        try:
            return [_result(rank, pipe) for rank, pipe in enumerate(pipes)]
        finally:
            for process in processes:
                process.join(1)
                if process.is_alive():
                    process.kill()
                    process.join()


def _result(rank: int, pipe: Connection) -> Any:
    deadline = time.monotonic() + SECONDS
    if not pipe.poll(max(0.0, deadline - time.monotonic())):
        raise AssertionError(f"rank {rank} did not end within {SECONDS} s")
    try:
        good, value = pipe.recv()
    except EOFError:
        return None
    if not good:
        raise AssertionError(f"rank {rank}: {value}")
    return value


def raised(call: Callable[[], Any]) -> BaseException | None:
    """What the call raises, or None."""
    try:
        call()
    except Exception as exception:
        return exception
    return None
