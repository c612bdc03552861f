# SPDX-License-Identifier: BSD-3-Clause
"""The all-reduce of sparse tensors: every rank gathers the entries of all ranks and adds them."""
from __future__ import annotations

from typing import Any, Callable

import torch

from . import _reduce
from ._reduce import Op


def all_reduce(tensor: torch.Tensor, op: Op) -> Callable[[Any], None]:
    """Check a sparse tensor and return the call that sums it over all ranks."""
    if op.code != _reduce.SUM:
        raise ValueError(f"all_reduce: {op.name} of sparse tensors: only SUM has a meaning there")
    if tensor.device.type != "cpu":
        raise ValueError(f"all_reduce: a sparse tensor on {tensor.device}: pass tensor.to_dense(), "
                         "or move it to the CPU")
    entries = tensor.coalesce()
    return lambda on: _sum(tensor, entries, on)


def _sum(tensor: torch.Tensor, entries: torch.Tensor, on: Any) -> None:
    indices = entries.indices().contiguous()
    values = entries.values().contiguous()
    counts = torch.empty(on.ranks, dtype=torch.int64, device=tensor.device)
    mine = torch.tensor([indices.size(1)], dtype=torch.int64, device=tensor.device)
    on.all_gather_flat(counts, mine)
    most = int(counts.max())
    # Blocks of an all-gather have one size, so every rank fills its block up.
    padded = indices.new_zeros(most, indices.size(0))
    padded[:indices.size(1)] = indices.t()
    filled = values.new_zeros(most, *values.shape[1:])
    filled[:values.size(0)] = values
    every_index = padded.new_empty(on.ranks, *padded.shape)
    every_value = filled.new_empty(on.ranks, *filled.shape)
    on.all_gather_flat(every_index, padded)
    on.all_gather_flat(every_value, filled)
    kept = [slice(0, count) for count in counts.tolist()]
    where = torch.cat([rows[part] for rows, part in zip(every_index, kept)]).t()
    what = torch.cat([rows[part] for rows, part in zip(every_value, kept)])
    total = torch.sparse_coo_tensor(where, what, tensor.shape).coalesce()
    tensor.copy_(total)
