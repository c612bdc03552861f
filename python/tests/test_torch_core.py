# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on the CPU, and comms from torchrun, stores and groups.  Needs torch."""

import socket
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import oriel
from oriel._describe import describe

from . import support

HAVE_TORCH = support.have("torch")


def tensors(comm: oriel.Comm) -> None:
    """Windows over tensors, without a copy."""
    import torch

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    memory = oriel.empty((4, 8), torch.bfloat16, comm)
    assert memory.shape == (4, 8) and memory.dtype == torch.bfloat16 and not memory.any()
    with oriel.Window(comm, memory) as window:
        mine = torch.arange(32, dtype=torch.bfloat16).reshape(4, 8) + comm.rank
        window.put_signal(right, mine)
        window.wait_signal(left)
        expected = torch.arange(32, dtype=torch.bfloat16).reshape(4, 8) + left
        assert torch.equal(memory, expected) and torch.equal(window.tensor(), expected)
        got = torch.empty(4, 8, dtype=torch.bfloat16)
        window.get(comm.rank, got)
        assert torch.equal(got, expected)
        window.barrier()
        if comm.peer_kind(right) == "mapped":
            window.tensor(right)[0, 0] = 77
        window.barrier()
        assert memory[0, 0] == (77 if comm.peer_kind(left) == "mapped" else left)
    both = oriel.empty(6, "int32", comm, like="torch")
    comm.all_gather(torch.tensor([comm.rank], dtype=torch.int32), both[: comm.size])
    assert both[: comm.size].tolist() == list(range(comm.size))


def torchrun_plain(comm: oriel.Comm) -> None:
    """from_env() of a program that does not use torch.distributed."""
    assert comm.size == 2
    tensors(comm)
    print(f"torchrun rank {comm.rank} is well", flush=True)


def torchrun_group() -> None:
    """from_env(), from_group() and from_store() after torch.distributed is initialised."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    with oriel.Comm.from_env() as comm:
        assert (comm.rank, comm.size) == (dist.get_rank(), dist.get_world_size())
        tensors(comm)
    half = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        with oriel.Comm.from_group(half) as comm:
            assert comm.size == 2
            tensors(comm)
    store = dist.distributed_c10d._get_default_store()
    for _ in range(2):
        with oriel.Comm.from_store(store, dist.get_rank(), dist.get_world_size()) as comm:
            comm.barrier()
    print(f"torchrun rank {dist.get_rank()} is well", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def torchrun(call: str, ranks: int) -> str:
    """Runs a line of Python under torchrun."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(f"import oriel\nfrom tests import test_torch_core\n{call}\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        launcher += ["--master-addr", "127.0.0.1", "--master-port", str(port), str(script)]
        done = support.command(launcher, OMP_NUM_THREADS="1")
        if done.returncode:
            raise AssertionError(done.stdout)
        return done.stdout


@unittest.skipUnless(HAVE_TORCH, "torch is not installed")
class Tensors(unittest.TestCase):
    def test_windows(self) -> None:
        for ranks in (1, 3):
            support.threads(tensors, ranks)
        support.threads(tensors, 2, topology="2x1")
        support.processes(tensors, 2)

    def test_describe(self) -> None:
        import torch

        tensor = torch.zeros(3, 4, dtype=torch.float16)
        region = describe(tensor[1:])
        self.assertEqual(region[:3], (tensor.data_ptr() + 8, 16, "cpu"))
        self.assertEqual(describe(torch.zeros(2, requires_grad=True)).nbytes, 8)
        with self.assertRaisesRegex(ValueError, "contiguous()"):
            describe(tensor.t())
        with self.assertRaisesRegex(TypeError, "to_dense"):
            describe(torch.eye(3).to_sparse())
        with self.assertRaisesRegex(TypeError, "meta"):
            describe(torch.empty(3, device="meta"))

    def test_lifetime(self) -> None:
        """A tensor of oriel.empty outlives the comm; its memory goes with it."""
        from .test_memory import mapped

        comm = oriel.Comm.threads(1)[0]
        tensor = oriel.empty(1 << 16, "uint8", comm, like="torch")
        address = tensor.data_ptr()
        part = tensor.view(2, -1)[1]
        del tensor
        comm.close()
        part.fill_(3)
        self.assertEqual(int(part.sum()), 3 << 15)
        del part
        self.assertFalse(mapped(address))

    def test_store(self) -> None:
        """Threads that meet through a store."""
        import torch.distributed as dist

        with tempfile.TemporaryDirectory() as folder:
            comms: list = [None, None]

            def make(rank: int) -> None:
                store = dist.FileStore(f"{folder}/store", 2)
                comms[rank] = oriel.Comm.from_store(store, rank, 2, timeout=20)

            workers = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            support.on_threads(tensors, comms)

    def test_torchrun(self) -> None:
        call = "with oriel.Comm.from_env() as comm: test_torch_core.torchrun_plain(comm)"
        self.assertEqual(torchrun(call, 2).count("is well"), 2)

    def test_torchrun_with_torch_distributed(self) -> None:
        self.assertEqual(torchrun("test_torch_core.torchrun_group()", 3).count("is well"), 3)


if __name__ == "__main__":
    unittest.main()
