# SPDX-License-Identifier: BSD-3-Clause
"""Team: the memory in which ranks meet for collectives inside a kernel."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _c
from ._c import check, error, fail, lib
from .comm import Comm


class Team:
    """Memory for collectives inside a kernel: coll_allreduce() and others of oriel.triton.

    Args:
        comm: the ranks.
        channels: calls that may run at the same time; the blocks of a kernel use one each.
        slot_bytes: what a rank shows in one round of a channel; 0: chosen.  Longer calls have
            several rounds.

    The constructor and close() are collective.  Bad input of one rank raises on all ranks.
    """

    def __init__(self, comm: Comm, channels: int = 1, slot_bytes: int = 0) -> None:
        self._handle: int | None = None
        self.comm = comm
        self._device_handle: int | None = None
        comm._live("Team")
        problem, options = None, None
        try:
            options = _c.oriel_team_options(
                ctypes.sizeof(_c.oriel_team_options),
                _positive("channels", channels, 1, 2**32),
                0,
                _positive("slot_bytes", slot_bytes, 0, 2**64),
                0,
                0,
            )
        except (TypeError, ValueError) as raised:
            problem = raised
        comm._agree("Team", problem)
        handle = ctypes.c_void_p()
        comm._check(lib.oriel_team_create(comm._handle, ctypes.byref(options),
                                          ctypes.byref(handle)))
        self._handle = handle.value
        self._number = comm._adopt(self)

    @property
    def device_handle(self) -> int:
        """The address of the team's flat handle (struct oriel_team_dev), for kernels.

        It lies in memory that kernels of the comm's device can read, and is valid until close().
        """
        if self._device_handle is None:
            address = ctypes.c_void_p()
            handle = self._live("device_handle")
            check(lib.oriel_team_device_address(handle, ctypes.byref(address)))
            self._device_handle = address.value
        return self._device_handle

    @property
    def status(self) -> int:
        """The team's first failure; else the first call refused since the last question; or 0.

        Does not raise.
        """
        return lib.oriel_team_status(self._live("status"))

    def check(self) -> None:
        """Raises oriel.Error for what `status` would return, with the rank and the reason."""
        check(self.status)

    # ---- ending ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Has the team, or its comm, been closed?"""
        return self._handle is None

    def close(self) -> None:
        """Ends the team. [C]  May be repeated; Comm.close() calls it too."""
        if self._handle is None:
            return
        status = lib.oriel_team_destroy(self._handle)
        if status in (_c.STATUSES["EBUSY"], _c.STATUSES["EMISMATCH"]):
            raise error(status)  # the team stays
        self._handle = self._device_handle = None
        self.comm._children.pop(self._number, None)
        if status:
            raise error(status)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> None:
        # After an exception the other ranks may not come: the comm ends the team later.
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        return "<oriel.Team, closed>" if self.closed else f"<oriel.Team on {self.comm!r}>"

    def _live(self, call: str) -> int:
        if self._handle is None:
            raise fail("ESTALE", f"{call}: the team is closed")
        return self._handle

    def _synced(self) -> None:
        """Nothing waits for the end of streams."""

    def _owners(self) -> Any:
        """The team has no memory of the program."""


def _positive(what: str, count: int, least: int, beyond: int) -> int:
    if not least <= count < beyond:
        raise ValueError(f"{what}={count}: must be from {least} to {beyond - 1}")
    return count
