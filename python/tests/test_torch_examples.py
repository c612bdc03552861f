# SPDX-License-Identifier: BSD-3-Clause
"""The examples with torch, as a user starts them: by torchrun."""
from __future__ import annotations

import sys
import unittest

from .support import PYTHON, command
from .torch_ranks import torch  # noqa: F401  (skips without torch)


def torchrun(example: str, ranks: int) -> str:
    """The output of an example on so many ranks."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               "--nproc-per-node", str(ranks), str(PYTHON / "examples" / example)]
    done = command(program, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    if done.returncode:
        raise AssertionError(f"{example} on {ranks} ranks failed:\n{done.stdout}")
    return done.stdout


class Examples(unittest.TestCase):
    """Each example checks its own results."""

    def test_moe(self) -> None:
        """The mixture of experts equals one process and gloo."""
        self.assertIn("equal to one process and to gloo", torchrun("moe.py", 4))

    def test_fsdp_gather(self) -> None:
        """The sharded model equals the whole one."""
        self.assertIn("equal to the whole model", torchrun("fsdp_gather.py", 4))

    def test_short(self) -> None:
        """Examples are at most 120 lines long."""
        for name in ("moe.py", "fsdp_gather.py"):
            lines = (PYTHON / "examples" / name).read_text().splitlines()
            self.assertLessEqual(len(lines), 120, name)


if __name__ == "__main__":
    unittest.main()
