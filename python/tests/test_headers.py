# SPDX-License-Identifier: BSD-3-Clause
"""_c.py against the C headers: sizes, offsets, values, and all exported functions.

A C program that a compiler makes from the headers prints what they say.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import oriel
from oriel import _c

TREE = Path(__file__).resolve().parent.parent.parent
INCLUDE = TREE / "include"


def program() -> str:
    """A C program that prints every size, offset and value that _c.py has."""
    lines = ["#include <stdio.h>", "#include <oriel/oriel.h>", "#include <oriel/coll.h>"]
    lines += ["int main(void)", "{"]

    def show(name: str, value: str) -> None:
        lines.append(f'\tprintf("{name} %lld\\n", (long long)({value}));')

    for struct in _c.STRUCTS:
        name = f"struct {struct.__name__}"
        show(struct.__name__, f"sizeof({name})")
        for field, *_ in struct._fields_:
            show(f"{struct.__name__}.{field}", f"offsetof({name}, {field})")
            size = f"sizeof((({name} *)0)->{field})"
            show(f"{struct.__name__}.{field}#", size)
    for name in _c.CONSTANTS:
        show(name, name)
    for name in _c.STATUSES:
        show("ORIEL_" + name, "ORIEL_" + name)
    for part in ("MAJOR", "MINOR", "PATCH"):
        show("ORIEL_VERSION_" + part, "ORIEL_VERSION_" + part)
    for name in ("oriel_window_dev", "oriel_comm_dev"):
        show(name, f"sizeof(struct {name})")
    show("window_options.signals", "((struct oriel_window_options)"
         "ORIEL_WINDOW_OPTIONS_INIT).signals")
    return "\n".join([*lines, "\treturn 0;", "}", ""])


def declared() -> dict[str, str]:
    """The parameters of every function that the public headers declare, by gcc."""
    with tempfile.TemporaryDirectory() as folder:
        source, aux = Path(folder) / "all.c", Path(folder) / "aux"
        source.write_text(
            "#define ORIEL_LIBRARY\n#include <oriel/oriel.h>\n#include <oriel/coll.h>\n"
        )
        flags = ["-std=c11", f"-I{INCLUDE}", "-fsyntax-only", "-aux-info", str(aux), str(source)]
        subprocess.check_call(["gcc", *flags])
        text = aux.read_text()
    found = re.findall(r":NC \*/ extern (.*?)(oriel_\w+) \((.*)\);", text)
    return {name: f"{result.strip()}({parameters})" for result, name, parameters in found}


C_TYPES = {
    "int": ctypes.c_int,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "enum oriel_scope": ctypes.c_int,
}


def plain(text: str) -> str:
    """A C type without const and without typedefs of the C library."""
    text = re.sub(r"\bconst\b", "", text).strip()
    text = text.replace("long unsigned int", "uint64_t").replace("size_t", "uint64_t")
    return re.sub(r"\s+", " ", text)


def matches(declaration: str, argument: object) -> bool:
    """Does the ctypes type fit the C type?  A pointer fits any pointer."""
    declaration = plain(declaration)
    if declaration.endswith("*"):
        return argument in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(argument, "contents")
    expected = C_TYPES.get(declaration)
    return expected is not None and ctypes.sizeof(expected) == ctypes.sizeof(argument)


@unittest.skipUnless(INCLUDE.is_dir() and shutil.which("gcc"), "needs the headers and gcc")
class Headers(unittest.TestCase):
    def test_structs_and_values(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, binary = Path(folder) / "show.c", Path(folder) / "show"
            source.write_text(program())
            link = ["-o", str(binary), str(source)]
            subprocess.check_call(["gcc", "-std=c11", f"-I{INCLUDE}", "-fsyntax-only", str(source)])
            # -O1 leaves out device functions that nothing calls: they would need the library.
            flags = ["-std=c11", "-O1", "-DORIEL_LIBRARY", f"-I{INCLUDE}"]
            subprocess.check_call(["gcc", *flags, *link])
            text = subprocess.check_output([str(binary)], text=True)
        said = {name: int(value) for name, value in (line.split() for line in text.splitlines())}
        for struct in _c.STRUCTS:
            self.assertEqual(said[struct.__name__], ctypes.sizeof(struct), struct.__name__)
            for field, *_ in struct._fields_:
                name, descriptor = f"{struct.__name__}.{field}", getattr(struct, field)
                self.assertEqual(said[name], descriptor.offset, name)
                self.assertEqual(said[name + "#"], descriptor.size, name)
        for name, value in _c.CONSTANTS.items():
            self.assertEqual(said[name], value, name)
        for name, value in _c.STATUSES.items():
            self.assertEqual(said["ORIEL_" + name], value, name)
        version = tuple(said["ORIEL_VERSION_" + part] for part in ("MAJOR", "MINOR", "PATCH"))
        self.assertEqual(version, _c.VERSION)
        self.assertLessEqual(said["oriel_window_dev"], ctypes.sizeof(_c.oriel_window_dev))
        self.assertEqual(said["oriel_comm_dev"], ctypes.sizeof(_c.oriel_comm_dev))
        self.assertEqual(said["window_options.signals"], 16)

    def test_all_statuses(self) -> None:
        text = (INCLUDE / "oriel" / "status.h").read_text()
        listed = {name: int(value) for name, value in re.findall(r"X\((\w+), (-?\d+),", text)}
        self.assertEqual(listed, _c.STATUSES)

    def test_every_function_is_declared(self) -> None:
        text = (TREE / "src" / "liboriel.map").read_text()
        exported = set(re.findall(r"^\t(oriel_\w+);$", text, re.M))
        self.assertIn("oriel_comm_create", exported)
        known = set(_c.FUNCTIONS) | set(_c.LEFT_OUT)
        self.assertEqual(exported - known, set(), "neither declared nor left out with a reason")
        self.assertEqual(known - exported, set(), "declared, but not exported")
        self.assertEqual(set(_c.FUNCTIONS) & set(_c.LEFT_OUT), set())

    def test_parameters(self) -> None:
        prototypes = declared()
        for name, (_, arguments) in _c.FUNCTIONS.items():
            self.assertIn(name, prototypes)
            inner = prototypes[name].split("(", 1)[1].rsplit(")", 1)[0]
            parameters = [] if inner == "void" else inner.split(", ")
            self.assertEqual(len(parameters), len(arguments), name)
            for parameter, argument in zip(parameters, arguments):
                self.assertTrue(matches(parameter, argument), f"{name}: {parameter}: {argument}")

    def test_missing_function(self) -> None:
        """A function that an older library lacks: a clear error when it is called."""
        missing = _c.lib._missing("oriel_teleport")
        with self.assertRaisesRegex(oriel.Error, "has no oriel_teleport.*install a newer"):
            missing(1, 2)


if __name__ == "__main__":
    unittest.main()
