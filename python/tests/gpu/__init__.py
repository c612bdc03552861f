# SPDX-License-Identifier: BSD-3-Clause
"""Tests that need a GPU; tools/test-gpu.sh runs them."""
