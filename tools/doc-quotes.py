#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the quotations of the documents with the files that they quote.

    tools/doc-quotes.py [DOCUMENT ...]

A quotation is a fenced block after the comment <!-- from PATH -->; PATH begins at the root of the
tree.  A line with only `...` divides it into pieces.  Each piece must be a sequence of whole lines
of the file, in the order of the file; indentation does not count.  Exit status: 1 if one is not.
"""

import re
import sys
from pathlib import Path

from doc_blocks import Block, blocks_of, documents

SOURCE = Path(__file__).resolve().parent.parent


def pieces_of(block: Block) -> list[list[str]]:
    """The pieces of a quotation, without indentation."""
    pieces: list[list[str]] = [[]]
    for line in (line.strip() for line in block.lines):
        if line == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    return [piece for piece in pieces if any(piece)]


def place_of(piece: list[str], lines: list[str], start: int) -> int:
    """The line behind the first occurrence of the piece from `start` on, or -1."""
    for first in range(start, len(lines) - len(piece) + 1):
        if lines[first : first + len(piece)] == piece:
            return first + len(piece)
    return -1


def faults_of(block: Block) -> list[str]:
    """What is wrong with a quotation."""
    path = SOURCE / re.sub(r"^from\s+", "", block.note)
    if not path.is_file():
        return [f"{block.place}: {path.relative_to(SOURCE)} does not exist"]
    lines = [line.strip() for line in path.read_text().splitlines()]
    behind = 0
    for piece in pieces_of(block):
        behind = place_of(piece, lines, behind)
        if behind < 0:
            return [f"{block.place}: not in {path.name}, or not in this order: {piece[0]}"]
    return []


def main() -> int:
    """The program."""
    paths = [Path(name).resolve() for name in sys.argv[1:]] or documents(SOURCE)
    quotations = [b for path in paths for b in blocks_of(path) if b.note.startswith("from ")]
    faults = [fault for block in quotations for fault in faults_of(block)]
    for fault in faults:
        print(fault)
    print(f"{len(quotations)} quotations, {len(faults)} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
