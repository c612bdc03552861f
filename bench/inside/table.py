#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns the raw log of bench/inside/gpu.sh into a table with targets.

Usage: table.py LOG TABLE.md
bench/gpu_table.py reads the log and describes its lines.
Exit status: 0 all targets met; 1 a target missed or not measured.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from gpu_table import Figures, judge, number  # noqa: E402

# row, what it is, target: the time divided by that of the limit
ROWS = [
    ("exchange_128", "all-to-all, 128 B per peer", 1.25),
    ("exchange_1k", "all-to-all, 1 KiB", 1.25),
    ("exchange_4k", "all-to-all, 4 KiB", 1.15),
    ("exchange_16k", "all-to-all, 16 KiB", 1.15),
    ("exchange_64k", "all-to-all, 64 KiB", 1.15),
    ("exchange_1m", "all-to-all, 1 MiB", 1.15),
    ("gather_1k", "all-gather, 1 KiB per rank", 1.25),
    ("gather_64k", "all-gather, 64 KiB", 1.15),
    ("reduce_1k", "all-reduce, 1 KiB", 1.25),
    ("reduce_4k", "all-reduce, 4 KiB", 1.25),
    ("reduce_16k", "all-reduce, 16 KiB", 1.25),
    ("reduce_64k", "all-reduce, 64 KiB", 1.25),
    ("cast_1k", "broadcast, 1 KiB, roots in turn", 1.25),
    ("cast_64k", "broadcast, 64 KiB, roots in turn", 1.15),
]


def main():
    figures = Figures(sys.argv[1])
    lines = [f"{line}  " for line in figures.head]
    lines += ["", "Microseconds per call, 8 ranks, blocks of 512 threads.  The best way and number",
              "of blocks of each, in brackets.", "",
              "| collective | limit | Oriel | spread | one block | NVSHMEM | ratio | "
              "target | verdict |", "|---|---|---|---|---|---|---|---|---|"]
    bad = []
    for row, label, target in ROWS:
        base, way = figures.best("limit", row, True)
        mine, mine_way = figures.best("oriel", row, True)
        ratio = mine / base if mine and base else None
        verdict = judge(ratio, target, True)
        nvshmem, nvshmem_way = figures.best("nvshmem", row, True)
        nvshmem_text = f"{number(nvshmem)} ({nvshmem_way})" if nvshmem else "-"
        if verdict == "PASS" and nvshmem and mine >= nvshmem:
            verdict = "MISS: behind NVSHMEM"
        if verdict != "PASS":
            bad.append(label)
        ratio_text = f"{ratio:.2f} x" if ratio else "-"
        one = figures.median("oriel", f"{row}/blocks1")
        lines.append(f"| {label} | {number(base)} ({way}) | {number(mine)} ({mine_way}) | "
                     f"{figures.span('oriel', f'{row}/{mine_way}')} | {number(one)} | "
                     f"{nvshmem_text} | {ratio_text} | <= {target:.2f} x | {verdict} |")
    lines += ["", f"{len(bad)} missed or not measured{': ' if bad else ''}{'; '.join(bad)}"]
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
