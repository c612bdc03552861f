#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shmem4py_test.sh CMAKE BUILD - builds shmem4py from its source distribution against an installed
# prefix, and runs its own tests unmodified: on 1, 2 and 4 PEs that are mapped, and on 2 and 4 PEs
# that are queued.
#
# tools/shmem-env.sh makes the environment.  Without it the test is skipped; in CI that is a
# failure.
set -euo pipefail
cmake=$1 build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! environment=$("$root/tools/shmem-env.sh" --print); then
	echo "skipped: no source of shmem4py; tools/deps.sh shmem fetches it"
	[ "${CI-}" != true ] || exit 1
	exit 77
fi
python=$environment/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
tar -xf "$environment"/source/shmem4py-*.tar.gz -C "$work"
source=$(echo "$work"/shmem4py-*)
# Without optimisation: its one file with 1,500 functions would take two minutes.
CFLAGS='-O0 -g0' OSHCC=$work/prefix/bin/oshcc "$python" -m pip install -q \
	--disable-pip-version-check --no-deps --no-build-isolation --no-index \
	--target "$work/site" "$source" >"$work/log" 2>&1 || {
	tail -n 60 "$work/log"
	echo "shmem4py: the build failed"
	exit 1
}

# Numpy's own threads would crowd the few cores.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$work/site ORIEL_TIMEOUT=60
unset PYTEST_ADDOPTS

# Every PE runs all tests and prints its totals, perhaps several on one line.
totals() { grep -oE '[0-9]+ passed(, [0-9]+ subtests passed)?' "$work/out"; }

run_it() { # PES WORD [OPTION...]
	local pes=$1 word=$2
	shift 2
	if ! timeout 300 "$work/prefix/bin/oshrun" -n "$pes" "$@" --timeout 290 \
		"$python" -m pytest -q -p no:cacheprovider --rootdir "$source" "$source/test" \
		>"$work/out" 2>&1; then
		tail -n 80 "$work/out"
		echo "shmem4py: failed on $pes $word PEs"
		exit 1
	fi
	if [ "$(totals | wc -l)" -ne "$pes" ]; then
		tail -n 30 "$work/out"
		echo "shmem4py: $pes PEs should report that their tests passed"
		exit 1
	fi
	echo "shmem4py: $pes $word PEs: $(totals | sort -u | tr '\n' ' ')"
}

run_it 1 mapped
run_it 2 mapped
run_it 4 mapped
run_it 2 queued --topology 2x1
run_it 4 queued --topology 4x1
