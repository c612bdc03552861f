# SPDX-License-Identifier: BSD-3-Clause
"""Runs the bodies of tests as ranks: threads of this process, or processes of oriel-run.

A body is a function at the top of a test module that takes a comm.  As processes, it runs by
`python -m tests.support MODULE FUNCTION`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import threading
import traceback
import unittest
from pathlib import Path
from typing import Any, Callable

import oriel
from oriel._library import tool_path

PYTHON = Path(__file__).resolve().parent.parent
SECONDS = 120  # for a command; most need a few
Body = Callable[[oriel.Comm], None]


def have(module: str) -> bool:
    """Can the module be imported?"""
    return importlib.util.find_spec(module) is not None


def environment(**variables: str) -> dict[str, str]:
    """The environment of a rank: one that finds this package and its tests."""
    env = {**os.environ, "ORIEL_TIMEOUT": "30", **variables}
    env["PYTHONPATH"] = os.pathsep.join([str(PYTHON), env.get("PYTHONPATH", "")])
    env["PYTHONFAULTHANDLER"] = "1"
    return env


def command(program: list[str], **variables: str) -> subprocess.CompletedProcess:
    """Runs a program to its end, within SECONDS; its output is text in stdout."""
    return subprocess.run(
        program,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )


def oriel_run() -> str:
    """The launcher that belongs to the library."""
    path = tool_path("oriel-run")
    if path is None:
        raise unittest.SkipTest("oriel-run is not beside the library")
    return path


def processes(body: Callable[..., Any], nranks: int, **variables: str) -> str:
    """Runs the body on processes under oriel-run; returns their output.  All must succeed."""
    done = run_processes(body, nranks, **variables)
    if done.returncode:
        raise AssertionError(f"{body.__name__} on {nranks} processes failed:\n{done.stdout}")
    return done.stdout


def run_processes(body: Callable[..., Any], nranks: int, **variables: str) -> Any:
    """The same, whatever the outcome."""
    rank = [sys.executable, "-m", "tests.support", body.__module__, body.__name__]
    # With time for the ranks that are left: they report what they saw.
    return command([oriel_run(), "-n", str(nranks), "--grace", "30", *rank], **variables)


def launched(launcher: list[str], body: Callable[..., Any], **variables: str) -> str:
    """Runs the body under another launcher; returns the output.  All ranks must succeed."""
    rank = [sys.executable, "-m", "tests.support", body.__module__, body.__name__]
    done = command([*launcher, *rank], **variables)
    if done.returncode:
        raise AssertionError(f"{body.__name__} under {' '.join(launcher)} failed:\n{done.stdout}")
    return done.stdout


def mpirun(nranks: int) -> list[str]:
    """The command of Open MPI.  The machine may have fewer cores than ranks, and more networks."""
    if not shutil.which("mpirun"):
        raise unittest.SkipTest("there is no mpirun: tools/deps.sh test installs it")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    options = ["--oversubscribe", "--bind-to", "none", "--mca", "oob_tcp_if_include", "lo"]
    return ["mpirun", *options, "-np", str(nranks)]


def srun(nranks: int) -> list[str]:
    """The command of Slurm, where a cluster answers."""
    launcher = ["srun", "--mpi=pmix", "--overcommit", "-n", str(nranks)]
    try:
        works = subprocess.run([*launcher, "true"], capture_output=True, timeout=20).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        works = False
    if not works:
        raise unittest.SkipTest("no Slurm cluster answers to srun")
    return launcher


def threads(body: Body, nranks: int, **options: Any) -> None:
    """Runs the body on thread ranks.  Raises the first exception."""
    comms = oriel.Comm.threads(nranks, timeout=30, **options)
    on_threads(body, comms)


def on_threads(body: Body, comms: list[oriel.Comm]) -> None:
    """Runs the body on one thread per comm, and closes the comms."""
    raised: list[BaseException] = []

    def run(comm: oriel.Comm) -> None:
        try:
            with comm:
                body(comm)
        except BaseException as exception:
            raised.append(exception)

    workers = [threading.Thread(target=run, args=(comm,)) for comm in comms]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if raised:
        raise raised[0]


def everywhere(body: Body) -> None:
    """Runs the body on threads and processes, mapped and queued, 1 to 8 ranks."""
    for nranks in (1, 2, 3, 8):
        threads(body, nranks)
    threads(body, 3, topology="3x1")
    processes(body, 2)
    processes(body, 4, ORIEL_TOPOLOGY="2x2")


def main() -> None:
    """One rank.  A body without parameters makes its comm itself."""
    module, function = sys.argv[1:3]
    body = getattr(importlib.import_module(module), function)
    try:
        if not inspect.signature(body).parameters:
            body()
            return
        with oriel.Comm.from_env() as comm:
            body(comm)
    except BaseException:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
