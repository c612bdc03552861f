# SPDX-License-Identifier: BSD-3-Clause
"""The host's part of the Triton all-to-all-v: plans, offsets, errors.  No GPU is needed."""

from __future__ import annotations

import gc
import inspect
import unittest
import weakref
from types import SimpleNamespace
from typing import Any
from unittest import mock

from .support import have, threads

for module in ("torch", "triton"):
    if not have(module):
        raise unittest.SkipTest(f"no {module}")

import torch  # noqa: E402

import oriel  # noqa: E402
from oriel import Error  # noqa: E402
from oriel.triton import alltoallv, alltoallv_state, gpu_room  # noqa: E402
from oriel.triton.alltoallv_plan import (  # noqa: E402
    MOST_BLOCKS, Setting, blocks_on_sm, fit, power_of_two, room_for,
)
from oriel.triton.op import AlltoallvOp  # noqa: E402


class FakeComm:
    """As much of a comm as host functions use: `rows` are what the ranks gather."""

    def __init__(self, rank: int = 0, size: int = 2, rows: "list[bytes] | None" = None) -> None:
        self.rank, self.size, self.rows, self.device = rank, size, rows, "cuda:0"
        self.given = b""

    def allgather(self, mine: bytes) -> "list[bytes]":
        self.given = mine
        return self.rows or [mine] * self.size


class Plans(unittest.TestCase):
    """What the tuner says is reduced to what fits."""

    def test_as_tuned(self) -> None:
        plan = fit([Setting(8, 16, 65536)] * 2, None, lambda plan: 66)
        self.assertEqual((plan.blocks, plan.warps, plan.chunk, plan.programs), (8, 16, 65536, 16))
        self.assertIsNone(plan.peer_blocks)
        self.assertFalse(plan.in_turn(2))

    def test_fewer_blocks_fit(self) -> None:
        """8 ranks share a GPU of 132 SMs: 16 blocks each, so 2 per peer."""
        room = room_for(1, 132, 132, 1, 8)
        plan = fit([Setting(16, 16, 65536)] * 8, None, lambda plan: room)
        self.assertEqual((plan.blocks, plan.programs), (2, 16))

    def test_not_even_one_block_per_peer(self) -> None:
        plan = fit([Setting(4, 16, 65536)] * 16, None, lambda plan: 5)
        self.assertEqual((plan.blocks, plan.programs), (1, 5))
        self.assertTrue(plan.in_turn(16))
        with self.assertRaisesRegex(RuntimeError, "fewer ranks per GPU"):
            fit([Setting(4, 16, 65536)] * 16, None, lambda plan: 0)

    def test_mixed_peers(self) -> None:
        plan = fit([Setting(8, 16, 1 << 20), Setting(2, 5, 65540)], None, lambda plan: 100)
        self.assertEqual(plan.peer_blocks, (8, 2))
        self.assertEqual(plan.peer_chunks, (1 << 20, 65536))  # whole units of 16 bytes
        self.assertEqual(plan.warps, 16)

    def test_given_blocks(self) -> None:
        plan = fit([Setting(1, 32, 64)] * 3, [1, 200, 3], lambda plan: 10**6)
        self.assertEqual(plan.peer_blocks, (1, MOST_BLOCKS, 3))
        self.assertEqual(plan.programs, 3 * MOST_BLOCKS)
        self.assertEqual(plan.warps, 16)

    def test_power_of_two(self) -> None:
        self.assertEqual([power_of_two(n, 16) for n in (0, 1, 3, 4, 9, 16, 31)],
                         [1, 1, 2, 4, 8, 16, 16])

    def test_blocks_on_an_sm(self) -> None:
        self.assertEqual(blocks_on_sm(128, 16), 1)
        self.assertEqual(blocks_on_sm(64, 16), 2)
        self.assertEqual(blocks_on_sm(65, 16), 1)
        self.assertEqual(blocks_on_sm(32, 4), 16)

    def test_share_of_mps(self) -> None:
        self.assertEqual(gpu_room.share_of(132, 132, 100), (132, 132))
        self.assertEqual(gpu_room.share_of(14, 132, 12), (14, 132))  # the driver shows the share
        self.assertEqual(gpu_room.share_of(132, 132, 12), (15, 132))  # it shows all
        self.assertEqual(gpu_room.share_of(132, 0, 12), (15, 132))  # no NVML
        self.assertEqual(room_for(1, 14, 132, 1, 8), 14)
        self.assertEqual(room_for(2, 132, 132, 8, 8), 33)  # threads of one process

    def test_settings_of_the_tuner(self) -> None:
        """Each peer has the setting of its kind; chunks of mapped peers are not small."""
        with oriel.Comm.threads(1)[0] as comm:
            state = alltoallv_state.AlltoallvState.__new__(alltoallv_state.AlltoallvState)
            state.comm, state.queued = comm, [False, True]
            for nbytes in (1, 65536, 1 << 24):
                mapped, queued = state.settings(nbytes)
                plan = comm.alltoallv_plan(nbytes)
                self.assertEqual((mapped.blocks, mapped.warps), plan.mapped[:2])
                self.assertEqual(mapped.chunk, max(plan.mapped.chunk_bytes, 1 << 20))
                self.assertEqual(tuple(vars(queued).values()), tuple(plan.queued))

    def test_room_of_a_kernel(self) -> None:
        """Kernels for other types of splits have other registers, so they have their own room."""
        state = alltoallv_state.AlltoallvState.__new__(alltoallv_state.AlltoallvState)
        state.world, state.device, state._rooms = 2, torch.device("cuda:0"), {}
        state._ranks_here = state._ranks_all = 1
        registers = {torch.int32: 64, torch.int64: 128}
        state.prepare = lambda message, plan, sync: SimpleNamespace(
            n_regs=registers[message.send_sizes.dtype])
        gpu = SimpleNamespace(regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048)
        plan = fit([Setting(8, 16, 65536)] * 2, None, lambda plan: 66)
        rooms = []
        with mock.patch.object(torch.cuda, "get_device_properties", lambda device: gpu), \
                mock.patch.object(gpu_room, "sms", lambda device: (100, 100)):
            for dtype in registers:
                splits = torch.zeros(2, dtype=dtype)
                message = alltoallv_state.Message(True, splits, splits)
                rooms.append(state.room(message, plan, True))
        self.assertEqual(rooms, [200, 100])

    def test_sharers(self) -> None:
        """Ranks of the same GPU, of this process and of others."""
        original = torch.cuda.get_device_properties
        torch.cuda.get_device_properties = lambda device: type("P", (), {"uuid": "1234"})
        self.addCleanup(setattr, torch.cuda, "get_device_properties", original)
        name = gpu_room.gpu_name(torch.device("cuda:0"))
        self.assertIn("|1234|", name)
        comm, mine = FakeComm(), name.encode()
        other = mine.rsplit(b"|", 1)[0] + b"|1"
        elsewhere = b"host|5678|1"
        comm.rows = [row.ljust(240, b"\0") for row in (mine, mine, other, elsewhere)]
        self.assertEqual(gpu_room.sharers(comm, name), (2, 3))

    def test_a_rank_without_its_gpu(self) -> None:
        """torch finds no GPU on rank 0: all ranks raise, at once."""
        def properties(device: torch.device) -> Any:
            if device.type == "cuda":
                raise RuntimeError(f"{device}: no such GPU")
            return SimpleNamespace(uuid="1234")

        raised: "dict[int, Exception]" = {}

        def body(comm: oriel.Comm) -> None:
            device = "cuda:0" if comm.rank == 0 else "cpu"
            try:
                alltoallv_state.AlltoallvState(comm, None, device)
            except Exception as problem:
                raised[comm.rank] = problem

        with mock.patch.object(torch.cuda, "get_device_properties", properties), \
                mock.patch.object(alltoallv_state, "extern_libs", dict):
            threads(body, 2)
        self.assertRegex(str(raised[0]), "cuda:0: no such GPU")
        self.assertRegex(str(raised[1]), "AlltoallvState: rank 0 failed: cuda:0: no such GPU")


class Offsets(unittest.TestCase):
    """compute_offsets_from_sizes and exchange_offsets."""

    def check(self, sizes: "list[int]", dtype: torch.dtype = torch.int64) -> None:
        given = torch.tensor(sizes, dtype=dtype)
        kept = given.clone()
        want = [sum(sizes[:at]) for at in range(len(sizes))]
        found = alltoallv.compute_offsets_from_sizes(given)
        self.assertEqual(found.tolist(), want)
        self.assertEqual(found.dtype, torch.int64)
        self.assertTrue(torch.equal(given, kept))

    def test_sums(self) -> None:
        self.check([100, 200, 300, 400])
        self.check([0, 0, 0])
        self.check([5])
        self.check([7] * 8)
        self.check([2**40, 2**41, 2**42])
        self.check([1, 0, 2], torch.int32)
        self.check([2**31 - 1] * 4, torch.int32)  # sums beyond 32 bits

    def test_refused(self) -> None:
        for bad in (torch.zeros(3), torch.zeros((2, 2), dtype=torch.int64)):
            with self.assertRaisesRegex(ValueError, "one-dimensional"):
                alltoallv.compute_offsets_from_sizes(bad)

    def test_exchange(self) -> None:
        """Entry p is what rank p has for this rank."""
        rows = [[0, 10, 20], [100, 110, 120], [200, 210, -1]]
        gathered = [b"".join(n.to_bytes(8, "little", signed=True) for n in row) for row in rows]
        for rank in range(3):
            comm = FakeComm(rank, 3, gathered)
            found = alltoallv.exchange_offsets(torch.tensor(rows[rank]), comm)
            self.assertEqual(found.tolist(), [row[rank] for row in rows])
            self.assertEqual(comm.given, gathered[rank])
        with self.assertRaisesRegex(ValueError, "3 elements"):
            alltoallv.exchange_offsets(torch.tensor([1, 2]), FakeComm(0, 3))


class Arguments(unittest.TestCase):
    """Bad numbers and wrong use raise before anything is launched."""

    def test_signature(self) -> None:
        names = list(inspect.signature(alltoallv.device_alltoallv_dynamic).parameters)
        self.assertEqual(names, [
            "send_buf", "recv_buf", "send_sizes", "send_offsets", "recv_sizes",
            "local_recv_slot_offsets", "remote_write_offsets", "dev_win_ptr", "src_info",
            "my_rank", "world_size", "num_warps", "blocks_per_peer", "chunk_size", "auto_tune",
            "sync_buffer", "per_peer_blocks", "state", "expect_bytes"])
        defaults = inspect.signature(alltoallv.device_alltoallv_dynamic).parameters
        self.assertEqual(
            [defaults[name].default for name in names[11:17]], [16, 1, 65536, False, True, None])

    def test_numbers(self) -> None:
        check = alltoallv.check_numbers
        check(16, 1, 65536, None, 2)
        check(4, 64, 16, [1, 64], 2)
        for arguments, words in (
            ((5, 1, 64, None, 2), "num_warps"), ((64, 1, 64, None, 2), "num_warps"),
            ((4, 0, 64, None, 2), "blocks_per_peer"), ((4, 65, 64, None, 2), "blocks_per_peer"),
            ((4, 1, 8, None, 2), "chunk_size"), ((4, 1, 40, None, 2), "chunk_size"),
            ((4, 1, 64, [1], 2), "per_peer_blocks"), ((4, 1, 64, [1, 0], 2), "per_peer_blocks"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                check(*arguments)

    def test_op(self) -> None:
        good = (FakeComm(), 8, 4, torch.float32, "cuda:0", 8)
        op = AlltoallvOp(*good)
        self.assertTrue(op.sync_buffer)
        plain = AlltoallvOp(*good[:4], "cuda", 8)
        self.assertEqual(plain.device, torch.device("cuda:0"))
        self.assertEqual((op.row_bytes, op.slot_bytes), (16, 128))
        self.assertEqual(AlltoallvOp(*good[:2], 3, torch.int8, "cuda:0", 3).slot_bytes, 16)
        for position, bad, words in ((1, 0, "max_input_tokens"), (2, -1, "D"),
                                     (3, "float32", "dtype"), (5, 0, "max_recv_tokens"),
                                     (1, 1 << 40, "not supported")):
            arguments = list(good)
            arguments[position] = bad
            with self.assertRaisesRegex(ValueError, words):
                AlltoallvOp(*arguments)

    def test_comm_on_the_cpu(self) -> None:
        """setup() says what to do, and nothing is left behind."""
        with oriel.Comm.threads(1)[0] as comm:
            op = AlltoallvOp(comm, 8, 4, torch.float32, "cuda:0", 8)
            with self.assertRaisesRegex(ValueError, "the comm is on cpu"):
                op.setup()
            op.teardown()
            self.assertFalse(op.is_set_up)

    def test_cache(self) -> None:
        """get_or_create() gives the same op again, and nothing outlives its comm."""
        set_up, torn_down = [], []

        def teardown(op: AlltoallvOp) -> None:
            torn_down.append(op.D)

        arguments = (torch.float32, "cuda:0", 8)
        with mock.patch.object(AlltoallvOp, "setup", lambda op: set_up.append(op.D) or op), \
                mock.patch.object(AlltoallvOp, "teardown", teardown), \
                mock.patch.object(AlltoallvOp, "is_set_up", True):
            first, second = (oriel.Comm.threads(1)[0] for _ in range(2))
            op = AlltoallvOp.get_or_create(second, 8, 3, *arguments)
            self.assertIs(AlltoallvOp.get_or_create(second, 8, 3, *arguments), op)
            AlltoallvOp.get_or_create(first, 8, 4, *arguments)
            AlltoallvOp.get_or_create(second, 8, 5, *arguments)
            self.assertEqual(set_up, [3, 4, 5])
            gone = [weakref.ref(op), weakref.ref(first)]
            AlltoallvOp.clear_cache(second)
            self.assertEqual(torn_down, [3, 5])
            del op
            AlltoallvOp.get_or_create(second, 8, 6, *arguments)
            first.close()
            del first
            gc.collect()
            self.assertEqual([ref() for ref in gone], [None, None])
            AlltoallvOp.clear_cache()
            self.assertEqual(torn_down, [3, 5, 6])
            second.close()

    def test_not_set_up(self) -> None:
        op = AlltoallvOp(FakeComm(), 8, 4, torch.float32, "cuda:0", 8)
        splits = torch.zeros(2, dtype=torch.int64)
        for call in (lambda: op.get_send_buffer(1), lambda: op.fill_send_buffer(splits),
                     lambda: op.alltoallv(torch.zeros((1, 4)), splits, splits),
                     lambda: op.alltoallv_from_buffer(splits, splits, 1), op.status, op.check,
                     op.kernel_calls, op.slots):
            with self.assertRaisesRegex(RuntimeError, r"call setup\(\)"):
                call()
        self.assertFalse(op.is_set_up)
        op.teardown()  # nothing to do, and may be repeated
        op.teardown()


class Failures(unittest.TestCase):
    """Status words of the kernel become exceptions that say what to do."""

    def test_texts(self) -> None:
        for status, rank, words in ((-2, 1, "beyond the capacity"), (-10, 1, "disagree"),
                                    (-10, 0, "packed_output_tokens"),
                                    (-4, 1, "rank 1 did not come"), (-6, 1, "unusable")):
            found = alltoallv_state.Failure(status, rank, 7)
            error = alltoallv_state.error_for(found, 0, "")
            self.assertIsInstance(error, Error)
            self.assertRegex(str(error), words)
            self.assertEqual((error.status, error.rank), (status, rank))
            self.assertIn("call 7", str(error))
            self.assertEqual(found.repairable, status in (-2, -10))


if __name__ == "__main__":
    unittest.main()
