#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/structure.py [BUILD] - which source files of the library call each other in a circle.

Reads the symbols of the library's object files (nm), so an arrow from one file to another is a call
or a use that the linker sees.  Prints

  circles      files that reach each other along arrows, and how many of these arrows run back: the
               rest, in the best order found, runs one way
  back arrows  arrows between folders that the table of tools/layers.py does not allow; names of the
               public headers (oriel_*) do not count, nor calls of a folder into the folders
               inside it, which are the implementations of its table

Needs a build; BUILD is build/release unless given.  Exits 0, 1 with --strict if a circle or a back
arrow was found, 2 if there is no build.
"""
import argparse
import collections
import pathlib
import subprocess
import sys

import layers


def symbols(path):
    """Names that an object file defines, and names that it takes from others."""
    defined, used = set(), set()
    out = subprocess.run(["nm", "-g", path], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        (used if kind in "Uw" else defined).add(name)
    return defined, used


def arrows(objects):
    """file -> {file that it uses: names it uses there}."""
    table = {name: symbols(path) for name, path in objects.items()}
    owner = {s: name for name, (defined, _) in table.items() for s in defined}
    graph = {name: collections.defaultdict(list) for name in table}
    for name, (_, used) in table.items():
        for s in sorted(used):
            if owner.get(s, name) != name:
                graph[name][owner[s]].append(s)
    return graph


def reachable(start, graph):
    """Everything that can be reached from start, itself only by a circle."""
    seen, todo = set(), [start]
    while todo:
        for other in graph[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def circles(graph):
    """Sets of files that all reach each other."""
    reach = {name: reachable(name, graph) for name in graph}
    found = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return sorted(found, key=lambda part: min(part))


def back_arrows(part, graph):
    """Arrows inside a circle that run against a good order: files that call most come first."""
    left, back = set(part), []
    inside = [(a, b) for a in part for b in graph[a] if b in part]
    while left:
        def degree(v):
            out = sum(a == v and b in left for a, b in inside)
            return out - sum(b == v and a in left for a, b in inside)
        first = max(sorted(left), key=degree)
        left.remove(first)
        back += [(a, b) for a, b in inside if b == first and a in left]
    return back


def against_layers(graph):
    """Arrows between folders that the table does not allow, with their names."""
    for a in sorted(graph):
        folder = layers.folder_of(a)
        # a header in the table lets calls into its folder
        entries = {layers.folder_of(e) if e.endswith(".h") else e
                   for e in layers.ALLOWED[folder].split()} | {folder}
        for b, names in sorted(graph[a].items()):
            names = [n for n in names if not n.startswith("oriel_")]
            inside = layers.folder_of(b).startswith(folder + "/")
            if names and not inside and layers.folder_of(b) not in entries:
                yield a, b, names


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--arrows", action="store_true", help="list the arrows that run back")
    parser.add_argument("--strict", action="store_true", help="exit 1 if anything was found")
    options = parser.parse_args()
    root = options.build / "src/CMakeFiles/oriel_objects.dir"
    objects = {str(p.relative_to(root))[:-len(".o")]: p for p in sorted(root.rglob("*.c.o"))}
    # a build keeps objects of sources that are gone
    objects = {n: p for n, p in objects.items() if (layers.ROOT / "src" / n).exists()}
    if not objects:
        print(f"no object files under {root}: build first", file=sys.stderr)
        return 2
    try:
        graph = arrows(objects)
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[-1]}: nm cannot read it: is a build under way?", file=sys.stderr)
        return 2
    found = circles(graph)
    for part in found:
        back = back_arrows(part, graph)
        total = sum(b in part for a in part for b in graph[a])
        print(f"circle of {len(part)} files, {total} arrows, {len(back)} back: "
              f"{' '.join(sorted(part))}")
        for a, b in sorted(back) if options.arrows else ():
            print(f"    {a} -> {b}: {' '.join(graph[a][b])}")
    against = list(against_layers(graph))
    for a, b, names in against:
        print(f"back arrow {a} -> {b}: {' '.join(names)}")
    print(f"{len(found)} circles with {sum(map(len, found))} of {len(objects)} files, "
          f"{len(against)} back arrows between folders")
    return 1 if options.strict and (found or against) else 0


if __name__ == "__main__":
    sys.exit(main())
