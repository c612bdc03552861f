# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel and sharded training on the backend, compared with one process."""
from __future__ import annotations

import unittest
from typing import Callable

from .torch_ranks import run_ranks, torch

# Not in the ranks: the import takes longer than a test.
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp import fully_shard as shard

STEPS, BATCH = 3, 12


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 40), torch.nn.ReLU(), torch.nn.Linear(40, 8))


def _batch(step: int) -> torch.Tensor:
    return torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(step))


def _train(model: torch.nn.Module, share: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A few steps.  Every rank takes its share of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(share(_batch(step))).square().mean().backward()
        optimizer.step()


def _alone() -> list[torch.Tensor]:
    model = _model()
    _train(model, lambda batch: batch)
    return [parameter.detach() for parameter in model.parameters()]


def _share(rank: int, ranks: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda batch: batch.chunk(ranks)[rank]


def data_parallel(rank: int, ranks: int) -> None:
    """DistributedDataParallel, with small buckets, so that several are under way at once."""
    model = torch.nn.parallel.DistributedDataParallel(_model(), bucket_cap_mb=0.001)
    _train(model, _share(rank, ranks))
    for got, want in zip(model.parameters(), _alone()):
        torch.testing.assert_close(got.detach(), want)


def fully_shard(rank: int, ranks: int) -> None:
    """FSDP2: every rank keeps a part of each parameter."""
    mesh = init_device_mesh("cpu", (ranks,))
    model = _model()
    for layer in (model[0], model[2]):
        shard(layer, mesh=mesh)
    shard(model, mesh=mesh)
    _train(model, _share(rank, ranks))
    for got, want in zip(model.parameters(), _alone()):
        torch.testing.assert_close(got.full_tensor().detach(), want)


def wrapped(rank: int, ranks: int) -> None:
    """FSDP1: the older wrapper."""
    model = FullyShardedDataParallel(_model(), device_id=torch.device("cpu"))
    _train(model, _share(rank, ranks))
    with FullyShardedDataParallel.summon_full_params(model):
        for got, want in zip(model.parameters(), _alone()):
            torch.testing.assert_close(got.detach().view_as(want), want)


class Training(unittest.TestCase):
    """The parameters after training equal those of one process."""

    def test_data_parallel(self) -> None:
        """DistributedDataParallel."""
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                run_ranks(data_parallel, ranks)

    def test_fully_shard(self) -> None:
        """fully_shard on the CPU."""
        run_ranks(fully_shard, 2)

    def test_wrapped(self) -> None:
        """FullyShardedDataParallel on the CPU."""
        run_ranks(wrapped, 2)


if __name__ == "__main__":
    unittest.main()
