# SPDX-License-Identifier: BSD-3-Clause
"""The one exception class of the package."""

from __future__ import annotations

import re

# Texts of the library that name the rank that failed or is late, the most specific first.
_NAMES_RANK = [
    re.compile(r"waiting for rank (\d+)"),
    re.compile(r"gave up after .*?(?:from|for|at) rank (\d+)"),
    re.compile(
        r"rank (\d+)(?: \([^)]*\))?:? (?:failed|died|did not come|aborted|gave up|is gone|refused"
        r"|has not|destroys|gives|captures|and rank 0 differ|is in|was killed)"
    ),
    re.compile(r"(?:to|of|from|for) rank (\d+)"),
    re.compile(r"rank (\d+) \("),
]
# Arguments of the caller's own: a rank in their text is what the caller passed, not who failed.
_OWN_FAULT = {-1, -2}


class Error(RuntimeError):
    """A call of the library failed.

    Attributes:
        status: the negative ORIEL_E* value.
        name: its name, such as "ORIEL_ETIMEDOUT".
        rank: the rank that failed or is late if the text names one, else None.
        cause: what happened, in one line.
    """

    def __init__(self, status: int, name: str, cause: str, rank: int | None = None) -> None:
        super().__init__(f"{cause} ({name})" if cause else name)
        self.status = status
        self.name = name
        self.cause = cause
        self.rank = _rank_of(status, cause) if rank is None else rank

    def __reduce__(self):  # so that it passes between processes
        return (Error, (self.status, self.name, self.cause, self.rank))


def _rank_of(status: int, cause: str) -> int | None:
    """The rank that the text names as the one that failed or is late."""
    failed = re.search(r"rank (\d+) failed: ", cause)
    if failed:
        return int(failed.group(1))
    if status in _OWN_FAULT:
        return None
    for pattern in _NAMES_RANK:
        match = pattern.search(cause)
        if match:
            return int(match.group(1))
    return None
