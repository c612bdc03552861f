#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""versus_gpu.py OUT LOG... - table and plot of bench/versus-gpu.sh.

The logs are those of bench/gpu.sh and bench/coll/gpu.sh; gpu_table.py reads them.  OUT gets
table.md and versus-gpu.svg.  A figure is the median over the repetitions, with its spread.
Of hand-written kernels and of NVSHMEM the best way counts.
Exit status: 0; 1 if there are no figures of Oriel, or gnuplot fails.
"""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from gpu_table import Figures, number

PEERS = {"limit": "kernel by hand", "oriel": "Oriel", "nvshmem": "NVSHMEM"}
ROWS = {
    "thread8": "put and signal, 8 B, one thread",
    "block8": "put and signal, 8 B, block of 512",
    "block64k": "put and signal, 64 KiB, block of 512",
    "block1m": "put and signal, 1 MiB, block of 512",
    "bw1": "put, 1 block",
    "bw16": "put, 16 blocks",
    "bw64": "put, 64 blocks",
    "sync2": "arrive and wait, 2 ranks",
    "sync8": "arrive and wait, 8 ranks",
    "gather8_1k": "all-gather, 8 ranks, 1 KiB",
    "gather8_64k": "all-gather, 8 ranks, 64 KiB",
    "gather8_1m": "all-gather, 8 ranks, 1 MiB",
    "gather8_16m": "all-gather, 8 ranks, 16 MiB",
    "exchange8_1k": "all-to-all-v, 8 ranks, 1 KiB",
    "exchange8_64k": "all-to-all-v, 8 ranks, 64 KiB",
    "exchange8_1m": "all-to-all-v, 8 ranks, 1 MiB",
    "exchange8_16m": "all-to-all-v, 8 ranks, 16 MiB",
    "reduce8_1m": "all-reduce in windows, 8 ranks, 1 MiB",
    "reduce8_64m": "all-reduce in windows, 8 ranks, 64 MiB",
}
PANELS = [
    ("put to one peer", "blocks", "GB/s", {f"bw{n}": n for n in (1, 4, 16, 32, 64)}),
    ("all-gather, 8 ranks", "bytes of a rank", "microseconds",
     {"gather8_1k": 1 << 10, "gather8_64k": 64 << 10, "gather8_1m": 1 << 20,
      "gather8_16m": 16 << 20}),
]


def merged(paths: list[str]) -> Figures:
    """The figures of all logs, and their heads."""
    figures = Figures(paths[0])
    for path in paths[1:]:
        other = Figures(path)
        figures.head += [line for line in other.head if line not in figures.head]
        figures.values.update(other.values)
    return figures


def best(figures: Figures, who: str, row: str) -> tuple[float | None, str]:
    """The median of the best way, and the key of its values."""
    median, way = figures.best(who, row, not row.startswith("bw"))
    return median, f"{row}/{way}" if way else row


def cell(figures: Figures, who: str, row: str) -> str:
    """Median and spread."""
    median, key = best(figures, who, row)
    return "-" if median is None else f"{number(median)} ({figures.span(who, key)})"


def table(figures: Figures) -> list[str]:
    """A Markdown table of the rows that Oriel has."""
    out = ["| operation | unit | " + " | ".join(PEERS.values()) + " |",
           "|---" * (len(PEERS) + 2) + "|"]
    for row, text in ROWS.items():
        if figures.median("oriel", row) is not None:
            unit = "GB/s" if row.startswith("bw") else "us"
            cells = [cell(figures, who, row) for who in PEERS]
            out.append(f"| {text} | {unit} | " + " | ".join(cells) + " |")
    return out


def plot(figures: Figures, out: Path) -> bool:
    """Writes versus-gpu.svg by gnuplot."""
    if not shutil.which("gnuplot"):
        print("versus-gpu: skipped: no plot: package gnuplot-nox (tools/deps.sh bench)",
              file=sys.stderr)
        return False
    script = ['set terminal svg size 1100,440 font "sans-serif,12" background "#ffffff"',
              f'set output "{out / "versus-gpu.svg"}"', "set multiplot layout 1,2",
              "set logscale xy", "set grid", "set key top left"]
    for panel, (title, x, y, points) in enumerate(PANELS):
        series = []
        for colour, (who, name) in enumerate(PEERS.items(), 1):
            lines = []
            for row, at in points.items():
                median, key = best(figures, who, row)
                if median is not None:
                    values = figures.values[who, key]
                    lines.append(f"{at} {median} {min(values)} {max(values)}")
            if lines:
                block = "\n".join(lines)
                script.append(f"$p{panel}_{colour} << E\n{block}\nE")
                series.append(f'$p{panel}_{colour} using 1:2:3:4 with yerrorlines lw 1.5 pt 7 '
                              f'ps 0.5 lc {colour} title "{name}"')
        if series:
            script += [f'set title "{title}"', f'set xlabel "{x}"', f'set ylabel "{y}"',
                       "plot " + ", ".join(series)]
    done = subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, timeout=60)
    return done.returncode == 0


def main() -> int:
    """Reads the command line."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    out, figures = Path(sys.argv[1]), merged(sys.argv[2:])
    if not any(who == "oriel" for who, _ in figures.values):
        print("versus-gpu: no figures of Oriel", file=sys.stderr)
        return 1
    head = ["# Oriel beside its peers on a GPU", "", "```", *figures.head, "```", "",
            "Medians of interleaved repetitions, with the smallest and the largest.", "",
            "![plot](versus-gpu.svg)", ""]
    (out / "table.md").write_text("\n".join(head + table(figures)) + "\n", encoding="utf-8")
    return 0 if plot(figures, out) else 1


if __name__ == "__main__":
    sys.exit(main())
