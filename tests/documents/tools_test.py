# SPDX-License-Identifier: BSD-3-Clause
"""The tools that check the documents find what is wrong in a document."""

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))


def load(name: str) -> ModuleType:
    """A tool as a module; its file name has a hyphen."""
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), TOOLS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


commands = load("doc-commands")
quotes = load("doc-quotes")
links = load("links")


class Documents(unittest.TestCase):
    """One small document per case."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def document(self, text: str) -> Path:
        """Writes a document."""
        path = self.root / "page.md"
        path.write_text(text)
        return path

    def failures(self, text: str, seconds: float = 20) -> list[str]:
        """What doc-commands.py finds wrong in a document."""
        root = Path(tempfile.mkdtemp(dir=self.root))
        runner = commands.Runner(root, root, seconds)
        runner.document(self.document(text))
        return runner.failures

    def test_a_command_that_works(self) -> None:
        text = "```sh\nx=5; cd docs\n```\nThen:\n```sh\n[ $x = 5 ]; basename $PWD\n```\n"
        self.assertEqual(self.failures(text + "<!-- prints -->\n```text\nd...cs\n```\n"), [])

    def test_a_command_that_fails(self) -> None:
        self.assertIn("page.md:1: exit status 3", self.failures("```sh\n(exit 3)\n```\n"))
        self.assertEqual(self.failures("<!-- fails -->\n```sh\nfalse\n```\n"), [])
        self.assertEqual(len(self.failures("<!-- fails -->\n```sh\ntrue\n```\n")), 1)

    def test_output_that_differs(self) -> None:
        text = "```sh\necho one\n```\n\n<!-- prints -->\n```text\ntwo\n```\n"
        self.assertIn("page.md:6: not printed: two", self.failures(text))

    def test_a_command_that_does_not_end(self) -> None:
        found = self.failures("```sh\nsleep 30\n```\n", seconds=3)
        self.assertEqual(len(found), 1)
        self.assertIn("not finished after", found[0])

    def test_a_late_pair(self) -> None:
        """Only --verify may run again, and not for ever."""
        text = "```sh\n: --verify; echo x >>n; echo ORIEL_ETIMEDOUT; [ $(wc -l <n) = %d ]\n```\n"
        self.assertEqual(self.failures(text % 3), [])
        self.assertEqual(len(self.failures(text % 4)), 1)
        self.assertEqual(len(self.failures((text % 3).replace("--verify", ""))), 1)

    def test_notes(self) -> None:
        self.assertEqual(self.failures("<!-- slow -->\n```sh\nfalse\n```\n"), [])
        self.assertIn("no known note", self.failures("<!-- slwo -->\n```sh\ntrue\n```\n")[0])
        self.assertIn("not `bash`", self.failures("```bash\ntrue\n```\n")[0])

    def test_links(self) -> None:
        (self.root / "other.md").write_text("# A `b_c`: (d)\n\n## Twice\n\n## Twice\n")
        heading = "# Here, and there\n"
        for good in ("other.md", ".", "other.md#a-b_c-d", "other.md#twice-1", "#here-and-there",
                     "https://example.org/x#y", "<other.md>"):
            self.assertEqual(links.faults_of(self.document(f"{heading}[x]({good})\n")), [], good)
        for bad in ("missing.md", "other.md#d", "other.md#twice-2", "#there", "missing/"):
            found = links.faults_of(self.document(f"{heading}[x]({bad}) and ![y](other.md)\n"))
            self.assertEqual(len(found), 1, bad)
            self.assertIn(f"page.md:2: link to {bad}", found[0])
        for code in ("`[x](missing.md)`", "```\n[x](missing.md)\n```"):
            self.assertEqual(links.faults_of(self.document(code + "\n")), [], code)
        self.assertEqual(len(links.faults_of(self.document("[x][y]\n\n[y]: missing.md\n"))), 1)

    def test_quotations(self) -> None:
        for lines, wrong in (("int main(void)\n...\nmust(oriel_init(&comm));", 0),
                             ("must(oriel_init(&comm));\n...\nint main(void)", 1),
                             ("must(oriel_init(&other));", 1)):
            text = f"<!-- from examples/tutorial/1_window.c -->\n```c\n{lines}\n```\n"
            (block,) = quotes.blocks_of(self.document(text))
            self.assertEqual(len(quotes.faults_of(block)), wrong, lines)


if __name__ == "__main__":
    unittest.main()
