# SPDX-License-Identifier: BSD-3-Clause
"""The work object of a message.  Who waits for it moves the messages of the group forward."""
from __future__ import annotations

import time
from datetime import timedelta

import torch

from ._message import Message
from ._messages import Messages
from ._work import Work

_NO_TIMEOUT = timedelta(0)
_TELL_S = 30.0


def checked_tensor(what: str, tensor: torch.Tensor) -> torch.Tensor:
    """Refuse what has no bytes in one piece."""
    if tensor.layout != torch.strided:
        raise ValueError(f"{what}: the tensor is {tensor.layout}: pass tensor.to_dense()")
    if not tensor.is_contiguous():
        raise ValueError(f"{what}: the tensor is not contiguous: pass tensor.contiguous()")
    return tensor


class MessageWork(Work):
    """A message that was posted.

    A tensor on a GPU passes through host memory: a send copies it there, and a receive copies it
    back when the message has come.
    """

    def __init__(self, messages: Messages, what: str, tensor: torch.Tensor, peer: int, tag: int,
                 deadline: float) -> None:
        super().__init__(what.split()[0], [tensor])
        self._messages = messages
        self._host = tensor
        self._posted: torch.cuda.Event | None = None
        if tensor.is_cuda:
            self._host = tensor.cpu() if self.name == "send" else torch.empty_like(
                tensor, device="cpu")
            self._posted = torch.cuda.current_stream(tensor.device).record_event()
        self._message = Message(what, peer, tag, self._host.data_ptr(), tensor.nbytes, deadline,
                                self._ended)
        if self.name == "send":
            messages.send(self._message)
        else:
            messages.receive(self._message)

    def _ended(self, failure: BaseException | None) -> None:
        self.source = self._message.peer
        if failure is None and self._posted is not None and self.name == "recv":
            failure = self._copy_back()
        self.finish(failure)

    def _copy_back(self) -> BaseException | None:
        tensor = self.tensors[0]
        try:
            with torch.no_grad(), torch.cuda.device(tensor.device):
                stream = torch.cuda.current_stream()
                stream.wait_event(self._posted)  # work that still used the tensor at the post
                tensor.copy_(self._host)
                stream.synchronize()
        except RuntimeError as failure:
            return failure
        return None

    def is_completed(self) -> bool:
        """Whether the message has been sent or received, or has failed."""
        if not self._finished:
            self._messages.advance()
        return self._finished

    def within(self, deadline: float) -> bool:
        """Wait until a time of time.monotonic().  False: it passed, and the message is given up."""
        if not self._messages.wait(lambda: self._finished, deadline):
            self._give_up()
        if getattr(self._failure, "name", None) == "ORIEL_ETIMEDOUT":
            return False
        if self._failure is not None:
            raise self._failure
        return self._finished

    def _give_up(self) -> None:
        """End the message.  It may have ended just now: then it keeps its own result."""
        self._messages.cancel(self._message)
        self._pass_gate(_TELL_S)  # another thread may be about to tell the end

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Wait for the message, at most for the timeout given here and that of the group.

        If that passes, the message has ended: it fails, and it neither goes out nor comes in later.
        """
        if not self._finished:
            seconds = timeout.total_seconds()
            until = min(self._message.deadline, time.monotonic() + seconds if seconds > 0
                        else self._message.deadline)
            if not self._messages.wait(lambda: self._finished, until):
                self._give_up()
        if self._failure is not None:
            raise self._failure
        return True
