# SPDX-License-Identifier: BSD-3-Clause
"""abi.py [--grow] KEPT NOW - compares two lists of struct sizes and member offsets.

A line is "struct size" or "struct.member offset".  Exit status 1: NOW breaks programs that were
compiled for KEPT, or, without --grow, it differs at all.
"""
from __future__ import annotations

import sys
from pathlib import Path


def read(path: str) -> dict[str, int]:
    """The numbers of a list, by name."""
    rows = (line.split() for line in Path(path).read_text(encoding="utf-8").splitlines())
    return {name: int(number) for name, number in rows}


def may_grow(name: str, kept: dict[str, int]) -> bool:
    """Whether `name` is a struct that tells the library its own size."""
    return kept.get(f"{name}.size") == 0


def breaks(kept: dict[str, int], now: dict[str, int]) -> list[str]:
    """What would go wrong in a program that was compiled for `kept`."""
    out = []
    for name, number in kept.items():
        new = now.get(name)
        if new is None:
            out.append(f"{name} is gone")
        elif "." in name and new != number:
            out.append(f"{name} was at offset {number} and is at {new} now")
        elif "." not in name and new != number and not (may_grow(name, kept) and new > number):
            out.append(f"{name} had {number} bytes and has {new} now")
    return out


def main(words: list[str]) -> int:
    """Prints the differences."""
    grow = "--grow" in words
    kept, now = (read(path) for path in words if path != "--grow")
    bad = breaks(kept, now)
    for text in bad:
        print(f"this breaks compiled programs: {text}")
    new = [name for name in now if kept.get(name) != now[name]]
    if new and not bad and not grow:
        print(f"new or grown: {', '.join(new)}")
        print("keep it: tests/compile/abi_test.sh include tests/compile/structs.txt --update")
    return 1 if bad or (new and not grow) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
