# SPDX-License-Identifier: BSD-3-Clause
"""The ops of AlltoallvOp.get_or_create().

A comm keeps its ops, and drops them when it is closed.  So nothing here holds a comm, and no op is
found for a new comm.  All ranks make and tear down ops in the same order.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any, Dict, List, Tuple

_comms: "weakref.WeakSet[Any]" = weakref.WeakSet()  # that have ops
_numbers = itertools.count(1)  # of ops, in the order in which they were made
_lock = threading.Lock()
_KEY = "AlltoallvOp"


def _ops_of(comm: Any) -> Dict[Any, Tuple[int, Any]]:
    return comm._kept.setdefault(_KEY, {})


def find(comm: Any, arguments: Any) -> Any:
    """The op of the comm with these arguments, or None."""
    with _lock:
        return _ops_of(comm).get(arguments, (0, None))[1]


def keep(comm: Any, arguments: Any, op: Any) -> None:
    """Keep an op until take(), or until its comm is closed."""
    with _lock:
        _ops_of(comm)[arguments] = (next(_numbers), op)
        _comms.add(comm)


def take(comm: Any = None) -> List[Any]:
    """Forget the ops of one comm, or of all, and return them, oldest first."""
    taken: List[Tuple[int, Any]] = []
    with _lock:
        for owner in list(_comms) if comm is None else [comm]:
            taken += _ops_of(owner).values()
            _ops_of(owner).clear()
    return [op for _, op in sorted(taken, key=lambda entry: entry[0])]
