#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Front ends when the library below cannot go on: the nth allocation or system call fails.

    front_test.py python|shmem INJECT PROGRAM... [--long]

INJECT is the preloaded library of inject.c.  PROGRAM is the command of one rank.  Each job has two
ranks, of which one has the fault.  Every rank must end in time, without a signal, with a named
error or unharmed, and leave nothing behind.  A few jobs lose that rank by SIGKILL instead: then the
other one must name the error.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 10.0  # ORIEL_TIMEOUT of the ranks: an interpreter may start late
LONG_S = 40.0  # the same if the fault is harmless: nobody waits for it
SPARE_S = 25.0  # any process may stand still
WIDTH = 8  # jobs at a time: most of their time is the wait for a deadline
HARMLESS = {errno.EINTR}

# What fails, and how.
FAULTS = [
    ("malloc", errno.ENOMEM),
    ("kill", 0),
    ("memfd_create", errno.EMFILE),
    ("ftruncate", errno.ENOSPC),
    ("mmap", errno.ENOMEM),
    ("mremap", errno.ENOMEM),
    ("mprotect", errno.ENOMEM),
    ("open", errno.EMFILE),
    ("socket", errno.EMFILE),
    ("bind", errno.EADDRINUSE),
    ("listen", errno.EADDRINUSE),
    ("accept4", errno.EINTR),
    ("connect", errno.ECONNREFUSED),
    ("send", errno.EPIPE),
    ("send", errno.EINTR),
    ("sendmsg", errno.EPIPE),
    ("recv", errno.ECONNRESET),
    ("recv", errno.EINTR),
    ("recvmsg", errno.ECONNRESET),
    ("eventfd", errno.EMFILE),
    ("epoll_create1", errno.EMFILE),
    ("pthread_create", errno.EAGAIN),
    ("fcntl", errno.EMFILE),
    ("poll", errno.EINTR),
]

# Which of the calls: the first ones, then a sample that grows.
SHORT = {"malloc": [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233], "kill": [1, 20, 90], "": [1, 4]}
LONG = {
    "malloc": [*range(1, 60), *range(60, 400, 7)],
    "kill": [*range(1, 300, 9)],
    "": [*range(1, 9), 11, 15, 20, 26, 33, 41],
}

# A line that names an error: a status of the library, or the front end's words for it.
NAMED = {
    "python": re.compile(r"^(oriel\.)?(_error\.)?Error: .+ \(ORIEL_E[A-Z]+\)$|^MemoryError", re.M),
    "shmem": re.compile(r"^shmem: (PE \d+: )?shmem\w+: .+$|^pe: shmem_malloc returned NULL$", re.M),
}


@dataclass
class Job:
    """One job: what fails in it, and what came of it."""

    call: str
    number: int
    error: int
    rank: int
    topology: str
    fired: bool = False
    named: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        how = errno.errorcode.get(self.error, "SIGKILL")
        return f"{self.call} {self.number} of rank {self.rank}: {how}, topology {self.topology}"


def environment(job: Job, rank: int, inject: str, folder: Path, listener: socket.socket) -> dict:
    """Of one rank, as a launcher would make it."""
    port = str(listener.getsockname()[1])
    env = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "ORIEL_PORT": port,
        "ORIEL_LISTENING": "1",
        "ORIEL_LAUNCHER": "env",
        "ORIEL_TIMEOUT": str(LONG_S if job.error in HARMLESS else TIMEOUT_S),
        "ORIEL_TOPOLOGY": job.topology,
        "ORIEL_DOCTOR": str(folder / "doctor"),
        "TMPDIR": str(folder),
        "SHMEM_SYMMETRIC_SIZE": "4M",
        "LD_PRELOAD": inject,
        "FRONT_CALL": job.call,
        "FRONT_N": str(job.number),
        "FRONT_ERRNO": str(job.error),
        "FRONT_RANK": str(job.rank),
        "FRONT_REPORT": str(folder / "fired"),
    }
    if rank == 0:
        env["ORIEL_LISTEN_FD"] = str(listener.fileno())
    return env


def start(job: Job, inject: str, program: list[str], folder: Path) -> list[subprocess.Popen]:
    """The two ranks, each in a session of its own."""
    ranks = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        for rank in range(2):
            ranks.append(
                subprocess.Popen(
                    program,
                    env=environment(job, rank, inject, folder, listener),
                    pass_fds=[listener.fileno()] if rank == 0 else [],
                    stdin=subprocess.DEVNULL,
                    stdout=open(folder / f"out{rank}", "wb"),
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
    return ranks


def is_alive(session: int) -> bool:
    """Is there a process in the group of this session's leader, which has been waited for?"""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def judge_rank(job: Job, front: str, rank: int, code: int, text: str) -> None:
    """One rank has ended."""
    named = NAMED[front].search(text) is not None
    victim = job.call == "kill" and job.fired and rank == job.rank
    job.named += named
    if victim:
        if code != -signal.SIGKILL:
            job.faults.append(f"rank {rank} ended with {code}, not by SIGKILL")
    elif code < 0:
        job.faults.append(f"rank {rank} died of signal {-code}:\n{text}")
    elif code == 0 and "unharmed" not in text:
        job.faults.append(f"rank {rank} ended with 0 before its end:\n{text}")
    elif code and not named:
        job.faults.append(f"rank {rank} ended with {code} and names no error:\n{text}")
    elif code and (job.error in HARMLESS or not job.fired):
        job.faults.append(f"rank {rank} failed, but nothing had:\n{text}")


def left_behind(folder: Path) -> list[Path]:
    """Files that the ranks left."""
    own = {"out0", "out1", "fired"}
    return [p for p in folder.rglob("*") if not p.is_dir() and p.name not in own]


def clean_up(job: Job, inject: str, program: list[str], folder: Path) -> None:
    """A process that ends at once leaves its entry for oriel-doctor: the next job removes it."""
    if not left_behind(folder) or job.faults:
        return
    if any(p.parent.name != "doctor" for p in left_behind(folder)):
        job.faults.append(f"left {[str(p) for p in left_behind(folder)]}")
        return
    for process in start(Job("none", 1, 0, 0, job.topology), inject, program, folder):
        try:
            process.wait(SPARE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode:
            job.faults.append(f"the job after it ended with {process.returncode}")
    if left_behind(folder):
        job.faults.append(f"the next job does not remove {[p.name for p in left_behind(folder)]}")


def run(job: Job, front: str, inject: str, program: list[str]) -> Job:
    """Runs the job to its end and notes all faults."""
    folder = Path(tempfile.mkdtemp(prefix="oriel-front-"))
    begin = time.monotonic()
    ranks = start(job, inject, program, folder)
    for rank, process in enumerate(ranks):
        spare = begin + 3 * TIMEOUT_S + SPARE_S - time.monotonic()
        try:
            process.wait(max(spare, 0.1))
        except subprocess.TimeoutExpired:
            job.faults.append(f"rank {rank} has not ended in {3 * TIMEOUT_S + SPARE_S:.0f} s")
    job.fired = (folder / "fired").exists()
    for rank, process in enumerate(ranks):
        if process.poll() is None or is_alive(process.pid):
            if process.poll() is not None:
                job.faults.append(f"rank {rank} left processes")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            text = (folder / f"out{rank}").read_text(errors="replace")
            judge_rank(job, front, rank, process.returncode, text)
    clean_up(job, inject, program, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return job


def jobs_of(sample: dict[str, list[int]]) -> list[Job]:
    """All jobs.  Ranks and kinds of peers take turns."""
    jobs: list[Job] = []
    for call, error in FAULTS:
        for number in sample.get(call, sample[""]):
            turn = len(jobs)
            jobs.append(Job(call, number, error, turn % 2, ("1x2", "2x1")[turn // 2 % 2]))
    return jobs


def print_table(jobs: list[Job]) -> None:
    """One row per fault: jobs in which it happened, and in how many of them a rank named it."""
    for call, error in FAULTS:
        rows = [j for j in jobs if j.call == call and j.error == error and j.fired]
        name = f"{call}: {errno.errorcode.get(error, 'SIGKILL')}"
        named = sum(1 for j in rows if j.named)
        print(f"{name:28} {len(rows):4} jobs, {named:4} with a named error")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("front", choices=sorted(NAMED))
    parser.add_argument("inject")
    parser.add_argument("program", nargs="+")
    parser.add_argument("--long", action="store_true")
    args = parser.parse_args()
    jobs = jobs_of(LONG if args.long else SHORT)
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(lambda job: run(job, args.front, args.inject, args.program), jobs))
    print_table(jobs)
    bad = [job for job in jobs if job.faults]
    for job in bad:
        print(f"FAILED: {job}\n  " + "\n  ".join(job.faults))
    fired = sum(1 for job in jobs if job.fired)
    print(f"{len(jobs)} jobs, the call failed in {fired}, {len(bad)} jobs are wrong")
    if bad or fired < len(jobs) // 3 or not any(j.fired and j.call == "kill" for j in jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
