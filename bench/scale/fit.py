#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fits a formula to the cost of a start, and says what it predicts for 100,000 ranks.

Usage: fit.py SCALE_TXT GNUPLOT_FILE

The formula of each figure of each mode is t(n) = a + b n + c n^2: least squares of the relative
error, no coefficient below 0.  The fastest repetition of a size counts.  The memory per rank, as a
function of the connected queued peers, is fitted in the same way.
Writes a gnuplot script that draws points and curves.
Exit status: 1 if 256 processes exceed their limits (20 s, 8 MiB per rank), also with up to 16
connected peers.
"""
import itertools
import math
import sys

FIGURES = {2: "boot", 3: "allgather of 1 KiB", 4: "classify", 5: "comm"}
PSS = 6
FAR = 100_000
FANOUT, HOST_RANKS = 8, 8  # of the tree; ranks per host in the estimate for FAR ranks


def read(path):
    """{(mode, column): {ranks: smallest}}"""
    best = {}
    for line in open(path):
        words = line.split()
        if not words or words[0] == "#" or len(words) != 7:
            continue
        for column in list(FIGURES) + [PSS]:
            if words[column] != "-":
                at = best.setdefault((words[0], column), {})
                n, value = int(words[1]), float(words[column])
                at[n] = min(at.get(n, value), value)
    return best


def read_peers(path):
    """{ranks: {connected: (comm and connect ms, KiB per rank)}}"""
    found = {}
    for line in open(path):
        words = line.split()
        if len(words) == 6 and words[0] == "peers":
            # "-": the time is too short for a digit
            ms = sum(float(w) for w in words[3:5] if w != "-")
            found.setdefault(int(words[1]), {})[int(words[2])] = (ms, float(words[5]))
    return found


def say_peers(found):
    """Prints memory per connected peer.  Returns 1 if 256 ranks with few peers exceed a limit."""
    bad = 0
    for ranks, points in found.items():
        c = fit({p: kib for p, (_, kib) in points.items()})
        far = max(points)
        print(f"{ranks} queued processes: {c[0]:.0f} KiB + {c[1]:.1f} KiB a connected peer a rank "
              f"({points[far][1] / 1024:.2f} MiB at {far}, in {say(points[far][0])})")
        for p, (ms, kib) in points.items():
            if ranks == 256 and p <= 16:
                good = ms < 20000 and kib < 8192
                bad |= not good
                print(f"256 queued processes, {p} peers connected: {say(ms)} (limit 20 s), "
                      f"{kib / 1024:.2f} MiB a rank (limit 8): {'PASS' if good else 'MISS'}")
    return bad


def solve(rows, rhs):
    """Gaussian elimination; None if the matrix is singular."""
    k = len(rhs)
    m = [list(row) + [r] for row, r in zip(rows, rhs)]
    for i in range(k):
        pivot = max(range(i, k), key=lambda r: abs(m[r][i]))
        if abs(m[pivot][i]) < 1e-30:
            return None
        m[i], m[pivot] = m[pivot], m[i]
        for r in range(k):
            if r != i:
                f = m[r][i] / m[i][i]
                m[r] = [x - f * y for x, y in zip(m[r], m[i])]
    return [m[i][k] / m[i][i] for i in range(k)]


def fit(points):
    """Coefficients (a, b, c), each 0 or more, with the smallest squared relative error."""
    best = None
    subsets = (itertools.combinations(range(3), k) for k in (1, 2, 3))
    for used in itertools.chain.from_iterable(subsets):
        if len(used) > len(points):
            continue
        basis = [[n ** p / t for p in used] for n, t in points.items()]
        terms = range(len(used))
        rows = [[sum(x[i] * x[j] for x in basis) for j in terms] for i in terms]
        found = solve(rows, [sum(x[i] for x in basis) for i in terms])
        if found is None or min(found) < 0:
            continue
        error = sum((sum(f * x for f, x in zip(found, row)) - 1) ** 2 for row in basis)
        # a term more must lower the error by 10 percent, or the simpler formula stays
        if best is None or error < best[0] * 0.9 - 1e-9:
            best = (error, [found[used.index(p)] if p in used else 0.0 for p in range(3)])
    return best[1] if best else [0.0, 0.0, 0.0]


def at(c, n):
    return c[0] + c[1] * n + c[2] * n * n


def say(ms):
    return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:.3g} s"


def gnuplot(path, curves):
    with open(path, "w") as out:
        out.write('set terminal svg size 900,560 font "sans,12"\nset output "scale.svg"\n')
        out.write('set logscale xy\nset xlabel "ranks"\nset ylabel "ms"\n')
        out.write("set key left top\nset grid\n")
        out.write(f"set xrange [8:{2 * FAR}]\n")
        plots = []
        for i, (name, points, c) in enumerate(curves):
            data = "".join(f"{n} {t}\n" for n, t in sorted(points.items()))
            out.write(f"$d{i} << EOD\n{data}EOD\n")
            plots.append(f'$d{i} with points pt 7 lc {i + 1} title "{name}"')
            plots.append(f"{c[0]:.6g}+{c[1]:.6g}*x+{c[2]:.6g}*x*x with lines lc {i + 1} notitle")
        out.write("plot " + ", \\\n     ".join(plots) + "\n")


def main():
    best = read(sys.argv[1])
    curves, bad = [], 0
    print(f"{'figure':32} {'formula (ms)':44} {'measured':>30} {'at 100,000':>12}")
    for (mode, column), points in best.items():
        if column == PSS:
            continue
        c = fit(points)
        terms = [f"{x:.3g}{power}" for x, power in zip(c, ("", " n", " n^2")) if x > 0]
        name = f"{mode}: {FIGURES[column]}"
        largest = max(points)
        measured = f"{say(points[largest])} at {largest}"
        print(f"{name:32} {' + '.join(terms):44} {measured:>30} {say(at(c, FAR)):>12}")
        curves.append((name, points, c))
    tcp = best.get(("tcp", 3))
    if tcp:
        # Measured is one machine: it moves n results of n records, which costs c n^2.  Between
        # hosts a link carries one result at a time, which costs c n.  A host sends it to FANOUT
        # others, once per level of the tree.  The hub receives n records.
        c = fit(tcp)
        hosts = FAR // HOST_RANKS
        levels = math.ceil(math.log(hosts, FANOUT)) + math.ceil(math.log(HOST_RANKS, FANOUT))
        tree = c[1] * FAR + levels * FANOUT * c[2] * FAR
        print(f"derived, not measured: {FAR} ranks on {hosts} hosts, down the tree: "
              f"{c[1]:.3g} n + {levels} levels x {FANOUT} x {c[2]:.3g} n = {say(tree)} "
              f"an allgather of 1 KiB (from the hub alone {say(at(c, FAR))})")
    comm = best.get(("processes", 5), {}).get(256)
    pss = best.get(("processes", PSS), {}).get(256)
    if comm is not None and pss is not None:
        good = comm < 20000 and pss < 8192
        bad = not good
        print(f"256 processes: comm in {say(comm)} (limit 20 s), "
              f"{pss / 1024:.2f} MiB a rank (limit 8): {'PASS' if good else 'MISS'}")
    bad |= say_peers(read_peers(sys.argv[1]))
    gnuplot(sys.argv[2], curves)
    return bad


sys.exit(main())
