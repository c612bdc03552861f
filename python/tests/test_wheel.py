# SPDX-License-Identifier: BSD-3-Clause
"""The wheel: built from this tree, installed into an empty environment, used alone.

The library comes from the build that the tests use.  No compiler runs.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from oriel import _library

from . import support

TREE = support.PYTHON.parent

PROGRAM = """
import oriel

with oriel.Comm.from_env() as comm:
    window = oriel.Window(comm, bytes=64)
    window.put_signal((comm.rank + 1) % comm.size, b"hello %d" % comm.rank)
    window.wait_signal((comm.rank - 1) % comm.size)
    got = bytearray(7)
    window.get(comm.rank, got)
    assert bytes(got) == b"hello %d" % ((comm.rank - 1) % comm.size)
    window.barrier()
    print("got", bytes(got).decode())
"""

WITH_NUMPY = """
import shutil

import numpy
import oriel

assert shutil.which("cc") is None and shutil.which("gcc") is None
with oriel.Comm.from_env() as comm:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    memory = oriel.empty((4, 100), "float32", comm)
    window = oriel.Window(comm, memory)
    window.put_signal(right, numpy.full((4, 100), comm.rank, "float32"))
    window.wait_signal(left)
    assert (memory == left).all()
    print("rank", comm.rank, "has numbers")
"""

WITH_TRITON = """
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import oriel.triton as ot


@triton.jit
def send(win, team, src, x, peer):
    err = ot.put_signal(win, peer, 0, src, 0, 64, 0, ot.ADD, 1)
    err = err | ot.packet_send(win, peer, 0, x, 64)
    err = err | ot.coll_broadcast(team, 0, x, 64, 0)
    tl.store(x, err)


assert ot.library(90).startswith(sys.prefix), ot.library(90)
source = ASTSource(send, {"win": "i64", "team": "i64", "src": "i64", "x": "*i32", "peer": "i32"})
options = {"extern_libs": ot.extern_libs(90), "num_warps": 4}
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
assert ".extern .func" not in made.asm["ptx"]
print("cubin of", len(made.asm["cubin"]), "bytes")
"""


def prefix_of_the_build(folder: Path) -> Path:
    """A prefix with the library and the tools of the build, as `cmake --install` makes it."""
    library = Path(_library.library_path()).resolve()
    for name in ("lib", "bin", "include/oriel"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(library, folder / "lib" / "liboriel.so.0")
    shutil.copy2(TREE / "include" / "oriel" / "oriel.h", folder / "include" / "oriel")
    for name in ("oriel-run", "oriel-info", "oriel-perf", "oriel-tune", "oriel-doctor"):
        tool = _library.tool_path(name)
        if tool is None:
            raise unittest.SkipTest(f"{name} is not beside the library")
        shutil.copy2(tool, folder / "bin" / name)
    bitcode = _library.bitcode_paths()
    if bitcode:
        (folder / "lib" / "oriel").mkdir()
        for path in bitcode:
            shutil.copy2(path, folder / "lib" / "oriel")
    return folder


def clean_environment(folder: Path) -> dict[str, str]:
    """An environment that knows nothing of this tree."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ORIEL_", "PYTHON"))}
    env["HOME"] = str(folder)
    return env


def only(packages: list[str], folder: Path) -> str:
    """A folder with just these packages of the interpreter that runs the tests."""
    folder.mkdir()
    for package in packages:
        found = importlib.util.find_spec(package).submodule_search_locations[0]
        for path in Path(found).parent.glob(f"{package}*"):  # also its libraries and its metadata
            (folder / path.name).symlink_to(path)
    return str(folder)


def run(program: list[str], env: dict[str, str], cwd: Path) -> str:
    """Runs a program in an environment; returns what it prints."""
    done = subprocess.run(
        program,
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=support.SECONDS,
    )
    if done.returncode:
        raise AssertionError(f"{program} failed:\n{done.stdout}")
    return done.stdout


@unittest.skipUnless((TREE / "CMakeLists.txt").is_file(), "not in a source tree")
@unittest.skipUnless(
    support.have("setuptools") and support.have("wheel") and support.have("pip"),
    "pip, setuptools and wheel are needed to build a wheel without a network",
)
class Wheel(unittest.TestCase):
    def test_wheel_alone(self) -> None:
        with tempfile.TemporaryDirectory(prefix="oriel-wheel-") as text:
            folder = Path(text)
            env = clean_environment(folder)
            wheel = self.build(folder, env)
            self.contents(wheel)
            home = folder / "venv"
            run([sys.executable, "-m", "venv", str(home)], env, folder)
            pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            run([*pip, "install", "-q", "--no-index", str(wheel)], env, folder)
            self.use(home / "bin", env, folder)
            self.use_with_packages(home / "bin", env, folder)

    def build(self, folder: Path, env: dict[str, str]) -> Path:
        prefix = prefix_of_the_build(folder / "prefix")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q"]
        flags = ["--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder)]
        output = run(
            [*pip, *flags, str(support.PYTHON)], {**env, "ORIEL_PREFIX": str(prefix)}, folder
        )
        wheels = list(folder.glob("oriel-*.whl"))
        self.assertEqual(len(wheels), 1, output)
        return wheels[0]

    def contents(self, wheel: Path) -> None:
        self.assertRegex(wheel.name, r"^oriel-[\d.]+-py3-none-(many)?linux_.*\.whl$")
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("lib/liboriel.so.0", "bin/oriel-run", "bin/oriel-info", "bin/oriel-tune"):
            self.assertIn(f"oriel/{name}", names)
        found = [name for name in names if name.endswith(".bc")]
        self.assertEqual(len(found), len(_library.bitcode_paths()))

    def use(self, programs: Path, env: dict[str, str], folder: Path) -> None:
        python = str(programs / "python")
        text = run([python, "-m", "oriel.info"], env, folder)
        self.assertIn(f"{folder}/venv", text)
        self.assertIn("devices", text)
        self.assertRegex(text, r"numpy +not installed")
        script = folder / "program.py"
        script.write_text(PROGRAM)
        text = run([str(programs / "oriel-run"), "-n", "2", python, str(script)], env, folder)
        self.assertIn("got hello 0", text)
        self.assertIn("got hello 1", text)
        text = run([str(programs / "oriel-perf"), "--help"], env, folder)
        self.assertIn("put", text)

    def use_with_packages(self, programs: Path, env: dict[str, str], folder: Path) -> None:
        """numpy, and Triton where it is, on a machine without a compiler."""
        python, script = str(programs / "python"), folder / "script.py"
        env = {**env, "PATH": str(programs), "PYTHONPATH": only(["numpy"], folder / "numpy")}
        script.write_text(WITH_NUMPY)
        text = run([str(programs / "oriel-run"), "-n", "2", python, str(script)], env, folder)
        self.assertEqual(text.count("has numbers"), 2)
        if not support.have("triton") or not _library.bitcode_paths():
            print("the wheel's bitcode is not compiled: no Triton, or no bitcode", flush=True)
            return
        env["PYTHONPATH"] = only(["numpy", "triton"], folder / "triton")
        script.write_text(WITH_TRITON)
        self.assertRegex(run([python, str(script)], env, folder), r"cubin of \d+ bytes")

    def test_prefix_of_another_version(self) -> None:
        """An ORIEL_PREFIX without this version is an error, not a silent build."""
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            header = folder / "include" / "oriel" / "oriel.h"
            header.parent.mkdir(parents=True)
            header.write_text(
                "#define ORIEL_VERSION_MAJOR 9\n#define ORIEL_VERSION_MINOR 9\n"
                "#define ORIEL_VERSION_PATCH 9\n"
            )
            env = {**clean_environment(folder), "ORIEL_PREFIX": text}
            pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
            done = subprocess.run(
                [*pip, "--no-index", "-w", text, str(support.PYTHON)],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=support.SECONDS,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no Oriel", done.stdout)


if __name__ == "__main__":
    unittest.main()
