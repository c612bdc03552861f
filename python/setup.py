# SPDX-License-Identifier: BSD-3-Clause
"""Builds the package with liboriel, its tools and the device bitcode inside.

The files come from an installed Oriel of the same version: below ORIEL_PREFIX, where pkg-config
finds it, or in a usual place.  Otherwise CMake builds and installs the tree above into a folder of
its own.  The wheel's tag names the C library (glibc) that the files need.
"""

import atexit
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
TREE = HERE.parent
TOOLS = ["oriel-run", "oriel-info", "oriel-perf", "oriel-tune", "oriel-doctor"]


def header_version(include):
    """The version that oriel/oriel.h in this folder says, or None."""
    header = Path(include) / "oriel" / "oriel.h"
    if not header.is_file():
        return None
    text = header.read_text()
    parts = re.findall(r"#define ORIEL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    return ".".join(parts)


def own_version():
    """The version of the tree above; of the package alone, what _c.py says."""
    version = header_version(TREE / "include")
    if version is None:
        text = (HERE / "oriel" / "_c.py").read_text()
        version = ".".join(re.search(r"VERSION = \((\d+), (\d+), (\d+)\)", text).groups())
    return version


def prefixes():
    """Where an Oriel may be installed.  ORIEL_PREFIX alone if it is set."""
    named = os.environ.get("ORIEL_PREFIX")
    if named:
        return [named]
    found = []
    if shutil.which("pkg-config"):
        asked = subprocess.run(
            ["pkg-config", "--variable=prefix", "oriel"], capture_output=True, text=True
        )
        found = asked.stdout.split()
    return found + ["/usr/local", "/opt/oriel", "/usr"]


def native_files(prefix):
    """Files below a prefix and their places in the package, or None if the library is missing."""
    folders = [Path(prefix) / "lib", Path(prefix) / "lib64"]
    folders += sorted((Path(prefix) / "lib").glob("*-linux-gnu*"))
    libs = [folder for folder in folders if (folder / "liboriel.so.0").is_file()]
    if not libs:
        return None
    files = {libs[0] / "liboriel.so.0": "lib/liboriel.so.0"}
    for bitcode in sorted((libs[0] / "oriel").glob("liboriel_device*.bc")):
        files[bitcode] = f"lib/{bitcode.name}"
    for tool in TOOLS:
        if (Path(prefix) / "bin" / tool).is_file():
            files[Path(prefix) / "bin" / tool] = f"bin/{tool}"
    return files


def installed():
    """The files of an installed Oriel of this version, or None."""
    for prefix in prefixes():
        version = header_version(Path(prefix) / "include")
        if version == own_version():
            files = native_files(prefix)
            if files:
                print(f"oriel: takes the library from {prefix}")
                return files
        elif version:
            print(f"oriel: {prefix} has Oriel {version}, this package is {own_version()}")
    if os.environ.get("ORIEL_PREFIX"):
        raise SystemExit(f"ORIEL_PREFIX={prefixes()[0]}: no Oriel {own_version()} there")
    return None


def built(folder):
    """The files of a build of the tree above, installed below `folder`."""
    if not (TREE / "CMakeLists.txt").is_file():
        raise SystemExit("no Oriel is installed, and its sources are not above: set ORIEL_PREFIX")
    print("oriel: no installed library of this version; builds one with CMake")
    build = Path(folder) / "build"
    parts = ["TESTS", "BENCH", "EXAMPLES", "SHMEM"]
    configure = ["cmake", "-S", str(TREE), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DCMAKE_INSTALL_LIBDIR=lib", *[f"-DORIEL_{part}=OFF" for part in parts]]
    prefix = str(Path(folder) / "prefix")
    subprocess.check_call(configure)
    subprocess.check_call(["cmake", "--build", str(build), "-j", str(os.cpu_count() or 1)])
    subprocess.check_call(["cmake", "--install", str(build), "--prefix", prefix, "--strip"])
    return native_files(prefix)


class BuildWithLibrary(build_py):
    """build_py that adds lib/ and bin/ to the package."""

    def run(self):
        super().run()
        if getattr(self, "editable_mode", False):
            return  # the tree above is used in place
        package = Path(self.build_lib) / "oriel"
        with tempfile.TemporaryDirectory(prefix="oriel-build-") as folder:
            files = installed() or built(folder)
            for source, place in files.items():
                (package / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, package / place)
        if not any(place.endswith(".bc") for place in files.values()):
            print("oriel: no device bitcode there: kernels in Triton will not work")


def glibc_of(folder):
    """The newest version of glibc that a file in the folder needs, as (2, N)."""
    newest = 17
    for path in Path(folder).rglob("*"):
        if path.parent.name in ("lib", "bin") and path.suffix != ".bc" and path.is_file():
            for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes()):
                newest = max(newest, int(minor))
    return 2, newest


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3 of this machine's architecture and C library."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        machine = platform.machine()
        if platform.libc_ver()[0] != "glibc":
            return "py3", "none", f"linux_{machine}"
        major, minor = glibc_of(self.bdist_dir)
        return "py3", "none", f"manylinux_{major}_{minor}_{machine}"


class BinaryDistribution(Distribution):
    """So that files go to platlib."""

    def has_ext_modules(self):
        return True


# Not python/build: files of an earlier build would come along.
scratch = tempfile.mkdtemp(prefix="oriel-package-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)

setup(
    options={"build": {"build_base": scratch}},
    version=own_version(),
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=BinaryDistribution,
)
