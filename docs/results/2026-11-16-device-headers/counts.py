#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# counts.py CUBIN OBJECT - instructions of each kernel of probe.c, one line each:
#	name, GPU inlined, GPU with all functions it calls, CPU inlined, CPU called functions in all
# The GPU's numbers are sizes of symbols (an instruction has 16 bytes), the CPU's are counted by objdump.
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def gpu(cubin):
    whole, first = {}, {}
    for line in run("readelf", "-sW", cubin).splitlines():
        f = line.split()
        if "FUNC" not in f:
            continue
        name, value, size = f[-1], int(f[1], 16), int(f[2])
        kernel = re.match(r"\$?_Z\d+(\w+?)_gpu", name)
        if not kernel:
            continue
        if name.startswith("$"):
            first[kernel[1]] = min(first.get(kernel[1], 1 << 60), value)
        else:
            whole[kernel[1]] = size
    return {k: (min(first.get(k, whole[k]), whole[k]) // 16, whole[k] // 16) for k in whole}


def cpu(path):
    counts, name = {}, None
    for line in run("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        start = re.match(r"[0-9a-f]+ <(\S+)>:$", line)
        if start:
            name = start[1]
        elif re.match(r" +[0-9a-f]+:\t", line) and "\tnop" not in line:
            counts[name] = counts.get(name, 0) + 1
    return counts


def main():
    on_gpu, on_cpu = gpu(sys.argv[1]), cpu(sys.argv[2])
    called = sum(n for k, n in on_cpu.items() if not re.search(r"_(entry|body)$", k))
    for k in sorted(on_gpu):
        mine = on_cpu.get(k + "_body", 0) + on_cpu.get(k + "_entry", 0)
        print(k, *on_gpu[k], mine)
    print("called", 0, 0, called)


main()
