#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of the documents, and compares what they print with what the documents show.

    tools/doc-commands.py BUILD [--seconds N] [--list] [DOCUMENT ...]

A command is a fenced block of the kind `sh`.  The blocks of a document run in order, in one scratch
folder that shows the source tree.  There build/release is BUILD, and BUILD is installed in
$HOME/oriel.  Variables and the current folder last until the end of the document.

An HTML comment before a block says what is different about it:

    <!-- fails -->      the block must end with a status other than 0
    <!-- slow -->       the block does not run; nor with gpu, root, network, cluster, machine, after
    <!-- file NAME -->  before a block of any kind: it is written to NAME in the scratch folder
    <!-- prints -->     before a block `text`: each of its lines must be in the output of the
                        commands before it, in any order; `...` in a line stands for any text

`machine`: what it prints depends on the machine.  `after`: it needs what another document makes.
Exit status: 0 if all is as the documents say; 1 otherwise; 77 if a program is missing.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from doc_blocks import Block, blocks_of, documents

SOURCE = Path(__file__).resolve().parent.parent
EXEMPT = {"slow", "gpu", "root", "network", "cluster", "machine", "after"}
BLOCK_SECONDS = 60.0
VERIFY_TRIES = 3


def word_of(block: Block) -> str:
    """The first word of the note of a block, which decides what happens to it."""
    return block.note.split(":")[0].strip()


def misspelt(block: Block) -> str | None:
    """A comment before a command is one of the known words: a misspelt one must not hide it."""
    if block.kind in {"bash", "console", "shell"}:
        return f"{block.place}: a command is a block of the kind `sh`, not `{block.kind}`"
    if block.kind == "sh" and word_of(block) not in EXEMPT | {"", "fails"}:
        return f"{block.place}: \"{block.note}\" is no known note of a command"
    return None


def is_late(block: Block, output: str) -> bool:
    """Has `oriel-info --verify` found a late pair?  Its waits are short by design."""
    verifies = any("--verify" in line for line in block.lines)
    return verifies and re.search("ORIEL_ETIMEDOUT|did not end within", output) is not None


class Scratch:
    """The folder where the commands of one document run, and their environment."""

    def __init__(self, root: Path, document: Path, build: Path):
        name = f"{document.parent.name}-{document.stem}"
        self.folder = root / name
        self.home = root / "home"
        self.state = root / f"{name}.state"
        self.folder.mkdir()
        for entry in SOURCE.iterdir():
            if entry.name not in {"build", ".git"}:
                (self.folder / entry.name).symlink_to(entry)
        (self.folder / "build").mkdir()
        (self.folder / "build" / "release").symlink_to(build)
        self.state.write_text(f"cd {self.folder}\n")

    def run(self, block: Block, seconds: float) -> tuple[int | None, str]:
        """Exit status (None: the time is over) and output of a block."""
        script = (
            f"set -ea\n. {self.state}\n" + "\n".join(block.lines) + "\n"
            f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{self.state}\n"
        )
        job = subprocess.Popen(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env=self.environment(),
        )
        try:
            output, _ = job.communicate(timeout=seconds)
            return job.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            output, _ = job.communicate()
            return None, output

    def environment(self) -> dict[str, str]:
        """The caller's variables without those of Oriel, and a home folder of its own."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith("ORIEL_")}
        return kept | {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / ".cache")}


def not_printed(block: Block, output: str) -> list[str]:
    """The lines of a block that the output does not have."""
    there = [line.rstrip() for line in output.splitlines()]
    missing = []
    for line in block.lines:
        if not line.strip(" ."):
            continue
        parts = [re.escape(part) for part in line.rstrip().split("...")]
        pattern = re.compile(".*".join(parts))
        if not any(pattern.fullmatch(have) for have in there):
            missing.append(line)
    return missing


class Runner:
    """Runs documents and counts what went wrong."""

    def __init__(self, root: Path, build: Path, seconds: float):
        self.root = root
        self.build = build
        self.deadline = time.monotonic() + seconds
        self.ran = 0
        self.exempt = 0
        self.failures: list[str] = []

    def fail(self, text: str, output: str = "") -> None:
        """Notes a failure and prints it, with the end of the output."""
        self.failures.append(text)
        print(f"FAILED {text}")
        for line in output.splitlines()[-30:]:
            print(f"    {line}")

    def command(self, scratch: Scratch, block: Block, tries: int = VERIFY_TRIES) -> str:
        """Runs one block and returns its output.  Again if the machine was too slow for it."""
        left = min(BLOCK_SECONDS, self.deadline - time.monotonic())
        if left <= 0:
            self.fail(f"{block.place}: no time is left for it")
            return ""
        start = time.monotonic()
        status, output = scratch.run(block, left)
        self.ran += 1
        print(f"{block.place}: {time.monotonic() - start:.1f} s", flush=True)
        if tries > 1 and is_late(block, output):
            print(f"{block.place}: somebody was late: once more; it printed:", flush=True)
            print(output, flush=True)
            return self.command(scratch, block, tries - 1)
        if status is None:
            self.fail(f"{block.place}: not finished after {left:.0f} s", output)
        elif (status != 0) != (word_of(block) == "fails"):
            self.fail(f"{block.place}: exit status {status}", output)
        return output

    def document(self, path: Path) -> None:
        """Runs the commands of one document in order."""
        blocks = blocks_of(path)
        wrong = [text for text in map(misspelt, blocks) if text]
        for text in wrong:
            self.fail(text)
        if wrong or not any(block.kind == "sh" for block in blocks):
            return
        scratch = Scratch(self.root, path, self.build)
        output: str | None = None
        for block in blocks:
            if block.kind == "sh":
                if word_of(block) in EXEMPT:
                    self.exempt += 1
                    output = None
                else:
                    output = self.command(scratch, block)
            elif block.note.startswith("file "):
                name = Path(block.note.removeprefix("file ").strip()).name
                (scratch.folder / name).write_text("\n".join(block.lines) + "\n")
            elif block.note == "prints" and output is not None:
                for line in not_printed(block, output):
                    self.fail(f"{block.place}: not printed: {line}", output)


def installed(root: Path, build: Path) -> None:
    """Installs the build where README.md puts it."""
    command = ["cmake", "--install", str(build), "--prefix", str(root / "home" / "oriel")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"cmake --install {build} failed:\n{done.stdout}{done.stderr}")


def list_commands(paths: list[Path]) -> None:
    """Prints every command and whether it runs."""
    for path in paths:
        for block in blocks_of(path):
            if block.kind == "sh":
                print(f"{block.place}: {word_of(block) or 'runs'}")
                print("\n".join(f"    {line}" for line in block.lines))


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="a build folder, such as build/release")
    parser.add_argument("documents", type=Path, nargs="*", help="default: all")
    parser.add_argument("--seconds", type=float, default=230, help="for all commands together")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    options = parser.parse_args()
    paths = options.documents or documents(SOURCE)
    if options.list:
        list_commands(paths)
        return 0
    for program in ("bash", "cc", "cmake", "pkg-config"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed (tools/deps.sh)")
            return 77
    with tempfile.TemporaryDirectory(prefix="oriel-documents-") as folder:
        root = Path(folder)
        installed(root, options.build.resolve())
        runner = Runner(root, options.build.resolve(), options.seconds)
        for path in paths:
            runner.document(path.resolve())
    print(f"{runner.ran} commands ran, {runner.exempt} did not, {len(runner.failures)} failures")
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
