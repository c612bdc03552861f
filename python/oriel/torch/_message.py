# SPDX-License-Identifier: BSD-3-Clause
"""One message between two ranks: its description, its pieces on the wire, and its errors.

_messages.py moves the pieces.
"""
from __future__ import annotations

import ctypes
import struct
from ctypes import memmove
from typing import Any, NamedTuple

import oriel
from oriel._c import fail

ANY = -1
SLOT = 64 << 10
HEAD = 64
PIECE = SLOT - HEAD  # the most bytes of a message in one slot
# In the place of the count: the sender has given the message up, and no more of it comes.
CUT = (1 << 64) - 1
_HEADER = struct.Struct("<qQQQQ")


class Header(NamedTuple):
    """What stands before each piece.  Number and start let the receiver check the order."""

    tag: int
    total: int  # bytes of the message
    number: int  # of the message, counted per sender and receiver
    start: int  # bytes of the message before this piece
    count: int  # bytes of this piece, or CUT

    def store(self, address: int) -> None:
        """Write the header into a slot."""
        memmove(address, _HEADER.pack(*self), _HEADER.size)

    @classmethod
    def load(cls, address: int) -> Header:
        """Read the header of a slot."""
        return cls(*_HEADER.unpack(ctypes.string_at(address, _HEADER.size)))


class Message:
    """A message that is sent or received.  `on_end` is called once, with the exception or None."""

    def __init__(self, what: str, peer: int, tag: int, address: int, nbytes: int, deadline: float,
                 on_end: Any) -> None:
        self.what, self.peer, self.tag = what, peer, tag
        self.address, self.nbytes, self.total = address, nbytes, nbytes
        self.deadline, self.on_end = deadline, on_end
        self.moved = 0
        self.number = -1  # of a send, from its first piece on
        self.cut = False  # a send that ended half-way: only its end must still be told

    def __str__(self) -> str:
        who = "any rank" if self.peer == ANY else f"rank {self.peer}"
        tag = f" with tag {self.tag}" if self.tag else ""
        return f"{self.what} {who}{tag}, {self.nbytes} bytes"


class Unclaimed:
    """A message, or the beginning of one, in memory of the group's own."""

    def __init__(self, source: int, tag: int, total: int) -> None:
        self.source, self.tag, self.total, self.moved = source, tag, total, 0
        self.memory = ctypes.create_string_buffer(max(1, total))
        self.address = ctypes.addressof(self.memory)
        self.claimed: Message | None = None

    def fits(self, message: Message) -> bool:
        """Whether a receive may get this message."""
        return (self.claimed is None and self.tag == message.tag
                and message.peer in (self.source, ANY))

    def deliver(self, message: Message) -> BaseException | None:
        """Copy the message to its receive.  Returns the error if the sizes differ."""
        message.peer = self.source
        if self.total != message.nbytes:
            return fail("EMISMATCH", f"{message}: rank {self.source} sent {self.total} bytes: send "
                        "and receive tensors of the same size", self.source)
        if self.total:
            memmove(message.address, self.memory, self.total)
        return None


def check_order(source: int, came: Header, number: int, target: Message | Unclaimed | None) -> None:
    """Refuse a piece that does not continue what came before: it has no place in memory.

    `number` is that of the message that is due, and `target` holds what has come of it.
    """
    moved, total = (0, came.total) if target is None else (target.moved, target.total)
    if came.count == CUT:
        fits = target is not None
    else:
        fits = came.count <= PIECE and moved + came.count <= total
    if fits and (came.number, came.start, came.total) == (number, moved, total):
        return
    raise fail("EPROTO", f"messages from rank {source}: byte {came.start} of message {came.number} "
               f"with {came.total} bytes came, but byte {moved} of message {number} was due",
               source)


def timed_out(message: Message) -> oriel.Error:
    """The error of a message whose deadline has passed."""
    rank = None if message.peer == ANY else message.peer
    did = "send" if message.what == "recv from" else "receive"
    who = "no rank sent anything" if rank is None else f"rank {rank} did not {did} in time"
    return fail("ETIMEDOUT", f"{message}: {who}", rank)


def given_up(message: Message, source: int, moved: int) -> oriel.Error:
    """The error of a receive whose sender stopped half-way."""
    return fail("ETIMEDOUT", f"{message}: rank {source} gave the message up after {moved} bytes, "
                "because its send did not finish in time", source)
