#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns the raw log of bench/coll/gpu.sh into a table with targets.

Usage: gpu_table.py LOG TABLE.md
bench/gpu_table.py reads the log and describes its lines.
Exit status: 0 all targets met; 1 a target missed or not measured.
"""
import importlib.util
import pathlib
import sys

# Both files are called gpu_table.py, so a plain import would find this file.
_spec = importlib.util.spec_from_file_location(
    "gpu_figures", pathlib.Path(__file__).parents[1] / "gpu_table.py")
_figures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_figures)
Figures, judge, number = _figures.Figures, _figures.judge, _figures.number

SIZES = {"1k": "1 KiB", "64k": "64 KiB", "1m": "1 MiB", "16m": "16 MiB", "64m": "64 MiB"}
# row; ways of the limit that it is compared with (None: any); target (a ratio, or "us" and a time);
# whether it must also be ahead of NVSHMEM
GATHER = [
    ("gather8_1k", ("push", "pull"), 1.10, True),
    ("gather8_64k", ("push", "pull"), 1.10, True),
    ("gather8_1m", None, ("us", 60.0), False),
    ("gather8_16m", ("ce", "batch"), 1.05, False),
]
EXCHANGE = [
    ("exchange8_1k", 1.10), ("exchange8_64k", 1.10),
    ("exchange8_1m", 1.05), ("exchange8_16m", 1.05),
    ("exchange2_1k", 1.25), ("exchange2_64k", 1.25),
    ("exchange2_1m", 1.10), ("exchange2_16m", 1.05),
]
KERNELS = ("push", "pull", "weave", "fan")
SKEWED = [("skew8_1m", 1.10), ("skew8_16m", 1.10)]
WHOLE = [
    ("all-reduce", "reduce8_1m", 1.10), ("all-reduce", "reduce8_64m", 1.05),
    ("reduce-scatter", "scatter8_1m", 1.10), ("reduce-scatter", "scatter8_64m", 1.05),
    ("broadcast", "cast8_1m", 1.10), ("broadcast", "cast8_64m", 1.05),
]
LOST_PERCENT = 3.0


class Table:
    def __init__(self, figures):
        self.f = figures
        self.lines = []
        self.bad = []

    def best(self, who, row, ways=None):
        """Median of the best way, and its name.  ways: the allowed names, without final digits."""
        found = [(self.f.median(*key), key[1].partition("/")[2]) for key in self.f.values
                 if key[0] == who and key[1].partition("/")[0] == row]
        if ways:
            found = [x for x in found if x[1].rstrip("0123456789") in ways]
        return min(found) if found else (None, "")

    def add(self, label, base, mine, span, nvshmem, ratio, target, verdict):
        if verdict not in ("PASS", "reported"):
            self.bad.append(label)
        ratio_text = f"{ratio:.2f} x" if ratio else "-"
        self.lines.append(f"| {label} | {base} | {mine} | {span} | {number(nvshmem)} | "
                          f"{ratio_text} | {target} | {verdict} |")

    def row(self, label, row, ways, target, ahead, own=""):
        """own: the way of Oriel, as in the log."""
        base, way = self.best("limit", row, ways)
        nvshmem, _ = self.best("nvshmem", row)
        row_limit, row = row, row + own
        guess, tuned = self.f.median("oriel", row), self.f.median("tuned", row)
        mine, who = (tuned, "tuned") if tuned else (guess, "oriel")
        text_mine = f"{number(tuned)} (first guess {number(guess)})" if tuned else number(guess)
        ratio = mine / base if mine and base else None
        verdict, text = "reported", ""
        if isinstance(target, tuple):
            verdict, text = judge(mine, target[1], True), f"<= {target[1]:.0f} us"
        elif target is not None:
            verdict, text = judge(ratio, target, True), f"<= {target:.2f} x"
        if row.startswith("exchange") and guess and not tuned:
            verdict = "not tuned"
        if verdict == "PASS" and ahead and nvshmem and mine >= nvshmem:
            verdict = "MISS: behind NVSHMEM"
        span = self.f.span("limit", f"{row_limit}/{way}" if way else row_limit)
        self.add(label, f"{number(base)} ({way}; {span})" if base else "-", text_mine,
                 self.f.span(who, row), nvshmem, ratio, text, verdict)

    def build(self):
        for row, ways, target, ahead in GATHER:
            self.row(f"all-gather, 8 ranks, {SIZES[row.split('_')[1]]}", row, ways, target, ahead)
        self.row("all-gather, 8 ranks, 16 MiB, fastest", "gather8_16m", KERNELS, 1.05, True,
                 "/fastest")
        for row, target in EXCHANGE:
            ranks, size = row[len("exchange")], SIZES[row.split("_")[1]]
            self.row(f"all-to-all-v, {ranks} ranks, {size} a peer", row, None, target, False)
        for row, target in SKEWED:
            self.row("all-to-all-v, 8 ranks, rank 0 gets half of all: "
                     f"{SIZES[row.split('_')[1]]} from each", row, None, target, False)
        for call, row, target in WHOLE:
            size = SIZES[row.split("_")[1]]
            self.row(f"{call}, 8 ranks, {size} in windows", row, None, target, True)
            self.row(f"{call}, 8 ranks, {size} in other memory", row, None, None, False, "/plain")
        self.beside()

    def beside(self):
        """A table of what a kernel loses beside all-gathers, in time and in cycles of its SM.

        If time is lost but no cycles, the clock is slower; else other work is on the SM.
        """
        lost = self.f.median("oriel", "lost_registers")
        copies = self.f.median("oriel", "lost_registers_copies")
        verdict = "not measured" if lost is None else "PASS" if lost < LOST_PERCENT else "MISS"
        if verdict == "MISS" and copies and copies >= LOST_PERCENT:
            verdict = "MISS, as the limit does"
        if verdict != "PASS":
            self.bad.append("a register-only kernel beside all-gathers")
        self.lost = [
            "| 8 ranks | slower by, percent | min .. max | in cycles of its SM | target | |",
            "|---|---|---|---|---|---|"]
        for label, row, target, result in (
                ("a register-only kernel beside all-gathers of 16 MiB",
                 "lost_registers", f"< {LOST_PERCENT:.0f}", verdict),
                ("beside as many bytes copied without Oriel (the limit)",
                 "lost_registers_copies", "", ""),
                ("a memory-bound kernel beside all-gathers of 16 MiB",
                 "lost_memory", "", "reported")):
            self.lost.append(f"| {label} | {percent(self.f.median('oriel', row))} | "
                             f"{self.f.span('oriel', row)} | "
                             f"{percent(self.f.median('oriel', row + '_cycles'))} | "
                             f"{target} | {result} |")

    def inbox(self):
        """A table of small messages sent in both ways.

        By default a small message carries its own arrival mark.  A large one is data and a signal.
        """
        out = [
            "| all-to-all-v of 1 KiB a peer | own mark, us | signal after data, us | min .. max |",
            "|---|---|---|---|"]
        for ranks in (8, 2):
            row = f"exchange{ranks}_1k"
            out.append(f"| {ranks} ranks | {number(self.f.median('oriel', row))} | "
                       f"{number(self.f.median('handshake', row))} | "
                       f"{self.f.span('handshake', row)} |")
        return out

    def ways(self):
        """A table of all ways of the limit."""
        rows = [row for row, *_ in GATHER + EXCHANGE + SKEWED]
        rows += [row for _, row, _ in WHOLE]
        out = ["| row | ways, us |", "|---|---|"]
        for row in rows:
            found = sorted((self.f.median(*key), key[1].partition("/")[2]) for key in self.f.values
                           if key[0] == "limit" and key[1].partition("/")[0] == row)
            texts = ", ".join(f"{way} {number(value)}" for value, way in found)
            out.append(f"| {row} | {texts} |")
        return out


def percent(value):
    return "-" if value is None else f"{value:.2f}"


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    figures = Figures(sys.argv[1])
    table = Table(figures)
    table.build()
    out = figures.head and ["```", *figures.head, "```", ""]
    out += ["Microseconds of one call, medians; smallest and largest beside them. "
            "Ratios are Oriel's to the limit's of the same run.", "",
            "| row | limit | Oriel | min .. max | NVSHMEM | ratio | target | |",
            "|---|---|---|---|---|---|---|---|"]
    out += table.lines + [""] + table.lost + [""] + table.inbox()
    out += ["", "The limit's ways:", ""] + table.ways() + [""]
    out.append(f"{len(table.bad)} missed or not measured: " + "; ".join(table.bad)
               if table.bad else "All targets met.")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())
