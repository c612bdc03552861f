# SPDX-License-Identifier: BSD-3-Clause
"""The backend "oriel" of torch.distributed, for tensors on the CPU and on CUDA.

    import torch.distributed as dist
    import oriel.torch                     # registers the backend

    dist.init_process_group("oriel")       # under torchrun
    dist.all_reduce(tensor)

oriel.torch.init_process_group() does the same under mpirun, srun and oriel-run.

docs/torch.md describes what it offers.
"""
from __future__ import annotations

import torch.distributed as dist

from ._group import ProcessGroup, create
from ._launch import init_process_group

__all__ = ["ProcessGroup", "init_process_group", "register"]


def register() -> None:
    """Register "oriel".  `import oriel.torch` does it; a second call changes nothing."""
    if "ORIEL" not in dist.Backend._plugins:
        dist.Backend.register_backend("oriel", create, devices=["cpu", "cuda"])


register()
