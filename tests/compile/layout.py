# SPDX-License-Identifier: BSD-3-Clause
"""layout.py INCLUDE - reads every struct of the public headers and writes a C program.

The program prints the size of each struct and the offset of each member as static_assert lines.
The headers are read instead of a list of members, so that a new member cannot be missed.  The
parser relies on the style of these headers: a struct opens and closes at the left margin, and each
member ends in ';'.
"""
import pathlib
import re
import sys


def members(body):
    # A nested struct or union counts as one member.  An anonymous one has no offset to ask for.
    while "{" in body:
        body = re.sub(r"\b(struct|union)\s*\{[^{}]*\}\s*(\w*)",
                      lambda m: "int " + m[2] if m[2] else "", body)
    for declaration in body.split(";"):
        declaration = " ".join(declaration.split())
        if not declaration:
            continue
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        if pointer:
            yield pointer.group(1)
            continue
        for part in declaration.split(","):
            yield re.search(r"(\w+)(\[[^]]*\])*$", part.strip()).group(1)


def without_gpu(text):
    """Drops the text from #if ORIEL_ON_GPU to its #else or #endif: no struct there is shared."""
    kept, depth, gone = [], 0, 0
    for line in text.splitlines(keepends=True):
        word = line.split()[:2]
        if word and word[0] in ("#if", "#ifdef", "#ifndef"):
            depth += 1
            if word == ["#if", "ORIEL_ON_GPU"] and not gone:
                gone = depth
        elif word and word[0] in ("#else", "#elif") and gone == depth:
            gone = 0
        elif word and word[0] == "#endif":
            if gone == depth:
                gone = 0
            depth -= 1
        if not gone:
            kept.append(line)
    return "".join(kept)


# Their layout differs between compilers, and no other translation unit sees one.
LOCAL = {"ori_reducer", "ori_coll_v", "oriel_coll_line"}


def structs(text):
    text = without_gpu(text)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for found in re.finditer(r"^struct (\w+) \{\n(.*?)^\};", text, flags=re.S | re.M):
        if found.group(1) not in LOCAL:
            yield found.group(1), list(members(found.group(2)))


def main():
    include = pathlib.Path(sys.argv[1])
    names = {}
    for header in sorted(include.glob("oriel/**/*.h")):
        names.update(structs(header.read_text()))
    if "oriel_window_dev" not in names:
        sys.exit("layout.py: struct oriel_window_dev not found: the headers look different now")
    for header in ("stddef.h", "stdio.h", "oriel/oriel.h", "oriel/device.h", "oriel/coll.h",
                   "oriel/device/coll.h"):
        print(f"#include <{header}>")
    print("int main(void)\n{")
    for name, fields in names.items():
        print(f'\tprintf("static_assert(sizeof(struct {name}) == %zu, \\"{name}\\");\\n", '
              f"sizeof(struct {name}));")
        for field in fields:
            print(f'\tprintf("static_assert(offsetof(struct {name}, {field}) == %zu, '
                  f'\\"{name}.{field}\\");\\n", offsetof(struct {name}, {field}));')
    print("\treturn 0;\n}")


main()
