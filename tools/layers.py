#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/layers.py - do the folders of the library include only what stands below them?

ALLOWED says for each folder what its files may include.  A header name in place of a folder allows
that one header.  ARCHITECTURE.md, section "Layers", shows the same table; the two are compared.
Prints one line for each #include that breaks the table.  Exits 1 if there is one.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLIC = "include"

# folder: what it may include, beside its own files and the public headers
ALLOWED = {
    "include": "",
    "util": "",
    "kernels": "",
    "bitcode": "",
    "diag": "util",
    "engine": "util engine/mlx5/mlx5_engine.h engine/ofi/ofi_engine.h engine/verbs/verbs_engine.h",
    "engine/soft": "util engine",
    "engine/proxy": "util engine",
    "engine/proxied": "util engine engine/proxy",
    "engine/verbs": "util engine engine/proxied",
    "engine/ofi": "util engine engine/proxied",
    "engine/mlx5": "util engine engine/verbs",
    "device": "util",
    "device/cpu": "util diag device engine/progress.h",
    "device/cuda": "util kernels device device/cpu",
    "boot": "util",
    "comm": "util diag engine device boot",
    "window": "util diag kernels engine device comm",
    "coll": "util kernels engine device boot comm window",
    "frontends/shmem": "",
    "tools": "util diag kernels engine device boot comm window coll",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path):
    """The row of ALLOWED that a path (engine/soft/wire.c, include/oriel/oriel.h) belongs to."""
    parts = pathlib.PurePath(path).parts[:-1]
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in ALLOWED:
            return "/".join(parts[:n])
    return None


def target_of(source, quote, name):
    """The file of this tree that an #include means, as in folder_of(); None for a system header."""
    bases = [source.parent] if quote == '"' else []
    for base in bases + [ROOT / "src", ROOT / "include"]:
        path = (base / name).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            path = path.relative_to(ROOT)
            return str(path.relative_to("src") if path.parts[0] == "src" else path)
    return None


def allows(folder, target):
    """May a file of the folder include the target?"""
    into = folder_of(target)
    if into is None or into in (folder, PUBLIC):
        return True
    return any(entry in (into, target) for entry in ALLOWED[folder].split())


def sources():
    """Every source file of the library: its path, and its path as in folder_of()."""
    for base in ("src", "include", "frontends"):
        for path in sorted((ROOT / base).rglob("*")):
            if path.suffix in (".c", ".h", ".cu"):
                yield path, str(path.relative_to(ROOT / "src" if base == "src" else ROOT))


def check_includes():
    """Lines for includes that break the table."""
    for path, name in sources():
        folder = folder_of(name)
        if folder is None:
            yield f"{path.relative_to(ROOT)}: its folder is not in the table of tools/layers.py"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            target = match and target_of(path, *match.groups())
            if target and not allows(folder, target):
                yield (f"{path.relative_to(ROOT)}:{number}: {folder} may not include {target} "
                       f"(allowed: {ALLOWED[folder] or 'the public headers only'})")


def check_document():
    """Lines for rows of ARCHITECTURE.md that differ from ALLOWED."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = re.search(r"^## Layers\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    rows = dict(re.findall(r"^\| `([^`]+)` \|([^|]*)\|", section.group(1), re.M)) if section else {}
    for folder in sorted(ALLOWED.keys() | rows.keys()):
        told = re.findall(r"`([^`]+)`", rows.get(folder, ""))
        if folder not in rows or folder not in ALLOWED or told != ALLOWED[folder].split():
            yield f"ARCHITECTURE.md, Layers: the row of {folder} differs from tools/layers.py"


def main():
    argparse.ArgumentParser(description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    found = [*check_includes(), *check_document()]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
