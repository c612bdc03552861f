# SPDX-License-Identifier: BSD-3-Clause
"""Runs alltoallv_interpreted.py: the exchange kernel in Triton's interpreter, without a GPU."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import unittest

from .support import environment, have

PYTHON = pathlib.Path(__file__).resolve().parent.parent


class Interpreted(unittest.TestCase):
    def test_exchange(self) -> None:
        for module in ("torch", "triton"):
            if not have(module):
                self.skipTest(f"no {module}")
        result = subprocess.run(
            [sys.executable, "-m", "tests.alltoallv_interpreted"], cwd=PYTHON, text=True,
            timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment(TRITON_INTERPRET="1", OMP_NUM_THREADS="1"))
        self.assertEqual(result.returncode, 0, result.stdout[-4000:])
        self.assertIn("passed all", result.stdout)


if __name__ == "__main__":
    unittest.main()
