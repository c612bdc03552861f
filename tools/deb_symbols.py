#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""deb_symbols.py MAP - prints debian/liboriel0.symbols, made from src/liboriel.map.

A node ORIEL_X.Y of the map holds the names that release X.Y.0 brought.  So a program that uses a
name needs a package of at least that version.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path


def lines(text: str) -> list[str]:
    """The lines of the symbols file."""
    out = ["liboriel.so.0 liboriel0 #MINVER#", "* Build-Depends-Package: liboriel-dev"]
    node = ""
    for line in text.splitlines():
        begins = re.match(r"^(ORIEL_([0-9]+\.[0-9]+)) \{", line)
        name = re.match(r"^\t(oriel_[a-z0-9_]+);$", line)
        if begins:
            node, version = begins[1], f"{begins[2]}.0"
            out.append(f" {node}@{node} {version}")
        elif name and node:
            out.append(f" {name[1]}@{node} {version}")
    if len(out) < 4:
        sys.exit("deb_symbols.py: no names in the map")
    return out


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("\n".join(lines(Path(sys.argv[1]).read_text(encoding="utf-8"))))
