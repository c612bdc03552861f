# SPDX-License-Identifier: BSD-3-Clause
"""python -m tests.run MODULE...: like unittest, but exits 77 if every test was skipped."""

import sys
import unittest


def main() -> int:
    """Runs the modules and prints the reasons of skips."""
    names = [f"tests.{name}" for name in sys.argv[1:]]
    tests = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    if not result.wasSuccessful():
        return 1
    return 77 if result.testsRun and len(result.skipped) == result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
