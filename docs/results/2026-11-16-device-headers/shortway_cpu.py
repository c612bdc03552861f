#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# shortway_cpu.py OBJECT - as shortway.py, for x86-64: the fewest instructions of a put by one thread from entry to
# ret that copy, publish, and call none of the functions below.
import heapq
import re
import subprocess
import sys

ADD = r"\block\b"
MUST = {
    "put": ["memcpy"],
    "put_signal": ["memcpy", ADD],
    "put_signal_set": ["memcpy", r"mov +%r\w+,\(%r"],
    "put_signal_thread": ["memcpy", ADD],
    "put_counter": ["memcpy", ADD],
    "put_signal_counter": ["memcpy", ADD, ADD],
}
AVOID = r"call.*(ori_check|ori_put_|oriel_cpu_group|refuse|decode|cpu_wake|in_turn|is_queued)"


def functions(path):
    command = ["objdump", "-dr", "--no-show-raw-insn", path]
    code, found = None, {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        start = re.match(r"[0-9a-f]+ <(\S+)>:$", line)
        instruction = re.match(r" +([0-9a-f]+):\t(.*)", line)
        symbol = re.match(r"\s+[0-9a-f]+: R_\S+\s+(\S+)", line)
        if start:
            code = found.setdefault(start[1], [])
        elif instruction:
            code.append([int(instruction[1], 16), instruction[2].strip()])
        elif symbol and code:
            code[-1][1] += " ; " + symbol[1]
    return found


def shortest(code, must):
    at = {address: i for i, (address, _) in enumerate(code)}
    best, heap = {}, [(0, 0, 0)]
    while heap:
        cost, i, stage = heapq.heappop(heap)
        if i >= len(code) or best.get((i, stage), 1 << 30) <= cost:
            continue
        best[i, stage] = cost
        text = code[i][1]
        if stage < len(must) and re.search(must[stage], text):
            stage += 1
        if text.startswith("ret"):
            if stage == len(must):
                return cost + 1
            continue
        if re.search(AVOID, text):
            continue
        jump = re.match(r"j(\w+)\s+([0-9a-f]+)", text)
        if jump and int(jump[2], 16) in at:
            heapq.heappush(heap, (cost + 1, at[int(jump[2], 16)], stage))
        if not jump or jump[1] != "mp":
            heapq.heappush(heap, (cost + ("nop" not in text), i + 1, stage))
    return None


bodies = functions(sys.argv[1])
for kernel in sorted(MUST):
    print(kernel, shortest(bodies[kernel + "_entry"], MUST[kernel]))
