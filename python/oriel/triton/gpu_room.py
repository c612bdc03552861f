# SPDX-License-Identifier: BSD-3-Clause
"""How much of a GPU a rank may fill with blocks that wait for other ranks.

All such blocks, of all ranks of the GPU, must run at once.  Under MPS a process may have a share of
the SMs only.  src/device/cuda/gpu.c finds it in the same way.
"""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Any, Tuple

import torch

_CORES_PER_SM = {(7, 0): 64, (7, 5): 64, (8, 0): 64}  # all later GPUs have 128


def gpu_name(device: torch.device) -> str:
    """A name that only this GPU has, on all hosts, with this process behind it."""
    gpu = str(torch.cuda.get_device_properties(device).uuid)
    return f"{socket.gethostname()[:120]}|{gpu}|{os.getpid()}"


def sharers(comm: Any, mine: str) -> Tuple[int, int]:
    """How many ranks of this process, and of all processes, use the GPU `mine`. [C]"""
    records = comm.allgather(mine.encode().ljust(240, b"\0"))
    everyone = [record.rstrip(b"\0").decode() for record in records]
    same_gpu = [other for other in everyone if other.rsplit("|", 1)[0] == mine.rsplit("|", 1)[0]]
    return same_gpu.count(mine), len(same_gpu)


def share_of(seen: int, whole: int, percent: float) -> Tuple[int, int]:
    """SMs of this process, and of the GPU.

    seen: what the driver shows this process; whole: what NVML says, 0 if it is not there; percent:
    the share by CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.  Some drivers show a share as fewer SMs, others
    show all of them.
    """
    if not 0 < percent < 100:
        return seen, max(seen, whole)
    if whole > seen:
        return seen, whole
    # all SMs are shown, or nobody knows: the smaller number is safe
    return max(1, int(seen * percent / 100)), max(seen, whole)


def sms(device: torch.device) -> Tuple[int, int]:
    """SMs of this process, and of the GPU."""
    properties = torch.cuda.get_device_properties(device)
    cores = _nvml_cores(str(properties.uuid))
    whole = cores // _CORES_PER_SM.get((properties.major, properties.minor), 128)
    percent = float(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") or 100)
    return share_of(properties.multi_processor_count, whole, percent)


def _nvml_cores(uuid: str) -> int:
    """Cores of the GPU, whatever share this process has; 0 if NVML does not say."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    handle, cores = ctypes.c_void_p(), ctypes.c_uint()
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    if nvml.nvmlInit_v2():
        return 0
    failed = (nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
              or nvml.nvmlDeviceGetNumGpuCores(handle, ctypes.byref(cores)))
    nvml.nvmlShutdown()
    return 0 if failed else cores.value
