#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/links.py FILE... - do the links of Markdown documents lead somewhere?

A relative link or image must name a file or folder that exists, inside this tree.  A part after #
must be a heading of the document that it names, written as GitHub writes anchors.
Addresses of the web are not followed.  Code is left out.
Prints one line for each bad link.  Exits 1 if there is one.
"""

import os
import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

SOURCE = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\)")
BROKEN = re.compile(r"\]\([^)\s]*$")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?([^\s>]+)")
TARGET = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def text_of(path: Path) -> list[tuple[int, str]]:
    """The numbered lines of a document, without fenced blocks and without code inside lines."""
    fence = ""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence):
            fence = ""
        elif not fence:
            found.append((number, re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", _keep_words, line)))
    return found


def _keep_words(code: re.Match[str]) -> str:
    """Code inside a line: a heading needs its words, and a link in it is none."""
    return code.group(0).replace("](", "] (")


def anchor(heading: str) -> str:
    """The anchor of a heading: its letters, digits, hyphens and underscores in small letters."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    plain = re.sub(r"[^\w\- ]", "", plain.replace("*", ""))
    return plain.strip().lower().replace(" ", "-")


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """All anchors of a document; the second heading with the same words gets -1, and so on."""
    found: set[str] = set()
    times: dict[str, int] = {}
    for _, line in text_of(path):
        found.update(TARGET.findall(line))
        heading = re.match(r"#{1,6}\s+(.*?)(?:\s+#+)?\s*$", line)
        if heading:
            name = anchor(heading.group(1))
            found.add(f"{name}-{times[name]}" if name in times else name)
            times[name] = times.get(name, 0) + 1
    return frozenset(found)


def fault_of(path: Path, link: str) -> str:
    """What is wrong with a link of a document; empty if nothing is."""
    name, _, part = unquote(link).partition("#")
    target = (path.parent / name).resolve() if name else path.resolve()
    if not target.exists():
        return f"link to {link}: {name} does not exist"
    if not target.is_relative_to(SOURCE) and path.resolve().is_relative_to(SOURCE):
        return f"link to {link}: it leads out of this tree"
    if part and target.suffix == ".md" and part not in anchors_of(target):
        return f"link to {link}: no heading gives #{part}"
    return ""


def faults_of(path: Path) -> list[str]:
    """One line per bad link of a document."""
    found = []
    for number, line in text_of(path):
        if BROKEN.search(line):
            found.append(f"{os.path.relpath(path)}:{number}: a link is broken over two lines")
        for link in LINK.findall(line) + REFERENCE.findall(line):
            fault = "" if ELSEWHERE.match(link) else fault_of(path, link)
            if fault:
                found.append(f"{os.path.relpath(path)}:{number}: {fault}")
    return found


def main() -> int:
    """The program."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    faults = [fault for name in sys.argv[1:] for fault in faults_of(Path(name))]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
