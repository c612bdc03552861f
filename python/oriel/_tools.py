# SPDX-License-Identifier: BSD-3-Clause
"""The console scripts oriel-run, oriel-info, oriel-perf, oriel-tune and oriel-doctor."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._library import tool_path


def _become(name: str) -> NoReturn:
    """Replaces this process by the program that belongs to the library."""
    path = tool_path(name)
    if path is None:
        sys.exit(f"{name} is not in the package and not beside the library")
    os.execv(path, [path, *sys.argv[1:]])


def run() -> NoReturn:
    """oriel-run"""
    _become("oriel-run")


def info() -> NoReturn:
    """oriel-info"""
    _become("oriel-info")


def perf() -> NoReturn:
    """oriel-perf"""
    _become("oriel-perf")


def tune() -> NoReturn:
    """oriel-tune"""
    _become("oriel-tune")


def doctor() -> NoReturn:
    """oriel-doctor"""
    _become("oriel-doctor")
