#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/columns.py FILE... - are lines short enough to read?

Code and scripts have at most 100 columns, comments included; a tab reaches the next multiple of 8.
Documents (*.md) have at most 120.  Excepted there are tables, code blocks, links, and the folder
docs/results/, which holds logs.  A line of code is excepted if it ends in a string that cannot be
split, as a search for a message would not find its halves.
Prints one line for each line that is longer.  Exits 1 if there is one.
"""
import argparse
import collections
import pathlib
import re
import sys

CODE, DOCUMENT = 100, 120
MESSAGE = re.compile(r'^\s*"[^"]*"[),;:]*$')


def long_code(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        columns = len(line.expandtabs(8))
        if columns > CODE and not MESSAGE.match(line):
            yield number, columns, CODE


def long_document(path):
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        words = max(map(len, line.split()), default=0)
        if fenced or line.lstrip().startswith("|") or len(line) <= DOCUMENT:
            continue
        # a link cannot be broken: the rest of its line counts alone
        if re.search(r"\]\([^)]*\)|https?://", line) and len(line) - words <= DOCUMENT:
            continue
        yield number, len(line), DOCUMENT


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="long lines of each folder, no list")
    parser.add_argument("file", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    found = []
    for path in options.file:
        if str(path).startswith("docs/results/"):
            continue
        check = long_document if path.suffix == ".md" else long_code
        found += [(path, *line) for line in check(path)]
    if options.count:
        folders = collections.Counter(str(f[0].parent) for f in found)
        print(*(f"{n:5} {folder}" for folder, n in sorted(folders.items())), sep="\n")
    else:
        for path, number, columns, most in found:
            print(f"{path}:{number}: {columns} columns; {most} are the most")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
