#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/models.sh [NAME...] - checks the models of models/*.pml with Spin: every interleaving, for
# violated assertions and for states in which nobody can go on.  Each mutant that a model names must
# be rejected.  Prints one line per model and mutant, with the number of states.
# Exit status: 1 if a model has an error or a mutant has none; 77 without spin or a compiler.
set -uo pipefail
cd "$(dirname "$0")/../models" || exit 1
for tool in spin cc timeout; do
	if ! command -v $tool >/dev/null; then
		echo "skipped: $tool is not installed (tools/deps.sh test)"
		exit 77
	fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check MODEL MUTANT: prints "errors states"; MUTANT 0 is the model itself.
# Bounds: 512 MB and 60 s.  A search that hits them is reported as incomplete, never as passed.
check() {
	local dir=$work/$1-$2 out
	mkdir -p "$dir"
	(
		cd "$dir" && cp "$OLDPWD/$1.pml" . &&
			spin -a -DMUTANT="$2" "$1.pml" >spin.log 2>&1 &&
			cc -O1 -DSAFETY -DMEMLIM=512 -DVECTORSZ=2048 -o pan pan.c 2>cc.log &&
			timeout 60 ./pan -m200000 >pan.log 2>&1
	)
	out=$dir/pan.log
	if [ ! -s "$out" ] || grep -q 'Search not completed\|max search depth too small' "$out" &&
		! grep -q 'errors: [1-9]' "$out"; then
		echo "incomplete 0"
		cat "$dir"/*.log | tail -n 5 >&2
		return
	fi
	awk 'BEGIN { errors = "incomplete"; states = 0 }
		/errors: / { errors = $NF }
		/states, stored/ { states = $1 }
		END { print errors, states }' "$out"
}

[ $# -gt 0 ] || set -- *.pml
for model in "$@"; do
	model=${model%.pml}
	mutants=$(sed -n 's/^ \* mutants: //p' "$model.pml")
	if [ -z "$mutants" ]; then
		echo "$model: names no mutants"
		failed=1
	fi
	for mutant in 0 $mutants; do
		read -r errors states < <(check "$model" "$mutant")
		if [ "$mutant" -eq 0 ] && [ "$errors" = 0 ]; then
			printf '%-10s %9s states, no error\n' "$model" "$states"
		elif [ "$mutant" -ne 0 ] && [ "$errors" != 0 ] && [ "$errors" != incomplete ]; then
			printf '%-10s mutant %s is rejected\n' "$model" "$mutant"
		else
			printf '%-10s mutant %s: FAILED, errors: %s\n' "$model" "$mutant" "$errors"
			failed=1
		fi
	done
done
exit $failed
