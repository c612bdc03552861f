#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks a merged trace: trace_check.py MERGED [name=count...].

Every file must be JSON.  Every arrow must have two ends.  Its beginning lies in a signal, and its
end is the end of a wait of another or the same rank.  Every burst of WQEs has a begin and an end.
name=count: there are so many events of that name; name=+: at least one; arrows is a name too.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from typing import Any

SLACK_US = 0.0011  # times are rounded to nanoseconds


def fail(text: str) -> None:
    """Ends the program."""
    sys.exit(f"trace_check: {text}")


def inside(flow: dict[str, Any], calls: list[dict[str, Any]], at_end: bool) -> bool:
    """Does a call contain the end of the arrow?  at_end: is its own end there?"""
    for call in calls:
        end = call["ts"] + call["dur"]
        if at_end and abs(end - flow["ts"]) <= SLACK_US:
            return True
        if not at_end and call["ts"] - SLACK_US <= flow["ts"] <= end + SLACK_US:
            return True
    return False


def check_arrows(events: list[dict[str, Any]], error_us: float) -> int:
    """Returns how many arrows there are."""
    calls: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    ends: dict[Any, dict[str, Any]] = defaultdict(dict)

    for event in events:
        if event["ph"] == "X":
            kind = "f" if event["cat"] == "wait" else "s"
            if kind == "f" or "op" in event["args"]:
                calls[kind, event["pid"], event["tid"]].append(event)
        elif event["ph"] in "sf":
            if event["ph"] in ends[event["id"]]:
                fail(f"arrow {event['id']} has two ends of one kind")
            ends[event["id"]][event["ph"]] = event
    for number, both in ends.items():
        if set(both) != {"s", "f"}:
            fail(f"arrow {number} has one end")
        # each of the two ranks may be wrong by the stated error
        if both["s"]["ts"] > both["f"]["ts"] + SLACK_US + 2 * error_us:
            fail(f"arrow {number} goes back in time")
        for kind, flow in both.items():
            if not inside(flow, calls[kind, flow["pid"], flow["tid"]], kind == "f"):
                fail(f"an end of arrow {number} is in no {'wait' if kind == 'f' else 'signal'}")
    return len(ends)


def check_twice(events: list[dict[str, Any]]) -> None:
    """A wait inside a call that waits for the same signal is that wait, noted again."""
    calls: dict[Any, list[dict[str, Any]]] = defaultdict(list)

    def key(event: dict[str, Any]) -> tuple[Any, ...]:
        args = event["args"]
        return event["pid"], event["tid"], args.get("window"), args.get("peer")

    for event in events:
        if event["ph"] == "X" and event["cat"] == "wait":
            calls[key(event)].append(event)
    for event in events:
        if event["ph"] == "X" and event["cat"] == "inner":
            end = event["ts"] + event["dur"]
            for call in calls[key(event)]:
                if call["ts"] <= event["ts"] and end <= call["ts"] + call["dur"]:
                    fail(f"a wait is noted twice: {event}")


def main() -> None:
    """Checks the file of the command line."""
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)
    events = data["traceEvents"]
    error_us = max(comm["clock_error_us"] for comm in data["oriel"])
    counts = Counter(e["name"] for e in events if e["ph"] in "Xb")
    counts["arrows"] = check_arrows(events, error_us)
    check_twice(events)
    begun = Counter(e["id"] for e in events if e["ph"] == "b")
    ended = Counter(e["id"] for e in events if e["ph"] == "e")
    if begun != ended:
        fail(f"bursts of WQEs without an end: {(begun - ended) or (ended - begun)}")
    for event in events:
        inside_call = event["name"] in ("wait in a collective", "wait in a barrier")
        if inside_call and event["args"].get("window", 1 << 28) < 1 << 28:
            fail(f"the wait of a user's call is noted twice: {event}")
    for wish in sys.argv[2:]:
        name, count = wish.rsplit("=", 1)
        if counts[name] < 1 if count == "+" else counts[name] != int(count):
            fail(f"{counts[name]} of {name} instead of {count}")


if __name__ == "__main__":
    main()
