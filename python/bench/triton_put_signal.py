# SPDX-License-Identifier: BSD-3-Clause
"""python -m bench.triton_put_signal: put_signal from a Triton kernel beside the C kernel.

Two ranks on one GPU put and signal in turn, with blocks of 512 threads.  A number is the time of
one way: half a round trip.  Both kernels take turns in the same processes; medians are printed.
Needs a GPU, nvcc, torch, Triton and the device bitcode.  Exit status: 0 measured, 1 wrong bytes or
a failed call, 77 something is missing.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
    import triton
    import triton.language as tl

    import oriel
    import oriel.triton as ot
    from oriel import _c
    from oriel._library import tool_path
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"
# bytes: rounds of one launch
SIZES = {8: 5000, 64 << 10: 1000, 1 << 20: 200}
REPEATS, WARPS = 9, 16


@triton.jit(do_not_specialize=["peer", "n", "first", "rounds"])
def rally(win, source, peer, n, first, rounds, status, SECOND: tl.constexpr):
    for i in range(rounds):
        if SECOND:
            err = ot.wait_signal_from(win, peer, 0, ot.GE, first + i + 1)
            err = err | ot.put_signal(win, peer, 0, source, 0, n, 0, ot.ADD, 1)
        else:
            err = ot.put_signal(win, peer, 0, source, 0, n, 0, ot.ADD, 1)
            err = err | ot.wait_signal_from(win, peer, 0, ot.GE, first + i + 1)
        if err != 0:
            tl.store(status, err)


def compile_c(folder: str) -> str:
    """The C kernel as a cubin for this GPU."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    cubin = os.path.join(folder, "put_signal.cubin")
    command = [nvcc, "-arch=native", "-std=c++17", "-O3", "-cubin", "-diag-suppress", "177"]
    source = str(HERE / "put_signal.cu")
    subprocess.run([*command, f"-I{INCLUDE}", "-o", cubin, source], check=True)
    return cubin


class CKernel:
    """Launches the C kernel by the CUDA driver."""

    def __init__(self, cubin: str) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        module = ctypes.c_void_p()
        self.function = ctypes.c_void_p()
        image = pathlib.Path(cubin).read_bytes()
        self._check(self.cuda.cuModuleLoadData(ctypes.byref(module), image))
        name = ctypes.byref(self.function)
        self._check(self.cuda.cuModuleGetFunction(name, module, b"rally"))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA driver: error {status}")

    def launch(self, stream: int, *values) -> None:
        """values: the kernel's arguments as ctypes objects."""
        addresses = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        grid_and_block = [1, 1, 1, 32 * WARPS, 1, 1]
        queue = ctypes.c_void_p(stream)
        self._check(
            self.cuda.cuLaunchKernel(self.function, *grid_and_block, 0, queue, addresses, None)
        )


def rank_main(cubin: str) -> int:
    """One of the two ranks."""
    with oriel.Comm.from_env() as comm:
        peer, second = 1 - comm.rank, comm.rank
        window = oriel.Window(comm, bytes=1 << 20)
        local = torch.full((1 << 20,), comm.rank + 1, dtype=torch.uint8, device="cuda")
        source = window.register_local_buffer(local)
        described = window.source(local)
        handle = _c.oriel_window_dev()
        _c.check(_c.lib.oriel_window_device(window._handle, ctypes.byref(handle)))
        status = torch.zeros(1, dtype=torch.int32, device="cuda")
        c_kernel = CKernel(cubin)
        options = {"num_warps": WARPS, "extern_libs": ot.extern_libs()}
        total = 0  # signals of all launches so far

        def triton_launch(n: int, rounds: int) -> None:
            rally[(1,)](
                window.device_handle, source, peer, n, total, rounds, status, second, **options
            )

        def c_launch(n: int, rounds: int) -> None:
            c_kernel.launch(
                torch.cuda.current_stream().cuda_stream, handle, described._struct,
                ctypes.c_int(peer), ctypes.c_int(second), ctypes.c_uint64(n),
                ctypes.c_uint64(total), ctypes.c_int(rounds), ctypes.c_void_p(status.data_ptr()),
            )  # fmt: skip

        failed = 0
        for n, rounds in SIZES.items():
            times: dict[str, list[float]] = {"C": [], "Triton": []}
            window.tensor().zero_()
            # Compiles and loads before any kernel waits.
            args = (window.device_handle, source, peer, n, total, rounds, status, second)
            rally.warmup(*args, grid=(1,), **options)._init_handles()
            for repeat in range(REPEATS + 1):
                for name, launch in (("C", c_launch), ("Triton", triton_launch)):
                    torch.cuda.synchronize()
                    comm.barrier()
                    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    start.record()
                    launch(n, rounds)
                    end.record()
                    end.synchronize()
                    total += rounds
                    if repeat:  # the first one warms up
                        times[name].append(start.elapsed_time(end) * 1000 / rounds / 2)
            right = bool((window.tensor()[:n] == peer + 1).all()) and status.item() == 0
            failed |= not right
            c, ours = statistics.median(times["C"]), statistics.median(times["Triton"])
            if comm.rank == 0:
                print(
                    f"put_signal {n:8} B   C {c:8.3f} us   Triton {ours:8.3f} us   "
                    f"{ours / c:5.2f} x   {'' if right else 'WRONG'}",
                    flush=True,
                )
        window.close()
    return int(failed)


def main() -> int:
    """Starts the two ranks."""
    launcher = tool_path("oriel-run")
    if not torch.cuda.is_available() or launcher is None:
        print("skipped: no GPU" if launcher else "skipped: oriel-run is not beside the library")
        return 77
    try:
        ot.library()
    except FileNotFoundError as missing:
        print(f"skipped: {missing}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "bench.triton_put_signal", compile_c(folder)]
        command = [launcher, "-n", "2", "--mps", "--timeout", "100", *program]
        env = {**os.environ, "ORIEL_DEVICE": "cuda"}
        return subprocess.run(command, env=env, timeout=110).returncode


if __name__ == "__main__":
    sys.exit(rank_main(sys.argv[1]) if len(sys.argv) > 1 else main())
