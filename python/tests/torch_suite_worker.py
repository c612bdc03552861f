# SPDX-License-Identifier: BSD-3-Clause
"""Runs some of PyTorch's own distributed tests on one backend, one after the other.

torch_suite.py starts this program.  The tests come from the installed wheel, unmodified.  Each
test forks its ranks from this process, which has imported torch already: a spawned rank would
import it again, and that takes longer than most tests.

Every test writes two lines of JSON to --results: one when it starts, one with its outcome.
"""
from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

# What PyTorch's tests ask a table before they run on a backend.  A backend outside of PyTorch
# has to add itself.
FEATURES = ("gpu", "cuda", "ddp", "subgroup", "plugin")


def load_suite(backend: str) -> type[unittest.TestCase]:
    """Import the tests of the installed wheel and give them processes that are forked."""
    from torch.testing._internal.common_distributed import DistTestCases

    if backend == "oriel":
        import oriel.torch  # noqa: F401  (registers the backend)

        for feature in FEATURES:
            DistTestCases.backend_feature[feature].add("oriel")
    import torch.multiprocessing
    from torch.testing._internal.distributed import distributed_test

    fork = torch.multiprocessing.get_context("fork").Process

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        """The tests of the wheel, run in forked ranks."""

        def setUp(self) -> None:
            """Fork the ranks of this test."""
            super().setUp()
            self._start_processes(fork)

    return Suite


class Outcome(unittest.TestResult):
    """The outcome of one test, in a word and a reason."""

    def __init__(self) -> None:
        super().__init__()
        self.word, self.reason = "fail", "no outcome"

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 (name of unittest)
        """The test passed."""
        self.word, self.reason = "pass", ""

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """The test did not run."""
        self.word, self.reason = "skip", reason

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """An assertion failed."""
        self.word, self.reason = "fail", str(err[1])

    addError = addFailure  # noqa: N815

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """The suite itself expects this failure."""
        self.word, self.reason = "skip", "expected failure"


def run_one(suite: type[unittest.TestCase], name: str) -> dict[str, Any]:
    """Run one test and return the record of its outcome."""
    outcome = Outcome()
    start = time.monotonic()
    suite(name).run(outcome)
    return {
        "test": name,
        "outcome": outcome.word,
        "reason": outcome.reason,
        "seconds": round(time.monotonic() - start, 1),
    }


def main() -> None:
    """Run the tests named on the command line, or list all names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--limit", type=int, required=True, help="seconds per test")
    parser.add_argument("--results", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    os.environ["BACKEND"] = args.backend
    os.environ["WORLD_SIZE"] = str(args.world)
    os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(args.limit)
    # One test initialises torch.distributed a second time, and only does so through a file.
    os.environ["INIT_METHOD"] = "file://" + tempfile.mkdtemp(prefix="torch-suite-") + "/init"
    suite = load_suite(args.backend)
    if not args.names:
        print("\n".join(unittest.TestLoader().getTestCaseNames(suite)))
        return
    with args.results.open("a", buffering=1) as results:
        for name in args.names:
            results.write(json.dumps({"test": name, "outcome": "started"}) + "\n")
            results.write(json.dumps(run_one(suite, name)) + "\n")


if __name__ == "__main__":
    main()
