# SPDX-License-Identifier: BSD-3-Clause
"""python -m tests.run MODULE...: like unittest, but exits 77 if every test was skipped."""

import sys
import unittest


def _load(name: str) -> unittest.TestSuite:
    """The tests of a module.  One that skips itself while it is imported has one skipped test."""
    try:
        return unittest.defaultTestLoader.loadTestsFromName(name)
    except unittest.SkipTest as skip:
        reason = str(skip)

    def skipped(test: unittest.TestCase) -> None:
        test.skipTest(reason)

    case = type(name, (unittest.TestCase,), {"test_module": skipped})
    return unittest.TestSuite([case("test_module")])


def main() -> int:
    """Runs the modules and prints the reasons of skips."""
    tests = unittest.TestSuite(_load(f"tests.{name}") for name in sys.argv[1:])
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    if not result.wasSuccessful():
        return 1
    return 77 if result.testsRun and len(result.skipped) == result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
