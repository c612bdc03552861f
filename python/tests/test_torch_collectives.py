# SPDX-License-Identifier: BSD-3-Clause
"""Every collective of the torch.distributed backend, against a model of all ranks' data."""
from __future__ import annotations

import unittest

from .torch_ranks import dist, run_ranks, torch

# Within the meeting, around its size, above it, and several chunks.
SIZES = (0, 1, 7, 495, 496, 497, 5000, 700_001)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
          torch.int16, torch.int32, torch.int64)
OPS = {"SUM": torch.sum, "PRODUCT": torch.prod, "MIN": torch.amin, "MAX": torch.amax}


def data(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The data of a rank: small whole numbers, exact in every dtype."""
    return ((torch.arange(count) * 7 + rank * 3) % 5 + 1).to(dtype)


def everyone(ranks: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The data of all ranks, one row each."""
    return torch.stack([data(rank, count, dtype) for rank in range(ranks)])


def same(got: torch.Tensor, want: torch.Tensor, what: object) -> None:
    """Compare bits."""
    assert got.dtype == want.dtype and torch.equal(got, want), (what, got, want)


def reductions(rank: int, ranks: int) -> None:
    """all_reduce and reduce: operators, types, sizes."""
    for count in SIZES:
        for dtype in DTYPES if count <= 5000 else (torch.float32, torch.bfloat16):
            for name, model in OPS.items():
                want = model(everyone(ranks, count, dtype).double(), 0).to(dtype)
                mine = data(rank, count, dtype)
                dist.all_reduce(mine, getattr(dist.ReduceOp, name))
                same(mine, want, (name, count, dtype))
        root = count % ranks
        mine = data(rank, count)
        dist.reduce(mine, root)
        want = everyone(ranks, count).sum(0) if rank == root else data(rank, count)
        same(mine, want, ("reduce", count))


def odd_types(rank: int, ranks: int) -> None:
    """Truth values, complex numbers, bits, averages, and factors."""
    for count in (3, 4000):
        truth = (torch.arange(count) % (rank + 2)) == 0
        model = torch.stack([(torch.arange(count) % (r + 2)) == 0 for r in range(ranks)])
        for op, want in ((dist.ReduceOp.MAX, model.any(0)), (dist.ReduceOp.MIN, model.all(0))):
            mine = truth.clone()
            dist.all_reduce(mine, op)
            same(mine, want, op)
        mine = torch.complex(data(rank, count), -data(rank, count))
        dist.all_reduce(mine)
        total = everyone(ranks, count).sum(0)
        same(mine, torch.complex(total, -total), "complex")
        bits = data(rank, count, torch.int32) << rank
        rows = torch.stack([data(r, count, torch.int32) << r for r in range(ranks)])
        for op, fold in ((dist.ReduceOp.BOR, torch.bitwise_or),
                         (dist.ReduceOp.BAND, torch.bitwise_and),
                         (dist.ReduceOp.BXOR, torch.bitwise_xor)):
            want, mine = rows[0].clone(), bits.clone()
            for row in rows[1:]:
                want = fold(want, row)
            dist.all_reduce(mine, op)
            same(mine, want, op)
        mine = data(rank, count)
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        torch.testing.assert_close(mine, total / ranks)
        mine = data(rank, count)
        dist.all_reduce(mine, dist._make_nccl_premul_sum(0.5))
        same(mine, total / 2, "premul")


def factors(rank: int, ranks: int) -> None:
    """PREMUL_SUM keeps the dtype of the tensor: whole numbers, and factors of another dtype."""
    half = dist._make_nccl_premul_sum(0.5)
    wide = dist._make_nccl_premul_sum(torch.tensor([0.5], dtype=torch.float32))
    for count in (3, 4000):
        for dtype in (torch.int64, torch.uint8, torch.bfloat16, torch.float64):
            scaled = everyone(ranks, 2 * ranks * count, dtype).double() / 2
            exact = scaled if dtype.is_floating_point else scaled.trunc()
            want = exact.sum(0).to(dtype)
            for op in (half, wide):
                mine = data(rank, 2 * ranks * count, dtype)
                out = torch.empty(2 * count, dtype=dtype)
                dist.reduce_scatter_tensor(out, mine, op)
                same(out, want[rank * 2 * count:][:2 * count], ("reduce_scatter", dtype))
                dist.all_reduce(mine, op)
                same(mine, want, ("all_reduce", dtype))


def blocks(rank: int, ranks: int) -> None:
    """all_gather, broadcast, gather, scatter, reduce_scatter, all_to_all."""
    for count in SIZES:
        rows = everyone(ranks, count)
        outs = [torch.empty(count) for _ in range(ranks)]
        dist.all_gather(outs, data(rank, count))
        same(torch.stack(outs), rows, ("all_gather", count))
        flat = torch.empty(ranks * count)
        dist.all_gather_into_tensor(flat, data(rank, count))
        same(flat, rows.view(-1), ("all_gather_into_tensor", count))
        for root in {0, ranks - 1}:
            mine = data(rank, count)
            dist.broadcast(mine, root)
            same(mine, rows[root], ("broadcast", count))
            outs = [torch.empty(count) for _ in range(ranks)] if rank == root else None
            dist.gather(data(rank, count), outs, root)
            if outs is not None:
                same(torch.stack(outs), rows, ("gather", count))
            parts = [row + 1 for row in rows] if rank == root else None
            mine = torch.empty(count)
            dist.scatter(mine, parts, root)
            same(mine, rows[rank] + 1, ("scatter", count))
        whole = torch.cat([data(rank, count) + to for to in range(ranks)])
        mine = torch.empty(count)
        dist.reduce_scatter_tensor(mine, whole)
        same(mine, (rows + rank).sum(0), ("reduce_scatter", count))
        out = torch.empty(ranks * count)
        dist.all_to_all_single(out, whole)
        same(out, (rows + rank).view(-1), ("all_to_all", count))
        outs = [torch.empty(count) for _ in range(ranks)]
        dist.all_to_all(outs, list(whole.split(count)) if count else list(outs))
        same(torch.stack(outs), rows + rank, ("all_to_all list", count))


def uneven(rank: int, ranks: int) -> None:
    """all_to_all with splits of every size, zero among them."""
    for scale in (0, 1, 13, 4001):
        leave = [(rank * 2 + to) % 3 * scale for to in range(ranks)]
        arrive = [(source * 2 + rank) % 3 * scale for source in range(ranks)]
        mine = torch.cat([torch.full((n, 2), rank * 10.0 + to) for to, n in enumerate(leave)])
        want = torch.cat([torch.full((n, 2), r * 10.0 + rank) for r, n in enumerate(arrive)])
        out = torch.empty(sum(arrive), 2)
        dist.all_to_all_single(out, mine, arrive, leave)
        same(out, want, ("uneven", scale))


def several(rank: int, ranks: int) -> None:
    """Asynchronous calls in order, coalesced calls, objects, subgroups, sparse tensors."""
    tensors = [data(rank, 100 + i) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works]
    for index, future in enumerate(futures):
        same(future.wait()[0], everyone(ranks, 100 + index).sum(0), "future")
    assert all(work.is_completed() and work.is_success() for work in works)
    with dist._coalescing_manager():
        for tensor in (first := [data(rank, 10), data(rank, 3000)]):
            dist.all_reduce(tensor)
    for tensor in first:
        same(tensor, everyone(ranks, tensor.numel()).sum(0), "coalesced")
    objects: list = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 5000})
    assert [entry["rank"] for entry in objects] == list(range(ranks))
    members = list(range(0, ranks, 2))
    group = dist.new_group(members)
    if rank in members:
        mine = torch.tensor([rank + 1])
        dist.all_reduce(mine, group=group)
        same(mine, torch.tensor([sum(r + 1 for r in members)]), "subgroup")
        dist.destroy_process_group(group)
    sparse = torch.sparse_coo_tensor([[rank, ranks]], [1.0, 2.0], (ranks + 1,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.tensor([1.0] * ranks + [2.0 * ranks]), "sparse")


class Collectives(unittest.TestCase):
    """Each body on several numbers of ranks."""

    def test_reductions(self) -> None:
        """Sums, products, minima and maxima of all types and sizes."""
        for ranks in (1, 2, 5):
            with self.subTest(ranks=ranks):
                run_ranks(reductions, ranks)

    def test_odd_types(self) -> None:
        """Types and operators that have a way of their own."""
        run_ranks(odd_types, 3)

    def test_factors(self) -> None:
        """Factors in front of a sum."""
        run_ranks(factors, 2)

    def test_blocks(self) -> None:
        """Blocks of all ranks and of one root."""
        for ranks in (1, 2, 3, 8):
            with self.subTest(ranks=ranks):
                run_ranks(blocks, ranks)

    def test_uneven(self) -> None:
        """Splits that differ for every pair."""
        for ranks in (2, 5):
            with self.subTest(ranks=ranks):
                run_ranks(uneven, ranks)

    def test_several(self) -> None:
        """Calls that belong together."""
        run_ranks(several, 3)


if __name__ == "__main__":
    unittest.main()
