# SPDX-License-Identifier: BSD-3-Clause
"""Triton all-to-all-v on a GPU: 1, 2, 4 and 8 ranks that share it, mapped, queued and mixed.

Ranks are processes under MPS.  docs/triton-alltoallv.md has a table of the cases.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import unittest

from ..support import environment, have, oriel_run

PYTHON = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 240


def gpu_is_missing() -> str:
    """Why the tests cannot run here, or nothing."""
    for module in ("torch", "triton"):
        if not have(module):
            return f"no {module}"
    import torch

    return "" if torch.cuda.is_available() else "no GPU"


MISSING = gpu_is_missing()


def cases(ranks: int, topology: str = "", names: "tuple[str, ...]" = ()) -> "dict[str, str]":
    """Runs cases on all ranks.  Returns what passed, and all output under ""."""
    where = ["--topology", topology] if topology else []
    command = [oriel_run(), "-n", str(ranks), "--mps", "--timeout", str(SECONDS - 10), *where,
               sys.executable, "-m", "tests.gpu.alltoallv_rank", *names]
    result = subprocess.run(
        command, cwd=PYTHON, timeout=SECONDS, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=environment(ORIEL_DEVICE="cuda", ORIEL_TIMEOUT="100"))
    lines = [line.split() for line in result.stdout.splitlines() if line.startswith("passed ")]
    return {"": result.stdout, **{line[1]: line[2] for line in lines}}


@unittest.skipIf(MISSING, MISSING)
class Alltoallv(unittest.TestCase):
    """Each test starts ranks once and runs all cases."""

    def check_all(self, ranks: int, topology: str = "", names: "tuple[str, ...]" = ()) -> None:
        from .alltoallv_rank import all_cases

        passed = cases(ranks, topology, names)
        missing = [name for name in names or all_cases() if name not in passed]
        self.assertEqual(missing, [], passed[""][-6000:])

    def test_1_rank(self) -> None:
        self.check_all(1)

    def test_2_mapped(self) -> None:
        self.check_all(2)

    def test_8_mapped(self) -> None:
        self.check_all(8)

    def test_2_queued(self) -> None:
        self.check_all(2, "2x1")

    def test_4_mixed(self) -> None:
        self.check_all(4, "2x2")


if __name__ == "__main__":
    unittest.main()
