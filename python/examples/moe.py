# SPDX-License-Identifier: BSD-3-Clause
"""A mixture-of-experts layer over all ranks: dispatch, experts, combine, with top-2 routing.

    torchrun --nproc-per-node 8 moe.py                    # CPU
    torchrun --nproc-per-node 8 moe.py --device cuda

Every rank has tokens and some of the experts.  A token goes to its two best experts, wherever they
are, and comes back as their weighted sum.  The result is compared with the same layer computed by
one process alone, and with the same exchange over gloo.
"""
import argparse
import os

import torch
import torch.distributed as dist

import oriel.torch  # noqa: F401  (registers the backend "oriel")

TOKENS, WIDTH, HIDDEN, EXPERTS_PER_RANK, TOP = 96, 64, 128, 2, 2


def expert_weights(expert: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The two matrices of an expert, which every rank can make from the expert's number."""
    random = torch.Generator().manual_seed(1000 + expert)
    up = torch.randn(WIDTH, HIDDEN, generator=random) / WIDTH**0.5
    down = torch.randn(HIDDEN, WIDTH, generator=random) / HIDDEN**0.5
    return up.to(device), down.to(device)


def run_expert(tokens: torch.Tensor, weights: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """What an expert makes of its tokens."""
    return torch.relu(tokens @ weights[0]) @ weights[1]


def route(tokens: torch.Tensor, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The two best experts of each token, and their weights."""
    gate = torch.randn(WIDTH, experts, generator=torch.Generator().manual_seed(7))
    scores, chosen = (tokens @ gate.to(tokens.device)).softmax(-1).topk(TOP)
    return chosen, scores / scores.sum(-1, keepdim=True)


class MixtureOfExperts:
    """This rank's share of the layer."""

    def __init__(self, device: torch.device, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.ranks, self.rank = dist.get_world_size(group), dist.get_rank(group)
        first = self.rank * EXPERTS_PER_RANK
        self.weights = [expert_weights(first + i, device) for i in range(EXPERTS_PER_RANK)]

    def exchange(self, rows: torch.Tensor, leave: list[int], arrive: list[int]) -> torch.Tensor:
        """Send leave[r] rows to rank r and get arrive[r] rows from it."""
        came = rows.new_empty(sum(arrive), *rows.shape[1:])
        dist.all_to_all_single(came, rows, arrive, leave, group=self.group)
        return came

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Dispatch the tokens to their experts, run the experts of this rank, combine."""
        chosen, scores = route(tokens, self.ranks * EXPERTS_PER_RANK)
        expert = chosen.view(-1)
        order = expert.argsort(stable=True)  # by expert, and so by rank
        leave = torch.bincount(expert // EXPERTS_PER_RANK, minlength=self.ranks)
        arrive = torch.empty_like(leave)
        dist.all_to_all_single(arrive, leave, group=self.group)
        goes, comes = leave.tolist(), arrive.tolist()

        copies = tokens.repeat_interleave(TOP, 0)[order].contiguous()
        work = self.exchange(copies, goes, comes)  # dispatch
        local = self.exchange(expert[order].contiguous(), goes, comes) % EXPERTS_PER_RANK
        results = torch.empty_like(work)
        for number, weights in enumerate(self.weights):
            results[local == number] = run_expert(work[local == number], weights)
        back = self.exchange(results, comes, goes)  # combine

        unsorted = torch.empty_like(back)
        unsorted[order] = back
        return (unsorted.view(-1, TOP, WIDTH) * scores.unsqueeze(-1)).sum(1)


def alone(tokens: torch.Tensor, experts: int) -> torch.Tensor:
    """The same layer by one process that has all experts."""
    chosen, scores = route(tokens, experts)
    out = torch.zeros_like(tokens)
    for expert in range(experts):
        row, place = (chosen == expert).nonzero(as_tuple=True)
        result = run_expert(tokens[row], expert_weights(expert, tokens.device))
        out.index_add_(0, row, result * scores[row, place].unsqueeze(-1))
    return out


def main() -> None:
    """Run the layer and compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    device = torch.device(parser.parse_args().device)
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("oriel")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    random = torch.Generator().manual_seed(rank)
    tokens = torch.randn(TOKENS, WIDTH, generator=random).to(device)

    mine = MixtureOfExperts(device).forward(tokens)
    torch.testing.assert_close(mine, alone(tokens, ranks * EXPERTS_PER_RANK), rtol=1e-4, atol=1e-4)
    gloo = MixtureOfExperts(torch.device("cpu"), dist.new_group(backend="gloo"))
    torch.testing.assert_close(mine.cpu(), gloo.forward(tokens.cpu()), rtol=1e-4, atol=1e-4)
    dist.barrier()
    if rank == 0:
        print(f"moe: {ranks} ranks, {ranks * EXPERTS_PER_RANK} experts: equal to one process and "
              "to gloo")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
