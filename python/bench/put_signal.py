# SPDX-License-Identifier: BSD-3-Clause
"""The cost of host calls: C beside Python, in one run.

    oriel-run -n 2 python python/bench/put_signal.py [--seconds 2]

Rank 0 makes the calls; rank 1 only has the window.  The C side is a loop in a C program that gcc
compiles now and that this process loads, on the same window and source, so that both sides call the
same function with the same arguments.  Short rounds of both alternate.  The table has the fastest
round of each, because other load on the machine only adds to a round.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable

import numpy

import oriel

CALLS = 200  # per round
LOOP = r"""
#include <stdint.h>
typedef int (*put_signal_t)(void *, int, uint64_t, const void *, uint64_t, uint64_t, int, int,
			    uint64_t, void *);
typedef int (*signal_t)(void *, int, int, int, uint64_t, void *);
int loop_put_signal(put_signal_t call, void *window, void *source, uint64_t bytes, int calls)
{
	int err = 0;

	for (int i = 0; i < calls && !err; i++)
		err = call(window, 1, 0, source, 0, bytes, 0, 1, 1, 0);
	return err;
}
int loop_signal(signal_t call, void *window, int calls)
{
	int err = 0;

	for (int i = 0; i < calls && !err; i++)
		err = call(window, 1, 0, 1, 1, 0);
	return err;
}
"""


def compile_loop(folder: str) -> ctypes.CDLL:
    """The C loops as a library."""
    source, library = Path(folder) / "loop.c", Path(folder) / "loop.so"
    source.write_text(LOOP)
    subprocess.check_call(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)])
    return ctypes.CDLL(str(library))


def measure(sides: list[Callable[[int], None]], seconds: float, calls: int) -> list[float]:
    """Microseconds per call of each side: the fastest of rounds that alternate."""
    rounds: list[list[float]] = [[] for _ in sides]
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(rounds[0]) < 5:
        for side, times in zip(sides, rounds):
            start = time.perf_counter()
            side(calls)
            times.append((time.perf_counter() - start) / calls * 1e6)
    return [min(times) for times in rounds]


def main() -> None:
    """Prints one row per call."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="per row")
    parser.add_argument("--limit", type=float, help="fail if Python costs more microseconds extra")
    options = parser.parse_args()
    with oriel.Comm.from_env() as comm, tempfile.TemporaryDirectory() as folder:
        if comm.size < 2:
            raise SystemExit("start it with oriel-run -n 2")
        window = oriel.Window(comm, bytes=1 << 20)
        worst = rows(comm, window, folder, options.seconds) if comm.rank == 0 else 0.0
        window.barrier()
    if options.limit is not None and worst > options.limit:
        raise SystemExit(f"Python costs {worst:.2f} us more than C; the limit is {options.limit}")


def rows(comm: oriel.Comm, window: oriel.Window, folder: str, seconds: float) -> float:
    """Measures and prints; returns the largest extra cost of a put_signal."""
    from oriel import _c

    loop = compile_loop(folder)
    put_signal = ctypes.cast(_c.lib.oriel_window_put_signal, ctypes.c_void_p)
    signal = ctypes.cast(_c.lib.oriel_window_signal, ctypes.c_void_p)
    handle = ctypes.c_void_p(window._handle)
    worst = 0.0
    print(f"{'call':<24}{'C us':>8}{'Python us':>12}{'extra us':>10}")

    def row(name: str, sides: list[Callable[[int], None]]) -> float:
        c_us, python_us = measure(sides, seconds, CALLS)
        print(f"{name:<24}{c_us:>8.2f}{python_us:>12.2f}{python_us - c_us:>10.2f}")
        return python_us - c_us

    for nbytes in (8, 4096, 65536):
        with window.source(numpy.zeros(nbytes, "uint8")) as source:
            pointer = source._pointer
            size = ctypes.c_uint64(nbytes)

            def in_c(calls: int) -> None:
                assert loop.loop_put_signal(put_signal, handle, pointer, size, calls) == 0

            def in_python(calls: int) -> None:
                for _ in range(calls):
                    window.put_signal(1, source)

            worst = max(worst, row(f"put_signal {nbytes}", [in_c, in_python]))

    def c_signal(calls: int) -> None:
        assert loop.loop_signal(signal, handle, calls) == 0

    def python_signal(calls: int) -> None:
        for _ in range(calls):
            window.signal(1)

    row("signal", [c_signal, python_signal])
    data = numpy.zeros(8, "uint8")

    def python_array(calls: int) -> None:
        for _ in range(calls):
            window.put_signal(1, data)

    row("put_signal 8, an array", [c_signal, python_array])
    return worst


if __name__ == "__main__":
    main()
