#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""table.py [--idle] LOG - prints the figures of bench/shmem/run.sh as a Markdown table.

A figure is the median over the repetitions, in microseconds, with the least and the largest in
brackets.  With --idle the rows are judged by two targets:
  own    at most 1.15 times Oriel's own call, and 20 ns more for 8 bytes and 1 KiB
  other  below 64 KiB ahead of the other OpenSHMEM; from 64 KiB within the spread of both
Exit status: 0 all targets are met; 1 a target is missed, or nothing was judged; 2 no figures.
"""
from __future__ import annotations

import argparse
import re
import statistics
import sys
from dataclasses import dataclass

SMALL = ("8", "1k")
NAME = re.compile(r"^(shmem|oriel|ompi)_([a-z]+)(\d+)_(\w+)$")
Row = tuple[str, str, str]  # case, PEs, size


@dataclass
class Figure:
    """The repetitions of one measurement."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def text(self) -> str:
        return f"{self.median:.4g} ({min(self.values):.4g}..{max(self.values):.4g})"


def read(path: str) -> dict[Row, dict[str, Figure]]:
    """The figures of a log, by row and by program."""
    rows: dict[Row, dict[str, Figure]] = {}
    with open(path, encoding="utf-8") as log:
        for line in log:
            words = line.split()
            match = NAME.match(words[1]) if len(words) == 4 else None
            if match and words[0].isdigit():
                who, case, pes, size = match.groups()
                row = rows.setdefault((case, pes, size), {})
                row.setdefault(who, Figure([])).values.append(float(words[2]))
    return rows


def missed(row: Row, figures: dict[str, Figure]) -> list[str]:
    """The targets that a row misses."""
    out = []
    own, oriel, other = (figures.get(who) for who in ("shmem", "oriel", "ompi"))
    small = row[2] in SMALL
    if own and oriel and own.median > 1.15 * oriel.median + (0.02 if small else 0):
        out.append("own")
    if own and other:
        behind = own.median >= other.median if small else min(own.values) > max(other.values)
        if behind:
            out.append("other")
    return out


def ratio(a: Figure | None, b: Figure | None) -> str:
    """The ratio of two medians, or nothing."""
    return f"{a.median / b.median:.2f}" if a and b else ""


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle", action="store_true", help="the machine was idle: judge")
    parser.add_argument("log")
    args = parser.parse_args()
    rows = read(args.log)
    if not rows:
        print("table.py: no figures", file=sys.stderr)
        return 2
    print("| case | PEs | bytes | OpenSHMEM on Oriel, us | Oriel's own call, us | ratio "
          "| Open MPI, us | ratio | missed |")
    print("|---|---|---|---|---|---|---|---|---|")
    bad = 0
    for row, figures in rows.items():
        own, oriel, other = (figures.get(who) for who in ("shmem", "oriel", "ompi"))
        misses = missed(row, figures) if args.idle else []
        bad += bool(misses)
        cells = [*row, *(f.text() if f else "" for f in (own, oriel))]
        cells += [ratio(own, oriel), other.text() if other else "", ratio(own, other)]
        print("| " + " | ".join([*cells, " ".join(misses)]) + " |")
    print()
    print(f"{len(rows)} rows, {bad} miss a target." if args.idle else "Nothing was judged.")
    return 1 if bad or not args.idle else 0


if __name__ == "__main__":
    sys.exit(main())
