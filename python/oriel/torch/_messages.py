# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks: send and receive with tags, and the farewell of a group.

Every rank has a ring of slots per source in a window.  A sender stores a piece of a message into
the next slot of its ring at the receiver and signals it.  The receiver copies the piece out and
signals that the slot is free.  So a message of any size passes, and a short one is on its way when
send() returns.

The receiver finds the receive that belongs to a message by source and tag.  Messages without one
are kept until it is posted.  Any thread that waits moves all messages forward.  A thread of the
group's own does it if nobody waits, so a message never depends on the program's next call.
"""
from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections import deque
from ctypes import memmove
from typing import Any, Iterable

import oriel
from oriel._c import check, error, fail, lib

ANY = -1
SLOT = 64 << 10
_HEAD = 64
PIECE = SLOT - _HEAD
_ARRIVED, _FREED, _BYE = 0, 1, 2  # signals
_HEADER = struct.Struct("<qQQ")  # tag, bytes of the message, bytes of this piece
_GE = oriel.GE
_IDLE_S = (0.0, 0.0, 0.0, 0.0, 20e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6)


class Message:
    """A message that is sent or received.  `on_end` is called once, with the exception or None."""

    def __init__(self, what: str, peer: int, tag: int, address: int, nbytes: int, deadline: float,
                 on_end: Any) -> None:
        self.what, self.peer, self.tag = what, peer, tag
        self.address, self.nbytes = address, nbytes
        self.deadline, self.on_end = deadline, on_end
        self.moved = 0

    def __str__(self) -> str:
        who = "any rank" if self.peer == ANY else f"rank {self.peer}"
        tag = f" with tag {self.tag}" if self.tag else ""
        return f"{self.what} {who}{tag}, {self.nbytes} bytes"


class _Unclaimed:
    """A message, or the beginning of one, that no receive was posted for."""

    def __init__(self, source: int, tag: int, total: int) -> None:
        self.source, self.tag, self.total, self.moved = source, tag, total, 0
        self.memory = ctypes.create_string_buffer(max(1, total))
        self.claimed: Message | None = None


class Messages:
    """The messages of one comm.  All methods may be called by any thread."""

    def __init__(self, comm: oriel.Comm) -> None:
        self.comm, self.ranks, self.rank = comm, comm.size, comm.rank
        self._depth = 8 if comm.size <= 16 else 4
        ring = self._depth * SLOT
        self._window = oriel.Window(comm, bytes=(comm.size + 1) * ring)
        self._handle = self._window._handle
        own = self._window.tensor().data_ptr()
        self._rings = [own + source * ring for source in range(comm.size)]
        self._staging, self._staging_off = own + comm.size * ring, comm.size * ring
        self._source = self._window.source()
        self._mapped = [lib.oriel_window_mapped(self._handle, rank) for rank in range(comm.size)]
        self._ring_off = comm.rank * ring  # of this rank's slots in every window
        self._sent = [0] * comm.size  # slots filled at each rank
        self._taken = [0] * comm.size  # slots emptied of each source
        self._sends: dict[int, deque[Message]] = {}
        self._receives: list[Message] = []  # that no message has come for
        self._wanted: set[Message] = set()  # all receives that have not ended
        self._partial: list[Message | _Unclaimed | None] = [None] * comm.size
        self._unclaimed: list[_Unclaimed] = []
        self._ended: list[tuple[Message, BaseException | None]] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._word = ctypes.c_uint64()
        self._word_at = ctypes.byref(self._word)

    # ---- posting ----

    def send(self, message: Message) -> None:
        """Post a message.  Its memory may be written again after on_end."""
        with self._lock:
            self._check_open(message)
            queue = self._sends.setdefault(message.peer, deque())
            queue.append(message)
            self._advance()
        self._tell()
        self._watch()

    def receive(self, message: Message) -> None:
        """Post a receive."""
        with self._lock:
            self._check_open(message)
            self._wanted.add(message)
            kept = next((kept for kept in self._unclaimed if _fits(message, kept)), None)
            if kept is None:
                self._receives.append(message)
            else:
                self._claim(message, kept)
            self._advance()
        self._tell()
        self._watch()

    def _check_open(self, message: Message) -> None:
        if self._closed:
            raise fail("ESTALE", f"{message}: the process group is shut down")

    def cancel(self, message: Message) -> None:
        """Forget a receive that nobody waits for any more."""
        with self._lock:
            if message in self._receives:
                self._receives.remove(message)
                self._wanted.discard(message)

    def _watch(self) -> None:
        """Let the group's thread carry on with what is left."""
        if not self._sends and not self._wanted:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="oriel-messages", daemon=True)
            self._thread.start()
        self._wake.set()

    # ---- moving ----

    def advance(self) -> bool:
        """Move what can be moved, unless another thread is at it.  True: something moved."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            moved = self._advance()
        finally:
            self._lock.release()
        self._tell()
        return moved

    def _finish(self, message: Message, failure: BaseException | None) -> None:
        self._wanted.discard(message)
        self._ended.append((message, failure))

    def _tell(self) -> None:
        """Call on_end of what has ended.  Not under the lock: it may lead to further messages."""
        while self._ended:
            try:
                message, failure = self._ended.pop()
            except IndexError:  # another thread was faster
                return
            message.on_end(failure)

    def _advance(self) -> bool:
        try:
            moved = self._fill_slots() if self._sends else False
            if self._wanted or self._sends:
                moved = self._empty_slots() or moved
        except oriel.Error as failure:
            return self._fail_all(failure)
        return moved

    def _read(self, peer: int, signal: int) -> int:
        status = lib.oriel_window_read_signal(self._handle, peer, signal, self._word_at)
        if status:
            raise error(status)
        return self._word.value

    def _fill_slots(self) -> bool:
        moved = False
        for peer in list(self._sends):
            queue = self._sends[peer]
            room = self._depth - (self._sent[peer] - self._read(peer, _FREED))
            while queue and room > 0:
                if self._send_piece(peer, queue[0]):
                    self._finish(queue.popleft(), None)
                room -= 1
                moved = True
            if not queue:
                del self._sends[peer]
        return moved

    def _send_piece(self, peer: int, message: Message) -> bool:
        """Store the next piece at the peer.  True: it was the last one."""
        count = min(PIECE, message.nbytes - message.moved)
        place = self._ring_off + self._sent[peer] % self._depth * SLOT
        mapped = self._mapped[peer]
        slot = mapped + place if mapped else self._staging
        memmove(slot, _HEADER.pack(message.tag, message.nbytes, count), _HEADER.size)
        if count:
            memmove(slot + _HEAD, message.address + message.moved, count)
        if mapped:
            check(lib.oriel_window_signal(self._handle, peer, _ARRIVED, oriel.ADD, 1, None))
        else:
            check(lib.oriel_window_put_signal(
                self._handle, peer, place, self._source._pointer, self._staging_off, _HEAD + count,
                _ARRIVED, oriel.ADD, 1, None))
        self._sent[peer] += 1
        message.moved += count
        return message.moved == message.nbytes

    def _empty_slots(self) -> bool:
        moved = False
        for source in range(self.ranks):
            if source == self.rank:
                continue
            count = self._read(source, _ARRIVED) - self._taken[source]
            for _ in range(count):
                slot = self._rings[source] + self._taken[source] % self._depth * SLOT
                self._take_piece(source, slot)
                self._taken[source] += 1
            if count:
                check(lib.oriel_window_signal(self._handle, source, _FREED, oriel.ADD, count, None))
                moved = True
        return moved

    def _take_piece(self, source: int, slot: int) -> None:
        tag, total, count = _HEADER.unpack(ctypes.string_at(slot, _HEADER.size))
        target = self._partial[source]
        if target is None:
            target = self._target(source, tag, total)
        address = target.address if isinstance(target, Message) else ctypes.addressof(target.memory)
        if count:
            memmove(address + target.moved, slot + _HEAD, count)
        target.moved += count
        self._partial[source] = target if target.moved < total else None
        if target.moved == total:
            self._complete(target, source)

    def _target(self, source: int, tag: int, total: int) -> Message | _Unclaimed:
        """The receive for a message that begins, or memory of our own."""
        for message in self._receives:
            if message.peer in (source, ANY) and message.tag == tag:
                self._receives.remove(message)
                if message.nbytes == total:
                    message.peer = source
                    return message
                # The message is taken off its ring all the same, so that later ones can pass.
                kept = _Unclaimed(source, tag, total)
                kept.claimed = message
                return kept
        kept = _Unclaimed(source, tag, total)
        self._unclaimed.append(kept)
        return kept

    def _complete(self, target: Message | _Unclaimed, source: int) -> None:
        if isinstance(target, Message):
            self._finish(target, None)
        elif target.claimed is not None:
            if target in self._unclaimed:
                self._unclaimed.remove(target)
            self._finish(target.claimed, _deliver(target.claimed, target))

    def _claim(self, message: Message, kept: _Unclaimed) -> None:
        """Give a receive the message that came before it."""
        kept.claimed = message
        if kept.moved == kept.total:
            self._unclaimed.remove(kept)
            self._finish(message, _deliver(message, kept))

    # ---- waiting ----

    def wait(self, ended: Any, deadline: float) -> bool:
        """Move messages until ended() is true.  False: the deadline passed."""
        idle = 0
        while not ended():
            if self.advance():
                idle = 0
                continue
            if time.monotonic() > deadline:
                return False
            time.sleep(_IDLE_S[min(idle, len(_IDLE_S) - 1)])
            idle += 1
        return True

    def _serve(self) -> None:
        """The group's thread: carries on while something is left, then sleeps."""
        idle = 0
        while not self._closed:
            if not self._sends and not self._wanted:
                self._wake.clear()
                if not self._sends and not self._wanted and not self._closed:
                    self._wake.wait()
                continue
            if self.advance():
                idle = 0
            else:
                # Slower than a thread that waits: this one only helps out.
                time.sleep(min(1e-3, 50e-6 * (idle + 1)))
                idle += 1
                self._expire()

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [m for m in self._receives if now > m.deadline]
            for message in late:
                self._receives.remove(message)
            for peer in [p for p, q in self._sends.items() if now > q[0].deadline]:
                late += self._sends.pop(peer)
            for message in late:
                self._finish(message, timed_out(message))
        self._tell()

    def _fail_all(self, failure: BaseException) -> bool:
        """Fail what is pending.  False: nothing was."""
        pending = [*self._wanted, *(m for queue in self._sends.values() for m in queue)]
        self._receives, self._sends, self._unclaimed = [], {}, []
        self._partial = [None] * self.ranks
        for message in pending:
            self._finish(message, failure)
        return bool(pending)

    # ---- the end ----

    def say_goodbye(self, seconds: float) -> bool:
        """Tell all ranks that this one needs the group no more.  True: all others have said it."""
        deadline = time.monotonic() + seconds
        try:
            for rank in self._others():
                check(lib.oriel_window_signal(self._handle, rank, _BYE, oriel.ADD, 1, None))
            # Messages that are still on their way are moved on meanwhile.
            return self.wait(lambda: all(self._bye(rank) for rank in self._others()), deadline)
        except oriel.Error:
            return False  # the comm has failed: nobody needs to wait

    def _bye(self, rank: int) -> bool:
        with self._lock:
            return self._read(rank, _BYE) > 0

    def _others(self) -> Iterable[int]:
        return (rank for rank in range(self.ranks) if rank != self.rank)

    def close(self) -> None:
        """End the thread and fail what is pending.  The window ends with the comm."""
        self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            self._fail_all(fail("EABORTED", "the process group was shut down"))
            self._source.release()
        self._tell()


def _fits(message: Message, kept: _Unclaimed) -> bool:
    return (kept.claimed is None and kept.tag == message.tag
            and message.peer in (kept.source, ANY))


def _deliver(message: Message, kept: _Unclaimed) -> BaseException | None:
    """Copy a message that was kept to its receive.  Returns the error if the sizes differ."""
    message.peer = kept.source
    if kept.total != message.nbytes:
        return fail("EMISMATCH", f"{message}: rank {kept.source} sent {kept.total} bytes: send and "
                    "receive tensors of the same size", kept.source)
    if kept.total:
        memmove(message.address, kept.memory, kept.total)
    return None


def timed_out(message: Message) -> oriel.Error:
    """The error of a message whose deadline has passed."""
    rank = None if message.peer == ANY else message.peer
    did = "send" if message.what == "recv from" else "receive"
    who = "no rank sent anything" if rank is None else f"rank {rank} did not {did} in time"
    return fail("ETIMEDOUT", f"{message}: {who}", rank)
