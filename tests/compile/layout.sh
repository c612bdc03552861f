# SPDX-License-Identifier: BSD-3-Clause
# tests/compile/layout.sh - sourced.  layout_file INCLUDE SUFFIX writes $work/layout.SUFFIX.  That
# file asserts that each shared struct has the layout of this machine's C compiler.
layout_file() {
	python3 "$here/layout.py" "$1" >"$work/print.c" &&
		cc -std=c11 -O1 -I "$1" -o "$work/print" "$work/print.c" &&
		{
			echo '#include <assert.h>'
			echo '#include <stddef.h>'
			echo '#include <oriel/oriel.h>'
			echo '#include <oriel/device.h>'
			echo '#include <oriel/coll.h>'
			echo '#include <oriel/device/coll.h>'
			"$work/print"
		} >"$work/layout.$2"
}
