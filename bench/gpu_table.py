#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns the raw log of bench/gpu.sh into a table with targets.

Usage: gpu_table.py LOG TABLE.md
A line of the log is "# text" or "repetition who row value unit".  A row of the limit may be
"row/way"; then the best way counts.
Exit status: 0 all targets met; 1 a target missed or not measured.
"""
import statistics
import sys

# label, row, target (the ratio of Oriel to the limit), and whether it is a time (else a rate); the
# limit of a row "x_path" is that of "x"
LIMIT = [
    ("put_signal 8 B, one thread", "thread8", 1.10, True),
    ("put_signal 8 B, block of 512", "block8", 1.05, True),
    ("put_signal 64 KiB, block of 512", "block64k", 1.05, True),
    ("put_signal 1 MiB, block of 512", "block1m", 1.05, True),
    ("put_signal on a path, 8 B, one thread", "thread8_path", 1.10, True),
    ("put_signal on a path, 8 B, block of 512", "block8_path", 1.10, True),
    ("put_signal on a path, 64 KiB, block of 512", "block64k_path", 1.08, True),
    ("put_signal on a path, 1 MiB, block of 512", "block1m_path", 1.05, True),
    ("packet 8 B, block of 32", "packet8", 1.25, True),
    ("packet 1 KiB, block of 128", "packet1k", 1.20, True),
    ("packet 4 KiB, block of 512", "packet4k", 1.15, True),
    ("packet 16 KiB, block of 512", "packet16k", 1.15, True),
    ("put, 1 block", "bw1", 0.95, False),
    ("put, 4 blocks", "bw4", 0.95, False),
    ("put, 16 blocks", "bw16", 0.95, False),
    ("put, 32 blocks", "bw32", 0.95, False),
    ("put, 64 blocks", "bw64", 0.95, False),
    ("sync, 2 ranks", "sync2", 1.25, True),
    ("sync, 8 ranks", "sync8", 1.25, True),
    ("barrier, 2 ranks", "barrier2", 1.25, True),
    ("barrier, 8 ranks", "barrier8", 1.25, True),
]
BLOCKS = (1, 16, 64)
SKEWS = (("src1", "source off by 1"), ("dst1", "destination off by 1"),
         ("src4", "source off by 4"), ("dst4", "destination off by 4"))
# compiled with ORIEL_TRACE_DEVICE, without and with a trace, beside code that cannot write one
TRACES = (("can_trace", "put_signal 64 KiB in code that can write traces", 1.03),
          ("traces", "put_signal 64 KiB while a trace is written", 1.03))
ABSOLUTE = [("soft NIC put_signal 8 B", "soft8", 16.0),
            ("soft NIC put_signal 1 MiB", "soft1m", 20.0)]


class Figures:
    """All values of a log, by (who, row)."""

    def __init__(self, path):
        self.values = {}
        self.head = []
        for line in open(path, encoding="utf-8"):
            words = line.split()
            if line.startswith("#"):
                self.head.append(line[1:].strip())
            elif len(words) == 5:
                self.values.setdefault((words[1], words[2]), []).append(float(words[3]))

    def median(self, who, row):
        got = self.values.get((who, row))
        return statistics.median(got) if got else None

    def best(self, who, row, is_time):
        """Median of the best way, and its name."""
        ways = [(self.median(*key), key[1].partition("/")[2]) for key in self.values
                if key[0] == who and key[1].partition("/")[0] == row]
        if not ways:
            return None, ""
        return min(ways) if is_time else max(ways)

    def span(self, who, row):
        got = self.values.get((who, row), [])
        return f"{number(min(got))} .. {number(max(got))}" if got else ""


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def judge(ratio, target, is_time):
    if ratio is None:
        return "not measured"
    return "PASS" if (ratio <= target if is_time else ratio >= target) else "MISS"


class Table:
    def __init__(self, figures):
        self.figures = figures
        self.lines = []
        self.bad = []

    def row(self, label, row, base, base_text, target, is_time, nvshmem=None, who="oriel"):
        f = self.figures
        mine = f.median(who, row)
        ratio = mine / base if mine and base else None
        verdict = judge(ratio, target, is_time)
        if verdict == "PASS" and nvshmem and not (mine < nvshmem if is_time else mine > nvshmem):
            verdict = "MISS: behind NVSHMEM"
        if verdict != "PASS":
            self.bad.append(label)
        unit = "us" if is_time else "GB/s"
        span, ratio_text = (f.span(who, row), f"{ratio:.2f} x") if ratio else ("", "-")
        self.lines.append(f"| {label} | {unit} | {base_text} | {number(mine)} | {span} | "
                          f"{number(nvshmem)} | {ratio_text} | "
                          f"{'<=' if is_time else '>='} {target:.2f} x | {verdict} |")

    def build(self):
        f = self.figures
        for label, row, target, is_time in LIMIT:
            plain = row.replace("barrier", "sync").removesuffix("_path")
            base, way = f.best("limit", plain, is_time)
            text = number(base) + (f" ({way})" if way else "")
            nvshmem = f.median("nvshmem", row.removesuffix("_path"))
            self.row(label, row, base, text, target, is_time, nvshmem)
            if row.endswith("_path"):
                base, way = f.best("limit", plain + "_same", is_time)
                text = number(base) + (f" ({way})" if way else "")
                self.row(f"{label}; the limit looks at failure words and tells a verdict", row,
                         base, text, target, is_time)
        for blocks in BLOCKS:
            aligned = f.median("oriel", f"bw{blocks}")
            for suffix, words in SKEWS:
                self.row(f"put, {blocks} block{'s' if blocks > 1 else ''}, {words}",
                         f"bw{blocks}_{suffix}", aligned, f"{number(aligned)} (Oriel aligned)",
                         0.5, False)
        for who, label, target in TRACES:
            self.row(label, "block64k", f.median("oriel", "block64k"),
                     f"{number(f.median('oriel', 'block64k'))} (without)", target, True, who=who)
        one = f.median("oriel", "from_one")
        self.row("ping-pong, wait_signal over 8 sources", "sum_of_all", one,
                 f"{number(one)} (wait_signal_from)", 1.3, True)
        for label, row, most in ABSOLUTE:
            mine = f.median("oriel", row)
            verdict = judge(mine, most, True)
            if verdict != "PASS":
                self.bad.append(label)
            self.lines.append(f"| {label} | us | at most {most:.0f} | {number(mine)} | "
                              f"{f.span('oriel', row)} | - | - | <= {most:.0f} us | {verdict} |")

    def ways(self):
        """A table of all ways of copying, with both unroll factors of the library."""
        rows = ["block64k", "block1m"] + [f"bw{n}" for n in (1, 4, 16, 32, 64)]
        keys = sorted({k[1].partition("/")[2] for k in self.figures.values if "/" in k[1]})
        out = ["| row | " + " | ".join(keys) + " | Oriel, unroll 8 | Oriel, unroll 16 |",
               "|---" * (len(keys) + 3) + "|"]
        for row in rows:
            cells = [number(self.figures.median("limit", f"{row}/{key}")) for key in keys]
            cells += [number(self.figures.median(who, row)) for who in ("oriel", "oriel16")]
            out.append(f"| {row} | " + " | ".join(cells) + " |")
        return out


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    figures = Figures(sys.argv[1])
    table = Table(figures)
    table.build()
    out = figures.head and ["```", *figures.head, "```", ""]
    out += ["Medians; smallest and largest beside Oriel's. "
            "Ratios are Oriel's to the limit's of the same run.", "",
            "| row | unit | limit | Oriel | min .. max | NVSHMEM | ratio | target | |",
            "|---|---|---|---|---|---|---|---|---|"]
    out += table.lines
    out += ["", "Ways of copying (us, GB/s):", ""] + table.ways() + [""]
    out.append(f"{len(table.bad)} missed or not measured: " + "; ".join(table.bad)
               if table.bad else "All targets met.")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())
