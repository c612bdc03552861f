#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns the raw log of bench/coll/sweep.sh into a table and a plot of all points.

Usage: sweep.py LOG TABLE.md
The plot, sweep.svg, is drawn beside the table by gnuplot, if it is installed.
Exit status: 0 all targets met; 1 a target missed or not measured; 2 bad command line.
"""
import importlib.util
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

# Two files are called gpu_table.py; this is the one with the reader of logs.
_spec = importlib.util.spec_from_file_location(
    "gpu_figures", pathlib.Path(__file__).parents[1] / "gpu_table.py")
_figures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_figures)
Figures, number = _figures.Figures, _figures.number

MEDIAN, WORST = 1.08, 1.25
# By default an all-gather moves larger blocks without SMs.  Then only copy engines are its limit.
NO_SMS_ABOVE, ENGINES = 1 << 20, ("ce", "batch")
ROW = re.compile(r"(gather|exchange|random)(\d)_(\d+)(?::\d+)?$")
OPS = {"exchange": "all-to-all-v, even", "random": "all-to-all-v, random",
       "gather": "all-gather"}


class Point:
    """A row of the log, with the best of each program."""

    def __init__(self, figures, row):
        op, ranks, size = ROW.match(row).groups()
        self.op, self.ranks, self.bytes = op, int(ranks), int(size)
        self.limit, self.way = self.best(figures, "limit", row)
        self.guess, self.guess_way = self.best(figures, "oriel", row)
        self.tuned = figures.median("tuned", row)
        self.default = figures.median("oriel", row)
        self.default_limit = self.limit
        if op == "gather" and self.bytes > NO_SMS_ABOVE:
            self.default_limit, _ = self.best(figures, "limit", row, ENGINES)

    @staticmethod
    def best(figures, who, row, ways=None):
        """Of several ways, as a user can choose one: the policy of an all-gather, for example.

        ways: the allowed names, without final digits.
        """
        found = [(figures.median(*key), key[1].partition("/")[2]) for key in figures.values
                 if key[0] == who and key[1].partition("/")[0] == row]
        if ways:
            found = [x for x in found if x[1].rstrip("0123456789") in ways]
        return min(found) if found else (None, "")

    def ratio(self, who):
        mine = {"guess": self.guess, "tuned": self.tuned, "default": self.default}[who]
        limit = self.default_limit if who == "default" else self.limit
        return mine / limit if mine and limit else None


def size_text(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:.4g} {unit}"
        count /= 1024
    return ""


def ratio_text(value):
    return f"{value:.2f}" if value else "-"


def summary(points, who, label):
    """A line about all points of the all-to-all-v or of the all-gather, and whether it is met."""
    ratios = [p.ratio(who) for p in points if p.ratio(who)]
    if not ratios:
        return [f"| {label} | - | - | - | not measured |"], False
    median, worst = statistics.median(ratios), max(ratios)
    met = median <= MEDIAN and worst <= WORST and len(ratios) == len(points)
    over = sum(r > WORST for r in ratios)
    return [f"| {label} | {len(ratios)} | {median:.3f} | {worst:.2f} ({over} above {WORST}) | "
            f"{'PASS' if met else 'MISS'} |"], met


def plot(points, path):
    if not shutil.which("gnuplot"):
        print("sweep: no plot: package gnuplot-nox (tools/deps.sh bench)", file=sys.stderr)
        return
    script = ['set terminal svg size 1000,480 font "sans-serif,12" background "#ffffff"',
              f'set output "{path}"', "set logscale x 2", "set grid",
              "set key outside below horizontal",
              'set xlabel "bytes of the peer that gets most"',
              'set ylabel "time / time of the best kernel by hand"', "set yrange [0.7:*]",
              'set format x "2^{%L}"']
    series = []
    for colour, (op, who, label) in enumerate((
            ("exchange", "guess", "all-to-all-v, even, first guess"),
            ("exchange", "tuned", "all-to-all-v, even, tuned"),
            ("random", "guess", "all-to-all-v, random, first guess"),
            ("random", "tuned", "all-to-all-v, random, tuned"),
            ("gather", "guess", "all-gather, better policy"),
            ("gather", "default", "all-gather, default policy")), 1):
        rows = [f"{p.bytes} {p.ratio(who)}" for p in points if p.op == op and p.ratio(who)]
        if rows:
            script.append(f"$p{colour} << E\n" + "\n".join(rows) + "\nE")
            series.append(f'$p{colour} using 1:2 with points pt {4 + colour} ps 0.8 lc {colour} '
                          f'title "{label}"')
    script.append(f"plot {MEDIAN} lc 'grey' title 'median wanted', "
                  f"{WORST} lc 'black' title 'worst wanted', " + ", ".join(series))
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, timeout=60, check=True)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    figures = Figures(sys.argv[1])
    rows = {key[1].partition("/")[0] for key in figures.values}
    points = sorted((Point(figures, row) for row in rows if ROW.match(row)),
                    key=lambda p: (p.op, p.bytes, p.ranks))
    exchanges = [p for p in points if p.op != "gather"]
    gathers = [p for p in points if p.op == "gather"]
    out = figures.head and ["```", *figures.head, "```", ""]
    out += ["Ratios are Oriel's time to the best hand-written kernel's of the same run, medians of "
            "the repetitions.", "",
            f"| | points | median, at most {MEDIAN} | worst, at most {WORST} | |",
            "|---|---|---|---|---|"]
    met = []
    for chosen, who, label in ((exchanges, "guess", "all-to-all-v, first guess"),
                               (exchanges, "tuned", "all-to-all-v, tuned"),
                               (gathers, "guess", "all-gather, better policy"),
                               (gathers, "default", "all-gather, default policy")):
        lines, good = summary(chosen, who, label)
        out += lines
        met.append(good)
    out += ["", "![all points](sweep.svg)", "",
            "| collective | ranks | most to a peer | by hand, us | first guess, us | ratio | "
            "tuned, us | ratio | default policy, us | ratio |",
            "|---|---|---|---|---|---|---|---|---|---|"]
    for p in points:
        way = f" ({p.guess_way})" if p.guess_way else ""
        out.append(f"| {OPS[p.op]} | {p.ranks} | {size_text(p.bytes)} | {number(p.limit)} "
                   f"({p.way}) | {number(p.guess)}{way} | {ratio_text(p.ratio('guess'))} | "
                   f"{number(p.tuned)} | {ratio_text(p.ratio('tuned'))} | " +
                   (f"{number(p.default)} | {ratio_text(p.ratio('default'))} |"
                    if p.op == "gather" else "- | - |"))
    path = pathlib.Path(sys.argv[2])
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    plot(points, path.with_name("sweep.svg"))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
