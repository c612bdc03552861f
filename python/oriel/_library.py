# SPDX-License-Identifier: BSD-3-Clause
"""Finds liboriel.so and the files that come with it.

The order is: ORIEL_LIBRARY (a file), the copy inside this package, the release build of the source
tree that the package lies in, an installed library under ORIEL_PREFIX, and the system's usual
places.  Nothing here loads the library; _c.py does.
"""

from __future__ import annotations

import ctypes.util
import glob
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
NAME = "liboriel.so.0"


def _under(prefix: str) -> list[Path]:
    """The places of the library below an installation prefix."""
    multiarch = glob.glob(os.path.join(prefix, "lib", "*-linux-gnu*"))
    folders = [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64"), *sorted(multiarch)]
    return [Path(folder) / NAME for folder in folders]


def library_path() -> str:
    """The file of liboriel, or a bare name that the system's loader searches."""
    named = os.environ.get("ORIEL_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise ImportError(f"ORIEL_LIBRARY={named}: there is no such file")
        return named
    places = [PACKAGE / "lib" / NAME]
    if (PACKAGE.parent / "pyproject.toml").is_file():
        places.append(PACKAGE.parent.parent / "build" / "release" / "lib" / NAME)
    prefix = os.environ.get("ORIEL_PREFIX")
    for root in [prefix, sys.prefix, "/usr/local", "/opt/oriel", "/usr"]:
        if root:
            places += _under(root)
    for place in places:
        if place.is_file():
            return str(place)
    found = ctypes.util.find_library("oriel")
    if found:
        return found
    raise ImportError(
        "liboriel.so was not found: install Oriel, or set ORIEL_PREFIX to the prefix of an "
        "installed Oriel, or ORIEL_LIBRARY to the file itself"
    )


def tool_path(name: str) -> str | None:
    """The program `name` (oriel-run, oriel-info, ...) that belongs to the library, or None."""
    library = Path(library_path())
    places = [PACKAGE / "bin", library.parent.parent / "bin", library.parent.parent.parent / "bin"]
    if not library.is_absolute():
        places = [PACKAGE / "bin", Path("/usr/local/bin"), Path("/usr/bin")]
    for place in places:
        if os.access(place / name, os.X_OK):
            return str(place / name)
    return None


def bitcode_paths() -> list[str]:
    """The files of device bitcode (liboriel_device*.bc) for Triton kernels; may be empty."""
    library = Path(library_path())
    named = os.environ.get("ORIEL_BITCODE")
    folders = [PACKAGE / "lib", library.parent, library.parent / "oriel"]
    if named:
        folders = [Path(named)]
    for folder in folders:
        found = sorted(str(path) for path in folder.glob("liboriel_device*.bc"))
        if found:
            return found
    return []
