# SPDX-License-Identifier: BSD-3-Clause
"""Collectives and packets of oriel.triton, compiled without a GPU: reductions and constants.

tests/test_triton_compile.py compiles each call.  Skipped as that is.
"""

from __future__ import annotations

import re
import unittest

from .test_triton_compile import ROOT, compiled, ot, tl, triton


@triton.jit
def two_sums(team, x, n):
    """A kernel with two reductions of its own data."""
    at = tl.arange(0, 256)
    tl.store(x + at, tl.load(x + at) * 2)
    err = ot.coll_allreduce(team, 0, x, x, n, ot.FLOAT32, ot.SUM)
    if err == 0:
        err = ot.coll_allreduce(team, 0, x, x, n, ot.INT64, ot.XOR)
    tl.store(x + at, tl.load(x + at) + err)


@triton.jit
def packet_ring(win, x, right, left, rounds):
    """Packets of a few numbers, again and again."""
    at = tl.arange(0, 16)
    for _ in range(rounds):
        tl.store(x + at, tl.load(x + at) + 1)
        err = ot.packet_send(win, right, 0, x, 64)
        if err == 0:
            err = ot.packet_recv(win, left, 0, x, 64)


class Collectives(unittest.TestCase):
    """What a kernel with collectives contains."""

    def test_constants_are_those_of_the_header(self) -> None:
        headers = ROOT / "include" / "oriel" / "device"
        text = "".join((headers / name).read_text() for name in ("element.h", "reduce.h"))
        found = re.findall(r"^#define ORIEL_(TYPE|REDUCE)_(\w+) (\d+)", text, re.M)
        self.assertEqual(len(found), 19)
        renamed = {"HALF": "FLOAT16", "FLOAT": "FLOAT32", "DOUBLE": "FLOAT64"}
        for kind, name, value in found:
            name = renamed.get(name, name) if kind == "TYPE" else name
            self.assertEqual(getattr(ot, name).value, int(value), name)
            self.assertIn(name, ot.__all__)

    def test_only_the_reductions_that_are_used(self) -> None:
        """Constant types and operators choose their loops when the kernel is compiled."""
        made = compiled(two_sums, {"team": "i64", "x": "*fp32", "n": "i64"}, 90)
        loops = set(re.findall(r"ori_(?:sum|product|min|max|and|or|xor)_\w+?(?=E|\b)",
                               made.asm["ptx"]))
        kinds = {re.match(r"ori_([a-z]+_[a-z]+\d*)", loop).group(1) for loop in loops}
        self.assertEqual(kinds, {"sum_float", "xor_u64"})

    def test_small_numbers_are_not_flushed(self) -> None:
        """Sums have the bits of IEEE, as on the host."""
        made = compiled(two_sums, {"team": "i64", "x": "*fp32", "n": "i64"}, 90)
        self.assertRegex(made.asm["ptx"], r"add\.(rn\.)?f32")
        self.assertNotRegex(made.asm["ptx"], r"add\.(rn\.)?ftz")

    def test_packets_in_a_loop(self) -> None:
        """The block meets between its stores and the packet."""
        signature = {"win": "i64", "x": "*i32", "right": "i32", "left": "i32", "rounds": "i32"}
        made = compiled(packet_ring, signature, 90)
        self.assertRegex(made.asm["ptx"], r"st\.relaxed\.sys[\w.:]*\.v2")
        self.assertNotRegex(made.asm["ptx"], r"\.extern \.func")


if __name__ == "__main__":
    unittest.main()
