# SPDX-License-Identifier: BSD-3-Clause
"""Packets and collectives of oriel.triton in kernels on a GPU: every element, refusals, deadlines.

The checks run with 1, 2 and 8 ranks, on mapped and on queued peers, as those of test_triton_ops.
"""

from __future__ import annotations

import unittest

from . import ranks

try:
    import torch
    import triton
    import triton.language as tl

    import oriel
    import oriel.triton as ot
except ImportError as error:
    raise unittest.SkipTest(str(error))
if not torch.cuda.is_available():
    raise unittest.SkipTest("no GPU")

ETIMEDOUT, ERANGE, EINVAL, EMISMATCH = -4, -2, -1, -10
# Rank numbers differ: without this, every rank would compile a kernel of its own.
plain = triton.jit(do_not_specialize=["right", "left", "n", "root", "channel", "rounds", "box"])

BROADCAST, ALLGATHER, ALLTOALL, ALLREDUCE, REDUCESCATTER = range(5)


# ---- packets -------------------------------------------------------------------------------------


@plain
def packets(win, right, left, box, out, back, n, rounds, status):
    err = 0
    for _ in range(rounds):
        if err == 0:
            err = ot.packet_send(win, right, box, out, n)
        if err == 0:
            err = ot.packet_recv(win, left, box, back, n)
        if err == 0:
            err = ot.self_copy(out, back, n)
    tl.store(status, err)


def check_packets(stage: ranks.Stage) -> None:
    """After as many rounds as there are ranks, every rank has its own bytes again."""
    with oriel.Window(stage.comm, bytes=64, boxes=2, box_bytes=5000) as window:
        for box, n in ((0, 0), (0, 1), (1, 8), (0, 100), (1, 4096), (0, 5000)):
            out, status = stage.bytes(max(n, 1), stage.rank), stage.words(1)
            back = torch.zeros_like(out)
            stage.launch(packets, window.device_handle, stage.right, stage.left, box, out, back, n,
                         stage.size, status)
            assert status.tolist() == [0], (n, status.tolist())
            assert n == 0 or torch.equal(back, stage.bytes(n, stage.rank)), n
        status = stage.words(1)
        stage.launch(packets, window.device_handle, stage.right, stage.left, 0, out, back, 5001, 1,
                     status)
        assert status.tolist() == [ERANGE], status.tolist()
        stage.comm.barrier()


@plain
def late_packet(win, left, back, status):
    tl.store(status, ot.packet_recv(win, left, 0, back, 8, 100))


def check_late_packet(stage: ranks.Stage) -> None:
    """A packet that does not come: the deadline of the call, and the window stays usable."""
    with oriel.Window(stage.comm, bytes=64, boxes=1, box_bytes=64) as window:
        back, status = stage.words(1), stage.words(1)
        stage.launch(late_packet, window.device_handle, stage.left, back, status)
        assert status.tolist() == [ETIMEDOUT] and window.status == 0, status.tolist()
        stage.comm.barrier()


# ---- collectives ---------------------------------------------------------------------------------


@plain
def collective(team, channel, x, y, n, root, status, KIND: tl.constexpr, TYPE: tl.constexpr,
               OP: tl.constexpr):
    err = 0
    if KIND == 0:
        err = ot.coll_broadcast(team, channel, y, n, root)
    elif KIND == 1:
        err = ot.coll_allgather(team, channel, x, y, n)
    elif KIND == 2:
        err = ot.coll_alltoall(team, channel, x, y, n)
    elif KIND == 3:
        err = ot.coll_allreduce(team, channel, x, y, n, TYPE, OP)
    else:
        err = ot.coll_reducescatter(team, channel, x, y, n, TYPE, OP)
    tl.store(status, err)
    tl.store(status + 1, ot.team_rank(team))
    tl.store(status + 2, ot.team_nranks(team))


def _collect(stage: ranks.Stage, team: oriel.Team, x: torch.Tensor, y: torch.Tensor, n: int,
             kind: int, type: int = 1, op: int = 1, root: int = 0) -> None:
    status = stage.words(3)
    stage.launch(collective, team.device_handle, 1, x, y, n, root, status, kind, type, op)
    assert status.tolist() == [0, stage.rank, stage.size], (kind, n, status.tolist())


def check_blocks(stage: ranks.Stage) -> None:
    """Broadcast, all-gather and all-to-all of one round and of many."""
    with oriel.Team(stage.comm, channels=2, slot_bytes=4096) as team:
        for n in (1, 64, 1000, 30_000):
            root = n % stage.size
            y = stage.bytes(n, stage.rank)
            _collect(stage, team, y, y, n, BROADCAST, root=root)
            assert torch.equal(y, stage.bytes(n, root)), n
            x, y = stage.bytes(n, stage.rank), torch.zeros(n * stage.size, dtype=torch.uint8,
                                                           device="cuda")
            _collect(stage, team, x, y, n, ALLGATHER)
            want = [stage.bytes(n, rank) for rank in range(stage.size)]
            assert torch.equal(y, torch.cat(want)), n
            x = torch.cat([stage.bytes(n, 10 * stage.rank + to) for to in range(stage.size)])
            _collect(stage, team, x, y, n, ALLTOALL)
            want = [stage.bytes(n, 10 * rank + stage.rank) for rank in range(stage.size)]
            assert torch.equal(y, torch.cat(want)), n


_TYPES = ((torch.int32, 5, 3), (torch.int64, 7, 7), (torch.float16, 9, 1), (torch.float32, 11, 1))


def _reduced(rows: list, op: int) -> torch.Tensor:
    """Rows combined in rank order, as the library promises; 16 bits are summed as floats."""
    total = rows[0].float() if rows[0].dtype == torch.float16 else rows[0].clone()
    for row in rows[1:]:
        if op == 3:
            total = torch.minimum(total, row)
        else:
            total = total ^ row if op == 7 else total + row
    return total.to(rows[0].dtype)


def check_reductions(stage: ranks.Stage) -> None:
    """All-reduce and reduce-scatter of four types, bit by bit."""
    with oriel.Team(stage.comm, channels=2, slot_bytes=8192) as team:
        for dtype, type, op in _TYPES:
            for n in (1, 500, 20_000):
                def values(rank: int, count: int = n, dtype: torch.dtype = dtype) -> torch.Tensor:
                    return (stage.bytes(count, rank).to(torch.int64) - 99).to(dtype)

                y = torch.zeros(n, dtype=dtype, device="cuda")
                _collect(stage, team, values(stage.rank), y, n, ALLREDUCE, type, op)
                want = _reduced([values(rank) for rank in range(stage.size)], op)
                assert torch.equal(y, want), (dtype, n)
                rows = [values(rank, n * stage.size) for rank in range(stage.size)]
                _collect(stage, team, rows[stage.rank], y, n, REDUCESCATTER, type, op)
                own = slice(n * stage.rank, n * (stage.rank + 1))
                assert torch.equal(y, _reduced([row[own] for row in rows], op)), (dtype, n)


def check_refused(stage: ranks.Stage) -> None:
    """Different calls are refused on all ranks, the host learns why, and the next call works."""
    with oriel.Team(stage.comm) as team:
        x = torch.ones(100, device="cuda")
        status = stage.words(3)
        n = 50 if stage.rank == stage.size - 1 else 40
        stage.launch(collective, team.device_handle, 0, x, x, n, 0, status, ALLREDUCE, 11, 1)
        refused = stage.size > 1
        assert status.tolist()[0] == (EMISMATCH if refused else 0), status.tolist()
        try:
            team.check()
            assert not refused
        except oriel.Error as error:
            assert error.name == "ORIEL_EMISMATCH" and "counts: 40 and 50" in str(error), error
        stage.launch(collective, team.device_handle, 0, x, x, 100, 0, status, BROADCAST, 11, 1)
        assert status.tolist()[0] == 0 and team.status == 0
        stage.launch(collective, team.device_handle, 7, x, x, 100, 0, status, BROADCAST, 11, 1)
        assert status.tolist()[0] == ERANGE, "there is no such channel"


class TritonColl(unittest.TestCase):
    """The checks above, on ranks that share this GPU."""

    def test_1_rank(self) -> None:
        ranks.run(__name__, 1)

    def test_2_mapped(self) -> None:
        ranks.run(__name__, 2)

    def test_2_queued(self) -> None:
        ranks.run(__name__, 2, "2x1")

    def test_8_mapped(self) -> None:
        ranks.run(__name__, 8)

    def test_8_mixed(self) -> None:
        ranks.run(__name__, 8, "2x4")


if __name__ == "__main__":
    unittest.main()
