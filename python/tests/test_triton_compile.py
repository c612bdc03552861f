# SPDX-License-Identifier: BSD-3-Clause
"""Every extern of oriel.triton, compiled inside a Triton kernel to machine code; no GPU is needed.

Skipped without Triton, the library or the bitcode.  CI=true makes a missing bitcode a failure.
ORIEL_LIBRARY and ORIEL_BITCODE name other places than build/release/lib.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "release" / "lib"
sys.path.insert(0, str(ROOT / "python"))
if (BUILT / "liboriel.so.0").is_file():
    os.environ.setdefault("ORIEL_LIBRARY", str(BUILT / "liboriel.so.0"))
try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError

    import oriel.triton as ot
    from oriel.triton import _extern
except ImportError as error:
    raise unittest.SkipTest(str(error))
try:
    ot.library(90)
except FileNotFoundError as missing:
    if os.environ.get("CI") == "true":
        raise
    raise unittest.SkipTest(str(missing))

TOOLS = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
CAPABILITIES = [80, 90, 100]

# call: what its machine-independent code must contain on sm_90, beside the externs that it calls
ORDER = {
    "put": [r"bar\.sync", r"st\.global\.v4"],
    "put_signal": [r"fence\.release\.sys", r"red\.relaxed\.sys\.global\.add\.u64"],
    "put_counter": [r"red\.release\.sys\.global\.add\.u64|red\.relaxed\.sys\.global\.add\.u64"],
    "put_signal_counter": [r"fence\.release\.sys", r"red\.\w+\.sys\.global\.add\.u64"],
    "put_warp": [r"bar\.warp\.sync", r"st\.global\.v4"],
    "put_chunked": [r"bar\.warp\.sync", r"st\.global\.v4"],
    "put_value": [r"st\.release\.sys|st\.relaxed\.sys|st\.b8|st\.global"],
    "get": [r"bar\.sync", r"ld\.global\.v4"],
    "get_nbi": [r"bar\.sync", r"ld\.global\.v4"],
    "get_value": [r"bar\.sync"],
    "fetch_add": [r"atom\.acq_rel\.sys\.global\.add\.u64"],
    "swap": [r"atom\.acq_rel\.sys\.global\.exch\.b64"],
    "compare_swap": [r"atom\.acq_rel\.sys\.global\.cas\.b64"],
    "send": [r"bar\.sync", r"st\.release\.sys|fence\.release\.sys"],
    "recv": [r"fence\.acquire\.sys|ld\.acquire\.sys", r"bar\.sync"],
    "self_copy": [r"bar\.sync", r"ld\.global\.v4", r"st\.global\.v4"],
    "rank": [],
    "nranks": [],
    "peer_kind": [],
    "base": [],
    "size": [],
    "mapped_address": [],
    "window_failure": [r"ld\.relaxed\.sys", r"bar\.sync"],
    "window_status": [r"ld\.relaxed\.sys", r"bar\.sync"],
    "signal": [r"fence\.release\.sys", r"red\.relaxed\.sys\.global\.add\.u64"],
    "signal_all": [r"red\.\w+\.sys\.global\.add\.u64"],
    "wait_signal": [r"ld\.acquire\.sys", r"globaltimer"],
    "wait_signal_from": [r"fence\.acquire\.sys", r"globaltimer"],
    "read_signal": [r"ld\.acquire\.sys", r"bar\.sync"],
    "read_signal_from": [r"ld\.acquire\.sys", r"bar\.sync"],
    "reset_signal": [r"ld\.acquire\.sys", r"st\.relaxed\.sys"],
    "signal_advance": [r"st\.relaxed\.sys"],
    "signal_advance_from": [r"st\.relaxed\.sys"],
    "wait_counter": [r"ld\.acquire\.sys", r"globaltimer"],
    "wait_counter_all": [r"ld\.acquire\.sys", r"globaltimer"],
    "read_counter": [r"ld\.acquire\.sys", r"bar\.sync"],
    "reset_counter": [r"ld\.acquire\.sys", r"st\.relaxed\.sys"],
    "fence": [r"fence\.sc\.sys"],
    "flush": [r"fence\.sc\.sys", r"globaltimer"],
    "flush_all": [r"fence\.sc\.sys", r"globaltimer"],
    "barrier": [r"fence\.release\.sys", r"st\.relaxed\.sys", r"fence\.acquire\.sys"],
    "barrier_arrive_wait": [r"fence\.release\.sys", r"st\.relaxed\.sys", r"fence\.acquire\.sys"],
    "barrier_arrive": [r"fence\.release\.sys", r"st\.relaxed\.sys"],
    "barrier_wait": [r"fence\.acquire\.sys"],
    "barrier_peer": [r"fence\.release\.sys", r"st\.relaxed\.sys", r"fence\.acquire\.sys"],
    "grid_sync": [r"atom\.acq_rel\.gpu\.global\.add\.u64", r"ld\.acquire\.gpu"],
    "fail_window": [r"atom\.acq_rel\.sys\.global\.cas\.b64"],
    "packet_send": [r"bar\.sync", r"st\.relaxed\.sys[\w.:]*\.v2", r"fence\.release\.sys"],
    "packet_recv": [r"ld\.relaxed\.sys[\w.:]*\.v2", r"globaltimer", r"fence\.acquire\.sys"],
    "team_rank": [r"ld\.global"],
    "team_nranks": [r"ld\.global"],
    "coll_broadcast": [r"fence\.release\.sys", r"fence\.acquire\.sys", r"globaltimer"],
    "coll_allgather": [r"fence\.release\.sys", r"fence\.acquire\.sys", r"globaltimer"],
    "coll_alltoall": [r"fence\.release\.sys", r"fence\.acquire\.sys", r"globaltimer"],
    "coll_allreduce": [r"fence\.release\.sys", r"fence\.acquire\.sys", r"add\.(rn\.)?f32"],
    "coll_reducescatter": [r"fence\.release\.sys", r"fence\.acquire\.sys", r"add\.(rn\.)?f32"],
    "mapped_begin": [r"ld\.global\.nc", r"fence\.release\.sys"],
    "mapped_tell": [r"st\.relaxed\.sys\.global\.u64"],
    "mapped_wait": [r"fence\.acquire\.sys", r"globaltimer"],
    "mapped_put_add": [r"st\.global\.v4", r"fence\.release\.sys", r"red\.relaxed\.sys"],
    "mapped_fail": [r"atom\.acq_rel\.sys\.global\.cas\.b64"],
}


# Arguments of collectives that are constants: with values of the run a kernel has every reduction.
CONSTANTS = {"type": "ot.FLOAT16", "op": "ot.SUM"}


def compiled(kernel, signature: dict[str, str], capability: int, warps: int = 4, constants=None):
    """The kernel compiled for a GPU that need not be here."""
    source = ASTSource(kernel, signature, constexprs=constants or {})
    options = {"extern_libs": ot.extern_libs(capability), "num_warps": warps}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def kernel_of(calls: list[str], folder: str):
    """A kernel that makes the calls with arguments of its own, and the kernel's signature.

    Triton reads the source of a kernel, so the text is a file that is imported.
    """
    signature, body = {}, []
    for call in calls:
        types, _ = _extern.CALLS[call]
        names = [f"{call}_{name}" for name in _signature(call)]
        signature.update({n: "i32" if t is _extern.Int32 else "i64" for n, t in zip(names, types)})
        for name, constant in CONSTANTS.items() if call.startswith("coll_") else ():
            signature.pop(f"{call}_{name}", None)
            names = [constant if given == f"{call}_{name}" else given for given in names]
        body.append(f"    total += ot.{call}({', '.join(names)}).to(tl.int64)")
    lines = ["import triton, triton.language as tl", "import oriel.triton as ot", "@triton.jit"]
    lines += [f"def kernel({', '.join(signature)}, out):", "    total = tl.load(out)", *body]
    path = pathlib.Path(folder) / f"kernel_{'_'.join(calls)[:80]}.py"
    path.write_text("\n".join(lines + ["    tl.store(out, total)", ""]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel, {**signature, "out": "*i64"}


def _signature(call: str) -> list[str]:
    """The names of the parameters that a kernel passes."""
    return [name for name in inspect.signature(getattr(ot, call)).parameters if name != "_semantic"]


def usage(cubin: bytes) -> dict[str, int]:
    """REG, STACK and so on of the kernel in a cubin; empty if the tool is missing."""
    if not (TOOLS / "cuobjdump").is_file():
        return {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", file.name], capture_output=True, text=True
        ).stdout
    return {name: int(value) for name, value in re.findall(r"\b(REG|STACK|SHARED):(\d+)", text)}


class EveryCall(unittest.TestCase):
    """Each extern alone."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_table_is_complete(self) -> None:
        self.assertEqual(set(ORDER), set(_extern.CALLS))
        for call in _extern.CALLS:
            self.assertIn(call, ot.__all__)
            self.assertTrue(getattr(ot, call).__doc__, call)

    def test_signatures_are_those_of_the_bitcode(self) -> None:
        source = "".join(p.read_text() for p in (ROOT / "src" / "bitcode").glob("*.h"))
        found = {}
        pattern = r"^ORIEL_EXTERN(?:_FAST)? (\w+) oriel_triton_(\w+)\(([^)]*)\)"
        for result, call, parameters in re.findall(pattern, source, re.M):
            found[call] = (result, [p.split()[0] for p in parameters.split(",")])
        found.pop("put_ready")
        declared = {
            call: (result.ctype, [one.ctype for one in types])
            for call, (types, result) in _extern.CALLS.items()
        }
        self.assertEqual(found, declared)

    def test_parameter_names_are_those_of_the_bitcode(self) -> None:
        source = "".join(p.read_text() for p in (ROOT / "src" / "bitcode").glob("*.h"))
        pattern = r"^ORIEL_EXTERN(?:_FAST)? \w+ oriel_triton_(\w+)\(([^)]*)\)"
        for call, parameters in re.findall(pattern, source, re.M):
            names = [p.split()[-1] for p in parameters.split(",")]
            if call != "put_ready":
                self.assertEqual(_signature(call), [n for n in names if n != "ready"], call)

    def check(self, calls: list[str], capability: int) -> None:
        """Compiles one kernel with the calls; tests that nothing is missing and what it uses."""
        kernel, signature = kernel_of(calls, self.folder.name)
        made = compiled(kernel, signature, capability)
        ptx = made.asm["ptx"]
        self.assertNotRegex(ptx, r"\.extern \.func", "a symbol is not defined")
        self.assertGreater(len(made.asm["cubin"]), 0)
        for call in calls:
            for pattern in ORDER[call] if capability >= 90 else []:
                self.assertRegex(ptx, pattern, call)
        used = usage(made.asm["cubin"])
        if os.environ.get("ORIEL_VERBOSE"):
            print(f"sm_{capability} {' '.join(calls):24}", used)
        if used:
            self.assertLessEqual(used["REG"], 168, "registers")
            self.assertLessEqual(used["STACK"], 1408, "stack")
            # Triton's own memory comes behind this, and its matrix products need a multiple of
            # 1024.  The GPU keeps the first 1024 bytes for itself.
            self.assertIn(used["SHARED"], (0, 1024, 2048), "static shared memory")

    def test_each_on_sm90(self) -> None:
        for call in sorted(_extern.CALLS):
            with self.subTest(call=call):
                self.check([call], 90)

    def check_together(self, capability: int) -> None:
        """All calls in a few kernels: several externs in one kernel work, and it is faster."""
        calls = sorted(_extern.CALLS)
        for first in range(0, len(calls), 12):
            with self.subTest(calls=calls[first : first + 12]):
                self.check(calls[first : first + 12], capability)

    def test_together_on_sm80(self) -> None:
        self.check_together(80)

    def test_together_on_sm100(self) -> None:
        try:
            self.check(["rank"], 100)
        except Exception as error:  # every Triton has its own way to say so
            self.skipTest(f"this Triton does not compile for sm_100: {error}")
        self.check_together(100)


@triton.jit
def ring(win, src, status, right, left, n, rounds):
    for i in range(rounds):
        err = ot.wait_signal_from(win, left, 0, ot.GE, i)
        err = err | ot.put_signal(win, right, 0, src, 0, n, 0, ot.ADD, 1)
        if err != 0:
            tl.store(status, err)


@triton.jit
def store_put_load(win, src, data, peer):
    at = tl.arange(0, 256)
    tl.store(data + at, at)
    ot.put_signal(win, peer, 0, src, 0, 1024, 0, ot.ADD, 1)
    ot.wait_signal_from(win, peer, 0, ot.GE, 1)
    there = ot.base(win).to(tl.pointer_type(tl.int32))
    tl.store(data + at, tl.load(there + at))


@triton.jit
def wait_in_loop(win, a, c, peer, n, STAGES: tl.constexpr):
    at = tl.arange(0, 64)
    square = at[:, None] * 64 + at[None, :]
    total = tl.zeros((64, 64), tl.float32)
    for i in tl.range(0, n, num_stages=STAGES):
        ot.wait_signal_from(win, peer, 0, ot.GE, i + 1)
        x = tl.load(a + i * 4096 + square)
        total += tl.dot(x, x)
    tl.store(c + square, total)


@triton.jit
def wait_around_loop(win, a, c, peer, n, STAGES: tl.constexpr):
    at = tl.arange(0, 64)
    square = at[:, None] * 64 + at[None, :]
    total = tl.zeros((64, 64), tl.float32)
    for i in tl.range(0, n, num_stages=1):
        ot.wait_signal_from(win, peer, 0, ot.GE, i + 1)
        for j in tl.range(0, 16, num_stages=STAGES):
            x = tl.load(a + i * 65536 + j * 4096 + square)
            total += tl.dot(x, x)
    tl.store(c + square, total)


LOOP = {"win": "i64", "a": "*fp16", "c": "*fp32", "peer": "i32", "n": "i32", "STAGES": "constexpr"}
RING = {
    "win": "i64", "src": "i64", "status": "*i32", "right": "i32", "left": "i32", "n": "i64",
    "rounds": "i32",
}  # fmt: skip


def first_line(text: str, pattern: str) -> int:
    """The number of the first line that matches; a large one if none does."""
    for number, line in enumerate(text.splitlines()):
        if re.search(pattern, line):
            return number
    return 1 << 30


def entry_of(ptx: str) -> str:
    """The kernel itself, without the functions that it calls."""
    begin = ptx.index(".visible .entry")
    return ptx[begin : ptx.index("\n}\n", begin)]


class Order(unittest.TestCase):
    """What Triton and its compiler may not move, and what they should."""

    def test_handle_is_loaded_before_the_loop(self) -> None:
        made = compiled(ring, RING, 90)
        self.assertNotRegex(made.asm["llir"], r"call .*@oriel_triton_(put|wait)", "not inlined")
        entry = entry_of(made.asm["ptx"])
        constants = [n for n, line in enumerate(entry.splitlines()) if "ld.global.nc" in line]
        self.assertGreaterEqual(len(constants), 8)
        self.assertLess(max(constants), first_line(entry, r"bar\.|fence\."))
        stack = re.search(r"__local_depot\d+\[(\d+)\]", entry)
        size = int(stack.group(1)) if stack else 0
        self.assertLess(size, 128, "the copy of the handle, 500 bytes, is not in registers")

    def test_stores_before_a_put_and_loads_after_a_wait_stay_there(self) -> None:
        signature = {"win": "i64", "src": "i64", "data": "*i32", "peer": "i32"}
        made = compiled(store_put_load, signature, 90)
        text = made.asm["llir"]
        begin = re.search(r"define .*@store_put_load", text).start()
        text = text[begin : text.index("\n}\n", begin)]
        store = first_line(text, r"st\.global[^\"]*b32")
        meeting = first_line(text, r"barrier|bar\.sync")
        self.assertLess(store, meeting, "the block meets after the tensor was stored")
        publish = first_line(text, r"red\.relaxed\.sys")
        acquire = first_line(text, r"fence\.acquire\.sys")
        load = first_line(text, r"ld\.global[^\"]*b32")
        self.assertLess(meeting, publish)
        self.assertLess(acquire, load)
        # The non-coherent path could return what was there before the wait.
        self.assertIsNone(re.search(r"ld\.global\.nc[^\"]*\.b32 *\{", text))

    def loop(self, kernel, stages: int) -> tuple[int, int, int]:
        """Lines of the wait, of the first load and of the loop in Triton's own code."""
        attributes = {(n,): [["tt.divisibility", 16]] for n in (1, 2)}
        source = ASTSource(kernel, LOOP, constexprs={(5,): stages}, attrs=attributes)
        options = {"extern_libs": ot.extern_libs(90), "num_warps": 4}
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        text = made.asm["ttgir"]
        wait = first_line(text, "oriel_triton_wait_signal_from")
        load = first_line(text, r"tt\.load|async_copy_global_to_local")
        return wait, load, first_line(text, r"scf\.for")

    def test_one_stage_keeps_loads_behind_the_wait(self) -> None:
        wait, load, _ = self.loop(wait_in_loop, 1)
        self.assertLess(wait, load)

    def test_more_stages_do_not(self) -> None:
        """Why docs/triton.md asks for num_stages=1: loads come before the wait."""
        wait, load, loop = self.loop(wait_in_loop, 3)
        self.assertLess(load, loop)
        self.assertLess(load, wait)

    def test_inner_loop_may_have_stages(self) -> None:
        wait, load, _ = self.loop(wait_around_loop, 3)
        self.assertLess(wait, load)

    def test_large_blocks(self) -> None:
        for warps, registers in ((1, 255), (16, 128), (32, 64)):
            with self.subTest(warps=warps):
                used = usage(compiled(ring, RING, 90, warps).asm["cubin"])
                self.assertLessEqual(used.get("REG", 0), registers)


@triton.jit
def tensor_as_rank(win, src):
    ot.put(win, tl.arange(0, 16), 0, src, 0, 8)


@triton.jit
def float_as_bytes(win, src):
    ot.put(win, 0, 0, src, 0, 8.0)


@triton.jit
def pointer_as_value(win, src):
    ot.signal(win, 0, 0, ot.ADD, src)


@triton.jit
def small_address(win, src):
    ot.fence(7, 0)


@triton.jit
def small_variable(win, src):
    ot.fence(tl.program_id(0), 0)


@triton.jit
def argument_missing(win, src):
    ot.put(win, 0, 0, src)


class BadInput(unittest.TestCase):
    """Mistakes are found when the kernel is compiled, with a text that says what to do."""

    def refuses(self, kernel, text: str) -> None:
        with self.assertRaises(CompilationError) as caught:
            compiled(kernel, {"win": "i64", "src": "*i64"}, 90)
        causes, error = [], caught.exception
        while error:
            causes.append(str(error))
            error = error.__cause__
        self.assertRegex("\n".join(causes), text)

    def test_arguments(self) -> None:
        self.refuses(tensor_as_rank, r"put: peer is a tensor of shape \[16\].*scalars")
        self.refuses(float_as_bytes, r"put: bytes is .*an integer is needed")
        self.refuses(pointer_as_value, r"signal: value is a pointer")
        self.refuses(small_address, r"fence: win is int32; an address is a pointer or an int64")
        self.refuses(small_variable, r"fence: win is int32; an address is a pointer or an int64")
        self.refuses(argument_missing, r"missing a required argument: 'src_off'")

    def test_outside_a_kernel(self) -> None:
        with self.assertRaisesRegex(ValueError, "triton.jit"):
            ot.rank(0)

    def test_bitcode(self) -> None:
        self.assertTrue(ot.library((9, 0)).endswith("_sm90.bc"))
        self.assertTrue(ot.library(100).endswith("_sm90.bc"))
        self.assertTrue(ot.library(86).endswith("_sm80.bc"))
        with self.assertRaisesRegex(ValueError, "8.0 or later"):
            ot.library(75)
        before = os.environ.get("ORIEL_BITCODE")
        try:
            os.environ["ORIEL_BITCODE"] = "/nowhere"
            with self.assertRaisesRegex(FileNotFoundError, "/nowhere.*clang 19"):
                ot.extern_libs(90)
        finally:
            if before is None:
                del os.environ["ORIEL_BITCODE"]
            else:
                os.environ["ORIEL_BITCODE"] = before

    def test_failure_parts(self) -> None:
        self.assertEqual(ot.failure_parts(0), (0, None, None))
        word = 4 | (3 + 1) << 16 | (1 + 1) << 32
        self.assertEqual(ot.failure_parts(word), (-4, 3, 1))


if __name__ == "__main__":
    unittest.main()
