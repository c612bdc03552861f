#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
tools/variables.py [--check] - writes docs/variables.md from the sources.

The library's variables come from the list in src/util/config.h, their groups from
src/tools/info/groups.h, build options from the CMake files.  Variables that are read in other
places are found by their getenv() calls; their texts are in this file, and a variable without a
text is an error.  --check writes nothing and exits 1 if the document differs from what would be
written.
"""
import difflib
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent
target = root / "docs/variables.md"

TYPES = {
    "SECONDS": "seconds above 0",
    "COUNT": "integer",
    "PORT": "port",
    "FLAG": "0 or 1",
    "TEXT": "text",
    "CHOICE_LOG": "word",
    "CHOICE_MODE": "word",
}

# Read by the library or its tools, set by launchers, by the system or by CUDA.
FOREIGN = {
    "RANK": "number of this rank, 0 to WORLD_SIZE - 1",
    "WORLD_SIZE": "number of ranks of the job",
    "LOCAL_RANK": "number of this rank on its host; `ORIEL_DEVICE=cuda` chooses the GPU by it",
    "OMPI_COMM_WORLD_LOCAL_RANK": "read where `LOCAL_RANK` is not set (Open MPI)",
    "MPI_LOCALRANKID": "read where `LOCAL_RANK` is not set (MPICH and relatives)",
    "SLURM_LOCALID": "read where `LOCAL_RANK` is not set (Slurm)",
    "MASTER_ADDR": "address of rank 0's host",
    "MASTER_PORT": "port where ranks meet, unless `ORIEL_PORT` is set",
    "TORCHELASTIC_RUN_ID":
        "tells that torchrun started the ranks; serves as secret if torchrun made it",
    "PMIX_RANK": "tells that a PMIx launcher started the ranks",
    "PMIX_NAMESPACE": "the job's name under PMIx",
    "PMI_RANK": "tells oriel-tune and the ofi engine that a launcher started this process",
    "OMPI_COMM_WORLD_SIZE":
        "tells that a launcher started several ranks; only warnings depend on it",
    "SLURM_STEP_NUM_TASKS":
        "tells that a launcher started several ranks; only warnings depend on it",
    "PMI_SIZE": "tells that a launcher started several ranks; only warnings depend on it",
    "XDG_CACHE_HOME": "folder of the files of oriel-tune; default `$HOME/.cache`",
    "HOME": "see `XDG_CACHE_HOME`",
    "XDG_RUNTIME_DIR": "oriel-doctor finds ranks in its folder `oriel`, else in `/tmp/oriel-UID`",
    "TERM": "without it, or with `dumb`, tools show no line of progress",
    "_ORIEL_TERMINAL": "set by oriel-run for rank 0: terminal for a tool's line of progress",
    "TMPDIR": "folder for the files of `oriel-run --mps`; default `/tmp`",
    "CUDA_MPS_PIPE_DIRECTORY": "folder where the CUDA driver finds its MPS daemon",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "share of a GPU's SMs that MPS gives this rank",
    "CUDA_DEVICE_MAX_CONNECTIONS": "set to 32 for the CUDA driver (8 under MPS), unless you set it",
    "CUDA_MODULE_LOADING": "set to EAGER for the CUDA driver, unless you set it",
}

# Read by the Python package, not by the library.
PYTHON = {
    "ORIEL_BITCODE": "folder of the device bitcode; empty: in the package or beside the library",
    "ORIEL_LIBRARY": "file of `liboriel.so`; empty: the one in the package, else an installed one",
    "ORIEL_PREFIX": "prefix of an installed Oriel, for the package and for its installation",
    "ORIEL_TORCH": "1: `make test-python` installs torch and Triton if they are missing",
}

# Read by tests only.
TESTS = {
    "ORIEL_CONTRACT": "which rows of the contract suite run: threads, processes, quick, wide, few, "
    "kill, nokill",
    "ORIEL_FAKE_CUDA": "behaviour of the fake CUDA driver, as `key=value` pairs",
    "ORIEL_FAKE_CUDA_ALWAYS": "the same, added to what a test sets itself",
}


def fail(text):
    sys.exit("tools/variables.py: " + text)


def sources(folder):
    return [f.read_text() for f in sorted((root / folder).rglob("*.[ch]"))]


def library():
    """Rows (type, name, default, help) of ORI_CONFIG_LIST."""
    text = (root / "src/util/config.h").read_text()
    text = text[text.index("#define ORI_CONFIG_LIST(X)") : text.index("/* Values of the CHOICE")]
    text = text.replace("\\\n", "\n")
    row = re.compile(r'X\((\w+),\s*\w+,\s*"(\w+)",\s*"([^"]*)",\s*((?:"[^"]*"\s*)+)\)')
    rows = [(t, n, d, "".join(re.findall(r'"([^"]*)"', h))) for t, n, d, h in row.findall(text)]
    if len(rows) != len(re.findall(r"\bX\(\w+, \w+", text)):
        fail("a line of ORI_CONFIG_LIST has a form that is not understood")
    return rows


def read_names(folder):
    """Names in getenv("X") and ori_environment_get("X"), and in the tables of names beside them."""
    names = set()
    call = re.compile(r'(?:getenv|_environment_get|_environment_add|env_number)\("(\w+)"')
    for text in sources(folder):
        names |= set(call.findall(text))
        for table in re.findall(r"(?:names|sizes)\[\] = \{([^}]*)\}", text):
            if "RANK" in table or "SIZE" in table:
                names |= set(re.findall(r'"([A-Z_]+)"', table))
    return names


def python_names():
    """Names that the Python package and the table of names in src/util/config.c have."""
    text = "".join(f.read_text() for f in sorted((root / "python").rglob("*.py")))
    text += (root / "Makefile").read_text() + (root / "tools/python-env.sh").read_text()
    known = re.search(r"python\[\] = \{([^}]*)\}", (root / "src/util/config.c").read_text())
    names = set(re.findall(r'"(ORIEL_\w+)"', known.group(1)))
    for name in sorted(names):
        if not re.search(rf"\b{name}\b", text):
            fail(f"src/util/config.c lists {name}, but nothing in python/ reads it")
    return names


def options():
    """Rows (name, default, help) of CMake's cache."""
    rows = []
    for name in ("CMakeLists.txt", "src/kernels/kernels.cmake", "tests/CMakeLists.txt"):
        text = (root / name).read_text()
        for n, h, d in re.findall(r'option\((ORIEL_\w+) "([^"]*)" ([^)]*)\)', text):
            rows.append((n, "ON in this tree, OFF below another" if "TOP" in d else d, h))
        for n, d, h in re.findall(r'set\((ORIEL_\w+) "?([^" ]*)"? CACHE STRING "([^"]*)"\)', text):
            rows.append((n, d or "-", h))
    return rows


def groups():
    """Rows (title, names) of src/tools/info/groups.h, which oriel-info --all shows too."""
    text = (root / "src/tools/info/groups.h").read_text()
    rows = re.findall(r'\{ "([^"]+)",\s*"([^"]*)" \}', text)
    if not rows or len(rows) != text.count('{ "'):
        fail("a line of src/tools/info/groups.h has a form that is not understood")
    return rows


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def group_of(name):
    short = name[len("ORIEL_") :]
    for title, words in groups():
        for word in words.split():
            if short == word or (word.endswith("_") and short.startswith(word)):
                return title
    return "Other"


def grouped(rows):
    parts = []
    for title, _ in groups():
        mine = [r for r in rows if group_of(r[1]) == title]
        if mine:
            cells = [(f"`{n}`", TYPES[t], f"`{d}`" if d else "-", h) for t, n, d, h in mine]
            parts.append(f"## {title}\n\n" + table(("name", "value", "default", "meaning"), cells))
    return "\n".join(parts)


def described(found, texts, where):
    for name in sorted(found - set(texts)):
        fail(f"{where} reads {name}: give it a text in tools/variables.py")
    for name in sorted(set(texts) - found):
        fail(f"{where} does not read {name}: remove its text from tools/variables.py")
    return table(("name", "meaning"), [(f"`{n}`", t) for n, t in texts.items()])


def document():
    rows = library()
    own = {n for _, n, _, _ in rows}
    foreign = {n for n in read_names("src") if n not in own}
    tests = {n for n in read_names("tests") if n.startswith("ORIEL_") and n not in own}
    return f"""# Variables

<!-- Written by tools/variables.py; do not edit.  Texts are in src/util/config.h. -->

The library reads these variables when a boot or a comm is created. \
A value that is not allowed is an error. An unknown
`ORIEL_*` name is a warning that shows the nearest known name; with `ORIEL_STRICT=1` it is an \
error. `oriel-info` lists
the variables that are set, `oriel-info --all` all of them, with the values that apply.

{grouped(rows)}
## Variables of launchers and of the system

The library and its tools also read these. You rarely set them yourself.

{described(foreign, FOREIGN, "src")}
## Variables of the Python package

{described(python_names(), PYTHON, "python")}
## Variables of the tests

{described(tests, TESTS, "tests")}
## Options of the build

Set them with `cmake -DNAME=VALUE`.

{table(("name", "default", "meaning"), [(f"`{n}`", d, h) for n, d, h in options()])}"""


def main():
    text = document()
    if sys.argv[1:] == ["--check"]:
        old = target.read_text() if target.exists() else ""
        if old != text:
            print("docs/variables.md is stale: run tools/variables.py")
            diff = difflib.unified_diff(old.splitlines(), text.splitlines(),
                                        "now", "new", "", "", 0)
            print("\n".join(diff))
            sys.exit(1)
    elif sys.argv[1:]:
        fail("the only option is --check")
    else:
        target.write_text(text)


main()
