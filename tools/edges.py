#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/edges.py - do the labels of ordered accesses and docs/memory-model.md tell the same?

docs/memory-model.md says how labels are written.  Checked, over src/, include/ and frontends/:

  code   an ordered access has a label or a reason in a comment near it; a label has a module's
         prefix and one meaning (one order, one folder), and names a partner; every label that is
         mentioned is defined
  table  every label has one row and every row a label; file and function of a row are those of the
         definition; partners exist and name each other

Rows are read from docs/memory-model.md and from docs/memory-model/*.md where that folder exists.
Prints one line for each finding, with file and line.  Exits 1 if there is one.
"""
import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRIMITIVES = ("include/oriel/device/access.h", "include/oriel/device/access_words.h")
NEAR = 8  # lines between a comment and its access

ANY = r"[A-Z][A-Z0-9_]*\d"  # also one without a module's prefix
GOOD = r"[A-Z][A-Z0-9_]*[A-Z_]\d+"
LABEL = re.compile(rf"(?<![\w\]])\[({ANY})\]")
ORDER = r"(?:acquire|release|acq_rel|seq_cst)"
DEFINITION = re.compile(rf"\s*(?:/?\*+\s*|//\s*)?\[({ANY})\]\s+({ORDER})")
REASON = re.compile(ORDER + r"|partner")
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
BUILTIN = r"__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST|CONSUME)|memory_order_(?!relaxed)\w+"
FENCE = r"__sync_\w+|__atomic_thread_fence"


def primitives():
    """Names of the ordered primitives; of a poll in two halves the second one."""
    text = "".join((ROOT / name).read_text() for name in PRIMITIVES)
    names = set(re.findall(r"^ORIEL_DEV [\w ]+?\**(ori_\w+)\(", text, re.M))
    names |= set(re.findall(r"^ORI_WORD_ATOMIC\((ori_\w+),", text, re.M))
    return {n for n in names if re.search(r"acquire|release|acq_rel|poll_end|fence_", n)
            and n != "ori_release_at"}


class Source:
    """One file: its text, its code without comments by line, its comments."""

    def __init__(self, path):
        text = path.read_text()
        self.name = str(path.relative_to(ROOT))
        self.comments = []  # (first line, last line, text)

        def blank(match):
            part = match.group(0)
            if part[0] == "/":
                first = text.count("\n", 0, match.start()) + 1
                self.comments.append((first, first + part.count("\n"), part))
            return "\n" * part.count("\n") if part[0] == "/" else '""'

        self.code = COMMENT.sub(blank, text).split("\n")
        self.text = text

    def near(self, line):
        """The text of the comments that may speak for an access in that line."""
        return " ".join(text for first, last, text in self.comments
                        if last >= line - NEAR and first <= line)

    def definitions(self):
        """(label, order, line, text to the next definition or the end of the comment)."""
        for first, _, text in self.comments:
            lines = text.split("\n")
            at = [n for n, line in enumerate(lines) if DEFINITION.match(line)]
            for n, end in zip(at, at[1:] + [len(lines)]):
                label, order = DEFINITION.match(lines[n]).groups()
                yield label, order, first + n, " ".join(lines[n:end])

    def mentions(self):
        """(label, line) of every label in a comment, also where it is defined."""
        for first, _, text in self.comments:
            for n, line in enumerate(text.split("\n")):
                for label in LABEL.findall(line):
                    yield label, first + n


def read_sources():
    bases = ("src", "include", "frontends")
    paths = [p for base in bases for p in sorted((ROOT / base).rglob("*"))]
    return [Source(p) for p in paths if p.suffix in (".c", ".h", ".cu")]


def check_accesses(sources):
    """Ordered accesses without label or reason."""
    ordered = re.compile(rf"\b(?:{BUILTIN}|{FENCE}|(?:{'|'.join(sorted(primitives()))})(?=\())")
    for source in sources:
        if source.name in PRIMITIVES:
            continue
        for number, line in enumerate(source.code, 1):
            near = ordered.search(line) and source.near(number)
            if near is not None and not LABEL.search(near) and not REASON.search(near):
                yield source.name, number, "ordered access without a label or a reason"


def read_labels(sources):
    """label -> its definitions: (source, line, order, text)."""
    defined = collections.defaultdict(list)
    for source in sources:
        for label, order, line, text in source.definitions():
            defined[label].append((source, line, order, text))
    return defined


def check_labels(sources, defined):
    """Labels of two meanings, without module or partner, or mentioned and not defined."""
    for label, places in sorted(defined.items()):
        source, line, order, _ = places[0]
        folder = pathlib.PurePath(source.name).parent
        for other, at, other_order, _ in places[1:]:
            if other_order != order or pathlib.PurePath(other.name).parent != folder:
                yield other.name, at, f"[{label}] is another access at {source.name}:{line}"
        if not re.fullmatch(GOOD, label):
            yield source.name, line, f"[{label}] has no module's prefix"
        if not any("partner" in place[3] for place in places):
            yield source.name, line, f"[{label}] names no partner"
    for source in sources:
        for label, line in source.mentions():
            if label not in defined:
                yield source.name, line, f"[{label}] is defined nowhere"


def read_rows():
    """label -> (file, line, columns) of the first row; and findings for the others."""
    rows, twice = {}, []
    documents = [ROOT / "docs/memory-model.md", *sorted((ROOT / "docs/memory-model").glob("*.md"))]
    for path in documents:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            columns = [c.strip() for c in line.strip().strip("|").split("|")]
            label = columns[0].strip("`[]")
            if not line.startswith("|") or not re.fullmatch(ANY, label):
                continue
            where = (str(path.relative_to(ROOT)), number)
            if len(columns) != 7:
                twice.append((*where, f"the row of {label} has {len(columns)} columns, not 7"))
            elif label in rows:
                first = rows[label]
                twice.append((*where, f"{label} has a row at {first[0]}:{first[1]} too"))
            else:
                rows[label] = (*where, columns)
    return rows, twice


def check_row(label, row, rows, defined):
    """One row against the code and against its partners' rows."""
    name, line, columns = row
    if label not in defined:
        yield name, line, f"{label} has a row and is not in the code"
        return
    sources = {place[0].name: place[0].text for place in defined[label]}
    for file, function in re.findall(r"([\w/.]+\.(?:c|h|cu))`?:\s*`?(\w+)", columns[2]):
        texts = [text for path, text in sources.items() if path.endswith("/" + file)]
        if not any(re.search(rf"\b{function}\b", text) for text in texts):
            yield name, line, f"{label} is not in {file}: {function}, but in {', '.join(sources)}"
    for partner in re.findall(rf"\b{GOOD}\b", columns[5]):
        if partner not in rows:
            yield name, line, f"{label}: its partner {partner} has no row"
        elif not re.search(rf"\b{label}\b|[a-z]{{4}}", rows[partner][2][5]):  # or in words
            yield name, line, f"{label}: the row of its partner {partner} does not name it"


def check_table(rows, defined):
    for label, places in sorted(defined.items()):
        if label not in rows:
            yield places[0][0].name, places[0][1], f"[{label}] has no row in docs/memory-model.md"
    for label, row in sorted(rows.items()):
        yield from check_row(label, row, rows, defined)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="findings for each folder, no lines")
    parser.add_argument("path", nargs="*", help="only findings of files below these paths")
    options = parser.parse_args()
    sources = read_sources()
    defined = read_labels(sources)
    found = [*check_accesses(sources), *check_labels(sources, defined)]
    rows, twice = read_rows()
    found += [*twice, *check_table(rows, defined)]
    if options.path:
        found = [f for f in found if f[0].startswith(tuple(options.path))]
    if options.count:
        folders = collections.Counter(str(pathlib.PurePath(f[0]).parent) for f in found)
        print(*(f"{n:5} {folder}" for folder, n in sorted(folders.items())), sep="\n")
    else:
        print(*(f"{name}:{line}: {what}" for name, line, what in sorted(found)), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
