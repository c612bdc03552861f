# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks: send and receive with tags, and the farewell of a group.

Every rank has a ring of slots per source in a window.  A sender stores a piece of a message into
the next slot of its ring at the receiver and signals it.  The receiver copies the piece out and
signals that the slot is free.  So a message of any size passes, and a short one is on its way when
send() returns.

The receiver finds the receive that belongs to a message by source and tag.  Messages without one
are kept until it is posted.  Any thread that waits moves all messages forward.  A thread of the
group's own does it if nobody waits, so a message never depends on the program's next call.

A message that ends half-way leaves the stream of pieces whole.  A send that is given up is followed
by a slot that says so.  A receive that is given up leaves its message to the next receive.  Any
other error ends the group, because the ranks may no longer agree on what comes next.
"""
from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from ctypes import memmove
from typing import Any, Iterable

import oriel
from oriel._c import STATUSES, check, error, fail, lib

from ._message import (ANY, CUT, HEAD, PIECE, SLOT, Header, Message, Unclaimed, check_order,
                       given_up, timed_out)
from ._work import joined

_ARRIVED, _FREED, _BYE = 0, 1, 2  # signals
_IDLE_S = (0.0, 0.0, 0.0, 0.0, 20e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6)
_EXPIRE_S = 10e-3  # between two looks for messages that are late


class Messages:
    """The messages of one comm.  All methods may be called by any thread."""

    def __init__(self, comm: oriel.Comm) -> None:
        self.comm, self.ranks, self.rank = comm, comm.size, comm.rank
        self._others = [rank for rank in range(comm.size) if rank != comm.rank]
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
        self._begun = [0] * comm.size  # messages begun to each rank
        self._due = [0] * comm.size  # number of the message that comes next from each source
        self._sends: dict[int, deque[Message]] = {}
        self._receives: list[Message] = []  # that no message has come for
        self._wanted: set[Message] = set()  # all receives that have not ended
        self._partial: list[Message | Unclaimed | None] = [None] * comm.size
        self._unclaimed: list[Unclaimed] = []
        self._ended: deque[tuple[Message, BaseException | None]] = deque()
        self._failure: BaseException | None = None  # the first one; nothing moves after it
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._word = ctypes.c_uint64()
        self._word_at = ctypes.byref(self._word)

    # ---- posting ----

    def send(self, message: Message) -> None:
        """Post a message.  Its memory may be written again after on_end."""
        with self._lock:
            self._check_open(message)
            self._sends.setdefault(message.peer, deque()).append(message)
            self._advance()
        self._tell()
        self._watch()

    def receive(self, message: Message) -> None:
        """Post a receive."""
        with self._lock:
            self._check_open(message)
            self._wanted.add(message)
            kept = next((kept for kept in self._unclaimed if kept.fits(message)), None)
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
        """End a message that nobody waits for any more, unless it has ended: as timed out."""
        with self._lock:
            self._withdraw([message])
        self._tell()

    def _withdraw(self, messages: Iterable[Message]) -> None:
        try:
            for message in messages:
                if message in self._wanted:
                    self._withdraw_receive(message)
                elif message in self._sends.get(message.peer, ()) and not message.cut:
                    self._withdraw_send(message)
                else:
                    continue
                self._finish(message, timed_out(message))
        except Exception as failure:  # no memory for what has come of a message
            self._break(failure)

    def _withdraw_send(self, message: Message) -> None:
        if message.moved:
            message.cut = True  # its memory is not read any more; the receiver is told
            return
        queue = self._sends[message.peer]
        queue.remove(message)
        if not queue:
            del self._sends[message.peer]

    def _withdraw_receive(self, message: Message) -> None:
        """What has come of the message, and its rest, wait for another receive."""
        if message in self._receives:
            self._receives.remove(message)
            return
        if message in self._partial:
            kept = Unclaimed(message.peer, message.tag, message.nbytes)
            memmove(kept.memory, message.address, message.moved)
            kept.moved = message.moved
            self._partial[message.peer] = kept
            self._unclaimed.append(kept)
        else:
            kept = next(kept for kept in self._partial if getattr(kept, "claimed", None) is message)
            kept.claimed = None
        later = next((other for other in self._receives if kept.fits(other)), None)
        if later is not None:
            self._receives.remove(later)
            self._claim(later, kept)

    def _watch(self) -> None:
        """Let the group's thread carry on with what is left."""
        if not self._pending():
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="oriel-messages", daemon=True)
            self._thread.start()
        self._wake.set()

    def _pending(self) -> bool:
        return bool(self._sends or self._wanted)

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
                message, failure = self._ended.popleft()
            except IndexError:  # another thread was faster
                return
            message.on_end(failure)

    def _advance(self) -> bool:
        if self._failure is not None:
            return self._fail_all(self._failure)
        try:
            moved = self._fill_slots() if self._sends else False
            if self._pending():
                moved = self._empty_slots() or moved
        except Exception as failure:
            return self._break(failure)
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
                    ended = queue.popleft()
                    if not ended.cut:  # that one has been told to its caller
                        self._finish(ended, None)
                room -= 1
                moved = True
            if not queue:
                del self._sends[peer]
        return moved

    def _send_piece(self, peer: int, message: Message) -> bool:
        """Store the next piece at the peer.  True: it was the last one."""
        if message.number < 0:
            message.number = self._begun[peer]
            self._begun[peer] += 1
        count = 0 if message.cut else min(PIECE, message.nbytes - message.moved)
        place = self._ring_off + self._sent[peer] % self._depth * SLOT
        mapped = self._mapped[peer]
        slot = mapped + place if mapped else self._staging
        Header(message.tag, message.nbytes, message.number, message.moved,
               CUT if message.cut else count).store(slot)
        if count:
            memmove(slot + HEAD, message.address + message.moved, count)
        if mapped:
            check(lib.oriel_window_signal(self._handle, peer, _ARRIVED, oriel.ADD, 1, None))
        else:
            check(lib.oriel_window_put_signal(
                self._handle, peer, place, self._source._pointer, self._staging_off, HEAD + count,
                _ARRIVED, oriel.ADD, 1, None))
        self._sent[peer] += 1
        message.moved += count
        return message.cut or message.moved == message.nbytes

    def _empty_slots(self) -> bool:
        moved = False
        for source in self._others:
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
        came, target = Header.load(slot), self._partial[source]
        check_order(source, came, self._due[source], target)
        if came.count == CUT:
            self._take_cut(source, target)
            return
        if target is None:
            target = self._target(source, came.tag, came.total)
        if came.count:
            memmove(target.address + target.moved, slot + HEAD, came.count)
        target.moved += came.count
        if target.moved < came.total:
            self._partial[source] = target
            return
        self._partial[source] = None
        self._due[source] += 1
        self._complete(target)

    def _take_cut(self, source: int, target: Message | Unclaimed) -> None:
        """The sender has given up the message that is coming."""
        self._partial[source] = None
        self._due[source] += 1
        receive = target if isinstance(target, Message) else target.claimed
        if target in self._unclaimed:
            self._unclaimed.remove(target)
        if receive is not None:
            self._finish(receive, given_up(receive, source, target.moved))

    def _target(self, source: int, tag: int, total: int) -> Message | Unclaimed:
        """The receive for a message that begins, or memory of our own."""
        receive = next((receive for receive in self._receives
                        if receive.tag == tag and receive.peer in (source, ANY)), None)
        if receive is not None:
            self._receives.remove(receive)
            if receive.nbytes == total:
                receive.peer = source
                return receive
        # Also if the sizes differ: the message leaves its ring, so that later ones can pass.
        kept = Unclaimed(source, tag, total)
        kept.claimed = receive
        self._unclaimed.append(kept)
        return kept

    def _complete(self, target: Message | Unclaimed) -> None:
        if isinstance(target, Message):
            self._finish(target, None)
        elif target.claimed is not None:
            self._unclaimed.remove(target)
            self._finish(target.claimed, target.deliver(target.claimed))

    def _claim(self, message: Message, kept: Unclaimed) -> None:
        """Give a receive the message that came before it."""
        kept.claimed = message
        if kept.moved == kept.total:
            self._unclaimed.remove(kept)
            self._finish(message, kept.deliver(message))

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
        idle, look = 0, 0.0
        while not self._closed:
            if not self._pending():
                self._wake.clear()
                if not self._pending() and not self._closed:
                    self._wake.wait()
                continue
            if self.advance():
                idle = 0
            else:
                # Slower than a thread that waits: this one only helps out.
                time.sleep(min(1e-3, 50e-6 * (idle + 1)))
                idle += 1
            # Also while messages move: they need not be those that are late.
            now = time.monotonic()
            if now >= look:
                self._expire(now)
                look = now + _EXPIRE_S

    def _expire(self, now: float) -> None:
        with self._lock:
            self._withdraw(m for m in self._unfinished() if now > m.deadline)
        self._tell()

    def _unfinished(self) -> list[Message]:
        return [*self._wanted, *(m for queue in self._sends.values() for m in queue)]

    def _break(self, failure: BaseException) -> bool:
        """End the group for all ranks.  Pieces may be lost, so nothing can follow them."""
        self._failure = failure
        try:
            if not self.comm.status:
                self.comm.abort(getattr(failure, "status", STATUSES["EABORTED"]))
        except oriel.Error:
            pass  # the comm is closed
        return self._fail_all(failure)

    def _fail_all(self, failure: BaseException) -> bool:
        """Fail what is pending.  False: nothing was."""
        pending = [message for message in self._unfinished() if not message.cut]
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
            for rank in self._others:
                check(lib.oriel_window_signal(self._handle, rank, _BYE, oriel.ADD, 1, None))
            # Messages that are still on their way are moved on meanwhile.
            return self.wait(lambda: all(self._bye(rank) for rank in self._others), deadline)
        except oriel.Error:
            return False  # the comm has failed: nobody needs to wait

    def _bye(self, rank: int) -> bool:
        with self._lock:
            return self._read(rank, _BYE) > 0

    def close(self, seconds: float) -> bool:
        """End the thread and fail what is pending.  False: a thread still uses the window."""
        self._closed = True
        self._wake.set()
        # The thread may be in code of the program, which runs when a message ends.
        if not joined(self._thread, seconds) or not self._lock.acquire(timeout=seconds):
            return False
        self._fail_all(fail("EABORTED", "the process group was shut down"))
        self._lock.release()
        self._source.release()
        self._tell()
        return True
