# SPDX-License-Identifier: BSD-3-Clause
"""Runs PyTorch's own distributed tests on the backends "gloo" and "oriel", side by side.

    python3 torch_suite.py run              # all tests on both backends; resumes where it stopped
    python3 torch_suite.py run --part       # a part of at most five minutes, for `make test-python`
    python3 torch_suite.py check            # fails if gloo passes a test that oriel does not pass
    python3 torch_suite.py table            # writes docs/torch-tests.md

The tests are those of torch/testing/_internal/distributed/distributed_test.py of the installed
wheel.  They run with three ranks.  Tests that ask for more ranks run again with as many.  Outcomes
are kept as lines of JSON in --results, so an interrupted run continues.
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKER = HERE / "torch_suite_worker.py"
BACKENDS = ("gloo", "oriel")
RANKS = 3
# A test that is skipped with such a reason runs again with more ranks.
AGAIN = (("world size of 4", 4), ("small world size", 8))
LIMIT_S = 100  # per test; two tests of PyTorch have limits of their own, see LONG_LIMIT_S
LONG_LIMIT_S = 560
BATCH = 12  # tests per worker process, so that one import of torch serves several
# In the part: one test of every kind, and those of data-parallel training that take no seconds.
PART = ("all_", "barrier", "broadcast", "gather", "scatter", "reduce", "send", "isend", "irecv",
        "batch", "new_subgroups", "get_", "nccl", "coalescing", "stateless")


class Outcome(NamedTuple):
    """What became of one test on one backend."""

    word: str  # pass, skip, fail
    reason: str
    seconds: float
    world: int


class Run(NamedTuple):
    """The tests of one backend with one number of ranks."""

    backend: str
    world: int
    results: Path

    @property
    def file(self) -> Path:
        """The lines of JSON of this run."""
        return self.results / f"{self.backend}-{self.world}.jsonl"

    def outcomes(self) -> dict[str, Outcome]:
        """All outcomes so far.  A test that started and has no outcome is not among them."""
        found: dict[str, Outcome] = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                entry = json.loads(line)
                if entry["outcome"] != "started":
                    found[entry["test"]] = Outcome(entry["outcome"], entry["reason"],
                                                   entry["seconds"], self.world)
        return found

    def command(self, names: list[str]) -> list[str]:
        """The worker that runs these tests, or lists all tests if there are none."""
        return [sys.executable, str(WORKER), "--backend", self.backend, "--world", str(self.world),
                "--limit", str(LIMIT_S), "--results", str(self.file), *names]


def environment() -> dict[str, str]:
    """The environment of the workers: this package, one thread per rank, no GPU."""
    env = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    env["PYTHONPATH"] = os.pathsep.join(
        [str(HERE.parent), *filter(None, [env.get("PYTHONPATH")])])
    return env


def all_names(results: Path) -> list[str]:
    """The names of all tests of the installed wheel."""
    done = subprocess.run(Run("gloo", RANKS, results).command([]), env=environment(),
                          capture_output=True, text=True, timeout=120, check=False)
    names = [line for line in done.stdout.splitlines() if line.startswith("test_")]
    if done.returncode != 0 or not names:
        sys.exit(f"torch_suite: the tests of the wheel cannot be listed:\n{done.stderr[-2000:]}")
    return names


class Worker:
    """A worker process with a batch of tests, and what is known of its progress."""

    def __init__(self, run: Run, names: list[str]) -> None:
        self.run, self.names = run, names
        self.size, self.seen = -1, time.monotonic()
        with run.file.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(run.command(names), env=environment(), stdout=log,
                                            stderr=log, start_new_session=True)

    def finished(self) -> bool:
        """Whether the batch is through.  Ends it if a test shows no progress for too long."""
        if self.process.poll() is not None:
            self.end("the worker ended")
            return True
        size = self.run.file.stat().st_size if self.run.file.exists() else 0
        if size != self.size:
            self.size, self.seen = size, time.monotonic()
        if time.monotonic() - self.seen < LONG_LIMIT_S:
            return False
        self.end(f"no progress for {LONG_LIMIT_S} s")
        return True

    def end(self, why: str) -> None:
        """End all processes of the batch.  The test that had begun counts as failed."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        known = self.run.outcomes()
        for name in self.names:
            if name not in known:
                entry = {"test": name, "outcome": "fail", "reason": why, "seconds": 0.0}
                with self.run.file.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
                break


def run_all(run: Run, names: list[str], jobs: int, deadline: float) -> bool:
    """Run the tests that have no outcome yet, `jobs` workers at a time.  False: out of time."""
    workers: list[Worker] = []
    while True:
        workers = [worker for worker in workers if not worker.finished()]
        busy = {name for worker in workers for name in worker.names}
        known = run.outcomes()
        waiting = [name for name in names if name not in known and name not in busy]
        if time.monotonic() > deadline:
            for worker in workers:
                os.killpg(worker.process.pid, signal.SIGKILL)
                worker.process.wait()
            return not waiting and not busy
        if not waiting and not workers:
            return True
        if waiting and len(workers) < jobs:
            workers.append(Worker(run, waiting[:BATCH]))
        time.sleep(0.1)


def run_command(args: argparse.Namespace) -> int:
    """Run the tests on the chosen backends, and again with more ranks where they ask for it."""
    args.results.mkdir(parents=True, exist_ok=True)
    names = all_names(args.results)
    if args.part:
        names = [name for name in names if name.startswith(tuple("test_" + p for p in PART))]
    if args.only:
        names = [name for name in names if args.only in name]
    deadline = time.monotonic() + 60 * args.minutes
    for backend in args.backend or BACKENDS:
        if not run_backend(backend, names, args, deadline):
            print(f"torch_suite: out of time after {args.minutes} minutes; run it again")
            return 1
    return 0


def run_backend(backend: str, names: list[str], args: argparse.Namespace, deadline: float) -> bool:
    """Run the tests on one backend.  False: out of time."""
    first = Run(backend, RANKS, args.results)
    more = [(text, Run(backend, ranks, args.results)) for text, ranks in AGAIN]
    for run in [first, *(run for _, run in more)] if args.fresh else []:
        run.file.unlink(missing_ok=True)
    if not run_all(first, names, args.jobs, deadline):
        return False
    outcomes = first.outcomes()
    for text, run in more if not args.part else []:
        again = [name for name in names if text in outcomes[name].reason]
        if not run_all(run, again, 1, deadline):
            return False
    return True


def outcomes_of(backend: str, results: Path) -> dict[str, Outcome]:
    """The outcomes of all tests of a backend, with the number of ranks that a test asks for."""
    found = Run(backend, RANKS, results).outcomes()
    for _, ranks in AGAIN:
        found.update(Run(backend, ranks, results).outcomes())
    return found


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "check", "table"))
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "torch-suite")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--only", help="tests whose names contain this")
    parser.add_argument("--part", action="store_true", help="a part of at most five minutes")
    parser.add_argument("--fresh", action="store_true", help="forget earlier outcomes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    args = parser.parse_args()
    if args.what == "run":
        return run_command(args)
    import torch_suite_table

    gloo, oriel = (outcomes_of(backend, args.results) for backend in BACKENDS)
    if args.what == "check":
        return torch_suite_table.check(gloo, oriel)
    return torch_suite_table.write(gloo, oriel, ROOT / "docs" / "torch-tests.md")


if __name__ == "__main__":
    sys.exit(main())
