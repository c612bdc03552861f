#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports which lines of the library ran in a build of the preset coverage.

    tools/coverage.py BUILD [--functions]

Prints a table: lines, lines that ran and their share, per folder of src/.  With --functions it also
lists the functions that never ran.  gcov reads the counts; every object of the library has some.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Source:
    """What ran of one source file, over all objects that contain lines of it."""

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}
        self.functions: dict[str, tuple[int, int, int]] = {}  # first line, lines, runs

    def add(self, data: dict) -> None:
        """Adds one object's view of the file, as gcov describes it."""
        for line in data["lines"]:
            number = line["line_number"]
            self.lines[number] = self.lines.get(number, 0) + line["count"]
        for function in data["functions"]:
            name = function["name"].split(".")[0]  # gcc's copies are name.part.0
            runs = self.functions.get(name, (0, 0, 0))[2] + function["execution_count"]
            length = function["end_line"] - function["start_line"] + 1
            self.functions[name] = (function["start_line"], length, runs)


def read_object(notes: pathlib.Path, sources: dict[str, Source]) -> None:
    """Runs gcov on one object and adds the files of src/ that it contains."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", notes.name], cwd=notes.parent,
                          capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        sys.exit(f"coverage.py: gcov {notes}: {done.stderr.strip() or 'no output'}")
    for data in json.loads(done.stdout)["files"]:
        path = pathlib.Path(notes.parent, data["file"]).resolve()
        if path.is_relative_to(ROOT / "src"):
            sources[str(path.relative_to(ROOT / "src"))].add(data)


def print_table(sources: dict[str, Source]) -> None:
    """One row per folder, and one for all."""
    rows: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for name, source in sources.items():
        ran = sum(1 for count in source.lines.values() if count)
        for row in (str(pathlib.PurePath(name).parent), "all"):
            rows[row][0] += len(source.lines)
            rows[row][1] += ran
    print("| folder of src/ | lines | ran | share |")
    print("|---|---|---|---|")
    for row in sorted(rows, key=lambda name: (name == "all", name)):
        lines, ran = rows[row]
        print(f"| {row} | {lines} | {ran} | {100 * ran / max(lines, 1):.1f} % |")


def print_functions(sources: dict[str, Source]) -> None:
    """The functions that never ran, with their length."""
    never = [(name, first, length, function)
             for name, source in sorted(sources.items())
             for function, (first, length, runs) in sorted(source.functions.items())
             if not runs]
    print(f"\n{len(never)} functions never ran:")
    for name, first, length, function in never:
        print(f"src/{name}:{first}: {function} ({length} lines)")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--functions", action="store_true")
    args = parser.parse_args()
    objects = args.build / "src" / "CMakeFiles" / "oriel_objects.dir"
    sources: dict[str, Source] = collections.defaultdict(Source)
    found = sorted(objects.rglob("*.gcno"))
    if not found:
        sys.exit(f"coverage.py: {objects} has no counts: build the preset coverage first")
    for notes in found:
        read_object(notes, sources)
    print_table(sources)
    if args.functions:
        print_functions(sources)


if __name__ == "__main__":
    main()
