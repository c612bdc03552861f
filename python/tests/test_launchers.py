# SPDX-License-Identifier: BSD-3-Clause
"""Comms of processes that mpirun or srun has started, through PMIx."""

import os
import unittest

import numpy

import oriel

from . import support


def ring(comm: oriel.Comm) -> None:
    """The ranks are those of the launcher, and reach each other."""
    number = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["SLURM_PROCID"]
    assert comm.rank == int(number), (comm.rank, number)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with oriel.Window(comm, bytes=8 * 100) as window:
        window.put_signal(right, numpy.full(100, comm.rank))
        window.wait_signal(left)
        assert (window.array(dtype="int64") == left).all()
        window.barrier()
    both = numpy.zeros((comm.size, 3), "int32")
    comm.all_gather(numpy.full(3, comm.rank, "int32"), both)
    assert (both[:, 2] == numpy.arange(comm.size)).all()
    print(f"rank {comm.rank} of {comm.size} is well", flush=True)


def again() -> None:
    """A second comm of the launcher, after the first: beside the first it is refused."""
    with oriel.Comm.from_env() as first:
        try:
            oriel.Comm.from_env().close()
            raise AssertionError("a second comm beside the first")
        except oriel.Error as error:
            assert error.name == "ORIEL_EBUSY", error
        ring(first)
    with oriel.Comm.from_env() as second:
        ring(second)


def bad_input(comm: oriel.Comm) -> None:
    """A mistake of one rank raises on all."""
    try:
        oriel.Window(comm, bytes=-1 if comm.rank == 1 else 64)
    except (ValueError, oriel.Error) as error:
        assert comm.rank == 1 or "rank 1 failed: bytes=-1" in str(error), error
        print(f"rank {comm.rank} of {comm.size} is well", flush=True)


class Launchers(unittest.TestCase):
    """Each launcher with 2 and 4 ranks."""

    def check(self, launcher, body, ranks: int, times: int = 1) -> None:
        """All ranks end well, under the launcher's numbers."""
        output = support.launched(launcher(ranks), body)
        for rank in range(ranks):
            self.assertEqual(output.count(f"rank {rank} of {ranks} is well"), times, output)

    def test_mpirun(self) -> None:
        for ranks in (2, 4):
            self.check(support.mpirun, ring, ranks)

    def test_mpirun_again(self) -> None:
        self.check(support.mpirun, again, 2, times=2)

    def test_mpirun_bad_input(self) -> None:
        self.check(support.mpirun, bad_input, 2)

    def test_srun(self) -> None:
        for ranks in (2, 4):
            self.check(support.srun, ring, ranks)


if __name__ == "__main__":
    unittest.main()
