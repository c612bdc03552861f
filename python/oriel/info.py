# SPDX-License-Identifier: BSD-3-Clause
"""python -m oriel.info: what oriel-info prints, and the facts of the Python package."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from importlib import metadata

import oriel
from oriel import _c, _library


def _version_of(name: str) -> str:
    """The version of another package, without importing it."""
    if importlib.util.find_spec(name) is None:
        return "not installed"
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "installed, version unknown"


def facts() -> list[tuple[str, str]]:
    """Rows of name and value."""
    missing = [name for name in _c.FUNCTIONS if not _c.lib.has(name)]
    rows = [
        ("package", f"{oriel.__version__} at {_library.PACKAGE}"),
        ("library", f"{oriel.version()} at {_c.lib.path}"),
        ("functions", f"missing in this library: {', '.join(missing)}" if missing else "all there"),
        ("python", f"{platform.python_version()} ({platform.machine()})"),
        ("numpy", _version_of("numpy")),
        ("torch", _version_of("torch")),
        ("triton", _version_of("triton")),
    ]
    bitcode = _library.bitcode_paths()
    rows.append(("bitcode", ", ".join(bitcode) if bitcode else "none: no Triton kernels"))
    for name in ("oriel-run", "oriel-info", "oriel-perf", "oriel-tune", "oriel-doctor"):
        rows.append((name, _library.tool_path(name) or "not found"))
    return rows


def main() -> int:
    """Prints the facts, then runs oriel-info with the same arguments."""
    print("Python")
    for name, value in facts():
        print(f"  {name:<11} {value}")
    sys.stdout.flush()
    tool = _library.tool_path("oriel-info")
    if tool is None:
        print("oriel-info is not beside the library: its part is left out")
        return 0
    return subprocess.run([tool, *sys.argv[1:]], env=os.environ).returncode


if __name__ == "__main__":
    sys.exit(main())
