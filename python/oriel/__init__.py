# SPDX-License-Identifier: BSD-3-Clause
"""Oriel: one-sided windows between GPUs and CPUs.

    import numpy, oriel

    with oriel.Comm.from_env() as comm:
        window = oriel.Window(comm, bytes=4096)
        right = (comm.rank + 1) % comm.size
        window.put_signal(right, numpy.full(512, comm.rank))
        window.wait_signal((comm.rank - 1) % comm.size)
        print(window.array(dtype="int64")[0])

docs/python.md is the guide.  The C headers describe what each call promises.
"""

from ._boot import make_id
from ._c import VERSION as _VERSION
from ._c import lib as _lib
from ._error import Error
from ._stream import COMM_STREAM
from .collectives import AllGather, AllToAllV
from .comm import NODE, WORLD, Comm
from .memory import Memory, empty
from .operations import ADD, EQ, GE, GT, LE, LT, NE, SET
from .source import Source
from .team import Team
from .window import Window

__version__ = ".".join(str(part) for part in _VERSION)


def version() -> str:
    """The version of the C library."""
    return _lib.oriel_version().decode()


__all__ = [
    "ADD",
    "AllGather",
    "AllToAllV",
    "COMM_STREAM",
    "Comm",
    "EQ",
    "Error",
    "GE",
    "GT",
    "LE",
    "LT",
    "Memory",
    "NE",
    "NODE",
    "SET",
    "Source",
    "Team",
    "WORLD",
    "Window",
    "empty",
    "make_id",
    "version",
]
