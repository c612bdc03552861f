# SPDX-License-Identifier: BSD-3-Clause
"""Teams: made and ended by all ranks, with a handle for kernels."""

import ctypes
import unittest

import oriel

from . import support

_WORDS = ctypes.c_uint64 * 8


def teams(comm: oriel.Comm) -> None:
    """Two teams, one after the other's end, and one that the comm ends."""
    first, second = oriel.Team(comm), oriel.Team(comm, channels=3, slot_bytes=4096)
    assert first.device_handle == first.device_handle != second.device_handle
    assert any(_WORDS.from_address(first.device_handle)), "on the CPU the handle can be read"
    assert first.status == second.status == 0
    first.check()
    first.close()
    first.close()
    assert first.closed and "closed" in repr(first)
    try:
        first.device_handle
        raise AssertionError("a closed team has no handle")
    except oriel.Error as error:
        assert error.name == "ORIEL_ESTALE", error
    with oriel.Team(comm, channels=2) as third:
        assert not third.closed
    assert third.closed
    comm.barrier()


def refused(comm: oriel.Comm) -> None:
    """Bad input of one rank raises on all ranks."""
    last = comm.rank == comm.size - 1
    for options, text in (({"channels": 0}, "channels=0"), ({"slot_bytes": -1}, "slot_bytes=-1"),
                          ({"channels": 5000}, "5000 channels"), ({"slot_bytes": 1}, "slot_bytes")):
        try:
            oriel.Team(comm, **(options if last else {}))
            raise AssertionError(f"{options} was taken")
        except (ValueError, oriel.Error) as error:
            assert text in str(error) and (last or error.rank == comm.size - 1), error
    if comm.size > 1:
        try:
            oriel.Team(comm, channels=2 if last else 1)
            raise AssertionError("different teams were made")
        except oriel.Error as error:
            assert error.name == "ORIEL_EMISMATCH" and "channels" in str(error), error
    oriel.Team(comm).close()


def failed(comm: oriel.Comm) -> None:
    """Teams of a comm that has failed end with it."""
    first, window, second = oriel.Team(comm), oriel.Window(comm, bytes=64), oriel.Team(comm)
    second.device_handle
    comm.barrier()
    comm.abort()
    assert first.status and second.status
    comm.close()
    assert comm.closed and first.closed and window.closed and second.closed


class Teams(unittest.TestCase):
    """The bodies on threads and processes."""

    def test_teams(self) -> None:
        support.threads(teams, 1)
        support.threads(teams, 3)
        support.threads(teams, 2, topology="2x1")
        support.processes(teams, 2)

    def test_failed(self) -> None:
        support.threads(failed, 2)

    def test_refused(self) -> None:
        support.threads(refused, 2)
        support.processes(refused, 2)


if __name__ == "__main__":
    unittest.main()
