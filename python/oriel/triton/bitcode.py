# SPDX-License-Identifier: BSD-3-Clause
"""Finds the bitcode that Triton links into kernels with window calls.

There are two files.  liboriel_device_sm90.bc uses fences that only Hopper and later GPUs have;
liboriel_device_sm80.bc is for GPUs before that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_NAMES = {80: "liboriel_device_sm80.bc", 90: "liboriel_device_sm90.bc"}


def _folders() -> list[Path]:
    """Where the files may be: ORIEL_BITCODE, inside the package, beside the library."""
    package = Path(__file__).resolve().parent.parent
    folders = [package / "lib"]
    try:
        from .._library import library_path
    except ImportError:
        pass
    else:
        try:
            beside = Path(library_path()).resolve().parent
        except ImportError:  # no library: kernels can be compiled all the same
            pass
        else:
            folders += [beside, beside / "oriel"]
    named = os.environ.get("ORIEL_BITCODE")
    return [Path(named)] if named else folders


def _number(capability: Any) -> int:
    """90 and (9, 0) both mean compute capability 9.0; None is the current GPU's."""
    if capability is None:
        from triton.runtime import driver

        capability = driver.active.get_current_target().arch
    if isinstance(capability, (tuple, list)):
        capability = 10 * int(capability[0]) + int(capability[1])
    if not isinstance(capability, int) or capability < 80:
        raise ValueError(
            f"capability {capability!r}: Oriel's kernels need a GPU of compute capability 8.0 or "
            "later, written as 90 or (9, 0)"
        )
    return capability


def library(capability: int | tuple[int, int] | None = None) -> str:
    """The bitcode file for a GPU.

    Args:
        capability: compute capability, as 90 or (9, 0).  None: the GPU that Triton uses now.

    Raises:
        FileNotFoundError: the file was not built or not installed; the text says what to do.
        ValueError: the GPU is too old.
    """
    name = _NAMES[90 if _number(capability) >= 90 else 80]
    folders = _folders()
    for folder in folders:
        if (folder / name).is_file():
            return str(folder / name)
    raise FileNotFoundError(
        f"{name} is not in {', '.join(map(str, folders))}.  Build it with clang 19 or later "
        "(cmake --build build/release --target oriel_device_bitcode), install a wheel that has "
        "it, or set ORIEL_BITCODE to the folder that holds it"
    )


def extern_libs(capability: int | tuple[int, int] | None = None) -> dict[str, str]:
    """What a launch passes to Triton, so that it links the bitcode:

    kernel[grid](window.device_handle, ..., extern_libs=oriel.triton.extern_libs())
    """
    return {"oriel": library(capability)}
