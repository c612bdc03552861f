#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# shortway.py SASS - for kernels of probe.c: the fewest instructions from entry to EXIT that call nothing and pass
# the accesses a small put, a signal, a wait or a barrier must make, in order.  SASS is the output of cuobjdump -sass.
import heapq
import re
import sys

BAR, LDS, STS = r"BAR\.", r"LDG\.E\.64\.STRONG\.SYS", r"(STG|REDG|ST|RED)\.E.*STRONG\.SYS"
MOVE = [r"LDG\.E\.64 ", r"STG\.E\.64 "]
MUST = {
    "put": MOVE + [BAR],
    "put_signal": MOVE + [BAR, r"MEMBAR", STS],
    "put_signal_set": MOVE + [BAR, r"MEMBAR", STS],
    "put_signal_thread": MOVE + [r"MEMBAR", STS],
    "put_counter": MOVE + [BAR, r"MEMBAR", STS],
    "put_signal_counter": MOVE + [BAR, r"MEMBAR", STS, r"MEMBAR", STS],
    "signal_add": [LDS, BAR, r"MEMBAR", STS],
    "wait_signal_from": [LDS, BAR],
    "wait_signal": [LDS, BAR],
    "barrier_arrive_wait": [LDS, BAR, r"MEMBAR", STS, LDS, BAR],
    "barrier": [LDS, BAR, r"MEMBAR", STS, LDS, BAR],
    "barrier_peer": [LDS, BAR, r"MEMBAR", STS, LDS, BAR],
}


def kernels(path):
    name, code = None, []
    for line in open(path):
        start = re.search(r"Function : _Z\d+(\w+?)_gpu", line)
        if start or "Function :" in line:
            if name:
                yield name, code
            name, code = start and start[1], []
        found = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*/\*", line)
        if found:
            code.append((int(found[1], 16), found[2].rstrip("; ")))
    if name:
        yield name, code


def ways(code, i, joins):
    text = code[i][1]
    plain = re.sub(r"^@!?U?P\d+ ", "", text)
    target = re.search(r"0x([0-9a-f]+)$", plain)
    if plain.startswith("EXIT") and plain == text:
        return []
    if plain.startswith(("CALL", "RET")):
        return [i + 1] if plain != text else []
    if plain.startswith("BRA"):
        there = int(target[1], 16) // 16
        return [there] if text == "BRA " + target[0] else [there, i + 1]
    if plain.startswith("BSYNC"):
        return [joins[i]]
    return [i + 1]


def shortest(code, must):
    joins, open_at = {}, {}
    for i, (_, text) in enumerate(code):
        found = re.search(r"BSSY (\S+), 0x([0-9a-f]+)", text)
        if found:
            open_at[found[1]] = int(found[2], 16) // 16
        found = re.search(r"BSYNC (\S+)", text)
        if found:
            joins[i] = open_at.get(found[1], i + 1)
    best, heap = {}, [(0, 0, 0)]
    while heap:
        cost, i, stage = heapq.heappop(heap)
        if i >= len(code) or best.get((i, stage), 1 << 30) <= cost:
            continue
        best[i, stage] = cost
        if stage < len(must) and re.search(must[stage], code[i][1]):
            stage += 1
        if re.search(r"\bEXIT$", code[i][1]) and stage == len(must):
            return cost + 1
        for j in ways(code, i, joins):
            heapq.heappush(heap, (cost + 1, j, stage))
    return None


for kernel, body in sorted(kernels(sys.argv[1])):
    if kernel in MUST:
        print(kernel, shortest(body, MUST[kernel]))
