# SPDX-License-Identifier: BSD-3-Clause
"""The table of PyTorch's own tests: gloo beside oriel, from the outcomes of torch_suite.py."""
from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Mapping

# Tests that gloo passes and that name gloo itself: their decorators compare the backend with it.
NAMES_GLOO = ("Only gloo backend supports timeouts", "GLOO Batch Send Recv CPU",
              "Only Gloo backend supports sparse all reduce", "to be one of {'gloo'}",
              "get_future is only supported on mpi, nccl and gloo",
              "Only Nccl & Gloo backend support DistributedDataParallel")


def names_gloo(reason: str) -> bool:
    """Whether a test was skipped because the backend is not called gloo."""
    return any(text in reason for text in NAMES_GLOO)


def missing(gloo: Mapping[str, Any], oriel: Mapping[str, Any]) -> list[str]:
    """The tests that gloo passes, that do not name gloo, and that oriel does not pass."""
    found = []
    for name, theirs in sorted(gloo.items()):
        ours = oriel.get(name)
        if theirs.word != "pass" or ours is None or ours.word == "pass":
            continue
        if ours.word == "skip" and names_gloo(ours.reason):
            continue
        found.append(f"{name}: gloo passes, oriel: {ours.word}: {one_line(ours.reason)}")
    return found


def check(gloo: Mapping[str, Any], oriel: Mapping[str, Any]) -> int:
    """Print what oriel misses; 1 if there is anything, or nothing was run."""
    for line in (found := missing(gloo, oriel)):
        print(line)
    failed = [name for name, ours in oriel.items() if ours.word == "fail"]
    both = sum(1 for name in oriel if name in gloo)
    passed = sum(1 for name in oriel if oriel[name].word == "pass")
    print(f"torch_suite: {both} tests on both backends, oriel passes {passed}, fails {len(failed)}")
    return 1 if found or failed or not both else 0


def one_line(reason: str) -> str:
    """The last line of a reason that says something, cut to fit a table."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    text = lines[-1] if lines else ""
    return (text if len(text) <= 70 else text[:67] + "...").replace("|", "/")


def _cell(outcome: Any) -> str:
    if outcome is None:
        return "not run"
    return outcome.word if outcome.word == "pass" else f"{outcome.word}: {one_line(outcome.reason)}"


def _row(name: str, gloo: Any, oriel: Any) -> str:
    ranks = (oriel or gloo).world
    theirs, ours = _cell(gloo), _cell(oriel)
    same = "the same" if theirs == ours and theirs != "pass" else ours
    return f"| {name.removeprefix('test_')} | {ranks} | {theirs} | {same} |"


def write(gloo: Mapping[str, Any], oriel: Mapping[str, Any], path: Path) -> int:
    """Write the table, the tests in which the backends differ first."""
    import torch

    names = sorted({*gloo, *oriel})
    passed = [Counter(outcome.word for outcome in side.values()) for side in (gloo, oriel)]
    literal = [n for n in names if n in oriel and n in gloo and gloo[n].word == "pass"
               and oriel[n].word == "skip" and names_gloo(oriel[n].reason)]
    text = [
        "# PyTorch's own tests, on gloo and on oriel", "",
        "`python/tests/torch_suite.py table` writes this file. Do not edit it.", "",
        "The tests are those of `torch/testing/_internal/distributed/distributed_test.py` in "
        f"torch {torch.__version__},", "unmodified, on a machine without a GPU. The names lack "
        "`test_`. A skip is not a pass.", "",
        "| | pass | skip | fail |", "|---|---|---|---|"]
    for side, counts in zip(("gloo", "oriel"), passed):
        text.append(f"| {side} | {counts['pass']} | {counts['skip']} | {counts['fail']} |")
    text += ["", "Tests that gloo passes and that run on no backend of another name "
             f"({len(literal)}):", ""]
    text += [f"- {name.removeprefix('test_')}: {one_line(oriel[name].reason)}" for name in literal]
    text += ["", "| test | ranks | gloo | oriel |", "|---|---|---|---|"]
    text += [_row(name, gloo.get(name), oriel.get(name)) for name in names]
    path.write_text("\n".join(text) + "\n")
    return 0
