# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of the Triton all-to-all-v become machine code for sm_90; no GPU is needed.

Skipped without Triton or without the bitcode.  CI=true makes a missing bitcode a failure.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

try:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError as error:
    raise unittest.SkipTest(f"no Triton: {error}")

from .support import have

ROOT = pathlib.Path(__file__).resolve().parents[2]
BITCODE = ROOT / "build" / "release" / "lib" / "oriel"
if "ORIEL_BITCODE" not in os.environ and BITCODE.is_dir():
    os.environ["ORIEL_BITCODE"] = str(BITCODE)

import oriel.triton as ot  # noqa: E402
from oriel.triton import alltoallv_kernels as kernels  # noqa: E402
from oriel.triton import alltoallv_rows as rows  # noqa: E402

try:
    ot.library(90)
except FileNotFoundError as missing:
    if os.environ.get("CI") == "true":
        raise
    raise unittest.SkipTest(str(missing))

TOOLS = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
REGISTERS = 128  # an SM has 65536: then a block of 16 warps always fits
POINTERS = {"peer_blocks": "*i32", "win": "i64", "source": "i64", "rank": "i32", "blocks": "i32"}
POINTERS.update({name: "*i64" for name in kernels._ANY_ADDRESS if name != "peer_blocks"})


def compiled(kernel, types: "dict[str, str]", constants: "dict[str, object]", warps: int):
    """The kernel for sm_90.  Arguments without a type are constants or 64-bit numbers."""
    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else types.get(n, "i64") for n in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, constexprs=values)
    options = {"extern_libs": ot.extern_libs(90), "num_warps": warps}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def exchange(kernel=kernels.exchange, warps: int = 16, world: int = 8, lanes: int = 8,
             splits: bool = True, sync: bool = True, queued: bool = False,
             per_peer: bool = False, dtype: str = "*i64"):
    constants = {"WORLD": world, "LANES": lanes, "SPLITS": splits, "SYNC": sync,
                 "QUEUED": queued, "PER_PEER": per_peer}
    types = {**POINTERS, "send_sizes": dtype, "recv_sizes": dtype}
    return compiled(kernel, types, constants, warps)


def registers(cubin: bytes) -> int:
    """Registers per thread; 0 if the tool is missing."""
    tool = TOOLS / "cuobjdump"
    if not tool.is_file():
        return 0
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True,
                              text=True, check=True).stdout
    return max(int(found) for found in re.findall(r"REG:(\d+)", text))


class Exchange(unittest.TestCase):
    """All variants of the exchange."""

    def check_code(self, code, warps: int) -> str:
        ptx = code.asm["ptx"]
        self.assertNotIn(".extern .func", ptx, "a call was not linked")
        self.assertGreater(len(code.asm["cubin"]), 1000)
        self.assertLessEqual(registers(code.asm["cubin"]) * 32 * warps, REGISTERS * 512)
        return ptx

    def test_mapped(self) -> None:
        for sync in (True, False):
            for splits in (True, False):
                with self.subTest(sync=sync, splits=splits):
                    ptx = self.check_code(exchange(sync=sync, splits=splits), 16)
                    self.assertIn("red.relaxed.sys.global.add.u64", ptx)  # DATA
                    # READY is set only with the handshake
                    self.assertEqual(
                        len(re.findall(r"st\.relaxed\.sys\.global\.u64", self.entry(ptx))) > 0,
                        sync)

    @staticmethod
    def entry(ptx: str) -> str:
        """The kernel itself, up to its first wait: without called functions."""
        text = ptx[ptx.index(".visible .entry"):]
        return text[:text.index("fence.acquire.sys")]

    def test_first_loads_run_together(self) -> None:
        """Loads of sizes and handle come before the fence, and values are used after it."""
        text = self.entry(exchange().asm["ptx"])
        before, after = text.split("fence.release.sys", 1)
        self.assertGreaterEqual(len(re.findall(r"ld\.global\.b64", before)), 4)
        self.assertGreaterEqual(len(re.findall(r"ld\.global\.nc", before)), 10)
        self.assertNotIn("shfl.sync", before)
        self.assertNotIn("ld.global.nc", after)

    def test_no_queues_without_queued_peers(self) -> None:
        """A kernel for mapped peers has no code that posts to a queue."""
        self.assertNotIn("ori_queue", exchange().asm["ptx"])
        self.assertIn("ori_queue", exchange(queued=True, per_peer=True).asm["ptx"])

    def test_queued(self) -> None:
        for splits in (True, False):
            code = exchange(queued=True, per_peer=True, splits=splits)
            self.assertIn("fence.sc.sys", self.check_code(code, 16))  # flush

    def test_in_turn(self) -> None:
        for queued in (False, True):
            code = exchange(kernels.exchange_in_turn, queued=queued, per_peer=queued)
            self.check_code(code, 16)

    def test_other_numbers(self) -> None:
        """Fewer warps, other worlds, 32-bit splits."""
        for warps, world, lanes in ((4, 1, 1), (8, 3, 4), (16, 64, 64)):
            with self.subTest(warps=warps, world=world):
                code = exchange(warps=warps, world=world, lanes=lanes, dtype="*i32")
                self.check_code(code, warps)


class FakeDriver:
    """A GPU that Triton compiles for, although there is none."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


@unittest.skipUnless(have("torch"), "no torch")
class Variants(unittest.TestCase):
    """What a launch of AlltoallvState compiles."""

    def test_one_kernel_for_all_ranks_and_sizes(self) -> None:
        """Else ranks would compile while others wait, or while a graph is captured."""
        import torch
        from triton.runtime import driver

        from oriel.triton.alltoallv_plan import Setting, fit
        from oriel.triton.alltoallv_state import AlltoallvState, Message

        driver.set_active(FakeDriver())
        self.addCleanup(setattr, driver, "_active", None)  # reset_active() needs a GPU
        state = AlltoallvState.__new__(AlltoallvState)  # without a GPU and without other ranks
        state.window = type("Window", (), {"device_handle": 1 << 45})
        state.world, state.queued, state._arrays = 2, [False, False], {}
        state.words = torch.zeros(16 + 2 * 64, dtype=torch.int64)
        splits = torch.zeros(8, dtype=torch.int64)
        kernels.exchange.device_caches.clear()
        for rank, size, source, blocks, at in ((0, 16, 1 << 44, 1, 0), (1, 1, 16, 1, 1),
                                               (0, 1 << 33, 7, 4, 3)):
            state.rank = rank
            message = Message(True, splits[at:at + 2], splits[at:at + 2], row_bytes=size,
                              slot_rows=size, send_limit=size, slot_bytes=size)
            plan = fit([Setting(blocks, 16, 1 << 20)] * 2, None, lambda plan: 66)
            kernels.exchange.warmup(
                *state._arguments(message, plan, source), grid=(1,), num_warps=plan.warps,
                extern_libs=ot.extern_libs(90), **state._constants(message, plan, True))
        self.assertEqual(len(kernels.exchange.device_caches[0][0]), 1)


class Rows(unittest.TestCase):
    """The small kernels."""

    def test_offsets(self) -> None:
        for dtype in ("*i32", "*i64"):
            types = {"sizes": dtype, "offsets": "*i64", "count": "i32"}
            self.assertTrue(compiled(rows.offsets_kernel, types, {"LANES": 8}, 4).asm["cubin"])

    def test_copy_and_pack(self) -> None:
        for dtype in ("*i8", "*i16", "*i32", "*i64"):
            types = {"to": dtype, "start": dtype, "slots": dtype, "splits": "*i64",
                     "words": "*i64", "rank": "i32"}
            constants = {"ROW_UNITS": 3, "SLOT_UNITS": 48, "SLOT_ROWS": 16, "WORLD": 3, "LANES": 4,
                         "BLOCK": 2048, "MISMATCH": 10}
            self.assertTrue(compiled(rows.copy_kernel, types, {"BLOCK": 2048}, 4).asm["cubin"])
            self.assertTrue(compiled(rows.pack_kernel, types, constants, 4).asm["cubin"])


if __name__ == "__main__":
    unittest.main()
