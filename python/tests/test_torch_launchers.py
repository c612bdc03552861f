# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed under mpirun, srun and oriel-run: oriel.torch.init_process_group()."""
from __future__ import annotations

import os
import unittest
from datetime import timedelta

from . import support
from .torch_ranks import dist, raised, torch

import oriel.torch  # after torch_ranks, which skips the tests without torch


def group() -> None:
    """A group of all ranks, and a comm over it."""
    torch.set_num_threads(1)
    oriel.torch.init_process_group(timeout=timedelta(seconds=30))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    number = next(os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK")
                  if name in os.environ)
    assert rank == int(number), (rank, number)
    tensor = torch.full((5_000,), float(rank + 1))
    dist.all_reduce(tensor)
    assert bool((tensor == ranks * (ranks + 1) / 2).all())
    if ranks > 1:
        got = torch.empty(3)
        send = dist.isend(torch.full((3,), float(rank)), (rank + 1) % ranks)
        dist.recv(got, (rank - 1) % ranks)
        send.wait()
        assert int(got[0]) == (rank - 1) % ranks
    with oriel.Comm.from_env() as comm:
        assert (comm.rank, comm.size) == (rank, ranks)
        comm.barrier()
    assert "already initialised" in str(raised(oriel.torch.init_process_group))
    dist.destroy_process_group()
    _with_gloo(ranks)
    print(f"rank {rank} of {ranks} is well", flush=True)


def _with_gloo(ranks: int) -> None:
    """A second time, with another backend."""
    oriel.torch.init_process_group("gloo")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert int(tensor) == ranks
    dist.barrier()
    dist.destroy_process_group()


class TorchLaunchers(unittest.TestCase):
    """Each launcher."""

    def check(self, launcher: list[str], body, ranks: int) -> None:
        """All ranks end well."""
        output = support.launched(launcher, body, OMP_NUM_THREADS="1")
        for rank in range(ranks):
            self.assertIn(f"rank {rank} of {ranks} is well", output)

    def test_mpirun(self) -> None:
        """2 and 4 ranks."""
        for ranks in (2, 4):
            self.check(support.mpirun(ranks), group, ranks)

    def test_oriel_run(self) -> None:
        """The library's own launcher."""
        self.check([support.oriel_run(), "-n", "2"], group, 2)

    def test_srun(self) -> None:
        """Slurm."""
        self.check(support.srun(2), group, 2)

    def test_arguments(self) -> None:
        """What the launcher knows is not an argument."""
        for name in ("rank", "store"):
            error = raised(lambda name=name: oriel.torch.init_process_group(**{name: 0}))
            self.assertIn(f"{name} comes from the launcher", str(error))


if __name__ == "__main__":
    unittest.main()
