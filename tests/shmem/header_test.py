#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/shmem/header_test.py CC CXX INCLUDE LIBRARY - is shmem.h what programs expect?

Compiles every public header of OpenSHMEM alone, as C99, C11, C++11 and C++17, without a warning.
Compares what they declare with what the shared library exports.  Tries type-generic calls that
must not compile.  Prints one line per finding and exits 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

LANGUAGES = (("c", "c99"), ("c", "c11"), ("c", "gnu17"), ("c++", "c++11"), ("c++", "c++17"))
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")
WRONG = (  # calls without a form for the type
    "struct s { int a; } x; shmem_put(&x, &x, 1, 0);",
    "float f; shmem_atomic_add(&f, 1, 0);",
    "double d; shmem_wait_until(&d, SHMEM_CMP_EQ, 1);",
    "double d; shmem_and_reduce(SHMEM_TEAM_WORLD, &d, &d, 1);",
)


def compile_text(compiler: str, include: pathlib.Path, language: str, standard: str,
                 text: str) -> subprocess.CompletedProcess:
    """The result of a compilation of `text`."""
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-I", str(include),
               "-fsyntax-only", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def check_alone(compilers: dict[str, str], include: pathlib.Path):
    """Lines for headers that do not compile alone."""
    for header in sorted(include.rglob("*.h")):
        name = header.relative_to(include)
        if name.name == "generic.h":  # shmem.h includes it after all declarations
            continue
        for language, standard in LANGUAGES:
            done = compile_text(compilers[language], include, language, standard,
                                f"#include <{name}>\nextern int unit;\n")
            if done.returncode:
                yield f"{name} as {standard}: {done.stderr.splitlines()[0]}"


def check_wrong(compilers: dict[str, str], include: pathlib.Path):
    """Lines for wrong calls that compile."""
    for call in WRONG:
        text = f"#include <shmem.h>\nvoid f(void);\nvoid f(void) {{ {call} }}\n"
        if not compile_text(compilers["c"], include, "c", "c11", text).returncode:
            yield f"this compiles: {call}"


def check_exports(compiler: str, include: pathlib.Path, library: str):
    """Lines for names that are declared or exported alone."""
    text = subprocess.run([compiler, "-E", "-P", "-std=c99", "-I", str(include), "-"],
                          input="#include <shmemx.h>\n", capture_output=True, text=True,
                          check=True).stdout
    declared = set(re.findall(r"\b(shmemx?_\w+|start_pes|_my_pe|_num_pes|sh(?:malloc|memalign|"
                              r"realloc|free))\s*\(", text))
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                             text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in symbols.splitlines()
                if line.split()[-2] in "TBDR"}
    for name in sorted(declared - exported):
        yield f"{name}: declared, but not in the library"
    for name in sorted(exported - declared):
        yield f"{name}: in the library, but not declared"
    if len(declared) < 1500:
        yield f"only {len(declared)} declarations were found"


def main() -> int:
    """Runs all checks."""
    compiler, cxx, include, library = sys.argv[1:]
    compilers = {"c": compiler, "c++": cxx}
    folder = pathlib.Path(include)
    found = [*check_alone(compilers, folder), *check_wrong(compilers, folder),
             *check_exports(compiler, folder, library)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
