#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual pages of Oriel from one source: the headers' comments and the tools' --help.

    tools/man.py OUT [PROGRAM ...]      OUT/man3: a page per call; OUT/man1: a page per program;
                                        OUT/man7/oriel.7: where to begin, all calls, all statuses
    tools/man.py --names                the names of all calls that get a page

    tools/man.py --unnamed              the calls whose page has no good line NAME

A call is a prototype in a public header.  Its text is the comment above it.  Calls that follow each
other without an empty line or comment share one, unless a call has a note behind it.  The sections
of the headers become SEE ALSO.  A page also has the structs of its header that the call takes, with
their initial values.

The line NAME is the first sentence of the comment: it says in a few words what the call does.  In a
comment that several calls share, it is the sentence that begins with the call's own name:

    oriel_send sends a message of `bytes`; oriel_recv receives a message of `bytes`.  ...

The date is SOURCE_DATE_EPOCH, else that of the last commit.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
INCLUDE = SOURCE / "include"
HEADERS = ["oriel.h", "coll/allgather.h", "coll/alltoallv.h", "coll/reduce.h", "coll/team.h",
           "device.h", "device/coll.h", "device/coll_line.h"]
SECTION = re.compile(r"^/\* -{2,} (.*?) -+ \*/$")
NAME = re.compile(r"\b(oriel_\w+)\s*\(")
MARK = re.compile(r"\s*\[C\]\s*")
COLLECTIVE = ["This is a collective call: all ranks of the comm make it, in the same order.  If it",
              "fails on one rank, all ranks return an error that names the rank and the cause."]
ABOUT = ["A rank exposes a window: a buffer with signals, counters and barriers.  Other ranks put",
         "data into it, signal it and wait for it, from host code or from inside a kernel.  The",
         "shortest program calls oriel_init, oriel_window_create, oriel_window_source,",
         "oriel_window_put_signal, oriel_window_wait_signal and oriel_finalize."]
NAME_MOST = 80  # characters of a text in the line NAME

# What calls return that are an int, but not a status.
VALUE = "The value, or a negative status for a bad argument; see"
RETURNS = {
    "oriel_boot_rank": VALUE, "oriel_boot_nranks": VALUE, "oriel_comm_rank": VALUE,
    "oriel_comm_size": VALUE, "oriel_comm_nodes": VALUE, "oriel_comm_node": VALUE,
    "oriel_comm_node_rank": VALUE, "oriel_comm_node_size": VALUE, "oriel_comm_peer_kind": VALUE,
    "oriel_allgather_supported": "1 or 0, or a negative status; see",
    "oriel_group_is_leader": "1 or 0.", "oriel_rank": "The rank.",
    "oriel_nranks": "The number of ranks.", "oriel_peer_kind": "One of ORIEL_PEER_*.",
    "oriel_peer_to_index": "The index.", "oriel_index_to_peer": "The rank.",
}


@dataclass
class Call:
    """A prototype with the comment that describes it."""

    name: str
    header: str
    section: str
    prototype: str
    comment: list[str] = field(default_factory=list)

    def is_collective(self) -> bool:
        """Has the comment the mark of a collective call?"""
        return any(MARK.search(line) for line in self.comment)

    def text(self) -> list[str]:
        """The comment, with a sentence in place of the mark of a collective call."""
        lines = [MARK.sub(" ", line).strip() if MARK.search(line) else line
                 for line in self.comment]
        if not any(lines):
            lines = []
        if self.is_collective():
            lines += [""] * bool(lines) + COLLECTIVE
        return lines or [f"This call belongs to: {self.section}."]


# ---- reading headers ---------------------------------------------------------------------------


def comment_text(lines: list[str]) -> list[str]:
    """The lines of a comment without its marks.  An empty line separates paragraphs."""
    text = "\n".join(lines).strip()
    text = re.sub(r"^/\*+|\*+/$", "", text)
    plain = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.splitlines()]
    while plain and not plain[0].strip():
        plain.pop(0)
    while plain and not plain[-1].strip():
        plain.pop()
    return plain


def split_items(text: str) -> list[tuple[str, list[str]]]:
    """A header as items: ("comment" | "code" | "empty", lines)."""
    items: list[tuple[str, list[str]]] = []
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        start = i
        if lines[i].lstrip().startswith("/*"):
            while "*/" not in lines[i]:
                i += 1
            items.append(("comment", lines[start : i + 1]))
        elif not lines[i].strip():
            items.append(("empty", [""]))
        elif re.match(r"(ORIEL_DEV |const |void |int |uint64_t )[\w *]*oriel_\w+\(", lines[i]):
            while not re.search(r"[;{]\s*(/\*.*\*/)?$", lines[i]):
                i += 1
            items.append(("code", lines[start : i + 1]))
        else:
            items.append(("other", [lines[i]]))
        i += 1
    return items


def calls_of(header: str) -> list[Call]:
    """All prototypes of a header, in order.  Bodies of inline functions do not count."""
    found: list[Call] = []
    section, comment, shared = "", [], False
    for kind, lines in split_items((INCLUDE / "oriel" / header).read_text()):
        title = SECTION.match(lines[0])
        if title:
            section, comment = title.group(1), []
        elif kind == "comment":
            comment, shared = comment_text(lines), False
        elif kind == "code":
            text = "\n".join(lines)
            behind = re.search(r"/\*\s*(.*?)\s*\*/\s*$", text)
            prototype = re.sub(r"\s*/\*.*?\*/\s*$", "", text)
            if prototype.endswith(";"):
                note = [behind.group(1)] if behind else []
                if shared and MARK.sub("", "".join(note)):
                    comment = []  # a note of its own describes this call alone
                name = NAME.search(prototype)
                assert name, prototype
                found.append(Call(name.group(1), header, section, prototype, comment + note))
                shared = True
        elif kind == "empty":
            comment = []
    return found


def structs_of(call: Call) -> list[str]:
    """The structs of the call's header that its prototype names, each with its ..._INIT."""
    source = (INCLUDE / "oriel" / call.header).read_text()
    out: list[str] = []
    for name in dict.fromkeys(re.findall(r"struct (oriel_\w+)", call.prototype)):
        found = re.search(rf"^struct {name} {{\n.*?^}};\n", source, re.M | re.S)
        if not found:
            continue
        out += [""] * bool(out) + found.group(0).splitlines()
        init = re.search(rf"^#define {name.upper()}_INIT\s*\\\n.*?^\t}}\n", source, re.M | re.S)
        if init:
            out += re.sub(r"[ \t]*\\\n", " \\\\\n", init.group(0)).splitlines()
    return out


def with_device_text(call: Call, calls: dict[str, Call]) -> Call:
    """A host call that only refers to the device call of the same name gets its text too."""
    twin = calls.get(call.name.replace("oriel_window_", "oriel_"))
    if call.section != "operations issued by the host" or not twin or twin is call:
        return call
    shared = "Each call means what the device call of the same name means"
    if call.comment and not call.comment[0].startswith(shared):
        return call
    return Call(call.name, call.header, call.section, call.prototype,
                twin.comment + ["", f"This is the text of the device call {twin.name}().", ""]
                + call.comment)


def all_calls() -> list[Call]:
    """The calls of all public headers; the first prototype of a name counts."""
    calls: dict[str, Call] = {}
    for header in HEADERS:
        for call in calls_of(header):
            calls.setdefault(call.name, call)
    return [with_device_text(call, calls) for call in calls.values()]


# ---- writing pages -----------------------------------------------------------------------------


def roff(text: str) -> str:
    """Text for a line of a page."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def page_date() -> str:
    """The same date for every build of the same sources."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        git = ["git", "-C", str(SOURCE), "log", "-1", "--format=%ct"]
        try:
            epoch = subprocess.run(git, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            epoch = str((INCLUDE / "oriel" / "oriel.h").stat().st_mtime)
    return time.strftime("%Y-%m-%d", time.gmtime(float(epoch)))


def version() -> str:
    """The version in oriel.h."""
    text = (INCLUDE / "oriel" / "oriel.h").read_text()
    return ".".join(re.findall(r"#define ORIEL_VERSION_\w+ (\d+)", text))


def head(name: str, number: int) -> list[str]:
    """The title line of a page."""
    return [f'.TH {name.upper()} {number} "{page_date()}" "Oriel {version()}" "Oriel"']


def paragraphs(lines: list[str]) -> list[str]:
    """Text with paragraphs; indented lines are code."""
    out: list[str] = []
    code = False
    for line in lines:
        indented = line.startswith(("\t", "    "))
        if indented != code and line.strip():
            out.append(".EX" if indented else ".EE")
            code = indented
        if line.strip():
            out.append(roff(line.expandtabs(8)) if code else roff(line.strip()))
        elif code:
            out.append("")
        elif out and out[-1] != ".PP":
            out.append(".PP")
    while out and out[-1] in ("", ".PP"):
        out.pop()
    return out + ([".EE"] if code else [])


def summary(call: Call) -> str:
    """A short text for the line NAME; "" if the comment has none."""
    comment = MARK.sub(" ", " ".join(line.strip() for line in call.comment)).strip()
    device_name = call.name.replace("oriel_window_", "oriel_")
    for name in (call.name, device_name):
        own = re.search(rf"(?:^|[.;] +){name} (.*?)[.;](?: |$)", comment)
        if own:
            return own.group(1) if len(own.group(1)) <= NAME_MOST else ""
    first = re.split(r"\. ", comment)[0].rstrip(".")
    if len(first) > NAME_MOST:
        first = re.split("[:;] ", first)[0]
    if not first or len(first) > NAME_MOST or first.startswith("oriel_"):
        return ""
    return first if first[:2].isupper() else first[0].lower() + first[1:]


def return_value(call: Call) -> list[str]:
    """The section about what an int means."""
    if not re.search(r"\bint oriel_", call.prototype):
        return []
    text = RETURNS.get(call.name, "0 on success, or a negative status; see")
    out = [".SH RETURN VALUE", roff(text)]
    if text.endswith("see"):
        out += [".IR oriel/status.h ."]
        if not call.prototype.startswith("ORIEL_DEV"):
            out += ["oriel_last_error() has the text of the last failure."]
    return out


def call_page(call: Call, neighbours: list[str]) -> str:
    """The page of one call."""
    out = head(call.name, 3)
    out += [".SH NAME", f"{roff(call.name)} \\- {roff(summary(call) or call.section)}"]
    out += [".SH SYNOPSIS", ".nf", f".B #include <oriel/{call.header}>", ""]
    out += [roff(line.expandtabs(8)) for line in call.prototype.splitlines()] + [".fi"]
    out += [".SH DESCRIPTION"]
    out += paragraphs(call.text())
    structs = structs_of(call)
    if structs:
        out += [".SH STRUCTURES", ".nf"] + [roff(line.expandtabs(8)) for line in structs] + [".fi"]
    out += return_value(call)
    others = [name for name in neighbours if name != call.name][:12]
    out += [".SH SEE ALSO"] + [f".BR {roff(name)} (3)," for name in others] + [".BR oriel (7)"]
    return "\n".join(out) + "\n"


def header_text(header: str) -> list[str]:
    """The comment at the head of a header, without its first line, which is the file's name."""
    comments = [lines for kind, lines in split_items((INCLUDE / "oriel" / header).read_text())
                if kind == "comment"]
    text = comment_text(comments[1])
    return text[2:] if len(text) > 2 and not text[1] else text


def statuses() -> list[tuple[str, str]]:
    """Names and texts of status.h."""
    source = (INCLUDE / "oriel" / "status.h").read_text()
    return re.findall(r'X\((\w+), -?\d+, "(.*?)"\)', source)


def overview_page(calls: list[Call], programs: list[str]) -> str:
    """The page with which a reader begins."""
    out = head("oriel", 7)
    out += [".SH NAME", "oriel \\- one\\-sided windows between GPUs and CPUs"]
    out += [".SH SYNOPSIS", ".nf"]
    out += [f".B #include <oriel/{name}.h>" for name in ("oriel", "device", "coll")] + [""]
    out += [roff("cc program.c $(pkg-config --cflags --libs oriel)"),
            roff("oriel-run -n 4 ./a.out"), ".fi", ".SH DESCRIPTION"]
    out += paragraphs(ABOUT)
    for title, header in (("CALLS OF THE HOST", "oriel.h"), ("CALLS OF A KERNEL", "device.h")):
        out += [f".SH {title}"] + paragraphs(header_text(header))
        out += call_list([call for call in calls if call.header == header])
    out += [".SH COLLECTIVES"]
    out += call_list([call for call in calls if "coll" in call.header])
    out += [".SH STATUSES"]
    for name, text in statuses():
        out += [".TP", f".B ORIEL_{name}", roff(text)]
    if programs:
        out += [".SH SEE ALSO"]
        out += [f".BR {roff(name)} (1){',' if name != programs[-1] else ''}" for name in programs]
    return "\n".join(out) + "\n"


def call_list(calls: list[Call]) -> list[str]:
    """Names by section, each section with its title."""
    out: list[str] = []
    for section in dict.fromkeys((call.section or call.header) for call in calls):
        names = [call.name + " [C]" * call.is_collective() for call in calls
                 if (call.section or call.header) == section]
        out += [".TP", f".B {roff(section)}", roff(", ".join(names))]
    return out


def program_page(name: str, text: str) -> str:
    """The page of a program from its --help."""
    lines = text.rstrip().splitlines()
    usage = []
    while lines and lines[0].strip():
        usage.append(re.sub(r"^[Uu]sage:", "      ", lines.pop(0)).strip())
    about = " ".join(line.strip() for line in lines if line.strip()).split(". ")[0].rstrip(".")
    about = about if len(about) <= 90 else f"a tool of Oriel {version()}"
    out = head(name, 1)
    out += [".SH NAME", f"{roff(name)} \\- {roff(about[0].lower() + about[1:])}"]
    out += [".SH SYNOPSIS", ".nf"] + [roff(line) for line in usage] + [".fi"]
    out += [".SH DESCRIPTION"]
    for line in lines:
        item = re.match(r"^  (\S.*?)(?:\s{2,}(.*))?$", line)
        if item and item.group(2):
            if out[-1] == ".PP":
                out.pop()
            out += [".TP", f"\\fB{roff(item.group(1))}\\fR", roff(item.group(2))]
        elif line.strip():
            out.append(roff(line.strip()))
        elif out[-1] not in (".PP", ".SH DESCRIPTION"):
            out.append(".PP")
    return "\n".join(out) + "\n"


def main() -> int:
    """The program."""
    calls = all_calls()
    if sys.argv[1:] == ["--names"]:
        print("\n".join(call.name for call in calls))
        return 0
    if sys.argv[1:] == ["--unnamed"]:
        print("\n".join(call.name for call in calls if not summary(call)))
        return 0
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    for folder in ("man1", "man3", "man7"):
        (out / folder).mkdir(parents=True, exist_ok=True)
        for old in (out / folder).glob("oriel*"):
            old.unlink()
    sections: dict[tuple[str, str], list[str]] = {}
    for call in calls:
        sections.setdefault((call.header, call.section), []).append(call.name)
    for call in calls:
        page = call_page(call, sections[call.header, call.section])
        (out / "man3" / f"{call.name}.3").write_text(page)
    programs = [Path(program) for program in sys.argv[2:]]
    overview = overview_page(calls, [program.name for program in programs])
    (out / "man7" / "oriel.7").write_text(overview)
    for program in programs:
        help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True,
                                   timeout=20)
        text = help_text.stdout or help_text.stderr
        (out / "man1" / f"{program.name}.1").write_text(program_page(program.name, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
