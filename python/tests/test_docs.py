# SPDX-License-Identifier: BSD-3-Clause
"""The examples of docs/python.md run, and so does the bench; python -m oriel.info prints facts."""

import re
import sys
import tempfile
import unittest
from pathlib import Path

import oriel

from . import support

GUIDE = support.PYTHON.parent / "docs" / "python.md"


class Docs(unittest.TestCase):
    @unittest.skipUnless(GUIDE.is_file(), "not in a source tree")
    def test_examples(self) -> None:
        examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
        self.assertGreaterEqual(len(examples), 5)
        for number, example in enumerate(examples):
            with tempfile.TemporaryDirectory() as folder, self.subTest(example=number):
                script = Path(folder) / "example.py"
                script.write_text(example)
                alone = "Comm.threads" in example
                launcher = [] if alone else [support.oriel_run(), "-n", "3"]
                done = support.command([*launcher, sys.executable, str(script)])
                self.assertEqual(done.returncode, 0, f"{example}\n{done.stdout}")

    def test_info(self) -> None:
        done = support.command([sys.executable, "-m", "oriel.info"])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"package     {oriel.__version__}", done.stdout)
        self.assertRegex(done.stdout, r"library +\S+ at .*liboriel")
        self.assertRegex(done.stdout, r"functions +all there")
        self.assertIn("devices", done.stdout)

    def test_bench(self) -> None:
        """The bench runs; its limit leaves room for a machine with other work."""
        script = str(support.PYTHON / "bench" / "put_signal.py")
        flags = ["--seconds", "0.3", "--limit", "30"]
        done = support.command([support.oriel_run(), "-n", "2", sys.executable, script, *flags])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"put_signal 8 +[\d.]+ +[\d.]+ +-?[\d.]+")

    def test_a_library_that_is_not_there(self) -> None:
        done = support.command([sys.executable, "-c", "import oriel"], ORIEL_LIBRARY="/none.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ORIEL_LIBRARY=/none.so: there is no such file", done.stdout)

    def test_every_public_thing_is_described(self) -> None:
        for name in oriel.__all__:
            thing = getattr(oriel, name)
            if not callable(thing):
                continue
            self.assertTrue(thing.__doc__, name)
            for part, member in vars(thing).items() if isinstance(thing, type) else ():
                if not part.startswith("_") and (callable(member) or isinstance(member, property)):
                    self.assertTrue(member.__doc__, f"{name}.{part}")


if __name__ == "__main__":
    unittest.main()
