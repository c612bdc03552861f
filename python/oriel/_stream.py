# SPDX-License-Identifier: BSD-3-Clause
"""What stream= may be: None, a number, a torch stream, or an object with __cuda_stream__."""

from __future__ import annotations

import sys
from typing import Any

# CUDA's handle for its default stream.  NULL would be the comm's own stream.
_CUDA_DEFAULT = 1


class _CommStream:
    def __repr__(self) -> str:
        return "oriel.COMM_STREAM"


COMM_STREAM = _CommStream()
"""The comm's own stream, for stream= of a comm on a GPU."""


def is_capturing() -> bool:
    """Whether torch captures the current stream into a CUDA graph."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and bool(
        torch.cuda.is_current_stream_capturing())


def stream_handle(stream: Any, on_gpu: bool, device: str = "cuda") -> int | None:
    """The handle for the C call; None is the comm's own stream.  device: the comm's GPU."""
    if not on_gpu or stream is COMM_STREAM:
        return None
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        return torch.cuda.current_stream(device).cuda_stream or _CUDA_DEFAULT
    if isinstance(stream, int):
        return stream or _CUDA_DEFAULT
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        value = protocol() if callable(protocol) else protocol
        return int(value[1]) or _CUDA_DEFAULT
    handle = getattr(stream, "cuda_stream", None)
    if handle is None:
        raise TypeError(
            f"stream: {type(stream).__name__} is no stream: pass None, the number of a CUstream, "
            "a torch.cuda.Stream, or an object with __cuda_stream__"
        )
    return int(handle) or _CUDA_DEFAULT
