# SPDX-License-Identifier: BSD-3-Clause
"""A part of PyTorch's own distributed tests, on gloo and on oriel: torch_suite.py."""
from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from .support import environment, have
from .torch_ranks import torch  # noqa: F401  (skips without torch)

SUITE = Path(__file__).with_name("torch_suite.py")


def suite(*arguments: str) -> subprocess.CompletedProcess:
    """Run torch_suite.py."""
    return subprocess.run([sys.executable, str(SUITE), *arguments], env=environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=390)


class Suite(unittest.TestCase):
    """Every test that gloo passes passes on oriel, unless it names gloo."""

    def test_part(self) -> None:
        """The part of at most five minutes."""
        if not have("expecttest"):
            raise unittest.SkipTest("expecttest is not installed: tools/deps.sh torch")
        with tempfile.TemporaryDirectory() as results:
            done = suite("run", "--part", "--minutes", "6", "--results", results)
            self.assertEqual(done.returncode, 0, done.stdout)
            done = suite("check", "--results", results)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
