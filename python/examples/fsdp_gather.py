# SPDX-License-Identifier: BSD-3-Clause
"""Parameters in shards: the all-gather of the next layer runs while this layer computes.

    torchrun --nproc-per-node 4 fsdp_gather.py            # CPU
    torchrun --nproc-per-node 4 fsdp_gather.py --device cuda

Every rank keeps one part of the parameters of every layer.  Before a layer runs, all ranks gather
its parameters.  This is how fully sharded data-parallel training works, without the rest of it.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist

import oriel.torch  # noqa: F401  (registers the backend "oriel")

LAYERS, WIDTH, BATCH = 6, 512, 256


def whole_layer(layer: int) -> torch.Tensor:
    """All parameters of a layer.  A real program would never hold them all."""
    random = torch.Generator().manual_seed(layer)
    return torch.randn(WIDTH, WIDTH, generator=random) / WIDTH**0.5


class ShardedModel:
    """Layers whose parameters lie in shards, with two places for whole layers."""

    def __init__(self, device: torch.device) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        rows = -(-WIDTH // ranks)  # the last shard is padded
        padded = torch.zeros(rows * ranks, WIDTH)
        self.shards = []
        for layer in range(LAYERS):
            padded[:WIDTH] = whole_layer(layer)
            self.shards.append(padded[rank * rows:(rank + 1) * rows].clone().to(device))
        self.places = [torch.empty(rows * ranks, WIDTH, device=device) for _ in range(2)]

    def gather(self, layer: int) -> dist.Work:
        """Start to gather a layer into its place."""
        return dist.all_gather_into_tensor(self.places[layer % 2], self.shards[layer],
                                           async_op=True)

    def forward(self, x: torch.Tensor, ahead: bool) -> torch.Tensor:
        """Run all layers.  ahead: gather the next layer while this one computes."""
        pending = self.gather(0)
        for layer in range(LAYERS):
            pending.wait()
            if ahead and layer + 1 < LAYERS:
                pending = self.gather(layer + 1)
            x = torch.relu(x @ self.places[layer % 2][:WIDTH])
            if not ahead and layer + 1 < LAYERS:
                pending = self.gather(layer + 1)
        return x


def timed(model: ShardedModel, x: torch.Tensor, ahead: bool) -> float:
    """The median time of a pass, in milliseconds."""
    times = []
    for _ in range(9):
        dist.barrier()
        start = time.perf_counter()
        model.forward(x, ahead).sum().item()
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def main() -> None:
    """Compare the sharded model with the whole one, then its two ways to gather."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    device = torch.device(parser.parse_args().device)
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("oriel")
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(99)).to(device)
    model = ShardedModel(device)

    want = x
    for layer in range(LAYERS):
        want = torch.relu(want @ whole_layer(layer).to(device))
    for ahead in (False, True):
        torch.testing.assert_close(model.forward(x, ahead), want, rtol=1e-4, atol=1e-4)
    after, ahead = timed(model, x, False), timed(model, x, True)
    if dist.get_rank() == 0:
        print(f"fsdp_gather: equal to the whole model; a pass takes {after:.1f} ms if layers are "
              f"gathered after computing, {ahead:.1f} ms if ahead of it")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
