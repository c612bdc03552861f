# SPDX-License-Identifier: BSD-3-Clause
"""How the comm of a group becomes the comms of its parts.

Every rank passes the list of its own part.  The ranks compare their lists before they split, so a
mistake of one rank raises on all ranks, and no part has other members than its list.
"""
from __future__ import annotations

import struct
from typing import Sequence

import oriel
from oriel._c import fail

_NOBODY = -1  # fills a row up


def split(comm: oriel.Comm, members: Sequence[int]) -> oriel.Comm | None:
    """The comm of the ranks in `members`, in this order. [C]

    None for a rank that is not in its list: it is in no part.
    """
    comm._agree("split_group", _problem(members, comm.size))
    form = struct.Struct(f"<{comm.size}i")
    row = [*members] + [_NOBODY] * (comm.size - len(members))
    rows = [form.unpack(other) for other in comm.allgather(form.pack(*row))]
    _compare(rows)
    if comm.rank not in members:
        comm.split(-1)
        return None
    return comm.split(members[0], members.index(comm.rank))


def _problem(members: Sequence[int], ranks: int) -> Exception | None:
    """What is wrong with a list by itself."""
    if not members or not all(isinstance(member, int) for member in members):
        return ValueError(f"split_group: {members!r}: pass a list of ranks of the parent group")
    beyond = [member for member in members if not 0 <= member < ranks]
    if beyond:
        return ValueError(f"split_group: rank {beyond[0]} does not exist in the parent group "
                          f"(ranks are 0 to {ranks - 1})")
    if len(set(members)) != len(members):
        return ValueError(f"split_group: {list(members)} names a rank twice")
    return None


def _compare(rows: list[tuple[int, ...]]) -> None:
    """All ranks see all rows, so all ranks raise if one differs from that of a member."""
    for rank, row in enumerate(rows):
        if rank not in row:
            continue
        for member in row:
            if member != _NOBODY and rows[member] != row:
                raise fail("EMISMATCH", f"split_group: rank {rank} passes {_ranks(row)}, but rank "
                           f"{member} in it passes {_ranks(rows[member])}: pass the same "
                           "split_ranks on all ranks", member)


def _ranks(row: tuple[int, ...]) -> list[int]:
    return [member for member in row if member != _NOBODY]
