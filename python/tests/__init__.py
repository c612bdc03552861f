# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the Python package: python3 -m unittest discover -s python/tests -t python."""
