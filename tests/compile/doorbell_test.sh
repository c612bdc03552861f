#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# doorbell_test.sh INCLUDE - checks the order of stores when the register of a NIC is rung: the
# record, a barrier, the register, a barrier, the turn.
# No test on this machine has such a register, so the script reads the instructions.
. "$(dirname "$0")/common.sh"
include=$1

cat >"$work/ring.c" <<'EOF'
#include <oriel/device.h>
void ring(const struct ori_op_context *scope, struct oriel_queue *q, uint64_t next);
void ring(const struct ori_op_context *scope, struct oriel_queue *q, uint64_t next)
{
	if (q->mmio)
		ori_queue_ring(scope, q, next);
}
EOF
case $(uname -m) in
aarch64) want='stlr dsb stlr dsb stlr' words='^(stlr|dsb)$' ;;
x86_64) want='sfence sfence' words='^sfence$' ;;
*)
	echo "skipped: the barriers of $(uname -m) are not known to this test"
	exit 77
	;;
esac

# Prints the barriers of ring() in order, as compiler $1 generates them; on aarch64 also the release
# stores.
finds() {
	"$1" -std=gnu11 -O2 -I "$include" -S -o "$work/ring.s" "$work/ring.c" &&
		sed -n '/^ring:/,/size.*ring/p' "$work/ring.s" | awk '{ print $1 }' |
		grep -E "$words" |
		tr '\n' ' ' | grep -q "^$want "
}

for compiler in cc clang; do
	if command -v "$compiler" >/dev/null; then
		expect "doorbell with $compiler" finds "$compiler"
	else
		echo "left out: no $compiler on PATH"
	fi
done
# The search itself works: it finds that a barrier is missing.
sed -i 's/ori_queue_ring(scope, q, next)/(void)scope, q->produced = next/' "$work/ring.c"
missing() {
	! finds cc
}
expect "one that is not rung is seen" missing
finish
