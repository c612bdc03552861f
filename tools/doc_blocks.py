# SPDX-License-Identifier: BSD-3-Clause
"""Finds the fenced blocks of Markdown documents, with the HTML comment that stands before each.

doc-commands.py runs the commands of documents, and doc-quotes.py compares quotations with files.
Both use this module.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\s*$")
COMMENT = re.compile(r"^<!--\s*(.*?)\s*-->$")


@dataclass
class Block:
    """One fenced block: `kind` is the word after the fence, `note` the comment before it."""

    path: Path
    line: int
    kind: str
    note: str
    lines: list[str]

    @property
    def place(self) -> str:
        """Where the block begins, for messages."""
        return f"{self.path.name}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    """All fenced blocks of a document.  A note may be separated from its block by empty lines."""
    found: list[Block] = []
    current: Block | None = None
    note = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if current is not None:
            if fence:
                found.append(current)
                current = None
            else:
                current.lines.append(line)
        elif fence:
            current = Block(path, number, fence.group(1), note, [])
            note = ""
        elif line.strip():
            comment = COMMENT.match(line)
            note = comment.group(1) if comment else ""
    if current is not None:
        raise SystemExit(f"{current.place}: the block has no end")
    return found


def documents(source: Path) -> list[Path]:
    """The documents of users and of those who change Oriel."""
    top = [source / "README.md", source / "CONTRIBUTING.md", source / "examples" / "README.md"]
    return [path for path in top if path.is_file()] + sorted((source / "docs").glob("*.md"))
