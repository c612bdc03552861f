#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""versus.py LOG OUT [--readme FILE --results FOLDER] - table and plot of bench/versus.sh.

A line of the log is "# text" or "repetition who_caseRANKS_size value us".  OUT gets table.md and
versus.svg.  With --readme, a short table replaces what FILE has between the lines
<!-- versus begin --> and <!-- versus end -->; it links to the folder of the results.
A figure is the median over the repetitions, with the smallest and the largest in brackets.
Exit status: 0; 1 if there are no figures of Oriel, or gnuplot fails.
"""
from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

PEERS = {
    "oriel": "Oriel",
    "shmem": "OpenSHMEM on Oriel",
    "mpi": "Open MPI",
    "ompi": "OpenSHMEM of Open MPI",
}
CASES = {
    "putsignal": "data and a signal, one way",
    "put": "put, complete",
    "get": "get",
    "fetchadd": "fetch-add",
    "barrier": "barrier",
    "broadcast": "broadcast",
    "fcollect": "all-gather",
    "alltoall": "all-to-all",
    "sum": "all-reduce, sum of doubles",
}
SIZES = {"8": 8, "64": 64, "256": 256, "1k": 1 << 10, "4k": 4 << 10, "16k": 16 << 10,
         "64k": 64 << 10, "256k": 256 << 10, "1m": 1 << 20}
COARSE = ("8", "1k", "64k", "1m")
SHORT = [("putsignal", 2, COARSE), ("put", 2, ("8", "1m")), ("get", 2, ("8", "1m")),
         ("fetchadd", 2, ("8",)), ("barrier", 2, ("8",)), ("barrier", 8, ("8",)),
         ("fcollect", 2, ("1k", "1m")), ("fcollect", 8, ("1k", "1m")),
         ("sum", 2, ("1k", "1m")), ("sum", 8, ("1k", "1m"))]
PANELS = [("putsignal", "data and a signal, one way, 2 ranks"), ("sum", "all-reduce, 2 ranks")]
BEGIN, END = "<!-- versus begin -->", "<!-- versus end -->"
NAME = re.compile(r"^(oriel|shmem|mpi|ompi)_([a-z]+)(\d+)_(\w+)$")
Key = tuple[str, str, int, str]  # who, case, ranks, size


def number(value: float) -> str:
    """Three digits that count, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


class Figures:
    """What a log holds: the head, and the repetitions of every figure."""

    def __init__(self, text: str) -> None:
        self.head: list[str] = []
        self.values: dict[Key, list[float]] = {}
        for line in text.splitlines():
            words = line.split()
            match = NAME.match(words[1]) if len(words) == 4 else None
            if line.startswith("#"):
                self.head.append(line[1:].strip())
            elif match and words[0].isdigit():
                key = (match[1], match[2], int(match[3]), match[4])
                self.values.setdefault(key, []).append(float(words[2]))

    def median(self, key: Key) -> float | None:
        """The median, or None if nothing was measured."""
        values = self.values.get(key)
        return statistics.median(values) if values else None

    def best(self, who: str, case: str, ranks: int, size: str) -> tuple[Key, str]:
        """The figure of a peer.  MPI hands over data by windows or by messages: the faster way."""
        key = (who, case, ranks, size)
        other = (who, "sendrecv", ranks, size)
        if case != "putsignal" or other not in self.values:
            return key, ""
        mine = self.median(key)
        messages = self.median(other)
        if mine is None or messages < mine:
            return other, ", send"
        return key, ", window"

    def cell(self, key: Key, way: str) -> str:
        """Median and spread."""
        median = self.median(key)
        if median is None:
            return "-"
        low, high = min(self.values[key]), max(self.values[key])
        return f"{number(median)} ({number(low)}..{number(high)}{way})"

    def said(self, word: str) -> str:
        """The text after a word of the head, such as `date`."""
        return next((line[len(word) + 1:] for line in self.head if line.startswith(word + " ")), "")


def rows(figures: Figures, wanted: list[tuple[str, int, tuple[str, ...]]]) -> list[str]:
    """A Markdown table."""
    out = ["| operation | ranks | bytes | " + " | ".join(PEERS.values()) + " | others / Oriel |",
           "|---" * (len(PEERS) + 4) + "|"]
    for case, ranks, sizes in wanted:
        for size in sizes:
            keys = {who: figures.best(who, case, ranks, size) for who in PEERS}
            if not any(figures.median(key) for key, _ in keys.values()):
                continue
            mine = figures.median(keys["oriel"][0])
            others = [figures.median(keys[who][0]) for who in ("mpi", "ompi")]
            others = [value for value in others if value is not None]
            ratio = f"{min(others) / mine:.2f}" if mine and others else "-"
            shown = "" if case in ("barrier", "fetchadd") else str(SIZES[size])
            cells = [figures.cell(*keys[who]) for who in PEERS]
            out.append(f"| {CASES[case]} | {ranks} | {shown} | {' | '.join(cells)} | {ratio} |")
    return out


def caption(figures: Figures) -> list[str]:
    """What the numbers are and where they come from."""
    said = [f"{line}." for line in figures.head if line.startswith(("skipped:", "WARNING"))]
    failed = sum(line.startswith("FAILED") for line in figures.head)
    if failed:
        said.append(f"{failed} runs of a program failed or took too long: the log names them.")
    repetitions = max(len(values) for values in figures.values.values())
    return [f"Machine: {figures.said('cpu')}. Date: {figures.said('date')}.",
            f"Commit {figures.said('commit')}. Beside it: {figures.said('versus') or 'nothing'}.",
            f"Microseconds: the median of {repetitions} interleaved repetitions, with the smallest "
            "and the largest.",
            "The last column is the time of the faster of the others, divided by Oriel's.",
            *said]


def plot(figures: Figures, out: Path) -> bool:
    """Writes versus.svg by gnuplot."""
    if not shutil.which("gnuplot"):
        print("versus: skipped: no plot: package gnuplot-nox (tools/deps.sh bench)",
              file=sys.stderr)
        return False
    ways = [(who, None, name) for who, name in PEERS.items() if who != "mpi"]
    ways += [("mpi", None, "Open MPI"), ("mpi", "sendrecv", "Open MPI, send and receive")]
    script = ['set terminal svg size 1100,440 font "sans-serif,12" background "#ffffff"',
              f'set output "{out / "versus.svg"}"', "set multiplot layout 1,2", "set logscale xy",
              "set grid", "set key top left", 'set xlabel "bytes"', 'set ylabel "microseconds"',
              'set xtics ("8" 8, "64" 64, "1 KiB" 1024, "16 KiB" 16384, "256 KiB" 262144)']
    for case, title in PANELS:
        series = []
        for colour, (who, other, name) in enumerate(ways, 1):
            if other and case != "putsignal":
                continue
            if who == "mpi" and case == "putsignal" and not other:
                name = "Open MPI, window"
            block = data(figures, who, other or case)
            if block:
                script.append(f"${case}_{colour} << E\n{block}\nE")
                series.append(f'${case}_{colour} using 1:2:3:4 with yerrorlines lw 1.5 pt 7 ps 0.5 '
                              f'lc {colour} title "{name}"')
        if series:
            script += [f'set title "{title}"', "plot " + ", ".join(series)]
    done = subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, timeout=60)
    return done.returncode == 0


def data(figures: Figures, who: str, case: str) -> str:
    """Lines "bytes median smallest largest" of a case on two ranks."""
    out = []
    for size, count in SIZES.items():
        values = figures.values.get((who, case, 2, size))
        if values:
            out.append(f"{count} {statistics.median(values)} {min(values)} {max(values)}")
    return "\n".join(out)


def publish(figures: Figures, readme: Path, results: str) -> None:
    """Replaces the short table of the README."""
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"versus: {readme} needs one line {BEGIN} and one line {END}")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    picture = "![Oriel beside Open MPI and OpenSHMEM: time over size](docs/images/versus.svg)"
    lines = ["", picture, "", *rows(figures, SHORT), "", *caption(figures),
             f"All figures: [{results}]({results}).", ""]
    readme.write_text(before + BEGIN + "\n".join(lines) + END + after, encoding="utf-8")


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--readme", type=Path)
    parser.add_argument("--results", default="")
    args = parser.parse_args()
    figures = Figures(args.log.read_text(encoding="utf-8"))
    if not any(key[0] == "oriel" for key in figures.values):
        print("versus: no figures of Oriel", file=sys.stderr)
        return 1
    wanted = [(case, ranks, COARSE) for ranks in (2, 8) for case in CASES]
    table = ["# Oriel beside its peers", "", *caption(figures), "", "![plot](versus.svg)", "",
             *rows(figures, wanted)]
    (args.out / "table.md").write_text("\n".join(table) + "\n", encoding="utf-8")
    if not plot(figures, args.out):
        return 1
    if args.readme:
        publish(figures, args.readme, args.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
